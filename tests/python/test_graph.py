"""The operations that `python -m tpplan.export` traces: executed on tensors they match the model. They are identical on every device and,
except for sizes, for every batch and sequence."""

import json
import re

import bridge
import pytest

bridge.needs("torch", "jsonschema")

import jsonschema  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch.utils.checkpoint  # noqa: E402
from torch import nn  # noqa: E402

import graph_runs  # noqa: E402
import models  # noqa: E402
from tpplan.export import __main__ as export_main  # noqa: E402
from tpplan.export import operations, torch_module  # noqa: E402
from tpplan.graph import arguments  # noqa: E402
from tpplan.graph.recording import Untraceable  # noqa: E402
from tpplan.graph.settings import Settings, make_input  # noqa: E402

SCHEMA = json.loads((bridge.ROOT / "schemas" / "model.schema.json").read_text())


def exported(model, device="cpu", **settings):
    """The graph of a module, or of the result of a class or function, read from the written text."""
    settings = Settings(**{"inputs": {"x": {"shape": [2, 6, 8], "dtype": "float64"}}} | settings)
    with torch.device(device):
        model = model if isinstance(model, nn.Module) else model()
    return json.loads(operations.record(torch_module, model, device, settings))


def randomize(model):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return model


def check_run(graph, model, leaves, outputs):
    """Checks that the graph computes the model's outputs and gradients, and that every value has its shape and dtype."""
    graph = graph_runs.Graph(graph)
    found, values = graph_runs.run(graph, leaves)
    for value, tensor in values.items():
        assert (list(tensor.shape), str(tensor.dtype)) == (graph.shapes[value], f"torch.{graph.dtypes[value]}")
        assert not tensor.is_floating_point() or tensor.requires_grad == graph.requires_grad[value]
    assert len(found) == len(outputs) and all(map(graph_runs.close, found, outputs))
    parameters = [p for p in model.parameters() if p.requires_grad]
    if parameters and all(o.requires_grad for o in outputs):
        weights = [
            torch.randn(o.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(o.dtype)
            for o in outputs
        ]
        gradients = [
            torch.autograd.grad(
                sum((o * w).sum() for o, w in zip(results, weights)), parameters, allow_unused=True, retain_graph=True
            )
            for results in (found, outputs)
        ]
        assert all(a is None and b is None or graph_runs.close(a, b) for a, b in zip(*gradients))
    for guard in graph.guards:
        assert graph_runs.guard_holds(graph, guard, lambda v: values[v].shape)
    return graph


class Views(nn.Module):
    """Sizes from shapes, from counting, from arithmetic, and non-integers."""

    def __init__(self):
        super().__init__()
        self.linear, self.head_dim = nn.Linear(8, 24, dtype=torch.float64), 4

    def forward(self, x):
        b, s, width = x.shape
        y = self.linear(x)
        q, k, v = y.view(b, s, 3, -1, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) / self.head_dim**0.5, dim=-1)
        out = (weights @ v).transpose(1, 2).reshape(*x.size()[:-1], width)
        half = x[..., : x.shape[-1] // 2] + out[..., x.size(-1) // 2 :]
        return torch.cat((half, half.flip(-1)), dim=-1) * torch.arange(s, dtype=x.dtype)[None, :, None] + x.numel()


class Writes(nn.Module):
    """Writes in place, through views of views, and reads of earlier views."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, dtype=torch.float64))

    def forward(self, x):
        y = x * self.weight
        early = y[:, 1:]  # created before the writes, read after them
        left, right = y[..., :4], y.narrow(-1, 4, 4)
        left.mul_(2.0)
        right[:, ::2] += 3.0
        y.view(2, -1)[:, 0] = 7.0
        y.transpose(0, 1)[2] -= 1.0
        table = x.new_empty(2, 6, 8)
        table[..., :4].copy_(left)
        table[..., 4:].copy_(right.flip(0))
        counts = torch.zeros(6, 4, dtype=torch.long)
        counts.chunk(2, dim=-1)[1].add_(3)
        counts.split([1, 3], dim=-1)[1].unbind(0)[2].sub_(1)
        F.relu(table, inplace=True)
        total = torch.zeros_like(x)
        total.index_add_(1, torch.tensor([0, 2]), x[:, :2])
        total.unsqueeze(0).squeeze(0)[0].masked_fill_(x[0] > 0, 0.5)
        return early.sum() + y + table + total + counts.repeat(1, 2)


class Keywords(nn.Module):
    """Modules with keyword-only arguments, tuple and dict outputs, two calls, and one value passed twice."""

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8, dtype=torch.float64)

        def forward(self, *, hidden, pair, scale=1.0):
            return {"out": self.linear(hidden) * scale + pair[0], "rest": (pair[1], hidden)}

    def __init__(self):
        super().__init__()
        self.inner, self.same = self.Inner(), nn.Identity()

    def forward(self, x):
        once = self.inner(hidden=x, pair=(x, x + 1.0))
        twice = self.inner(hidden=once["out"], pair=[once["rest"][0], self.same(x)], scale=0.5)
        return twice["out"], {"more": twice["rest"][1] + x}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = (
            nn.Embedding(8, 4, dtype=torch.float64),
            nn.Linear(4, 8, bias=False, dtype=torch.float64),
        )
        self.head.weight = self.embed.weight

    def forward(self, x):
        with torch.no_grad():
            shift = self.embed(x.long().remainder(8)).mean()
        return self.head(self.embed(x.long().remainder(8)) - shift)


class Normed(nn.Module):
    """Training writes the running statistics."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(6, dtype=torch.float64), nn.Dropout(0.0)

    def forward(self, x):
        return self.drop(self.norm(x)) + self.norm.running_mean[None, :, None]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Pictures(nn.Module):
    """Operations on images and sound, two of which have one name in torch."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 4, 3, dtype=torch.float64))

    def forward(self, x):  # [2, 6, 8]
        windows = x.unfold(-1, 2, 2)  # [2, 6, 4, 2]
        columns = nn.functional.unfold(windows, 2)  # [2, 24, 3]
        back = nn.functional.fold(columns, (4, 2), 2)
        rows, _ = torch.meshgrid(x[0, 0], x[0, 1, :4], indexing="xy")  # [4, 8]
        shuffled = nn.functional.pixel_shuffle(windows.flatten(1, 1)[:, :4], 2)  # [2, 1, 8, 4]
        return (
            back.sum()
            + rows.sum()
            + (shuffled * 2).sum()
            + torch.einsum("bij,bkj", x, self.conv(x).ravel()[:16].view(2, 1, 8))
        )


def test_functions_and_methods_of_one_name_are_separate():
    names = [n[0] for n in graph_runs.Graph(exported(Pictures())).nodes]
    assert [n for n in names if n in ("unfold", "fold", "im2col", "col2im")] == ["unfold", "im2col", "col2im"]
    assert "ravel" not in names and "_weight_norm" in names


OWN = [Views, Writes, Keywords, Tied, Pictures]


@pytest.mark.parametrize("kind", OWN + [Normed], ids=lambda k: k.__name__)
def test_graph_matches_the_module(kind):
    torch.manual_seed(1)
    model = randomize(kind())
    graph = exported(model, mode="train")
    x = make_input({"shape": [2, 6, 8], "dtype": "float64"}, "cpu")
    if kind is Normed:
        model.norm.reset_running_stats()
    leaves = (
        dict(model.named_parameters()) | {name: buffer.clone() for name, buffer in model.named_buffers()} | {"x": x}
    )
    check_run(graph, model, leaves, torch_floats(model(x)))


def torch_floats(result):
    if isinstance(result, torch.Tensor):
        return [result] if result.is_floating_point() else []
    return [t for part in (result.values() if isinstance(result, dict) else result) for t in torch_floats(part)]


@pytest.mark.parametrize("kind", OWN, ids=lambda k: k.__name__)
def test_meta_device_gives_the_same_graph(kind):
    assert exported(kind, "meta") == exported(kind, "cpu")


@pytest.mark.parametrize("kind", [Views, Keywords, Tied], ids=lambda k: k.__name__)
def test_other_sizes_give_the_same_operations(kind):
    """A graph traced at one batch and sequence is valid for others: every size that changes names its source."""
    small, large = (
        exported(kind(), inputs={"x": {"shape": shape, "dtype": "float64"}}) for shape in ([2, 6, 8], [3, 11, 8])
    )
    of_sizes = {"shapes", "batch", "sequence"}
    assert {k: v for k, v in small.items() if k not in of_sizes} == {
        k: v for k, v in large.items() if k not in of_sizes
    }
    assert small["shapes"] != large["shapes"]


def test_sizes_name_their_source():
    graph = graph_runs.Graph(exported(Views()))
    view = next(n for n in graph.nodes if n[0] == "view")
    batch, sequence, parts, rest, head = view[1][1][1:]
    assert (batch[0], sequence[0], parts, rest, head) == ("e", "e", 3, -1, 4)
    assert [graph.sizes[e[1]][2] for e in (batch, sequence)] == [0, 1]
    half = next(n for n in graph.nodes if n[0] == "__getitem__")
    assert graph.sizes[half[1][1][-1][2][1]][0] == "floordiv"


def test_lossy_conversions_and_comparisons_add_guards():
    class Loses(nn.Module):
        def forward(self, x):
            rounds = 0
            for _ in range(x.shape[0]):
                rounds += 1
            return x * rounds / x.shape[-1] ** 0.5 + (1.0 if x.size(1) > 4 else 2.0) + len(x)

    graph = graph_runs.Graph(exported(Loses()))
    guards = {(name, tuple(graph.sizes[a[0]][1:]), b, result) for name, a, b, result in graph.guards}
    x = graph.nodes[0][4][0][2]  # with the shape of the module's input
    assert guards == {("eq", (x, 0), 2, True), ("eq", (x, 2), 8, True), ("gt", (x, 1), 4, True)}


def test_module_boundaries_have_separate_ids_on_both_sides():
    graph = graph_runs.Graph(exported(Keywords()))
    enters = [n for n in graph.nodes if n[0] == "@enter"]
    paths = [graph.strings[n[1]] for n in enters]
    assert paths == ["", "inner", "inner.linear", "same", "inner", "inner.linear"]
    assert [n[2] for n in enters] == [1, 0, 1, 1, 0, 1]
    first = enters[1][4]
    assert [place for place, *_ in first] == [["hidden"], ["pair", 0], ["pair", 1]]
    assert first[0][1] == first[1][1] and first[0][2] != first[1][2]  # one value passed twice
    seen = [i for n in graph.nodes if n[0] == "@enter" for _, _, i, *_ in n[4]]
    assert len(seen) == len(set(seen))


class Shares(nn.Module):
    """A module gets a value and a view of it that is older than a write to the value."""

    class Inner(nn.Module):
        def forward(self, a, b):
            return a * 2 + b

    def __init__(self):
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x):
        y = x + 1
        view = y.view(2, 6, 8)
        y.add_(1)
        return self.inner(y, view)


def test_module_inputs_have_their_outer_names():
    model = Shares()
    graph = exported(model)
    known = {value for value, _, _ in graph["leaves"]}
    for node in graph_runs.Graph(graph).nodes:
        if node[0] in ("@enter", "@exit"):
            assert {row[1] for row in node[-1]} <= known
            known |= {row[2] for row in node[-1]}
        else:
            assert {a[0] for a in node[1] if isinstance(a, list) and isinstance(a[0], int)} <= known
            known |= set(node[3])
    x = make_input({"shape": [2, 6, 8], "dtype": "float64"}, "cpu")
    check_run(graph, model, {"x": x}, [model(x)])


class Named(nn.Module):
    """Calls a module with keyword arguments, in another order."""

    class Inner(nn.Module):
        def forward(self, x, scale, *, shift):
            return x * scale + shift

    def __init__(self):
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x):
        return self.inner(shift=x, scale=x, x=x)


def test_keyword_argument_has_the_position_of_its_parameter():
    graph = graph_runs.Graph(exported(Named()))
    row = next(n[4] for n in graph.nodes if n[0] == "@enter" and graph.strings[n[1]] == "inner")
    assert {place[0]: rest[2:] for place, *rest in row} == {"shift": [], "scale": [1], "x": [0]}


def test_module_under_no_grad_is_marked():
    graph = graph_runs.Graph(exported(Tied()))
    assert [n[3] for n in graph.nodes if n[0] == "@enter" and graph.strings[n[1]] == "embed"] == [1, 0]
    assert [path for _, kind, path in graph.leaves if kind == "param"] == ["embed.weight"]


def test_function_with_custom_backward_is_one_operation():
    class Uses(nn.Module):
        def forward(self, x):
            return Doubled.apply(x) + torch.vmap(lambda row: row.sum())(x)[:, None, None]

    assert [n[0] for n in graph_runs.Graph(exported(Uses())).nodes if n[0][0] != "@"] == [
        "Doubled",
        "vmap",
        "__getitem__",
        "add",
    ]


class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.vmap(lambda row: Doubled.apply(row[None]) if x.dim() > 9 else row * 2)(Doubled.apply(x))

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 4


def test_function_is_one_operation_through_any_alias():
    doubled, mapped, nested = Doubled.apply, torch.vmap, Nested.apply

    class Uses(nn.Module):
        def forward(self, x):
            return nested(doubled(x) + mapped(lambda row: row + row)(x))

    graph = graph_runs.Graph(exported(Uses()))
    assert [n[0] for n in graph.nodes if n[0][0] != "@"] == ["Doubled", "vmap", "add", "Nested"]
    assert torch.equal(doubled(torch.ones(2)), torch.full((2,), 2.0)) and "apply" not in vars(
        torch.autograd.Function.__mro__[1]
    )


class Rerun(nn.Module):
    """A layer in a function that recomputes it for its gradient, torch's or another one."""

    def __init__(self, run):
        super().__init__()
        self.layer, self.run = nn.Linear(8, 8, dtype=torch.float64), run

    def forward(self, x):
        return self.run(self.layer, x)


class Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x):
        return layer(x)


