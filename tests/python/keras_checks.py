"""Checks of test_keras.py, each executed in separate processes: on the JAX backend with eight devices, on torch under
torchrun.
"""

import json
import os
import pathlib
import random
import re
import subprocess

import bridge
import keras
import numpy as np
import pytest
from keras.distribution import DeviceMesh, LayoutMap
from keras.src.distribution import distribution_lib

from tpplan import keras as bridge_keras
from tpplan import keras_plan
from tpplan import manifest as m
from tpplan.export import keras_model


def make(name="net", vocabulary=16):
    """Embedding, normalisation, attention-free mixing, two dense layers: a functional model with named layers."""
    tokens = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(vocabulary, 8, name="embed")(tokens)
    x = keras.layers.LayerNormalization(name="norm")(x)
    y = keras.layers.Dense(16, activation="relu", name="up")(x)
    x = keras.layers.Add(name="add")([x, keras.layers.Dense(8, name="down")(y)])
    x = keras.layers.GlobalAveragePooling1D(name="pool")(x)
    return keras.Model(tokens, keras.layers.Dense(4, name="head")(x), name=name)


PLAN = """format: tpplan.plan/1
mesh: {%s}
axis: model
tp_plan:
  "embed": {spec: [null, model]}
  "up": colwise
  "down": rowwise
  "head": {style: colwise, output_layouts: Replicate}
data: {axes: [%s], dim: 0}
"""


def compiled(folder, mesh, data):
    path = pathlib.Path(folder) / "manifest.json"
    if int(os.environ.get("RANK", 0)) == 0:
        keras.utils.clear_session()
        bridge.compile_manifest(pathlib.Path(folder), keras_model.model_graph(make()), PLAN % (mesh, data))
    return path


def batches():
    chance = np.random.default_rng(0)
    return chance.integers(0, 16, (24, 6)), chance.integers(0, 4, 24)


def train(model, optimizer="adam", count=8):
    """Returns the losses of each epoch and of an evaluation, predictions, and accuracy."""
    model.compile(
        optimizer=keras.optimizers.get(optimizer),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile="auto" if keras.backend.backend() == "jax" else False,
    )
    x, y = batches()
    history = model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False).history
    evaluated = model.evaluate(x, y, batch_size=8, verbose=0)
    return history["loss"] + history["accuracy"] + list(evaluated), model.predict(x[:count], verbose=0)


def start_values(model):
    """Sets the same weights for every model."""
    chance = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(chance.normal(0, 0.3, variable.shape).astype("float32"))


# JAX.


def check_jax(model, manifest, mesh):
    cut = 0
    for variable in model.trainable_variables:
        tensor = manifest.parameters[variable.path]
        rank_of = {device: rank for rank, device in enumerate(mesh.backend_mesh.devices.flat)}
        cut += any(tensor.spec)
        for shard in variable.value.addressable_shards:
            assert list(shard.data.shape) == m.local_shape(manifest, tensor, rank_of[shard.device]), variable.path
    return cut


def fit_on_jax(folder, mesh_text, data):
    """A model created under ModelParallel with our layout map trains by fit like the plain one."""
    plain = make()
    start_values(plain)
    expected = train(plain)
    values = [np.array(v) for v in plain.trainable_variables]
    keras.utils.clear_session()
    manifest = m.load_manifest(compiled(folder, mesh_text, data))
    mesh = bridge_keras.device_mesh(manifest)
    distribution = bridge_keras.model_parallel(manifest, mesh)
    with distribution.scope():
        model = make()
        start_values(model)
        assert check_jax(model, manifest, mesh) >= 6
        found = train(model)
        assert check_jax(model, manifest, mesh) >= 6
    assert np.allclose(expected[0], found[0], atol=1e-5) and np.allclose(expected[1], found[1], atol=1e-4)
    for value, variable in zip(values, model.trainable_variables):
        assert np.allclose(value, np.array(variable), atol=1e-4), variable.path
    assert distribution.get_tensor_layout("net/down/output").axes == (("batch",) if data else ())


