"""tpplan.torch without training: its placements compared with parallelize_module, mixed tensors, loading, rejections."""

import copy
import json

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor import parallel as tp  # noqa: E402

import models  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from tpplan import compare_transformers, plans  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from tpplan.torch import mixing, placements  # noqa: E402

TP_PLAN = {
    "embed": tp.RowwiseParallel(input_layouts=Replicate()),
    "layers.*.self_attn.[qkv]_proj": tp.ColwiseParallel(),
    "layers.*.self_attn.o_proj": tp.RowwiseParallel(),
    "layers.*.mlp.gate_proj": tp.ColwiseParallel(),
    "layers.*.mlp.up_proj": tp.ColwiseParallel(),
    "layers.*.mlp.down_proj": tp.RowwiseParallel(),
    "head": tp.ColwiseParallel(output_layouts=Replicate()),
}
SEQUENCE_PLAN = {
    "embed": tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
    "layers.*.input_norm": tp.SequenceParallel(),
    "layers.*.self_attn": tp.PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "layers.*.self_attn.[qkv]_proj": tp.ColwiseParallel(),
    "layers.*.self_attn.o_proj": tp.RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "layers.*.post_norm": tp.SequenceParallel(),
    "layers.*.mlp": tp.PrepareModuleInputOutput(
        input_layouts=(Shard(1),),
        desired_input_layouts=(Replicate(),),
        output_layouts=(Partial(),),
        desired_output_layouts=(Shard(1),),
        use_local_output=False,
    ),
    "layers.*.mlp.gate_proj": tp.ColwiseParallel(),
    "layers.*.mlp.up_proj": tp.ColwiseParallel(),
    "layers.*.mlp.down_proj": tp.RowwiseParallel(output_layouts=Partial(), use_local_output=False),
    "norm": tp.SequenceParallel(sequence_dim=1),
    "head": tp.ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}
UNEVEN_PLAN = {
    "mlp.gate_proj": tp.ColwiseParallel(),
    "mlp.up_proj": tp.ColwiseParallel(output_layouts=Replicate()),
    "self_attn": tp.PrepareModuleOutput(
        output_layouts=(Replicate(),), desired_output_layouts=(Shard(1),), use_local_output=False
    ),
}
PLANS = {
    "tp": (TP_PLAN, lambda: models.Llama(bias=True), 2),
    "tp 4": (TP_PLAN, lambda: models.Llama(kv_heads=4), 4),
    "sequence": (SEQUENCE_PLAN, lambda: models.Llama(bias=True), 2),
    "uneven": (UNEVEN_PLAN, lambda: models.Layer(16, 4, 2, 25, True), 4),
    "one style": (tp.ColwiseParallel(), lambda: nn.Linear(6, 10), 4),
}


def beside_torch(rank, name, path):
    plan, make, size = PLANS[name]
    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)
    torch.manual_seed(0)
    theirs = make().double()
    ours = bridge_torch.parallelize(copy.deepcopy(theirs), manifest, mesh)
    tp.parallelize_module(theirs, mesh, plan)
    count = 0
    for path, parameter in theirs.named_parameters():
        mine = ours.get_parameter(path)
        placements = parameter.placements if isinstance(parameter, DTensor) else (Replicate(),)
        count += not placements[0].is_replicate()
        local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        assert mine.placements == placements and mine.shape == parameter.shape, path
        assert torch.equal(mine.to_local(), local), path
    assert count
    if isinstance(theirs, models.Llama):
        tokens = torch.arange(16).view(2, 8) % 7
        outputs = [model(tokens) for model in (theirs, ours)]
        assert torch.equal(*outputs)
        for output in outputs:
            output.pow(2).sum().backward()
        for path, parameter in theirs.named_parameters():
            gradient = parameter.grad.full_tensor() if isinstance(parameter.grad, DTensor) else parameter.grad
            assert torch.allclose(gradient, bridge_torch.full_tensor(ours, path, gradient=True), atol=1e-12), path


@pytest.mark.parametrize("name", PLANS)
def test_placements_match_parallelize_module(tmp_path, ranks, name):  # noqa: F811
    plan, make, size = PLANS[name]
    path = bridge.compile_manifest(
        tmp_path, torch_module.model_graph(make().double()), plans.torch_plan(plan, {"tp": size})
    )
    ranks.run(size, beside_torch, name, str(path))


# Mixed operations.


