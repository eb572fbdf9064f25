"""The table "To add" of lib/README.md, held against the code: it names every file that a thing stands in."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIB = ROOT / "lib"
SEARCHED = ("lib", "tools", "schemas")


def rows():
    """The table: what is added, what to touch, texts of one that is there."""
    table = (LIB / "README.md").read_text().split("## To add", 1)[1].split("\n## ", 1)[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("| ")
    ]
    return {
        row[0]: (row[1], re.findall("`([^`]+)`", row[2].rstrip("| "))) for row in (line + [""] for line in cells[1:])
    }


ROWS = rows()


def named(touch):
    """Patterns of the paths in a text: from lib or from the root, with `NAME` for anything; `x.h and .cc` are two."""
    text = re.sub(r"`[^`]*`", "", touch).replace("\\", "")
    found = []
    for path, more in re.findall(r"([\w./-]*\w/?[\w.-]*\w)((?:(?:,| and| or) \.\w+)*)", text):
        if "/" not in path and not re.search(r"\.(cc|h|py|json|def|md)$", path):
            continue
        base = "" if path.split("/")[0] in ("tools", "tests", "schemas", "plans") else "lib/"
        endings = re.findall(r"\.\w+", more)
        found += [
            base + path.replace("NAME", "*"),
            *(base + str(pathlib.PurePath(path).with_suffix(e)).replace("NAME", "*") for e in endings),
        ]
    return found


def files(pattern):
    """Files that a pattern names: itself, what it matches, or all below it."""
    found = [path for path in ROOT.glob(pattern)]
    return {
        str(p.relative_to(ROOT))
        for path in found
        for p in ([path] if path.is_file() else path.rglob("*"))
        if p.is_file()
    }


def sources():
    """Path and text of every file that may have to be touched; pages and the table itself are prose."""
    for folder in SEARCHED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in (".cc", ".h", ".cu", ".def", ".py", ".json"):
                yield str(path.relative_to(ROOT)), path.read_text(errors="replace")


SOURCES = dict(sources())


def test_the_table_is_read():
    assert len(ROWS) > 25 and sum(len(texts) > 0 for _, texts in ROWS.values()) > 20
    assert named("a pair diagnostics/render_NAME.h and .cc, a row in phase.h; tools/cli") == [
        "lib/diagnostics/render_*.h",
        "lib/diagnostics/render_*.cc",
        "lib/phase.h",
        "tools/cli",
    ]


@pytest.mark.parametrize("thing", ROWS)
def test_what_a_row_names_is_there(thing):
    touch, _ = ROWS[thing]
    missing = [pattern for pattern in named(touch) if not files(pattern)]
    assert not missing
    texts = "".join(
        SOURCES.get(path) or (ROOT / path).read_text(errors="replace")
        for pattern in named(touch)
        for path in files(pattern)
        if (ROOT / path).suffix in (".cc", ".h", ".cu", ".def", ".py", ".json")
    )
    words = [
        w for w in re.findall("`([A-Za-z_]+)`", touch) if w not in ("NAME", "local", "doctor", "init", "contiguous")
    ]
    assert not [word for word in words if not re.search(rf"\b{word}\b", texts)]


@pytest.mark.parametrize("thing", [thing for thing, (_, texts) in ROWS.items() if texts])
def test_a_row_names_every_file_that_an_example_stands_in(thing):
    touch, texts = ROWS[thing]
    allowed = {path for pattern in named(touch) for path in files(pattern)}
    for text in texts:
        found = {path for path, content in SOURCES.items() if text in content}
        assert found, f"nothing has `{text}`"
        assert found <= allowed, f"`{text}` stands in {sorted(found - allowed)} too"
