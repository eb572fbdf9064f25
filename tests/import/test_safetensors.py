"""`tpplan import --from safetensors`: good and bad headers, made here byte by byte, and indexes of shards. A header that the Python
package safetensors rejects is rejected; the package is tested if it is installed."""

import importlib.util
import json
import os
import struct
import sys
import subprocess

import pytest
from conftest import ROOT, codes, run

HAS_PACKAGE = importlib.util.find_spec("safetensors") is not None
MEASURE = ROOT / "tests" / "bad_input" / "measure.py"


def file_of(header, data=b"", length=None):
    """A file with this header (text, bytes or a dict), valid or not."""
    text = (
        header
        if isinstance(header, bytes)
        else header.encode()
        if isinstance(header, str)
        else json.dumps(header).encode()
    )
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype="F32", shape=(1,), offsets=(0, 4), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)} | more


def raw(shape="[1]", offsets="[0,4]", dtype='"F32"', name="a", tail=""):
    return f'{{"{name}":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}{tail}}}}}'


def one(*arguments, data=4, **more):
    return file_of({"a": tensor(*arguments, **more)}, bytes(data))


# name: (file, whether the package accepts it, our code for a rejection or a warning)
FILES = {
    "one tensor": (one(), True, None),
    "scalar": (one("F32", ()), True, None),
    "empty dim": (one("F32", (0,), (0, 0), data=0), True, None),
    "two tensors": (file_of({"a": tensor(), "b": tensor("F64", (2,), (4, 20))}, bytes(20)), True, None),
    "any order": (file_of({"b": tensor("F64", (2,), (4, 20)), "a": tensor()}, bytes(20)), True, None),
    "zero bytes between": (
        file_of({"a": tensor(), "z": tensor("F32", (0,), (4, 4)), "b": tensor("F32", (1,), (4, 8))}, bytes(8)),
        True,
        None,
    ),
    "misaligned": (file_of({"a": tensor("U8", (1,), (0, 1)), "b": tensor("F32", (1,), (1, 5))}, bytes(5)), True, None),
    "metadata": (file_of({"__metadata__": {"format": "pt"}, "a": tensor()}, bytes(4)), True, None),
    "metadata null": (file_of({"__metadata__": None, "a": tensor()}, bytes(4)), True, None),
    "padded with spaces": (file_of(raw() + "   ", bytes(4)), True, None),
    "padded with newlines": (file_of(raw() + "\n\n", bytes(4)), True, None),
    "extra field": (one(note="x"), True, "TP6004"),
    "F4": (one("F4", (4,), (0, 2), data=2), True, None),
    "C64": (one("C64", (1,), (0, 8), data=8), True, None),
    "FNUZ": (one("F8_E4M3FNUZ", (4,), (0, 4)), True, None),
    "escaped name": (file_of(raw(name="\\u0061.w"), bytes(4)), True, None),
    "control characters in a name": (file_of(raw(name="a\\u001b[2J\\u202e"), bytes(4)), True, None),
    "script in a name": (file_of(raw(name="<script>"), bytes(4)), True, None),
    # the package accepts these, a model reader does not
    "no tensors": (file_of("{}"), True, "TP6008"),
    "empty name": (file_of(raw(name=""), bytes(4)), True, "TP6008"),
    "name with an empty part": (file_of(raw(name="a..b"), bytes(4)), True, "TP6008"),
    "F6": (one("F6_E2M3", (4,), (0, 3), data=3), True, None),
    "sizes beyond 2^63": (one("F32", (0, 2**63), (0, 0), data=0), True, "TP6008"),
    "a name of 5000 bytes": (file_of(raw(name="a" * 5000), bytes(4)), True, "TP6008"),
    "65 dims": (one("F32", [1] * 65), True, "TP6008"),
    # stricter than the package, as the format's text requires
    "leading space": (file_of(" " + raw(), bytes(4)), True, "TP6001"),
    "name twice": (
        file_of('{"a":' + json.dumps(tensor()) + ',"a":' + json.dumps(tensor()) + "}", bytes(4)),
        True,
        "TP1006",
    ),
    "metadata key twice": (
        file_of('{"__metadata__":{"k":"1","k":"2"},"a":' + json.dumps(tensor()) + "}", bytes(4)),
        True,
        "TP1006",
    ),
    "entry as an array": (file_of('{"a":["F32",[1],[0,4]]}', bytes(4)), True, "TP6002"),
    # both reject these
    "empty file": (b"", False, "TP6001"),
    "seven bytes": (bytes(7), False, "TP6001"),
    "length 0": (bytes(8), False, "TP6001"),
    "length beyond the file": (file_of("{}", length=3), False, "TP6001"),
    "length of 100 MB and one": (file_of("{}", length=100_000_001), False, "TP6001"),
    "length 2^64 - 1": (file_of("{}", length=2**64 - 1), False, "TP6001"),
    "Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", False, "TP6001"),
    "HTML page": (b"<!DOCTYPE html><html></html>", False, "TP6001"),
    "zip": (b"PK\x03\x04" + bytes(40), False, "TP6001"),
    "NUL padding": (file_of(raw() + "\0\0", bytes(4)), False, "TP1003"),
    "byte order mark": (file_of("\ufeff" + raw(), bytes(4)), False, "TP6001"),
    "bad UTF-8": (file_of(b'{"\xff":{}}'), False, "TP1003"),
    "lone surrogate": (file_of(raw(name="\\ud800"), bytes(4)), False, "TP1003"),
    "an array": (file_of("[]"), False, "TP6001"),
    "null": (file_of("null"), False, "TP6001"),
    "two objects": (file_of("{}{}"), False, "TP1003"),
    "cut JSON": (file_of('{"a":'), False, "TP1003"),
    "trailing comma": (file_of(raw()[:-1] + ",}", bytes(4)), False, "TP1003"),
    "entry a number": (file_of('{"a":1}'), False, "TP6002"),
    "no dtype": (file_of('{"a":{"shape":[1],"data_offsets":[0,4]}}', bytes(4)), False, "TP6002"),
    "no shape": (file_of('{"a":{"dtype":"F32","data_offsets":[0,4]}}', bytes(4)), False, "TP6002"),
    "no offsets": (file_of('{"a":{"dtype":"F32","shape":[1]}}', bytes(4)), False, "TP6002"),
    "key in an entry twice": (file_of(raw(tail=',"shape":[1]'), bytes(4)), False, "TP1006"),
    "unknown dtype": (one("F31"), False, "TP6002"),
    "lower case dtype": (one("f32"), False, "TP6002"),
    "dtype a number": (file_of(raw(dtype="3"), bytes(4)), False, "TP6002"),
    "shape a number": (file_of(raw(shape="1"), bytes(4)), False, "TP6002"),
    "negative size": (file_of(raw(shape="[-1]"), bytes(4)), False, "TP6002"),
    "minus zero": (file_of(raw(shape="[-0]", offsets="[0,0]")), False, "TP6002"),
    "float size": (file_of(raw(shape="[1.0]"), bytes(4)), False, "TP6002"),
    "exponent size": (file_of(raw(shape="[1e0]"), bytes(4)), False, "TP6002"),
    "string size": (file_of(raw(shape='["1"]'), bytes(4)), False, "TP6002"),
    "size 2^64": (file_of(raw(shape=f"[{2**64}]"), bytes(4)), False, "TP6002"),
    "three offsets": (file_of(raw(offsets="[0,4,4]"), bytes(4)), False, "TP6002"),
    "one offset": (file_of(raw(offsets="[0]"), bytes(4)), False, "TP6002"),
    "offsets no array": (file_of(raw(offsets="4"), bytes(4)), False, "TP6002"),
    "float offset": (file_of(raw(offsets="[0,4.0]"), bytes(4)), False, "TP6002"),
    "nested offsets": (file_of(raw(offsets="[[0],4]"), bytes(4)), False, "TP6002"),
    "metadata a number": (file_of({"__metadata__": {"k": 1}, "a": tensor()}, bytes(4)), False, "TP6002"),
    "metadata an array": (file_of({"__metadata__": [], "a": tensor()}, bytes(4)), False, "TP6002"),
    "begin behind end": (file_of(raw(offsets="[4,0]"), bytes(4)), False, "TP6003"),
    "product overflows": (one("F32", (2**32, 2**32)), False, "TP6003"),
    "product overflows before a 0": (one("F32", (2**63, 2**63, 0), (0, 0), data=0), False, "TP6003"),
    "bits overflow": (one("F64", (2**60,), (0, 0), data=0), False, "TP6003"),
    "F4 of three": (one("F4", (3,), (0, 2), data=2), False, "TP6003"),
    "other size": (one("F32", (2,)), False, "TP6003"),
    "hole": (file_of({"a": tensor(), "b": tensor("F32", (1,), (8, 12))}, bytes(12)), False, "TP6003"),
    "hole at the start": (one("F32", (1,), (4, 8), data=8), False, "TP6003"),
    "overlap": (file_of({"a": tensor(), "b": tensor("F32", (1,), (2, 6))}, bytes(6)), False, "TP6003"),
    "same bytes twice": (file_of({"a": tensor(), "b": tensor()}, bytes(4)), False, "TP6003"),
    "trailing byte": (one(data=5), False, "TP6003"),
    "cut data": (one(data=3), False, "TP6003"),
}


