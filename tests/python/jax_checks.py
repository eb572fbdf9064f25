"""Checks of test_jax.py, each executed in a process with eight devices."""

import contextlib
import dataclasses
import fnmatch
import io
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import warnings

import bridge
import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tpplan
from conftest import EXECUTOR
from tpplan import PlanError, PlanWarning, flax_plan
from tpplan import jax as bridge_jax
from tpplan import manifest as m
from tpplan.export import jax_tree
from tpplan.jax import weights as weights_of_jax


def mesh_of(axes):
    count = int(np.prod(list(axes.values())))
    return Mesh(np.array(jax.devices()[:count]).reshape(list(axes.values())), tuple(axes))


def graph_of(shapes):
    return {
        "format": "tpplan.model/1",
        "name": "Tree",
        "framework": "jax",
        "modules": [
            {
                "path": "",
                "type": "Tree",
                "parameters": {name: {"shape": list(shape), "dtype": "float32"} for name, shape in shapes.items()},
            }
        ],
    }


def plan_of(axes, rules, more=""):
    return (
        f"format: tpplan.plan/1\nmesh: {json.dumps(axes)}\naxis: {list(axes)[0]}\n{more}tp_plan: {json.dumps(rules)}\n"
    )


# Placements.


def indices(seed, folder):
    """JAX's devices_indices_map equals the output of `tpplan show --rank`; tpplan rejects what JAX rejects."""
    chance = random.Random(int(seed))
    folder = pathlib.Path(folder)
    accepted = refused = 0
    for _ in range(24):
        axes = chance.choice(
            [{"a": 8}, {"a": 2, "b": 4}, {"b": 4, "a": 2}, {"a": 2, "b": 2, "c": 2}, {"a": 1, "b": 8}, {"a": 3, "b": 2}]
        )
        shape = [chance.choice([0, 1, 2, 3, 4, 6, 8, 12, 16, 24]) for _ in range(chance.randint(1, 4))]
        names = [*axes, "z"] if chance.random() < 0.1 else list(axes)
        spec = []
        for _ in range(len(shape) + (chance.random() < 0.08)):
            spec.append(
                chance.choice([None, chance.choice(names), chance.sample(names, min(2, len(names)))])
                if chance.random() < 0.7
                else None
            )
        mesh = mesh_of(axes)
        try:
            sharding = NamedSharding(mesh, PartitionSpec(*[tuple(e) if isinstance(e, list) else e for e in spec]))
            sharding.check_compatible_aval(tuple(shape))
            sharding.shard_shape(tuple(shape))
        except Exception:
            sharding = None
        bridge.write(folder, graph_of({"w": shape}), plan_of(axes, {"w": {"spec": spec}}))
        result = bridge.run(
            "compile", folder / "model.json", folder / "plan.yaml", "-o", folder / "manifest.json", "--allow", "TP4006"
        )
        assert result.returncode == (0 if sharding is not None else 1), (axes, shape, spec, result.stderr.decode())
        if sharding is None:
            refused += 1
            continue
        accepted += 1
        ours = bridge_jax.shardings(folder / "manifest.json", mesh)["w"]
        assert ours.is_equivalent_to(sharding, len(shape))
        found = sharding.devices_indices_map(tuple(shape))
        for rank, device in enumerate(mesh.devices.flat):
            shown = bridge.run("show", folder / "manifest.json", "--rank", rank, "--format", "json")
            (line,) = shown.stdout.decode().splitlines()
            theirs = [[list(s.indices(size)[:2])] for s, size in zip(found[device], shape)]
            assert [[list(run) for run in runs] for runs in json.loads(line)["intervals"]] == theirs, (
                axes,
                shape,
                spec,
                rank,
            )
    assert accepted >= 5 and refused >= 3, (accepted, refused)


# A decoder in Equinox.


class Attention(eqx.Module):
    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    output: eqx.nn.Linear
    num_heads: int

    def __init__(self, size, heads, key):
        keys = jax.random.split(key, 4)
        self.query, self.key, self.value, self.output = (
            eqx.nn.Linear(size, size, use_bias=i == 3, key=k) for i, k in enumerate(keys)
        )
        self.num_heads = heads

    def __call__(self, x):
        q, k, v = (
            jax.vmap(part)(x).reshape(x.shape[0], self.num_heads, -1) for part in (self.query, self.key, self.value)
        )
        weights = jax.nn.softmax(jnp.einsum("shd,thd->hst", q, k) / q.shape[-1] ** 0.5)
        return jax.vmap(self.output)(jnp.einsum("hst,thd->shd", weights, v).reshape(x.shape))


class FeedForward(eqx.Module):
    w1: eqx.nn.Linear
    w2: eqx.nn.Linear

    def __init__(self, size, key):
        self.w1, self.w2 = (
            eqx.nn.Linear(*sizes, key=k)
            for sizes, k in zip(((size, 4 * size), (4 * size, size)), jax.random.split(key))
        )

    def __call__(self, x):
        return jax.vmap(self.w2)(jax.nn.gelu(jax.vmap(self.w1)(x)))


class Block(eqx.Module):
    norm: eqx.nn.LayerNorm
    attention: Attention
    feed_forward: FeedForward

    def __init__(self, size, heads, key):
        one, two = jax.random.split(key)
        self.norm, self.attention, self.feed_forward = (
            eqx.nn.LayerNorm(size),
            Attention(size, heads, one),
            FeedForward(size, two),
        )

    def __call__(self, x):
        x = x + self.attention(jax.vmap(self.norm)(x))
        return x + self.feed_forward(x)


class Decoder(eqx.Module):
    embedding: eqx.nn.Embedding
    layers: tuple
    head: eqx.nn.Linear
    activation: object

    def __init__(self, size=16, heads=4, count=2, vocabulary=32, *, key):
        keys = jax.random.split(key, count + 2)
        self.embedding = eqx.nn.Embedding(vocabulary, size, key=keys[0])
        self.layers = tuple(Block(size, heads, k) for k in keys[2:])
        self.head = eqx.nn.Linear(size, vocabulary, key=keys[1])
        self.activation = jax.nn.relu

    def __call__(self, tokens):
        x = jax.vmap(self.embedding)(tokens)
        for layer in self.layers:
            x = layer(x)
        return jax.vmap(self.head)(self.activation(x))


DECODER_PLAN = """format: tpplan.plan/1
mesh: {fsdp: 2, tp: 4}
tp_plan:
  "*.query": colwise
  "*.key": colwise
  "*.value": colwise
  "*.output": rowwise
  "*.w1": colwise
  "*.w2": rowwise
  "head": {style: colwise, output_layouts: Replicate}
  "embedding": {spec: [null, tp]}
data: {axes: [fsdp], dim: 0}
fsdp: {axis: fsdp, min_weight_size: 64}
remat: ["layers.*"]
"""


def loss_of(model, tokens):
    logits = jax.vmap(model, spmd_axis_name="fsdp")(tokens)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), (tokens[..., None] + 1) % 32, -1))


