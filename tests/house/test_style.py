"""Rules for C++ files: nodiscard results, complete tables, and formatting."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def files(*endings):
    listed = [
        p for folder in ("lib", "tools", "tests") for p in sorted((ROOT / folder).rglob("*")) if p.suffix in endings
    ]
    assert listed
    return listed


# At the start of a line of a header: the result type of a function, and its name. Results by reference are for chaining.
DECLARATION = re.compile(
    r"^(?:TPPLAN_HOST_DEVICE |inline |constexpr |static )*(?!void\b|return\b|using\b|struct\b|enum\b|namespace\b|template\b)"
    r"((?:const )?[A-Za-z_][\w:]*(?:<[^;()]*>)?(?: ?\*)?) ([a-z_]\w*)\(",
    re.M,
)


def undecided(text):
    return [name for _, name in DECLARATION.findall(text)]


# The result is a convenience: the function has reported the error, or has done its work.
MAY_BE_DROPPED = {
    "report",
    "report_error",
    "report_specs_error",
    "report_wrong_kind",
    "usage_error",
    "print_raw",
    "print_diagnostics",
    "check_boundary_module",  # it has reported the diagnostic
    "for_each_entry",
    "read_axis",
    "read_integer",
    "read_number",
    "read_bool",  # a reader of plans continues, and reports more
    "for_each_contiguous_range",  # true unless its visitor stops
    "insert",
    "join",
    "add_module",  # the added module can be found again
    "print",
    "send_frame",  # a lost reader is reported at the end, a lost peer is found by reading
}


def test_results_are_nodiscard():
    """Every function of a header that returns a value is [[nodiscard]]; a deliberately dropped result has a cast."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files(".h")
        if path.parts[len(ROOT.parts)] != "tests"
        for name in undecided(path.read_text())
        if name not in MAY_BE_DROPPED
    ]
    assert not wrong


def test_nodiscard_check_finds_a_missing_attribute():
    assert undecided("bool read_axis(Reader& reader);\n") == ["read_axis"]
    assert undecided("inline std::vector<std::pair<int, int>> pairs_of(const Map& map) {\n") == ["pairs_of"]
    assert not undecided(
        "[[nodiscard]] bool read_axis(Reader& reader);\nvoid add(int);\nParam& add_param(Graph& graph);\n"
    )


# Unconstrained templates of the standard library: with an argument of namespace std, an unqualified call may select them, depending on the
# headers included before.
TAKEN = r"^(?:[\w:<>&*\[\] ]+ )(bind|invoke|apply|exchange)\("


def test_no_function_has_the_name_of_a_generic_std_template():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files(".h", ".cc")
        for name in re.findall(TAKEN, path.read_text(), re.M)
        if not path.parts[len(ROOT.parts)] == "tests"
    ]
    assert not found
    assert re.findall(TAKEN, "void bind(Walk& walk, int value);", re.M) == ["bind"]


def test_enum_table_size_uses_the_last_enumerator():
    """`static_assert(std::size(table) == static_cast<size_t>(Enum::Last) + 1)` holds only if Last is the last enumerator."""
    enums = {}
    for path in files(".h", ".cc"):
        for name, body in re.findall(r"enum class (\w+)[^{;]*\{([^}]*)\}", path.read_text()):
            body = re.sub(r"//[^\n]*", "", body)
            enums.setdefault(name, set()).add(
                [word.split("=")[0].strip() for word in body.split(",") if word.strip()][-1]
            )
    asserted = [
        (path, enum, last)
        for path in files(".h", ".cc")
        for enum, last in re.findall(
            r"static_assert\(std::size\(\w+\) == static_cast<size_t>\((\w+)::(\w+)\) \+ 1\)", path.read_text()
        )
    ]
    assert len(asserted) >= 14
    assert not [f"{path.relative_to(ROOT)}: {enum}::{last}" for path, enum, last in asserted if last not in enums[enum]]


def test_enum_table_size_is_asserted():
    """A table indexed with `static_cast<size_t>(an enumerator)` has a static_assert on its size in the same folder."""
    indexed = re.compile(r"(?<![.>\w])(k[A-Z]\w*|names)\[static_cast<size_t>\(")
    wrong = []
    for path in files(".h", ".cc"):
        for table in set(indexed.findall(path.read_text())):
            near = "".join(p.read_text() for p in path.parent.glob("*.[hc]*"))
            if not re.search(rf"static_assert\(std::size\({table}\) ==", near):
                wrong.append(f"{path.relative_to(ROOT)}: {table}")
    assert not wrong


def installed(*names):
    """Paths of these programs: next to the Python that runs the tests, or on the PATH."""
    beside = [str(pathlib.Path(os.sys.executable).parent / name) for name in names]
    return [place for place in map(shutil.which, (*beside, *names)) if place]


def clang_format():
    """clang-format 14, from tests/requirements.txt or the system: other versions format differently."""
    for place in installed("clang-format", "clang-format-14"):
        if "version 14." in subprocess.run([place, "--version"], text=True, capture_output=True).stdout:
            return place
    return None


def test_cpp_is_formatted_with_clang_format():
    if not clang_format():
        pytest.skip("clang-format 14 is missing")
    run = subprocess.run(
        [clang_format(), "--dry-run", "-Werror", *files(".h", ".cc", ".cu")], text=True, capture_output=True, cwd=ROOT
    )
    assert run.returncode == 0, "\n".join(
        sorted({line.split(":")[0] for line in run.stderr.splitlines() if "error:" in line})
    )


@pytest.mark.parametrize("command", [("format", "--check"), ("check",)], ids=["formatted", "without unused names"])
def test_python_passes_ruff(command):
    if not (ruff := installed("ruff")):
        pytest.skip("ruff is missing")
    run = subprocess.run([ruff[0], *command, "--no-cache", "."], text=True, capture_output=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr


def scripts():
    """Programs without an extension, by their first line."""
    listed = [
        p
        for folder in ("tools", "tools/scripts", "tools/generate", ".ci")
        for p in sorted((ROOT / folder).iterdir())
        if p.is_file()
    ]
    found = [p for p in listed if not p.suffix and p.read_bytes().startswith(b"#!")]
    assert found
    return found


def longer_than_140(paths):
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 140
    ]


def test_no_line_of_cpp_is_longer_than_140_columns():
    assert not longer_than_140(p for p in files(".h", ".cc", ".cu"))


def test_no_line_of_python_or_script_exceeds_140_columns():
    """The formatter breaks code, but not strings, comments, hand-aligned tables and shell."""
    assert not longer_than_140([*files(".py", ".sh"), *scripts()])
