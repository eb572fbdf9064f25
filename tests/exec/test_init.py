"""`tpplan-exec init`: known answers, the same values on every mesh, rejections. test_init_live.py tests the values against JAX."""

import hashlib
import json
import math
import struct

import pytest
from conftest import signed
from executor import execute, succeeds
from init_cases import MASK, NORMAL, compile_plan, initialise, key_of, model_of, read_tensors, threefry


def test_threefry_known_answers():
    assert threefry((0, 0), 0, 0) == (0x6B200159, 0x99BA4EFE)
    assert threefry((MASK, MASK), MASK, MASK) == (0x1CB996FC, 0xBB002BE7)
    assert threefry((0x13198A2E, 0x03707344), 0x243F6A88, 0x85A308D3) == (0xC4923A9C, 0x483DF7A0)


@pytest.mark.parametrize("seed", [0, 42, (1 << 64) - 1])
def test_values_depend_on_seed_path_and_index(tmp_path, seed):
    manifest = compile_plan(
        tmp_path, model_of({"a.b": ((3, 700), "float32")}), init={"*": {"uniform": {"low": 0, "high": 1}}}
    )
    dtype, shape, data = initialise(manifest, seed)[0]["a.b.weight"]
    key = key_of(seed, "a.b.weight")
    expected = []
    for i in range(2100):
        x, y = threefry(key, 0, i)
        expected.append(((x ^ y) >> 9) / (1 << 23))
    assert (dtype, shape, list(struct.unpack("<2100f", data))) == ("F32", [3, 700], expected)


def test_slash_path_has_the_values_of_the_dotted_path(tmp_path):
    init = {"*": {"uniform": {"low": 0, "high": 1}}}
    manifest = compile_plan(
        tmp_path,
        model_of({"a/b": ((9,), "float32")}, framework="keras", kind="Dense"),
        dialect="keras",
        rules={"a/b/kernel": ["..."]},
        init=init,
    )
    values = struct.unpack("<9f", initialise(manifest, 5)[0]["a/b/kernel"][2])
    key = key_of(5, "a.b.kernel")
    assert list(values) == [((x ^ y) >> 9) / (1 << 23) for x, y in (threefry(key, 0, i) for i in range(9))]


# ---- every mesh ----


