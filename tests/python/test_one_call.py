"""One call from Python: a plan in place of a manifest, which the program compiles for the existing model."""

import json
import os
import pathlib
import tempfile
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import bridge
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")  # read at the import of Keras
bridge.needs("torch")

import torch  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

import models  # noqa: E402
import test_torch_training as training  # noqa: E402
import tpplan  # noqa: E402
from apart import run_apart  # noqa: E402
from bridge import PROGRAM, ranks  # noqa: E402, F401
from conftest import codes  # noqa: E402
from tpplan import compiled  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402

MESHED = "format: tpplan.plan/1\nmesh: {data: 2, tp: 2}\ndata: {axes: [data]}\n" + training.TP
TEXT = MESHED.replace("mesh: {data: 2, tp: 2}\n", "")
ALONE = TEXT.replace("data: {axes: [data]}\n", "")  # for a mesh of one axis
WRONG = ALONE.replace("mlp.down_proj: rowwise", "mlp.down_proj: colwise")
DICT = {
    "tp_plan": {
        "embed": {"style": "rowwise", "input_layouts": "Replicate"},
        "layers.*.mlp.gate_proj": "colwise",
        "layers.*.mlp.up_proj": "colwise",
        "layers.*.mlp.down_proj": "rowwise",
    },
    "data": {"axes": ["data"]},
}


def inputs():
    return {"tokens": torch.zeros(2, 8, dtype=torch.long)}


def on_two_ranks():
    os.environ["TPPLAN"] = PROGRAM
    return init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


def trains(rank, plan, folder):
    os.environ["TPPLAN"] = PROGRAM
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tp"))
    tokens, targets = training.batch(8)
    torch.manual_seed(1)
    reference = models.Llama().double()
    training.loss_of(reference, tokens, targets, targets.numel()).backward()
    part = mesh.get_local_rank("data")

    def check(plan, **more):
        model = models.Llama().double()
        model.load_state_dict(reference.state_dict())
        assert bridge_torch.parallelize(model, plan, mesh, **more) is model
        training.loss_of(model, tokens.chunk(2)[part], targets.chunk(2)[part], targets.numel()).backward()
        for path in training.names_of(model):
            gradient = bridge_torch.full_tensor(model, path, gradient=True)
            assert (gradient - reference.get_parameter(path).grad).abs().max() < 1e-9, path
        return model

    kept = pathlib.Path(folder) / "kept.json"
    model = check(plan, inputs=inputs(), manifest=kept)
    torch.distributed.barrier()
    assert dict(tpplan.load_manifest(kept).mesh) == {"data": 2, "tp": 2}
    # The saved output is a normal manifest, as a path and as text.
    for again in (check(kept), check(kept.read_text())):
        for parameter, other in zip(again.parameters(), model.parameters()):
            assert parameter.placements == other.placements and torch.equal(parameter.to_local(), other.to_local())


@pytest.mark.parametrize("kind", ["path", "text", "dict"])
def test_plan_parallelizes_like_its_manifest(tmp_path, ranks, kind):  # noqa: F811
    (tmp_path / "plan.yaml").write_text(MESHED)
    plan = {"path": str(tmp_path / "plan.yaml"), "text": TEXT, "dict": DICT}[kind]
    ranks.run(4, trains, plan, str(tmp_path))


def refuses(rank, plan, said, findings):
    mesh = on_two_ranks()
    model = models.Llama().double()
    with pytest.raises(tpplan.PlanError) as error:
        bridge_torch.parallelize(model, plan, mesh, inputs=inputs())
    assert str(error.value) == said, str(error.value)
    assert error.value.findings == findings and str(pickle.loads(pickle.dumps(error.value))) == said
    assert not hasattr(model, "_tpplan_state")


