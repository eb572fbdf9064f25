"""Python's manifest reader: the same slices as the program, and edited files are rejected."""

import copy
import json
import random
import re
import struct

import bridge
import pytest

from conftest import signed
from tpplan import files, manifest as m, safetensors_shards, slices

SPECS = [None, "a", "b", ["a", "b"], ["b", "a"]]


def random_model(chance):
    modules = []
    for i in range(6):
        shape = [chance.choice([1, 2, 3, 4, 5, 8, 12, 24]) for _ in range(chance.randint(1, 3))]
        tensor = {
            "shape": shape,
            "dtype": chance.choice([name for name, bits in m.DTYPE_BITS.items() if bits >= 8]),
            "dims": [f"d{k}" for k in range(len(shape))],
        }
        if chance.random() < 0.5:
            parts = chance.randint(1, 3)
            cuts = sorted(chance.randint(0, shape[0]) for _ in range(parts - 1))
            tensor["segments"] = {"d0": [b - a for a, b in zip([0, *cuts], [*cuts, shape[0]])]}
        modules.append({"path": f"m{i}", "type": "Container", "parameters": {"w": tensor}})
    return {"format": "tpplan.model/1", "name": "Model", "framework": "torch", "modules": modules}


def random_plan(chance, model):
    rules = {}
    for module in model["modules"]:
        used, spec = set(), []
        for _ in module["parameters"]["w"]["shape"]:
            entry = chance.choice(SPECS)
            names = {entry} if isinstance(entry, str) else set(entry or ())
            spec.append(None if names & used else entry)
            used |= names if not names & used else set()
        rules[f"{module['path']}.w"] = {"spec": spec}
    mesh = {"a": chance.choice([1, 2, 3]), "b": chance.choice([2, 4])}
    return json.dumps({"format": "tpplan.plan/1", "mesh": mesh, "axis": "a", "uneven": "torch", "tp_plan": rules})


@pytest.mark.parametrize("seed", range(12))
def test_slices_match_the_program(tmp_path, seed):
    chance = random.Random(seed)
    model = random_model(chance)
    path = bridge.compile_manifest(tmp_path, model, random_plan(chance, model))
    manifest = m.load_manifest(path)
    for rank in range(m.device_count(manifest)):
        shown = bridge.run("show", path, "--rank", rank, "--format", "json").stdout.decode().splitlines()
        expected = {line["path"]: line["intervals"] for line in map(json.loads, shown)}
        for name, tensor in manifest.parameters.items():
            assert [[list(r) for r in runs] for runs in m.local_slice(manifest, tensor, rank)] == expected[name]


def test_dtype_bits_match_the_program(tmp_path):
    modules = [{"path": name, "type": "X", "parameters": {"w": {"shape": [8], "dtype": name}}} for name in m.DTYPE_BITS]
    model = {"format": "tpplan.model/1", "name": "Model", "framework": "torch", "modules": modules}
    for module in modules:
        one = dict(model, modules=[module])
        manifest = m.load_manifest(
            bridge.compile_manifest(tmp_path, one, "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {'*': replicate}\n")
        )
        totals = json.loads(manifest.text)["totals"]
        assert (
            totals["bytes"]
            == m.DTYPE_BITS[module["path"]]
            == m.sum_totals(manifest, manifest.parameters.values())["bytes"]
        )
    schema = json.loads((bridge.ROOT / "schemas/manifest.schema.json").read_text())
    assert sorted(schema["definitions"]["dtype"]["enum"]) == sorted(m.DTYPE_BITS)


def test_safetensors_dtype_names_match_the_program():
    rows = re.findall(r'^    \{"(\w+)", \d+, \w+, "(\w*)"', (bridge.ROOT / "lib/sharding/dtype.cc").read_text(), re.M)
    assert {name: stored for name, stored in rows if stored} == m.SAFETENSORS_DTYPES
    assert [name for name, _ in rows] == list(m.DTYPE_BITS)


