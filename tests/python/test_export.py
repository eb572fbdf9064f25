"""Model files and plans exported from torch: their content, that tpplan reads them, and rejected inputs."""

import json
import random
import re
import stat
import subprocess
import sys

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.tensor import Partial, Replicate, Shard  # noqa: E402
from torch.distributed.tensor import parallel as tp  # noqa: E402
from torch.distributed.tensor.placement_types import _StridedShard  # noqa: E402

import models  # noqa: E402
from tpplan import files, plans  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan.export import __main__ as export_main  # noqa: E402
from tpplan.export import torch_module  # noqa: E402


def modules_of(model):
    return {module["path"]: module for module in torch_module.model_graph(model)["modules"]}


class MyProjection(nn.Linear):
    pass


class MyTable(nn.Embedding):
    pass


class MyScale(nn.LayerNorm):
    pass


class OddLinear(nn.Module):
    """A class with Linear in its name whose weight is stored transposed."""

    def __init__(self):
        super().__init__()
        self.in_features, self.out_features = 4, 6
        self.weight = nn.Parameter(torch.zeros(4, 6))


class FusedExperts(nn.Module):
    def __init__(self, transposed):
        super().__init__()
        self.num_experts, self.is_transposed, self.is_concatenated, self.has_gate = 2, transposed, True, True
        self.gate_up_proj = nn.Parameter(torch.zeros(2, 4, 12) if transposed else torch.zeros(2, 12, 4))


def test_kinds_are_written_if_the_names_do_not_imply_them(tmp_path):
    model = nn.ModuleDict(
        {
            "plain": nn.Linear(4, 6),
            "mine": MyProjection(4, 6),
            "table": MyTable(6, 4),
            "scale": MyScale(4),
            "odd": OddLinear(),
            "embedding": nn.Embedding(6, 4),
            "norm": nn.RMSNorm(4),
        }
    )
    kinds = {path: module.get("kind") for path, module in modules_of(model).items()}
    assert kinds == {
        "": None,
        "plain": None,
        "mine": "linear",
        "table": "embedding",
        "scale": "norm",
        "odd": "other",
        "embedding": None,
        "norm": None,
    }
    plan = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {mine: colwise, table: embedding_colwise, plain: rowwise}\n"
    manifest = m.load_manifest(bridge.compile_manifest(tmp_path, torch_module.model_graph(model), plan))
    assert manifest.parameters["mine.weight"].spec == (("tp",), ()) and manifest.parameters["table.weight"].spec == (
        (),
        ("tp",),
    )


def test_features_are_written_if_the_types_do_not_imply_them():
    router, snake = nn.Module(), nn.Module()
    router.weight, router.num_experts = nn.Parameter(torch.zeros(8, 4)), 8
    snake.in_features = 4
    model = nn.ModuleDict(
        {
            "plain": nn.Linear(4, 6),
            "mine": MyProjection(4, 6),
            "table": nn.Embedding(6, 4),
            "odd": OddLinear(),
            "router": router,
            "snake": snake,
        }
    )
    features = {path: module.get("features") for path, module in modules_of(model).items()}
    assert features == {
        "": None,
        "plain": None,
        "mine": None,
        "table": None,
        "odd": "both",
        "router": "none",
        "snake": "in",
    }
    assert modules_of(model)["router"]["attributes"] == {"num_experts": 8}


def test_classes_only_named_linear_or_embedding_have_no_kind(tmp_path):
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.zeros(6, 4)), nn.Parameter(torch.zeros(6))

    class VocabEmbedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(6, 4))

    for module, cut in ((Linear(), (("tp",), ())), (VocabEmbedding(), ((), ("tp",)))):
        graph = torch_module.model_graph(nn.ModuleDict({"m": module}))
        assert graph["modules"][1]["kind"] == "other"
        plan = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {m: colwise}\n"
        assert m.load_manifest(bridge.compile_manifest(tmp_path, graph, plan)).parameters["m.weight"].spec == cut
        with pytest.raises(AssertionError, match="TP5009"):
            bridge.compile_manifest(tmp_path, graph, plan + "dialect: torch\n")