def test_checkpoint_is_traced_and_other_nested_modules_rejected():
    by_torch = Rerun(lambda layer, x: torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=True))
    plain = Rerun(lambda layer, x: layer(x))
    assert graph_runs.Graph(exported(by_torch)).nodes == graph_runs.Graph(exported(plain)).nodes
    with pytest.raises(Untraceable, match="the model runs modules inside Hidden"):
        exported(Rerun(lambda layer, x: Hidden.apply(layer, x)))


def test_keyword_only_input_of_forward():
    class Alone(nn.Module):
        def forward(self, *, x, scale=2.0):
            return x * scale

    assert [n[0] for n in graph_runs.Graph(exported(Alone())).nodes if n[0][0] != "@"] == ["mul"]


def test_unused_constants_are_omitted_and_dead_code_is_not():
    class Wastes(nn.Module):
        def forward(self, x):
            torch.arange(3) + 1
            x.view(2, 48)
            return x + 1

    assert [n[0] for n in graph_runs.Graph(exported(Wastes())).nodes if n[0][0] != "@"] == ["view", "add"]


def test_host_reads_are_marked():
    class Reads(nn.Module):
        def forward(self, x):
            count = (x > 0).sum().item()
            return x * count if x.sum() > -1e9 else x

    graph = graph_runs.Graph(exported(Reads()))
    reads = [n for n in graph.nodes if n[0][0] != "@" and not n[3]]
    assert [n[0] for n in reads] == ["item", "__bool__"]
    assert next(n for n in graph.nodes if n[0] == "mul")[1][1][0] == "h"


