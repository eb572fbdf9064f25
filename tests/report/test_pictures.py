"""`tpplan report MODEL PLAN --run --topology`: the pictures of a step show the numbers of `check --costs`."""

import json
import re

import pytest
from conftest import ROOT, run
from page import percent, read_page, section, table, value

MODEL = ROOT / "plans/models/llama-3-8b.json"
H100 = ROOT / "plans/topologies/h100.yaml"
PLAN, OLD = ROOT / "plans/llama-fsdp-tp.yaml", ROOT / "plans/llama.yaml"  # meshes fsdp=2,tp=4 and tp=8
RUN = {"format": "tpplan.run/1", "batch": 2, "compiled": True}


def words(folder, plan, keys):
    (folder / "run.yaml").write_text(json.dumps(RUN | keys))
    return [MODEL, plan, "--run", folder / "run.yaml", "--topology", H100]


def draw(folder, plan=PLAN, *options, **keys):
    result = run("report", *words(folder, plan, keys), *options)
    assert (result.returncode, result.stderr) == (0, b""), result
    return result.stdout


def costs_of(folder, plan=PLAN, **keys):
    result = run("check", *words(folder, plan, keys), "--format", "json")
    assert result.returncode == 0, result
    return json.loads(result.stdout)["costs"]


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    folder = tmp_path_factory.mktemp("step")
    return read_page(draw(folder)), costs_of(folder)


def bars(element, style):
    """The bars of a list: {name: (sum, svg)}."""
    return {
        item.one("span", "who").words(): (item.one("span", "sum"), item.one("svg", "bar"))
        for ul in element.all("ul")
        if set(style.split()) == set(ul.attributes.get("class", "").split())
        for item in ul.all("li")
    }


def seconds(element):
    return float(element.one("data").attributes["value"])


def areas(svg, whole):
    """The seconds that the rectangles of a lane show: width by height."""
    return sum(percent(r, "width") * percent(r, "height") for r in svg.all("rect")) / 1e4 * whole


def test_lanes_show_the_terms(step):
    page, costs = step
    lanes = bars(section(page, "step"), "bars lanes")
    whole, terms = costs["step"]["seconds"], {term["name"]: term["seconds"] for term in costs["terms"]}
    assert seconds(lanes["attention"][0]) == pytest.approx(terms["attention"], rel=1e-6)
    assert seconds(lanes["optimizer"][0]) == pytest.approx(terms["optimizer"], rel=1e-6)
    assert seconds(lanes["tp collectives"][0]) == pytest.approx(terms["collectives of model axes"], rel=1e-6)
    together = sum(seconds(own) for name, (own, _) in lanes.items() if name not in ("memory", "fsdp collectives"))
    assert together == pytest.approx(whole, rel=1e-6)
    for name, (own, svg) in lanes.items():
        if name != "memory":
            assert areas(svg, whole) == pytest.approx(seconds(own), rel=0.01, abs=whole / 1e3), name


def test_peak_is_that_of_the_costs(step):
    page, costs = step
    own = section(page, "step")
    assert value(bars(own, "bars lanes")["memory"][0]) == costs["memory"]["active_bytes"]
    held, svg = bars(own, "bars")["rank 0, at the peak"]
    assert value(held) == costs["memory"]["active_bytes"]
    device = percent(svg.one("line", "ideal"), "x1")
    shown = sum(percent(r, "width") for r in svg.all("rect"))
    assert shown / device == pytest.approx(costs["memory"]["active_bytes"] / 80e9, rel=1e-3)
    assert (
        value(
            next(
                t for t in page.all("div") if "In training" in t.text() and "tiles" not in t.attributes.get("class", "")
            )
        )
        == (costs["memory"]["active_bytes"])
    )


def test_equal_layers_are_one_rectangle(step):
    page, _ = step
    (titles,) = [
        [t.text() for t in svg.all("title")]
        for name, (_, svg) in bars(section(page, "step"), "bars lanes").items()
        if name == "matmuls"
    ]
    assert any(t.startswith("model.layers.{0..31}, forward: ") for t in titles)
    assert any(t.startswith("model.layers.{0..31}, backward: ") for t in titles) and len(titles) <= 6


def test_flow_has_the_collectives_with_their_bytes(step):
    page, _ = step
    forward = next(ol for ol in section(page, "step").all("ol") if ol.attributes["aria-label"] == "Forward")
    boxes = [item.one("span", "what").words() for item in forward.all("li")]
    order = ["all_gather fsdp", "input_layernorm", "all_gather tp", "q_proj", "k_proj", "v_proj", "attention", "o_proj"]
    order += ["reduce_scatter tp", "gate_proj", "act_fn", "up_proj", "down_proj"]
    at = [boxes.index(name) for name in order]
    assert at == sorted(at), boxes
    calls = [item for item in forward.all("li", "call")]
    assert calls and all(re.search(r"\d (B|KiB|MiB|GiB), ", item.one("span", "sub").text()) for item in calls)