@pytest.mark.parametrize("name", FILES)
def test_header_is_read_or_rejected(name, tmp_path):
    content, _, code = FILES[name]
    (tmp_path / "w.safetensors").write_bytes(content)
    result = run("import", "--from", "safetensors", "w.safetensors", "-o", "model.json", cwd=tmp_path)
    text = result.stderr.decode()
    refused = code is not None and code != "TP6004"
    assert result.returncode == (2 if refused else 0), text
    assert set(codes(result)) == ({code} if code else set()), text
    assert (tmp_path / "model.json").exists() == (not refused)
    assert "\x1b" not in text and "\u202e" not in text
    if refused:
        assert text.startswith("w.safetensors:") and all(int(n) >= 1 for n in text.split(":")[1:3]), text
    else:
        assert run("check", "model.json", "-", stdin=PLAN, cwd=tmp_path).returncode in (0, 1)


PLAN = b"format: tpplan.plan/1\nmesh: {tp: 2}\ndata: {axes: [tp]}\ntp_plan: {'*': replicated}\n"


@pytest.mark.skipif(not HAS_PACKAGE, reason="the Python package safetensors is not installed")
@pytest.mark.parametrize("name", FILES)
def test_package_matches_the_table(name):
    from safetensors import SafetensorError, deserialize

    content, accepted, _ = FILES[name]
    try:
        deserialize(content)
        found = True
    except (SafetensorError, ValueError, OverflowError):
        found = False
    assert found == accepted


