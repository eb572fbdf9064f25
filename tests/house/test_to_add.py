"""The table "To add" of lib/README.md, compared with the code: each row names every file that its example touches."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIB = ROOT / "lib"
SEARCHED = ("lib", "tools", "schemas")


def rows():
    """The table: the added thing, the files to touch, texts of an existing example."""
    table = (LIB / "README.md").read_text().split("## To add", 1)[1].split("\n## ", 1)[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("| ")
    ]
    return {
        row[0]: (row[1], re.findall("`([^`]+)`", row[2].rstrip("| "))) for row in (line + [""] for line in cells[1:])
    }


ROWS = rows()


PATH = r"[\w./-]*\w/[\w.-]+|[\w-]+\.(?:cc|h|cu|py|json|def|md|txt)|\.\w+"


def named(touch):
    """Patterns of the paths in a text, in backticks: from lib or from the root, with `NAME` for any name. A suffix after a path is a
    second path: `x.h` and `.cc`."""
    found = []
    for path in re.findall(rf"`({PATH})`", touch):
        if path.startswith("."):
            found.append(str(pathlib.PurePath(found[-1]).with_suffix(path)))
            continue
        base = "" if path.split("/")[0] in ("tools", "tests", "schemas", "plans") else "lib/"
        found.append(base + path.replace("NAME", "*"))
    return found


def files(pattern):
    """Files of a pattern: the path itself, its matches, or all files below it."""
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


def test_table_is_parsed():
    assert len(ROWS) > 25 and sum(len(texts) > 0 for _, texts in ROWS.values()) > 20
    assert named("a pair `diagnostics/render_NAME.h` and `.cc`, a row of `kRows` in `phase.h`; `tools/cli`") == [
        "lib/diagnostics/render_*.h",
        "lib/diagnostics/render_*.cc",
        "lib/phase.h",
        "tools/cli",
    ]


@pytest.mark.parametrize("thing", ROWS)
def test_files_and_texts_of_a_row_exist(thing):
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
def test_row_names_every_file_of_its_example(thing):
    touch, texts = ROWS[thing]
    allowed = {path for pattern in named(touch) for path in files(pattern)}
    for text in texts:
        found = {path for path, content in SOURCES.items() if text in content}
        assert found, f"nothing has `{text}`"
        assert found <= allowed, f"`{text}` stands in {sorted(found - allowed)} too"