def is_verified(path):
    """The result of `tpplan show --verify`."""
    result = bridge.run("show", path, "--verify")
    assert result.returncode in (0, 1, 2) and (result.returncode == 0) == (b"error[TP70" not in result.stderr)
    return result.returncode == 0


LAYOUTS = ("Replicate", "Shard(0)", "Shard(1)", "Partial")


@pytest.mark.parametrize(
    "data", [None, {"axes": ["dp"], "dim": 0}, {"axes": ["dp"], "dim": 1}], ids=["no data", "dim 0", "dim 1"]
)
@pytest.mark.parametrize("mesh", ["{tp: 2, dp: 2}", "{dp: 2, tp: 2}", "{a: 2, tp: 2, dp: 3}"])
def test_every_written_boundary_is_verified(tmp_path, mesh, data):
    """All layouts to all others, with a data axis before or after theirs, and no steps in another order."""
    pairs = [(a, b) for a in LAYOUTS for b in LAYOUTS if b != "Partial" or a == b]
    modules = [
        {"path": f"m{i}", "type": "X", "parameters": {"w": {"shape": [8], "dtype": "float32"}}}
        for i in range(len(pairs))
    ]
    rules = {
        f"m{i}": {"style": "prepare_module_input", "input_layouts": a, "desired_input_layouts": b}
        for i, (a, b) in enumerate(pairs)
    }
    model = {"format": "tpplan.model/1", "name": "Model", "framework": "torch", "modules": modules}
    settings = "" if data is None else f"data: {json.dumps(data)}\n"
    plan = f"format: tpplan.plan/1\nmesh: {mesh}\n{settings}tp_plan: {json.dumps(rules)}\n"
    path = bridge.compile_manifest(tmp_path, model, plan)
    document = json.loads(path.read_text())
    assert len(m.load_manifest(document).modules) == len(pairs) and is_verified(path)
    for module in document["modules"]:
        for steps in ("forward", "backward"):
            if len(module["inputs"][0].get(steps, [])) < 2:
                continue
            turned = copy.deepcopy(document)
            value = next(v for v in turned["modules"] if v["path"] == module["path"])["inputs"][0]
            value[steps].reverse()
            if value[steps] != module["inputs"][0][steps]:
                (tmp_path / "turned.json").write_text(json.dumps(signed(turned)))
                assert not is_verified(tmp_path / "turned.json")


def small(tmp_path):
    model = {
        "format": "tpplan.model/1",
        "name": "Model",
        "framework": "torch",
        "modules": [
            {
                "path": "a",
                "type": "Linear",
                "parameters": {
                    "weight": {"shape": [8, 4], "dtype": "float32"},
                    "bias": {"shape": [8], "dtype": "float32"},
                },
            },
            {"path": "b", "type": "Linear", "parameters": {"weight": {"shape": [4, 8], "dtype": "float32"}}},
        ],
    }
    plan = "format: tpplan.plan/1\nmesh: {fsdp: 2, tp: 2}\ndata: {axes: [fsdp]}\nfsdp: {min_weight_size: 0}\n"
    plan += "tp_plan: {a: colwise, b: rowwise}\n"
    return json.loads(bridge.compile_manifest(tmp_path, model, plan).read_text())