@pytest.mark.parametrize("wrong", ["layers of one product", "a spec that does not fit"])
def test_errors_are_exceptions_with_the_same_text_on_every_rank(tmp_path, ranks, wrong):  # noqa: F811
    from tpplan.export.live_model import torch_text

    plan, output = tmp_path / "plan.yaml", tmp_path / "m.json"
    # The first is found in the operations, the note of the second has a place in the model file.
    text, expected = {
        "layers of one product": (WRONG, "TP5102"),
        "a spec that does not fit": (
            ALONE.replace("tp_plan:", "tp_plan:\n  norm.weight: {spec: [null, tp]}"),
            "(model.json:",
        ),
    }[wrong]
    plan.write_text(text)
    (tmp_path / "model.json").write_text(torch_text(models.Llama().double(), inputs()))
    flags = ("model.json", plan, "--mesh", "tp=2", "-q")
    result = bridge.run("compile", *flags, "-o", output, cwd=tmp_path)
    said = result.stderr.decode().strip()
    assert result.returncode == 1 and expected in said, said
    data = json.loads(bridge.run("check", *flags, "--format", "json", cwd=tmp_path).stdout)["diagnostics"]
    assert [finding["code"] for finding in data] == codes(result) and data[0]["place"]["file"] == str(plan)
    ranks.run(2, refuses, str(plan), said, data)


def raises(rank, plans, said):
    """Each rank has its entry of `plans`; `said` None: all ranks are parallelized identically."""
    mesh = on_two_ranks()
    model = models.Llama().double()
    if said is None:
        bridge_torch.parallelize(model, plans[rank], mesh, inputs=inputs())
        assert model.layers[0].mlp.down_proj.weight.to_local().shape[1] == 12
        return
    with pytest.raises((ValueError, RuntimeError), match=said) as error:
        bridge_torch.parallelize(model, plans[rank], mesh, inputs=inputs())
    assert not isinstance(error.value, torch.distributed.DistError)


def test_all_ranks_use_the_plan_of_rank_0(tmp_path, ranks):  # noqa: F811
    absent = str(tmp_path / "absent.yaml")
    ranks.run(2, raises, [WRONG, ALONE], "TP5102")
    ranks.run(2, raises, [absent, ALONE], "cannot be read")
    ranks.run(2, raises, ["nothing: here\n", ALONE], "neither a plan")
    ranks.run(2, raises, [ALONE, absent], None)
    ranks.run(2, raises, [ALONE, WRONG], None)


def fails_in_the_export(rank):
    mesh = on_two_ranks()
    model = models.Llama().double()
    with pytest.raises(ValueError if rank == 0 else RuntimeError, match="no size today"):
        bridge_torch.parallelize(model, ALONE, mesh, inputs={"tokens": Unwritable()})


class Unwritable:
    @property
    def shape(self):
        raise ValueError("no size today")


def test_error_on_rank_0_is_raised_on_all(ranks):  # noqa: F811
    ranks.run(2, fails_in_the_export)


def holds_meshes(rank):
    os.environ["TPPLAN"] = PROGRAM
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("data", "tp"))
    for own in ("{tp: 1, data: 2}", "\n  dp: 2\n  tp: 1"):
        plan = MESHED.replace("{data: 2, tp: 2}", own).replace("data: {axes: [data]}\n", "")
        with pytest.raises(
            tpplan.ManifestError, match=r"plan is for mesh \[.*=.*\], but the device mesh is \[data=2, tp=1\]"
        ):
            bridge_torch.parallelize(models.Llama().double(), plan, mesh, inputs=inputs())
    with pytest.raises(tpplan.ManifestError, match="plan is for"):
        bridge_torch.parallelize(models.Llama().double(), DICT | {"mesh": {"tp": 1, "data": 2}}, mesh, inputs=inputs())


def takes_sizes(rank):
    mesh, kept = on_two_ranks(), pathlib.Path(tempfile.gettempdir()) / f"kept-{os.getpid()}.json"
    plan = ALONE.replace("format: tpplan.plan/1\n", "format: tpplan.plan/1\nmesh: {tp: 8}\n")
    bridge_torch.parallelize(models.Llama().double(), plan, mesh, inputs=inputs(), manifest=kept)
    if rank == 0:
        assert dict(tpplan.load_manifest(kept).mesh) == {"tp": 2}
        kept.unlink()


def test_plan_uses_the_sizes_of_the_device_mesh(ranks):  # noqa: F811
    ranks.run(2, takes_sizes)


def test_plan_with_other_axes_is_rejected_with_both_named(ranks):  # noqa: F811
    ranks.run(2, holds_meshes)