def checkpoint(**shapes):
    """A file of these tensors, F16."""
    header, at = {}, 0
    for name, shape in shapes.items():
        count = 2
        for size in shape:
            count *= size
        header[name] = tensor("F16", shape, (at, at + count))
        at += count
    return file_of(header, bytes(at))


LAYERS = {
    f"model.layers.{i}.{name}.weight": shape
    for i in (0, 10, 2)
    for name, shape in (
        ("self_attn.q_proj", (8, 8)),
        ("self_attn.qkv_proj", (16, 8)),
        ("mlp.gate_up_proj", (12, 8)),
        ("input_layernorm", (8,)),
    )
}
WEIGHTS = {
    "model.embed_tokens.weight": (16, 8),
    "model.norm.weight": (8,),
    "lm_head.weight": (16, 8),
    "lm_head.bias": (16,),
    "h.0.attn.c_attn.weight": (8, 24),
    "bn.running_mean": (8,),
    "scale": (),
} | LAYERS


def import_weights(folder, *flags, content=None):
    (folder / "w.safetensors").write_bytes(content or checkpoint(**WEIGHTS))
    result = run("import", "--from", "safetensors", "w.safetensors", *flags, cwd=folder)
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout), result.stderr.decode()


def test_names_become_modules_and_kinds(tmp_path):
    model, said = import_weights(tmp_path)
    modules = {m["path"]: m for m in model["modules"]}
    kinds = {path: m.get("kind") for path, m in modules.items()}
    assert {path for path, m in modules.items() if m["type"] != "Unknown"} == {"h.0.attn.c_attn"}
    assert kinds["model.embed_tokens"] == "embedding" and kinds["model.norm"] == "norm" and kinds["lm_head"] == "linear"
    assert kinds["h.0.attn.c_attn"] == "linear" and kinds["model.layers.2.input_layernorm"] == "norm"
    assert modules["lm_head"]["parameters"] == {
        "weight": {"shape": [16, 8], "dtype": "float16"},
        "bias": {"shape": [16], "dtype": "float16"},
    }
    assert list(modules["lm_head"]["parameters"]) == ["weight", "bias"]
    assert modules[""]["parameters"] == {"scale": {"shape": [], "dtype": "float16"}}
    assert modules["bn"]["buffers"] == {"running_mean": {"shape": [8], "dtype": "float16"}}
    assert modules["model.layers.0.mlp.gate_up_proj"]["parameters"]["weight"]["segments"] == {"out": [6, 6]}
    numbers = [int(p.split(".")[2]) for p in modules if p.startswith("model.layers.")]
    assert numbers == sorted(numbers), "layers stand in order of their numbers"
    assert "kinds by names: 11 linear, 1 embedding, 4 norm, 1 other" in said


