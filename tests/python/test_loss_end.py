"""Diagnostics for losses, counts and norms match gloo ranks: the gradient of one process, or larger or smaller by the factor in the
message. clip_grad_norm computes the norm of one process."""

import json
import math

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from bridge import mesh_of, ranks, run  # noqa: E402, F401
from test_torch_training import CASES, batch, graph_of, make, names_of  # noqa: E402
from torch import distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.nn.functional import all_gather  # noqa: E402

from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.torch.norms import clip_grad_norm, grad_norm  # noqa: E402

CLASSES, WIDTH, ROWS = 6, 4, 4
MODEL = {
    "format": "tpplan.model/1",
    "name": "M",
    "framework": "torch",
    "modules": [
        {"path": "", "type": "M"},
        {"path": "head", "type": "Linear", "parameters": {"weight": {"shape": [CLASSES, WIDTH], "dtype": "float64"}}},
    ],
    "graph": {
        "strings": ["@enter", "@exit", "head", "linear", "float64", "x", "head.weight"],
        "shapes": [[ROWS, 2, WIDTH], [CLASSES, WIDTH], [ROWS, 2, CLASSES]],
        "values": [[0, 4, 0], [1, 4, 1], [0, 4, 0], [2, 4, 1], [2, 4, 1]],
        "leaves": [[0, "input", 5], [1, "param", 6]],
        "nodes": [[0, 2, 1, 0, [[[0], 0, 2]]], [3, [[2], [1]], [], [3]], [1, 2, [[[], 3, 4]]]],
        "output": 4,
    },
}


def data():
    """Rows of tokens, half per rank; -100 is ignored, and occurs only in the second half."""
    torch.manual_seed(3)
    targets = torch.randint(0, CLASSES, (ROWS, 2))
    targets[3] = -100
    return torch.randn(ROWS, 2, WIDTH, dtype=torch.float64), targets


def start():
    torch.manual_seed(5)
    return torch.randn(CLASSES, WIDTH, dtype=torch.float64, requires_grad=True)


