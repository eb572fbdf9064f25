"""Checks of test_jax_programs.py, each executed in a process with eight devices: the collectives that tpplan forecasts
for a model's program, compared with those of the program that XLA compiles."""

import json
import math
import pathlib
import re

import bridge
import equinox as eqx
import jax
import jax.numpy as jnp
import keras
import numpy as np
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from tpplan import jax as bridge_jax
from tpplan import keras as bridge_keras
from tpplan import manifest as m
from tpplan.export import __main__ as export_main
from tpplan.jax.trees import split

BYTES = {"f32": 4, "s32": 4, "pred": 1, "u32": 4}
COLLECTIVE = re.compile(r"= (.*?) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(")


class Block(nnx.Module):
    def __init__(self, rngs):
        self.attention = nnx.MultiHeadAttention(4, 64, rngs=rngs, decode=False, use_bias=False)
        self.norm, self.norm2 = nnx.RMSNorm(64, rngs=rngs), nnx.RMSNorm(64, rngs=rngs)
        self.up = nnx.Linear(64, 256, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(256, 64, use_bias=False, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(nnx.relu(self.up(self.norm2(x))))


class NnxDecoder(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(128, 64, rngs=rngs)
        self.layers = nnx.List([Block(rngs) for _ in range(2)])
        self.head = nnx.Linear(64, 128, use_bias=False, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class EqxBlock(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.attention, self.norm = eqx.nn.MultiheadAttention(4, 64, key=keys[0]), eqx.nn.LayerNorm(64)
        self.up, self.down = eqx.nn.Linear(64, 256, key=keys[1]), eqx.nn.Linear(256, 64, key=keys[2])

    def __call__(self, x):
        y = jax.vmap(self.norm)(x)
        x = x + self.attention(y, y, y)
        return x + jax.vmap(self.down)(jax.nn.gelu(jax.vmap(self.up)(x)))


class EqxDecoder(eqx.Module):
    embed: eqx.nn.Embedding
    layers: list
    head: eqx.nn.Linear

    def __init__(self, *, key):
        keys = jax.random.split(key, 4)
        self.embed = eqx.nn.Embedding(128, 64, key=keys[0])
        self.layers = [EqxBlock(k) for k in keys[1:3]]
        self.head = eqx.nn.Linear(64, 128, use_bias=False, key=keys[3])

    def __call__(self, tokens):
        x = jax.vmap(self.embed)(tokens)
        for layer in self.layers:
            x = layer(x)
        return jax.vmap(self.head)(x)


def mlp(*, key):
    return eqx.nn.MLP(64, 64, 256, 1, key=key)


def functional():
    x = keras.Input((64,))
    y = keras.layers.Dense(64, name="down")(keras.layers.Dense(256, activation="relu", name="up")(x))
    return keras.Model(x, keras.layers.Dense(32, name="head")(y), name="net")


def transformer():
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(128, 64, name="embed")(tokens)
    y = keras.layers.LayerNormalization(name="norm")(x)
    x = keras.layers.Add(name="add")([x, keras.layers.MultiHeadAttention(4, 16, name="mha")(y, y)])
    y = keras.layers.Dense(256, activation="gelu", name="up")(keras.layers.LayerNormalization(name="norm2")(x))
    x = keras.layers.Add(name="add2")([x, keras.layers.Dense(64, name="down")(y)])
    return keras.Model(tokens, keras.layers.Dense(128, name="head")(x), name="block")


PLAN = """format: tpplan.plan/1
mesh: {data: 2, tp: 4}
axis: tp
data: {axes: [data], dim: 0}
"""
DECODER = """tp_plan:
  "embed": {spec: [tp, null]}
  "layers.*.attention.query.kernel": {spec: [null, tp, null]}
  "layers.*.attention.key.kernel": {spec: [null, tp, null]}
  "layers.*.attention.value.kernel": {spec: [null, tp, null]}
  "layers.*.attention.out.kernel": {spec: [tp, null, null]}
  "layers.*.up": colwise
  "layers.*.down": rowwise
  "head": colwise
"""
EQX = """tp_plan:
  "embed": {spec: [tp, null]}
  "layers.*.attention.query_proj.weight": {spec: [tp, null]}
  "layers.*.attention.key_proj.weight": {spec: [tp, null]}
  "layers.*.attention.value_proj.weight": {spec: [tp, null]}
  "layers.*.attention.output_proj.weight": {spec: [null, tp]}
  "layers.*.up": colwise
  "layers.*.down": rowwise
  "head": {spec: [tp, null]}
"""
KERAS = """tp_plan:
  "embed/embeddings": {spec: [tp, null]}
  "mha/[qkv]*/kernel": {spec: [null, tp, null]}
  "mha/[qkv]*/bias": {spec: [tp, null]}
  "mha/attention_output/kernel": {spec: [tp, null, null]}
  "up": colwise
  "down": rowwise
  "head/kernel": {spec: [null, tp]}
"""
FUNCTIONAL = """tp_plan:
  "up": colwise
  "down": rowwise
  "head/kernel": {spec: [null, tp]}
"""
HEAD_DIM = DECODER.replace("[null, tp, null]", "[null, null, tp]").replace("[tp, null, null]", "[null, tp, null]")
SWAPPED = DECODER.replace('"layers.*.up": colwise', '"layers.*.up.kernel": {spec: [tp, null]}')
CASES = {  # name -> (option, function or class, plan, options, shape of the input)
    "nnx": ("--jax", NnxDecoder, DECODER, [], (8, 32)),
    "nnx_wrong_dim": ("--jax", NnxDecoder, DECODER.replace('down": rowwise', 'down": {spec: [null, tp]}'), [], (8, 32)),
    "nnx_head_dim": ("--jax", NnxDecoder, HEAD_DIM, [], (8, 32)),
    "nnx_swapped_dims": ("--jax", NnxDecoder, SWAPPED, [], (8, 32)),
    "equinox": ("--jax", EqxDecoder, EQX, ["--vmap"], (8, 32)),
    "mlp": ("--jax", mlp, 'tp_plan: {"layers.0": colwise, "layers.1": rowwise}\n', ["--vmap"], (8, 64)),
    "functional": ("--keras", functional, FUNCTIONAL, [], (8, 64)),
    "transformer": ("--keras", transformer, KERAS, [], (8, 32)),
}


def forecast(folder, name, mode):
    """Returns the costs that `tpplan check` prints for the exported model, and its manifest."""
    option, make, plan, options, shape = CASES[name]
    dtype = "float32" if shape[1] == 64 else "int32"
    inputs = {"x": {"shape": list(shape), "dtype": dtype}} if name == "mlp" else {}
    arguments = [option, f"program_checks:{make.__name__}", "--mode", mode, "--inputs", json.dumps(inputs), *options]
    arguments += ["--batch", str(shape[0]), "--sequence", str(shape[1]), "-o", str(folder / "model.json")]
    export_main.main(arguments)
    (folder / "plan.yaml").write_text(PLAN + plan)
    files = (folder / "model.json", folder / "plan.yaml")
    result = bridge.run("check", *files, "--costs", "--format", "json")
    costs = json.loads(result.stdout).get("costs")
    assert result.returncode == 0 and "compiled" in costs, result.stdout
    result = bridge.run("compile", *files, "-o", folder / "manifest.json", "--quiet")
    assert result.returncode == 0, result.stderr
    return costs, m.load_manifest(folder / "manifest.json")


def loss_of(outputs):
    return jnp.mean(jnp.square(outputs.astype(jnp.float32)))


def lowered(run, arrays, trained, given, mode):
    """Returns run(*arrays, *given), lowered as a step in which gradients have the shardings of their arrays."""
    if mode == "eval":
        return jax.jit(run).lower(*arrays, *given)
    step = jax.value_and_grad(lambda *values: loss_of(run(*values)), argnums=tuple(trained))
    return jax.jit(step, out_shardings=(None, tuple(arrays[i].sharding for i in trained))).lower(*arrays, *given)


def compiled_jax(name, manifest, mode):
    _, make, _, options, shape = CASES[name]
    mesh = jax.make_mesh(
        tuple(n for _, n in manifest.mesh), tuple(a for a, _ in manifest.mesh), axis_types=(AxisType.Auto,) * 2
    )
    model = make(nnx.Rngs(0)) if make is NnxDecoder else make(key=jax.random.key(0))
    model = bridge_jax.parallelize(model, manifest, mesh, batched=not options)
    arrays, rebuild = split(model)
    x = jax.device_put(
        np.zeros(shape, "float32" if name == "mlp" else "int32"), bridge_jax.batch_sharding(manifest, mesh)
    )

    def run(*values):
        module = rebuild(list(values[:-1]))
        return (jax.vmap(module, spmd_axis_name="data") if options else module)(values[-1])

    trained = [i for i, array in enumerate(arrays) if jnp.issubdtype(array.dtype, jnp.floating)]
    return lowered(run, arrays, trained, [x], mode)


def compiled_keras(name, manifest, mode):
    _, make, _, _, shape = CASES[name]
    mesh = bridge_keras.device_mesh(manifest)
    keras.distribution.set_distribution(bridge_keras.model_parallel(manifest, mesh))
    model = make()
    arrays, others = ([v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables))
    data = NamedSharding(mesh.backend_mesh, PartitionSpec("data"))
    x = jax.device_put(np.zeros(shape, "float32" if name == "functional" else "int32"), data)

    def run(*values):
        count = len(arrays)
        return model.stateless_call(list(values[:count]), list(values[count:-1]), values[-1], training=mode == "train")[
            0
        ]

    return lowered(run, arrays, range(len(arrays)), [*others, x], mode)


def sent(text):
    """Returns [(kind, bytes on the wire)] of the collectives of a compiled program."""
    found = []
    for line in text.splitlines():
        match = COLLECTIVE.search(line)
        if match is None:
            continue
        size = sum(
            BYTES[dtype] * math.prod(int(n) for n in dims.split(",") if n)
            for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", match[1])
        )
        found.append((match[2].replace("-", "_"), share_of(match[2], line) * size))
    return found


def share_of(kind, line):
    if kind == "collective-permute":
        return 1
    groups = re.search(r"replica_groups=\[\d+,(\d+)\]", line)
    listed = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
    named = re.search(r"replica_groups=mesh\[(.*?)\][^{]*\{(.*?)\}", line)
    if groups is None and listed is None:
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
        ranks = math.prod(int(sizes[axis]) for axis in re.findall(r"\w+", named[2]))
    else:
        ranks = int(groups[1]) if groups else len(listed[1].split(","))
    return (2 if kind == "all-reduce" else 1) * (ranks - 1) / ranks


def matches_xla(folder, name, forward):
    """The bytes that tpplan forecasts are those of the program that XLA compiles, within a share: `forward` of them,
    and a quarter in a training step.
    """
    compare(pathlib.Path(folder), name, "eval", float(forward))
    keras.distribution.set_distribution(None)
    compare(pathlib.Path(folder), name, "train", 0.25)


def compare(folder, name, mode, within):
    costs, manifest = forecast(folder, name, mode)
    compiled = (compiled_keras if CASES[name][0] == "--keras" else compiled_jax)(name, manifest, mode)
    found = sent(compiled.compile().as_text())
    total = sum(wire for _, wire in found)
    assert abs(costs["wire"] - total) <= within * total, (mode, costs["wire"], total, costs["compiled"], found)
    assert "uncovered" not in costs, costs["uncovered"]
    modules = {call["module"] for call in costs["compiled"]}
    known = {module["path"] for module in json.loads((folder / "model.json").read_text())["modules"]}
    assert modules <= known and any(modules), modules


def fix_saves_bytes(folder, name, code):
    """The edit of a diagnostic changes the plan so that the program that XLA compiles sends less, about as forecast."""
    files = (pathlib.Path(folder) / "model.json", pathlib.Path(folder) / "plan.yaml")
    totals = []
    for is_fixed in (False, True):
        costs, manifest = forecast(pathlib.Path(folder), name, "eval")
        compiled = sent(compiled_jax(name, manifest, "eval").compile().as_text())
        totals.append((costs["wire"], sum(wire for _, wire in compiled)))
        found = str(bridge.run("check", *files).stdout)
        assert (f"[{code}]" in found) == (not is_fixed), found
        bridge.run("check", *files, "--fix")
        option, make, _, options, shape = CASES[name]
        CASES[name] = (option, make, files[1].read_text().removeprefix(PLAN), options, shape)
    (forecast_before, before), (forecast_after, after) = totals
    assert before - after > 0.5 * (forecast_before - forecast_after) > 0, totals
