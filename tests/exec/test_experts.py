"""Checkpoints with a matrix for each expert, for manifests of stacked experts: the shards equal those of the stacked checkpoint."""

import json

import pytest
from executor import execute, succeeds
from weights import compile_manifest, random_tensors, read_file, write_file

EXPERTS, HIDDEN, ROWS = 4, 6, 8
SHAPES = {
    "m.experts.gate_up_proj": ("float32", (EXPERTS, 2 * ROWS, HIDDEN)),
    "m.experts.down_proj": ("float32", (EXPERTS, HIDDEN, ROWS)),
    "m.norm": ("float32", (HIDDEN,)),
}
SPECS = {"m.experts.down_proj": ["ep", None, None]}
NAMES = {"llama": ("gate_proj", "up_proj", "down_proj"), "mixtral": ("w1", "w3", "w2")}


def split_experts(stacked, names):
    """Returns {name: (dtype, shape, bytes)} with the matrices of each expert. Bytes are in row-major order."""
    gate, up, down = names
    single = {"m.norm": stacked["m.norm"]}
    size = 4 * ROWS * HIDDEN
    for expert in range(EXPERTS):
        both, last = stacked["m.experts.gate_up_proj"][2], stacked["m.experts.down_proj"][2]
        at = 2 * size * expert
        single[f"m.experts.{expert}.{gate}.weight"] = ("float32", (ROWS, HIDDEN), both[at : at + size])
        single[f"m.experts.{expert}.{up}.weight"] = ("float32", (ROWS, HIDDEN), both[at + size : at + 2 * size])
        single[f"m.experts.{expert}.{down}.weight"] = (
            "float32",
            (HIDDEN, ROWS),
            last[size * expert : size * (expert + 1)],
        )
    return single


@pytest.fixture
def stacked():
    return random_tensors(SHAPES)


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize(
    "spec",
    [["ep", None, None], [None, "ep", None], [None, None, "ep"], [None, None, None]],
    ids=["experts", "rows", "columns", "replicated"],
)
def test_experts_load_as_a_stacked_checkpoint(tmp_path, stacked, names, spec):
    manifest = compile_manifest(tmp_path, SHAPES, dict.fromkeys(list(SHAPES)[:2], spec), {"ep": 3})
    write_file(tmp_path / "stacked.safetensors", stacked)
    write_file(tmp_path / "single.safetensors", split_experts(stacked, NAMES[names]))
    for kind in ("stacked", "single"):
        succeeds("save", manifest, "--weights", tmp_path / f"{kind}.safetensors", "-o", tmp_path / kind)
    files = sorted((tmp_path / "stacked").iterdir())
    assert [f.suffix for f in files].count(".safetensors") == (1 if spec == [None] * 3 else len(files) - 1)
    assert {f.name: f.read_bytes() for f in files} == {f.name: f.read_bytes() for f in (tmp_path / "single").iterdir()}
    succeeds("verify", manifest, "--from", tmp_path / "single", "--weights", tmp_path / "single.safetensors")
    loaded = succeeds("load", manifest, "--weights", tmp_path / "single.safetensors")
    assert "skipped" not in loaded.stderr


def test_missing_expert_is_named(tmp_path, stacked):
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"ep": 2})
    single = split_experts(stacked, NAMES["llama"])
    del single["m.experts.2.up_proj.weight"]
    write_file(tmp_path / "w.safetensors", single)
    result = execute("load", manifest, "--weights", tmp_path / "w.safetensors")
    assert result.returncode == 1
    said = " ".join(result.stderr.split())
    assert (
        "error[TP8022]: `m.experts.gate_up_proj` stacks the experts of the weights, which have no matrix "
        "`m.experts.2.up_proj.weight`" in said
    )


@pytest.mark.parametrize("experts", (EXPERTS - 1, EXPERTS + 1))
def test_other_number_of_experts_is_rejected(tmp_path, stacked, experts):
    shapes = {
        name: (dtype, (experts, *shape[1:]) if len(shape) == 3 else shape) for name, (dtype, shape) in SHAPES.items()
    }
    manifest = compile_manifest(tmp_path, shapes, SPECS, {"ep": 2})
    write_file(tmp_path / "w.safetensors", split_experts(stacked, NAMES["llama"]))
    result = execute("load", manifest, "--weights", tmp_path / "w.safetensors")
    if experts > EXPERTS:
        assert result.returncode == 1 and "m.experts.4.gate_proj.weight" in result.stderr
    else:
        assert "m.experts.3" in result.stderr, "a matrix that no parameter has is reported"


def test_transposed_matrices_are_rejected(tmp_path, stacked):
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"ep": 2})
    single = split_experts(stacked, NAMES["llama"])
    dtype, (rows, columns), data = single["m.experts.1.down_proj.weight"]
    single["m.experts.1.down_proj.weight"] = (dtype, (columns, rows), data)
    write_file(tmp_path / "w.safetensors", single)
    result = execute("load", manifest, "--weights", tmp_path / "w.safetensors")
    assert result.returncode == 1 and "TP8023" in result.stderr


@pytest.mark.parametrize("naming, names", [("gate_proj", "llama"), ("w1", "mixtral")])
@pytest.mark.parametrize("size", [[], ["--max-file-size", "300"]], ids=["file", "files"])
@pytest.mark.parametrize(
    "spec",
    [["ep", None, None], [None, "ep", None], [None, None, "ep"], [None, None, None]],
    ids=["experts", "rows", "columns", "replicated"],
)
def test_experts_are_written_as_they_were_read(tmp_path, stacked, naming, names, spec, size):
    """From matrices to matrices, and from a folder of shards, whatever the sharding."""
    manifest = compile_manifest(tmp_path, SHAPES, dict.fromkeys(list(SHAPES)[:2], spec), {"ep": 3})
    write_file(tmp_path / "single.safetensors", split_experts(stacked, NAMES[names]))
    succeeds("save", manifest, "--weights", tmp_path / "single.safetensors", "-o", tmp_path / "shards")
    for weights in ("single.safetensors", "shards"):
        to = tmp_path / f"of-{weights}"
        flags = ["--split-experts", naming, *size]
        succeeds("save", manifest, "--weights", tmp_path / weights, "--consolidated", to, *flags)
        files = sorted(to.glob("*.safetensors")) if size else [to]
        written = {}
        for file in files:
            written |= read_file(file)[1]
        assert written == split_experts(stacked, NAMES[names])
        assert (
            len(files) == 1
            or json.loads((to / "model.safetensors.index.json").read_text())["weight_map"].keys() == written.keys()
        )


def test_transposed_experts_are_not_split(tmp_path):
    shapes = {
        "m.experts.gate_up_proj": ("float32", (EXPERTS, HIDDEN, 2 * ROWS)),
        "m.experts.down_proj": ("float32", (EXPERTS, ROWS, HIDDEN)),
    }
    for kept in (list(shapes), list(shapes)[:1], []):
        tensors = {name: shapes[name] for name in kept} | {"m.norm": SHAPES["m.norm"]}
        manifest = compile_manifest(tmp_path, tensors, {"m.norm": [None]}, {"ep": 2})
        write_file(tmp_path / "w.safetensors", random_tensors(tensors))
        result = execute(
            "save",
            manifest,
            "--weights",
            tmp_path / "w.safetensors",
            "--consolidated",
            tmp_path / "out",
            "--split-experts",
            "w1",
        )
        assert result.returncode == 1 and "error[TP8033]" in result.stderr and not (tmp_path / "out").exists()