def edits():
    def put(*path):
        *keys, last, value = path

        def edit(document):
            for key in keys:
                document = document[key]
            document[last] = value

        return edit

    first = ("parameters", 0)
    form = {
        "format": put("format", "tpplan.manifest/2"),
        "no mesh": lambda d: d.pop("mesh"),
        "empty mesh": put("mesh", []),
        "mesh name": put("mesh", 1, "name", "x"),
        "axis twice": put("mesh", 1, "name", "fsdp"),
        "path twice": put("parameters", 1, "path", "a.weight"),
        "unknown dtype": put(*first, "dtype", "floof"),
        "negative": put(*first, "shape", [-8, 4]),
        "bool": put(*first, "shape", [True, 4]),
        "spec axis": put(*first, "spec", ["zz", None]),
        "no path": lambda d: d["parameters"][0].pop("path"),
        "boundary": put("modules", 0, "inputs", 0, "from", ["Replicate"]),
        "segments": put(*first, "segments", {"7": [8]}),
        "parameter list": put("parameters", {}),
        "data axis": put("data", "axes", ["zz"]),
        "tie is no list": put("tied", {}),
    }
    content = {
        "mesh size": put("mesh", 1, "size", 4),
        "spec": put(*first, "spec", [None, "tp"]),
        "placements": put(*first, "placements", ["Replicate", "Shard(0)"]),
        "local shape": put(*first, "local_shape", [8, 4]),
        "shape": put(*first, "shape", [16, 4]),
        "dtype": put(*first, "dtype", "float64"),
        "replicas": put(*first, "replicas", 2),
        "totals": put("totals", "bytes", 1),
        "per rank": put("totals", "bytes_per_rank", [1, 2, 3, 4]),
        "grad": put(*first, "grad_reduce", 0, "kind", "all_reduce"),
        "boundary's layout": put("modules", 0, "inputs", 0, "to", ["Replicate", "Shard(0)"]),
        "tied to nothing": put("tied", [["a.weight", "nothing"]]),
        "tied to itself": put("tied", [["a.weight", "a.weight"]]),
        "tied alone": put("tied", [["a.weight"]]),
        "dropped parameter": lambda d: d["parameters"].pop(),
    }
    return {name: (edit, name in form) for name, edit in (form | content).items()}


@pytest.mark.parametrize("name", edits())
def test_edited_manifest_is_rejected(tmp_path, name):
    """Python rejects a wrong form, and any file whose digest mismatches its text; `show --verify` also rejects newly signed ones."""
    document = small(tmp_path)
    m.load_manifest(copy.deepcopy(document))
    edit, is_form = edits()[name]
    edit(document)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(document))
    with pytest.raises(m.ManifestError) as raised:
        m.load_manifest(path)
    assert raised.value.place and raised.value.remedy
    if is_form:
        with pytest.raises(m.ManifestError):
            m.load_manifest(document)
    path.write_text(json.dumps(signed(document)))
    assert not is_verified(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"a": NaN}',
        '{"mesh": 1, "mesh": 2}',
        "[" * 100000,
        b"\xff\xfe",
        '{"format": "' + "x" * 4000000 + '"}',
    ],
)
def test_invalid_manifest_error_is_short(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(m.ManifestError) as raised:
        m.load_manifest(path)
    assert len(str(raised.value)) < 1000
    with pytest.raises(m.ManifestError):
        m.load_manifest(tmp_path / "absent.json")


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a" * 200, "a" * 200),
        ("a" * 201, "a" * 200 + "..."),
        ("\x1b[31m", "\\x1b[31m"),
        ("\n" * 200, "\\n" * 100 + "..."),
        ("\ud800", "\\ud800"),
        (7, "7"),
    ],
)
def test_messages_escape_and_shorten_texts(text, shown):
    assert files.printable(text) == shown


def parameters_of(manifest):
    return {path: (tensor.shape, tensor.dtype) for path, tensor in manifest.parameters.items()}


def test_mismatch_with_the_model_names_the_parameter(tmp_path):
    manifest = m.load_manifest(small(tmp_path))
    good = parameters_of(manifest)
    m.check_parameters(manifest, good)
    for change, said in (
        ({"c.weight": ((4,), "float32")}, "`c.weight`.*not in the manifest"),
        ({"a.bias": ((9,), "float32")}, "`a.bias`.*shape"),
        ({"a.bias": ((8,), "bfloat16")}, "`a.bias`.*bfloat16"),
    ):
        with pytest.raises(m.ManifestError, match=said):
            m.check_parameters(manifest, good | change)
    with pytest.raises(m.ManifestError, match="`b.weight`.*is in the manifest but not in the model"):
        m.check_parameters(manifest, {k: v for k, v in good.items() if k != "b.weight"})
    with pytest.raises(m.ManifestError, match="shards them differently"):
        m.check_parameters(manifest, good, [["a.weight", "b.weight"]])
    for axes in ([("fsdp", 2), ("tp", 4)], [("tp", 2), ("fsdp", 2)], [("fsdp", 4)], [(None, 2), (None, 2)]):
        with pytest.raises(m.ManifestError, match="mesh"):
            m.check_mesh(manifest, axes)
    m.check_mesh(manifest, [("fsdp", 2), ("tp", 2)])


