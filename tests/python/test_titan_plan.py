"""Plans of torchtitan's ShardingConfigs, from equivalent configurations without torchtitan."""

import json
import sys
from types import SimpleNamespace

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402

from tpplan import files, titan_config, titan_plan  # noqa: E402
from tpplan.export import __main__ as export_main  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from tpplan.manifest import ManifestError  # noqa: E402


def layout(kind):
    """The placement of a layout on the axis tp: a dim, or a letter."""
    said = SimpleNamespace(dim=kind) if isinstance(kind, int) else SimpleNamespace(name=kind)
    return SimpleNamespace(per_axis_spmd_types=lambda: {"dp": SimpleNamespace(name="R"), "tp": said})


def config(states=(), sources=(), wanted=(), out=None, target=None):
    given = lambda kinds: {name: layout(kind) for name, kind in dict(kinds).items()}  # noqa: E731
    ends = [None if kind is None else layout(kind) for kind in (out, target)]
    return SimpleNamespace(
        state_shardings=given(states),
        in_src_shardings=given(sources) or None,
        in_dst_shardings=given(wanted) or None,
        out_src_shardings=ends[0],
        out_dst_shardings=ends[1],
        local_map=None,
    )


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2 = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8, bias=False)
        self.norm, self.experts = torch.nn.LayerNorm(8, bias=False), torch.nn.Linear(8, 4, bias=False)
        self.experts.weight = torch.nn.Parameter(torch.zeros(4, 8, 6))


def model_with_configs():
    with torch.device("meta"):
        model = torch.nn.Sequential(Block(), Block())
    for block in model:
        block._sharding_config = config(sources={"x": 1}, wanted={"x": "R"}, out="P", target=1)
        block.w1._sharding_config = config({"weight": 0, "bias": 0}, out=-1)
        block.w2._sharding_config = config({"weight": 1}, out="P", target=1)
        block.norm._sharding_config = config({"weight": "R"}, sources={"input": 1}, out=1)
        block.experts._sharding_config = config({"weight": 2})
    model[1].norm._sharding_config = config({"weight": "I"}, sources={"input": "I"}, out="I")
    return model


def test_configs_become_styles_boundaries_and_specs(tmp_path):
    model = model_with_configs()
    text = titan_plan.titan_plan(model, {"dp_shard": 2, "tp": 2})
    for line in (
        '"0": {style: "prepare_module_input_output", input_kwarg_layouts: {x: "Shard(1)"}',
        '"*.w1": colwise',
        '"*.w2": {style: "rowwise", output_layouts: "Shard(1)"}',
        '"0.norm": sequence_parallel',
        '"1.norm": replicate',
        'data: {axes: ["dp_shard"], dim: 0}',
    ):
        assert line in text, text
    assert '"*": ' not in text  # it would match all modules
    manifest = json.loads(bridge.compile_manifest(tmp_path, torch_module.model_graph(model), text).read_text())
    specs = {entry["path"]: entry["spec"] for entry in manifest["parameters"]}
    assert specs["0.w1.weight"] == ["tp", None] and specs["1.w2.weight"] == [None, "tp"]
    assert specs["0.experts.weight"] == [None, None, "tp"] and specs["1.norm.weight"] == [None]
    assert {module["path"] for module in manifest["modules"]} >= {"0", "1"}


def stand_in(monkeypatch):
    """Replaces the parts of torchtitan that titan_config.py imports. (The real ones: truth/test_torchtitan_live.py.)"""
    named = lambda kind: SimpleNamespace(name=kind)  # noqa: E731
    modules = {
        "torchtitan.protocols.sharding": {
            "ShardingConfig": lambda **members: SimpleNamespace(**vars(config()) | members),
            "SpmdLayout": lambda types: SimpleNamespace(per_axis_spmd_types=lambda: types),
        },
        "torchtitan.distributed.parallel_dims": {"MeshAxisName": SimpleNamespace(TP="tp")},
        "spmd_types": {"S": lambda dim: SimpleNamespace(dim=dim)} | {kind: named(kind) for kind in "RIP"},
    }
    for name in ("torchtitan", "torchtitan.protocols", "torchtitan.distributed"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    for name, members in modules.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**members))


def test_configs_of_a_manifest_read_as_the_plan(tmp_path, monkeypatch):
    stand_in(monkeypatch)
    model, mesh = model_with_configs(), {"tp": 2}
    compiled = lambda text: json.loads(  # noqa: E731
        bridge.compile_manifest(tmp_path, torch_module.model_graph(model), text).read_text()
    )
    manifest = compiled(titan_plan.titan_plan(model, mesh))
    made = titan_config.sharding_configs(model, manifest)
    kinds = lambda layouts: {name: titan_plan._type(layout) for name, layout in (layouts or {}).items()}  # noqa: E731
    assert kinds(made["0.norm"].state_shardings) == {"weight": "R"}
    assert kinds(made["1.norm"].state_shardings) == {"weight": "I"}
    assert kinds(made["0.w1"].state_shardings) == {"weight": "S(0)", "bias": "S(0)"}
    assert (kinds(made["0"].in_src_shardings), kinds(made["0"].in_dst_shardings)) == ({"x": "S(1)"}, {"x": "R"})
    assert [titan_plan._type(made["0.w2"].out_src_shardings), titan_plan._type(made["0.w2"].out_dst_shardings)] == [
        "P",
        "S(1)",
    ]
    for path, said in made.items():
        model.get_submodule(path)._sharding_config = said
    again = compiled(titan_plan.titan_plan(model, mesh))
    for one, other in zip(manifest["parameters"], again["parameters"]):
        assert (one["path"], one["spec"], one["grad_reduce"]) == (other["path"], other["spec"], other["grad_reduce"])


def test_plans_without_a_config_notation_are_rejected(tmp_path, monkeypatch):
    stand_in(monkeypatch)
    model = Block()
    for plan, said in (
        ("mesh: {tp: 2}\ntp_plan: {w1: packed_colwise}", "parameter `w1.weight`: is sharded per segment"),
        ("mesh: {tp: 2}\ntp_plan: {w2: {style: rowwise, forward_dtype: float32}}", "module `w2`: has `forward_dtype`"),
        ("mesh: {rows: 2, tp: 2}\naxis: tp\ntp_plan: {w1: colwise}", "has an unsupported axis `rows`"),
    ):
        path = bridge.compile_manifest(tmp_path, torch_module.model_graph(model), f"format: tpplan.plan/1\n{plan}\n")
        with pytest.raises(ManifestError, match=said):
            titan_config.sharding_configs(model, path)
    monkeypatch.setitem(sys.modules, "torchtitan.protocols.sharding", None)
    with pytest.raises(files.InputError, match="torchtitan cannot be imported"):
        titan_config.sharding_configs(model, path)


def test_unreadable_configs_are_rejected(tmp_path, monkeypatch, capsys):
    with pytest.raises(files.InputError, match="axis `cp`"):
        titan_plan.titan_plan(model_with_configs(), {"cp": 2, "tp": 2})
    with pytest.raises(files.InputError, match="no axis `tp`"):
        titan_plan.titan_plan(model_with_configs(), {"fsdp": 2})
    with pytest.raises(files.InputError, match="no module of the model"):
        titan_plan.titan_plan(Block(), {"tp": 2})
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchtitan"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchtitan", None)
    done = files.run_command(export_main.main, ["--plan-from", "torchtitan", "llama3:debugmodel", "--mesh", "tp=2"])
    assert done == 2 and "pip install torchtitan" in capsys.readouterr().err
