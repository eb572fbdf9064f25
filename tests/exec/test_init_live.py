"""`tpplan-exec init`: the values match those of the installed JAX and ml_dtypes."""

import math
import os
import random

import pytest
from executor import succeeds
from init_cases import MASK, compile_plan, hash_of, initialise, model_of, read_tensors


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
)
def test_float8_constants_round_as_in_ml_dtypes(tmp_path, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    source = random.Random(dtype)
    values = [0.5, 1.0, 2.5, 448.0, 460.0, 1e-9, 3e-3] + [
        source.uniform(0, 4) * 2.0 ** source.randint(-12, 8) for _ in range(25)
    ]
    values = [v for v in values if math.isfinite(float(getattr(ml_dtypes, dtype)(v)))]
    values += [] if dtype == "float8_e8m0fnu" else [0.0, *(-v for v in values)]
    names = [f"v{i:02}" for i in range(len(values))]
    manifest = compile_plan(
        tmp_path,
        model_of({name: ((3,), dtype) for name in names}),
        init={f"{name}.weight": {"constant": v} for name, v in zip(names, values)},
    )
    out = tmp_path / "whole"
    succeeds("init", manifest, "--seed", 0, "--consolidated", out)
    tensors = read_tensors(out)
    for name, value in zip(names, values):
        assert tensors[f"{name}.weight"][2] == getattr(ml_dtypes, dtype)(value).tobytes() * 3, value


@pytest.fixture(scope="module")
def jax():
    # If a processor computes in half precision, XLA multiplies and adds float16 in one rounding instead of two.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX2"
    jax = pytest.importorskip("jax", reason="needs jax")
    jax.config.update("jax_threefry_partitionable", True)
    jax.config.update("jax_enable_x64", True)
    return jax


def jax_key(jax, seed, path):
    """The three lines of the README."""
    h = hash_of(path)
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), h >> 32), h & MASK)


SHAPES = [(5,), (33, 65), (2, 3, 1000), (1, 1), (1023,), (1025,)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("low, high", [(0, 1), (-0.1, 0.1), (-0.3, 1.7), (2, 2.5)])
def test_uniform_values_match_jax_bit_for_bit(tmp_path, jax, dtype, low, high):
    import numpy

    draw = random.Random(f"{dtype} {low}")
    tensors = {f"t{i}": (shape, dtype) for i, shape in enumerate(SHAPES)}
    seed = draw.randrange(1 << 63)
    ours = initialise(
        compile_plan(
            tmp_path,
            model_of(tensors),
            {"x": 3},
            {"*": [["x"], "..."]},
            {"*": {"uniform": {"low": low, "high": high}}},
            uneven="torch",
        ),
        seed,
    )[0]
    for name, (shape, _) in tensors.items():
        theirs = jax.random.uniform(jax_key(jax, seed, f"{name}.weight"), shape, dtype, low, high)
        assert numpy.asarray(theirs).tobytes() == ours[f"{name}.weight"][2], (name, shape)


def ordered(array, numpy):
    """Maps floats to integers in the same order; neighbours are one apart."""
    kind = {4: numpy.int32, 8: numpy.int64}[array.dtype.itemsize]
    bits = array.view(kind).astype(numpy.int64)
    return numpy.where(bits < 0, numpy.iinfo(kind).min - bits, bits)


@pytest.mark.parametrize("dtype, bound", [("float32", 4), ("float64", 40)])
def test_normal_values_match_jax_within_some_ulps(tmp_path, jax, dtype, bound):
    import numpy

    ours = initialise(
        compile_plan(tmp_path, model_of({"a": ((1000, 1000), dtype)}), init={"*": {"normal": {"mean": 0, "std": 1}}}),
        11,
    )[0]["a.weight"][2]
    theirs = numpy.asarray(jax.random.normal(jax_key(jax, 11, "a.weight"), (1000, 1000), dtype)).ravel()
    mine = numpy.frombuffer(ours, dtype)
    apart = numpy.abs(ordered(mine, numpy) - ordered(theirs, numpy))
    assert apart.max() <= bound, f"{apart.max()} units, {(apart > 0).mean():.3f} differ"
    assert abs(mine.mean()) < 5e-3 and abs(mine.std() - 1) < 5e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_normal_values_are_rounded_from_float32(tmp_path, dtype):
    init = {"*": {"normal": {"mean": 0.25, "std": 0.5}}}
    wide = initialise(compile_plan(tmp_path / "w", model_of({"a": ((300, 40), "float32")}), init=init), 2)[0][
        "a.weight"
    ][2]
    small = initialise(compile_plan(tmp_path / "s", model_of({"a": ((300, 40), dtype)}), init=init), 2)[0]["a.weight"][
        2
    ]
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    numpy = pytest.importorskip("numpy")
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else numpy.float16
    assert numpy.frombuffer(wide, numpy.float32).astype(kind).tobytes() == small
