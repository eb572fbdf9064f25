"""`tpplan report`: the page is well-formed, harmless and correct; `tpplan show --chart` prints the same numbers in a terminal."""

import base64
import hashlib
import itertools
import json
import math
import os
import re
import subprocess

import pytest
from conftest import NEIGHBOURS, PROGRAM, ROOT, codes, linear_model, on_terminal, plan_text, run, signed
from page import groups, listed_paths, number, percent, piece_paths, pieces, ranks, read_page, section, table, value
from report_cases import CASES, DIFFICULT, HOSTILE, SHOWN, compile_case, compile_files, difficult, llama, tied

# Sanitizers reserve terabytes of addresses.
LIMITED = "" if "TPPLAN_SANITIZED" in os.environ else "ulimit -v 400000; "

# Bytes of gradients, master weights and optimizer state per element, by the size of the dtype, and their words.
RECIPES = {
    "none": (lambda width: (0, 0, 0), "no training"),
    "sgd_momentum": (lambda width: (width, 0, width), "SGD with momentum"),
    "adamw": (lambda width: (width, 0, 2 * width), "two moments in the parameter dtype"),
    "adamw_mixed": (lambda width: (width, 4 if width < 4 else 0, 8), "float32 copy"),
}
BITS = {"bfloat16": 16, "float32": 32, "int8": 8, "bool": 8}


def report(manifest, *flags):
    result = run("report", manifest, *flags)
    assert (result.returncode, result.stderr) == (0, b""), result.stderr.decode()
    return result.stdout


def change(path, to):
    """Changes the text of a manifest, and updates its digest."""
    path.write_text(json.dumps(signed(json.loads(to(path.read_text())), ensure_ascii=False), ensure_ascii=False))


def renamed(text, module, name):
    """A manifest's text with another path for a module and its parameter."""
    return text.replace(f'"{module}.', f'"{name}.').replace(f'"{module}"', f'"{name}"')


def product(sizes):
    return math.prod(sizes)


class Case:
    """A manifest, the shards of each rank by `show`, and the page."""

    def __init__(self, path):
        self.path, self.manifest = path, json.loads(path.read_text())
        self.mesh = self.manifest["mesh"]
        self.rank_count = product(axis["size"] for axis in self.mesh)
        self.parameters = {p["path"]: p for p in self.manifest["parameters"]}
        self.held = []
        for rank in range(self.rank_count):
            lines = run("show", path, "--rank", rank, "--format", "json").stdout.decode().splitlines()
            self.held.append({entry["path"]: entry["intervals"] for entry in map(json.loads, lines)})
        self.data = report(path)
        self.page = read_page(self.data)

    def counted(self):
        """Parameters, each tensor once."""
        followers = {"head.weight"} if "head.weight" in self.parameters else set()
        return [p for path, p in self.parameters.items() if path not in followers]


@pytest.fixture(scope="module", params=list(CASES))
def case(request, tmp_path_factory):
    return Case(CASES[request.param](tmp_path_factory.mktemp("case")))


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    return Case(difficult(tmp_path_factory.mktemp("case")))


# ---- a harmless page ----


def test_page_has_no_script_and_loads_nothing(case):
    tags = {element.tag for element in case.page.all()}
    assert not tags & {"script", "iframe", "object", "embed", "link", "base", "form", "img", "video", "audio"}
    for element in case.page.all():
        for name, text in element.attributes.items():
            assert not name.startswith("on") and name not in (
                "style",
                "src",
                "srcset",
                "action",
                "formaction",
                "xlink:href",
            ), (element.tag, name)
            assert name != "href" or text.startswith("#"), text
    assert not re.search(rb"https?:|//|@import|url\((?!#)", case.data)