def llama(**settings):
    return exported(models.Llama().double(), inputs={"tokens": {"shape": [2, 6], "dtype": "int64"}}, **settings)


def test_user_model_runs_from_its_graph():
    model = randomize(models.Llama(tied=True).double())
    tokens = torch.randint(0, 32, (2, 6), generator=torch.Generator().manual_seed(1))
    graph = json.loads(
        operations.record(torch_module, model, "cpu", Settings(inputs={"tokens": {"shape": [2, 6], "dtype": "int64"}}))
    )
    check_run(
        graph, model, dict(model.named_parameters()) | dict(model.named_buffers()) | {"tokens": tokens}, [model(tokens)]
    )


def test_graphs_are_valid_by_the_schema(tmp_path):
    output = tmp_path / "model.json"
    inputs = {"tokens": {"shape": [2, 6], "dtype": "int64"}}
    assert not export_main.main(
        ["--torch", "models:Llama", "--inputs", json.dumps(inputs), "--dtype", "float64", "-o", str(output)]
    )
    model = json.loads(output.read_text())
    jsonschema.validate(model, SCHEMA)
    assert model["graph"]["dtype"] == "float64" and model["graph"]["mode"] == "eval"
    for table, broken in {
        "nodes": [[0]],
        "values": [[0]],
        "sizes": [["neg"]],
        "guards": [["eq", 1]],
        "leaves": [[0, "x"]],
    }.items():
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(model | {"graph": model["graph"] | {table: broken}}, SCHEMA)


