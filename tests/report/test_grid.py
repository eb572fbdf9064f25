"""`tpplan show --parameter` draws the ranks of each shard: the same tiles as `show --rank`, within the terminal's width."""

import itertools
import json
import re

import pytest
from conftest import codes, on_terminal, run
from page import interval, ranks
from report_cases import CASES, HOSTILE, compile_case, difficult, tensor

CAPTION = re.compile(
    r"  Ranks that hold each shard(?: at (?P<at>[^a-z]*dim .*?))?(?:, dim (\d+) down, dim (\d+) across)?$"
)


@pytest.fixture(scope="module", params=["difficult", "llama"])
def manifest(request, tmp_path_factory):
    return CASES[request.param](tmp_path_factory.mktemp("grid"))


def show(manifest, path, *flags):
    result = run("show", manifest, "--parameter", path, *flags)
    assert (result.returncode, result.stderr) == (0, b""), result.stderr
    return result.stdout.decode()


def drawn(text):
    """{tile: ranks} of the tables of a text, a tile as an interval for each dim."""
    cells, down, across, fixed, heads = {}, None, None, {}, []
    for line in text.splitlines():
        if found := CAPTION.match(line):
            fixed = {int(d): interval(i) for d, i in re.findall(r"dim (\d+) (\d+:\d+)", found["at"] or "")}
            down, across = (int(found[2]), int(found[3])) if found[2] else (None, None)
            heads = []
        elif re.fullmatch(r"(\s+\d+:\d+)+", line) and across is not None:
            heads = [interval(word) for word in line.split()]
        elif row := re.fullmatch(r"\s+(\d+:\d+) \|(.*)\|", line):
            for i, cell in enumerate(row[2].split("|")):
                place = dict(fixed)
                rest = next(d for d in itertools.count() if d not in fixed) if down is None else down
                place[rest] = interval(row[1])
                if across is not None:
                    place[across] = heads[i]
                cells[tuple(place[d] for d in sorted(place))] = ranks(cell.strip().replace("-", "–"))
    return cells


def held(manifest, path):
    """The same from the intervals of each rank."""
    cells = {}
    for rank in itertools.count():
        result = run("show", manifest, "--rank", rank, "--parameter", path, "--format", "json")
        if result.returncode != 0:
            return cells
        for box in itertools.product(*json.loads(result.stdout)["intervals"]):
            if all(begin < end for begin, end in box):
                cells.setdefault(tuple(map(tuple, box)), []).append(rank)


def test_grid_tiles_match_the_shards_of_ranks(manifest):
    count = 0
    for parameter in json.loads(manifest.read_text())["parameters"][:12]:
        path = parameter["path"]
        expected = held(manifest, path)
        assert drawn(show(manifest, path, "--ascii")) == (expected if len(expected) > 1 else {}), path
        count += len(expected) > 1
    assert count >= 6


@pytest.mark.parametrize("columns", [40, 57, 80, 200])
def test_no_line_of_a_grid_is_wider_than_the_terminal(manifest, columns):
    for parameter in json.loads(manifest.read_text())["parameters"][:12]:
        if parameter["path"] == HOSTILE:
            continue
        text = on_terminal(columns, "show", manifest, "--parameter", parameter["path"], "--ascii")
        grid = text[text.index("  Ranks") :] if "  Ranks" in text else ""
        tables = [line for line in grid.splitlines() if "|" in line or "+" in line]
        assert all(len(line) <= columns for line in tables), grid


def test_omitted_columns_are_counted(tmp_path):
    model = {
        "format": "tpplan.model/1",
        "name": "M",
        "framework": "torch",
        "modules": [{"path": "m", "type": "Custom", "parameters": {"w": tensor([64, 64], dims=["a", "b"])}}],
    }
    plan = "format: tpplan.plan/1\nmesh: {x: 2, y: 16}\ntp_plan:\n  m.w: {spec: [x, y]}\n"
    text = show(compile_case(tmp_path, model, plan), "m.w", "--ascii")
    left = int(re.search(r"and (\d+) columns more; --rank RANK prints", text)[1])
    assert 0 < left < 16 and len(drawn(text)) == 2 * (16 - left)


def test_boxes_follow_the_locale(tmp_path):
    manifest = difficult(tmp_path)
    for locale, corner in (("C.UTF-8", "┌"), ("C", "+")):
        result = run("show", manifest, "--parameter", "layers.0.qkv.weight", env={"LC_ALL": locale})
        assert corner in result.stdout.decode(), locale


def test_ascii_without_a_drawing_is_a_usage_error(tmp_path):
    result = run("show", difficult(tmp_path), "--ascii")
    assert result.returncode == 2 and b"--chart or --parameter" in result.stderr and codes(result) == []