def test_every_written_kind_shards_like_the_torch_class(tmp_path):
    """With or without a written kind, a style shards as it does for torch's classes."""
    for module, cut in (
        (nn.Linear(4, 6), (("tp",), ())),
        (MyProjection(4, 6), (("tp",), ())),
        (nn.Embedding(6, 4), ((), ("tp",))),
        (MyTable(6, 4), ((), ("tp",))),
    ):
        plan = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {m: colwise}\n"
        manifest = m.load_manifest(
            bridge.compile_manifest(tmp_path, torch_module.model_graph(nn.ModuleDict({"m": module})), plan)
        )
        assert manifest.parameters["m.weight"].spec == cut


def test_attributes_of_attention_and_experts():
    attention = modules_of(nn.ModuleDict({"a": nn.MultiheadAttention(8, 2)}))["a"]
    assert attention["parameters"]["in_proj_weight"] == {
        "shape": [24, 8],
        "dtype": "float32",
        "dims": ["out", "in"],
        "segments": {"out": [8, 8, 8]},
    }
    assert attention["attributes"] == {"num_heads": 2, "head_dim": 4}
    llama = modules_of(models.Llama())
    assert llama["layers.1.self_attn"]["attributes"] == {"num_heads": 4, "num_kv_heads": 2, "head_dim": 4}
    assert llama["rotary"]["buffers"] == {"inv_freq": {"shape": [2], "dtype": "float64"}}
    for transposed, dims, segments in (
        (False, None, {"out": [6, 6]}),
        (True, ["expert", "in", "out"], {"out": [6, 6]}),
    ):
        experts = modules_of(nn.ModuleDict({"e": FusedExperts(transposed)}))["e"]
        assert experts["attributes"] == {"num_experts": 2}
        assert (
            experts["parameters"]["gate_up_proj"].get("dims") == dims
            and experts["parameters"]["gate_up_proj"]["segments"] == segments
        )


def test_ties_and_shared_modules_have_all_their_names(tmp_path):
    graph = torch_module.model_graph(models.Llama(tied=True))
    assert graph["tied"] == [["embed.weight", "head.weight"]]
    shared = nn.Linear(4, 4)
    graph = torch_module.model_graph(nn.ModuleDict({"a": shared, "b": shared}))
    assert [module["path"] for module in graph["modules"]] == ["", "a", "b"]
    assert graph["tied"] == [["a.weight", "b.weight"], ["a.bias", "b.bias"]]
    bridge.compile_manifest(tmp_path, graph, "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {'*': replicate}\n")


def test_unusual_names_are_written_unchanged(tmp_path):
    names = ["<script>", "a b", "\x1b[31m", "ü", "'", '"', "\\", "*", "\u2028", "x" * 1000]
    model = nn.ModuleDict()
    for name in names:
        model.add_module(name, nn.Linear(2, 2, bias=False))
    path = bridge.compile_manifest(
        tmp_path, torch_module.model_graph(model), "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {'*': replicate}\n"
    )
    assert list(m.load_manifest(path).parameters) == [f"{name}.weight" for name in names]


def test_models_without_a_graph_are_rejected():
    loop = nn.Module()
    loop.inner = nn.Module()
    loop.inner.again = loop
    for model, said in (
        (3, "is not an nn.Module"),
        (nn.Linear, "is not an nn.Module"),
        (nn.Sequential(nn.LazyLinear(4)), "`0.weight` has no shape yet"),
        (loop, "contains itself"),
        (
            nn.ParameterDict(
                {"w": nn.Parameter(torch.zeros(2, dtype=torch.uint8).view(torch.bits8), requires_grad=False)}
            ),
            "`w` has dtype bits8",
        ),
    ):
        with pytest.raises(files.InputError, match=said):
            torch_module.model_graph(model)


# The command.