WARNED = ALONE + "suppress: [{code: TP4006, reason: nothing reports it}]\n"


def warns_once(rank, plan):
    mesh = on_two_ranks()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bridge_torch.parallelize(models.Llama().double(), plan, mesh, inputs=inputs())
    caught = [w for w in caught if issubclass(w.category, tpplan.PlanWarning)]
    assert len(caught) == (rank == 0)
    for warning in caught:
        assert warning.filename == __file__, warning.filename
        found = [finding["code"] for finding in warning.message.findings]
        assert found and all(f"[{code}]" in str(warning.message) for code in found)


def test_warnings_are_python_warnings_and_appear_once(ranks):  # noqa: F811
    ranks.run(2, warns_once, WARNED)


def test_operations_are_traced_on_a_copy_without_values():
    from tpplan.export.live_model import torch_text

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8)).double()
    before, state = {n: t.clone() for n, t in model.state_dict().items()}, torch.get_rng_state()
    graph = json.loads(torch_text(model, {"input": torch.zeros(3, 4, dtype=torch.float64)}))["graph"]
    assert graph["mode"] == "train"
    assert all(torch.equal(before[n], t) for n, t in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    with pytest.warns(tpplan.PlanWarning, match="`inputs`"):
        assert "graph" not in json.loads(torch_text(model))


def test_missing_program_is_reported(monkeypatch):
    monkeypatch.delenv("TPPLAN", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(compiled.sysconfig, "get_path", lambda name: "/nowhere")
    with pytest.raises(tpplan.ManifestError, match="TPPLAN"):
        compiled.find_program()
    monkeypatch.setenv("TPPLAN", PROGRAM)
    assert compiled.find_program() == PROGRAM


def test_plans_and_manifests_are_distinguished(tmp_path):
    plan, manifest, as_json = tmp_path / "p.yaml", tmp_path / "m.json", tmp_path / "p.json"
    plan.write_text(TEXT)
    manifest.write_text('{\n "format": "tpplan.manifest/1"}')
    as_json.write_text('{"format": "tpplan.plan/1"}')
    assert all(compiled.is_plan(x) for x in (str(plan), TEXT, {"tp_plan": {}}, as_json, as_json.read_text()))
    later = '{"mesh": {"tp": 2}, "format": "tpplan.plan/1"}'
    assert compiled.is_plan(later) and compiled.is_plan("# a comment\n" + TEXT)
    assert (
        not compiled.is_plan(manifest.read_text())
        and not compiled.is_plan(manifest)
        and not compiled.is_plan({"format": "tpplan.manifest/1"})
    )
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for unread in (tmp_path / "absent.yaml", "absent.yaml", tmp_path, tmp_path / "bytes"):
        with pytest.raises(tpplan.ManifestError, match="cannot be read"):
            compiled.is_plan(unread)
    neither = tmp_path / "other.yaml"
    neither.write_text("tp_plan: {a: colwise}\n")
    for other in (neither, "a: b\n", "format: tpplan.model/1\n", {"format": "tpplan.model/1"}, "{}", None, 7, [TEXT]):
        with pytest.raises(tpplan.ManifestError, match="neither a plan"):
            compiled.is_plan(other)
    with pytest.raises(tpplan.ManifestError, match="stores a compiled plan"):
        compiled.manifest_of(manifest, None, keep="x.json")


def test_jax_accepts_plans(tmp_path, monkeypatch):
    monkeypatch.setenv("TPPLAN", PROGRAM)
    bridge.needs("jax", "equinox", "flax")
    run_apart("jax_checks", "one_call", tmp_path)


def test_all_jax_processes_use_the_plan_of_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv("TPPLAN", PROGRAM)
    bridge.needs("jax", "equinox", "flax")
    port = bridge.free_port()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda i: run_apart("jax_checks", "two_processes", i, port, tmp_path), range(2)))


@pytest.mark.parametrize("framework, ranks", [("jax", 0), ("torch", 2)])
def test_keras_accepts_plans(tmp_path, monkeypatch, framework, ranks):
    monkeypatch.setenv("TPPLAN", PROGRAM)
    bridge.needs("jax", "keras")
    run_apart("keras_checks", "one_call", tmp_path, framework=framework, ranks=ranks)