def decoder_training(folder):
    """Initializes sharded and trains two steps with Adam: losses, gradients and weights equal the unsharded run, and
    each device holds its shard.
    """
    jax.config.update("jax_enable_x64", True)
    make = lambda key: Decoder(count=1, key=key)  # noqa: E731
    plain = make(jax.random.key(1))
    shapes = bridge_jax.abstract(make, jax.random.key(1))
    assert jax.tree.structure(shapes) == jax.tree.structure(plain) and shapes.activation is jax.nn.relu
    graph = jax_tree.model_graph(shapes)
    assert graph == jax_tree.model_graph(plain)
    manifest = m.load_manifest(bridge.compile_manifest(pathlib.Path(folder), graph, DECODER_PLAN))
    mesh = mesh_of({"fsdp": 2, "tp": 4})
    model = bridge_jax.initialize(make, manifest, mesh, jax.random.key(1), batched=False)
    assert check_devices(model, manifest, mesh) > 6
    assert check_devices(bridge_jax.parallelize(plain, manifest, mesh, batched=False), manifest, mesh) > 6
    compare(plain, model)
    jaxpr = str(eqx.filter_make_jaxpr(eqx.filter_value_and_grad(loss_of))(model, jnp.zeros((4, 8), int))[0])
    assert jaxpr.count("checkpoint[") + jaxpr.count("remat") >= 1 and jaxpr.count("sharding_constraint") >= 6

    optimizer = optax.adam(1e-2)

    def step(model, state, tokens):
        loss, gradients = eqx.filter_value_and_grad(loss_of)(model, tokens)
        updates, state = optimizer.update(gradients, state, model)
        return eqx.apply_updates(model, updates), state, loss, gradients

    runs = {
        "plain": (plain, optimizer.init(eqx.filter(plain, eqx.is_array)), lambda t: t),
        "sharded": (
            model,
            optimizer.init(eqx.filter(model, eqx.is_array)),
            lambda t: jax.device_put(t, bridge_jax.batch_sharding(manifest, mesh)),
        ),
    }
    check_devices(runs["sharded"][1][0].mu, manifest, mesh)
    for i in range(2):
        tokens = jax.random.randint(jax.random.key(i + 7), (4, 8), 0, 32)
        found = {}
        for name, (model, state, place) in runs.items():
            model, state, loss, gradients = eqx.filter_jit(step)(model, state, place(tokens))
            runs[name], found[name] = (model, state, place), (loss, gradients)
        assert abs(float(found["plain"][0]) - float(found["sharded"][0])) < 1e-9
        compare(found["plain"][1], found["sharded"][1])
        compare(runs["plain"][0], runs["sharded"][0])
    assert all(float(jnp.abs(x.value).max()) > 0 for x in bridge_jax.leaves_of(found["sharded"][1]) if x.path)


def one_compilation(folder):
    """A training step returns arrays with the shardings of its arguments, so that jit compiles it once."""
    mesh, x = mesh_of({"data": 2, "tp": 4}), jnp.ones((4, 8))
    plan = {"axis": "tp", "tp_plan": {"layers.0": "colwise", "layers.1": "rowwise"}, "data": {"axes": ["data"]}}
    model = eqx.nn.MLP(8, 8, 16, 1, key=jax.random.key(0))
    model = bridge_jax.make_parallel(model, plan, mesh, batched=False)
    parameters, rest = eqx.partition(model, eqx.is_array)

    @jax.jit
    def step(parameters, x):
        loss = lambda parameters: jnp.sum(jax.vmap(eqx.combine(parameters, rest))(x) ** 2)  # noqa: E731
        return jax.tree.map(lambda p, g: p - 0.01 * g, parameters, jax.grad(loss)(parameters))

    for _ in range(3):
        parameters = step(parameters, jax.device_put(x, NamedSharding(mesh, PartitionSpec("data"))))
    assert step._cache_size() == 1


def loaded_weights(folder):
    """Reads a checkpoint onto the mesh without an initialized model: values, shardings and a step equal the unsharded
    model; also from a folder that another mesh wrote. On CPUs the arrays use the memory that was read into.
    """
    from safetensors.flax import save_file

    jax.config.update("jax_enable_x64", True)
    make, folder = lambda key: Decoder(count=1, key=key), pathlib.Path(folder)  # noqa: E731
    plain = make(jax.random.key(1))
    shapes = bridge_jax.abstract(make, jax.random.key(1))
    graph = jax_tree.model_graph(shapes)
    other = bridge.compile_manifest(folder, graph, DECODER_PLAN.replace("fsdp: 2, tp: 4", "fsdp: 1, tp: 2"))
    other = other.rename(folder / "other.json")
    manifest = m.load_manifest(bridge.compile_manifest(folder, graph, DECODER_PLAN))
    save_file({x.path: x.value for x in bridge_jax.leaves_of(plain) if x.path}, folder / "model.safetensors")
    saved = ["save", other, "--weights", folder / "model.safetensors", "-o", folder / "saved", "-q"]
    subprocess.run([EXECUTOR, *saved], check=True)
    mesh, made = mesh_of({"fsdp": 2, "tp": 4}), []
    tokens = jax.random.randint(jax.random.key(7), (4, 8), 0, 32)
    expected = eqx.filter_jit(loss_of)(plain, tokens)
    for weights in (folder / "model.safetensors", folder / "saved"):
        modules, steps = [], []
        arrays = bridge_jax.load(
            manifest, weights, mesh, on_module=modules.append, progress=lambda *now: steps.append(now)
        )
        assert modules[-1] == "" and len(set(modules)) == len(modules) and "layers.0" in modules
        assert steps == sorted(steps) and steps[-1][0] == steps[-1][1]
        assert steps[-1][1] == sum(s.data.nbytes for a in arrays.values() for s in a.addressable_shards)
        assert all(x.sharding == bridge_jax.shardings(manifest, mesh)[path] for path, x in arrays.items())
        model = bridge_jax.parallelize(shapes, manifest, mesh, batched=False, weights=weights)
        assert check_devices(model, manifest, mesh) > 6
        compare(plain, model, within=0)
        placed = jax.device_put(tokens, bridge_jax.batch_sharding(manifest, mesh))
        assert abs(float(eqx.filter_jit(loss_of)(model, placed) - expected)) < 1e-9
    make_aligned = weights_of_jax._aligned

    def noted(shape, dtype):
        made.append(make_aligned(shape, dtype))
        return made[-1]

    weights_of_jax._aligned = noted
    arrays = bridge_jax.load(manifest, folder / "saved", mesh)
    read_into = {x.ctypes.data for x in made if x.size}
    held = [s.data.unsafe_buffer_pointer() for x in arrays.values() for s in x.addressable_shards if s.data.size]
    assert len(held) == len(read_into) and set(held) == read_into
    with pytest.raises(tpplan.LoadError, match="TP1001"):
        bridge_jax.load(manifest, folder / "none", mesh)