class NeedsData(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)


class WritesThroughExpand(nn.Module):
    def forward(self, x):
        y = x[0, 0] * 1.0
        y.as_strided((2, 2), (1, 1)).add_(1.0)
        return y


@pytest.mark.parametrize(
    "name, flags, said",
    [
        ("NeedsData", ["--device", "meta"], "the model needs tensor data: __getitem__"),
        ("Fails", [], "module `linear` fails: RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("WritesThroughExpand", [], "the model writes in place through as_strided"),
    ],
)
def test_untraceable_model_warns_and_omits_the_graph(tmp_path, capsys, name, flags, said):
    output = tmp_path / "model.json"
    inputs = json.dumps({"x": {"shape": [2, 6, 8], "dtype": "float32"}})
    assert not export_main.main(["--torch", f"test_graph:{name}", "--inputs", inputs, "-o", str(output), *flags])
    error = capsys.readouterr().err
    assert error.startswith("warning: the file has no operation graph: ") and said in error and "--no-graph" in error
    assert "graph" not in json.loads(output.read_text())


def test_data_dependent_model_is_traced_on_the_cpu(tmp_path, capsys):
    output = tmp_path / "model.json"
    inputs = json.dumps({"x": {"shape": [2, 6, 8], "dtype": "float32"}})
    assert not export_main.main(["--torch", "test_graph:NeedsData", "--inputs", inputs, "-o", str(output)])
    assert capsys.readouterr().err.startswith("note: the operations were traced on the CPU: ")
    assert "graph" in json.loads(output.read_text())


def test_no_inputs_means_no_graph(tmp_path, capsys):
    output = tmp_path / "model.json"
    assert not export_main.main(["--torch", "test_graph:Fails", "-o", str(output)])
    assert "the arguments of forward are unknown" in capsys.readouterr().err
    without = output.read_text()
    assert not export_main.main(["--torch", "test_graph:Fails", "--no-graph", "-o", str(output)])
    assert capsys.readouterr().err == "" and output.read_text() == without


@pytest.mark.parametrize(
    "text", ["[]", '{"x": 3}', '{"x": {"shape": [-1]}}', '{"x": {"shape": [2], "dtype": "float31"}}', "{"]
)
def test_invalid_inputs_are_rejected(text):
    with pytest.raises(export_main.InputError):
        export_main.main(["--torch", "test_graph:Fails", "--inputs", text])


# Families with different operations, and the required fields of their smallest configuration.
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 64,
    "pad_token_id": 0,
}
MIXED = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
FAMILIES = {
    "LlamaForCausalLM": SMALL | {"num_key_value_heads": 2},
    "Qwen3ForCausalLM": SMALL | {"num_key_value_heads": 2, "head_dim": 8},
    "Gemma2ForCausalLM": SMALL | {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 4},
    "GPTNeoXForCausalLM": SMALL,
    "GPT2LMHeadModel": {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 64, "n_positions": 32},
    "PhiForCausalLM": SMALL,
    "MixtralForCausalLM": SMALL | MIXED | {"num_key_value_heads": 2},
    "Qwen3MoeForCausalLM": SMALL | MIXED | {"num_key_value_heads": 2, "head_dim": 8},
    "DeepseekV2ForCausalLM": SMALL | MIXED | {"num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 16,
                                              "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
                                              "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "BertForMaskedLM": SMALL | {"max_position_embeddings": 32},
    "T5ForConditionalGeneration": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 64},
    "JambaForCausalLM": SMALL | MIXED | {"num_key_value_heads": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
                                         "mamba_dt_rank": 4, "use_mamba_kernels": False},
}  # fmt: skip


