"""A manifest that was edited, truncated or made by another program is rejected with a place, and never partly read."""

import copy
import json

import pytest
from conftest import run, signed, write
from promise import printable

MODEL = {
    "format": "tpplan.model/1",
    "name": "Test",
    "framework": "torch",
    "tied": [["head.weight", "embed.weight"]],
    "modules": [
        {"path": "", "type": "Model"},
        {"path": "embed", "type": "Embedding", "parameters": {"weight": {"shape": [32, 8], "dtype": "float32"}}},
        {
            "path": "wq",
            "type": "Linear",
            "parameters": {"weight": {"shape": [18, 8], "dtype": "float32"}},
            "buffers": {"scale": {"shape": [], "dtype": "float32"}},
        },
        {"path": "head", "type": "Linear", "parameters": {"weight": {"shape": [32, 8], "dtype": "float32"}}},
    ],
}
PLAN = """format: tpplan.plan/1
mesh: {fsdp: 2, tp: 4}
uneven: torch
tp_plan: {embed: embedding_rowwise, wq: colwise, head: colwise}
data: {axes: [fsdp], dim: 0}
loss: {reduction: mean, count: global}
fsdp: {axis: fsdp, min_weight_size: 0}
"""


CALL = {
    "phase": "forward",
    "kind": "all_reduce",
    "axis": "tp",
    "module": "wq",
    "shape": [2, 18],
    "dtype": "float32",
    "bytes": 144,
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    result = run("compile", *write(tmp_path_factory.mktemp("good"), MODEL, PLAN))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout) | {
        "collectives": [CALL, CALL | {"phase": "backward", "kind": "all_gather"}],
        "step": {"batch": 2, "sequence": 18, "unlisted": []},
    }


def shown(folder, document, *arguments):
    if isinstance(document, dict) and "digest" in document:
        document = signed(document) | ({} if isinstance(document["digest"], str) else {"digest": document["digest"]})
    text = document if isinstance(document, (str, bytes)) else json.dumps(document, indent=1)
    (folder / "manifest.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    return run("show", "manifest.json", *arguments, cwd=folder)


def refused(folder, document):
    result = shown(folder, document)
    text = printable(result.stderr)
    assert result.returncode in (1, 2) and result.stdout == b"", (result.returncode, result.stdout)
    assert text.startswith("manifest.json:") and "error[TP" in text, text
    return text


def test_unmodified_manifest_is_accepted(good, tmp_path):
    assert shown(tmp_path, good).returncode == 0
    assert good["tied"] == [["embed.weight", "head.weight"]] or good["tied"] == [["head.weight", "embed.weight"]]


# Optional: information about the tool, and fields that a manifest without ties or settings omits.
OPTIONAL = {
    ("tool",),
    ("inputs",),
    ("uneven",),
    ("rules",),
    ("modules",),
    ("buffers",),
    ("data",),
    ("loss",),
    ("fsdp",),
    ("remat",),
    ("init",),
    ("collectives",),
    ("step",),
    ("step", "batch"),
    ("step", "sequence"),
    ("init", "algorithm"),
    ("totals", "bytes_per_rank"),
    ("fsdp", "policy"),
    ("fsdp", "min_weight_size"),
}
OF_AN_ENTRY = {
    "norm_weight",
    "sums",
    "gradient",
    "steps",
    "kind",
    "dims",
    "style",
    "rule",
    "arg",
    "kwarg",
    "use_local",
    "from",
    "to",
    "forward",
    "backward",
    "dim",
    "from_dim",
    "local_shapes",
    "block",
}


def keys_below(node, path=()):
    if isinstance(node, dict):
        for key, value in node.items():
            yield (*path, key)
            yield from keys_below(value, (*path, key))
    elif isinstance(node, list):
        for i, value in enumerate(node[:2]):
            yield from keys_below(value, (*path, i))


def value_at(document, path):
    for key in path:
        document = document[key]
    return document


def without(document, path):
    document = copy.deepcopy(document)
    node = document
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return document


def test_every_missing_required_key_is_reported(good, tmp_path):
    needed = [
        path
        for path in keys_below(good)
        if path not in OPTIONAL
        and path[-1] not in OF_AN_ENTRY
        and path[2:] != ("init",)
        and value_at(good, path) is not None
    ]
    assert len(needed) > 40
    accepted = [path for path in needed if shown(tmp_path, without(good, path)).returncode == 0]
    assert accepted == []
    for path in needed:
        refused(tmp_path, without(good, path))


@pytest.mark.parametrize("value", [{}, "text", 1.5, True, -1])
def test_every_value_of_another_type_is_rejected(good, tmp_path, value):
    accepted = []
    for path in keys_below(good):
        document = copy.deepcopy(good)
        node = document
        for key in path[:-1]:
            node = node[key]
        if (
            type(node[path[-1]]) is type(value)
            or path[0] == "tool"
            or path[-1] in ("mean", "std")
            and type(value) is float
            or node[path[-1]] is None
        ):
            continue
        node[path[-1]] = value
        if shown(tmp_path, document).returncode == 0:
            accepted.append(path)
    assert accepted == []


@pytest.mark.parametrize(
    "edit, says",
    [
        (lambda m: m["parameters"][0].update(rule=99), "rule 99 does not exist"),
        (
            lambda m: m["parameters"][1].update(local_shape=None, local_shapes=[[1, 1]] * 8),
            "`local_shape` of `wq.weight`",
        ),
        (
            lambda m: m["parameters"][0].update(spec=[None, "tp"]),
            "`placements` of `embed.weight` does not match its spec [null, tp]",
        ),
        (lambda m: m["totals"].update(bytes=1), "totals"),
        (lambda m: m.update(tied=[]), "totals"),
        (lambda m: m.update(tied=[["embed.weight", "nothing"]]), "tied name `nothing`"),
        (lambda m: m.update(tied=[["embed.weight", "wq.weight"]]), "differ in shape, dtype or sharding"),
        (lambda m: m.update(tied=[["embed.weight", "embed.weight"]]), "tied twice"),
        (lambda m: m.update(tied=[["embed.weight"]]), "fewer than two"),
        (lambda m: m["parameters"].append(m["parameters"][0]), "appears twice"),
        (lambda m: m["collectives"][1].update(bytes=143), "`bytes` does not match shape and dtype"),
        (lambda m: m["collectives"][0].update(shape=[2, 17]), "`bytes` does not match shape and dtype"),
        (lambda m: m["collectives"][0].update(kind="slice"), "unknown collective `slice`"),
        (lambda m: m["collectives"][0].update(axis="pp"), "pp"),
        (lambda m: m["step"].update(batch=0), "`batch` of a step must be 1 or more"),
        (lambda m: m["step"].update(sequence=-4), "`sequence` of a step must be 1 or more"),
        (lambda m: m["step"].update(unlisted=["pp"]), "pp"),
        (
            lambda m: m["step"].update(unlisted=["tp"]),
            "`unlisted` names tp, but only the axes of `data` and `fsdp` shard batches",
        ),
        (lambda m: m["mesh"][1].update(size=3), "`local_shape` of `embed.weight`"),
    ],
)
def test_contradiction_is_named(good, tmp_path, edit, says):
    document = copy.deepcopy(good)
    edit(document)
    assert says in " ".join(refused(tmp_path, document).split())


def test_index_beyond_int_is_rejected_and_not_truncated(good, tmp_path):
    places = [path for path in keys_below(good) if path[-1] in ("dim", "from_dim", "arg")]
    assert {path[-1] for path in places} >= {"dim", "arg"}
    for path in places:
        document = copy.deepcopy(good)
        node = document
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] += 2**32
        assert "is neither a dim nor the position of an argument" in " ".join(refused(tmp_path, document).split()), path