def resumed_training(folder):
    """Trains a model, its optimizer and copies in another dtype on two devices, saves them, reshards them to four with
    tpplan-exec, and resumes: losses equal the unsharded run. Also with modules and optimizers of NNX, and from the
    folder without resharding.
    """
    jax.config.update("jax_enable_x64", True)
    folder, make = pathlib.Path(folder), lambda key: Decoder(count=1, key=key)  # noqa: E731
    graph = jax_tree.model_graph(bridge_jax.abstract(make, jax.random.key(1)))
    paths, meshes = [], [{"fsdp": 1, "tp": 2}, {"fsdp": 2, "tp": 2}]
    for axes in meshes:
        path = folder / f"fsdp{axes['fsdp']}"
        path.mkdir()
        sizes = f"fsdp: {axes['fsdp']}, tp: {axes['tp']}"
        paths.append(bridge.compile_manifest(path, graph, DECODER_PLAN.replace("fsdp: 2, tp: 4", sizes)))
    optimizer = optax.adamw(1e-2)

    @eqx.filter_jit
    def step(run, tokens):
        loss, gradients = eqx.filter_value_and_grad(loss_of)(run["model"], tokens)
        updates, state = optimizer.update(gradients, run["optimizer"], eqx.filter(run["model"], eqx.is_array))
        model = eqx.apply_updates(run["model"], updates)
        return {"model": model, "optimizer": state, "steps": run["steps"] + 1, "short": run["short"]}, loss

    @eqx.filter_jit
    def begin(model):
        arrays = eqx.filter(model, eqx.is_array)
        short = jax.tree.map(lambda x: x.astype(jnp.bfloat16), arrays)
        return {"model": model, "optimizer": optimizer.init(arrays), "steps": jnp.zeros((), int), "short": short}

    def train(run, first, place=lambda tokens: tokens):
        losses = []
        for i in range(first, first + 5):
            run, loss = step(run, place(jax.random.randint(jax.random.key(i), (4, 8), 0, 32)))
            losses.append(float(loss))
        return run, losses

    run, expected = train(begin(make(jax.random.key(1))), 0)
    _, after = train(run, 5)
    on = [mesh_of(axes) for axes in meshes]
    places = [lambda t, i=i: jax.device_put(t, bridge_jax.batch_sharding(paths[i], on[i])) for i in range(2)]
    models = [bridge_jax.initialize(make, paths[i], on[i], jax.random.key(1 + i), batched=False) for i in range(2)]
    run, found = train(begin(models[0]), 0, places[0])
    assert np.allclose(found, expected, rtol=0, atol=1e-9)
    bridge_jax.save_states(folder / "step-5", paths[0], on[0], run)
    states = [path.parent / "states.json" for path in paths]
    for path, state in zip(paths, states):
        command = [sys.executable, "-m", "tpplan.states", path, "--of", folder / "step-5", "-o", state]
        subprocess.run(list(map(str, command)), check=True)
    moved = ["reshard", *states, "--from", folder / "step-5", "--to", folder / "moved", "-q"]
    subprocess.run([EXECUTOR, *moved], check=True)
    for source in (folder / "moved", folder / "step-5"):
        other = bridge_jax.load_states(source, paths[1], on[1], begin(models[1]))
        compare(other["short"], run["short"], within=0)
        check_devices(other["optimizer"][0].mu, m.load_manifest(paths[1]), on[1])
        assert int(other["steps"]) == 5
        assert np.allclose(train(other, 5, places[1])[1], after, rtol=0, atol=1e-9)
    wrong = begin(models[1]) | {"steps": jnp.zeros((2,), int)}
    with pytest.raises(m.ManifestError, match=r"`steps`: is \[2\] int64, but was saved as \[\] int64"):
        bridge_jax.load_states(folder / "moved", paths[1], on[1], wrong)
    with pytest.raises(m.ManifestError, match="`more`: is not in the checkpoint"):
        bridge_jax.load_states(folder / "moved", paths[1], on[1], begin(models[1]) | {"more": jnp.zeros(2)})
    with pytest.raises(m.ManifestError, match="already exists"):
        bridge_jax.save_states(folder / "moved", paths[0], on[0], run)

    plan = {"axis": "tp", "tp_plan": {"up": "colwise", "down": "rowwise"}}
    made = []
    for number, count in enumerate((2, 4)):
        mesh, path = mesh_of({"tp": count}), folder / f"narrow{count}.json"
        model = bridge_jax.make_parallel(Narrow(nnx.Rngs(number)), plan, mesh, manifest=path)
        made.append((path, mesh, model, nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)))

    @nnx.jit
    def few(model, optimizer):
        for _ in range(3):
            gradients = nnx.grad(lambda model: jnp.mean(jnp.square(model(jnp.ones((4, 8))) - 1.0)))(model)
            optimizer.update(model, gradients)

    (path, mesh, model, state), (other_path, other_mesh, other_model, other_state) = made
    few(model, state)
    bridge_jax.save_states(folder / "model", path, mesh, model)
    bridge_jax.save_states(folder / "adam", path, mesh, state)
    bridge_jax.load_states(folder / "model", other_path, other_mesh, other_model)
    bridge_jax.load_states(folder / "adam", other_path, other_mesh, other_state)
    assert_layout(other_state, other_path, other_mesh, 6)
    few(model, state), few(other_model, other_state)
    compare(model, other_model)
    assert int(other_state.step.get_value()) == 6


def one_call(folder):
    """A plan in place of a manifest; diagnostics of the program are raised as an exception."""
    import tpplan

    jax.config.update("jax_enable_x64", True)
    plain = Decoder(count=1, key=jax.random.key(1))
    mesh, folder = mesh_of({"fsdp": 2, "tp": 4}), pathlib.Path(folder)
    kept, path, meshless = (
        folder / "kept.json",
        folder / "plan.yaml",
        DECODER_PLAN.replace("mesh: {fsdp: 2, tp: 4}", ""),
    )
    path.write_text(DECODER_PLAN)
    tokens = jnp.arange(32).reshape(4, 8)
    expected = eqx.filter_value_and_grad(loss_of)(plain, tokens)

    def check(model):
        assert check_devices(model, m.load_manifest(kept), mesh) > 6
        compare(plain, model)
        batch = jax.device_put(tokens, bridge_jax.batch_sharding(kept, mesh))
        found = eqx.filter_jit(eqx.filter_value_and_grad(loss_of))(model, batch)
        assert abs(float(expected[0]) - float(found[0])) < 1e-9
        compare(expected[1], found[1])

    for plan in (path, meshless, {"tp_plan": {"*.w1": "colwise", "*.w2": "rowwise"}, "fsdp": {"min_weight_size": 64}}):
        model = bridge_jax.make_parallel(plain, plan, mesh, batched=False, manifest=kept)
        if plan is not path and plan is not meshless:
            compare(plain, model)
            continue
        check(model)
        check(bridge_jax.make_parallel(plain, kept, mesh, batched=False))
        check(bridge_jax.make_parallel(plain, kept.read_text(), mesh, batched=False))
        check(bridge_jax.parallelize(plain, kept, mesh, batched=False))

    (folder / "model.json").write_text(json.dumps(jax_tree.model_graph(plain)))
    path.write_text(wrong := meshless.replace('"*.w1"', '"*.w11"'))
    said = bridge.run("compile", "model.json", path, "--mesh", "fsdp=2,tp=4", "-q", cwd=folder).stderr.decode().strip()
    assert "TP4001" in said
    with pytest.raises(tpplan.PlanError) as error:
        bridge_jax.make_parallel(plain, path, mesh)
    assert str(error.value) == said and error.value.findings[0]["code"] == "TP4001"
    with pytest.raises(tpplan.PlanError, match="<stdin>.*TP4001"):
        bridge_jax.make_parallel(plain, wrong, mesh)
    with pytest.raises(
        tpplan.ManifestError, match=r"plan is for mesh \[fsdp=2, tp=4\], but the device mesh is \[tp=8\]"
    ):
        bridge_jax.make_parallel(plain, DECODER_PLAN, mesh_of({"tp": 8}))
    with pytest.raises(tpplan.ManifestError, match="not a mesh of JAX"):
        bridge_jax.make_parallel(plain, meshless, {"tp": 8})


def first_plan(folder):
    """The plan that `tpplan init` drafts for the decoder shards most of it; loss and gradients equal one device."""
    jax.config.update("jax_enable_x64", True)
    plain, mesh, folder = Decoder(key=jax.random.key(1)), mesh_of({"fsdp": 2, "tp": 4}), pathlib.Path(folder)
    model, plan, kept = folder / "model.json", folder / "plan.yaml", folder / "kept.json"
    model.write_text(json.dumps(jax_tree.model_graph(plain)))
    drafted = bridge.run("init", model, "--mesh", "fsdp=2,tp=4", "--no-schema", "-o", plan)
    assert drafted.returncode == 0, drafted.stderr
    cut = bridge_jax.make_parallel(plain, plan, mesh, batched=False, manifest=kept)
    manifest = m.load_manifest(kept)
    over_tp = sum(np.prod(t.shape) for t in manifest.parameters.values() if "tp" in str(t.spec))
    assert over_tp > 0.8 * sum(np.prod(t.shape) for t in manifest.parameters.values()), plan.read_text()
    check_devices(cut, manifest, mesh)
    tokens = jnp.arange(32).reshape(4, 8)
    one = eqx.filter_value_and_grad(loss_of)(plain, tokens)
    other = eqx.filter_jit(eqx.filter_value_and_grad(loss_of))(
        cut, jax.device_put(tokens, NamedSharding(mesh, PartitionSpec("fsdp")))
    )
    assert abs(float(one[0]) - float(other[0])) < 1e-9
    compare(one[1], other[1])


def follow_the_page(folder, code):
    """The page's single call, for a concrete and an abstract model."""
    os.chdir(folder)
    pathlib.Path("plan.yaml").write_text(DECODER_PLAN)
    mesh, plain = mesh_of({"fsdp": 2, "tp": 4}), Decoder(count=1, key=jax.random.key(1))
    exec(code, found := {"model": plain, "mesh": mesh})
    bridge_jax.make_parallel(plain, "plan.yaml", mesh, manifest="kept.json")
    assert check_devices(found["model"], m.load_manifest("kept.json"), mesh) > 6
    compare(plain, found["model"])
    exec(code, found := {"model": bridge_jax.abstract(lambda: plain), "mesh": mesh})
    assert found["model"].head.weight.sharding.spec == PartitionSpec("tp", "fsdp")


