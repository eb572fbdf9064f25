"""`tpplan diff --topology` and `tpplan report --topology`: the step time of each side matches `tpplan check --costs`."""

import html
import json
import re

import jsonschema
import pytest

from conftest import ROOT, linear_model, plan_text, run, write

MODEL = ROOT / "plans/models/smollm2-135m.json"
TOPOLOGY = ROOT / "plans/topologies/h100.yaml"
VALIDATOR = jsonschema.Draft7Validator(json.loads((ROOT / "schemas/diff.schema.json").read_text()))
ROWS = {
    "forward matmuls": "forward",
    "backward matmuls": "backward",
    "waiting": "waited",
    "beside products": "overlapped",
    "together": "total",
}


def words(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Plans without and with the MLP's rules, their manifests, and the time of each from check."""
    folder = tmp_path_factory.mktemp("sides")
    whole = (ROOT / "plans/llama.yaml").read_text()
    lines = [line for line in whole.splitlines() if "mlp" not in line]
    paths, times = [], []
    for name, text in (("old", "\n".join(lines) + "\n"), ("new", whole)):
        plan = folder / f"{name}.yaml"
        plan.write_text(text.replace("mesh: {tp: 8}", "mesh: {tp: 3}"))
        manifest = folder / f"{name}.json"
        assert run("compile", MODEL, plan, "-q", "-o", manifest).returncode == 0
        checked = run("check", MODEL, plan, "--costs", "--topology", TOPOLOGY, "--format", "json")
        paths.append((plan, manifest))
        times.append(json.loads(checked.stdout)["costs"]["time"])
    return paths, times


def test_step_costs_match_check(sides):
    (_, old), (_, new) = sides[0]
    document = json.loads(run("diff", old, new, "--format", "json").stdout)
    VALIDATOR.validate(document)
    text, markdown = (run("diff", old, new, "--format", form).stdout.decode() for form in ("human", "markdown"))
    for side, (plan, _) in zip(("before", "after"), sides[0]):
        costs = json.loads(run("check", MODEL, plan, "--costs", "--format", "json").stdout)["costs"]
        step = document["step"][side]
        assert (step["sent_bytes"], step["memory_bytes"]) == (costs["total"]["wire"], costs["memory"]["total"])
    unit = r"[\d.]+ [KMG]iB"
    assert re.search(rf"\n  sent +{unit} -> {unit}.*\n  memory +{unit} -> {unit}", text) and "tokens" not in text
    assert re.search(rf"\n\| sent \| {unit} \| {unit} \|\n\| memory \| {unit} \| {unit} \|", markdown)


def test_step_of_more_data_ranks_trains_more_tokens(sides, tmp_path):
    plan = (ROOT / "plans/llama.yaml").read_text()
    paths = [tmp_path / "old.yaml", tmp_path / "new.yaml"]
    for path, mesh in zip(paths, ("{tp: 3}", "{dp: 2, tp: 3}\ndata: {axes: [dp], dim: 0}")):
        path.write_text(plan.replace("mesh: {tp: 8}", f"mesh: {mesh}"))
    for form in ("human", "markdown"):
        text = run("diff", MODEL, *paths, "--format", form).stdout.decode()
        new, old = (int(n) for n in re.search(r"a step trains (\d+) tokens instead of (\d+)", text).groups())
        assert new == 2 * old
    step = json.loads(run("diff", MODEL, *paths, "--format", "json").stdout)["step"]
    assert [step[side]["data_ranks"] for side in ("before", "after")] == [1, 2]


def compared(sides, *flags):
    (_, old), (_, new) = sides[0]
    return run("diff", old, new, "--topology", TOPOLOGY, *flags)


def test_json_has_both_times(sides):
    result = compared(sides, "--format", "json")
    document = json.loads(result.stdout)
    VALIDATOR.validate(document)
    assert result.returncode == 1
    for side, time in zip(("before", "after"), sides[1]):
        assert document["time"][side] == {key: time[key] for key in ROWS.values()}
    assert document["time"]["topology"] == sides[1][0]["topology"]
    assert "time" not in json.loads(run("diff", sides[0][0][1], sides[0][1][1], "--format", "json").stdout)


@pytest.mark.parametrize("form", ["human", "markdown"])
def test_human_output_has_the_changed_times(sides, form):
    text = compared(sides, "--format", form).stdout.decode()
    old, new = sides[1]
    found = 0
    for name, key in ROWS.items():
        before, after = words(old[key]), words(new[key])
        pattern = (
            rf"^  {name} +{re.escape(before)} -> {re.escape(after)} \("
            if form == "human"
            else rf"^\| {name} \| {re.escape(before)} \| {re.escape(after)} \|"
        )
        found += before != after
        assert bool(re.search(pattern, text, re.M)) == (before != after), name
    assert found >= 3


def test_two_plans_of_a_model_are_timed_too(sides):
    (old, _), (new, _) = sides[0]
    result = run("diff", MODEL, old, new, "--topology", TOPOLOGY, "--format", "json")
    assert json.loads(result.stdout)["time"] == json.loads(compared(sides, "--format", "json").stdout)["time"]


def test_equal_time_is_printed_once(sides):
    manifest = sides[0][1][1]
    result = run("diff", manifest, manifest, "--topology", TOPOLOGY)
    assert result.returncode == 0
    assert f"  together              {words(sides[1][1]['total'])}, as before\n" in result.stdout.decode()


def test_manifest_without_operations_has_no_time(tmp_path):
    manifest = tmp_path / "manifest.json"
    files = write(tmp_path, linear_model(wq=[16, 8]), plan_text({"wq": "colwise"}))
    assert run("compile", *files, "-q", "-o", manifest, "--allow", "TP5150").returncode == 0
    result = run("diff", manifest, manifest, "--topology", TOPOLOGY)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"time of a step\n  the manifests have no operations of a step\n" in result.stdout
    page = run("report", manifest, "--topology", TOPOLOGY)
    assert page.returncode == 0 and b'id="time"' not in page.stdout and b"time of a step is unknown" in page.stderr
    shown = run("show", manifest, "--topology", TOPOLOGY)
    assert shown.returncode == 0 and b"time of a step is unknown" in shown.stderr
    assert shown.stdout == run("show", manifest).stdout


@pytest.mark.parametrize("command", ["diff", "report", "show"])
def test_topology_with_an_invalid_figure_is_rejected(sides, command, tmp_path):
    broken = tmp_path / "topology.yaml"
    broken.write_text(TOPOLOGY.read_text().replace("efficiency: 0.6", "efficiency: -1"))
    assert broken.read_text() != TOPOLOGY.read_text()
    manifest = sides[0][0][1]
    files = (manifest, manifest) if command == "diff" else (manifest,)
    result = run(command, *files, "--topology", broken)
    assert result.returncode == 2 and result.stdout == b"" and b"error[TP9101]" in result.stderr


def test_report_has_the_time_with_its_formulas(sides):
    (_, old), (_, new) = sides[0]
    page = run("report", new, "--topology", TOPOLOGY, "--against", old).stdout.decode()
    assert '<a href="#time">Time</a>' in page
    section = html.unescape(page[page.index('<section id="time">') :])
    seconds = [float(value) for value in re.findall(r'<data value="([0-9.e+-]+)">[0-9.]+ (?:s|ms|us)</data>', section)]
    for time in sides[1]:
        for key in ("forward", "backward", "waited", "total"):
            assert any(abs(value - time[key]) <= 1e-9 for value in seconds), key
    formulas = [
        [float(number) for number in match]
        for match in re.findall(r"([0-9.e+]+) / \(([0-9.e+]+) × ([0-9.]+)\s%\)", section)
    ]
    assert formulas
    layer = sides[1][1]["layers"][0]
    operations, peak, share = formulas[0]
    assert operations / (peak * share / 100) == pytest.approx(layer["forward"], rel=1e-3)
    assert "2 (n − 1) a + 2 (n − 1)/n S/B" in section
    assert 'id="time"' not in run("report", new).stdout.decode()


def test_show_prints_the_time_of_check(sides):
    plan, manifest = sides[0][1]
    shown = run("show", manifest, "--topology", TOPOLOGY).stdout.decode()
    checked = run("check", MODEL, plan, "--costs", "--topology", TOPOLOGY).stdout.decode()
    time = checked[checked.index("time of a step") :]
    assert shown.endswith(time) and words(sides[1][1]["total"]) in time
    assert "time of a step" not in run("show", manifest).stdout.decode()


@pytest.mark.parametrize(
    "other", [["--chart"], ["--rank", "0"], ["--parameter", "lm_head.weight"], ["--format", "json"]]
)
def test_show_prints_the_time_only_in_the_overview(sides, other):
    result = run("show", sides[0][1][1], "--topology", TOPOLOGY, *other)
    assert result.returncode == 2 and b"--topology" in result.stderr and result.stdout == b""