def test_totals_of_tied_names_use_the_model_ties(tmp_path):
    model = {
        "format": "tpplan.model/1",
        "name": "Model",
        "framework": "torch",
        "tied": [["head.weight", "embed.weight"]],
        "modules": [
            {"path": "embed", "type": "Embedding", "parameters": {"weight": {"shape": [8, 4], "dtype": "float32"}}},
            {"path": "head", "type": "Linear", "parameters": {"weight": {"shape": [8, 4], "dtype": "float32"}}},
        ],
    }
    path = bridge.compile_manifest(
        tmp_path, model, "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {embed: rowwise, head: colwise}\n"
    )
    manifest = m.load_manifest(path)
    m.check_parameters(manifest, parameters_of(manifest), model["tied"])
    with pytest.raises(m.ManifestError, match="counts 1 tensors, but the model has 2"):
        m.check_parameters(manifest, parameters_of(manifest))


# Loading.


@pytest.mark.parametrize("framework", ["pt", "numpy"])
@pytest.mark.parametrize("seed", range(4))
def test_rank_loads_exactly_its_shards(tmp_path, seed, framework):
    bridge.needs("safetensors", "numpy", *(["torch"] if framework == "pt" else []))
    import numpy
    from safetensors.numpy import save_file

    chance = random.Random(seed)
    model = random_model(chance)
    for module in model["modules"]:
        module["parameters"]["w"]["dtype"] = "float32"
    model["modules"].append({"path": "scalar", "type": "X", "parameters": {"w": {"shape": [], "dtype": "float32"}}})
    manifest = m.load_manifest(
        bridge.compile_manifest(tmp_path, model, random_plan(chance, dict(model, modules=model["modules"][:-1])))
    )
    whole = {
        name: numpy.arange(numpy.prod(t.shape, dtype=int), dtype="float32").reshape(t.shape)
        for name, t in manifest.parameters.items()
    }
    names = list(whole)
    (tmp_path / "sub").mkdir()
    parts = {"sub/a.safetensors": names[:3], "b.safetensors": names[3:]}
    for file, held in parts.items():
        save_file({n: whole[n] for n in held}, tmp_path / file)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {n: f for f, held in parts.items() for n in held}}))
    for rank in range(m.device_count(manifest)):
        by_index = safetensors_shards.load_safetensors(manifest, index, rank, framework=framework)
        by_files = safetensors_shards.load_safetensors(
            manifest, [tmp_path / f for f in parts], rank, framework=framework
        )
        for name, tensor in manifest.parameters.items():
            picked = [
                numpy.concatenate([numpy.arange(*run) for run in runs])
                for runs in m.local_slice(manifest, tensor, rank)
            ]
            expected = whole[name][numpy.ix_(*picked)] if picked else whole[name]
            assert list(by_index[name].shape) == m.local_shape(manifest, tensor, rank)
            if framework == "pt":
                assert by_index[name].untyped_storage().nbytes() == 4 * by_index[name].numel()
            assert numpy.array_equal(numpy.asarray(by_index[name]), expected) and numpy.array_equal(
                numpy.asarray(by_files[name]), expected
            )


