"""The pages: their sizes, their links, and the lengths of their lines."""

import re
import sys

import pytest

from test_house import ROOT

sys.path.insert(0, str(ROOT / "tests" / "readme"))
from pages import pages  # noqa: E402

FRONT_PAGE_BYTES, PAGE_BYTES = 12_000, 25_000
PROSE_COLUMNS = 150  # tables have one row a line
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(text):
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def prose(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


@pytest.mark.parametrize("page", pages())
def test_page_is_short(page):
    text = (ROOT / page).read_text()
    assert len(text.encode()) <= (FRONT_PAGE_BYTES if page == "README.md" else PAGE_BYTES)
    assert not [line for line in prose(text).splitlines() if len(line) > PROSE_COLUMNS and not line.startswith("|")]


@pytest.mark.parametrize("page", pages())
def test_links_of_a_page_resolve(page):
    wrong = []
    for target, anchor in LINK.findall(prose((ROOT / page).read_text())):
        if re.match(r"\w+:", target):
            continue
        path = ((ROOT / page).parent / target).resolve() if target else ROOT / page
        if not path.exists():
            wrong.append(target)
        elif anchor and anchor not in anchors(path.read_text()):
            wrong.append(f"{target}#{anchor}")
    assert not wrong