def test_security_policy_allows_only_the_style_sheet(case):
    policy = next(
        m.attributes["content"]
        for m in case.page.all("meta")
        if m.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    style = case.page.one("style").text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = [e for e in case.page.one("head").children if not isinstance(e, str)]
    assert head[0].attributes == {"charset": "utf-8"} and "http-equiv" in head[1].attributes


def test_links_lead_to_sections(case):
    ids = [e.attributes["id"] for e in case.page.all() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    assert {a.attributes["href"][1:] for a in case.page.all("a")} <= set(ids)


def test_hostile_names_are_text(hard):
    assert hard.page.one("h1").text() == DIFFICULT["name"]
    assert hard.page.one("title").text().startswith(DIFFICULT["name"])
    assert hard.data.count(b"<script") == 0
    names = {c.text() for c in hard.page.all("code")}
    assert f"{SHOWN}.weight" in names
    text = hard.data.decode()
    assert not [
        c
        for c in text
        if (ord(c) < 32 and c != "\n")
        or 0x7F <= ord(c) < 0xA0
        or c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    ]


def test_long_names_are_shortened_with_a_mark(tmp_path):
    path = compile_case(tmp_path, linear_model(long=[16, 8]), plan_text({"*": "colwise"}))
    change(path, lambda text: renamed(text, "long", "é" * 2_000_000).replace('"Test"', '"' + "ü" * 2_000_000 + '"'))
    data = report(path)
    assert len(data) < 100_000
    assert (
        read_page(data)
        and "é… (" in data.decode()
        and "ü… (" in data.decode()
        and "3,999,760 bytes more)" in data.decode()
    )
    assert len(run("show", path, "--chart").stdout) < 5000


def test_every_name_of_the_manifest_is_harmless(hard, tmp_path):
    """Strings that compile would not write, as in an edited manifest."""
    evil = '"><script>alert(1)</script>'
    manifest = json.loads(hard.path.read_text())
    manifest["inputs"]["model"] = {"name": evil, "sha256": evil}
    manifest["inputs"]["plan"]["sha256"] = evil
    manifest["fsdp"]["policy"] = evil
    manifest["fsdp"]["units"] = [evil]
    for rule in manifest["rules"]:
        rule["key"], rule["block"] = evil, evil
    text = hard.path.read_text()
    for key in ("inputs", "fsdp", "rules"):
        text = re.sub(
            rf'(?ms)^ ?"{key}": .*?(,?)\n(?= ?"|}})',
            lambda m, k=key: f' "{k}": {json.dumps(manifest[k])}{m.group(1)}\n',
            text,
        )
    text = re.sub(r'"(reason|style)": "\w+"', lambda m: f'"{m.group(1)}": {json.dumps(evil)}', text)
    text = text.replace('"tp"', json.dumps(evil))
    (tmp_path / "evil.json").write_text(json.dumps(signed(json.loads(text))))
    assert json.loads(text)["rules"][0]["key"] == evil and json.loads(text)["mesh"][1]["name"] == evil
    for flags in ([], ["--against", hard.path]):
        data = report(tmp_path / "evil.json", *flags)
        assert read_page(data) and b"<script" not in data and b"&lt;script" in data


# ---- the numbers ----


def elements_held(case, rank, parameter):
    return product(sum(end - begin for begin, end in runs) for runs in case.held[rank][parameter["path"]])


def bytes_of(parameter, elements):
    return math.ceil(elements * BITS[parameter["dtype"]] / 8)


def trained_bytes(case, recipe, elements_of):
    """Gradients, master weights and optimizer state of the trained parameters."""
    trained = [p for p in case.counted() if p["dtype"] != "int8"]
    parts = [[n * elements_of(p) for n in RECIPES[recipe][0](BITS[p["dtype"]] // 8)] for p in trained]
    return [sum(part) for part in zip(*parts)]


def test_tiles_match_the_totals(case):
    totals = case.manifest["totals"]
    tiles = [tile for tile in case.page.one("dl", "tiles").all("div")]
    assert [value(tile) for tile in tiles if any(tile.one("dd", "big").all("data"))][:2] == [
        totals["max_bytes_per_rank"],
        totals["replicated_bytes_per_rank"],
    ]
    above = totals["max_bytes_per_rank"] / totals["ideal_bytes_per_rank"] - 1
    shown = tiles[1].one("dd", "big").text()
    assert shown == "< 0.01 %" if 0 < above < 0.0001 else abs(float(shown.split()[0]) / 100 - above) <= 0.0006
    whole = [p for p in case.parameters.values() if not any(p["spec"])]
    assert tiles[2].one("dd", "sub").text().endswith(f"{len(whole)} of {len(case.parameters)} parameters")


NOTICED = """\
format: tpplan.plan/1
mesh: {tp: 2}
tp_plan:
  "up": colwise
  "gate.weight": {spec: [tp, null]}
  "gate": replicate
  "router": replicate
  "none": {style: rowwise, optional: true}
  "layers.0": {style: prepare_module_input, input_layouts: Replicate, desired_input_layouts: Replicate}
suppress: [{code: TP4006, reason: "shown"}]
"""


def test_notices_come_first_with_the_lines_of_the_plan(tmp_path):
    layers = {f"layers.{i}": {"weight": [8, 8]} for i in range(3)}
    modules = {"up": {"weight": [1024, 1024]}, "gate": {"weight": [8, 8]}, "router": {"weight": [16, 16]}, **layers}
    types = [
        {
            "path": path,
            "type": "Linear",
            "parameters": {n: {"shape": s, "dtype": "float32"} for n, s in parameters.items()},
        }
        for path, parameters in modules.items()
    ]
    model = {
        "format": "tpplan.model/1",
        "name": "M",
        "framework": "torch",
        "modules": [{"path": "", "type": "M"}, *types],
    }
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "plan.yaml").write_text(NOTICED)
    flags = [flag for code in ("TP4005", "TP4004", *NEIGHBOURS) for flag in ("--allow", code)]
    path = compile_files(tmp_path, tmp_path / "model.json", tmp_path / "plan.yaml", *flags)
    page = report(path)
    notices = [item.words() for item in read_page(page).one("ul", "notices").all("li")]
    assert len(notices) == 4
    assert notices[0].startswith("No rule names 3 parameters: replicated, 768 B, ")
    assert notices[0].endswith("of the model: layers.{0..2}.weight")
    assert notices[1].startswith("router (line 7) replicates 1 parameter, 1.00 KiB, ")
    assert notices[2:] == ["gate (line 6) has no effect", "none (line 8) has no effect"]
    assert page.index(b'class="tiles"') < page.index(b'class="notices"') < page.index(b"<nav")


def test_hidden_collectives_are_a_notice(tmp_path):
    case = ROOT / "tests/golden/operations/torch-chunk-gathers-dtensor"
    path = compile_files(tmp_path, case / "model.json", case / "plan.yaml", "--mode", "infer")
    notices = [item.words() for item in read_page(report(path)).one("ul", "notices").all("li")]
    assert notices[-1].startswith("No rule requests 1 of the 2 collectives of a step, 64 B of 96 B")


def test_no_notices_if_all_is_sharded_or_on_one_rank(tmp_path):
    model = linear_model(a=[8, 8])
    cut = compile_case(tmp_path, model, plan_text({"a": "colwise"}))
    alone = compile_case(tmp_path, model, plan_text({"a": "replicate"}, mesh="{tp: 1}"), name="alone.json")
    assert b'class="notices"' not in report(cut) + report(alone)


@pytest.mark.parametrize("recipe", RECIPES)
def test_bytes_of_every_rank(case, recipe):
    page = read_page(report(case.path, "--recipe", recipe))
    buffers = sum(bytes_of(b, product(b["shape"])) for b in case.manifest["buffers"])
    seen = set()
    for label, cells in table(section(page, "memory"), "Bytes of one rank").items():
        count, parameters, whole, gradients, masters, state, held_buffers, together = map(number, cells)
        assert count == len(ranks(label))
        for rank in ranks(label):
            assert rank not in seen
            seen.add(rank)
            trained = trained_bytes(case, recipe, lambda p, rank=rank: elements_held(case, rank, p))
            assert [parameters, gradients, masters, state, held_buffers] == [
                case.manifest["totals"]["bytes_per_rank"][rank],
                *trained,
                buffers,
            ]
        assert whole == case.manifest["totals"]["replicated_bytes_per_rank"]
        assert together == parameters + gradients + masters + state + buffers
    assert seen == set(range(case.rank_count))
    assert RECIPES[recipe][1] in section(page, "memory").words()


def test_bars_are_proportional_to_their_bytes(case):
    memory = section(case.page, "memory")
    bars = [(value(li), li.one("svg")) for li in memory.one("ul", "bars").all("li")]
    scale = (
        max(
            [size for size, _ in bars]
            + [value(next(li for li in memory.one("ul", "legend").all("li") if "ideal" in li.text()))]
        )
        * 1.02
    )
    for size, svg in bars:
        rects = list(svg.all("rect"))
        ends = [float(r.attributes["x"][:-1]) + float(r.attributes["width"][:-1]) for r in rects]
        assert ends == sorted(ends) and abs(ends[-1] - 100 * size / scale) < 0.01
        assert svg.attributes["role"] == "img" and svg.attributes["aria-label"].startswith("rank")


def test_breakdown_adds_up(case):
    rows = table(section(case.page, "memory"), "Memory of the fullest rank")
    totals = case.manifest["totals"]
    assert [value(cell) for cell in rows["Parameters"]] == [
        totals["max_bytes_per_rank"],
        totals["ideal_bytes_per_rank"],
        totals["bytes"],
    ]
    assert value(rows["sharded"][0]) + value(rows["replicated"][0]) == totals["max_bytes_per_rank"]
    whole = trained_bytes(case, "adamw", lambda p: product(p["shape"]))
    for name, expected in zip(("Gradients", "Master weights", "Optimizer state"), whole):
        assert value(rows[name][2]) == expected and value(rows[name][1]) == -(-expected // case.rank_count), name
    assert "costs" in case.manifest or "not in the manifest" in rows["Activations"][0].text()


def test_replicated_parameters_are_listed(case):
    whole = [p for p in case.parameters.values() if not any(p["spec"])]
    found = section(case.page, "replicated")
    if not whole:
        assert "Nothing: every parameter is sharded" in found.words()
        return
    cells = list(table(found, "Largest first").values())
    assert sum(number(c[0]) for c in cells) == len(whole)
    assert sum(value(c[1]) for c in cells) == sum(bytes_of(p, product(p["shape"])) for p in whole)
    sizes = [value(c[1]) for c in cells]
    assert sizes == sorted(sizes, reverse=True)
    assert not any("*" in name for name in table(found, "Largest first")), "layers are ranges, here as elsewhere"


# ---- rules and shards ----


def test_every_parameter_is_in_one_rule_and_in_one_group(case):
    expected = sorted(p.replace(HOSTILE, SHOWN) for p in case.parameters)
    in_groups = sorted(path for paths, _, _ in groups(case.page) for path in paths)
    assert in_groups == expected
    in_rules = []
    for facts in section(case.page, "rules").all("dl", "facts"):
        entries = [e for e in facts.children if not isinstance(e, str)]
        for term, definition in zip(entries[::2], entries[1::2]):
            in_rules += listed_paths(definition) if term.text() == "Parameters" else []
    assert sorted(in_rules) == expected


def test_each_rule_lists_its_parameters(case):
    rules = [d for d in section(case.page, "rules").all("details", "rule") if "In the plan" in d.text()]
    shown = [(d.one("summary").one("code").text(), next(e.text() for e in d.all("dd"))) for d in rules]
    expected = [(r["key"], f"line {r['line']}, matches {r['matches']}") for r in case.manifest["rules"]]
    assert sorted(shown) == sorted(expected)
    for details in rules:
        index = next(i for i, r in enumerate(case.manifest["rules"]) if f"line {r['line']}," in details.text())
        decided = sum(p.get("rule") == index for p in case.parameters.values())
        count = details.one("summary").one("span", "count").text()
        assert count.startswith(f"{decided} parameter") if decided else "parameter" not in count


def expected_cells(case, path):
    """{tile: ranks}, from the intervals that `show` prints for each rank."""
    cells = {}
    for rank in range(case.rank_count):
        for box in itertools.product(*case.held[rank][path]):
            if all(begin < end for begin, end in box):
                cells.setdefault(tuple(map(tuple, box)), []).append(rank)
    return cells


def test_grids_match_the_shards_of_each_rank(case):
    for paths, cells, _ in groups(case.page):
        for path in paths[:3] + paths[-3:]:
            assert cells == expected_cells(case, path.replace(SHOWN, HOSTILE))


def test_grids_contain_every_element_exactly_once(hard):
    shapes = []
    for paths, cells, _ in groups(hard.page):
        parameter = hard.parameters[paths[0].replace(SHOWN, HOSTILE)]
        seen = [index for cell in cells for index in itertools.product(*(range(b, e) for b, e in cell))]
        assert len(seen) == len(set(seen)) == product(parameter["shape"])
        assert all(len(set(r)) == len(r) == parameter["replicas"] for r in cells.values())
        shapes.append(len(parameter["shape"]))
    assert set(shapes) == {0, 1, 2, 3, 4}


def test_ranks_with_empty_shards_are_named(hard):
    short = next(g for paths, _, g in groups(hard.page) if paths == ["layers.0.short.weight"])
    empty = [
        r for r in range(8) if 0 in [sum(e - b for b, e in runs) for runs in hard.held[r]["layers.0.short.weight"]]
    ]
    assert f"{len(empty)} ranks hold no elements of it: {', '.join(map(str, empty))}." in short.words()
    none = next(g for paths, _, g in groups(hard.page) if paths == ["layers.0.none.w"])
    assert "It has no elements" in none.words()


def test_each_holder_has_one_tint(hard):
    packed = next(g for paths, _, g in groups(hard.page) if paths == ["layers.0.qkv.weight"])
    tints = {}
    for cell in packed.one("table", "grid").all("td"):
        tints.setdefault(cell.text(), set()).add(cell.attributes["class"])
    assert all(len(classes) == 1 for classes in tints.values()) and len(tints) == 8


# ---- the picture of the model ----


def tensors_in(words):
    return int(re.search(r": ([\d,]+) tensors?", words)[1].replace(",", ""))


def left_out(page):
    """(tensors, bytes) that are too small for the picture."""
    text = [p for p in section(page, "model").all("p", "more") if "too small" in p.words()]
    return (int(text[0].words().split()[0].replace(",", "")), value(text[0])) if text else (0, 0)


def whole_bytes(parameter):
    return bytes_of(parameter, product(parameter["shape"]))


def test_every_tensor_is_drawn_or_too_small(case):
    drawn = [tensors_in(words) for words, _, _, _ in pieces(case.page)]
    assert drawn and sum(drawn) + left_out(case.page)[0] == len(case.counted())


def test_tile_area_matches_its_bytes_and_links_to_its_shards(case):
    total = sum(map(whole_bytes, case.counted()))
    shown = {g.one("div", "body").attributes["id"]: paths for paths, _, g in groups(case.page)}
    for words, share, style, link in pieces(case.page):
        path = words.split(": ")[0]
        if "*" in path or "..." in path:
            continue
        paths = piece_paths(words)
        assert len(paths) == tensors_in(words) and set(paths) <= set(shown[link]), words
        parameters = [case.parameters[p.replace(SHOWN, HOSTILE)] for p in paths]
        assert share == pytest.approx(sum(map(whole_bytes, parameters)) / total, abs=2e-4), words
        ranks_of_one = {p["replicas"] for p in parameters}
        assert (style == "whole") == (ranks_of_one == {case.rank_count}), words


def test_legend_lists_colours_with_their_bytes(case):
    legend = {}
    for item in section(case.page, "model").one("ul", "legend").all("li"):
        style = item.one("rect").attributes["class"]
        legend[style] = legend.get(style, 0) + value(item)
    assert sum(legend.values()) == sum(map(whole_bytes, case.counted()))
    assert {style for _, _, style, _ in pieces(case.page)} <= set(legend)


def test_narrow_column_shows_a_shortened_name(tmp_path):
    """Seven hundredths of the width fit eight characters, one hundredth does not."""
    model = linear_model(**{"model__embed_tokens": [7, 64], "model__body": [92, 64], "model__final": [1, 64]})
    page = read_page(report(compile_case(tmp_path, model, plan_text({"*": "replicate"}))))
    under = [text.text() for text in section(page, "model").all("text") if "under" in text.attributes["class"]]
    assert under == ["embed_to…", "model.body"]


MATRIX = {"shape": [64, 64], "dtype": "float32"}


def layered_model(count, odd):
    """Layers of two Linears each; layer `odd` has another name for one."""
    modules = []
    for i in range(count):
        for name in ("up", "odd" if i == odd else "down"):
            modules.append({"path": f"layers.{i}.{name}", "type": "Linear", "parameters": {"weight": MATRIX}})
    return {"format": "tpplan.model/1", "name": "M", "framework": "torch", "modules": modules}


def test_layer_without_a_rule_is_drawn_separately(tmp_path):
    plan = "format: tpplan.plan/1\nmesh: {tp: 4}\ntp_plan:\n  layers.*.up: colwise\n  layers.*.down: rowwise\n"
    page = read_page(report(compile_case(tmp_path, layered_model(12, odd=7), plan)))
    assert [(w.split(": ")[0], style) for w, _, style, _ in pieces(page)] == [
        ("layers.{0..6}.up.weight", "k0"),
        ("layers.{0..6}.down.weight", "k1"),
        ("layers.7.up.weight", "k0"),
        ("layers.7.odd.weight", "whole"),
        ("layers.{8..11}.up.weight", "k0"),
        ("layers.{8..11}.down.weight", "k1"),
    ]
    words = {w.split(": ")[0]: w for w, _, _, _ in pieces(page)}
    assert words["layers.7.odd.weight"].endswith("1 tensor of 16.0 KiB in all, [null, null], replicated")
    assert words["layers.{0..6}.down.weight"].endswith("7 tensors of 112.0 KiB in all, [null, tp], dim 1 over tp")


# ---- bytes moved ----


def local_bytes(case, parameter, rank):
    return bytes_of(parameter, elements_held(case, rank, parameter))


def along(case, axis):
    """Ranks that differ from rank 0 only on this axis."""
    names = [a["name"] for a in case.mesh]
    stride = product(a["size"] for a in case.mesh[names.index(axis) + 1 :])
    return [i * stride for i in range(case.mesh[names.index(axis)]["size"])]


def test_bytes_moved(case):
    expected = {}
    fsdp = (case.manifest.get("fsdp") or {}).get("axis")
    for p in case.counted():
        moves = [(r["axis"], r["kind"]) for r in p["grad_reduce"]]
        axes = [a for entry in p["spec"] if entry for a in ([entry] if isinstance(entry, str) else entry)]
        moves += [(fsdp, "all_gather")] if fsdp in axes else []
        for axis, kind in moves:
            size = (
                local_bytes(case, p, 0)
                if kind == "all_reduce"
                else sum(local_bytes(case, p, rank) for rank in along(case, axis))
            )
            count, total = expected.get((axis, kind), (0, 0))
            expected[axis, kind] = (count + 1, total + size)
    found, sums = {}, {}
    if expected:
        for axis, rows in table(section(case.page, "traffic"), "Parameters and gradients").items():
            for cells in rows if isinstance(rows[0], list) else [rows]:
                if axis.endswith("together"):
                    assert value(cells[0]) == sums[axis.split()[1]]
                    continue
                kind = re.search(r"\((\w+)\)", cells[0].text()).group(1)
                found[axis, kind] = (number(cells[1]), value(cells[2]))
                ways, times = len(along(case, axis)), {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 2}[kind]
                assert value(cells[4]) == value(cells[2]) * (ways - 1) * times // ways
                assert number(cells[3]) == (2 if kind == "all_gather" else 1)
                sums[axis] = sums.get(axis, 0) + value(cells[4])
    assert found == expected


def test_collectives_at_boundaries_are_counted(case):
    expected = {}
    for module in case.manifest["modules"]:
        for v in module["inputs"] + module["outputs"]:
            for direction in ("forward", "backward"):
                for step in v.get(direction, []):
                    key = (step["axis"], step["kind"], direction)
                    expected[key] = expected.get(key, 0) + 1
    found = {}
    if expected:
        for axis, rows in table(section(case.page, "traffic"), "Activations").items():
            for cells in rows if isinstance(rows[0], list) else [rows]:
                found[axis, cells[0].text().split()[0], cells[1].text()] = number(cells[2])
        assert "depend on the batch" in section(case.page, "traffic").words()
    assert found == expected and any(expected.values()) == bool(expected)


STEP = {f"model.layers.*.self_attn.{n}_proj": "colwise" for n in "qkv"} | {
    "model.layers.*.self_attn.o_proj": "rowwise",
    "lm_head": "colwise_gather_output",
}


def with_calls(folder, rules=STEP, name="calls.json"):
    """A manifest that lists the calls of a step."""
    (folder / "calls.yaml").write_text(plan_text(rules, mesh="{tp: 8}", dialect="transformers"))
    path = folder / name
    result = run("compile", ROOT / "plans/models/llama-3-8b.json", folder / "calls.yaml", "-o", path)
    assert result.returncode == 0, result.stderr.decode()
    return path


def test_calls_are_totalled_by_layer_and_for_the_step(tmp_path):
    path = with_calls(tmp_path)
    calls = json.loads(path.read_text())["collectives"]
    found = section(read_page(report(path)), "collectives")
    expected = {}
    for name in ("Forward", "Backward", "Together"):
        chosen = [c for c in calls if name.lower() in (c["phase"], "together")]
        payload = [c["bytes"] * (8 if c["kind"] == "all_gather" else 1) for c in chosen]
        wire = [
            size * (2 if c["kind"] == "all_reduce" else 1) * 7 // 8 for c, size in zip(chosen, payload, strict=True)
        ]
        expected[name] = len(chosen), sum(payload), sum(wire)
    rows = table(found, "The full step")
    assert {name: (number(r[0]), value(r[1]), value(r[2])) for name, r in rows.items()} == expected
    layers = table(found, "model.layers.{0..31}: 32 layers, each 4 calls")
    assert {name: [c.words() for c in cells[:5]] for name, cells in layers.items()} == {
        "self_attn.o_proj": ["forward", "all_reduce", "tp", "[2, 2048, 4096] bfloat16", "1"],
        "self_attn.{v,k,q}_proj": ["backward", "all_reduce", "tp", "[2, 2048, 4096] bfloat16", "3"],
    }
    text = run("show", path).stdout.decode()
    assert "model.layers.{0..31}, 32 layers, each" in text and " bwd all_reduce  self_attn.{v,k,q}_proj" in text


def test_bars_of_calls_are_proportional_to_sent_bytes(tmp_path):
    found = section(read_page(report(llama(tmp_path))), "collectives")
    step = table(found, "The full step")
    bars = {i.one("span", "who").words(): i for i in found.one("ul", "calls").all("li")}
    assert {"outside layers over tp", "model.layers.{0..31} over tp"} <= set(bars)
    assert sum(map(value, bars.values())) == value(step["Together"][-1])
    longest = max(map(value, bars.values()))
    for bar in bars.values():
        widths = [percent(rect, "width") for rect in bar.all("rect")]
        assert sum(widths) == pytest.approx(100 * value(bar) / longest, abs=0.01)
    forward = sum(percent(next(bar.all("rect", "forward")), "width") for bar in bars.values()) * longest / 100
    assert forward == pytest.approx(value(step["Forward"][-1]), rel=1e-4)


def test_added_and_removed_calls_are_in_the_changes(tmp_path):
    new, old = with_calls(tmp_path), with_calls(tmp_path, {k: v for k, v in STEP.items() if k != "lm_head"}, "old.json")
    changes = table(
        section(read_page(report(new, "--against", old)), "changes"), "Calls of a step: 128 before, 130 after"
    )
    assert [[c.words() for c in cells[:6]] for cells in changes["lm_head"]] == [
        ["forward", "all_gather", "tp", "[2, 2048, 16032] bfloat16", "0", "1"],
        ["backward", "all_reduce", "tp", "[2, 2048, 4096] bfloat16", "0", "1"],
    ]


def test_manifest_without_calls_shows_the_reason(tmp_path):
    page = section(read_page(report(tied(tmp_path))), "collectives").words()
    assert "does not list them" in page and "python -m tpplan.export" in page


# ---- differences ----


def test_report_against_itself_has_no_differences(case):
    changes = section(read_page(report(case.path, "--against", case.path)), "changes")
    assert "Nothing is different." in changes.words()


def test_report_against_an_older_manifest(tmp_path):
    new = llama(tmp_path)
    old = tmp_path / "old.json"
    assert (
        run(
            "compile", ROOT / "plans/models/llama-3-8b.json", ROOT / "plans/llama.yaml", "--mesh", "tp=8", "-o", old
        ).returncode
        == 0
    )
    changes = section(read_page(report(new, "--against", old)), "changes")
    before, after = (json.loads(p.read_text()) for p in (old, new))
    rows = table(changes, "Bytes of parameters")
    for name, key in (
        ("Fullest rank", "max_bytes_per_rank"),
        ("Ideal", "ideal_bytes_per_rank"),
        ("Replicated", "replicated_bytes_per_rank"),
        ("Unsharded model", "bytes"),
    ):
        assert [value(c) for c in rows[name][:2]] == [m["totals"][key] for m in (before, after)]
    assert [c.text() for c in table(changes, "Settings")["mesh"]] == ["[tp=8]", "[fsdp=2, tp=4]"]
    old_specs = {p["path"]: p["spec"] for p in before["parameters"]}
    moved = [p["path"] for p in after["parameters"] if p["spec"] != old_specs[p["path"]]]
    shown = [
        path
        for d in changes.all("details", "change")
        if "parameter" in d.one("span", "count").text() and d.one("span", "line2").text().startswith("spec ")
        for path in listed_paths(d)
    ]
    assert sorted(shown) == sorted(moved)
    assert "Places with more or fewer collectives" in changes.text()


def test_added_and_removed_parameters_are_listed(tmp_path):
    old = compile_case(
        tmp_path, linear_model(a=[16, 8], b=[16, 8]), plan_text({"a": "colwise", "b": "colwise"}), name="old.json"
    )
    new = compile_case(
        tmp_path, linear_model(a=[16, 8], c=[16, 8]), plan_text({"a": "colwise", "c": "rowwise"}), name="new.json"
    )
    changes = section(read_page(report(new, "--against", old)), "changes")
    shown = {
        d.one("code").text(): d.one("span", "count").text()
        for d in changes.all("details", "change")
        if "parameter" in d.one("span", "count").text()
    }
    assert shown == {"c.weight": "1 parameter added", "b.weight": "1 parameter removed"}
    rules = table(changes, "Rules that are added")
    assert [c.text() for c in rules["c"]] == ["missing", "1"] and [c.text() for c in rules["b"]] == ["1", "missing"]


# ---- reproducible and small ----


def test_page_is_reproducible(case, tmp_path):
    again = run("report", case.path, env={"LC_ALL": "tr_TR.UTF-8", "LANG": "C", "COLUMNS": "40"}).stdout
    assert again == case.data
    assert run("report", case.path, "-o", tmp_path / "page.html").stdout == b""
    assert (tmp_path / "page.html").read_bytes() == case.data
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def layers(count, **modules):
    return linear_model(**{f"layers__{i}__{name}": shape for i in range(count) for name, shape in modules.items()})


def test_page_of_1137_parameters_is_below_a_megabyte(tmp_path):
    model = layers(
        126,
        q=[128, 128],
        k=[16, 128],
        v=[16, 128],
        o=[128, 128],
        gate=[416, 128],
        up=[416, 128],
        down=[128, 416],
        n1=[128, 1],
        n2=[128, 1],
    )
    model["modules"] += linear_model(embed=[1024, 128], head=[1024, 128], norm=[128, 1])["modules"][1:]
    plan = plan_text(
        {
            "*.q": "colwise",
            "*.k": "colwise",
            "*.v": "colwise",
            "*.o": "rowwise",
            "*.gate": "colwise",
            "*.up": "colwise",
            "*.down": "rowwise",
        },
        mesh="{tp: 8}",
    )
    path = compile_case(tmp_path, model, plan)
    assert len(json.loads(path.read_text())["parameters"]) == 1137
    assert len(report(path)) < 1_000_000


def test_long_lists_end_with_the_number_omitted(tmp_path):
    """36,003 parameters, each with a different shape, under names without a pattern."""
    letters = str.maketrans("0123456789", "abcdefghij")
    model = linear_model(
        **{"m" + str(i).translate(letters): [4 * (i % 6000 + 1), i // 6000 + 1] for i in range(36_003)}
    )
    path = compile_case(tmp_path, model, plan_text({"m*": "colwise"}))
    data = report(path)
    assert len(data) < 4_000_000
    page = read_page(data)
    shown = [path for paths, _, _ in groups_without_cells(page) for path in paths]
    more = re.search(r"And ([\d,]+) parameters in ([\d,]+) groups more", section(page, "shards").words())
    assert len(shown) + int(more.group(1).replace(",", "")) == 36_003
    rules = section(page, "rules")
    more = re.search(r"And ([\d,]+) parameters? more in ([\d,]+) patterns?", rules.words()) or re.search(
        r"And ([\d,]+) parameters? more", rules.words()
    )
    assert (
        len(listed_paths(next(dd for dd in rules.all("dd") if any(dd.all("li"))))) + int(more.group(1).replace(",", ""))
        == 36_003
    )


def groups_without_cells(page):
    for group in section(page, "shards").all("details"):
        yield listed_paths(group.one("ul")), None, group


def test_large_grids_describe_the_omitted_part(tmp_path):
    path = compile_case(
        tmp_path,
        linear_model(w=[640, 640]),
        plan_text({"w.weight": "{spec: [a, b]}"}, mesh="{a: 32, b: 64}", more="axis: a\n"),
    )
    group = section(read_page(report(path)), "shards").one("details")
    drawn = len(list(group.one("table", "grid").all("td")))
    assert 0 < drawn <= 512 and f"{drawn} cells are drawn, {32 * 64 - drawn:,} more are not." in group.words()
    path = compile_case(tmp_path, linear_model(w=[1024, 4]), plan_text({"w": "colwise"}, mesh="{tp: 128}"))
    assert "Only the first 64 cells are drawn, and there are more" in section(read_page(report(path)), "shards").words()


def test_mesh_with_more_ranks_than_listed(tmp_path):
    path = compile_case(
        tmp_path,
        linear_model(w=[16, 8]),
        plan_text({"w": "colwise"}, mesh="{data: 4194304, tp: 4}", more="data: {axes: [data], dim: 0}\n"),
    )
    page = read_page(report(path))
    assert "too many ranks to list" in section(page, "memory").words()
    assert "ranks 0–16777215" in section(page, "memory").words()
    assert "and 4,194,300 more" not in page.text() and "more" in section(page, "shards").one("table", "grid").text()
    chart = run("show", path, "--chart", "--ascii").stdout.decode()
    assert "too many ranks to list" in chart and "ranks 0-16777215" in chart


def test_many_different_ranks(tmp_path):
    """More groups of ranks than bars."""
    path = compile_case(
        tmp_path,
        linear_model(**{f"w{i}": [i, 1] for i in range(1, 40)}),
        plan_text({"w*": "colwise"}, mesh="{tp: 40}", more="uneven: torch\n"),
    )
    page = read_page(report(path))
    rows = table(section(page, "memory"), "Bytes of one rank")
    bars = list(section(page, "memory").one("ul", "bars").all("li"))
    assert len(rows) > len(bars) == 32
    assert f"And {len(rows) - 32} groups more of ranks" in section(page, "memory").words()
    chart = run("show", path, "--chart", "--ascii").stdout.decode()
    assert f"and {len(rows) - 24} groups more" in chart


def test_manifest_without_parameters(tmp_path):
    path = compile_case(
        tmp_path,
        {"format": "tpplan.model/1", "name": "Empty", "framework": "torch", "modules": []},
        "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {x: {style: colwise, optional: true}}\n",
    )
    assert "The manifest has no parameters." in read_page(report(path)).words()
    assert run("show", path, "--chart").returncode == 0


def test_many_rules_and_reasons_end_with_the_number_omitted(tmp_path):
    letters = str.maketrans("0123456789", "abcdefghij")
    names = ["m" + str(i).translate(letters) for i in range(500)]
    path = compile_case(
        tmp_path,
        linear_model(**{name: [16, 8] for name in names}),
        plan_text({name: "colwise" for name in names[:450]}),
    )
    counter = iter(range(1000))
    change(path, lambda text: re.sub(r'"reason": "default"', lambda _: f'"reason": "r{next(counter)}"', text))
    rules = section(read_page(report(path)), "rules")
    assert len(list(rules.all("details", "rule"))) == 420
    assert "And 80 rules or reasons more, with 80 parameters." in rules.words()


def test_overlong_path_is_no_pattern(tmp_path):
    path = compile_case(tmp_path, linear_model(long=[16, 8], other=[16, 8]), plan_text({"*": "colwise"}))
    change(path, lambda text: renamed(renamed(text, "long", "1a" * 2_000_000), "other", "2a" * 2_000_000))
    result = subprocess.run(
        ["bash", "-c", LIMITED + 'exec "$0" report "$1"', PROGRAM, path], capture_output=True, timeout=20
    )
    assert (
        result.returncode == 0
        and b"1a1a" in result.stdout
        and b"2a2a" in result.stdout
        and len(result.stdout) < 100_000
    )


def test_dim_of_very_many_segments(tmp_path):
    model = linear_model(w=[240_000, 2])
    model["modules"][1]["parameters"]["weight"]["segments"] = {"out": [4] * 60_000}
    path = compile_case(tmp_path, model, plan_text({"w": "colwise"}))
    data = report(path)
    assert len(data) < 300_000 and "Only the first 512 cells are drawn, and there are more" in read_page(data).words()


# ---- the chart ----


def chart(path, *flags, locale="C.UTF-8"):
    result = run("show", path, "--chart", *flags, env={"LC_ALL": locale})
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode()


def human(size):
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    scaled, unit = float(size), 0
    while scaled >= 1024:
        scaled, unit = scaled / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{scaled:.{2 if scaled < 10 else 1}f} {units[unit]}"


BLOCKS = "█▓▒▚░·"


def test_chart_has_the_numbers_of_the_page(case):
    text = chart(case.path)
    blocks = re.findall(rf"^ranks? ([\d, and more-]+)  (.*)\n([{BLOCKS}]+)$", text, re.M)
    rows = table(section(case.page, "memory"), "Bytes of one rank")
    assert [(label.replace("-", "–"), total) for label, total, _ in blocks] == [
        (label, human(number(cells[-1]))) for label, cells in rows.items()
    ]
    for (_, _, bar), cells in zip(blocks, rows.values()):
        count, parameters, whole, *training, buffers, together = map(number, cells)
        parts = dict(zip(BLOCKS, (parameters - whole, whole, *training, buffers)))
        assert {mark for mark, size in parts.items() if size} == set(bar)
        assert "".join(sorted(bar, key=BLOCKS.index)) == bar
    widest = max(number(cells[-1]) for cells in rows.values())
    ideal = value(next(li for li in section(case.page, "memory").one("ul", "legend").all("li") if "ideal" in li.text()))
    for (_, _, bar), cells in zip(blocks, rows.values()):
        assert abs(len(bar) - 80 * number(cells[-1]) / max(widest, ideal)) <= 1
    assert f"ideal {human(ideal)}" in text


def test_chart_in_ascii(case):
    by_flag, by_locale = chart(case.path, "--ascii"), chart(case.path, locale="C")
    assert by_flag == by_locale and by_flag.isascii()
    unicode = chart(case.path)
    assert by_flag.translate(str.maketrans("#!=%+.^", BLOCKS + "▲")).split("\n")[3:] != [] and len(by_flag) == len(
        unicode
    )
    assert re.search(r"^#+", by_flag, re.M) or not re.search(r"^█+", unicode, re.M)


@pytest.mark.parametrize(
    "locale, is_utf8",
    [
        ({"LC_ALL": "en_US.utf8"}, True),
        ({"LC_ALL": "C", "LANG": "C.UTF-8"}, False),
        ({"LC_ALL": "", "LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "de_DE.UTF-8"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "", "LANG": ""}, False),
    ],
)
def test_locale_selects_block_characters(hard, locale, is_utf8):
    assert ("█" in run("show", hard.path, "--chart", env=locale).stdout.decode()) == is_utf8


@pytest.mark.parametrize("columns", [40, 57, 80, 132])
def test_chart_fits_the_terminal(case, columns):
    text = on_terminal(columns, "show", case.path, "--chart", env=os.environ | {"LC_ALL": "C.UTF-8"})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")[1:]
    assert max(map(len, lines)) == columns


def test_chart_counts_the_terms_of_the_recipe(hard):
    assert not re.search("gradients|master weights|optimizer state", chart(hard.path, "--recipe", "none"))
    assert "recipe sgd" in chart(hard.path, "--recipe", "sgd") and "gradients" in chart(hard.path, "--recipe", "sgd")
    assert "master weights" in chart(hard.path, "--recipe", "adamw_mixed") and "optimizer state" in chart(hard.path)


def step_manifest(folder):
    golden = ROOT / "tests/golden/manifest/saved-activations-under-tp"
    path = folder / "manifest.json"
    assert run("compile", golden / "model.json", golden / "plan.yaml", "-q", "-o", path).returncode == 0
    return path


def bytes_by_formula(overview, name):
    """The value of "1024 x 2 x 4 + 16 x 8", for the part of that name in the overview."""
    line = next((line for line in overview.splitlines() if line.startswith(f" {name} ")), "0")
    terms = re.split(" {2,}", line.strip())[-1].split(" + ")
    return sum(math.prod(float(factor) for factor in term.split(" x ")) for term in terms)


@pytest.mark.parametrize("recipe", RECIPES)
def test_report_and_overview_have_the_same_training_bytes(tmp_path, recipe):
    path = step_manifest(tmp_path)
    rows = table(section(read_page(report(path, "--recipe", recipe)), "memory"), "Memory of the fullest rank")
    overview = run("show", path, "--recipe", recipe).stdout.decode()
    assert "memory of a step" in overview
    for name in ("Gradients", "Master weights", "Optimizer state"):
        assert value(rows[name][0]) == bytes_by_formula(overview, name.lower()), name


def test_chart_escapes_hostile_names(hard):
    text = chart(hard.path)
    assert text.startswith("</title><script>alert(0)</script> on [fsdp=2, tp=4]\n") and "\x1b" not in text


# ---- rejections ----


@pytest.mark.parametrize("flags", [["--recipe", "no"], ["--format", "pdf"], ["--against"], ["extra", "argument"]])
def test_wrong_arguments_of_report_are_rejected(hard, flags):
    result = run("report", hard.path, *flags)
    assert (result.returncode, result.stdout) == (2, b"") and b"error" in result.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ["--ascii"],
        ["--chart", "--rank", "0"],
        ["--chart", "--parameter", "x"],
        ["--chart", "--format", "json"],
        ["--chart", "--recipe", "no"],
    ],
)
def test_wrong_arguments_of_chart_are_rejected(hard, flags):
    result = run("show", hard.path, *flags)
    assert (result.returncode, result.stdout) == (2, b"") and b"error" in result.stderr


def test_unreadable_manifests_are_rejected(hard, tmp_path):
    broken, output = tmp_path / "broken.json", tmp_path / "page.html"
    output.write_text("before")
    text = hard.path.read_bytes()
    for content in (b"", text[: len(text) // 2], text[:-10], b"\xff\xfe", b"[1]"):
        broken.write_bytes(content)
        for arguments in ([broken], [hard.path, "--against", broken]):
            result = run("report", *arguments, "-o", output)
            assert result.returncode == 2 and codes(result), content
        assert run("show", broken, "--chart").returncode == 2
    for arguments in ([tmp_path / "missing.json"], [hard.path, "--against", tmp_path / "missing.json"]):
        result = run("report", *arguments, "-o", output)
        assert (result.returncode, codes(result)) == (2, ["TP1001"])
    broken.write_bytes(text.replace(b'"bytes": ', b'"bytes": 1'))
    result = run("report", broken, "-o", output)
    assert (result.returncode, codes(result)) == (1, ["TP7002"])
    assert output.read_text() == "before" and sorted(p.name for p in tmp_path.iterdir()) == ["broken.json", "page.html"]


def test_output_over_an_input_is_rejected(hard, tmp_path):
    copy, link = tmp_path / "manifest.json", tmp_path / "link.json"
    copy.write_bytes(hard.path.read_bytes())
    link.symlink_to(copy)
    for arguments in ([copy, "-o", copy], [copy, "-o", link], [hard.path, "--against", copy, "-o", link]):
        result = run("report", *arguments)
        assert (result.returncode, codes(result)) == (2, ["TP1010"])
    assert copy.read_bytes() == hard.path.read_bytes()


def test_standard_input_is_accepted_once(hard):
    result = run("report", "-", stdin=hard.path.read_bytes())
    assert (result.returncode, result.stdout) == (0, hard.data)
    assert run("report", "-", "--against", "-", stdin=hard.path.read_bytes()).returncode == 2


def test_unwritable_output_is_an_error(hard):
    result = run("report", hard.path, "-o", "/dev/full")
    assert (result.returncode, codes(result)) == (2, ["TP1009"])


def test_sums_beyond_64_bits_are_a_limit(tmp_path):
    model = linear_model(a=[2**31, 2**30])
    model["modules"][1]["parameters"]["weight"]["dtype"] = "bfloat16"
    path = compile_case(tmp_path, model, plan_text({"a": "replicate"}, mesh="{tp: 1}"))
    result = run("report", path)
    assert (result.returncode, codes(result), result.stdout) == (3, ["TP9001"], b"")
    assert run("report", path, "--recipe", "none").returncode == 0
    assert run("show", path, "--chart").returncode == 3


def test_saved_activations_are_in_the_memory_table(tmp_path):
    path = step_manifest(tmp_path)
    costs = json.loads(path.read_text())["costs"]
    page = read_page(report(path))
    rows = table(section(page, "memory"), "Memory of the fullest rank")
    total = sum(costs[key] for key in ("kept", "logits", "transient")) + value(rows["Together"][0])
    tile = [tile for tile in page.one("dl", "tiles").all("div")][3]
    assert value(tile.one("dd", "big")) == value(rows["Total with a step, rank 0"][0]) == total
    assert "with the activations of a step" in tile.words()
    assert value(rows["Activations saved for backward, rank 0"][0]) == costs["kept"]
    assert value(rows["Largest transient of a step, rank 0"][0]) == costs["transient"]
    assert "Activations" not in rows