def distribute_on_jax(folder):
    """An existing model; and Keras' own ModelParallel with our layout map."""
    manifest = m.load_manifest(compiled(folder, "batch: 2, model: 4", "batch"))
    mesh = bridge_keras.device_mesh(manifest)
    with keras.distribution.ModelParallel(
        layout_map=bridge_keras.layout_map(manifest, mesh), batch_dim_name="batch"
    ).scope():
        assert check_jax(make(), manifest, mesh) >= 6
    keras.utils.clear_session()
    model = make()
    start_values(model)
    x = batches()[0][:8]
    expected = np.array(model(x))
    values = [np.array(v) for v in model.trainable_variables]
    assert bridge_keras.distribute(model, manifest, mesh) is model
    assert check_jax(model, manifest, mesh) >= 6 and all(
        np.array_equal(a, np.array(b)) for a, b in zip(values, model.trainable_variables)
    )
    assert np.allclose(expected, model.predict(x, verbose=0), atol=1e-5)


def first_plan(folder):
    """The plan that `tpplan init` drafts, with a vocabulary-sharded embedding, trains by fit like the plain model."""
    plain = make(vocabulary=24)
    start_values(plain)
    expected = train(plain)
    keras.utils.clear_session()
    folder = pathlib.Path(folder)
    source, plan, kept = folder / "model.json", folder / "plan.yaml", folder / "kept.json"
    source.write_text(json.dumps(keras_model.model_graph(make(vocabulary=24))))
    drafted = bridge.run("init", source, "--mesh", "batch=2,model=4", "--no-schema", "-o", plan)
    assert drafted.returncode == 0, drafted.stderr
    keras.utils.clear_session()
    model = make(vocabulary=24)
    start_values(model)
    mesh = DeviceMesh((2, 4), ["batch", "model"], np.array(keras.distribution.list_devices()))
    bridge_keras.distribute(model, plan, mesh, manifest=kept)
    assert check_jax(model, m.load_manifest(kept), mesh) >= 1, plan.read_text()
    found = train(model)
    assert np.allclose(expected[0], found[0], atol=1e-5) and np.allclose(expected[1], found[1], atol=1e-4)


def one_call(folder):
    """A plan in place of a manifest, on both backends; diagnostics of the program are raised as an exception."""
    import tpplan

    is_torch = keras.backend.backend() == "torch"
    rank = int(os.environ.get("RANK", 0))
    if is_torch:
        import torch

        torch.distributed.init_process_group("gloo")
    folder, sizes = pathlib.Path(folder), (2, 1) if is_torch else (2, 4)
    own = f"batch: {sizes[0]}, model: {sizes[1]}"
    kept, path, plan = folder / f"kept-{keras.backend.backend()}.json", folder / "plan.yaml", PLAN % (own, "batch")
    meshless, names = plan.replace(f"mesh: {{{own}}}\n", ""), ["batch", "model"]
    if is_torch:
        mesh = torch.distributed.init_device_mesh("cpu", sizes, mesh_dim_names=names)
    else:
        mesh = DeviceMesh(sizes, names, np.array(keras.distribution.list_devices()))
    x = batches()[0][:8]

    def make_one():
        keras.distribution.set_distribution(None)
        keras.utils.clear_session()
        model = make()
        start_values(model)
        return model

    expected = keras.ops.convert_to_numpy(make_one()(x))
    model = make_one()
    if rank == 0:
        path.write_text(meshless.replace('"up"', '"upp"'))
        (folder / "model.json").write_text(json.dumps(keras_model.model_graph(model)))
    flags = ("--mesh", f"batch={sizes[0]},model={sizes[1]}", "-q")
    with pytest.raises(tpplan.PlanError, match="TP4001") as error:
        bridge_keras.distribute(model, path, mesh)  # the first process has written the manifest
    said = bridge.run("compile", "model.json", path, *flags, cwd=folder).stderr.decode().strip()
    assert str(error.value) == said and error.value.findings[0]["code"] == "TP4001"
    with pytest.raises(tpplan.PlanError, match="TP4001"):  # raised by the first process only
        bridge_keras.distribute(model, plan.replace('"up"', '"upp"') if rank == 0 else plan)
    with pytest.raises(
        tpplan.ManifestError, match=r"plan is for mesh \[rows=1, model=2\], but the device mesh is \[batch="
    ):
        bridge_keras.distribute(model, PLAN % ("rows: 1, model: 2", "rows"), mesh)
    with pytest.raises(tpplan.PlanError, match="TP3002"):
        bridge_keras.distribute(model, meshless)
    assert bridge_keras.distribute(model, plan, manifest=kept) is model
    assert len(m.load_manifest(kept).parameters) == len(model.trainable_variables)
    assert np.allclose(expected, model.predict(x, verbose=0), atol=1e-5)
    for given in (meshless, kept):
        model = bridge_keras.distribute(make_one(), given, mesh)
        assert np.allclose(expected, model.predict(x, verbose=0), atol=1e-5)
        assert is_torch or check_jax(model, m.load_manifest(kept), mesh) >= 6