# GPT-2's Conv1D stores (in, out), Qwen-1's Linear of the same names (out, in).
CONV1D = {"h.0.attn.c_attn": (8, 24), "h.0.attn.c_proj": (8, 8), "h.0.mlp.c_fc": (8, 32), "h.0.mlp.c_proj": (32, 8)}
LINEAR = {name: shape[::-1] for name, shape in CONV1D.items()}


@pytest.mark.parametrize(
    ("matrices", "hidden", "module_type", "kind"),
    [
        (CONV1D, {"wte": (100, 8)}, "Conv1D", "linear"),
        (LINEAR, {"wte": (100, 8)}, "Unknown", "linear"),
        (CONV1D, {"h.0.ln_1": (8,)}, "Conv1D", "linear"),
        (CONV1D, {}, "Unknown", "other"),
        (CONV1D | {"h.0.mlp.c_fc": (32, 8)}, {"wte": (100, 8)}, "Unknown", "other"),
    ],
    ids=["conv1d", "linear", "hidden-size-of-norms", "no-hidden-size", "contradiction"],
)
def test_sizes_orient_matrices(tmp_path, matrices, hidden, module_type, kind):
    weights = {f"{name}.weight": shape for name, shape in (matrices | hidden).items()}
    model, said = import_weights(tmp_path, content=checkpoint(**weights))
    found = {(m["type"], m.get("kind")) for m in model["modules"] if m["path"] in matrices}
    assert found == {(module_type, kind)}
    assert ("TP6009" in said) == (kind == "other")


@pytest.mark.parametrize(
    ("up", "down", "dims"),
    [((4, 8, 32), (4, 16, 8), ["expert", "in", "out"]), ((4, 32, 8), (4, 8, 16), None)],
    ids=["in, out", "out, in"],
)
def test_sizes_tell_how_stacked_experts_are_stored(tmp_path, up, down, dims):
    weights = checkpoint(**{"mlp.experts.gate_up_proj": up, "mlp.experts.down_proj": down})
    (experts,) = import_weights(tmp_path, content=weights)[0]["modules"]
    assert experts["kind"] == "experts"
    assert [p.get("dims") for p in experts["parameters"].values()] == [dims, dims]