def mixed_operations(rank):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    whole, plain = torch.rand(8, 4, dtype=torch.float64) + 1, torch.rand(8, 4, dtype=torch.float64) + 1
    for layout in ([Shard(0)], [Shard(1)], [Replicate()]):
        for function in (torch.subtract, torch.multiply, torch.minimum, torch.maximum, torch.divide, torch.add):
            for turned in (False, True):
                weight = nn.Parameter(distribute_tensor(whole.clone(), mesh, layout))
                arguments = (plain, weight) if turned else (weight, plain)
                with pytest.raises(RuntimeError, match="mixed"):
                    function(*arguments)
                with bridge_torch.mixed():
                    result = function(*arguments)
                expected = function(*((plain, whole) if turned else (whole, plain)))
                assert (
                    isinstance(result, DTensor)
                    and result.placements == tuple(layout)
                    and torch.equal(result.full_tensor(), expected)
                )
                result.sum().backward()
                reference = whole.clone().requires_grad_()
                function(*((plain, reference) if turned else (reference, plain))).sum().backward()
                assert list(weight.placements) == layout and torch.equal(weight.grad.full_tensor(), reference.grad)
        with torch.no_grad(), bridge_torch.mixed():
            weight.sub_(plain)
            weight.copy_(weight * 2 - plain)
            assert list(weight.placements) == layout and torch.allclose(
                weight.full_tensor(), (whole - plain) * 2 - plain
            )
    spread = bridge_torch.ensure_dtensor(plain, mesh)
    assert isinstance(spread, DTensor) and bridge_torch.ensure_dtensor(spread, mesh) is spread
    assert bridge_torch.ensure_dtensor(plain, mesh, [Shard(0)]).shape == (16, 4)
    assert bridge_torch.ensure_dtensor(3, mesh) == 3 and bridge_torch.ensure_dtensor(None, mesh) is None


def test_plain_tensors_combine_with_sharded_weights(ranks):  # noqa: F811
    ranks.run(2, mixed_operations)


# Values that are not contiguous, and methods other than forward.


class Turned(nn.Module):
    """The outputs of an LSTM and a convolution are not contiguous, nor is the input of `down`; a root parameter next to them."""

    def __init__(self):
        super().__init__()
        self.lstm, self.conv = nn.LSTM(8, 8, batch_first=True), nn.Conv1d(8, 8, 1)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.scale = nn.Parameter(torch.rand(8))

    def encode(self, x):
        for turned in (self.lstm(x)[0], self.conv(x.transpose(1, 2)).transpose(1, 2)):
            x = x + self.down(torch.tanh(self.up(turned)).transpose(1, 2).contiguous().transpose(1, 2))
        return x * self.scale

    def forward(self, x):
        return self.encode(x) + 1


def encodes(rank, path, cuts):
    manifest = m.load_manifest(path)
    models_ = []
    for _ in range(2):
        torch.manual_seed(2)
        models_.append(Turned().double())
    whole, spread = models_
    bridge_torch.parallelize(spread, manifest, mesh_of(manifest))
    x = torch.randn(2, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    with bridge_torch.mixed(spread):
        found = spread.encode(x)
    results = [whole.encode(x) + whole(x), bridge_torch.placements.gathered(found) if cuts else found]
    assert (results[1] - whole.encode(x)).abs().max() < 1e-9
    results[1] = results[1] + spread(x)
    for result in results:
        assert (result - results[0]).abs().max() < 1e-9
        result.pow(2).sum().backward()
    for path, parameter in whole.named_parameters():
        assert (bridge_torch.full_tensor(spread, path, gradient=True) - parameter.grad).abs().max() < 1e-9, path


@pytest.mark.parametrize("cuts", [False, True])
def test_non_contiguous_values_and_other_methods_match(tmp_path, ranks, cuts):  # noqa: F811
    rules = "up: colwise, down: rowwise" + (", scale: {spec: [tp]}" if cuts else "")
    plan = f"format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan: {{{rules}}}\n"
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(Turned().double()), plan)
    ranks.run(2, encodes, str(path), cuts)


# Values: their sources, and that they remain sharded.

LOADING = (
    "format: tpplan.plan/1\nmesh: {fsdp: 2, tp: 2}\ndata: {axes: [fsdp]}\nfsdp: {min_weight_size: 0, policy: dim0}\n"
    "tp_plan: {embed: embedding_rowwise, head: colwise_gather_output}\nblocks: {'layers.*': {mlp.gate_proj: colwise, mlp.up_proj: colwise, "
    "mlp.down_proj: rowwise}}\n"
)