def summed(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


def one_process():
    x, targets = data()
    weight = start()
    (summed(x @ weight.T, targets) / (targets >= 0).sum()).backward()
    return weight.grad


def gradient_over_data(rank, full, count, gradients):
    """Every rank has half of the rows; a training loop without a wrapper."""
    x, targets = data()
    if full:  # every rank counts the same number
        targets = targets.where(targets >= 0, 0)
    everything = (targets >= 0).sum()
    x, targets = x.chunk(2)[rank], targets.chunk(2)[rank]
    weight = start()
    own = (targets >= 0).sum()
    (summed(x @ weight.T, targets) / (own if count == "per_rank" else everything)).backward()
    dist.all_reduce(weight.grad)
    return weight.grad / (2 if gradients == "mean" else 1)


def whole_over_data(full):
    x, targets = data()
    if full:
        targets = targets.where(targets >= 0, 0)
    weight = start()
    (summed(x @ weight.T, targets) / (targets >= 0).sum()).backward()
    return weight.grad


# Computation of the loss, whether all ranks count the same number; the expected code, and the factor of the gradients (None: no single
# factor).
DATA_CASES = {
    "global count, summed": ("global", "sum", False, None, 1),
    "own count, summed": ("per_rank", "sum", True, "TP5117", 2),
    "global count, averaged": ("global", "mean", False, "TP5117", 0.5),
    "own count, averaged, full batches": ("per_rank", "mean", True, "TP5119", 1),
    "own count, averaged, padding": ("per_rank", "mean", False, "TP5119", None),
}


def check_data_case(rank, name):
    count, gradients, full, _, ratio = DATA_CASES[name]
    found, right = gradient_over_data(rank, full, count, gradients), whole_over_data(full)
    if ratio is None:
        quotient = found / right
        assert (quotient - quotient.flatten()[0]).abs().max() > 1e-3
    else:
        assert (found - ratio * right).abs().max() < 1e-12


def findings(folder, plan, *flags):
    model, path = bridge.write(folder, json.dumps(MODEL), plan)
    return json.loads(run("check", model, path, "--format", "json", *flags).stdout)["diagnostics"]


def codes(found):
    return {d["code"] for d in found if d["code"].startswith("TP51")}


@pytest.mark.parametrize("name", DATA_CASES)
def test_count_and_gradient_diagnostics_match_the_ranks(tmp_path, ranks, name):  # noqa: F811
    count, gradients, _, code, ratio = DATA_CASES[name]
    found = findings(
        tmp_path,
        "format: tpplan.plan/1\nmesh: {dp: 2, tp: 2}\ndata: {axes: [dp]}\n"
        "tp_plan: {head: {style: colwise, output_layouts: Replicate}}\n"
        f"loss: {{reduction: mean, count: {count}, gradients: {gradients}}}\n",
    )
    assert codes(found) == ({code} if code else set()), found
    words = {2: "2 times too large", 0.5: "2 times too small"}
    if ratio in words:
        assert words[ratio] in found[0]["message"]
    ranks.run(2, check_data_case, name)


class SliceBack(torch.autograd.Function):
    """all_gather of a result that every rank uses identically: its gradient is the slice of the rank."""

    @staticmethod
    def forward(ctx, piece):
        pieces = [torch.empty_like(piece) for _ in range(2)]
        dist.all_gather(pieces, piece.contiguous())
        return torch.cat(pieces, -1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(2, -1)[dist.get_rank()]


def check_classes(rank, way, ratio):
    """The head is sharded over classes; every rank has all rows."""
    x, targets = data()
    piece = start().detach().chunk(2)[rank].clone().requires_grad_()
    logits = x @ piece.T
    if way == "own piece":
        local = (targets - rank * 3).where((targets >= rank * 3) & (targets < rank * 3 + 3), -100)
        loss = summed(logits, local) / (targets >= 0).sum()
    else:
        whole = SliceBack.apply(logits) if way == "cut back" else torch.cat(all_gather(logits), -1)
        loss = summed(whole, targets) / (targets >= 0).sum()
    loss.backward()
    right = one_process().chunk(2)[rank]
    if ratio is None:
        assert (piece.grad - right).abs().max() > 1e-3
    else:
        assert (piece.grad - ratio * right).abs().max() < 1e-12


CLASS_CASES = {
    "gathered, gradient is cut": ("cut back", 1, "{style: colwise, output_layouts: Replicate}", "", None),
    "gathered, gradient is summed": (
        "summed back",
        2,
        "{style: colwise, output_layouts: Replicate}",
        ", axes: [tp]",
        "TP5118",
    ),
    "a loss over each piece of the classes": ("own piece", None, "colwise", "", "TP5116"),
}


@pytest.mark.parametrize("name", CLASS_CASES)
def test_class_sharding_diagnostics_match_the_ranks(tmp_path, ranks, name):  # noqa: F811
    way, ratio, head, axes, code = CLASS_CASES[name]
    found = findings(
        tmp_path, f"format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan: {{head: {head}}}\nloss: {{count: global{axes}}}\n"
    )
    assert codes(found) == ({code} if code else set()), found
    if ratio == 2:
        assert "2 times too large" in found[0]["message"]
    ranks.run(2, check_classes, way, ratio)


def check_sequence(rank, count, ratio):
    """Each rank has some tokens of one sequence, and gradients are summed, as for modules over model axes."""
    x, targets = data()
    targets = targets.where(targets >= 0, 0)
    piece = start()
    loss = summed(x[:, rank : rank + 1] @ piece.T, targets[:, rank : rank + 1])
    (loss / (targets.numel() // (2 if count == "per_rank" else 1))).backward()
    dist.all_reduce(piece.grad)
    assert (piece.grad - ratio * whole_over_data(True)).abs().max() < 1e-12


@pytest.mark.parametrize("count, ratio, code", [("global", 1, None), ("per_rank", 2, "TP5117")])
def test_sequence_sharding_diagnostics_match_the_ranks(tmp_path, ranks, count, ratio, code):  # noqa: F811
    found = findings(
        tmp_path,
        "format: tpplan.plan/1\nmesh: {tp: 2}\n"
        "tp_plan: {head: {style: rowwise, input_layouts: Replicate, output_layouts: Shard(1)}}\n"
        f"loss: {{count: {count}, axes: [tp]}}\n",
    )
    assert codes(found) == ({code} if code else set()), found
    ranks.run(2, check_sequence, count, ratio)


# ---- the norm ----

NORMS = [
    "tp, biases, tied",
    "sequence 4, tied",
    "fsdp x tp",
    "fsdp x tp, dim 0",
    "fused, fsdp x tp",
    "two model axes",
    "uneven",
]


def clip_on_rank(rank, name, path):
    case = CASES[name]
    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)
    tokens, targets = batch(case["length"])
    reference = make(case)
    loss = lambda model, t, y: summed(model(t), y) / targets.numel()  # noqa: E731
    loss(reference, tokens, targets).backward()
    model = bridge_torch.parallelize(make(case), manifest, mesh)
    own_tokens, own_targets = tokens, targets
    for axis, size in manifest.mesh:
        if axis in (*manifest.data_axes, manifest.fsdp_axis):
            own_tokens = own_tokens.chunk(size)[mesh.get_local_rank(axis)]
            own_targets = own_targets.chunk(size)[mesh.get_local_rank(axis)]
    loss(model, own_tokens, own_targets).backward()
    for kind in (2.0, 3.0, math.inf):
        right = torch.nn.utils.get_total_norm([p.grad for p in reference.parameters()], kind)
        assert abs(grad_norm(model, kind) - right) < 1e-9 * max(1, right), kind
    limit = float(grad_norm(model)) / 3
    before = torch.nn.utils.clip_grad_norm_(reference.parameters(), limit)
    assert abs(clip_grad_norm(model, limit) - before) < 1e-9
    for parameter in names_of(model):
        whole = bridge_torch.full_tensor(model, parameter, gradient=True)
        assert (whole - reference.get_parameter(parameter).grad).abs().max() < 1e-9, parameter


@pytest.mark.parametrize("name", NORMS)
def test_grad_norm_matches_one_process(tmp_path, ranks, name):  # noqa: F811
    path = bridge.compile_manifest(tmp_path, graph_of(CASES[name]), CASES[name]["plan"])
    ranks.run(math.prod(CASES[name]["mesh"].values()), clip_on_rank, name, str(path))


def edited(path, change):
    document = json.loads(path.read_text())
    change(document)
    return document


def test_wrong_norm_weight_is_rejected(tmp_path):
    path = bridge.compile_manifest(tmp_path, graph_of(CASES["tp"]), CASES["tp"]["plan"])
    document = edited(path, lambda d: d["parameters"][0].update(norm_weight="1/3"))
    path.write_text(json.dumps(document))
    shown = run("show", path, "--verify")
    assert shown.returncode and b"TP7002" in shown.stderr + shown.stdout


def test_averaged_gradients_are_rejected(tmp_path, ranks):  # noqa: F811
    case = CASES["fsdp x tp"]
    path = bridge.compile_manifest(tmp_path, graph_of(case), case["plan"] + "loss: {gradients: mean}\n")
    ranks.run(4, refuse_on_rank, str(path))


def refuse_on_rank(rank, path):
    manifest = m.load_manifest(path)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
    with pytest.raises(m.ManifestError, match="averages"):
        bridge_torch.parallelize(make(CASES["fsdp x tp"]), manifest, mesh)
