"""Unity builds (CMAKE_UNITY_BUILD) see all file-scope names of a folder's .cc files at once. This test finds clashes without a compiler,
because builds of single files, which developers use, do not show them."""

import collections
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CMAKE = [(ROOT / path).read_text() for path in ("CMakeLists.txt", "tools/cmake/programs.cmake")]


def unity_units():
    """Folders compiled as one file, by target and unit name, for the targets with unity builds."""
    text = "".join(CMAKE)
    targets = {
        name
        for names in re.findall(r"^set_target_properties\(([\w ]+) PROPERTIES UNITY_BUILD_MODE GROUP", text, re.M)
        for name in names.split()
    }
    lists = re.findall(r"^tpplan_sources\((\w+) (\w+) ([^)]+)\)", text, re.M)
    taken = dict(re.findall(r"^add_library\((\w+) (?:STATIC|OBJECT) ([^)]+)\)", text, re.M))
    assert targets and targets <= taken.keys()
    units = collections.defaultdict(list)
    for variable, unit, folders in lists:
        for target in targets:
            if f"${{{variable}}}" in taken[target]:
                units[f"{target}: {unit}"] += folders.split()
    return sorted(units.items())


def compiled_alone():
    """Files that CMake excludes from their unit."""
    lists = re.findall(
        r"^set_source_files_properties\(([^)$]+) PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON\)", "".join(CMAKE), re.M
    )
    found = {ROOT / path for paths in lists for path in paths.split()}
    assert found and all(path.exists() for path in found)
    return found


def blank(text):
    """The text without comments, and with empty literals."""
    raw = r'R"(\w*)\((?:.|\n)*?\)\1"'
    return re.sub(
        rf"//[^\n]*|/\*(?:.|\n)*?\*/|{raw}|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'",
        lambda found: '""' if found[0][0] in "\"'R" else " ",
        text,
    )


def without(text, opening, closing):
    """The text without the contents of such brackets, including nested ones."""
    while (fewer := re.sub(rf"\{opening}[^\{opening}\{closing}]*\{closing}", "", text)) != text:
        text = fewer
    return text


def types(parameters):
    """Parameters without their names and defaults, which distinguish overloads."""
    flat, depth = "", 0
    for c in parameters:
        depth += (c in "<([{") - (c in ">)]}")
        flat += "\n" if c == "," and depth == 0 else c
    alone = (re.sub(r"\s*=.*", "", part).strip() for part in flat.split("\n"))
    return tuple(
        re.sub(
            r"(?<=[\w>&*\]])\s*\b\w+$" if not re.fullmatch(r"(const )?[\w:]+(<.*>)?[&*]*", part) else "$^",
            "",
            " ".join(part.split()),
        )
        for part in alone
    )


def head_of(chunk):
    """A definition up to its body or value, and the character that ends it there."""
    chunk = re.sub(r"\boperator[^\w\s(]+", "operator_", chunk.strip())
    if re.match("template\\s*<", chunk):
        end, depth = chunk.index("<"), 0
        while True:
            depth += (chunk[end] == "<") - (chunk[end] == ">")
            end += 1
            if depth == 0:
                break
        chunk = chunk[end:]
    depth = 0
    for at, c in enumerate(chunk):
        depth += (c == "(") - (c == ")")
        if depth == 0 and c in "{;=":
            return " ".join(chunk[:at].split()), c
    return "", ""


def definitions(text):
    """Definitions at file scope, as (name, types of the parameters or None). Members of a class are skipped."""
    found = [
        (macro, None)
        for macro in re.findall(r"^#define (\w+)", text, re.M)
        if not re.search(rf"^#undef {macro}\b", text, re.M)
    ]
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", blank(text), flags=re.M)
    for chunk in re.split(r"\n(?=[^\s}])", "\n" + text):
        head, sign = head_of(chunk)
        if re.match(r"(namespace|using namespace|extern|template|friend|static_assert)", head):
            continue
        plain = without(head, "<", ">")
        if kind := re.match(r"(?:struct|class|union|enum(?: class)?|using|typedef) (\w+)", head):
            if sign != ";":  # otherwise it is only a declaration
                found.append((kind[1], None))
        elif call := re.search(r"([\w:~]+) ?\(", plain):
            if "::" not in call[1] and sign == "{":
                begin = head.index("(", head.index(call[1]))
                found.append((call[1], types(head[begin + 1 : head.rindex(")")])))
        elif name := re.search(r"(\w+)(?:\[.*\])?$", plain):
            found.append((name[1], None))
    return found


def test_definitions_are_found():
    text = """
namespace {
const std::map<int, std::string> kNames = {{1, "struct Fake {"}};
constexpr int kSizes[] = {1, 2};  // struct Fake {
struct Pair {
  int a = 0;
  bool operator==(const Pair&) const = default;
};
struct Elsewhere;
template <typename T, size_t N = (1 > 0)>
std::vector<T> parse(const std::string& text, std::function<bool(int, T)> keep = {},
                     int limit = 3) {
  return {};
}
void parse(std::string_view text);
bool operator<(const Pair& a, const Pair& b) { return a.a < b.a; }
}
int Pair::size() const { return 2; }
using Word = std::string;
"""
    assert definitions(text) == [
        ("kNames", None),
        ("kSizes", None),
        ("Pair", None),
        ("parse", ("const std::string&", "std::function<bool(int, T)>", "int")),
        ("operator_", ("const Pair&", "const Pair&")),
        ("Word", None),
    ]


def clashes(paths):
    """Names that more than one of these files defines. Functions may share one if their parameters differ."""
    places = collections.defaultdict(list)
    for path in paths:
        for name, parameters in set(definitions(path.read_text())):
            places[name].append((path, parameters))
    found = {}
    for name, where in places.items():
        alike = max(collections.Counter(parameters for _, parameters in where).values())
        if len({path for path, _ in where}) > 1 and (alike > 1 or any(parameters is None for _, parameters in where)):
            found[name] = sorted({str(path.relative_to(ROOT)) for path, _ in where})
    return found


@pytest.mark.parametrize("folders", [pytest.param(folders, id=unit) for unit, folders in unity_units()])
def test_no_two_files_of_a_unit_define_a_name(folders):
    together = {path for folder in folders for path in (ROOT / folder).iterdir() if path.suffix in (".cc", ".h")}
    assert not clashes(sorted(together - compiled_alone()))


def test_no_two_headers_define_a_name():
    """A file that includes both would not compile; a program that links both would violate the one-definition rule."""
    assert not clashes(sorted(path for folder in ("lib", "tools") for path in (ROOT / folder).rglob("*.h")))