def loaded_weights(folder):
    """Loads checkpoint values into a distributed model: from a file, from one with other names, and from a folder that
    another mesh wrote. A missing tensor is an error on every process, and changes nothing.
    """
    import tpplan
    from conftest import EXECUTOR
    from safetensors.numpy import save_file

    is_torch = keras.backend.backend() == "torch"
    rank, folder = int(os.environ.get("RANK", 0)), pathlib.Path(folder)
    if is_torch:
        import torch

        torch.distributed.init_process_group("gloo")
    own = "batch: 1, model: 2" if is_torch else "batch: 2, model: 4"

    def make_one(seed=None):
        keras.distribution.set_distribution(None)
        keras.utils.clear_session()
        model = make()
        if seed is None:
            start_values(model)
        return model

    plain = make_one()
    x = batches()[0][:8]
    expected, values = plain.predict(x, verbose=0), {v.path: np.array(v) for v in plain.variables}
    if rank == 0:
        save_file(values, folder / "w.safetensors")
        save_file({f"old/{path}": value for path, value in values.items()}, folder / "old.safetensors")
        save_file({path: value for path, value in values.items() if path != "up/bias"}, folder / "lacking.safetensors")
        save_file({path: value.astype("float64") for path, value in values.items()}, folder / "wide.safetensors")
        other = bridge.compile_manifest(folder, keras_model.model_graph(plain), PLAN % ("batch: 2, model: 2", "batch"))
        saved = ["save", other, "--weights", folder / "w.safetensors", "-o", folder / "saved", "-q"]
        alone = {name: value for name, value in os.environ.items() if "RANK" not in name and "WORLD" not in name}
        subprocess.run([EXECUTOR, *saved], check=True, env=alone)  # without a launcher's variables
    if is_torch:
        torch.distributed.barrier()
    sources = [
        folder / "w.safetensors",
        folder / "saved",
        tpplan.Checkpoint(folder / "old.safetensors", rename={"^old/": ""}),
        tpplan.Checkpoint(folder / "wide.safetensors", dtype="manifest"),
    ]
    for source in sources:
        model = bridge_keras.distribute(make_one(1), PLAN % (own, "batch"), weights=source)
        held = {v.path: keras_whole(v.value) if is_torch else np.array(v) for v in model.variables}
        assert held.keys() == values.keys() and all(np.array_equal(held[path], values[path]) for path in values)
        assert np.allclose(expected, model.predict(x, verbose=0), atol=1e-5)
    model = make_one(1)
    before = [np.array(v) for v in model.variables]
    weights = folder / ("lacking.safetensors" if rank == 0 else "w.safetensors")
    with pytest.raises(
        tpplan.LoadError, match="parameter `up/bias`" if rank == 0 else "rank 0 cannot read its weights"
    ):
        bridge_keras.distribute(model, PLAN % (own, "batch"), weights=weights)
    assert all(np.array_equal(a, np.array(b)) for a, b in zip(before, model.variables))