def loads(rank, path, checkpoint):
    from tpplan import load_safetensors

    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)
    torch.manual_seed(0)
    whole = models.Llama(bias=True).double()
    tokens = torch.arange(16).view(2, 8) % 7
    expected = whole(tokens[mesh.get_local_rank("fsdp")][None])
    # load_state_dict of full tensors into a parallelized model
    model = bridge_torch.parallelize(models.Llama(bias=True).double(), manifest, mesh)
    model.load_state_dict(whole.state_dict())
    check_sharded(model, manifest, rank)
    assert torch.allclose(model(tokens[mesh.get_local_rank("fsdp")][None]), expected, atol=1e-12)
    # the state_dict of a parallelized model into another one
    again = bridge_torch.parallelize(models.Llama(bias=True).double(), manifest, mesh)
    again.load_state_dict(model.state_dict())
    assert all(torch.equal(a.to_local(), b.to_local()) for a, b in zip(model.parameters(), again.parameters()))
    # shards of a checkpoint, into a model on the meta device with one real module
    with torch.device("meta"):
        empty = models.Llama(bias=True).double()
    empty.rotary = models.Rotary(4)
    shards = load_safetensors(manifest, checkpoint, rank)
    filled = bridge_torch.parallelize(empty, manifest, mesh, shards=shards)
    assert not any(p.is_meta for p in filled.parameters())
    assert torch.allclose(filled(tokens[mesh.get_local_rank("fsdp")][None]), expected, atol=1e-12)
    check_sharded(filled, manifest, rank)
    optimizer = torch.optim.AdamW(filled.parameters(), lr=0.1)
    filled(tokens).sum().backward()
    norm = nn.utils.clip_grad_norm_(filled.parameters(), 1.0)
    norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
    assert norm > 0
    optimizer.step()
    check_sharded(filled, manifest, rank)


def check_sharded(model, manifest, rank):
    for path, tensor in manifest.parameters.items():
        assert list(model.get_parameter(path).to_local().shape) == m.local_shape(manifest, tensor, rank)
        assert (
            model.get_parameter(path).to_local().untyped_storage().nbytes()
            == 8 * model.get_parameter(path).to_local().numel()
        )


def test_values_are_loaded_sharded_and_remain_so(tmp_path, ranks):  # noqa: F811
    bridge.needs("safetensors")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    whole = models.Llama(bias=True).double()
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(whole), LOADING)
    save_file(whole.state_dict(), tmp_path / "model.safetensors")
    ranks.run(4, loads, str(path), str(tmp_path / "model.safetensors"))


def materialises(rank, path):
    manifest = m.load_manifest(path)
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 6), nn.LayerNorm(6), nn.BatchNorm1d(6), nn.Linear(6, 8))
    torch.manual_seed(rank)
    bridge_torch.parallelize(model, manifest, mesh_of(manifest))
    weight = bridge_torch.full_tensor(model, "0.weight")
    assert 0 < weight.abs().max() <= 8**-0.5 and weight.std() > 0.1
    others = [torch.empty_like(weight) for _ in range(2)]
    torch.distributed.all_gather(others, weight)
    assert torch.equal(*others)
    assert torch.equal(bridge_torch.full_tensor(model, "1.weight"), torch.ones(6))
    # A module may write to its buffers, and may replace them.
    assert isinstance(model[2].running_mean, DTensor)
    model(torch.randn(4, 8) + 3)
    assert (
        isinstance(model[2].running_mean, DTensor)
        and model[2].running_mean.to_local().abs().sum() > 0
        and model[2].num_batches_tracked.to_local() == 1
    )


def test_meta_model_is_materialised_shard_by_shard(tmp_path, ranks):  # noqa: F811
    model = nn.Sequential(nn.Linear(8, 6), nn.LayerNorm(6), nn.BatchNorm1d(6), nn.Linear(6, 8))
    plan = (
        "format: tpplan.plan/1\nmesh: {tp: 2}\n"
        "tp_plan: {'0': {style: colwise, output_layouts: Replicate}, '3.weight': {spec: [tp, null]}}\n"
    )
    ranks.run(2, materialises, str(bridge.compile_manifest(tmp_path, torch_module.model_graph(model), plan)))


class Composite(nn.Module):
    """Modules that read parameters of each other, and torch modules that hide their parameters."""

    def __init__(self):
        super().__init__()
        self.lstm, self.attention, self.counter = (
            nn.LSTM(8, 8, batch_first=True),
            nn.MultiheadAttention(8, 2, batch_first=True),
            Counter(),
        )
        self.norm, self.mlp = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        x, _ = self.lstm(x)
        x = self.attention(x, x, x, need_weights=False)[0]
        x = nn.functional.layer_norm(x, (8,), self.norm.weight, self.norm.bias)
        return nn.functional.linear(self.counter(x), self.mlp.weight, self.mlp.bias)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count = self.count + 1
        return x * self.count