SOURCE = """
import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

def make(size=8):
    assert torch.empty(1).is_meta
    return nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)

def fails():
    raise RuntimeError("no \\x1b[31m luck")

def item():
    return nn.Linear(2, int(torch.ones(1).sum().item()) + 2)

built = nn.Linear(2, 2)
number = 3
plan = {"0": ColwiseParallel(), "2": RowwiseParallel(output_layouts=Shard(0), use_local_output=False)}
rules = [("0/weight", ("tp", None)), (".*", ())]
logical = [("embed", "tp"), ("mlp", None)]
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "mine_to_export.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine_to_export", raising=False)
    return tmp_path


def export(*arguments):
    return files.run_command(export_main.main, list(map(str, arguments)))


def test_command_writes_a_model_and_a_plan_that_compile(package):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tpplan.export",
            "--torch",
            "mine_to_export:make",
            "--kwargs",
            '{"size": 16}',
            "-o",
            "model.json",
        ],
        cwd=package,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((package / "model.json").stat().st_mode) == 0o666 & ~current_umask()
    assert export("--plan-from", "torch", "mine_to_export:plan", "--mesh", "tp=4", "-o", package / "plan.yaml") == 0
    result = bridge.run("compile", package / "model.json", package / "plan.yaml", "-o", package / "manifest.json")
    assert result.returncode == 0, result.stderr
    manifest = m.load_manifest(package / "manifest.json")
    assert manifest.parameters["0.weight"].local_shapes == ((4, 16),) and manifest.parameters[
        "2.weight"
    ].local_shapes == ((16, 4),)
    assert (
        export(
            "--plan-from",
            "easylm",
            "mine_to_export:rules",
            "--model",
            package / "model.json",
            "--mesh",
            "tp=4",
            "-o",
            package / "easy.yaml",
        )
        == 0
    )
    assert bridge.run("compile", package / "model.json", package / "easy.yaml").returncode == 0
    assert export("--torch", "mine_to_export:Model") == export("--torch", "mine_to_export:built") == 0


def current_umask():
    import os

    umask = os.umask(0)
    os.umask(umask)
    return umask


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (["--torch", "mine_to_export:number"], 2, "not a model"),
        (["--torch", "mine_to_export"], 2, "does not name"),
        (["--torch", "mine_to_export:no"], 2, "has no"),
        (["--torch", "absent_module_x:no"], 2, "cannot be imported"),
        (["--torch", "mine_to_export:fails"], 1, "luck"),
        (["--torch", "mine_to_export:item"], 1, "meta"),
        (["--torch", "mine_to_export:make", "--kwargs", "[]"], 2, "--kwargs"),
        (["--torch", "mine_to_export:make", "--kwargs", "{"], 2, "--kwargs"),
        (["--torch", "mine_to_export:built", "--kwargs", '{"a": 1}'], 2, "--kwargs"),
        (["--torch", "mine_to_export:make", "--kwargs", '{"x": 1}'], 1, "TypeError"),
        (["--torch", "os:getcwd"], 1, "is not an nn.Module"),
        (["--plan-from", "torch", "mine_to_export:number"], 1, "is not a plan"),
        (["--plan-from", "nobody", "x"], 2, "unknown kind"),
        (["--plan-from", "torch", "mine_to_export:plan", "--mesh", "tp"], 2, "is not a mesh"),
        (["--plan-from", "torch", "mine_to_export:plan", "--mesh", "tp=0"], 2, "is not a mesh"),
        (["--plan-from", "easylm", "mine_to_export:rules"], 2, "--model"),
        (["--plan-from", "easylm", "mine_to_export:rules", "--model", "absent.json"], 2, "is not a model graph"),
        (["--torch", "mine_to_export:make", "-o", "absent/folder/model.json"], 2, "cannot write"),
    ],
)
def test_command_errors_have_text_and_help(package, monkeypatch, capsys, arguments, status, said):
    monkeypatch.chdir(package)
    before = set(package.iterdir())
    assert export(*arguments, *([] if "-o" in arguments else ["-o", "out.json"])) == status
    error = capsys.readouterr().err
    assert said in error and "= help:" in error and "\x1b" not in error
    assert {p for p in set(package.iterdir()) - before if p.name != "__pycache__"} == set()


def test_model_item_may_be_built_on_the_cpu(package):
    assert export("--torch", "mine_to_export:item", "--device", "cpu") == 0


EASYLM = ["--plan-from", "easylm", "mine_to_export:rules", "--model", "model.json"]
SHARD_MAP = ["--shard-map", "jax_to_export:step", "--inputs", '{"x": {"shape": [4, 8]}}', "--plan", "plan.yaml"]
SWEEP = [  # a command with -o, its module, the files that it reads
    (["--torch", "mine_to_export:make"], "torch", ["mine_to_export.py"]),
    (["--transformers", "config.json", "--no-graph"], "transformers", ["config.json"]),
    (["--jax", "jax_to_export:tree"], "jax", ["jax_to_export.py"]),
    (["--jax", "jax_to_export:tree", *SHARD_MAP], "jax", ["jax_to_export.py", "plan.yaml"]),
    (["--keras", "keras_to_export:model"], "keras", ["keras_to_export.py"]),
    (["--plan-from", "transformers", "config.json"], "transformers", ["config.json"]),
    (["--plan-from", "torch", "mine_to_export:plan"], "torch", ["mine_to_export.py"]),
    (["--plan-from", "flax", "mine_to_export:logical"], "torch", ["mine_to_export.py"]),
    (EASYLM, "torch", ["mine_to_export.py", "model.json"]),
]
NAMES_OF_FILES = {"--torch", "--transformers", "--jax", "--keras", "--plan-from", "--plan", "--model", "--shard-map"}
NO_FILES = {"--kwargs", "--device", "--mesh", "--out-specs", "--mode", "--batch", "--sequence", "--attention"} | {
    "--experts", "--dtype", "--inputs", "--output"}  # fmt: skip
JAX_SOURCE = """
import jax
tree = {"w": jax.ShapeDtypeStruct((8, 16), "float32")}
def step(model, x):
    return x @ model["w"]