def follow_the_page(folder, code):
    """The page's single call, followed by training."""
    os.chdir(folder)
    pathlib.Path("plan.yaml").write_text(PLAN % ("batch: 2, model: 4", "batch"))
    x, y = batches()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def start():
        keras.utils.clear_session()
        model = make()
        start_values(model)
        return model

    plain = start()
    plain.compile(optimizer="adam", loss=loss)
    keras.utils.set_random_seed(3)
    plain.fit(x, y, batch_size=64, verbose=0)
    keras.utils.set_random_seed(3)
    exec(code, found := {"keras": keras, "make_model": start, "x": x, "y": y, "loss": loss})
    assert "model" in found["model"].get_layer("up").kernel.value.sharding.spec
    for one, other in zip(plain.trainable_variables, found["model"].trainable_variables):
        assert np.allclose(np.array(one), np.array(other), atol=1e-5), one.path


def tuples_on_jax(folder):
    """A dim over two axes, which Keras' LayoutMap rejects as a tuple."""
    graph = {
        "format": "tpplan.model/1",
        "name": "D",
        "framework": "keras",
        "modules": [
            {
                "path": "d",
                "type": "Dense",
                "parameters": {
                    "kernel": {"shape": [8, 16], "dtype": "float32"},
                    "bias": {"shape": [16], "dtype": "float32"},
                },
            }
        ],
    }
    plan = 'format: tpplan.plan/1\nmesh: {a: 2, b: 4}\naxis: a\ntp_plan: {"d/kernel": [null, [b, a]], "d/bias": [[a, b]]}\n'
    manifest = m.load_manifest(bridge.compile_manifest(pathlib.Path(folder), graph, plan))
    mesh = bridge_keras.device_mesh(manifest)
    with bridge_keras.model_parallel(manifest, mesh).scope():
        layer = keras.layers.Dense(16, name="d")
        layer.build((None, 8))
    for variable in (layer.kernel, layer.bias):
        tensor = manifest.parameters[variable.path]
        for rank, device in enumerate(mesh.backend_mesh.devices.flat):
            (shard,) = [s for s in variable.value.addressable_shards if s.device == device]
            assert [[s.indices(size)[:2]] for s, size in zip(shard.index, tensor.shape)] == m.local_slice(
                manifest, tensor, rank
            )


# Look-ups.

WORDS = ["dense", "dense_1", "block_0", "block_10", "attention", "kernel", "bias", "query"]


