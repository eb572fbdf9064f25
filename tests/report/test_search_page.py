"""`tpplan search --report`: the picture shows the plans of the search, and a target for each of them."""

import base64
import hashlib
import itertools
import json
import re

import pytest
from conftest import run
from page import read_page, section, table
from report_cases import search_folder, search_words


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """The page of a search with a limit, and its answer."""
    folder = search_folder(tmp_path_factory.mktemp("search"))
    free = run(*search_words(), "-o", "free.yaml", "--format", "json", cwd=folder)
    limit = json.loads(free.stdout)["best"]["memory_bytes"] - 1
    options = ("--memory", limit, "--keep", "free.yaml", "--simple", 0, "--report", "page.html", "-o", "best.yaml")
    result = run(*search_words(), *options, "--format", "json", cwd=folder)
    assert (result.returncode, result.stderr) == (0, b""), result
    return (folder / "page.html").read_bytes(), json.loads(result.stdout), limit


def dots(page):
    """Circles by the id of their plan."""
    links = [a for a in section(page, "plans").all("a") if any(a.all("circle"))]
    return {a.attributes["href"].removeprefix("#"): a.one("circle").attributes for a in links}


def plans(page):
    """Seconds and bytes by the id of a plan."""
    return {
        article.attributes["id"]: tuple(float(data.attributes["value"]) for data in article.one("p").all("data"))
        for article in page.all("article", "plan")
    }


def test_page_is_harmless(searched):
    data, _, _ = searched
    page = read_page(data)
    policy = next(m.attributes["content"] for m in page.all("meta") if "content" in m.attributes)
    digest = base64.b64encode(hashlib.sha256(page.one("style").text().encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not re.search(rb"<script|https?://|<img|<link|@import", data)


def test_every_dot_has_a_plan_at_its_place(searched):
    data, answer, limit = searched
    page = read_page(data)
    shown, figures = dots(page), plans(page)
    assert shown.keys() == figures.keys() and len(shown) >= 8
    for name, (_, memory) in figures.items():
        assert ("over" in shown[name]["class"].split()) == (memory > limit), name
    places = {name: (float(d["cx"].rstrip("%")), -float(d["cy"])) for name, d in shown.items()}
    for a, b in itertools.permutations(shown, 2):
        assert all(x <= y for x, y, u, v in zip(places[a], places[b], figures[a], figures[b], strict=True) if u < v)
    colors = {d["class"].split()[1] for d in shown.values()}
    assert len(colors) == len({article.one("h3").words().split(",")[0] for article in page.all("article", "plan")})


def test_marks_and_line(searched):
    data, answer, _ = searched
    page = read_page(data)
    figures = plans(page)
    picture = page.one("svg", "scatter")
    assert [t.text() for t in picture.all("text", "mark")] == ["best", "yours"]
    best = page.one("article", "best")
    assert figures[best.attributes["id"]] == pytest.approx(
        (answer["best"]["seconds"], answer["best"]["memory_bytes"]), rel=1e-6
    )
    beaten = {
        a
        for a in figures
        for b in figures
        if a != b and all(x >= y for x, y in zip(figures[a], figures[b], strict=True))
    }
    assert len(list(picture.all("line", "pareto"))) == len(figures) - len(beaten) - 1
    rows = [row.words() for row in page.all("table")]
    assert sum("yours: free.yaml on" in row for row in rows) == 1


def test_units_of_the_best_plan(searched):
    data, answer, _ = searched
    page = read_page(data)
    rows = table(page.one("article", "best"), "Each unit")
    units = answer["best"]["units"]
    assert set(rows) == {u["unit"] for u in units} == {"fsdp", "remat"}
    text = page.one("article", "best").words()
    for unit in units:
        assert unit["strategy"] in text
        assert all(unit[side] is None or unit[side]["strategy"] in text for side in ("next", "over"))


def test_page_without_a_plan_that_fits(tmp_path):
    folder = search_folder(tmp_path)
    result = run(*search_words(), "--memory", 1, "--report", "page.html", "-o", "best.yaml", cwd=folder)
    page = read_page((folder / "page.html").read_bytes())
    assert result.returncode == 1 and not (folder / "best.yaml").exists()
    assert "over the limit by" in section(page, "plans").words()
    assert all("over" in d["class"].split() for d in dots(page).values()) and not list(page.all("article", "best"))


@pytest.mark.parametrize("path, words", [("-", "--report"), ("best.yaml", "--report")])
def test_report_needs_a_file_of_its_own(tmp_path, path, words):
    folder = search_folder(tmp_path)
    result = run(*search_words(), "--report", path, "-o", "best.yaml", cwd=folder)
    assert result.returncode == 2 and words in result.stderr.decode() and not (folder / "best.yaml").exists()
