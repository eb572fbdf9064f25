"""Training steps of a parallelized model, compared with the same model in one process: gloo, 2 and 4 ranks, float64."""

import copy
import json
import math

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402

import models  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from tpplan.torch.pieces import Pieces  # noqa: E402

TP = """
tp_plan:
  embed: {style: rowwise, input_layouts: Replicate}
  head: {style: colwise, output_layouts: Replicate}
blocks:
  layers.*:
    self_attn.q_proj: colwise
    self_attn.k_proj: colwise
    self_attn.v_proj: colwise
    self_attn.o_proj: rowwise
    mlp.gate_proj: colwise
    mlp.up_proj: colwise
    mlp.down_proj: rowwise
"""
SEQUENCE = """
tp_plan:
  embed: {style: rowwise, input_layouts: Replicate, output_layouts: Shard(1), use_local_output: false}
  norm: sequence_parallel
  head: {style: colwise, input_layouts: Shard(1), output_layouts: Replicate}
blocks:
  layers.*:
    input_norm: sequence_parallel
    post_norm: sequence_parallel
    self_attn: {style: prepare_module_input, input_layouts: Shard(1), desired_input_layouts: Replicate}
    self_attn.q_proj: colwise
    self_attn.k_proj: colwise
    self_attn.v_proj: colwise
    self_attn.o_proj: {style: rowwise, output_layouts: Shard(1), use_local_output: false}
    mlp: {style: prepare_module_input, input_layouts: Shard(1), desired_input_layouts: Replicate}
    mlp.gate_proj: colwise
    mlp.up_proj: colwise
    mlp.down_proj: {style: rowwise, output_layouts: Shard(1), use_local_output: false}
remat: [layers.*]
"""
FSDP = "data: {axes: [fsdp]}\nfsdp: {min_weight_size: 0, policy: POLICY, units: [layers.*]}\n"
ENCODER = """
tp_plan:
  words: replicate
blocks:
  blocks.*:
    query: colwise
    key: colwise
    value: colwise
    out: rowwise
    up: colwise
    down: rowwise
"""
FUSED = ENCODER.replace("    query: colwise\n    key: colwise\n    value: colwise\n", "    qkv: colwise\n")
GROUPED = TP.replace(
    "    self_attn.q_proj: colwise\n    self_attn.k_proj: colwise\n    self_attn.v_proj: colwise\n",
    "    self_attn.qkv_proj: colwise\n",
)
TWO = """
tp_plan:
  "head.weight": {spec: [tp, rows]}
  "layers.*.mlp.up_proj.weight": {spec: [[rows, tp], null]}
  "layers.*.mlp.gate_proj.weight": {spec: [[tp, rows], null]}
  "layers.*.self_attn.q_proj": colwise
  "layers.*.self_attn.k_proj": colwise
  "layers.*.self_attn.v_proj": colwise
  "layers.*.self_attn.o_proj": rowwise
"""
SPECS = """
tp_plan:
  "head.weight": {spec: [tp, null]}
  "layers.*.mlp.down_proj.weight": {spec: [null, tp]}
  "layers.*.mlp.up_proj.weight": {spec: [[tp, fsdp], null]}
  "layers.*.mlp.gate_proj.weight": {spec: [[fsdp, tp], null]}
"""


def case(mesh, plan, model=models.Llama, more="", segments=None, length=8, **kwargs):
    return dict(
        mesh=mesh,
        plan=f"format: tpplan.plan/1\nmesh: {json.dumps(mesh)}\n{more}{plan}",
        model=model,
        kwargs=kwargs,
        segments=segments,
        length=length,
    )


def fsdp(policy, units="layers.*"):
    return FSDP.replace("POLICY", policy).replace("layers.*", units)


