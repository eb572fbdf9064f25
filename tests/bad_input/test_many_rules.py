"""Plans with as many rules as the model has layers: the time grows with the sum of both, not with their product."""

import itertools
import json

import pytest
from conftest import PROGRAM, linear_model
from measure import measured
from test_hostile import MEBIBYTES, SANITIZED

LAYERS = 20_000
MODEL = linear_model(**{f"model__layers__{i}__self_attn__q_proj": [64, 64] for i in range(LAYERS)})


def plan(dialect="glob", **more):
    return {
        "format": "tpplan.plan/1",
        "dialect": dialect,
        "mesh": {"tp": 2, "fsdp": 2},
        "tp_plan": {"*": "colwise"},
    } | more


def layers(text, value="colwise", count=LAYERS):
    return {text % i: value for i in range(count)}


# Names that all differ, and none is similar enough to another to be suggested.
WORDS = ["".join(letters) for letters in itertools.product("abcdefgh", repeat=5)][:LAYERS]

PLANS = {
    "blocks": (0, plan(tp_plan=None, blocks=layers("model.layers.%d", {"self_attn.q_proj": "colwise"}))),
    "blocks-of-patterns": (0, plan(tp_plan=None, blocks=layers("model.laye?s.%d", {"self_attn.q_proj": "colwise"}))),
    "dead-blocks": (1, plan(blocks=layers("model.layer.%d", {"self_attn.q_proj": "colwise"}))),
    "remat": (0, plan(remat=list(layers("model.layers.%d")))),
    "dead-remat": (1, plan(remat=list(layers("model.layer.%d")))),
    "units": (0, plan(fsdp={"axis": "fsdp", "min_weight_size": 0, "units": list(layers("model.layers.%d"))})),
    "torch": (0, plan("torch", tp_plan=layers("model.layers.%d.self_attn.q_proj"))),
    "torch-patterns": (0, plan("torch", tp_plan=layers("model.layers.%d*.sel_attn.q_proj"))),
    "typos": (1, plan(tp_plan=layers("model.layers.%d.self_atn.q_proj"))),
    "typos-that-differ": (1, plan(tp_plan={f"model.layers.0.{word * 20}.q_proj": "colwise" for word in WORDS})),
    "typos-of-many-lengths": (1, plan(tp_plan={"x." * i + "q_poj": "colwise" for i in range(200)})),
    "dead-patterns": (1, plan(tp_plan=layers("*.q_poj%d"))),
    "dead-keys-of-blocks": (1, plan(tp_plan=None, blocks={"model.layers.*": layers("*.q_poj%d")})),
}


@pytest.mark.parametrize("name", PLANS)
def test_many_rules_on_many_layers_are_quick(tmp_path, name):
    status, content = PLANS[name]
    (tmp_path / "model.json").write_text(json.dumps(MODEL))
    (tmp_path / "plan.yaml").write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
    end = measured(PROGRAM, "check", "--quiet", tmp_path / "model.json", tmp_path / "plan.yaml")
    assert end["status"] == status, end
    if not SANITIZED:
        assert end["mebibytes"] < MEBIBYTES, end


def test_fix_among_many_rules_of_a_module_takes_little_memory(tmp_path):
    """The candidates of a fix are copies of the plan: each is made when it is tried, also the exchanges of two styles."""
    count = 200  # 1 GB, when all candidates were made at once
    model = linear_model(**{f"net__{i}": [8, 8] for i in range(count)})
    model["modules"].insert(0, {"path": "net", "type": "Sequential"})
    lines, value = ["input x: float32[2, 8]", "with net(x):"], "x"
    for i in range(count):
        lines += [f"  with net.{i}({value}):", f"    y = linear({value}, net.{i}.weight) -> float32[2, 8]"]
        lines.append(f"    return y as h{i}")
        value = f"h{i}"
    model["graph"] = [*lines, f"  return {value} as z", "output z"]
    styles = {f"net.{i}": "rowwise" if i % 2 else "colwise" for i in range(count)} | {"net.100": "replicate"}
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "plan.yaml").write_text(json.dumps(plan(mesh={"tp": 2}, tp_plan=styles)))
    end = measured(PROGRAM, "check", tmp_path / "model.json", tmp_path / "plan.yaml")
    assert end["status"] == 1, end
    if not SANITIZED:
        assert end["mebibytes"] < MEBIBYTES, end
