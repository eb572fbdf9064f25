"""tpplan.keras and the exports of Keras models, on the JAX and the torch backend: keras_checks.py, one function per test."""

import json
import os
import subprocess
import sys

import bridge
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")  # the default of Keras is TensorFlow
bridge.needs("keras", "jax", "torch")

from apart import ENVIRONMENTS, run_apart  # noqa: E402


@pytest.mark.parametrize("check", ["distribute_on_jax", "first_plan", "tuples_on_jax", "refusals"])
def test_keras_check_on_jax(tmp_path, check):
    run_apart("keras_checks", check, tmp_path)


@pytest.mark.parametrize("mesh, data", [("batch: 2, model: 4", "batch"), ("model: 4", "")])
def test_fit_on_jax(tmp_path, mesh, data):
    run_apart("keras_checks", "fit_on_jax", tmp_path, mesh, data)


@pytest.mark.parametrize("seed", range(2))
def test_layout_lookups_match_keras(tmp_path, seed):
    run_apart("keras_checks", "look_ups", seed, tmp_path)


@pytest.mark.parametrize(
    "mesh, data, optimizer",
    [("batch: 1, model: 2", "batch", "adam"), ("batch: 2, model: 1", "batch", "sgd"), ("model: 2", "", "adam")],
)
def test_fit_on_two_processes(tmp_path, mesh, data, optimizer):
    run_apart("keras_checks", "fit_on_torch", tmp_path, mesh, data, optimizer, framework="torch", ranks=2)


def test_library_on_two_processes(tmp_path):
    run_apart("keras_checks", "library_on_torch", tmp_path, framework="torch", ranks=2)


@pytest.mark.parametrize("framework, count", [("jax", 0), ("torch", 2)])
def test_weights_match_the_checkpoint(tmp_path, framework, count):
    bridge.needs("safetensors")
    run_apart("keras_checks", "loaded_weights", tmp_path, framework=framework, ranks=count)


SOURCE = """
import keras

def make(units=8):
    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(units, name="up"), keras.layers.Dropout(0.5),
                             keras.layers.Dense(4, name="down"),
                             keras.layers.BatchNormalization(name="norm")], name="net")

def heads():
    x = keras.Input((6, 8))
    return keras.Model(x, keras.layers.MultiHeadAttention(4, 2, name="mha")(x, x))

def unbuilt():
    return keras.Sequential([keras.layers.Dense(2)])

def twice():
    x = keras.Input((4,))
    return keras.Model(x, keras.layers.Dense(4, name="a")(keras.Sequential([keras.layers.Dense(4, name="b")], name="a")(x)))

def layouts():
    import numpy as np
    found = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((2, 4), ["batch", "model"], np.arange(8)))
    found["net/up/kernel"] = (None, "model")
    found["net/down/.*"] = ()
    found["net/up/output"] = ("batch", "model")
    return found

number = 3
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_command_writes_models_and_plans(tmp_path, backend):
    (tmp_path / "layers_to_export.py").write_text(SOURCE)

    def export(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "tpplan.export", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **ENVIRONMENTS[backend]},
        )

    done = export("--keras", "layers_to_export:make", "--kwargs", '{"units": 16}', "-o", "model.json")
    assert done.returncode == 0, done.stderr
    graph = json.loads((tmp_path / "model.json").read_text())
    found = {module["path"]: module for module in graph["modules"]}
    assert graph["framework"] == "keras" and found["net/up"]["parameters"]["kernel"] == {
        "shape": [4, 16],
        "dtype": "float32",
    }, graph
    assert found["net/norm"]["buffers"].keys() == {"moving_mean", "moving_variance"}
    done = export("--plan-from", "keras", "layers_to_export:layouts", "-o", "plan.yaml")
    assert done.returncode == 0, done.stderr
    plan = (tmp_path / "plan.yaml").read_text()
    result = bridge.run("compile", *bridge.write(tmp_path, graph, plan), "-o", tmp_path / "manifest.json")
    assert result.returncode == 0, (plan, result.stderr.decode())
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert {p["path"]: p["spec"] for p in manifest["parameters"]}["net/up/kernel"] == [None, "model"]
    assert manifest["modules"][0]["path"] == "net/up" and manifest["modules"][0]["outputs"][0]["to"] == [
        "Shard(0)",
        "Shard(1)",
    ]
    if backend == "torch":
        return
    assert export("--keras", "layers_to_export:heads", "-o", "heads.json").returncode == 0
    modules = {module["path"]: module for module in json.loads((tmp_path / "heads.json").read_text())["modules"]}
    assert modules["mha"]["attributes"] == {"num_heads": 4, "head_dim": 2} and modules["mha/query"]["parameters"][
        "kernel"
    ]["dims"] == ["in", "out", "out_1"]
    for name, status, said in (("number", 2, "not a model"), ("unbuilt", 1, "not built"), ("absent", 2, "has no")):
        done = export("--keras", f"layers_to_export:{name}", "-o", "out.json")
        assert (
            done.returncode == status
            and said in done.stderr
            and "= help:" in done.stderr
            and not (tmp_path / "out.json").exists()
        )
