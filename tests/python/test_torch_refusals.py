"""Operations that torch supports for tensors and rejects for DTensors, forward or backward: for each operation with a rule, the result of
`tpplan check` matches torch's."""

import json
import logging
import sys

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402

sys.path[:0] = [str(bridge.ROOT / "tests" / folder) for folder in ("truth", "plans")]
import graph_runs  # noqa: E402
import op_calls  # noqa: E402
import op_cases  # noqa: E402
import stack_models as stack  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Shard, distribute_tensor  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

# Depends on the arguments, or has another reason: __getitem__ and __setitem__ on the index, unbind along a sharded dim.
OTHERS = {"__getitem__", "__setitem__", "unbind"}


def is_asked(call):
    """True if all operands can be outputs of a linear: DTensors sharded along their last dim, on two ranks."""
    operands = call.operands()
    return operands and call.name not in OTHERS and all(
        o.kind in ("float", "whole", "sorted") and o.shape and o.shape[-1] % 2 == 0 for o in operands
    )  # fmt: skip


CALLS = [call for call in op_cases.CASES if is_asked(call)]
REFUSAL = "sharding strategy"
# The program uses the name only: a product of all elements has a backward, and a norm of one group.
CAUTIOUS = {"prod", "group_norm"}


@pytest.fixture(scope="module")
def mesh():
    logging.disable(logging.CRITICAL)
    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()
    logging.disable(logging.NOTSET)


def filled(call):
    generator = torch.Generator().manual_seed(1)
    return [op_calls.fill(o, generator) for o in call.operands()]


def torch_says(call, mesh):
    """ "forward" or "gradient" if torch has no strategy, "else" if it fails for another reason, None if neither happens."""
    tensors = [distribute_tensor(t, mesh, [Shard(t.ndim - 1)]).requires_grad_() for t in filled(call)]
    if call.name.endswith("_"):
        tensors = [t * 1 for t in tensors]
    try:
        args, kwargs = call.with_tensors(tensors)
        made = [o for o in graph_runs.call(call.name, args, kwargs) if isinstance(o, torch.Tensor) and o.requires_grad]
    except Exception as error:
        return "forward" if REFUSAL in str(error) else "else"
    try:
        if made:
            sum(o.abs().sum() for o in made).backward()
    except Exception as error:
        return "gradient" if REFUSAL in str(error) else "else"
    return None


def program_says(call, folder):
    tensors = filled(call)
    args, kwargs = call.with_tensors(tensors)
    made = graph_runs.call(call.name, args, kwargs)
    g = stack.begin("One")
    stack.module(g, "", "One")
    inputs = [stack.given(g, f"x{i}", t.shape) for i, t in enumerate(tensors)]
    inside = stack.enter(g, "", "One", *inputs)
    found = [stack.linear(g, f"up{i}", x, t.shape[-1]) for i, (x, t) in enumerate(zip(inside, tensors))]

    def encode(part):
        if isinstance(part, torch.Tensor):
            return [next(v for v, t in zip(found, tensors) if t is part)]
        if isinstance(part, tuple):
            return ["t", *map(encode, part)]
        return ["d", str(part)[6:]] if isinstance(part, torch.dtype) else ["x"] if part is Ellipsis else part

    outs = stack.op(g, call.name, [encode(a) for a in args], *[t.shape for t in made], grad=True,
                    **{k: encode(v) for k, v in kwargs.items()})  # fmt: skip
    outs = outs if isinstance(outs, list) else [outs]
    total = stack.op(g, "sum", [[outs[0]]], [])
    for out in outs[1:]:
        total = stack.op(g, "add", [[total], [stack.op(g, "sum", [[out]], [])]], [])
    g["output"] = stack.leave(g, "", total)[0]
    model, plan = folder / "model.json", folder / "plan.yaml"
    stack.write_model(g, model)
    plan.write_text(
        'format: tpplan.plan/1\ndialect: torch\nmesh: {tp: 2}\ntp_plan:\n  "up*": {style: colwise, use_local_output: false}\n'
    )
    result = bridge.run("check", model, plan, "--format", "json")
    assert result.stdout, (call, result.stderr)
    errors = [d for d in json.loads(result.stdout)["diagnostics"] if d["severity"] == "error"]
    said = {d["fails"] for d in errors if REFUSAL in d["message"] or "torch rejects" in d["message"]}
    return next(iter(said), "else" if errors else None)


def test_dtensor_rejections_match_torch(mesh, tmp_path):
    wrong, counts = [], {}
    for call in CALLS:
        truth, said = torch_says(call, mesh), program_says(call, tmp_path)
        counts[truth] = counts.get(truth, 0) + 1
        if truth is None and said == "gradient" and call.name in CAUTIOUS:
            continue
        if truth != said and truth != "else" and (said != "else" or truth is not None):
            wrong.append(f"{call.name} {[o.shape for o in call.operands()]} {call.args[1:]}: {truth}, said {said}")
    assert not wrong, "\n".join(wrong)
    assert counts["forward"] > 12 and counts["gradient"] > 15 and counts[None] > 200, counts