@pytest.mark.parametrize("fsdp", [2, 4, 64])
def test_mesh_has_its_ranks_on_hosts(tmp_path, fsdp):
    (tmp_path / "plan.yaml").write_text(PLAN.read_text().replace("{fsdp: 2, tp: 4}", f"{{fsdp: {fsdp}, tp: 4}}"))
    own = section(read_page(draw(tmp_path, tmp_path / "plan.yaml")), "step")
    hosts = own.one("ul", "hosts")
    assert [int(t.text()) for t in hosts.all("text")] == list(range(min(fsdp * 4, 64)))
    assert [s.text() for s in hosts.all("span", "who")] == [f"host {i}" for i in range(min(fsdp // 2, 8))]
    assert ("And 24 hosts more" in own.text()) == (fsdp == 64)
    facts = {d.words(): v.words() for d, v in zip(own.all("dt"), own.all("dd"))}
    assert "inside a host" in facts["tp"]
    assert ("crosses the network, 2 ranks of a group on each host" in facts["fsdp"]) == (fsdp > 2)


def test_terms_are_those_of_the_costs(step):
    page, costs = step
    rows = table(section(page, "step"), "Seconds of rank 0")
    assert {name: seconds(cells[0]) for name, cells in rows.items()} == pytest.approx(
        {term["name"]: term["seconds"] for term in costs["terms"]}, rel=1e-6
    )


def test_two_plans_are_side_by_side_on_one_axis(tmp_path):
    page = read_page(draw(tmp_path, PLAN, "--against", OLD))
    own = section(page, "step")
    pairs = list(own.all("div", "sides"))
    assert len(pairs) == 5 and all(len(list(pair.all("figcaption"))) == 2 for pair in pairs)
    ids = [s.attributes["id"] for s in page.all("section")]
    assert ids.index("step") < ids.index("changes")
    before, now = (bars(figure, "bars lanes") for figure in pairs[0].all("figure"))
    old, new = costs_of(tmp_path, OLD), costs_of(tmp_path)
    whole = max(old["step"]["seconds"], new["step"]["seconds"])
    for lanes, costs in ((before, old), (now, new)):
        last = max(percent(r, "x") + percent(r, "width") for _, svg in lanes.values() for r in svg.all("rect"))
        assert last / 100 == pytest.approx(costs["step"]["seconds"] / whole, rel=1e-3)


def test_many_micro_batches_are_folded(tmp_path):
    data = draw(tmp_path, accumulation=64)
    assert b"Micro-batches 2 to 63 are like the first" in data
    lanes = bars(section(read_page(data), "step"), "bars lanes")
    terms = {term["name"]: term["seconds"] for term in costs_of(tmp_path, accumulation=64)["terms"]}
    assert seconds(lanes["attention"][0]) == pytest.approx(terms["attention"], rel=1e-6)


def test_page_of_many_layers_stays_small(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(DEEP))
    assert run("import", "--from", "config", tmp_path / "config.json", "-o", tmp_path / "deep.json").returncode == 0
    (tmp_path / "run.yaml").write_text(json.dumps(RUN | {"checkpointing": {"every": 2}}))
    options = ["--run", tmp_path / "run.yaml", "--topology", H100]
    result = run("report", tmp_path / "deep.json", OLD, *options)
    plain = run("report", tmp_path / "deep.json", OLD)
    assert result.returncode == plain.returncode == 0, result
    assert len(result.stdout) - len(plain.stdout) < 250_000


DEEP = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 8,
    "num_hidden_layers": 80,
    "vocab_size": 4096,
    "torch_dtype": "bfloat16",
}


def test_page_without_a_run_is_that_of_the_manifest(tmp_path):
    manifest = tmp_path / "manifest.json"
    assert run("compile", MODEL, PLAN, "-o", manifest).returncode == 0
    assert run("report", MODEL, PLAN).stdout == run("report", manifest).stdout
    with_time = run("report", MODEL, PLAN, "--topology", H100)
    assert with_time.stdout == run("report", manifest, "--topology", H100).stdout
    assert b'id="step"' not in with_time.stdout and b'id="time"' in with_time.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["manifest.json", "--run", "run.yaml", "--topology", H100], "pass MODEL PLAN"),
        (["manifest.json", "--batch", "2"], "pass MODEL PLAN"),
        ([MODEL, PLAN, "--run", "run.yaml"], "add --topology"),
    ],
    ids=["manifest", "batch", "no topology"],
)
def test_option_without_its_input_is_named(tmp_path, options, text):
    result = run("report", *options, cwd=tmp_path)
    assert result.returncode == 2 and text in result.stderr.decode()


def test_errors_of_the_run_are_reported_at_their_place(tmp_path):
    (tmp_path / "run.yaml").write_text('{"format": "tpplan.run/1", "batch": 0}')
    result = run("report", MODEL, PLAN, "--run", "run.yaml", "--topology", H100, cwd=tmp_path)
    assert result.returncode == 2 and b"run.yaml:1:" in result.stderr and result.stdout == b""


def test_hostile_names_are_text_in_the_pictures(tmp_path):
    text = MODEL.read_text().replace("layers", "<b>&layers").replace("LlamaForCausalLM", "<b>&Llama")
    (tmp_path / "model.json").write_text(text)
    (tmp_path / "plan.yaml").write_text('format: tpplan.plan/1\nmesh: {t&<b>: 2}\ntp_plan: {"*": replicate}\n')
    result = run("report", tmp_path / "model.json", *words(tmp_path, tmp_path / "plan.yaml", {})[1:])
    assert result.returncode == 0, result
    assert b"<b>" not in result.stdout
    own = section(read_page(result.stdout), "step")
    assert any("<b>&layers" in title.text() for title in own.all("title"))
