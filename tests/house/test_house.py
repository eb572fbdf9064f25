"""The structure described in lib/README.md, compared with the code."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIB = ROOT / "lib"

# The folders of the walk, and the folders of the walk that each may include.
WALK = {
    "layers": "",
    "state": "layers",
    "report": "state",
    "run": "state report",
    "dtensor": "state report run",
    "operation": "state report dtensor",
    "boundary": "state report run operation",
    "local": "state report operation",
    "backward": "state report run dtensor",
}
UNDER_WALK = {"base", "diagnostics", "sharding", "ops", "model", "styles", "plan", "resolve/match", "resolve/infer"}

# What a folder may include besides itself.
LAYERS = {
    "base": set(),
    "diagnostics": {"base"},
    "text": {"base", "diagnostics"},
    "render": {"base", "diagnostics", "text"},
    "sharding": {"base"},
    "manifest": {"base", "diagnostics", "text", "sharding"},
    "diff": {"base", "diagnostics", "text", "sharding", "manifest"},
    "programs": {"base", "diagnostics", "text", "sharding"},
    "model": {"base", "diagnostics", "text", "sharding", "programs"},
    "styles": {"base", "sharding"},
    "plan": {"base", "diagnostics", "text", "sharding", "styles"},
    "resolve/match": {"base", "diagnostics", "sharding", "model", "plan"},
    "resolve/infer": {"base", "diagnostics", "sharding", "manifest", "model", "plan", "resolve/match"},
    "resolve/heuristics": {"base", "diagnostics", "sharding", "model", "plan", "resolve/match", "resolve/infer"},
    "resolve/dialects": {"base", "diagnostics", "sharding", "model", "plan", "resolve/match", "resolve/infer"},
    "ops": {"base", "diagnostics", "sharding", "model"},
    **{f"walk/{name}": UNDER_WALK | {f"walk/{below}" for below in belows.split()} for name, belows in WALK.items()},
    "walk": UNDER_WALK | {f"walk/{name}" for name in WALK},
    "topology": {"base", "diagnostics", "text", "sharding"},
    "cost": {"base", "diagnostics", "sharding", "manifest", "topology", "ops", "model", "plan", "walk/state"},
    "judge": UNDER_WALK | {"manifest", "cost", "walk", "walk/state", "walk/layers", "resolve/heuristics", "programs"},
    "suggest": {
        "base",
        "diagnostics",
        "text",
        "sharding",
        "manifest",
        "programs",
        "ops",
        "model",
        "plan",
        "resolve/match",
        "resolve/infer",
        "resolve/heuristics",
        "walk",
        "topology",
        "cost",
        "judge",
    },
    "search": {
        "base",
        "diagnostics",
        "sharding",
        "manifest",
        "resolve/match",
        "ops",
        "model",
        "plan",
        "resolve/infer",
        "walk/layers",
        "topology",
        "cost",
        "judge",
        "suggest",
    },
    "weights": {"base", "diagnostics", "text", "sharding"},
    "hf_configs": {"base", "diagnostics", "text", "sharding", "model", "weights"},
    "emit": {"base", "diagnostics", "text", "sharding", "manifest", "plan"},
    "report": {
        "base",
        "diagnostics",
        "text",
        "sharding",
        "manifest",
        "diff",
        "emit",
        "plan",
        "topology",
        "cost",
        "suggest",
        "search",
    },
    "editor": {
        "base",
        "diagnostics",
        "text",
        "sharding",
        "model",
        "styles",
        "plan",
        "resolve/match",
        "resolve/infer",
        "report",
    },
    "exec/device": {"base", "diagnostics", "sharding"},
    "exec/ranks": {"base", "diagnostics", "render", "sharding", "manifest", "exec/device"},
    "exec/shards": {"base", "diagnostics", "text", "sharding", "manifest", "weights", "exec/device", "exec/ranks"},
    "exec/run": {"base", "diagnostics", "sharding", "manifest", "exec/device", "exec/ranks"},
    "exec/load": {"base", "diagnostics", "render", "sharding", "manifest", "exec/ranks", "exec/shards"},
}

# The only files that may include a third-party header.
THIRD_PARTY = {
    "nlohmann/": {"lib/text/json_reader.cc"},
    "openssl/": {"lib/base/sha256.cc"},
    "yaml-cpp/": {"lib/text/yaml_tree.cc"},
    "re2/": {"lib/resolve/match/pattern.cc"},
    "CLI/": {
        "tools/tpplan/command_line.cc",
        "tools/tpplan/apply_settings.cc",
        "tools/cli/describe_app.cc",
        "tools/cli/number_options.cc",
        "tools/cli/line_errors.cc",
        "tools/cli/parse_line.cc",
        "tools/cli/program.cc",
        "tools/tpplan-exec/command_line.cc",
    },
    "spdlog/spdlog.h": set(),  # a logger would cost more build time than its few uses are worth
    "spdlog/sinks": set(),
}


def sources():
    found = [
        p for folder in ("lib", "tools") for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".h", ".cc", ".cu")
    ]
    return [p for p in found if p.parent != ROOT / "tools/cmake"]  # probes of the configuration, part of no program


def includes(path):
    return re.findall(r'^#include [<"]([^>"]+)[>"]', path.read_text(), re.M)


def layer_of(path):
    """The folder of LAYERS with this file of lib; the file's path if there is none."""
    names = ["/".join(path.parts[:length]) for length in (2, 1)]
    return next((name for name in names if name in LAYERS), str(path))