CASES = {
    "tp": case({"tp": 2}, TP),
    "tp, biases, tied": case({"tp": 2}, TP, bias=True, tied=True),
    "tp 4, kv heads whole": case(
        {"tp": 4},
        TP.replace("k_proj: colwise", "k_proj: {style: colwise, output_layouts: Replicate}")
        .replace("v_proj: colwise", "v_proj: {style: colwise, output_layouts: Replicate}")
        .replace("q_proj: colwise", "q_proj: {style: colwise, output_layouts: Replicate}")
        .replace("o_proj: rowwise", "o_proj: {style: rowwise, input_layouts: Replicate}"),
        kv_heads=4,
        bias=True,
    ),
    "sequence": case({"tp": 2}, SEQUENCE, bias=True),
    "sequence 4, tied": case({"tp": 4}, SEQUENCE, kv_heads=4, tied=True),
    "fsdp x tp": case({"fsdp": 2, "tp": 2}, TP, more=fsdp("largest_dim"), bias=True),
    "fsdp x tp, dim 0": case({"fsdp": 2, "tp": 2}, TP, more=fsdp("dim0"), tied=True),
    "fsdp x tp, compose": case({"fsdp": 2, "tp": 2}, TP, more=fsdp("compose")),
    "fsdp x sequence": case({"fsdp": 2, "tp": 2}, SEQUENCE, more=fsdp("dim0")),
    "tp x fsdp": case({"tp": 2, "fsdp": 2}, TP, more=fsdp("dim0"), bias=True),
    "fsdp alone": case({"fsdp": 2}, "", more=fsdp("dim0") + "axis: fsdp\n", bias=True, tied=True),
    "data x tp": case({"data": 2, "tp": 2}, TP, more="data: {axes: [data]}\n"),
    "uneven": case(
        {"tp": 2},
        TP.replace(
            "embed: {style: rowwise, input_layouts: Replicate}", "embed: {style: rowwise, input_layouts: Replicate}"
        ),
        more="uneven: torch\n",
        inner=25,
        vocabulary=33,
        bias=True,
    ),
    "uneven 4": case({"tp": 4}, TP, more="uneven: torch\n", inner=9, vocabulary=7, kv_heads=4),
    "uneven fsdp x tp": case(
        {"fsdp": 2, "tp": 2}, TP, more="uneven: torch\n" + fsdp("dim0"), inner=25, vocabulary=33, bias=True
    ),
    "encoder": case({"tp": 2}, ENCODER, models.Encoder),
    "encoder, fsdp x tp": case(
        {"fsdp": 2, "tp": 2}, ENCODER, models.Encoder, more=fsdp("dim0", "blocks.*") + "uneven: torch\n", inner=30
    ),
    "fused": case({"tp": 2}, FUSED, models.Encoder, segments={"qkv": 3}, fused=True),
    "fused, fsdp x tp": case(
        {"fsdp": 2, "tp": 2}, FUSED, models.Encoder, more=fsdp("dim0", "blocks.*"), segments={"qkv": 3}, fused=True
    ),
    "grouped heads, fused": case({"tp": 2}, GROUPED, bias=True, fused=True),
    "grouped heads, fused, fsdp x tp": case({"fsdp": 2, "tp": 2}, GROUPED, more=fsdp("dim0"), bias=True, fused=True),
    "fused and gathered": case(
        {"tp": 2},
        GROUPED.replace("qkv_proj: colwise", "qkv_proj: {style: colwise, output_layouts: Replicate}").replace(
            "o_proj: rowwise", "o_proj: {style: rowwise, input_layouts: Replicate}"
        ),
        bias=True,
        fused=True,
    ),
    "sequence of uneven length": case({"tp": 4}, SEQUENCE, kv_heads=4, length=7),
    "two model axes": case({"rows": 2, "tp": 2}, TWO),
    "specs": case({"fsdp": 2, "tp": 2}, SPECS, more="data: {axes: [fsdp]}\n"),
}


def make(case_, seed=1):
    torch.manual_seed(seed)
    return case_["model"](**case_["kwargs"]).double()


def batch(length):
    torch.manual_seed(7)
    return torch.randint(0, 5, (4, length)), torch.randint(0, 5, (4, length))


def loss_of(model, tokens, targets, count):
    """The mean over the full batch, of which this may be a part."""
    logits = model(tokens)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / count


