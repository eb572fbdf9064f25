"""The structure that lib/README.md draws, held against the code."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIB = ROOT / "lib"

# What a folder may include besides itself.
LAYERS = {
    "base": set(),
    "diagnostics": {"base"},
    "syntax": {"base", "diagnostics"},
    "render": {"base", "diagnostics", "syntax"},
    "sharding": {"base"},
    "manifest": {"base", "diagnostics", "syntax", "sharding"},
    "graph": {"base", "diagnostics", "syntax"},
    "model": {"base", "diagnostics", "syntax", "sharding", "graph"},
    "plan": {"base", "diagnostics", "syntax", "sharding"},
    "match": {"base", "diagnostics", "sharding", "model", "plan"},
    "weights": {"base", "diagnostics", "syntax", "sharding", "model"},
    "emit": {"base", "diagnostics", "syntax", "sharding", "manifest", "plan"},
    "measure": {"base", "diagnostics", "sharding", "manifest"},
    "report": {"base", "diagnostics", "syntax", "sharding", "manifest", "emit", "measure", "remedy"},
    "editor": {"base", "diagnostics", "syntax", "sharding", "model", "plan", "match", "infer", "report"},
    "cost": {
        "base",
        "diagnostics",
        "syntax",
        "sharding",
        "manifest",
        "measure",
        "graph",
        "ops",
        "model",
        "plan",
        "match",
        "infer",
        "walk",
    },
    "device": {"base", "diagnostics", "sharding"},
    "ranks": {"base", "diagnostics", "render", "sharding", "manifest", "device"},
    "shards": {"base", "diagnostics", "syntax", "sharding", "manifest", "weights", "device", "ranks"},
    "run": {"base", "diagnostics", "sharding", "manifest", "device", "ranks"},
    "load": {"base", "diagnostics", "render", "sharding", "manifest", "ranks", "shards"},
    "infer": {"base", "diagnostics", "sharding", "manifest", "model", "plan", "match"},
    "ops": {"base", "diagnostics", "sharding", "graph"},
    "walk": {"base", "diagnostics", "sharding", "graph", "ops", "model", "plan", "match", "infer"},
    "dialects": {"base", "diagnostics", "sharding", "model", "plan", "match", "infer"},
    "draft": {
        "base",
        "diagnostics",
        "syntax",
        "infer",
        "manifest",
        "match",
        "model",
        "plan",
        "sharding",
        "walk",
        "judge.h",
    },
    "remedy": {
        "base",
        "diagnostics",
        "draft",
        "infer",
        "manifest",
        "measure",
        "model",
        "ops",
        "plan",
        "walk",
        "judge.h",
        "price.h",
    },
}

# The only files that may see a third-party header.
THIRD_PARTY = {
    "nlohmann/": {"lib/syntax/json_reader.cc"},
    "openssl/": {"lib/base/sha256.cc"},
    "yaml-cpp/": {"lib/syntax/yaml_tree.cc"},
    "re2/": {"lib/match/pattern.cc"},
    "CLI/": {
        "tools/tpplan/command_line.cc",
        "tools/tpplan/apply_settings.cc",
        "tools/cli/describe_app.cc",
        "tools/cli/number_options.cc",
        "tools/cli/line_faults.cc",
        "tools/cli/parse_line.cc",
        "tools/cli/program.cc",
        "tools/tpplan-exec/command_line.cc",
    },
    "spdlog/spdlog.h": set(),  # a logger costs a build more than all that it would say here
    "spdlog/sinks": set(),
}


def sources():
    found = [
        p for folder in ("lib", "tools") for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".h", ".cc", ".cu")
    ]
    return [p for p in found if p.parent != ROOT / "tools/cmake"]  # what the configuration tries, and no program holds


def includes(path):
    return re.findall(r'^#include [<"]([^>"]+)[>"]', path.read_text(), re.M)


def test_no_include_points_up():
    wrong = []
    for path in LIB.rglob("*"):
        folder = path.relative_to(LIB).parts[0]
        if path.suffix not in (".h", ".cc") or folder not in LAYERS:
            continue
        for header in includes(path):
            target = header.split("/")[0]
            if (LIB / header).exists() and target != folder and target not in LAYERS[folder]:
                wrong.append(f"{path.relative_to(ROOT)} includes {header}")
    assert not wrong


def test_every_folder_has_its_layer():
    assert {p.name for p in LIB.iterdir() if p.is_dir()} == set(LAYERS)


def test_no_phase_asks_which_dialect_it_is_in():
    """Phases ask columns of the row; that a plan is glob by default is the one place that names a dialect."""
    asks = re.compile(r"\bk[A-Z]\w*Dialect\b|dialect->name *[=!]=|dialect *[=!]= *&")
    wrong = [
        str(path.relative_to(ROOT))
        for path in sources()
        if path.parent.name != "dialects"
        and path.stem != "dialects"
        and asks.search(path.read_text().replace("const DialectRow* dialect = &kGlobDialect;", ""))
    ]
    assert not wrong


def test_third_party_headers_stand_behind_one_file_each():
    wrong = []
    for path in sources():
        for header in includes(path):
            for prefix, allowed in THIRD_PARTY.items():
                if header.startswith(prefix) and str(path.relative_to(ROOT)) not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)} includes {header}")
    assert not wrong


def test_no_json_is_written_by_hand():
    """A text in the code that begins as a piece of JSON with a key does: all JSON goes through syntax/json_writer.h. A help
    that shows what to write into a file begins with words."""
    by_hand = re.compile(r'(?<!\\)"(?:\\n|[\s,:{}\[\]])*\\"[^"\\]*\\" *:')
    assert (
        by_hand.search('out += fmt::format("{}{{\\"kind\\": ')
        and by_hand.search('",\\n\\"x\\":')
        and not by_hand.search('"write \\"kind\\": ')
    )
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}" for path in sources() for found in by_hand.finditer(path.read_text())
    ]
    assert not wrong


def test_no_header_includes_fmt():
    assert not [p for p in LIB.rglob("*.h") if any("fmt" in header for header in includes(p))]


def test_each_phase_is_named_by_its_header_and_in_the_readme():
    readme = (LIB / "README.md").read_text()
    phases = [
        "model/read_model",
        "plan/read_plan",
        "match/match_plan",
        "infer/infer_params",
        "infer/resolve_ties",
        "infer/check_heads",
        "infer/apply_fsdp",
        "infer/check_coverage",
        "infer/check_limits",
        "match/match_patterns",
        "infer/infer_boundaries",
        "infer/build_manifest",
        "manifest/write_manifest",
        "manifest/read_manifest",
    ]
    for phase in phases:
        name = phase.split("/")[1]
        assert re.search(rf"\b{name}\(", (LIB / f"{phase}.h").read_text()), phase
        assert f"`{name}` ({phase}.h)" in readme, phase


def test_every_source_file_is_built():
    cmake = "".join((ROOT / path).read_text() for path in ("CMakeLists.txt", "tools/cmake/programs.cmake"))
    folders = {word for line in re.findall(r"^tpplan_sources\(\w+ ([^)]+)\)", cmake, re.M) for word in line.split()}
    missing = [
        str(p.relative_to(ROOT))
        for p in sources()
        if p.suffix == ".cc" and str(p.parent.relative_to(ROOT)) not in folders
    ]
    assert not missing


def kinds():
    return re.findall(
        r'^TPPLAN_DIAGNOSTIC\((TP\d{4}), (\w+), (\w+), "([^"]+)"\)',
        (LIB / "diagnostics/diagnostic_kinds.def").read_text(),
        re.M,
    )


def test_diagnostic_numbers_are_unique_and_ascend():
    codes = [code for code, *_ in kinds()]
    assert codes == sorted(set(codes))


def test_every_diagnostic_is_reported_somewhere():
    text = "".join(p.read_text() for p in sources())
    assert not [code for code, *_ in kinds() if f"Code::{code}" not in text and f"[{code}]" not in text]


def test_every_diagnostic_has_a_page_and_every_page_a_diagnostic():
    pages = {p.stem for p in (LIB / "diagnostics/explain").glob("*.md")}
    assert pages == {code for code, *_ in kinds()}


def test_only_agreed_entries_stand_at_the_top_level():
    agreed = {
        "CMakeLists.txt",
        "CMakePresets.json",
        "LICENSE",
        "README.md",
        "lib",
        "plans",
        "schemas",
        "tests",
        "tools",
    }
    assert {p.name for p in ROOT.iterdir() if not p.name.startswith((".", "build", "dist"))} <= agreed


def test_exporters_know_the_fused_projections_of_the_table():
    table = re.findall(r'\{"(\w+)", HeadRole::FusedInBlocks\b', (LIB / "model/attention_names.cc").read_text())
    exporter = (ROOT / "tools/python/tpplan/export/heads.py").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"\nIN_BLOCKS = \((.*?)\)", exporter)[1])
    assert sorted(table) == sorted(names)


VERSION = re.search(r'^#define TPPLAN_VERSION "([0-9.]+)"$', (LIB / "base/version.h").read_text(), re.M).group(1)


def test_the_version_stands_in_one_place():
    """What releases are called where others name one is all that is written beside it."""
    files = [
        p
        for folder in ("lib", "tools", "schemas", ".github")
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and not re.search(r"\.egg-info|__pycache__|tools/python/build", str(p))
    ]
    files += [p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"]
    releases = {"README.md": ["tpplan@v", "rev: v", "tpplan=="], ".pre-commit-hooks.yaml": ["rev: v"]}
    wrong = []
    for path in files:
        text = path.read_bytes().decode(errors="replace")
        for release in releases.get(str(path.relative_to(ROOT)), []):
            assert re.findall(re.escape(release) + r"([\w.]+)", text) == [VERSION], path
            text = text.replace(release + VERSION, "")
        if VERSION in text and path != LIB / "base/version.h":
            wrong.append(str(path.relative_to(ROOT)))
    assert not wrong


def test_cmake_and_python_read_the_version(tmp_path):
    lines = (ROOT / "CMakeLists.txt").read_text().split("project(")[0]
    (tmp_path / "version.cmake").write_text(lines.replace("lib/base", f"{LIB}/base") + 'message("${version}")\n')
    assert (
        subprocess.run(
            ["cmake", "-P", tmp_path / "version.cmake"], capture_output=True, text=True, check=True
        ).stderr.strip()
        == VERSION
    )
    pytest.importorskip("setuptools")
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"], cwd=ROOT / "tools/python", capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == VERSION