def follow_the_functions(folder, code):
    """The page's functions, inside jit, for a feed-forward with its names."""
    os.chdir(folder)
    mesh = mesh_of({"fsdp": 2, "tp": 4})
    exec(code, found := {"FeedForward": FeedForward, "mesh": mesh, "eqx": eqx, "jax": jax})
    assert found["model"].w1.weight.sharding.spec == PartitionSpec("tp", "fsdp")
    assert found["model"].w2.weight.sharding.spec == PartitionSpec("fsdp", "tp")


def two_processes(index, port, folder):
    """One of two processes: both use the plan of the first, and both raise its diagnostics."""
    import tpplan

    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(index))
    assert jax.process_count() == 2
    mesh = mesh_of({"tp": jax.device_count()})
    plain = {"up": {"kernel": jnp.arange(32.0 * 16).reshape(16, 32)}, "down": {"kernel": jnp.ones((32, 16))}}
    plan = (
        {"tp_plan": {"up.kernel": {"spec": [None, "tp"]}, "down.kernel": {"spec": ["tp", None]}}}
        if index == "0"
        else "a plan that is not here.yaml"
    )
    kept = pathlib.Path(folder) / f"kept-{index}.json"
    model = bridge_jax.make_parallel(plain, plan, mesh, manifest=kept)
    kernel = model["up"]["kernel"]
    assert kernel.sharding.spec == jax.sharding.PartitionSpec(None, "tp") and len(kernel.addressable_shards) == 8
    assert float(jax.jit(jnp.sum)(kernel)) == 512 * 511 / 2
    assert kept.exists() == (index == "0")
    plan = {"tp_plan": {"nowhere": "colwise"}} if index == "0" else {"tp_plan": {"up": "colwise"}}
    with pytest.raises(tpplan.PlanError, match="TP4001"):
        bridge_jax.make_parallel(plain, plan, mesh)


def compare(one, other, within=1e-9):
    ours = {x.path: x.value for x in bridge_jax.leaves_of(other) if x.path}
    theirs = {x.path: x.value for x in bridge_jax.leaves_of(one) if x.path}
    assert ours.keys() == theirs.keys()
    for path, value in theirs.items():
        assert np.allclose(value, ours[path], rtol=0, atol=within), path


def check_devices(model, manifest, mesh):
    """Checks that each device holds the rank's shard. Returns the number of sharded arrays."""
    rank_of = {device: rank for rank, device in enumerate(mesh.devices.flat)}
    cut = 0
    for leaf in bridge_jax.leaves_of(model):
        if leaf.path is None or leaf.path not in manifest.parameters:
            continue
        tensor = manifest.parameters[leaf.path]
        cut += any(tensor.spec)
        for shard in leaf.value.addressable_shards:
            rank = rank_of[shard.device]
            runs = [[s.indices(size)[:2]] for s, size in zip(shard.index, tensor.shape)]
            assert list(shard.data.shape) == m.local_shape(manifest, tensor, rank) and runs == m.local_slice(
                manifest, tensor, rank
            ), leaf.path
    return cut


# FSDP as in the document from which `largest_dim` is taken, with its Darray and its function.


@jtu.register_dataclass
@dataclasses.dataclass
class Darray:
    value: jax.Array | None
    pspec: tuple | None = dataclasses.field(metadata=dict(static=True), default=None)


def predict_shard_params_fn(model, axis_name, min_weight_size=2**18):
    axis_size = jax.lax.psum(1, axis_name)

    def _shard(node):
        if isinstance(node, Darray):
            value, pspec = node.value, node.pspec
            if value is None:
                return node
            if pspec is None:
                pspec = (None,) * value.ndim
            if len(pspec) != value.ndim:
                raise ValueError("attribute names on Darray should have the same dimension with the attribute value")
            if axis_name in pspec:
                logging.warning(f"Parameter {value.shape} with names {pspec} already sharded on axis {axis_name}.")
                return Darray(value=None, pspec=pspec)
            if value.size <= min_weight_size:
                return Darray(value=None, pspec=pspec)
            shape = value.shape
            idx = np.argsort(shape)[::-1]
            for i in idx:
                if shape[i] % axis_size == 0 and pspec[i] is None:
                    return Darray(value=None, pspec=pspec[:i] + (axis_name,) + pspec[i + 1 :])
            logging.warning(
                f"Could not shard {value.shape} with names {pspec} on axis {axis_name}, no suitable axis found"
            )
            return Darray(value=None, pspec=pspec)
        return node

    return jtu.tree_map(_shard, model, is_leaf=lambda x: isinstance(x, Darray))


STYLES = {"colwise": {2: ("tp", None), 1: ("tp",)}, "rowwise": {2: (None, "tp"), 1: None}}


def without_trailing(pspec):
    """Returns the spec without trailing replicated dims, as tpplan.jax and XLA return it."""
    while pspec and pspec[-1] is None:
        pspec = pspec[:-1]
    return tuple(pspec)


def seeds_fsdp(folder):
    """A glob plan and FSDP on an Equinox model: the specs equal those of the document's make_parallel and
    predict_shard_params_fn.
    """
    for seed, (fsdp, tp, size, heads, minimum) in enumerate(
        [(2, 4, 16, 4, 64), (4, 2, 24, 4, 0), (2, 2, 12, 4, 500), (8, 1, 40, 8, 100), (4, 2, 20, 2, 2**18)]
    ):
        shapes = bridge_jax.abstract(lambda key: Decoder(size, heads, 2, 48, key=key), jax.random.key(seed))  # noqa: B023
        globs = {
            "*.query": "colwise",
            "*.key": "colwise",
            "*.value": "colwise",
            "*.output": "rowwise",
            "*feed_forward.w1": "colwise",
            "*feed_forward.w2": "rowwise",
        }
        plan = plan_of(
            {"fsdp": fsdp, "tp": tp},
            globs,
            f"data: {{axes: [fsdp]}}\nfsdp: {{axis: fsdp, min_weight_size: {minimum}}}\n",
        ).replace("axis: fsdp\ndata", "axis: tp\ndata")
        manifest = m.load_manifest(bridge.compile_manifest(pathlib.Path(folder), jax_tree.model_graph(shapes), plan))
        tree = {}
        for leaf in bridge_jax.leaves_of(shapes):
            if leaf.path is None:
                continue
            style = next(
                (s for key, s in globs.items() if fnmatch.fnmatchcase(leaf.path.rpartition(".")[0], key)), None
            )
            tree[leaf.path] = Darray(leaf.value, STYLES[style][leaf.value.ndim] if style else None)
        predicted = {}
        jax.vmap(lambda _: predicted.update(predict_shard_params_fn(tree, "fsdp", minimum)), axis_name="fsdp")(
            jnp.arange(fsdp)
        )  # noqa: B023
        assert predicted.keys() == manifest.parameters.keys()
        sharded = 0
        for path, darray in predicted.items():
            spec = tuple(() if e is None else (e,) for e in darray.pspec)
            assert manifest.parameters[path].spec == spec, (
                path,
                tree[path],
                darray.pspec,
                manifest.parameters[path].spec,
            )
            sharded += any("fsdp" in e for e in spec)
        assert (sharded > 0) == (minimum < 2**18)
        ours = bridge_jax.shardings(manifest, mesh_of({"fsdp": fsdp, "tp": tp}))
        assert all(tuple(ours[path].spec) == without_trailing(darray.pspec) for path, darray in predicted.items())


# The document's functions, one by one.