def runs_composite(rank, path):
    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)
    torch.manual_seed(0)
    whole = Composite().double()
    model = bridge_torch.parallelize(copy.deepcopy(whole), manifest, mesh)
    torch.manual_seed(1)
    x = torch.randn(4, 3, 8, dtype=torch.float64)
    expected = whole(x)
    expected.sum().backward()
    part = x.chunk(2)[mesh.get_local_rank("fsdp")]
    got = model(part)  # the functional matmul gathers the sharded weight
    assert torch.allclose(got, expected.chunk(2)[mesh.get_local_rank("fsdp")], atol=1e-12)
    got.sum().backward()
    for path, parameter in whole.named_parameters():
        assert torch.allclose(bridge_torch.full_tensor(model, path, gradient=True), parameter.grad, atol=1e-9), path
    assert isinstance(model.counter.count, DTensor) and model.counter.count.to_local() == 1
    model(part)
    assert model.counter.count.to_local() == 2


def test_modules_that_read_parameters_of_each_other(tmp_path, ranks):  # noqa: F811
    plan = (
        "format: tpplan.plan/1\nmesh: {fsdp: 2, tp: 2}\ndata: {axes: [fsdp]}\nfsdp: {min_weight_size: 0, policy: dim0}\n"
        "tp_plan: {mlp.weight: {spec: [null, tp]}}\n"
    )
    ranks.run(
        4, runs_composite, str(bridge.compile_manifest(tmp_path, torch_module.model_graph(Composite().double()), plan))
    )


def reads_boundaries(rank, path):
    """Inputs by name, uneven shards as plain tensors, and inputs that are no shards."""
    manifest = m.load_manifest(path)
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(7, 5))
    model = bridge_torch.parallelize(copy.deepcopy(whole), manifest, mesh_of(manifest))
    x = torch.randn(3, 7)
    piece = x[:, :4] if rank == 0 else x[:, 4:]
    assert torch.allclose(model[0](piece), whole(x), atol=1e-6) and torch.allclose(
        model[0](input=piece), whole(x), atol=1e-6
    )
    with pytest.raises(ValueError, match="this rank's shard"):
        model[0](x[:, :2])


def test_uneven_inputs_by_position_and_by_name(tmp_path, ranks):  # noqa: F811
    graph = torch_module.model_graph(nn.Sequential(nn.Linear(7, 5)))
    ranks.run(
        2,
        reads_boundaries,
        str(
            bridge.compile_manifest(
                tmp_path, graph, "format: tpplan.plan/1\nmesh: {tp: 2}\nuneven: torch\ntp_plan: {'0': rowwise}\n"
            )
        ),
    )


# Rejections, before any change of the model.


@pytest.fixture
def fake_mesh():
    with compare_transformers.fake_ranks(2):
        yield init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


def small_manifest(
    tmp_path,
    plan="tp_plan: {layers.0.mlp.gate_proj: colwise, layers.0.mlp.up_proj: colwise, layers.0.mlp.down_proj: rowwise}\n",
):
    return json.loads(
        bridge.compile_manifest(
            tmp_path, torch_module.model_graph(models.Llama()), "format: tpplan.plan/1\nmesh: {tp: 2}\n" + plan
        ).read_text()
    )


def elsewhere(document, number, path):
    """Adds a module that the model lacks, and counts it in its rule."""
    document["modules"][number]["path"] = path
    document["rules"][document["modules"][number]["rule"]]["bare"] = 1