def test_config_adds_the_heads(tmp_path):
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2}')
    model, _ = import_weights(tmp_path, "--model-config", "config.json")
    modules = {m["path"]: m for m in model["modules"]}
    heads = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 2}
    assert {path for path, m in modules.items() if m.get("attributes") == heads} == {
        f"model.layers.{i}.self_attn" for i in (0, 2, 10)
    } | {"h.0.attn"}
    assert modules["model.layers.0.self_attn.qkv_proj"]["parameters"]["weight"]["segments"] == {"out": [8, 4, 4]}


def test_config_without_heads_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "w.safetensors").write_bytes(one())
    result = run("import", "--from", "safetensors", "w.safetensors", "--model-config", "config.json", cwd=tmp_path)
    assert (result.returncode, codes(result)) == (2, ["TP6010"])
    assert (
        run("import", "--from", "config", "config.json", "--model-config", "config.json", cwd=tmp_path).returncode == 2
    )


def test_imported_model_compiles_with_a_plan(tmp_path):
    shapes = {"model.embed_tokens.weight": (32, 16), "model.norm.weight": (16,), "lm_head.weight": (32, 16)}
    for i in range(2):
        at = f"model.layers.{i}"
        shapes |= {f"{at}.self_attn.{n}_proj.weight": (16, 16) for n in "qkvo"} | {
            f"{at}.mlp.{n}_proj.weight": (32, 16) for n in ("gate", "up")
        }
        shapes |= {
            f"{at}.mlp.down_proj.weight": (16, 32),
            f"{at}.input_layernorm.weight": (16,),
            f"{at}.post_attention_layernorm.weight": (16,),
        }
    (tmp_path / "w.safetensors").write_bytes(checkpoint(**shapes))
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4, "hidden_size": 16}')
    assert (
        run(
            "import",
            "--from",
            "safetensors",
            "w.safetensors",
            "--model-config",
            "config.json",
            "-o",
            "model.json",
            cwd=tmp_path,
        ).returncode
        == 0
    )
    result = run("compile", "model.json", ROOT / "plans" / "llama.yaml", "--mesh", "tp=4", cwd=tmp_path)
    assert result.returncode == 0, result.stderr.decode()
    assert len(json.loads(result.stdout)["parameters"]) == len(shapes)


# ---- indexes ----

TWO = {
    "m-1.safetensors": checkpoint(**{"a.weight": (2, 2)}),
    "m-2.safetensors": checkpoint(**{"b.weight": (2, 2), "c.weight": (4,)}),
}
MAP = {"a.weight": "m-1.safetensors", "b.weight": "m-2.safetensors", "c.weight": "m-2.safetensors"}