def transforms(folder):
    """Styles, annotations, FSDP and remat of single modules: the same result for modules that are concrete, abstract or
    created inside jit, in Equinox and in NNX; loss and gradients equal the plain module.
    """
    jax.config.update("jax_enable_x64", True)
    mesh = mesh_of({"fsdp": 2, "tp": 4})
    make = lambda key: FeedForward(16, key)  # noqa: E731

    def cut(module):
        w1 = bridge_jax.column_parallel(module.w1, mesh, batched=False, data="fsdp")
        w2 = bridge_jax.row_parallel(module.w2, mesh, batched=False, data="fsdp")
        module = eqx.tree_at(lambda x: (x.w1, x.w2), module, (w1, w2))
        module = bridge_jax.fully_shard(module, mesh, min_weight_size=16, patterns="*.weight", remat=["w2"])
        return bridge_jax.prepare_input(module, mesh, desired_input_layouts="Shard(1)", data="fsdp", batched=False)

    @eqx.filter_jit
    def init(key):
        module = cut(make(key))
        return jax.lax.with_sharding_constraint(module, bridge_jax.get_partition_spec(module))

    def specs_of(module):
        return {path: tuple(spec) for path, spec in by_path(bridge_jax.get_partition_spec(module)).items()}

    def by_path(tree):
        return {".".join(str(key.name) for key in keys): x for keys, x in jax.tree.flatten_with_path(tree)[0]}

    plain = make(jax.random.key(3))
    with jax.set_mesh(mesh):
        made = init(jax.random.key(3))
    there, shapes = cut(plain), cut(jax.eval_shape(make, jax.random.key(3)))
    expected = {"w1.weight": ("tp", "fsdp"), "w1.bias": ("tp",), "w2.weight": ("fsdp", "tp"), "w2.bias": ()}
    assert specs_of(there) == specs_of(shapes) == expected
    assert specs_of(made) == {path: spec if any(spec) else () for path, spec in expected.items()}
    assert jax.tree.structure(made) == jax.tree.structure(there) == jax.tree.structure(shapes)
    assert set(by_path(bridge_jax.get_partition_spec(plain)).values()) == {PartitionSpec()}
    seen = []
    jax.jit(lambda key: seen.append(specs_of(cut(make(key)))))(jax.random.key(3))
    assert seen == [expected]

    @eqx.filter_jit
    def loss(module, x):
        return eqx.filter_value_and_grad(lambda m: jnp.sum(jnp.square(jax.vmap(m, spmd_axis_name="fsdp")(x))))(module)

    x = jax.random.normal(jax.random.key(4), (4, 8, 16))
    one = loss(plain, x)
    for module in (there, made):
        other = loss(module, x)
        assert abs(float(one[0]) - float(other[0])) < 1e-9
        compare(one[1], other[1])
    traced = str(eqx.filter_make_jaxpr(lambda m, x: jax.grad(lambda x: jnp.sum(jax.vmap(m)(x)))(x))(there, x)[0])
    assert traced.count("sharding_constraint") >= 5 and "remat" in traced

    # Annotations do not change parameters; a skipped reduction is left to XLA; modules of other types need `dims`.
    kept = bridge_jax.prepare_input_output(plain, mesh, input_layouts="Shard(0)", output_layouts="Replicate")
    kept = bridge_jax.filter_remat(bridge_jax.prepare_output(kept, mesh, output_layouts="Shard(-1)"), ["w?"])
    assert all(a is b for a, b in zip(jax.tree.leaves(kept), jax.tree.leaves(plain)))
    text = str(jax.make_jaxpr(kept)(x[0]))
    assert text.count("sharding_constraint[") == 3 and text.count("remat") == 2
    count = [
        str(jax.make_jaxpr(bridge_jax.row_parallel(plain.w1, mesh, skip_communication=skip))(x[0, 0])).count(
            "sharding_constraint["
        )
        for skip in (False, True)
    ]
    assert count == [2, 1]
    own = bridge_jax.column_parallel(Own(jnp.ones((8, 16))), mesh, dims={"w": ["out", "in"]})
    assert own.w.sharding.spec == PartitionSpec("tp") and np.allclose(own(x[0, 0]), x[0, 0].sum())
    both = bridge_jax.column_parallel(bridge_jax.column_parallel(plain.w1, mesh, "fsdp"), mesh)
    assert both.weight.sharding.spec == PartitionSpec(("fsdp", "tp"))

    linear = lambda: nnx.Linear(16, 32, rngs=nnx.Rngs(0), param_dtype=jnp.float64)  # noqa: E731
    for module in (linear(), nnx.eval_shape(linear)):
        assert bridge_jax.fully_shard(bridge_jax.column_parallel(module, mesh), mesh, min_weight_size=64) is module
        assert isinstance(module, nnx.Linear)
        found = bridge_jax.get_partition_spec(module)
        assert found.kernel.get_value() == PartitionSpec("fsdp", "tp") and found.bias.get_value() == PartitionSpec("tp")
        if isinstance(module.kernel.get_value(), jax.Array):
            assert np.allclose(module(x), linear()(x), rtol=0, atol=1e-9)

    # A model without biases, created inside jit.
    mlp = lambda key: eqx.nn.MLP(16, 16, 32, 1, use_bias=False, use_final_bias=True, key=key)  # noqa: E731
    path = pathlib.Path(folder) / "mlp.json"
    wanted = bridge_jax.make_parallel(
        mlp(jax.random.key(0)),
        {"axis": "tp", "tp_plan": {"layers.0": "colwise", "layers.1": "rowwise"}},
        mesh,
        manifest=path,
    )
    made = eqx.filter_jit(lambda key: bridge_jax.constrain(mlp(key), path, mesh))(jax.random.key(0))
    for a, b in zip(bridge_jax.leaves_of(wanted), bridge_jax.leaves_of(made), strict=True):
        assert a.path is None or a.value.sharding.is_equivalent_to(b.value.sharding, a.value.ndim), a.path

    def refused(said, error, function, *arguments, **options):
        with pytest.raises(error, match=said):
            function(*arguments, **options)

    refused("shards both dim 0 and dim 1", PlanError, bridge_jax.row_parallel, there.w1, mesh)
    refused("TP4009", PlanError, bridge_jax.filter_remat, plain, ["w3"])
    refused("have no names", PlanError, bridge_jax.column_parallel, Own(jnp.ones((8, 16))), mesh)
    refused("no parameter `v`", m.ManifestError, bridge_jax.column_parallel, plain.w1, mesh, dims={"v": ["out"]})
    refused(
        "leaves the result partial",
        m.ManifestError,
        bridge_jax.row_parallel,
        plain.w1,
        mesh,
        skip_communication=True,
        output_layouts="Replicate",
    )
    refused("different mesh", m.ManifestError, bridge_jax.fully_shard, there, mesh_of({"fsdp": 4, "tp": 2}))
    refused("does not divide", PlanError, bridge_jax.column_parallel, eqx.nn.Linear(4, 6, key=jax.random.key(0)), mesh)


class Own(eqx.Module):
    w: jax.Array

    def __call__(self, x):
        return self.w @ x