def transformers_model(name, device, settings):
    from tpplan.export import transformers_model

    model = transformers_model.build(name, FAMILIES[name], device, settings)
    return transformers_model, model if device == "meta" else randomize(model)


@pytest.mark.parametrize(
    "name, attention",
    [(n, "eager") for n in FAMILIES]
    + [(n, "sdpa") for n in ("LlamaForCausalLM", "MixtralForCausalLM", "BertForMaskedLM")],
)
def test_transformers_models_run_from_their_graphs(name, attention):
    """The graph from the meta device, with the weights of a CPU model: the model's logits and gradients."""
    pytest.importorskip("transformers")
    mixed = "num_experts" in FAMILIES[name]  # torch has no grouped_mm for float64
    settings = Settings("eval", 2, 6, attention, "grouped_mm" if mixed else None, "float32" if mixed else "float64")
    exporter, model = transformers_model(name, "meta", settings)
    graph = json.loads(operations.record(exporter, model, "meta", settings))
    exporter, model = transformers_model(name, "cpu", settings)
    model.eval()
    _, inputs = exporter.inputs(model, settings, "cpu")
    leaves = dict(model.named_parameters()) | dict(model.named_buffers()) | inputs
    checked = check_run(graph, model, leaves, exporter.main_output(model(**inputs)))
    larger = Settings(**vars(settings) | {"batch": 3, "sequence": 8})
    exporter, model = transformers_model(name, "meta", settings)
    other = json.loads(operations.record(exporter, model, "meta", larger))
    if all(
        graph_runs.guard_holds(checked, g, lambda v: other["shapes"][other["values"][v][0]]) for g in checked.guards
    ):
        assert other["nodes"] == graph["nodes"] and other["sizes"] == graph["sizes"]