def import_index(folder, weight_map, files=TWO, name="model.safetensors.index.json"):
    folder.mkdir(exist_ok=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    index = (
        weight_map
        if isinstance(weight_map, bytes)
        else json.dumps({"metadata": {"total_size": 24}, "weight_map": weight_map}).encode()
    )
    (folder / name).write_bytes(index)
    return run("import", "--from", "safetensors", name, cwd=folder)


def test_shards_are_joined(tmp_path):
    result = import_index(tmp_path, MAP)
    assert result.returncode == 0, result.stderr.decode()
    assert [m["path"] for m in json.loads(result.stdout)["modules"]] == ["a", "b", "c"]


BAD_INDEXES = {
    "no map": (b'{"metadata": {}}', "TP6005"),
    "map an array": (b'{"weight_map": []}', "TP6005"),
    "map empty": ({}, "TP6005"),
    "file a number": ({"a.weight": 1}, "TP6005"),
    "no JSON": (b"version https://git-lfs", "TP1003"),
    "name twice": (b'{"weight_map": {"a": "x", "a": "y"}}', "TP1006"),
    **{
        f"leaves by {name!r}": ({"a.weight": name}, "TP6005")
        for name in (
            "/etc/passwd",
            "../m.safetensors",
            "..",
            ".",
            "",
            "sub/../../m",
            "sub/m.safetensors",
            "..\\m",
            "m\0.safetensors",
        )
    },
    "missing shards": (MAP | {"d.weight": "m-3.safetensors", "e.weight": "m-4.safetensors"}, "TP6006"),
    "missing tensor": (MAP | {"d.weight": "m-1.safetensors"}, "TP6006"),
    "other shard": (MAP | {"c.weight": "m-1.safetensors"}, "TP6006"),
}


@pytest.mark.parametrize("name", BAD_INDEXES)
def test_bad_index_is_an_error(name, tmp_path):
    weight_map, code = BAD_INDEXES[name]
    result = import_index(tmp_path, weight_map)
    assert (result.returncode, result.stdout, set(codes(result))) == (2, b"", {code}), result.stderr.decode()
    assert result.stderr.startswith(b"model.safetensors.index.json:")


def test_missing_shards_are_one_error_that_names_the_first(tmp_path):
    missing = {f"d{i}": f"m-{i}.safetensors" for i in range(3, 40)}
    result = import_index(tmp_path, MAP | missing)
    text = result.stderr.decode()
    assert codes(result) == ["TP6006"] and "and 36 shards more with the same cause" in text
    assert "m-3.safetensors" in text and "m-4.safetensors" in text


def test_folder_of_a_model_is_read(tmp_path):
    assert import_index(tmp_path / "model", MAP).returncode == 0
    from_folder = run("import", "--from", "safetensors", "model", cwd=tmp_path)
    assert from_folder.returncode == 0
    assert [m["path"] for m in json.loads(from_folder.stdout)["modules"]] == ["a", "b", "c"]


def test_pickle_is_named(tmp_path):
    (tmp_path / ".metadata").write_bytes(b"\x80\x02}q\x00(X\x13\x00\x00\x00state_dict_metadataq\x01}q\x02u.")
    result = run("import", "--from", "safetensors", ".metadata", cwd=tmp_path)
    assert codes(result) == ["TP6001"] and b"distributed checkpoint (DCP)" in result.stderr


@pytest.mark.parametrize(
    "config",
    [
        {"n_head": 2, "n_embed": 8},  # BLOOM
        {"n_head": 2, "n_embd": 8},  # GPT-2
        {"n_heads": 2, "d_model": 8},  # MPT
        {"num_attention_heads": 2, "num_kv_heads": 1, "hidden_size": 8},  # Falcon
    ],
    ids=["bloom", "gpt2", "mpt", "falcon"],
)
def test_heads_are_read_by_the_names_of_each_family(config, tmp_path):
    weights = checkpoint(**{"model.layers.0.self_attn.q_proj.weight": (8, 8)})
    (tmp_path / "config.json").write_text(json.dumps(config))
    model, _ = import_weights(tmp_path, "--model-config", "config.json", content=weights)
    (attributes,) = [m["attributes"] for m in model["modules"] if "attributes" in m]
    assert attributes["num_heads"] == 2 and attributes.get("num_kv_heads", 2) == config.get("num_kv_heads", 2)


def test_tensor_in_two_shards_is_an_error(tmp_path):
    twice = {
        "m-1.safetensors": checkpoint(**{"a.weight": (2, 2), "c.weight": (4,)}),
        "m-2.safetensors": TWO["m-2.safetensors"],
    }
    result = import_index(tmp_path, MAP, twice)
    assert (result.returncode, set(codes(result))) == (2, {"TP6006"})


def test_tensor_missing_from_the_index_is_skipped(tmp_path):
    result = import_index(tmp_path, {k: v for k, v in MAP.items() if k != "c.weight"})
    assert (result.returncode, codes(result)) == (0, ["TP6007"])
    assert [m["path"] for m in json.loads(result.stdout)["modules"]] == ["a", "b"]


def test_bad_shard_is_named(tmp_path):
    result = import_index(tmp_path, MAP, TWO | {"m-2.safetensors": TWO["m-2.safetensors"][:-1]})
    assert (result.returncode, codes(result)) == (2, ["TP6003"])
    assert result.stderr.startswith(b"m-2.safetensors:1:1:")


def test_links_may_not_lead_out_of_the_folder(tmp_path):
    (tmp_path / "secret").write_bytes(TWO["m-1.safetensors"])
    folder = tmp_path / "model"
    folder.mkdir()
    os.symlink("../secret", folder / "m-1.safetensors")
    result = import_index(folder, MAP, {"m-2.safetensors": TWO["m-2.safetensors"]})
    assert (result.returncode, codes(result)) == (2, ["TP6005"])


def test_links_of_a_hugging_face_cache_are_followed(tmp_path):
    for part in ("blobs", "snapshots/0123"):
        (tmp_path / part).mkdir(parents=True)
    for name, content in TWO.items():
        (tmp_path / "blobs" / f"of-{name}").write_bytes(content)
        os.symlink(f"../../blobs/of-{name}", tmp_path / "snapshots/0123" / name)
    assert import_index(tmp_path / "snapshots/0123", MAP, {}).returncode == 0


def test_input_is_never_the_output(tmp_path):
    assert import_index(tmp_path, MAP).returncode == 0
    for name in ("m-1.safetensors", "model.safetensors.index.json"):
        before = (tmp_path / name).read_bytes()
        result = run("import", "--from", "safetensors", "model.safetensors.index.json", "-o", name, cwd=tmp_path)
        assert (result.returncode, codes(result)) == (2, ["TP1010"])
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("path", [".", "missing", "/dev/zero", "-"])
def test_path_that_is_no_file_is_rejected(path, tmp_path):
    result = run("import", "--from", "safetensors", path, stdin=b"", cwd=tmp_path)
    assert (result.returncode, codes(result)) == (2, ["TP1001"])


def test_index_of_too_many_shards_is_an_error(tmp_path):
    result = import_index(tmp_path, {str(i): str(i) for i in range(10_001)})
    assert (result.returncode, codes(result)) == (2, ["TP1007"])


# ---- hostile: a result within a second and 256 MiB ----

MIB = 1 << 20
HOSTILE = {
    "a name of 64 MB": lambda: file_of(b'{"' + b"a" * (64 * MIB) + b'":1}'),
    "64 MB of spaces and no data": lambda: file_of(raw().encode() + b" " * (64 * MIB)),
    "64 MB of brackets": lambda: file_of(b'{"a":' + b"[" * (64 * MIB)),
    "64 MB of zeros in a shape": lambda: file_of(
        b'{"a":{"dtype":"F32","data_offsets":[0,0],"shape":[' + b"0," * (32 * MIB) + b"0]}}"
    ),
    "64 MB of one number": lambda: file_of(b'{"a":{"shape":[' + b"9" * (64 * MIB) + b"]}}"),
    "a million tensors that are none": lambda: file_of("{" + ",".join(f'"{i}":0' for i in range(1_000_000)) + "}"),
    "a million pieces of metadata": lambda: file_of(
        '{"__metadata__":{' + ",".join(f'"{i}":""' for i in range(1_000_000)) + "}}"
    ),
    "800000 tensors that overlap": lambda: file_of(
        "{" + ",".join(f'"{i}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' for i in range(800_000)) + "}", b"\0"
    ),
    "a key twice at the end": lambda: file_of(
        "{"
        + ",".join(f'"{i % 700_000}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(700_001))
        + "}"
    ),
    "a sparse file of 1 TiB": lambda: file_of("{}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_processed_quickly(name, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(HOSTILE[name]())
    if "sparse" in name:
        os.truncate(path, 1 << 40)
    program = os.environ.get("TPPLAN", str(ROOT / "build" / "tpplan"))
    done = subprocess.run(
        [sys.executable, str(MEASURE), program, "import", "--from", "safetensors", str(path)],
        capture_output=True,
        timeout=60,
        check=True,
    )
    measured = json.loads(done.stdout)
    assert measured["status"] == 2, measured
    assert ":1:" in measured["message"] and "error[TP" in measured["message"]
    if os.environ.get("TPPLAN_SANITIZED") != "1":
        assert measured["mebibytes"] <= 256, measured
