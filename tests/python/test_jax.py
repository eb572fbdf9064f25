"""tpplan.jax and the exports of JAX models, on eight devices of the host: jax_checks.py, one function per test."""

import json
import sys

import bridge
import pytest

bridge.needs("jax", "equinox", "flax", "optax")

from apart import run_apart  # noqa: E402
from tpplan import files  # noqa: E402
from tpplan.export import __main__ as export_main  # noqa: E402


@pytest.mark.parametrize("seed", range(3))
def test_rank_slices_match_the_devices(tmp_path, seed):
    run_apart("jax_checks", "indices", seed, tmp_path)


@pytest.mark.parametrize(
    "check",
    [
        "decoder_training",
        "one_compilation",
        "first_plan",
        "seeds_fsdp",
        "fully_shard_is_the_documents",
        "transforms",
        "nnx_training",
        "nnx_states",
        "linen_states",
        "stacked_layers",
        "stacks_at_any_axis",
        "flax_rules",
        "logical_rules",
        "refusals",
        "constraint_functions",
    ],
)
def test_jax_check_on_eight_devices(tmp_path, check):
    run_apart("jax_checks", check, tmp_path)


SOURCE = """
import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx

def make(size=8, *, key):
    return eqx.nn.MLP(size, size, 4 * size, 2, key=key)

class Net(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(4, 8, rngs=rngs, kernel_init=nnx.with_partitioning(nnx.initializers.zeros, ("embed", "mlp")))

def fails():
    raise RuntimeError("no \\x1b[31m luck")

def looks(size=2):
    return {"w": jnp.ones(int(jnp.ones(1).sum()))}

tree = {"<script>": {"kernel": jnp.ones((4, 8))}, "\\x1b[31m": jnp.ones(3)}
keys = {"w": jax.random.key(0)}
dots = {"a.b": jnp.ones(1), "a": {"b": jnp.ones(1)}}
rules = [("embed", None), ("mlp", "tp")]
pairs = [("embed", None), ("mlp", 3)]
number = 3
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "trees_to_export.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "trees_to_export", raising=False)
    return tmp_path


def export(*arguments):
    return files.run_command(export_main.main, list(map(str, arguments)))


def test_command_writes_models_and_plans_that_compile(package):
    assert export("--jax", "trees_to_export:make", "--kwargs", '{"size": 16}', "-o", "model.json") == 0
    graph = json.loads((package / "model.json").read_text())
    assert graph["framework"] == "jax" and [m["path"] for m in graph["modules"]] == [
        "",
        "layers",
        "layers.0",
        "layers.1",
        "layers.2",
    ]
    assert graph["modules"][2] == {
        "path": "layers.0",
        "type": "Linear",
        "parameters": {"weight": {"shape": [64, 16], "dtype": "float32"}, "bias": {"shape": [64], "dtype": "float32"}},
    }
    assert (
        bridge.run(
            "compile",
            *bridge.write(
                package,
                graph,
                "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {layers.0: colwise, layers.2: rowwise}\n",
            ),
        ).returncode
        == 0
    )
    assert export("--jax", "trees_to_export:Net", "-o", "net.json") == 0
    assert export("--plan-from", "flax", "trees_to_export:rules", "--mesh", "tp=4", "-o", "net.yaml") == 0
    result = bridge.run("compile", "net.json", "net.yaml", "-o", "manifest.json")
    assert result.returncode == 0, result.stderr
    assert {p["path"]: p["spec"] for p in json.loads((package / "manifest.json").read_text())["parameters"]} == {
        "linear.kernel": [None, "tp"],
        "linear.bias": [None],
    }
    assert export("--jax", "trees_to_export:tree", "-o", "tree.json") == 0
    assert (
        bridge.run(
            "compile",
            *bridge.write(
                package,
                (package / "tree.json").read_text(),
                "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {'*': replicate}\n",
            ),
        ).returncode
        == 0
    )


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (["--jax", "trees_to_export:number"], 1, "not a model"),
        (["--jax", "trees_to_export:fails"], 1, "luck"),
        (["--jax", "trees_to_export:looks"], 1, "eval_shape"),
        (["--jax", "trees_to_export:keys"], 1, "dtype key<fry>"),
        (["--jax", "trees_to_export:dots"], 1, "two arrays"),
        (["--jax", "trees_to_export:absent"], 2, "has no"),
        (["--jax", "trees_to_export:tree", "--kwargs", '{"a": 1}'], 2, "--kwargs"),
        (["--jax", "trees_to_export:make", "--kwargs", '{"x": 1}'], 1, "TypeError"),
        (["--plan-from", "flax", "trees_to_export:fails"], 1, "luck"),
        (["--plan-from", "flax", "trees_to_export:number"], 1, "is not a list of logical axis rules"),
        (["--plan-from", "flax", "trees_to_export:pairs"], 1, "is not a logical axis rule"),
    ],
)
def test_command_errors_have_text_and_help(package, capsys, arguments, status, said):
    assert (
        export("--jax", "trees_to_export:Net", "-o", "net.json")
        == export("--jax", "trees_to_export:make", "-o", "bare.json")
        == 0
    )
    before = set(package.iterdir())
    assert export(*arguments, "-o", "out.json") == status
    error = capsys.readouterr().err
    assert said in error and "= help:" in error and "\x1b" not in error
    assert {p for p in set(package.iterdir()) - before if p.name != "__pycache__"} == set()
