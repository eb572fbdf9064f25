"""How the C++ files are written: what must not be dropped, what a table must cover, and their form."""

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


# At the start of a line of a header: what a function returns, and its name. Results by reference are for chaining.
DECLARATION = re.compile(
    r"^(?:TPPLAN_HOST_DEVICE |inline |constexpr |static )*(?!void\b|return\b|using\b|struct\b|enum\b|namespace\b|template\b)"
    r"((?:const )?[A-Za-z_][\w:]*(?:<[^;()]*>)?(?: ?\*)?) ([a-z_]\w*)\(",
    re.M,
)


def undecided(text):
    return [name for _, name in DECLARATION.findall(text)]


# Whose result is a convenience: they have reported what it says, or done what they are for.
MAY_BE_DROPPED = {
    "report",
    "fault",
    "specs_fault",
    "report_kind",
    "usage_error",
    "print_raw",
    "print_findings",
    "check_unasked_module",  # the finding is said
    "for_each_entry",
    "read_axis",
    "read_integer",
    "read_number",
    "read_bool",  # a reader of plans reads on, and reports more
    "for_each_run",  # true unless its visitor stops
    "insert",
    "join",
    "add_module",  # what was added can be found again
    "print",
    "send_frame",  # a lost reader is said at the end, a lost peer found by reading
}


def test_what_a_function_gives_back_is_not_dropped():
    """Every function of a header that returns a value is [[nodiscard]]; who drops one on purpose says so with a cast."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files(".h")
        if path.parts[len(ROOT.parts)] != "tests"
        for name in undecided(path.read_text())
        if name not in MAY_BE_DROPPED
    ]
    assert not wrong


def test_the_rule_sees_a_function_without_nodiscard():
    assert undecided("bool read_axis(Reader& reader);\n") == ["read_axis"]
    assert undecided("inline std::vector<std::pair<int, int>> pairs_of(const Map& map) {\n") == ["pairs_of"]
    assert not undecided(
        "[[nodiscard]] bool read_axis(Reader& reader);\nvoid add(int);\nParam& add_param(Graph& graph);\n"
    )


# Templates of the standard library that take anything: where an argument is of namespace std, a call without a namespace
# may mean them, and whether it does depends on which headers were read before.
TAKEN = r"^(?:[\w:<>&*\[\] ]+ )(bind|invoke|apply|exchange)\("


def test_no_function_is_named_as_one_of_the_standard_library_that_takes_anything():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files(".h", ".cc")
        for name in re.findall(TAKEN, path.read_text(), re.M)
        if not path.parts[len(ROOT.parts)] == "tests"
    ]
    assert not found
    assert re.findall(TAKEN, "void bind(Walk& walk, int value);", re.M) == ["bind"]


def test_a_table_by_an_enum_ends_with_its_last_enumerator():
    """`static_assert(std::size(table) == static_cast<size_t>(Enum::Last) + 1)` holds only as long as Last is the last."""
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


def test_a_table_by_an_enum_is_asserted():
    """A table that is indexed with `static_cast<size_t>(an enumerator)` stands in the same folder as a static_assert on its size."""
    indexed = re.compile(r"(?<![.>\w])(k[A-Z]\w*|names)\[static_cast<size_t>\(")
    wrong = []
    for path in files(".h", ".cc"):
        for table in set(indexed.findall(path.read_text())):
            near = "".join(p.read_text() for p in path.parent.glob("*.[hc]*"))
            if not re.search(rf"static_assert\(std::size\({table}\) ==", near):
                wrong.append(f"{path.relative_to(ROOT)}: {table}")
    assert not wrong


def installed(*names):
    """Where programs of these names are: beside the Python that runs the tests, or on the PATH."""
    beside = [str(pathlib.Path(os.sys.executable).parent / name) for name in names]
    return [place for place in map(shutil.which, (*beside, *names)) if place]


def clang_format():
    """The formatter's version decides what is right: 14, from tests/requirements.txt or the system."""
    for place in installed("clang-format", "clang-format-14"):
        if "version 14." in subprocess.run([place, "--version"], text=True, capture_output=True).stdout:
            return place
    return None


def test_cpp_is_formatted_as_clang_format_says():
    if not clang_format():
        pytest.skip("clang-format 14 is missing")
    run = subprocess.run(
        [clang_format(), "--dry-run", "-Werror", *files(".h", ".cc", ".cu")], text=True, capture_output=True, cwd=ROOT
    )
    assert run.returncode == 0, "\n".join(
        sorted({line.split(":")[0] for line in run.stderr.splitlines() if "error:" in line})
    )


@pytest.mark.parametrize("command", [("format", "--check"), ("check",)], ids=["formatted", "without unused names"])
def test_python_is_as_ruff_says(command):
    if not (ruff := installed("ruff")):
        pytest.skip("ruff is missing")
    run = subprocess.run([ruff[0], *command, "--no-cache", "."], text=True, capture_output=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr


def scripts():
    """Programs without an ending: their first line says who reads them."""
    listed = [p for folder in ("tools", ".ci") for p in sorted((ROOT / folder).iterdir()) if p.is_file()]
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
    assert not longer_than_140(p for p in files(".h", ".cc", ".cu") if p.stem != "style_programs")


def test_no_line_of_python_or_of_a_script_is_longer_than_140_columns():
    """The formatter breaks code; strings, comments, tables that stand as they are written and shell it leaves alone."""
    assert not longer_than_140([*files(".py", ".sh"), *scripts()])