"""
KERAS_SOURCE = """
import keras
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16)])
"""
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "vocab_size": 32,
}


def test_sweep_covers_every_option(capsys):
    with pytest.raises(SystemExit):
        export_main.main(["--help"])
    named = set(re.findall(r"^  (?:-o FILE, )?(--[\w-]+) [A-Z{]", capsys.readouterr().out, re.M))
    assert named == NAMES_OF_FILES | NO_FILES
    assert {word for words, *_ in SWEEP for word in words if word.startswith("--")} >= NAMES_OF_FILES


def test_schema_never_replaces_the_output(package, monkeypatch):
    monkeypatch.chdir(package)
    assert export("--plan-from", "torch", "mine_to_export:plan", "-o", "plan.schema.json") == 0
    assert "tp_plan:" in (package / "plan.schema.json").read_text()


@pytest.mark.parametrize(("words", "needed", "read"), SWEEP, ids=[" ".join(words[:2]) for words, *_ in SWEEP])
def test_output_never_replaces_an_input(package, monkeypatch, capsys, words, needed, read):
    pytest.importorskip(needed)
    monkeypatch.chdir(package)
    (package / "config.json").write_text(json.dumps(CONFIG))
    (package / "jax_to_export.py").write_text(JAX_SOURCE)
    (package / "keras_to_export.py").write_text(KERAS_SOURCE)
    (package / "plan.yaml").write_text("format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {w: {spec: [null, tp]}}\n")
    for name in ("jax_to_export", "keras_to_export"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert export("--torch", "mine_to_export:make", "--no-graph", "-o", "model.json") == 0
    assert export(*words, "-o", "output") == 0, capsys.readouterr().err
    for name in read:
        before = (package / name).read_bytes()
        (package / "link").symlink_to(name)
        (package / "hard").hardlink_to(package / name)
        for alias in (name, package / name, "link", "hard"):
            assert export(*words, "-o", alias) == 2 and "is one of the inputs" in capsys.readouterr().err, alias
            assert (package / name).read_bytes() == before and (package / "link").is_symlink()
        (package / "link").unlink()
        (package / "hard").unlink()


# Plans.


def test_every_style_and_option_of_torch():
    plan = {
        "": tp.PrepareModuleOutput(output_layouts=(Partial(), None), desired_output_layouts=(Shard(1), None)),
        "a": tp.ColwiseParallel(),
        "b": tp.RowwiseParallel(),
        "c": tp.SequenceParallel(),
        "d": tp.ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-2), use_local_output=False),
        "e": tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=Partial(), use_local_output=False),
        "f": tp.SequenceParallel(sequence_dim=2, use_local_output=True),
        "g": tp.PrepareModuleInput(
            input_layouts=(Shard(0), None),
            desired_input_layouts=(Replicate(), None),
            input_kwarg_layouts={"x": Shard(1)},
            desired_input_kwarg_layouts={"x": Replicate()},
            use_local_output=True,
        ),
        "h": tp.PrepareModuleInput(input_kwarg_layouts={"x": Shard(1)}, desired_input_kwarg_layouts={"x": Replicate()}),
        "i": tp.PrepareModuleInputOutput(
            input_layouts=Shard(0),
            desired_input_layouts=Replicate(),
            use_local_input=True,
            output_layouts=Partial("avg"),
            desired_output_layouts=Replicate(),
            use_local_output=False,
        ),
        "j": tp.PrepareModuleInputOutput(
            input_layouts=Shard(0),
            desired_input_layouts=Replicate(),
            output_layouts=Shard(1),
            desired_output_layouts=Shard(1),
        ),
    }
    lines = dict(line.strip().split(": ", 1) for line in plans.torch_plan(plan, {"tp": 2}).splitlines()[5:])
    assert {json.loads(key): value for key, value in lines.items()} == {
        "": '{style: "prepare_module_output", output_layouts: ["Partial", null], desired_output_layouts: ["Shard(1)", null]}',
        "a": "colwise",
        "b": "rowwise",
        "c": "sequence_parallel",
        "d": '{style: "colwise", input_layouts: "Shard(1)", output_layouts: "Shard(-2)", use_local_output: false}',
        "e": '{style: "rowwise", input_layouts: "Replicate", output_layouts: "Partial", use_local_output: false}',
        "f": '{style: "sequence_parallel", sequence_dim: 2, use_local_output: true}',
        "g": '{style: "prepare_module_input", input_layouts: ["Shard(0)", null], desired_input_layouts: ["Replicate", null], '
        'input_kwarg_layouts: {x: "Shard(1)"}, desired_input_kwarg_layouts: {x: "Replicate"}, use_local_output: true}',
        "h": '{style: "prepare_module_input", input_kwarg_layouts: {x: "Shard(1)"}, desired_input_kwarg_layouts: {x: "Replicate"}}',
        "i": '{style: "prepare_module_input_output", '
        'input_layouts: ["Shard(0)"], desired_input_layouts: ["Replicate"], output_layouts: ["Partial(avg)"], '
        'desired_output_layouts: ["Replicate"], use_local_input: true, use_local_output: false}',
        "j": '{style: "prepare_module_input_output", '
        'input_layouts: ["Shard(0)"], desired_input_layouts: ["Replicate"], output_layouts: ["Shard(1)"], '
        'desired_output_layouts: ["Shard(1)"]}',
    }


def test_every_style_compiles(tmp_path):
    """The plan of the test above, read by the program: one module per style."""
    graph = torch_module.model_graph(nn.ModuleDict({name: nn.Linear(8, 8) for name in "abcdefghij"}))
    plan = {
        name: style
        for name, style in {
            "a": tp.ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-2), use_local_output=False),
            "c": tp.SequenceParallel(sequence_dim=2, use_local_output=True),
            "e": tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=Partial(), use_local_output=False),
            "g": tp.PrepareModuleInput(
                input_layouts=(Shard(0), None),
                desired_input_layouts=(Replicate(), None),
                input_kwarg_layouts={"x": Shard(1)},
                desired_input_kwarg_layouts={"x": Replicate()},
                use_local_output=True,
            ),
            "i": tp.PrepareModuleInputOutput(
                input_layouts=Shard(0),
                desired_input_layouts=Replicate(),
                use_local_input=True,
                output_layouts=Partial("avg"),
                desired_output_layouts=Replicate(),
                use_local_output=False,
            ),
        }.items()
    }
    manifest = m.load_manifest(bridge.compile_manifest(tmp_path, graph, plans.torch_plan(plan, {"tp": 2})))
    found = {boundary.path: boundary for boundary in manifest.modules}
    assert (
        found["a"].inputs[0].source == ("Shard(1)",)
        and found["a"].outputs[0].target == ("Shard(-2)",)
        and found["a"].outputs[0].use_local is False
    )
    assert found["g"].inputs[-1].kwarg == "x" and found["g"].inputs[0].use_local is True
    assert found["i"].outputs[0].source == ("Partial(avg)",) and found["i"].outputs[0].use_local is False


def test_plans_without_a_notation_are_rejected():
    class Mine(tp.ColwiseParallel):
        pass

    for plan, said in (
        ({"a": Mine()}, "`a`: Mine"),
        ({"a": tp.ColwiseParallel(output_layouts=_StridedShard(0, split_factor=2))}, "cannot express the layout"),
        ({"a": 3}, "`a`: int"),
        ([], "is not a plan"),
        ({3: tp.ColwiseParallel()}, "is not a plan"),
    ):
        with pytest.raises(files.InputError, match=said):
            plans.torch_plan(plan, {"tp": 2})


@pytest.mark.parametrize("seed", range(6))
def test_ordered_rules_apply_the_first_match(tmp_path, seed):
    """As EasyLM's match_partition_rules: names joined by `/`, re.search, the first match applies, scalars are replicated."""
    chance = random.Random(seed)
    modules = [
        {
            "path": f"params.layer.{i}.{part}",
            "type": "Dense",
            "parameters": {"kernel": {"shape": [8, 8], "dtype": "float32"}, "bias": {"shape": [8], "dtype": "float32"}},
        }
        for i in range(12)
        for part in ("attention.wq", "attention.wo", "mlp.w1", "norm")
    ]
    modules.append(
        {
            "path": "params.scale",
            "type": "Scale",
            "parameters": {"value": {"shape": [], "dtype": "float32"}, "one": {"shape": [1, 1], "dtype": "float32"}},
        }
    )
    graph = {"format": "tpplan.model/1", "name": "Model", "framework": "jax", "modules": modules}
    patterns = [
        "attention/(wq|wk)/kernel",
        "layer/1/",
        "wo",
        "kernel$",
        "mlp",
        "(?!x)layer/[0-9]/attention",
        r"\bnorm\b",
        "bias",
        "w1/kernel",
        "^params/layer/1",
    ]
    rules = [
        (
            pattern,
            chance.choice(
                [("tp",), ("fsdp",), ("tp", "fsdp"), (None,), ()]
                if "kernel" in pattern
                else [("tp",), (("tp", "fsdp"),), (), (None,)]
            ),
        )
        for pattern in chance.sample(patterns, 6)
    ] + [(".*", ())]
    shapes = {f"{module['path']}.{name}": p["shape"] for module in modules for name, p in module["parameters"].items()}
    text = plans.easylm_plan(rules, shapes, {"fsdp": 2, "tp": 4})
    manifest = m.load_manifest(bridge.compile_manifest(tmp_path, graph, text))
    for path, shape in shapes.items():
        spec = (
            next(spec for pattern, spec in rules if re.search(pattern, path.replace(".", "/")))
            if len(shape) and set(shape) != {1}
            else ()
        )
        expected = [() if e is None else (e,) if isinstance(e, str) else tuple(e) for e in spec] + [()] * (
            len(shape) - len(spec)
        )
        assert list(manifest.parameters[path].spec) == expected, (path, rules, text)