def fully_shard_is_the_documents(folder):
    """Random trees, some already sharded over another axis: fully_shard produces the shardings that
    predict_shard_params_fn predicts.
    """
    chance, cut = random.Random(5), 0
    for _ in range(8):
        mesh = mesh_of({"fsdp": chance.choice([2, 4]), "tp": 2})
        tree, shapes = {}, {}
        for name in ("a", "b[0]", "c*", "d", "e?", "f", "h", "i"):
            shape = tuple(chance.choice([1, 2, 4, 6, 8, 12, 64]) for _ in range(chance.randint(1, 3)))
            pspec = [None] * len(shape)
            if chance.random() < 0.7:
                pspec[dim := chance.randrange(len(shape))] = chance.choice(["tp", "tp", "fsdp"])
                pspec = [None] * len(shape) if shape[dim] % mesh.shape[pspec[dim]] else pspec
            sharding = NamedSharding(mesh, PartitionSpec(*pspec)) if any(pspec) else None
            shapes[name] = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)
            tree[name] = Darray(jax.ShapeDtypeStruct(shape, jnp.float32), tuple(pspec))
        minimum, predicted = chance.choice([0, 8, 64]), {}
        jax.vmap(
            lambda _: predicted.update(predict_shard_params_fn(tree, "fsdp", minimum)),  # noqa: B023
            axis_name="fsdp",
        )(jnp.arange(mesh.shape["fsdp"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlanWarning)
            found = bridge_jax.get_partition_spec(bridge_jax.fully_shard(shapes, mesh, min_weight_size=minimum))
        for name, darray in predicted.items():
            expected = without_trailing(darray.pspec)
            assert tuple(found[name]) == expected, (name, tree[name], darray.pspec, found[name], minimum)
            cut += "fsdp" in darray.pspec
    assert cut > 20, cut


# Flax.


class Net(nnx.Module):
    def __init__(self, rngs):
        named = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("embed", "mlp"))
        self.embed = nnx.Embed(16, 8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, 8, rngs=rngs, decode=False)
        self.layers = nnx.List([nnx.Linear(8, 16, rngs=rngs, kernel_init=named), nnx.Linear(16, 8, rngs=rngs)])
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.0, rngs=rngs)
        self.head = nnx.Linear(8, 16, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        x = x + self.dropout(self.attention(x))
        x = x + self.layers[1](nnx.relu(self.layers[0](x)))
        return self.head(self.norm(x))


NET_PLAN = """format: tpplan.plan/1
mesh: {data: 2, tp: 4}
tp_plan:
  "attention.query": {style: colwise, output_layouts: Shard(2)}
  "attention.key": {style: colwise, output_layouts: Shard(2)}
  "attention.value": {style: colwise, output_layouts: Shard(2)}
  "attention.out.kernel": {spec: [tp, null, null]}
  "layers.0": colwise
  "layers.1": rowwise
data: {axes: [data], dim: 0}
remat: ["layers.0"]
"""


def nnx_training(folder):
    """A Flax NNX model, created sharded under jit, with replicated buffers: a training step equals the unsharded
    one.
    """
    graph = jax_tree.model_graph(bridge_jax.abstract(lambda: Net(nnx.Rngs(0))))
    by_path = {module["path"]: module for module in graph["modules"]}
    assert by_path["norm"]["buffers"].keys() == {"mean", "var"} and by_path["attention.query"]["parameters"]["kernel"][
        "dims"
    ] == ["in", "out", "out_1"]
    assert by_path["layers.0"]["parameters"]["kernel"]["logical_axes"] == ["embed", "mlp"]
    manifest = m.load_manifest(bridge.compile_manifest(pathlib.Path(folder), graph, NET_PLAN))
    assert manifest.parameters["attention.out.kernel"].spec == (("tp",), (), ())
    mesh = mesh_of({"data": 2, "tp": 4})
    with nnx.use_eager_sharding(False):
        plain = Net(nnx.Rngs(0))
        other = bridge_jax.parallelize(Net(nnx.Rngs(0)), manifest, mesh)
    model = bridge_jax.initialize(lambda: Net(nnx.Rngs(0)), manifest, mesh)
    tokens = jax.random.randint(jax.random.key(5), (4, 6), 0, 16)

    def loss_fn(model, tokens):
        return jnp.mean(jnp.square(model(tokens) - 1.0))

    @nnx.jit
    def step(model, tokens):
        loss, gradients = nnx.value_and_grad(loss_fn)(model, tokens)
        parameters = nnx.state(model, nnx.Param)
        nnx.update(model, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients))
        return loss, gradients

    for again in (other, model):
        assert isinstance(again, Net) and check_devices(again, manifest, mesh) >= 8
    for i in range(2):
        expected = step(plain, tokens)
        for again in (other, model):
            found = step(again, jax.device_put(tokens, bridge_jax.batch_sharding(manifest, mesh)))
            assert abs(float(expected[0]) - float(found[0])) < 1e-5
            compare(expected[1], found[1], 1e-5)
            compare(plain, again, 1e-5)
    graph, state = nnx.split(model)
    assert "sharding_constraint" in str(
        jax.make_jaxpr(lambda state, tokens: nnx.merge(graph, state)(tokens))(state, tokens)
    )


# Training states.


class Narrow(nnx.Module):
    def __init__(self, rngs):
        self.up, self.down, self.free = (
            nnx.Linear(*sizes, rngs=rngs, param_dtype=jnp.float64) for sizes in ((8, 16), (16, 8), (8, 8))
        )
        self.norm = nnx.LayerNorm(16, rngs=rngs, param_dtype=jnp.float64)

    def __call__(self, x):
        return self.free(self.down(self.norm(nnx.relu(self.up(x)))))


def nnx_states(folder):
    """Parameters with and without a rule keep their layout over steps of an NNX model, and so do the moments of an
    optimizer that is created inside jit; buffers are donated.
    """
    jax.config.update("jax_enable_x64", True)
    mesh, path = mesh_of({"data": 2, "tp": 4}), pathlib.Path(folder) / "manifest.json"
    plan = {"axis": "tp", "tp_plan": {"up": "colwise", "down": "rowwise"}, "data": {"axes": ["data"]}}
    x = jax.random.normal(jax.random.key(1), (4, 8))

    def train(model, hold, make_optimizer, place):
        optimizer, losses = make_optimizer(model), []
        step = nnx.jit(lambda *state: one_step(hold, *state), donate_argnums=(0, 1))
        for _ in range(3):
            losses.append(float(step(model, optimizer, place(x))))
        return optimizer, losses

    def one_step(hold, model, optimizer, x):
        loss, gradients = nnx.value_and_grad(lambda model: jnp.mean(jnp.square(model(x) - 1.0)))(model)
        optimizer.update(model, gradients)
        hold(model), hold(optimizer)
        return loss

    def optimizer_of(model):
        return nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    plain = Narrow(nnx.Rngs(0))
    model = bridge_jax.make_parallel(Narrow(nnx.Rngs(0)), plan, mesh, manifest=path)
    hold = lambda state: bridge_jax.hold_layout(state, path, mesh)  # noqa: E731
    _, expected = train(plain, lambda state: state, optimizer_of, lambda x: x)
    place = lambda x: jax.device_put(x, bridge_jax.batch_sharding(path, mesh))  # noqa: E731
    optimizer, found = train(model, hold, nnx.jit(lambda m: hold(optimizer_of(m))), place)
    assert np.allclose(expected, found, rtol=0, atol=1e-9) and expected[0] > expected[-1]
    compare(plain, model)
    assert_layout(model, path, mesh, 3)
    assert_layout(optimizer, path, mesh, 6)
    assert model.norm.bias.get_value().sharding.is_fully_replicated
    with pytest.raises(m.ManifestError, match="no parameter"):
        bridge_jax.hold_layout({"step": jnp.ones(())}, path, mesh)


def assert_layout(state, path, mesh, count):
    """Checks that each array of a state has the layout of state_shardings, and that `count` arrays are sharded."""
    wanted = jax.tree.leaves(bridge_jax.state_shardings(path, mesh, state), is_leaf=lambda x: x is None)
    leaves = bridge_jax.leaves_of(state)
    for leaf, sharding in zip(leaves, wanted, strict=True):
        if sharding is not None:
            assert leaf.value.sharding.is_equivalent_to(sharding, leaf.value.ndim), (leaf.path, leaf.value.sharding)
    assert sum(s is not None and not s.is_fully_replicated for s in wanted) == count


class TwoLayers(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.Dense(16, name="up", param_dtype=jnp.float64)(x))
        return linen.Dense(8, name="down", param_dtype=jnp.float64)(x)


def linen_states(folder):
    """A TrainState of Linen, created sharded inside jit, trained with donated buffers and constrained module
    boundaries.
    """
    from flax.training.train_state import TrainState

    jax.config.update("jax_enable_x64", True)
    mesh, model, x = mesh_of({"data": 2, "tp": 4}), TwoLayers(), jax.random.normal(jax.random.key(1), (4, 8))

    def make(key):
        return TrainState.create(apply_fn=model.apply, params=model.init(key, x), tx=optax.adam(1e-2))

    def step(state, x):
        loss, gradients = jax.value_and_grad(lambda p: jnp.mean(jnp.square(state.apply_fn(p, x) - 1.0)))(state.params)
        return state.apply_gradients(grads=gradients), loss

    shapes = jax.eval_shape(make, jax.random.key(0))
    rules = {"params.up": "colwise", "params.down": "rowwise"}
    for graph, keys in ((shapes.params, rules), (shapes.params["params"], {k[7:]: v for k, v in rules.items()})):
        plan = plan_of({"data": 2, "tp": 4}, keys, "data: {axes: [data]}\n").replace("axis: data\n", "axis: tp\n")
        path = bridge.compile_manifest(pathlib.Path(folder), jax_tree.model_graph(graph), plan)
        wanted = bridge_jax.state_shardings(path, mesh, shapes)
        state, plain = jax.jit(make, out_shardings=wanted)(jax.random.key(0)), make(jax.random.key(0))
        batch = jax.device_put(x, bridge_jax.batch_sharding(path, mesh))
        with bridge_jax.linen_boundaries(path, mesh):
            assert str(jax.make_jaxpr(model.apply)(state.params, x)).count("sharding_constraint[") == 4
            compiled = jax.jit(step, out_shardings=(wanted, None), donate_argnums=0)
            for _ in range(3):
                given = state
                state, loss = compiled(state, batch)
        assert given.params["params"]["up"]["kernel"].is_deleted()
        for _ in range(3):
            plain, expected = jax.jit(step)(plain, x)
        assert abs(float(loss) - float(expected)) < 1e-9 and int(state.step) == 3
        compare(plain, state)
        assert_layout(state, path, mesh, 9)
        held = jax.jit(lambda key: bridge_jax.hold_layout(make(key), path, mesh))(jax.random.key(0))
        assert_layout(held, path, mesh, 9)
    with pytest.raises(m.ManifestError, match="linen_boundaries"):
        bridge_jax.parallelize(shapes.params["params"], path, mesh)
    path = bridge.compile_manifest(pathlib.Path(folder), jax_tree.model_graph(graph), plan + "remat: [up]\n")
    with pytest.raises(m.ManifestError, match="linen.remat"):
        bridge_jax.linen_boundaries(path, mesh)