def train(model, tokens, targets, count, gradients):
    """Three steps; for each the loss and `gradients` of the model."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = []
    for _ in range(3):
        loss = loss_of(model, tokens, targets, count)
        optimizer.zero_grad()
        loss.backward()
        steps.append((loss.detach(), gradients(model)))
        optimizer.step()
    return steps


def names_of(model):
    return [name for name, _ in model.named_parameters(remove_duplicate=False)]


def graph_of(case_):
    graph = torch_module.model_graph(make(case_))
    for module in graph["modules"]:
        count = (case_["segments"] or {}).get(module["path"].rpartition(".")[2])
        for entry in module.get("parameters", {}).values() if count else ():
            entry["segments"] = {"out": [entry["shape"][0] // count] * count}
    return graph


def train_on_rank(rank, name, path, units=False):
    case_ = CASES[name]
    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)
    tokens, targets = batch(case_["length"])
    reference = make(case_)
    expected = train(
        reference,
        tokens,
        targets,
        targets.numel(),
        lambda model: {n: model.get_parameter(n).grad.clone() for n in names_of(model)},
    )
    whole = {n: p.detach().clone() for n, p in make(case_).named_parameters(remove_duplicate=False)}
    # The values of other ranks do not matter: those of the first rank apply.
    model = bridge_torch.parallelize(make(case_, seed=1 + rank), manifest, mesh, units=units)
    check_pieces(model, manifest, rank, whole)
    data = [axis for axis, _ in manifest.mesh if axis in (*manifest.data_axes, manifest.fsdp_axis)]
    for axis in data:
        index, size = mesh.get_local_rank(axis), dict(manifest.mesh)[axis]
        tokens, targets = tokens.chunk(size)[index], targets.chunk(size)[index]
    count = batch(case_["length"])[1].numel()
    got = train(
        model,
        tokens,
        targets,
        count,
        lambda model: {n: bridge_torch.full_tensor(model, n, gradient=True) for n in names_of(model)},
    )
    for (loss, gradients), (loss_here, gradients_here) in zip(expected, got):
        for axis in data:
            torch.distributed.all_reduce(loss_here, group=mesh.get_group(axis))
        assert abs(loss - loss_here) < 1e-9, (loss, loss_here)
        for parameter, gradient in gradients.items():
            assert (gradients_here[parameter] - gradient).abs().max() < 1e-9, parameter
    for parameter in names_of(model):
        assert (bridge_torch.full_tensor(model, parameter) - reference.get_parameter(parameter)).abs().max() < 1e-9
    check_pieces(model, manifest, rank, {n: p.detach() for n, p in reference.named_parameters(remove_duplicate=False)})
    with pytest.raises(m.ManifestError, match="copy"):
        copy.deepcopy(model)
    for parameter in model.parameters():
        assert parameter.grad.placements == parameter.placements and type(parameter.grad) is type(parameter.data)


def check_pieces(model, manifest, rank, whole):
    """Checks that each local tensor is the shard of the rank in the manifest."""
    for path, tensor in manifest.parameters.items():
        parameter = model.get_parameter(path)
        assert isinstance(parameter, torch.nn.Parameter)
        assert isinstance(parameter, DTensor) and parameter.shape == torch.Size(tensor.shape), path
        if not isinstance(parameter, Pieces):  # torch has no notation for its placements, or another one
            assert tuple(map(written, parameter.placements)) == tensor.placements, path
        local = parameter.to_local()
        assert list(local.shape) == m.local_shape(manifest, tensor, rank)
        for dim, runs in enumerate(m.local_slice(manifest, tensor, rank)):
            whole[path] = whole[path].index_select(
                dim, torch.tensor([i for run in runs for i in range(*run)], dtype=torch.long)
            )
        assert (local - whole[path]).abs().sum() < 1e-9
    for path in manifest.buffers:
        assert all(p.is_replicate() for p in model.get_buffer(path).placements)


def written(placement):
    """A torch placement in the notation of manifests."""
    if placement.is_replicate():
        return "Replicate"
    factor = getattr(placement, "split_factor", None)
    return f"StridedShard({placement.dim}, {factor})" if factor is not None else f"Shard({placement.dim})"


@pytest.mark.parametrize("name", CASES)
def test_three_steps_match_one_process(tmp_path, ranks, name):  # noqa: F811
    path = bridge.compile_manifest(tmp_path, graph_of(CASES[name]), CASES[name]["plan"])
    ranks.run(math.prod(CASES[name]["mesh"].values()), train_on_rank, name, str(path))


@pytest.mark.parametrize("name", [name for name, case_ in CASES.items() if "fsdp" in case_["mesh"]])
def test_units_in_one_buffer_train_as_one_process(tmp_path, ranks, name):  # noqa: F811
    path = bridge.compile_manifest(tmp_path, graph_of(CASES[name]), CASES[name]["plan"])
    ranks.run(math.prod(CASES[name]["mesh"].values()), train_on_rank, name, str(path), True)