def takes_sizes_one_by_one(name):
    """True if torch's only positional argument after the tensor is a list of sizes, in every overload with one."""
    overloads = [s for s in torch._C._jit_get_all_schemas() if s.name == f"aten::{name}"]
    # view(dtype) has a schema of its own, in which a dtype is an int.
    given = [[str(a.type) for a in s.arguments[1:] if not a.kwarg_only and a.name != "dtype"] for s in overloads]
    return ["List[int]"] in given and not any(types[0] in ("int", "Optional[int]") for types in given if types)


def test_calls_with_sizes_one_by_one_are_those_of_torch():
    text = (bridge.ROOT / "lib/model/operations.def").read_text()
    names = {name for row in re.findall(r'^TPPLAN_OP\(\w+, "([^"]*)"', text, re.M) for name in row.split()}
    methods = {name for name in names if hasattr(torch.Tensor, name) and takes_sizes_one_by_one(name)}
    assert methods - {"view_copy"} == {name for name, first in arguments.VARIADIC.items() if first == 1}


def test_broadcast_to_is_traced_alike_with_sizes_and_a_tuple():
    class Broadcast(nn.Module):
        def __init__(self, one_by_one):
            super().__init__()
            self.one_by_one = one_by_one

        def forward(self, x):
            sizes = (3, *x.shape)
            return x.broadcast_to(*sizes) if self.one_by_one else x.broadcast_to(sizes)

    assert exported(Broadcast(True)) == exported(Broadcast(False))