def stacked_layers(folder):
    """Layers of a scan: styles shard the layer's dims, which follow the stacking dim."""
    jax.config.update("jax_enable_x64", True)
    mesh, path = mesh_of({"data": 2, "tp": 4}), pathlib.Path(folder) / "manifest.json"
    plan = {"axis": "tp", "tp_plan": {"w1": "colwise", "w2": "rowwise"}}
    plain = eqx.filter_vmap(lambda key: FeedForward(8, key))(jax.random.split(jax.random.key(0), 3))
    x = jax.random.normal(jax.random.key(1), (4, 8))

    @eqx.filter_jit
    def loss(layers, x):
        def run(layers):
            return jnp.sum(jnp.square(jax.lax.scan(lambda x, layer: (layer(x), None), x, layers)[0]))

        return eqx.filter_value_and_grad(run)(layers)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanWarning)
        model = bridge_jax.make_parallel(plain, plan, mesh, batched=False, manifest=path)
        layers = nnx.vmap(lambda rngs: nnx.Linear(8, 16, rngs=rngs), in_axes=0, out_axes=0)(nnx.Rngs(0).fork(split=3))
        bridge_jax.make_parallel(layers, {"axis": "tp", "tp_plan": {"": "colwise"}}, mesh)
    assert layers.kernel.get_value().sharding.spec == PartitionSpec(None, None, "tp")
    specs = [tuple(s) for s in jax.tree.leaves(bridge_jax.get_partition_spec(model))]
    assert specs == [(None, "tp"), (None, "tp"), (None, None, "tp"), ()]
    one, other = loss(plain, x), loss(model, x)
    assert abs(float(one[0]) - float(other[0])) < 1e-9
    compare(one[1], other[1])
    state = optax.adam(1e-2).init(model)
    for held in (
        bridge_jax.hold_layout((plain, state), path, mesh),
        eqx.filter_jit(bridge_jax.hold_layout)((plain, state), path, mesh),
    ):
        assert_layout(held, path, mesh, 9)
        compare(plain, held[0])


def stacks_at_any_axis(folder):
    """vmap stacks parameters at `out_axes`: dims are named by the sizes of the layer's attributes."""

    def dims(axis, layers, size_in, size_out):
        stack = nnx.vmap(lambda rngs: nnx.Linear(size_in, size_out, rngs=rngs), in_axes=0, out_axes=axis)
        shapes = nnx.eval_shape(lambda: stack(nnx.Rngs(0).fork(split=layers)))
        (module,) = [x for x in jax_tree.model_graph(shapes)["modules"] if x.get("parameters")]
        return {name: entry["dims"] for name, entry in module["parameters"].items()}

    assert dims(0, 3, 8, 16) == {"kernel": ["layers", "in", "out"], "bias": ["layers", "out"]}
    assert dims(1, 3, 8, 16) == {"kernel": ["in", "layers", "out"], "bias": ["out", "layers"]}
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert dims(1, 8, 8, 16)["kernel"] == ["layers", "in", "out"]
    assert "the sizes of `kernel` do not show which dim stacks the layers: dim 0 is assumed" in said.getvalue()
    equinox_layers = eqx.filter_vmap(lambda key: eqx.nn.Linear(8, 16, key=key), out_axes=1)(
        jax.random.split(jax.random.key(0), 3)
    )
    (module,) = [x for x in jax_tree.model_graph(equinox_layers)["modules"] if x.get("parameters")]
    assert module["parameters"]["weight"]["dims"] == ["out", "layers", "in"]


class Small(linen.Module):
    @linen.compact
    def __call__(self, x):
        for i in range(2):
            x = linen.Dense(
                8,
                kernel_init=linen.with_logical_partitioning(
                    linen.initializers.lecun_normal(), ("embed", "mlp") if i else ("mlp", "embed")
                ),
                bias_init=linen.with_logical_partitioning(linen.initializers.zeros, ("embed",)),
            )(x)
        return linen.LayerNorm()(x)


def flax_rules(folder):
    """Logical axis rules as a plan: the shardings equal those of Flax, on dicts of parameters and on boxes."""
    folder = pathlib.Path(folder)
    tree = jax.eval_shape(lambda: Small().init(jax.random.key(0), jnp.ones((1, 8))))
    graph = jax_tree.model_graph(tree)
    (folder / "model.json").write_text(json.dumps(graph))
    kinds = {module["path"]: module.get("kind") for module in graph["modules"]}
    assert kinds["params.Dense_0"] == "linear" and kinds["params.LayerNorm_0"] == "norm"
    mesh = mesh_of({"fsdp": 2, "tp": 4})
    for rules in (
        [("embed", "fsdp"), ("mlp", "tp")],
        [("mlp", ("fsdp", "tp"))],
        [("mlp", "tp"), ("embed", "tp"), ("embed", "fsdp")],
        [("mlp", None), ("embed", "tp")],
    ):
        text = flax_plan.logical_plan(rules, {"fsdp": 2, "tp": 4})
        manifest = bridge.compile_manifest(folder, graph, text, "--allow", "TP4006")
        ours = bridge_jax.shardings(manifest, mesh, tree)
        theirs = linen.logical_to_mesh_sharding(linen.get_partition_spec(tree), mesh, rules)
        flat = jax.tree.leaves(theirs, is_leaf=lambda x: isinstance(x, NamedSharding))
        assert len(flat) == len(jax.tree.leaves(ours)) == 6
        for leaf, a, b in zip(bridge_jax.leaves_of(tree), jax.tree.leaves(ours), flat):
            assert a.is_equivalent_to(b, leaf.value.ndim), (leaf.path, a, b, rules)
    assert jax.tree.structure(ours) == jax.tree.structure(tree)