@pytest.mark.parametrize(
    "pattern",
    [
        "wq/.*+",
        "(?>wq)/weight",
        "wq(?#query)",
        "\\u0077q",
        "\\N{LATIN SMALL LETTER W}q",
        "w{,3}q",
        "w{1,2000}q",
        "(?a:wq)",
        r"\wq/",
    ],
)
def test_python_only_regexes_become_paths(tmp_path, pattern):
    names = ["wq", "ẃq", "wk"] if pattern.startswith(r"\wq") else ["wq", "wk"]
    model = nn.ModuleDict({name: nn.Linear(4, 4, bias=False) for name in names})
    shapes = {f"{name}.weight": [4, 4] for name in names}
    text = plans.easylm_plan([(pattern, ("tp",)), (".*", ())], shapes, {"tp": 2})
    manifest = m.load_manifest(bridge.compile_manifest(tmp_path, torch_module.model_graph(model), text))
    cut = [path for path in shapes if manifest.parameters[path].spec[0] == ("tp",)]
    assert cut == [path for path in shapes if re.search(pattern, path.replace(".", "/"))] != []


def test_unusable_ordered_rules_are_rejected():
    for rules, said in (
        ([("a", ("tp",))], "no rule matches parameter `b.w`"),
        ([(".*", ("tp", None, None))], "3 entries"),
        ([("(", ())], "not a list"),
        (3, "not a list"),
        ([3], "not a list"),
    ):
        with pytest.raises(files.InputError, match=said):
            plans.easylm_plan(rules, {"b.w": [4, 4]}, {"tp": 2})


@pytest.mark.parametrize("axis", ["tp", "on", "null", "y", "1", "a b", "ü", "x:y", "0x1", "true"])
def test_axes_of_any_name(tmp_path, axis):
    graph = torch_module.model_graph(nn.ModuleDict({"a": nn.Linear(4, 4)}))
    text = plans.torch_plan({"a": tp.ColwiseParallel()}, plans.read_mesh(f"{axis}=2"))
    assert m.load_manifest(bridge.compile_manifest(tmp_path, graph, text)).mesh == ((axis, 2),)