def test_tied_tensor_is_found_under_any_of_its_names(tmp_path):
    bridge.needs("safetensors", "numpy")
    import numpy
    from safetensors.numpy import save_file

    weight = {"weight": {"shape": [8, 4], "dtype": "float32"}}
    model = {
        "format": "tpplan.model/1",
        "name": "Model",
        "framework": "torch",
        "tied": [["head.weight", "embed.weight"]],
        "modules": [
            {"path": "embed", "type": "Embedding", "parameters": weight},
            {"path": "head", "type": "Linear", "parameters": weight},
        ],
    }
    path = bridge.compile_manifest(
        tmp_path, model, "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {embed: rowwise, head: colwise}\n"
    )
    for name in ("head.weight", "embed.weight"):
        save_file({name: numpy.arange(32, dtype="float32").reshape(8, 4)}, tmp_path / "tied.safetensors")
        shards = safetensors_shards.load_safetensors(path, tmp_path / "tied.safetensors", 1, framework="numpy")
        assert numpy.array_equal(shards["embed.weight"], shards["head.weight"]) and shards["embed.weight"][0, 0] == 16


def test_wrong_files_are_rejected(tmp_path):
    bridge.needs("safetensors", "numpy")
    import numpy
    from safetensors.numpy import save_file

    manifest = m.load_manifest(small(tmp_path))
    whole = {name: numpy.zeros(t.shape, "float32") for name, t in manifest.parameters.items()}

    def loads(tensors, **more):
        save_file(tensors, tmp_path / "x.safetensors")
        return safetensors_shards.load_safetensors(manifest, tmp_path / "x.safetensors", 0, framework="numpy", **more)

    assert set(loads(whole)) == set(whole)
    with pytest.raises(m.ManifestError, match="`a.bias`.*none of the files"):
        loads({n: t for n, t in whole.items() if n != "a.bias"})
    with pytest.raises(m.ManifestError, match="`a.bias`.*shape"):
        loads(whole | {"a.bias": numpy.zeros(9, "float32")})
    with pytest.raises(m.ManifestError, match="`a.bias`.*F64"):
        loads(whole | {"a.bias": numpy.zeros(8)})
    assert loads(
        {n: t for n, t in whole.items() if n != "a.bias"} | {"other": whole["a.bias"]}, tied=[["other", "a.bias"]]
    )["a.bias"].shape == (4,)
    with pytest.raises(m.ManifestError, match="4 ranks"):
        safetensors_shards.load_safetensors(manifest, tmp_path / "x.safetensors", 4, framework="numpy")
    for content in (b"", b"x" * 100, struct.pack("<Q", 1 << 60) + b"{}"):
        (tmp_path / "bad.safetensors").write_bytes(content)
        with pytest.raises(m.ManifestError, match="cannot be read"):
            safetensors_shards.load_safetensors(manifest, tmp_path / "bad.safetensors", 0, framework="numpy")
    index = tmp_path / "i.json"
    for name in ("../x.safetensors", "/etc/passwd", "a/../../x", "", "..\\x", "C:x", 7, "x\0y"):
        index.write_text(json.dumps({"weight_map": {"a.bias": name}}))
        with pytest.raises(m.ManifestError):
            safetensors_shards.load_safetensors(manifest, index, 0, framework="numpy")
    for text in ("[]", "{}", "{", '{"weight_map": 3}', '{"weight_map": {"a": []}}'):
        index.write_text(text)
        with pytest.raises(m.ManifestError, match="not an index"):
            safetensors_shards.load_safetensors(manifest, index, 0, framework="numpy")


def test_slices_tile_the_tensor():
    mesh = [("a", 3), ("b", 2)]
    shape, spec, segments = [11, 7], [("b", "a"), ()], {0: [5, 0, 6]}
    seen = []
    for rank in range(6):
        rows, columns = slices.shard_slice(shape, spec, segments, mesh, slices.coordinate_of(mesh, rank))
        assert columns == [(0, 7)]
        seen += [i for run in rows for i in range(*run)]
    assert sorted(seen) == list(range(11))