def refusals():
    def edit(*path):
        *keys, last, value = path

        def apply(document, model):
            for key in keys:
                document = document[key]
            document[last] = value

        return apply

    def restyle(style):
        """Changes all entries under the first module's rule."""

        def apply(document, model):
            rule = document["modules"][0]["rule"]
            for entry in [*document["modules"], *document["parameters"]]:
                if entry.get("rule") == rule:
                    entry["style"] = style

        return apply

    return {
        "`head.bias`.*not in the manifest": lambda d, model: setattr(model, "head", nn.Linear(16, 32)),
        "`norm.weight`.*is in the manifest but not in the model": lambda d, model: setattr(
            model, "norm", nn.Identity()
        ),
        "`head.weight`.*shape": lambda d, model: setattr(model, "head", nn.Linear(16, 33, bias=False)),
        "`embed.weight`.*float64": lambda d, model: model.double(),
        "counts 21 tensors, but the model has 20": lambda d, model: setattr(model.head, "weight", model.embed.weight),
        "buffer `rotary.other`": lambda d, model: model.rotary.register_buffer("other", torch.zeros(1)),
        "`rotary.inv_freq`.*is in the manifest but not in the model": lambda d, model: model.rotary.register_buffer(
            "inv_freq", None
        ),
        "`rotary.inv_freq`.*\\[3\\]": lambda d, model: model.rotary.register_buffer(
            "inv_freq", torch.zeros(3).double()
        ),
        "`layers.9`.*not in the model": lambda d, model: elsewhere(d, 0, "layers.9"),
        "`remat` but not in the model": edit("remat", ["nowhere"]),
        "mesh": edit("mesh", 0, "name", "xx"),
        "its attribute `num_experts` is not": restyle("ep_dispatch_experts"),
        "qk_rope_head_dim": restyle("mla_kv_a_proj"),
        "unknown layout": edit("modules", 0, "inputs", 0, "from", ["Nonsense(3)"]),
        "is not an nn.Module": None,
    }


@pytest.mark.parametrize("said", refusals())
def test_mismatched_manifest_is_rejected_before_any_change(tmp_path, fake_mesh, said):
    document, model, change = small_manifest(tmp_path), models.Llama(), refusals()[said]
    if change is None:
        model = [model]
    else:
        change(document, model)
    before = {} if change is None else dict(model.named_parameters())
    with pytest.raises(m.ManifestError, match=said):
        bridge_torch.parallelize(model, document, fake_mesh)
    if change is not None:
        assert all(model.get_parameter(path) is parameter for path, parameter in before.items())
        assert not any("forward" in module.__dict__ for module in model.modules())


def test_other_rejections(tmp_path, fake_mesh, monkeypatch):
    document = small_manifest(tmp_path)
    with torch.device("meta"):
        empty = models.Llama()
    with pytest.raises(m.ManifestError, match="reset_parameters"):
        bridge_torch.parallelize(empty, document, fake_mesh)
    for shards, said in (
        ({"nowhere": torch.zeros(1)}, "not in the manifest"),
        ({"norm.weight": torch.zeros(7)}, "its shard is"),
        ({"norm.weight": torch.zeros(16).double()}, "its shard is"),
    ):
        with pytest.raises(m.ManifestError, match=said):
            bridge_torch.parallelize(models.Llama(), document, fake_mesh, shards=shards)
    model = bridge_torch.parallelize(models.Llama(), document, fake_mesh)
    with pytest.raises(m.ManifestError, match="already"):
        bridge_torch.parallelize(model, document, fake_mesh)
    with pytest.raises(m.ManifestError, match="device mesh is"):
        bridge_torch.parallelize(models.Llama(), document, init_device_mesh("cpu", (2,)))
    with pytest.raises(m.ManifestError, match="not a DeviceMesh"):
        bridge_torch.parallelize(models.Llama(), document, None)
    monkeypatch.setattr(placements, "DTensor", None)
    with pytest.raises(m.ManifestError, match="has no DTensor"):
        bridge_torch.parallelize(models.Llama(), document, fake_mesh)


def counts_collectives(rank, name, path):
    """The manifest lists DTensor's implicit collectives: none is missing, none is counted twice."""
    from torch.distributed.tensor.debug import CommDebugMode

    document = json.loads(open(path).read())
    model = bridge_torch.parallelize(PLANS[name][1]().double(), document, mesh_of(m.load_manifest(path)))
    tokens = torch.arange(16).view(2, 8) % 7
    found = {}
    with CommDebugMode() as counting:
        loss = model(tokens).pow(2).sum()
    found["forward"] = counting.get_comm_counts()
    with CommDebugMode() as counting:
        loss.backward()
    found["backward"] = counting.get_comm_counts()
    for phase, counts in found.items():
        listed = [
            step["kind"]
            for module in document["modules"]
            for value in module["inputs"] + module["outputs"]
            for step in value.get(phase, [])
        ]
        if phase == "backward":
            listed += [reduce["kind"] for parameter in document["parameters"] for reduce in parameter["grad_reduce"]]
        wanted = {kind: listed.count(kind) for kind in ("all_gather", "all_reduce", "reduce_scatter", "all_to_all")}
        seen = dict.fromkeys(wanted, 0)
        for operation, count in counts.items():
            seen[next(kind for kind in seen if kind.replace("_", "") in str(operation).replace("_", ""))] += count
        assert seen == wanted, (phase, seen, wanted)


