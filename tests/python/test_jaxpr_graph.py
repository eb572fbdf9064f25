"""Programs under jax.shard_map, checked from their jaxpr and executed on devices (jaxpr_checks.py, one function per test), and the errors
of the exporter for untraceable programs."""

import json
import sys

import bridge
import pytest

bridge.needs("jax", "equinox", "flax")

from apart import run_apart  # noqa: E402
from tpplan import files  # noqa: E402
from tpplan.export import __main__ as export_main  # noqa: E402


@pytest.mark.parametrize("verdict", ["right", "wrong", "fails"])
def test_programs_run_as_checked(tmp_path, verdict):
    run_apart("jaxpr_checks", "programs", tmp_path, verdict)


@pytest.mark.parametrize("seed", range(2))
def test_random_plans_run_as_checked(tmp_path, seed):
    run_apart("jaxpr_checks", "random_plans", tmp_path, seed)


def test_equinox_and_flax_modules_are_traced(tmp_path):
    run_apart("jaxpr_checks", "modules", tmp_path)


SOURCE = """
import jax
import jax.numpy as jnp
import numpy as np

def make(size=8):
    return {"up": {"kernel": jnp.zeros((size, 2 * size))}, "down": {"kernel": jnp.zeros((2 * size, size))}}

def forward(p, x):
    return jax.lax.psum(jax.nn.gelu(x @ p["up"]["kernel"]) @ p["down"]["kernel"], "tp")

def loops(p, x):
    h = x @ p["up"]["kernel"]
    h = jax.lax.while_loop(lambda h: h.sum() < 1, lambda h: h + 1, h)
    return jax.lax.psum(h @ p["down"]["kernel"], "tp")

def branches(p, x):
    x = jax.lax.cond(jax.lax.axis_index("tp") == 0, lambda x: x, lambda x: 2 * x, x)
    return forward(p, x)

def calls_back(p, x):
    x = jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return forward(p, x)

def passes_on(p, x):
    h = jax.lax.ppermute(x @ p["up"]["kernel"], "tp", [(0, 1), (1, 0)])
    return jax.lax.psum(h @ p["down"]["kernel"], "tp")

def ring(p, x):
    for _ in range(jax.lax.axis_size("tp")):
        x = x + 1
    return forward(p, x)

def other_array(p, x):
    return forward(p, x) * np.linspace(0, 1, 8 * jax.lax.axis_size("tp"))[:8]

def nothing(p, x):
    return 1

def raises(p, x):
    raise RuntimeError("no \\x1b[31m luck")
"""
PLAN = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {up: colwise, down: rowwise}\n"
INPUTS = '{"x": {"shape": [4, 8]}}'


@pytest.fixture
def programs(tmp_path, monkeypatch):
    (tmp_path / "programs_of_test.py").write_text(SOURCE)
    (tmp_path / "plan.yaml").write_text(PLAN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("programs_of_test", None)


def export(folder, function, *more, inputs=INPUTS):
    """The model file, or the error of the exporter."""
    arguments = ["--jax", "programs_of_test:make", "--shard-map", f"programs_of_test:{function}", "--inputs", inputs]
    arguments += ["--plan", str(folder / "plan.yaml"), "-o", str(folder / "model.json"), *more]
    export_main.main(arguments)
    return folder / "model.json"


def check(model, plan, *more):
    result = bridge.run("check", model, plan, "--format", "json", *more)
    return json.loads(result.stdout)


def test_correct_program_lists_its_backward_as_unchecked(programs):
    model = export(programs, "forward")
    document = check(model, programs / "plan.yaml")
    assert document["diagnostics"] == []
    assert [gap["checks"] for gap in document["unchecked"]] == ["gradients and collectives of the backward pass"]
    assert "unchecked" not in check(model, programs / "plan.yaml", "--mode", "infer")


def test_other_runtime_uses_global_arrays(programs):
    document = check(export(programs, "forward"), programs / "plan.yaml", "--runtime", "tpplan")
    assert "GSPMD" in document["unchecked"][0]["reason"]


@pytest.mark.parametrize("function", ["loops", "branches", "calls_back", "passes_on"])
def test_operations_without_a_rule_are_reported(programs, function):
    document = check(export(programs, function), programs / "plan.yaml")
    assert [d["code"] for d in document["diagnostics"]] == ["TP5114"]
    assert document["unchecked"]


def test_trace_depends_on_its_plan_and_mesh(programs):
    model = export(programs, "forward")
    other = programs / "other.yaml"
    other.write_text(PLAN.replace("down: rowwise", "down: replicate"))
    assert [d["code"] for d in check(model, other)["diagnostics"] if d["severity"] == "error"] == ["TP5122"]
    found = check(model, programs / "plan.yaml", "--mesh", "tp=4")["diagnostics"]
    assert [d["code"] for d in found] == ["TP5122"] and "mesh [tp=2]" in found[0]["message"]
    assert check(model, programs / "plan.yaml", "--batch", "8")["diagnostics"], "a recording has one batch"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("ring", "the program on the mesh differs from the program on one rank"),
        ("other_array", "an array that is created outside of JAX differs"),
        ("nothing", "returns no array"),
        ("raises", "the program fails on one rank: RuntimeError: no \\x1b[31m luck"),
        ("absent", "absent"),
    ],
)
def test_untraceable_programs_are_rejected(programs, function, said):
    with pytest.raises(files.InputError) as refused:
        export(programs, function)
    assert said in str(refused.value) and "\x1b" not in str(refused.value)


@pytest.mark.parametrize(
    ("more", "inputs", "said"),
    [
        ((), "{}", "no inputs of the program are described"),
        ((), '{"x": 3}', "`x` has no shape"),
        ((), '{"x": {"shape": [4, 8], "dtype": "float12"}}', "a dtype that JAX does not support"),
        ((), '{"x": {"shape": [4, 8], "spec": ["dp"]}}', "`dp` is not an axis of the mesh"),
        ((), '{"x": {"shape": [4, 8], "spec": [null, null, null]}}', "is not a list with at most one entry per dim"),
        (("--out-specs", "{}"), INPUTS, "--out-specs is not a list"),
        (("--out-specs", "[null, null]"), INPUTS, "2 specs for 1 results"),
        (("--mesh", "dp=2"), INPUTS, "the plan has errors"),
    ],
)
def test_wrong_flags_are_rejected(programs, more, inputs, said):
    with pytest.raises(files.InputError, match=said):
        export(programs, "forward", *more, inputs=inputs)