def test_no_include_points_up():
    wrong = []
    for path in LIB.rglob("*"):
        folder = layer_of(path.relative_to(LIB))
        if path.suffix not in (".h", ".cc", ".cu") or folder not in LAYERS:
            continue
        for header in includes(path):
            target = layer_of(pathlib.PurePath(header))
            if (LIB / header).exists() and target != folder and target not in LAYERS[folder]:
                wrong.append(f"{path.relative_to(ROOT)} includes {header}")
    assert not wrong


def test_every_folder_has_its_layer():
    assert {layer_of(p.relative_to(LIB)) for p in LIB.rglob("*.h") if p.parent != LIB} == set(LAYERS)


def arrows(unit_of):
    """{unit: units that it includes} for all files of lib; `unit_of` maps a path relative to lib to its unit."""
    found = {}
    for path in [p for p in LIB.rglob("*") if p.suffix in (".h", ".cc", ".cu", ".def")]:
        unit = unit_of(path.relative_to(LIB))
        targets = {unit_of(pathlib.PurePath(header)) for header in includes(path) if (LIB / header).exists()}
        found[unit] = found.get(unit, set()) | targets - {unit}
    return found


def circles(graph):
    """Groups of units that reach each other, each sorted."""

    def reached(start):
        seen, queue = set(), [start]
        while queue:
            for unit in graph.get(queue.pop(), ()):
                if unit not in seen:
                    seen.add(unit)
                    queue.append(unit)
        return seen

    reach = {unit: reached(unit) for unit in graph}
    return sorted({tuple(sorted(b for b in reach[a] if a in reach.get(b, ()))) for a in graph if a in reach[a]})


@pytest.mark.parametrize(
    "unit_of", [lambda path: path.with_suffix(""), lambda path: path.parent], ids=["room", "folder"]
)
def test_no_includes_in_a_circle(unit_of):
    """A unit is a header with its source file. Types are lowest, parts above them, and the entry points on top."""
    assert circles({1: {2}, 2: {3}, 3: {2}}) == [(2, 3)]
    assert [[str(unit) for unit in circle] for circle in circles(arrows(unit_of))] == []


def test_no_phase_tests_for_a_dialect():
    """Phases read columns of the dialect's row. Only the default of a plan, glob, names a dialect."""
    asks = re.compile(r"\bk[A-Z]\w*Dialect\b|dialect->name *[=!]=|dialect *[=!]= *&")
    wrong = [
        str(path.relative_to(ROOT))
        for path in sources()
        if path.parent.name != "dialects"
        and path.stem != "dialects"
        and asks.search(path.read_text().replace("const DialectRow* dialect = &kGlobDialect;", ""))
    ]
    assert not wrong


def test_third_party_headers_have_one_file_each():
    wrong = []
    for path in sources():
        for header in includes(path):
            for prefix, allowed in THIRD_PARTY.items():
                if header.startswith(prefix) and str(path.relative_to(ROOT)) not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)} includes {header}")
    assert not wrong


def test_no_json_is_written_by_hand():
    """Finds string literals that begin with a JSON key: all JSON goes through text/json_writer.h. A help that shows JSON begins with
    words."""
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


def test_each_phase_has_its_header_and_is_in_the_readme():
    readme = (LIB / "README.md").read_text()
    phases = [
        "model/read_model",
        "plan/read_plan",
        "resolve/match/match_plan",
        "resolve/infer/infer_params",
        "resolve/infer/resolve_ties",
        "resolve/infer/check_heads",
        "resolve/infer/apply_fsdp",
        "resolve/infer/check_coverage",
        "resolve/infer/check_limits",
        "resolve/match/match_patterns",
        "resolve/infer/infer_boundaries",
        "resolve/infer/build_manifest",
        "manifest/write_manifest",
        "manifest/read_manifest",
    ]
    for phase in phases:
        name = phase.split("/")[-1]
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
        r'^TPPLAN_DIAGNOSTIC\((TP\d{4}), (\w+), \w+, \w+, "[^"]+"',
        (LIB / "diagnostics/diagnostic_kinds.def").read_text(),
        re.M,
    )


def test_diagnostic_numbers_are_unique_and_ascend():
    ids, names = zip(*kinds())
    assert list(ids) == sorted(set(ids)) and len(set(names)) == len(names)


def test_every_diagnostic_is_reported_somewhere():
    text = "".join(p.read_text() for p in sources())
    assert not [kind for kind in kinds() if f"Code::{kind[1]}" not in text and f"[{kind[0]}]" not in text]


def test_diagnostics_and_pages_correspond_one_to_one():
    pages = {p.stem for p in (LIB / "diagnostics/explain").glob("*.md")}
    assert pages == {id for id, _ in kinds()}


def test_only_agreed_entries_are_at_the_top_level():
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


def test_exporters_have_the_fused_projections_of_the_table():
    table = re.findall(r'\{"(\w+)", HeadRole::FusedInBlocks\b', (LIB / "model/attention_names.cc").read_text())
    exporter = (ROOT / "tools/python/tpplan/export/heads.py").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"\nIN_BLOCKS = \((.*?)\)", exporter)[1])
    assert sorted(table) == sorted(names)


VERSION = re.search(r'^#define TPPLAN_VERSION "([0-9.]+)"$', (LIB / "base/version.h").read_text(), re.M).group(1)


def test_version_is_in_one_place():
    """Only the names of releases, in examples for users, are written elsewhere."""
    files = [
        p
        for folder in ("lib", "tools", "schemas", ".github")
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and not re.search(r"\.egg-info|__pycache__|tools/python/build", str(p))
    ]
    files += [p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"]
    releases = {"tools/README.md": ["tpplan@v", "rev: v", "tpplan=="], ".pre-commit-hooks.yaml": ["rev: v"]}
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