def factorisations(n):
    """All ordered factorisations of n into two sizes."""
    return [(a, n // a) for a in range(1, n + 1) if n % a == 0]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    tensors = initialise(compile_plan(folder, MESH_MODEL, init=MESH_INIT), 3)[0]
    return {name: hashlib.sha256(data).hexdigest() for name, (_, _, data) in tensors.items()}


MESH_MODEL = model_of(
    {
        "even": ((128, 192), "float32"),
        "uneven": ((67, 45), "bfloat16"),
        "thin": ((5, 3), "float64"),
        "line": ((130,), "float16"),
        "fused": ((96, 40), "float32", {"segments": {"out": [48, 24, 24]}}),
        "cube": ((6, 70, 9), "float32"),
    }
)
MESH_INIT = {
    "even.*": NORMAL,
    "uneven.*": NORMAL,
    "thin.*": NORMAL,
    "line.*": {"uniform": {"low": -1, "high": 1}},
    "*": {"normal": {"mean": 1, "std": 2}},
}
MESH_RULES = {
    "even.weight": ["a", "b"],
    "uneven.weight": [["b", "a"], None],
    "thin.weight": ["b", "a"],
    "line.weight": [["a", "b"]],
    "fused.weight": [["a", "b"], None],
    "cube.weight": [None, "b", "a"],
}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
def test_every_mesh_initialises_the_same_tensors(tmp_path, ranks, reference):
    for a, b in factorisations(ranks) if ranks < 24 else [(1, ranks), (ranks // 4, 4), (8, ranks // 8)]:
        manifest = compile_plan(
            tmp_path / f"{a}x{b}", MESH_MODEL, {"a": a, "b": b}, MESH_RULES, MESH_INIT, uneven="torch"
        )
        tensors, summary = initialise(manifest, 3)
        assert {name: hashlib.sha256(data).hexdigest() for name, (_, _, data) in tensors.items()} == reference, (a, b)
        assert len(summary["bytes_per_rank"]) == ranks


def test_thread_count_does_not_change_values(tmp_path):
    manifest = compile_plan(
        tmp_path, model_of({"a": ((1100, 1000), "float32"), "b": ((1 << 10, 1 << 10), "bfloat16")}), init={"*": NORMAL}
    )
    assert (
        len(
            {
                succeeds("init", manifest, "--seed", 1, "--threads", n, "--json").stdout.split("sha256_per_rank")[1]
                for n in (1, 2, 3, 7)
            }
        )
        == 1
    )


def test_seed_and_name_change_all_values(tmp_path):
    manifest = compile_plan(
        tmp_path, model_of({"a": ((64, 64), "float32"), "b": ((64, 64), "float32")}), init={"*": NORMAL}
    )
    one, two = initialise(manifest, 1)[0], initialise(manifest, 2)[0]
    data = {t[name][2] for t in (one, two) for name in ("a.weight", "b.weight")}
    assert len(data) == 4


def test_tied_parameters_get_the_values_of_the_first(tmp_path):
    model = model_of(
        {"embed": ((64, 8), "float32"), "head": ((64, 8), "float32")}, tied=[["head.weight", "embed.weight"]]
    )
    tied = initialise(compile_plan(tmp_path / "tied", model, {"tp": 2}, {"*": ["tp", None]}))[0]
    alone = initialise(compile_plan(tmp_path / "alone", model_of({"embed": ((64, 8), "float32")})))[0]
    assert tied["embed.weight"] == tied["head.weight"] == alone["embed.weight"]


# ---- defaults, constants, rejections ----


def test_default_init_depends_on_the_module_kind(tmp_path):
    model = model_of({"l": ((4, 4), "float32")})
    model["modules"] += [
        {
            "path": "n",
            "type": "LayerNorm",
            "parameters": {"weight": {"shape": [4], "dtype": "float32"}, "bias": {"shape": [4], "dtype": "float32"}},
        }
    ]
    model["modules"][1]["parameters"]["bias"] = {"shape": [4], "dtype": "float32"}
    manifest = compile_plan(tmp_path, model)
    document = json.loads(manifest.read_text())
    names = document["init"]["distributions"]
    assert {p["path"]: names[p["init"]] for p in document["parameters"]} == {
        "l.weight": NORMAL,
        "l.bias": "zeros",
        "n.weight": "ones",
        "n.bias": "zeros",
    }
    tensors = initialise(manifest)[0]
    assert tensors["n.weight"][2] == struct.pack("<4f", 1, 1, 1, 1) and tensors["l.bias"][2] == tensors["n.bias"][
        2
    ] == bytes(16)


CONSTANTS = {
    "float32": (-1.5, struct.pack("<f", -1.5)),
    "float64": (0.1, struct.pack("<d", 0.1)),
    "float16": (0.5, b"\x00\x38"),
    "bfloat16": (-2, b"\x00\xc0"),
    "int32": (-7, struct.pack("<i", -7)),
    "int8": (127, b"\x7f"),
    "bool": (1, b"\x01"),
    "float8_e4m3fn": (1, b"\x38"),
}


@pytest.mark.parametrize("dtype", CONSTANTS)
def test_constants_of_every_dtype(tmp_path, dtype):
    value, element = CONSTANTS[dtype]
    tensors = initialise(compile_plan(tmp_path, model_of({"a": ((3, 5), dtype)}), init={"*": {"constant": value}}))[0]
    assert tensors["a.weight"][2] == element * 15


@pytest.mark.parametrize(
    "dtype, init",
    [
        ("float8_e4m3fn", {"constant": 500}),
        ("float8_e8m0fnu", "zeros"),
        ("float8_e8m0fnu", {"constant": -1}),
        ("float4_e2m1fn", "ones"),
        ("int32", NORMAL),
        ("bool", {"uniform": {"low": 0, "high": 1}}),
        ("float8_e4m3fn", NORMAL),
        ("int8", {"constant": 128}),
        ("int32", {"constant": 0.5}),
        ("float32", {"constant": 1e39}),
        ("float16", {"constant": 65520}),
        ("float32", {"normal": {"mean": 0, "std": 1e300}}),
        ("bfloat16", {"uniform": {"low": -3e38, "high": 3e38}}),
    ],
)
def test_constant_outside_the_dtype_is_rejected_by_name(tmp_path, dtype, init):
    result = execute(
        "init",
        compile_plan(tmp_path, model_of({"a": ((3, 8), dtype)}), init={"*": init}),
        "--seed",
        0,
        "--consolidated",
        tmp_path / "out",
    )
    assert result.returncode == 1 and "`a.weight`" in result.stderr and dtype in result.stderr
    assert not (tmp_path / "out").exists()


def test_all_parameters_without_init_are_named(tmp_path):
    manifest = compile_plan(tmp_path, model_of({"a": ((3, 5), "float32"), "b": ((3, 5), "float32")}, kind="Odd"))
    assert [p["init"] for p in json.loads(manifest.read_text())["parameters"]] == [None, None]
    result = execute("init", manifest, "--seed", 0)
    assert (
        result.returncode == 1
        and "a.weight" in result.stderr
        and "b.weight" in result.stderr
        and "init" in result.stderr
    )


def test_buffers_are_skipped_with_a_warning_unless_named(tmp_path):
    model = model_of({"a": ((3, 5), "float32")})
    model["modules"][1]["buffers"] = {
        "mean": {"shape": [5], "dtype": "float32"},
        "count": {"shape": [], "dtype": "int64"},
        "inv_freq": {"shape": [2], "dtype": "float32"},
    }
    manifest = compile_plan(tmp_path, model, init={"a.count": "zeros"})
    result = succeeds("init", manifest, "--seed", 0, "--consolidated", tmp_path / "out")
    assert "match it: a.mean\n" in result.stderr  # no checkpoint has inv_freq
    assert set(read_tensors(tmp_path / "out")) == {"a.weight", "a.count"}


def test_manifest_without_distributions_must_be_recompiled(tmp_path):
    manifest = compile_plan(tmp_path, model_of({"a": ((3, 5), "float32")}))
    document = json.loads(manifest.read_text())
    del document["init"]["distributions"], document["parameters"][0]["init"]
    manifest.write_text(json.dumps(signed(document)))
    result = execute("init", manifest, "--seed", 0)
    assert result.returncode == 2 and "write a manifest with this version" in " ".join(result.stderr.split())


def test_saved_shards_match_the_init_values(tmp_path):
    manifest = compile_plan(
        tmp_path, model_of({"a": ((8, 6), "float32"), "b": ((7, 3), "bfloat16")}), {"tp": 4}, {"a": ["tp", None]}
    )
    succeeds("init", manifest, "--seed", 9, "-o", tmp_path / "shards", "--consolidated", tmp_path / "whole")
    succeeds("verify", manifest, "--weights", tmp_path / "whole", "--from", tmp_path / "shards")


def test_normal_values_pass_a_kolmogorov_smirnov_test(tmp_path):
    data = initialise(
        compile_plan(tmp_path, model_of({"a": ((400, 500), "float32")}), init={"*": {"normal": {"mean": 3, "std": 2}}}),
        1,
    )[0]["a.weight"][2]
    values = sorted((v - 3) / 2 for v in struct.unpack("<200000f", data))
    distance = max(abs((i + 0.5) / len(values) - 0.5 * math.erfc(-v / math.sqrt(2))) for i, v in enumerate(values))
    assert distance < 1.95 / math.sqrt(len(values))  # Kolmogorov and Smirnov: one in a thousand