def look_ups(seed, folder):
    """Keras' look-up in its three modes equals the plan of the LayoutMap, errors included. Keys in torch's notation,
    which tpplan treats as exact paths before any expression, are in library_on_torch.
    """
    folder = pathlib.Path(folder)
    outcomes = set()
    for mode in ("fullmatch", "search", "match"):
        chance = random.Random(f"{seed} {mode}")
        distribution_lib.re = type("OneMode", (), {"fullmatch": staticmethod(getattr(re, mode))})
        for _ in range(16):
            paths = sorted({"/".join(chance.choice(WORDS) for _ in range(chance.randint(2, 3))) for _ in range(6)})
            paths = [p for p in paths if not any(q.startswith(p + "/") for q in paths)]
            modules = {}
            for path in paths:
                owner, _, name = path.rpartition("/")
                modules.setdefault(owner, {"path": owner, "type": "Layer", "parameters": {}})["parameters"][name] = {
                    "shape": [8, 8],
                    "dtype": "float32",
                }
            graph = {"format": "tpplan.model/1", "name": "M", "framework": "keras", "modules": list(modules.values())}
            found = LayoutMap(DeviceMesh((2, 4), ["data", "model"], np.arange(8)))
            for _ in range(chance.randint(1, 3)):
                base = chance.choice(paths)
                key = chance.choice(
                    [
                        base,
                        ".*" + base[chance.randint(0, 6) :],
                        base[:-2] + ".*",
                        base[:5],
                        base[-4:],
                        ".*/" + chance.choice(["kernel", "bias"]),
                        re.sub("[0-9]+", "[0-9]+", base),
                    ]
                )
                if key and key not in list(found):
                    found[key] = chance.choice([("model",), (None, "model"), ("data", "model"), ()])
            text = keras_plan.keras_plan(found, {})
            assert f"keras_match: {mode}\n" in text and "mesh: {data: 2, model: 4}" in text
            # A key without a match is an error in tpplan, but not in Keras.
            text = text.replace('"..."]}', '"..."], optional: true}')
            expected, errors = {}, 0
            for path in paths:
                try:
                    layout = found[path]
                    expected[path] = () if layout is None else layout.axes
                except ValueError:
                    errors += 1
            bridge.write(folder, graph, text)
            result = bridge.run(
                "compile",
                folder / "model.json",
                folder / "plan.yaml",
                "-o",
                folder / "manifest.json",
                "--allow",
                "TP4006",
            )
            if errors:
                assert result.returncode == 1 and b"TP4003" in result.stderr, (text, paths, result.stderr.decode())
                outcomes.add((mode, "error"))
                continue
            assert result.returncode == 0, (text, paths, result.stderr.decode())
            for path, tensor in m.load_manifest(folder / "manifest.json").parameters.items():
                axes = (*expected[path], *[None] * (2 - len(expected[path])))
                assert tensor.spec == tuple((a,) if a else () for a in axes), (mode, path, text)
                outcomes.add((mode, "cut" if any(axes) else "whole"))
    distribution_lib.re = re
    assert {(mode, what) for mode in ("fullmatch", "search", "match") for what in ("cut", "whole")} <= outcomes and any(
        w == "error" for _, w in outcomes
    )


# torch.


def check_torch(model, manifest, rank):
    from torch.distributed.tensor import DTensor

    cut = 0
    variables = {v.path: v for v in model.trainable_variables}
    assert variables.keys() == manifest.parameters.keys()
    for path, tensor in manifest.parameters.items():
        value = variables[path].value
        assert isinstance(value, DTensor) and list(value.to_local().shape) == m.local_shape(manifest, tensor, rank), (
            path
        )
        cut += any(tensor.spec)
    tracked = [p for _, p in model.named_parameters()]
    assert all(any(p is v.value for p in tracked) for v in variables.values())
    return cut