@pytest.mark.parametrize("name", ["tp", "tp 4", "sequence"])
def test_collectives_match_the_manifest(tmp_path, ranks, name):  # noqa: F811
    plan, make, size = PLANS[name]
    ranks.run(
        size,
        counts_collectives,
        name,
        str(
            bridge.compile_manifest(
                tmp_path, torch_module.model_graph(make().double()), plans.torch_plan(plan, {"tp": size})
            )
        ),
    )


def test_later_changes_are_rejected_and_errors_leave_no_state(tmp_path, fake_mesh):
    document = bridge.compile_manifest(
        tmp_path,
        torch_module.model_graph(models.Llama().double()),
        "format: tpplan.plan/1\nmesh: {tp: 2}\n"
        "tp_plan: {layers.0.mlp.gate_proj: colwise, layers.0.mlp.up_proj: colwise, layers.0.mlp.down_proj: rowwise}\n",
    )
    model = bridge_torch.parallelize(models.Llama().double(), document, fake_mesh)
    spread = dict(model.named_parameters())
    with pytest.raises(TypeError):
        model("no tokens")
    with pytest.raises(IndexError):
        model(torch.full((1, 4), 99))
    assert all(model.get_parameter(path) is parameter for path, parameter in spread.items())
    assert not any(isinstance(value, torch.Tensor) for module in model.modules() for value in module.__dict__.values())
    assert mixing._running.now is False
    model(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
    model.norm.weight = nn.Parameter(torch.ones(16))
    with pytest.raises(ValueError, match="`weight` of a RMSNorm was replaced"):
        model(torch.zeros(1, 4, dtype=torch.long))


@pytest.mark.parametrize("layouts", ["input_layouts: Shard(3)", "output_layouts: Shard(3)"])
def test_layout_of_a_missing_dim_is_rejected_in_forward(tmp_path, fake_mesh, layouts):
    document = bridge.compile_manifest(
        tmp_path,
        torch_module.model_graph(models.Llama().double()),
        f"format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan: {{layers.0.mlp.gate_proj: {{style: colwise, {layouts}}}}}\n",
    )
    model = bridge_torch.parallelize(models.Llama().double(), document, fake_mesh)
    with pytest.raises(
        m.ManifestError,
        match=r"(?s)module `layers.0.mlp.gate_proj`: Shard\(3\) is out of range for a value with 3 dims.*use a dim that the value has",
    ):
        model(torch.zeros(1, 4, dtype=torch.long))


DTYPES = (
    "bool",
    "bfloat16",
    "float16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint16",
    "int64",
    "complex64",
    "float64",
)


def spreads_any_dtype(rank, path):
    def make(seed):
        torch.manual_seed(seed)
        values = {name: (torch.rand(5, 3) * 4).to(getattr(torch, name)) for name in DTYPES}
        model = nn.ParameterDict(
            {f"w_{name}": nn.Parameter(value, requires_grad=False) for name, value in values.items()}
        )
        model.register_buffer("scalar", torch.rand(()) > seed)
        return model

    manifest = m.load_manifest(path)
    model = bridge_torch.parallelize(make(rank), manifest, mesh_of(manifest))
    for name, whole in make(0).named_parameters():
        assert model.get_parameter(name).to_local().shape[0] < 5
        assert torch.equal(bridge_torch.full_tensor(model, name).view(torch.uint8), whole.view(torch.uint8)), name
    assert bool(model.scalar.to_local()) is True


def test_tensors_of_all_dtypes(tmp_path, ranks):  # noqa: F811
    modules = [{"path": "", "type": "ParameterDict", "buffers": {"scalar": {"shape": [], "dtype": "bool"}}}]
    modules[0]["parameters"] = {f"w_{name}": {"shape": [5, 3], "dtype": name} for name in DTYPES}
    graph = {"format": "tpplan.model/1", "name": "Model", "framework": "torch", "modules": modules}
    rules = "".join(f"  w_{name}: {{spec: [[tp, fsdp], null]}}\n" for name in DTYPES)
    plan = f"format: tpplan.plan/1\nmesh: {{fsdp: 2, tp: 2}}\nuneven: torch\ndata: {{axes: [fsdp]}}\ntp_plan:\n{rules}"
    ranks.run(4, spreads_any_dtype, str(bridge.compile_manifest(tmp_path, graph, plan)))