def logical_rules(folder):
    """Random lists of logical axis rules in place of a plan: each array and the batch have the sharding of Flax. An NNX
    model is trained with them, on two meshes.
    """
    jax.config.update("jax_enable_x64", True)
    chance, path, cut = random.Random(3), pathlib.Path(folder) / "manifest.json", 0
    words, axes = ("batch", "embed", "mlp", "heads", "layers"), ("data", "fsdp", "tp")
    warnings.simplefilter("ignore", PlanWarning)
    for _ in range(10):
        mesh = mesh_of({"data": 2, "fsdp": 2, "tp": 2})
        tree = {
            f"p{i}": linen.LogicallyPartitioned(
                jax.ShapeDtypeStruct((8,) * len(names), jnp.float32), tuple(chance.choice([n, None]) for n in names)
            )
            for i, names in enumerate(chance.sample(words[1:], chance.randint(1, 3)) for _ in range(8))
        }
        choices = [*axes, None, ("fsdp", "tp"), ("data", "fsdp")]
        rules = [(chance.choice(words), chance.choice(choices)) for _ in range(chance.randint(2, 9))]
        rules += [("batch", "data"), ("batch", "tp")]  # the first rule for a name applies
        if not any(any(box.names) for box in tree.values()):
            continue
        ours = bridge_jax.make_parallel(tree, rules, mesh, manifest=path)
        theirs = linen.logical_to_mesh_sharding(linen.get_partition_spec(tree), mesh, rules)
        for name, box in ours.items():
            assert box.value.sharding.is_equivalent_to(theirs[name], box.value.ndim), (tree[name], rules)
            cut += not theirs[name].is_fully_replicated
        batch = linen.logical_to_mesh_axes(("batch",), [r for r in rules if r[0] == "batch"][:1])
        assert bridge_jax.batch_sharding(path, mesh).is_equivalent_to(NamedSharding(mesh, batch), 2)
    assert cut > 15, cut

    def make():
        named = lambda *names: nnx.with_partitioning(nnx.initializers.lecun_normal(), names)  # noqa: E731
        rngs, double = nnx.Rngs(0), {"param_dtype": jnp.float64}
        with nnx.use_eager_sharding(False):
            return nnx.Sequential(
                nnx.Linear(8, 16, rngs=rngs, kernel_init=named("embed", "mlp"), **double),
                nnx.relu,
                nnx.Linear(16, 8, rngs=rngs, kernel_init=named("mlp", "embed"), **double),
            )

    x, rules = (
        jax.random.normal(jax.random.key(1), (8, 8)),
        [("batch", ("data", "fsdp")), ("mlp", "tp"), ("embed", "fsdp")],
    )
    loss = nnx.jit(lambda model, x: nnx.value_and_grad(lambda model: jnp.mean(jnp.square(model(x) - 1.0)))(model))
    expected = loss(make(), x)
    for sizes in ({"data": 2, "fsdp": 2, "tp": 2}, {"data": 1, "fsdp": 4, "tp": 2}):
        mesh = mesh_of(sizes)
        model = bridge_jax.make_parallel(make(), rules, mesh, manifest=path)
        assert model.layers[0].kernel.get_value().sharding.spec == PartitionSpec("fsdp", "tp")
        batch = jax.device_put(x, bridge_jax.batch_sharding(path, mesh))
        assert batch.sharding.spec == PartitionSpec(("data", "fsdp"))
        found = loss(model, batch)
        assert abs(float(expected[0]) - float(found[0])) < 1e-9
        compare(expected[1], found[1])
    with pytest.raises(PlanError, match="no parameter of the model has logical names for its dims"):
        bridge_jax.make_parallel({"w": jnp.ones(8)}, rules, mesh)
    with pytest.raises(m.ManifestError, match="logical axis rules.*is not a logical axis rule"):
        bridge_jax.make_parallel({"w": jnp.ones(8)}, [("mlp", 3)], mesh)


# Rejected inputs.


def refusals(folder):
    folder = pathlib.Path(folder)
    make = lambda: Decoder(key=jax.random.key(0))  # noqa: E731
    graph = jax_tree.model_graph(bridge_jax.abstract(make))
    path = bridge.compile_manifest(folder, graph, DECODER_PLAN)
    manifest, document = m.load_manifest(path), json.loads(path.read_text())
    mesh = mesh_of({"fsdp": 2, "tp": 4})

    def refused(said, function, *arguments, **options):
        with pytest.raises(m.ManifestError, match=said):
            function(*arguments, **options)

    refused(
        "has `forward_dtype`, but XLA chooses the dtype of its collectives",
        bridge_jax.constraints,
        bridge.sent_in(manifest, "bfloat16"),
        mesh,
    )
    refused("the manifest is for", bridge_jax.shardings, manifest, mesh_of({"tp": 4, "fsdp": 2}))
    refused("the manifest is for", bridge_jax.shardings, manifest, mesh_of({"fsdp": 2, "model": 4}))
    refused("not a mesh of JAX", bridge_jax.shardings, manifest, 3)
    refused("has shape", bridge_jax.parallelize, Decoder(24, key=jax.random.key(0)), manifest, mesh)
    refused(
        "is in the manifest but not in the model",
        bridge_jax.parallelize,
        Decoder(count=1, key=jax.random.key(0)),
        manifest,
        mesh,
    )
    refused(
        "not in the manifest", bridge_jax.initialize, lambda: Decoder(count=3, key=jax.random.key(0)), manifest, mesh
    )
    refused(
        "bfloat16 in the model",
        bridge_jax.parallelize,
        jax.tree.map(lambda x: x.astype(jnp.bfloat16) if bridge_jax.is_array(x) else x, make()),
        manifest,
        mesh,
    )
    parameters = {leaf.path: leaf.value for leaf in bridge_jax.leaves_of(make()) if leaf.path}
    refused("no callable module", bridge_jax.parallelize, parameters, manifest, mesh)
    explicit = jax.make_mesh((2, 4), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    refused("type Auto", bridge_jax.constraints, manifest, explicit)
    edited = json.loads(json.dumps(document))
    edited["parameters"][0]["spec"] = [None, None]
    written = folder / "edited.json"
    written.write_text(json.dumps(edited))
    refused("its digest does not match its text", m.load_manifest, written)
    uneven = bridge.compile_manifest(
        folder, graph_of({"w": [6]}), plan_of({"tp": 4}, {"w": {"spec": ["tp"]}}, "uneven: torch\n")
    )
    refused("`w`: dim 0 of size 6 is sharded unevenly over 4 ranks", bridge_jax.shardings, uneven, mesh_of({"tp": 4}))
    fused = graph_of({"w": [8]})
    fused["modules"][0]["parameters"]["w"] |= {"dims": ["out"], "segments": {"out": [4, 4]}}
    refused(
        "segments",
        bridge_jax.shardings,
        bridge.compile_manifest(folder, fused, plan_of({"tp": 4}, {"w": {"spec": ["tp"]}})),
        mesh_of({"tp": 4}),
    )
    # Layouts with a missing dim, or with axes that do not divide it, are errors and not silently replicated.
    layout = ("Shard(0)", "Shard(-1)")
    assert bridge_jax.layout_spec(manifest, "x", layout, (4, 8)) == PartitionSpec("fsdp", "tp")
    assert bridge_jax.layout_spec(manifest, "x", layout, (8,), batched=False) == PartitionSpec("tp")
    assert bridge_jax.layout_spec(manifest, "x", ("Shard(0)", "Shard(1)"), (8, 3), batched=False) == PartitionSpec(
        "tp", None
    )
    refused("unevenly", bridge_jax.layout_spec, manifest, "x", layout, (4, 6))
    refused(r"Shard\(2\)", bridge_jax.layout_spec, manifest, "x", ("Shard(0)", "Shard(2)"), (4, 8))
    refused("two arrays", bridge_jax.leaves_of, {"a.b": jnp.ones(1), "a": {"b": jnp.ones(1)}})


def constraint_functions(folder):
    """The boundary functions alone: arguments, keywords, tuples, values without a layout in the manifest."""
    graph = {
        "format": "tpplan.model/1",
        "name": "M",
        "framework": "jax",
        "modules": [
            {"path": "", "type": "M"},
            {"path": "b", "type": "B", "parameters": {"w": {"shape": [8, 8], "dtype": "float32"}}},
        ],
    }
    rule = {
        "style": "prepare_module_input",
        "input_layouts": ["Replicate", None],
        "desired_input_layouts": ["Shard(1)", None],
        "input_kwarg_layouts": {"mask": "Replicate"},
        "desired_input_kwarg_layouts": {"mask": "Shard(0)"},
    }
    plan = plan_of(
        {"tp": 8},
        {
            "b": rule,
            "": {
                "style": "prepare_module_output",
                "output_layouts": ["Shard(0)", None],
                "desired_output_layouts": ["Replicate", None],
            },
        },
    )
    manifest = bridge.compile_manifest(pathlib.Path(folder), graph, plan)
    mesh = mesh_of({"tp": 8})
    found = bridge_jax.constraints(manifest, mesh)
    x = jnp.ones((8, 8))

    def inputs(x, y, mask):
        (x, y), kwargs = found["b"].inputs((x, y), {"mask": mask, "other": 3})
        assert kwargs["other"] == 3
        return x, y, kwargs["mask"]

    a, _, mask = jax.jit(inputs)(x, x, x)
    assert a.sharding.spec == PartitionSpec(None, "tp") and mask.sharding.spec[0] == "tp"
    cut = jax.device_put(x, NamedSharding(mesh, PartitionSpec("tp")))
    whole, left = jax.jit(lambda a, b: found[""].outputs((a, b)))(cut, cut)
    assert whole.sharding.is_fully_replicated and not left.sharding.is_fully_replicated