def fit_on_torch(folder, mesh_text, data, optimizer):
    """Under torchrun, a model trains by fit like the plain one in one process; its weights, gradients and slots are
    sharded.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    path = compiled(folder, mesh_text, data)
    dist.barrier()
    manifest = m.load_manifest(path)
    plain = make()
    start_values(plain)
    expected = train(plain, optimizer, 5)
    values = [np.array(v) for v in plain.trainable_variables]
    for scoped in (True, False):
        keras.utils.clear_session()
        if scoped:
            keras.distribution.set_distribution(bridge_keras.model_parallel(manifest))
            model = make()
        else:
            model = make()
            assert bridge_keras.distribute(model, manifest, bridge.mesh_of(manifest)) is model
        assert check_torch(model, manifest, rank) >= 6
        start_values(model)
        assert check_torch(model, manifest, rank) >= 6
        found = train(model, optimizer, 5)
        assert check_torch(model, manifest, rank) >= 6
        assert np.allclose(expected[0], found[0], atol=1e-5), (expected[0], found[0])
        assert np.allclose(expected[1], found[1], atol=1e-4) and found[1].shape == expected[1].shape
        for value, variable in zip(values, model.trainable_variables):
            assert np.allclose(value, np.array(variable), atol=1e-4), variable.path
            gradient = variable.value.grad
            assert isinstance(gradient, DTensor) and float(gradient.full_tensor().abs().max()) > 0, variable.path
        slots = [v for v in model.optimizer.variables if v.ndim and "kernel" in v.path]
        assert all(isinstance(v.value, DTensor) for v in slots)
        x = batches()[0][:3]
        assert np.allclose(plain_call(plain, x), keras_whole(model(x)), atol=1e-4)
        keras.distribution.set_distribution(None)
    dist.barrier()


def plain_call(model, x):
    current = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        return model(x).detach().numpy()
    finally:
        keras.distribution.set_distribution(current)


def keras_whole(value):
    from tpplan import keras_torch

    return keras_torch.all_gather_variable(value).detach().numpy()


def library_on_torch(folder):
    """Converters, collectives, assignments, and operations that combine sharded weights with plain tensors."""
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, Shard

    from tpplan import keras_torch
    from tpplan import torch as bridge_torch

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    keras_torch.install()
    mesh = DeviceMesh((1, 2), ["data", "model"], keras.distribution.list_devices())
    assert keras_torch.mesh_info(mesh) == {
        "shape": (1, 2),
        "axis_names": ("data", "model"),
        "devices": ["cpu:0", "cpu:1"],
    }
    assert mesh.backend_mesh.mesh_dim_names == ("data", "model") and list(
        keras_torch.keras_mesh(mesh.backend_mesh).shape
    ) == [1, 2]
    assert keras_torch.placements_of((None, "model"), mesh) == [Replicate(), Shard(1)]
    assert keras_torch.placements_of((("data", "model"), None), mesh) == [Shard(0), Shard(0)]
    assert keras_torch.placements_of((), mesh) == [Replicate(), Replicate()]
    layouts = LayoutMap(mesh)
    layouts["d.kernel"] = (None, "model")
    layouts["d/bias"] = ("model",)
    assert (
        keras_torch.find_layout(layouts, "d/kernel").axes == (None, "model")
        and keras_torch.find_layout(layouts, "e/kernel") is None
    )
    layouts["d.ker.*"] = ()
    assert keras_torch.find_layout(layouts, "d/kernel").axes == (None, "model")
    with pytest.raises(ValueError, match="multiple"):
        keras_torch.find_layout(layouts, "d/ker", lambda key, path: re.search(key[:5], path))
    del layouts["d.ker.*"]
    with keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="data", auto_shard_dataset=False).scope():
        layer = keras.layers.Dense(6, name="d")
        layer.build((None, 4))
        kernel = layer.kernel
        assert (
            isinstance(kernel.value, DTensor)
            and kernel.value.to_local().shape == (4, 3)
            and layer.bias.value.to_local().shape == (3,)
        )
        whole = torch.arange(24.0).reshape(4, 6) + 1
        kernel.assign(whole)
        plain = torch.full((4, 6), 3.0)
        for name in ("subtract", "multiply", "minimum", "maximum", "divide"):
            function = getattr(keras.ops, name)
            compiled = torch.compile(function, backend="aot_eager")
            for turned in (False, True):
                operands = (plain, kernel) if turned else (kernel, plain)
                with bridge_torch.mixed():
                    results = [function(*operands)]
                results += [function(*operands), compiled(*operands)]
                expected = getattr(torch, name)(*((plain, whole) if turned else (whole, plain)))
                assert all(
                    isinstance(result, DTensor)
                    and list(result.placements) == [Replicate(), Shard(1)]
                    and torch.equal(result.full_tensor(), expected)
                    for result in results
                )
        learned = torch.ones(4, 6, requires_grad=True)
        (2 * (kernel - learned)).full_tensor().sum().backward()
        assert type(learned.grad) is torch.Tensor and torch.equal(learned.grad, torch.full((4, 6), -2.0))
        assert torch.equal(keras.ops.subtract(kernel, plain.numpy()).full_tensor(), whole - 3)
        kernel.assign(np.ones((4, 6), "float32"))
        kernel.assign_add(plain)
        kernel.assign_sub(plain * 2)
        assert (
            kernel.value.to_local().shape == (4, 3)
            and np.array_equal(kernel.numpy(), np.full((4, 6), -2.0))
            and np.array_equal(layer.get_weights()[0], kernel.numpy())
        )
        layer.set_weights([whole.numpy(), np.zeros(6, "float32")])
        assert torch.equal(kernel.value.to_local(), whole[:, 3 * rank : 3 * rank + 3]) and torch.equal(
            keras_torch.all_gather_variable(kernel), whole
        )
        mine = torch.full((2, 2), float(rank + 1))
        assert torch.equal(keras_torch.all_reduce(mine, "sum", "model"), torch.full((2, 2), 3.0))
        assert torch.equal(keras_torch.all_reduce(mine, "mean"), torch.full((2, 2), 1.5)) and torch.equal(
            keras_torch.all_reduce(mine, "sum", "data"), mine
        )
        assert keras_torch.all_gather(torch.full((2, rank + 1), rank), 1, "model").tolist() == [[0, 1, 1]] * 2
        layout = bridge_keras.tensor_layout(("model", None), mesh)
        batch = torch.arange(8.0).reshape(4, 2) + 100 * rank
        assert torch.equal(
            keras_torch.distribute_data_input(batch, layout).to_local(),
            torch.arange(8.0).reshape(4, 2)[2 * rank : 2 * rank + 2],
        )
        assert list(keras_torch.distribute_data_input(batch[:3], layout).placements) == [Replicate(), Replicate()]
    dist.barrier()


class NamedOtherwise(keras.Model):
    """A second model of a type whose layers get generated names."""

    def __init__(self):
        super().__init__()
        self.up = keras.layers.Dense(2, name="up_2")

    def build(self, shape):
        self.up.build(shape)


def refusals(folder):
    folder = pathlib.Path(folder)
    model = make()
    path = bridge.compile_manifest(folder, keras_model.model_graph(model), PLAN % ("batch: 1, model: 1", "batch"))

    def refused(said, function, *arguments):
        with pytest.raises(m.ManifestError, match=said):
            function(*arguments)

    before = [(v, v._value) for v in model.variables]
    mesh = DeviceMesh((1, 1), ["batch", "model"], ["cpu:0"])
    typed = bridge.sent_in(m.load_manifest(path), "float16")
    refused("has `forward_dtype`, but a LayoutMap cannot set the dtype", bridge_keras.distribute, model, typed, mesh)
    document = json.loads(path.read_text())
    document["parameters"][0]["shape"] = [16, 9]
    refused("embed/embeddings", bridge_keras.distribute, model, document, mesh)
    refused("not a DeviceMesh", bridge_keras.layout_map, path, 3)
    refused("the manifest is for", bridge_keras.layout_map, path, DeviceMesh((1, 1), ["model", "batch"], ["cpu:0"]))
    refused(
        "not in the manifest",
        bridge_keras.distribute,
        keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(2, name="x")]),
        path,
        mesh,
    )
    refused("not built", bridge_keras.distribute, keras.Sequential([keras.layers.Dense(2)]), path, mesh)
    refused("not a Keras model", bridge_keras.distribute, 3, path, mesh)
    with bridge_keras.model_parallel(path, mesh).scope():
        make()  # with the names of the manifest
        refused(
            "variable `dense.*/kernel`: is not in the manifest, which has `", keras.layers.Dense(2).build, (None, 3)
        )
        refused(
            "variable `.*/up_2/kernel`: is not in the manifest, which has .*`up/kernel`",
            NamedOtherwise().build,
            (None, 3),
        )
    big = bridge.compile_manifest(folder, keras_model.model_graph(model), PLAN % ("batch: 8, model: 2", "batch"))
    refused("16 devices", bridge_keras.device_mesh, big)
    assert all(v._value is value for v, value in before) and keras.distribution.distribution() is None