HUGE_PLAN = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {a: replicate, b: replicate, c: replicate}\n"


def huge_model(size):
    huge = {"shape": [size], "dtype": "int8"}
    return {
        **MODEL,
        "tied": [],
        "modules": [{"path": "", "type": "Model", "parameters": {name: huge for name in "abc"}}],
    }


def test_sums_beyond_64_bits_are_not_compared(tmp_path):
    """Four tensors of 2^62 bytes each: the stored sums are modulo 2^64, and no correct sum."""
    document = json.loads(run("compile", *write(tmp_path, huge_model(2**59), HUGE_PLAN)).stdout)
    assert shown(tmp_path, document).returncode == 0
    document["parameters"].append({**document["parameters"][0], "path": "d"})
    document["rules"][0]["holds"]["other"] += 1
    for parameter in document["parameters"]:
        parameter["shape"] = parameter["local_shape"] = [2**62]
    for name, value in document["totals"].items():
        document["totals"][name] = [0, 0] if type(value) is list else 0
    document["totals"]["parameters"] = 4
    assert "64 bits" in refused(tmp_path, document)


def test_compiled_huge_tensors_can_be_read(tmp_path):
    """3 x 2^61 bytes are below 2^63, the limit of manifests; 3 x 2^62 are not, and have no manifest."""
    document = run("compile", *write(tmp_path, huge_model(2**61), HUGE_PLAN)).stdout
    assert shown(tmp_path, document).returncode == 0
    result = run("compile", *write(tmp_path, huge_model(2**62), HUGE_PLAN))
    assert result.returncode == 3 and b"TP9001" in result.stderr


def test_unknown_field_is_rejected_anywhere(good, tmp_path):
    objects = {path[:-1] for path in keys_below(good)}
    assert len(objects) > 20
    for path in sorted(objects, key=str):
        document = copy.deepcopy(good)
        value_at(document, path)["motules"] = 1
        if path[:1] != ("init",) or len(path) < 3:  # every name of a distribution field is unknown
            assert "has no key `motules`" in " ".join(refused(tmp_path, document).split()), path


def test_changed_text_differs_from_reformatted_text(good, tmp_path):
    text = json.dumps(signed(good), indent=1)
    assert run("show", "manifest.json", cwd=tmp_path).returncode and shown(tmp_path, text).returncode == 0
    assert shown(tmp_path, json.dumps(signed(good))).returncode == 0
    for before, after in (('"line": 4', '"line": 5'), ('"Test"', '"Tes\\u0074"'), ('"tool": "', '"tool": " ')):
        assert before in text
        assert "error[TP7005]" in refused(tmp_path, text.replace(before, after, 1))


def test_fields_after_the_digest_are_rejected(good, tmp_path):
    text = json.dumps(signed(good))
    behind = text[:-1].replace(', "remat": []', "", 1) + ', "remat": []}'
    assert "error[TP7005]" in refused(tmp_path, behind)


def test_manifest_truncated_at_any_byte_is_rejected(good, tmp_path):
    text = json.dumps(good, indent=1)
    for size in [*range(0, len(text) - 1, 97), len(text) - 1]:
        refused(tmp_path, text[:size])
