"""load, verify, save and reshard, compared byte by byte with files made and read here, and with the shards that `tpplan show` prints for
each rank."""

import hashlib
import itertools
import json
import math
import resource

import pytest
from executor import execute, succeeds
from weights import BITS, byte_count, compile_manifest, cut, random_tensors, read_file, slices, write_file, write_index

SHAPES = {
    "rows": ("float32", (10, 6)),
    "columns": ("bfloat16", (7, 12)),
    "both": ("float32", (9, 10)),
    "stacked": ("float16", (3, 8, 10)),
    "inner": ("int8", (3, 5, 7)),
    "line": ("float64", (11,)),
    "scalar": ("float32", ()),
    "empty": ("float32", (0, 4)),
    "whole": ("bfloat16", (5, 3)),
    "short": ("int32", (2, 3)),
    "two_axes": ("uint8", (13, 4)),
    "deep": ("bfloat16", (2, 3, 4, 5)),
    "one": ("float32", (1, 1)),
}
SPECS = {
    "rows": ["tp", None],
    "columns": [None, "tp"],
    "both": ["fsdp", "tp"],
    "stacked": [None, "tp", "fsdp"],
    "inner": ["fsdp", None, "tp"],
    "line": ["tp"],
    "short": ["tp", None],
    "two_axes": [["tp", "fsdp"], None],
    "deep": [None, "fsdp", None, "tp"],
    "one": [None, "tp"],
    "empty": [None, "tp"],
}
MESHES = [
    {"tp": 1, "fsdp": 1},
    {"tp": 2, "fsdp": 1},
    {"fsdp": 2, "tp": 2},
    {"tp": 3, "fsdp": 2},
    {"fsdp": 3, "tp": 1},
    {"tp": 5, "fsdp": 1},
]


def pieces_of(folder):
    """{name: [(box, tensor)]} of a folder of shards, and the ranks by file."""
    pieces = {}
    for path in sorted(folder.glob("*.safetensors")):
        metadata, tensors = read_file(path)
        assert metadata["DCP_VERSION"] == "1.0" and metadata["format"] == "pt"
        info = json.loads(metadata["DCP_SHARDING_INFO"])
        assert set(info) == set(tensors)
        for name, tensor in tensors.items():
            begin = info[name]["saved_offsets"]
            box = [(b, b + s) for b, s in zip(begin, tensor[1])]
            pieces.setdefault(name, []).append((box, tensor, int(path.name[6:11]) - 1))
    return pieces


def check_folder(folder, manifest, tensors, ranks):
    """Each element is in exactly one shard, with the bytes of the source, written by a rank that holds it."""
    held = slices(manifest, ranks)
    pieces = pieces_of(folder)
    assert set(pieces) == set(tensors)
    for name, tensor in tensors.items():
        count = 0
        for box, piece, rank in pieces[name]:
            assert piece[2] == cut(tensor, box), (name, box)
            for dim, run in enumerate(box if piece[2] else ()):  # a tensor without bytes is stored unsharded
                assert any(b <= run[0] and run[1] <= e for b, e in held[rank][name][dim]), (name, rank, box)
            count += math.prod(e - b for b, e in box)
        assert count == math.prod(tensor[1])


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_saved_files_hold_the_shards_of_each_rank(mesh, tmp_path):
    tensors = random_tensors(SHAPES)
    write_file(tmp_path / "w.safetensors", tensors)
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, mesh)
    succeeds(
        "save",
        manifest,
        "--weights",
        tmp_path / "w.safetensors",
        "-o",
        tmp_path / "out",
        "--consolidated",
        tmp_path / "one.safetensors",
    )
    check_folder(tmp_path / "out", manifest, tensors, math.prod(mesh.values()))
    assert read_file(tmp_path / "one.safetensors")[1] == {n: (d, tuple(s), b) for n, (d, s, b) in tensors.items()}
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors", "--from", tmp_path / "out")
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors")
    assert not list(tmp_path.glob("*.tmp-*"))


@pytest.mark.parametrize("dtype", BITS)
def test_every_dtype_is_saved_and_loaded(dtype, tmp_path):
    shapes = {"a": (dtype, (6, 8)), "b": (dtype, (4, 4))}
    tensors = random_tensors(shapes)
    write_index(tmp_path, tensors)
    manifest = compile_manifest(tmp_path, shapes, {"a": [None, "tp"], "b": ["tp", None]}, {"tp": 2})
    succeeds(
        "save", manifest, "--weights", tmp_path, "-o", tmp_path / "out", "--consolidated", tmp_path / "one.safetensors"
    )
    assert read_file(tmp_path / "one.safetensors")[1] == {n: (d, tuple(s), b) for n, (d, s, b) in tensors.items()}
    succeeds("verify", manifest, "--weights", tmp_path / "one.safetensors", "--from", tmp_path / "out")


def test_shard_inside_a_byte_is_rejected(refuses):
    model = {
        "format": "tpplan.model/1",
        "name": "Bytes",
        "framework": "torch",
        "modules": [{"path": "", "type": "X", "parameters": {"a": {"shape": [2, 6], "dtype": "int4"}}}],
    }
    plan = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {a: {spec: [null, tp]}}\n"
    status, found, said = refuses(model, plan)
    assert (status, found) == (1, ["TP5006"]) and "inside a byte" in said and "`a`" in said


def test_segments_are_saved_as_separate_files_and_reload(tmp_path):
    shapes = {"m.qkv": ("bfloat16", (16, 6)), "m.o": ("float32", (6, 4))}
    tensors = random_tensors(shapes)
    write_file(tmp_path / "w.safetensors", tensors)
    manifest = compile_manifest(
        tmp_path, shapes, {"m.qkv": ["tp", None], "m.o": [None, "tp"]}, {"tp": 2}, segments={"m.qkv": {"d0": [8, 4, 4]}}
    )
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out")
    names = sorted(p.name for p in (tmp_path / "out").glob("*.safetensors"))
    assert names == [f"shard-{r:05}-model-{p:05}-of-00003.safetensors" for r in (1, 2) for p in (1, 2, 3)]
    check_folder(tmp_path / "out", manifest, tensors, 2)
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors", "--from", tmp_path / "out")


def test_replicated_bytes_are_written_once(tmp_path):
    shapes = {"a": ("float32", (8, 8))}
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    manifest = compile_manifest(tmp_path, shapes, {"a": [None, "tp"]}, {"fsdp": 3, "tp": 2})
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out")
    assert sorted(p.name[6:11] for p in (tmp_path / "out").glob("*.safetensors")) == ["00001", "00002"]


RESHARD = [
    ({"tp": 4, "fsdp": 1}, {"fsdp": 2, "tp": 2}),
    ({"fsdp": 2, "tp": 2}, {"tp": 3, "fsdp": 1}),
    ({"tp": 3, "fsdp": 1}, {"tp": 4, "fsdp": 1}),
    ({"fsdp": 5, "tp": 1}, {"tp": 2, "fsdp": 3}),
]


@pytest.mark.parametrize("before, after", RESHARD, ids=str)
def test_reshard_matches_save(before, after, tmp_path):
    tensors = random_tensors(SHAPES)
    write_file(tmp_path / "w.safetensors", tensors)
    a = compile_manifest(tmp_path, SHAPES, SPECS, before, "a.json")
    b = compile_manifest(tmp_path, SHAPES, SPECS, after, "b.json")
    succeeds("save", a, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "A")
    result = succeeds("reshard", a, b, "--from", tmp_path / "A", "--to", tmp_path / "B", "--staging", "1MB", "--json")
    succeeds("save", b, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "direct")
    files = lambda folder: {p.name: p.read_bytes() for p in folder.iterdir()}
    assert files(tmp_path / "B") == files(tmp_path / "direct")
    size = sum(byte_count(d, s) for d, s in SHAPES.values())
    moved = json.loads(result.stdout)
    assert (moved["read_bytes"], moved["written_bytes"], moved["kept_bytes"]) == (size, size, 0)
    succeeds("reshard", b, a, "--from", tmp_path / "B", "--to", tmp_path / "back")
    assert files(tmp_path / "back") == files(tmp_path / "A")


def test_large_blocks_are_resharded_in_parts(tmp_path):
    shapes = {"wide": ("float32", (3, 1 << 20)), "tall": ("bfloat16", (1 << 20, 3))}
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    a = compile_manifest(tmp_path, shapes, {"wide": [None, "tp"], "tall": [None, "tp"]}, {"tp": 3}, "a.json")
    b = compile_manifest(tmp_path, shapes, {"wide": ["tp", None], "tall": ["tp", None]}, {"tp": 2}, "b.json")
    succeeds("save", a, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "A")
    succeeds("reshard", a, b, "--from", tmp_path / "A", "--to", tmp_path / "B", "--staging", "1MB")
    succeeds("verify", b, "--from", tmp_path / "B", "--weights", tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    "spec", [["tp", None], [None, "tp"], [None, None], [["fsdp", "tp"], None], ["fsdp", "tp"]], ids=str
)
@pytest.mark.parametrize("columns", [3, 700, 40000])
def test_each_byte_is_read_once(spec, columns, tmp_path):
    shapes = {"a": ("bfloat16", (max(4, 120000 // columns), columns)), "b": ("float32", (5, 7))}
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    manifest = compile_manifest(tmp_path, shapes, {"a": spec}, {"fsdp": 2, "tp": 2})
    result = json.loads(
        succeeds(
            "load", manifest, "--weights", tmp_path / "w.safetensors", "--json", "--threads", "3", "--staging", "1MB"
        ).stdout
    )
    assert result["read_bytes"] == result["needed_bytes"] == sum(byte_count(d, s) for d, s in shapes.values())
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors")


def test_summary_matches_the_manifest(tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 2, "tp": 3})
    result = json.loads(succeeds("load", manifest, "--weights", tmp_path, "--json").stdout)
    assert result["bytes_per_rank"] == json.loads(manifest.read_text())["totals"]["bytes_per_rank"]


def test_tied_names_are_stored_once_or_twice(tmp_path):
    shapes = {"embed.weight": ("float32", (8, 4)), "head.weight": ("float32", (8, 4))}
    specs = {n: ["tp", None] for n in shapes}
    manifest = compile_manifest(tmp_path, shapes, specs, {"tp": 2}, tied=[list(shapes)])
    tensors = random_tensors(shapes)
    tensors["head.weight"] = tensors["embed.weight"]
    for name, stored in itertools.product(("a", "b"), (["embed.weight"], ["head.weight"], list(shapes))):
        folder = tmp_path / f"{name}{len(stored)}{stored[0]}"
        folder.mkdir()
        write_file(folder / "model.safetensors", {n: tensors[n] for n in stored})
        assert json.loads(succeeds("load", manifest, "--weights", folder, "--json").stdout)["read_bytes"] == 128
        succeeds("verify", manifest, "--weights", folder)
    succeeds("save", manifest, "--weights", folder, "-o", tmp_path / "out")
    check_folder(tmp_path / "out", manifest, tensors, 2)


def test_tied_names_with_different_bytes_are_found(tmp_path):
    shapes = {"embed.weight": ("float32", (8, 4)), "head.weight": ("float32", (8, 4))}
    manifest = compile_manifest(tmp_path, shapes, {n: ["tp", None] for n in shapes}, {"tp": 2}, tied=[list(shapes)])
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    result = execute("verify", manifest, "--weights", tmp_path / "w.safetensors")
    assert result.returncode == 1 and "rank 0: `head.weight`[0, 0]" in result.stderr


def test_missing_buffer_is_skipped(tmp_path):
    shapes = {"a": ("float32", (4,)), "m.mask": ("float32", (4,)), "m.inv_freq": ("float32", (4,))}
    manifest = compile_manifest(tmp_path, shapes, {"a": [None]}, {"tp": 2}, buffers=("m.mask", "m.inv_freq"))
    write_file(tmp_path / "w.safetensors", random_tensors({"a": shapes["a"]}))
    result = succeeds(
        "save",
        manifest,
        "--weights",
        tmp_path / "w.safetensors",
        "-o",
        tmp_path / "out",
        "--consolidated",
        tmp_path / "one.safetensors",
    )
    assert "1 buffer " in result.stderr  # no checkpoint has the other one: no message about it
    assert set(pieces_of(tmp_path / "out")) == {"a"} and set(read_file(tmp_path / "one.safetensors")[1]) == {"a"}
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors", "--from", tmp_path / "out")


def test_checksums_find_one_flipped_bit(tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 2, "tp": 2})
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out")
    succeeds("verify", manifest, "--from", tmp_path / "out", "--write-checksums", tmp_path / "sums.json")
    succeeds("verify", manifest, "--from", tmp_path / "out", "--checksums", tmp_path / "sums.json")
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors", "--checksums", tmp_path / "sums.json")
    shard = tmp_path / "out" / "shard-00002-model-00001-of-00001.safetensors"
    content = bytearray(
        shard.read_bytes().replace(b"TPPLAN_CRC32C", b"X" * 13)
    )  # the checksums of the file would find it sooner
    content[-1] ^= 1
    shard.write_bytes(content)
    for more in (["--checksums", tmp_path / "sums.json"], ["--weights", tmp_path / "w.safetensors"]):
        result = execute("verify", manifest, "--from", tmp_path / "out", *more)
        assert result.returncode == 1 and "rank " in result.stderr and "`" in result.stderr


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_checkpoint_may_exceed_the_soft_file_limit(tmp_path):
    shapes = {f"w{i}": ("uint8", (4,)) for i in range(100)}
    manifest = compile_manifest(tmp_path, shapes, {"w7": ["tp"]}, {"tp": 2})
    write_index(tmp_path, random_tensors(shapes), files=100)
    succeeds("verify", manifest, "--weights", tmp_path, preexec_fn=few_files)


def test_each_rank_has_its_line_of_checksums(tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 2, "tp": 2})
    verify = ["verify", manifest, "--weights", tmp_path / "w.safetensors"]
    succeeds(*verify, "--write-checksums", tmp_path / "sums.json")
    text = (tmp_path / "sums.json").read_text()
    sums = json.loads(text)
    assert sums["format"] == "tpplan.checksums/2" and sorted(sums["paths"]) == sorted(SHAPES)
    held, tensors = slices(manifest, 4)[3], random_tensors(SHAPES)
    boxes = {path: [tuple(runs[0]) if runs else (0, 0) for runs in held[path]] for path in sums["paths"]}
    shards = {path: cut(tensors[path], box) for path, box in boxes.items()}
    assert sums["ranks"][3] == [hashlib.sha256(shards[path]).hexdigest() for path in sums["paths"]]
    assert len({len(line) for line in text.splitlines() if line.startswith("    [")}) == 1 and len(sums["ranks"]) == 4
    assert succeeds(*verify, "--write-checksums", "-").stdout == text

    first = sums["ranks"][2][1]
    (tmp_path / "sums.json").write_text(text.replace(first, "0" * 64))
    result = execute(*verify, "--checksums", tmp_path / "sums.json")
    assert result.returncode == 1 and f"rank 2: `{sums['paths'][1]}` has SHA-256 {first}" in result.stderr, (
        result.stderr
    )
    for broken, what in (
        (text[:-9], "does not have the"),
        (text.replace("tpplan.checksums/2", "tpplan.checksums/3"), "does not have the format"),
        (text.replace(sums["shardings_sha256"], "0" * 64), "other shardings"),
        (
            text.replace(json.dumps(sums["paths"][0]), json.dumps("x" * len(sums["paths"][0]))),
            "not a tensor of the manifest",
        ),
        (text.replace(f'["{sums["ranks"][1][0]}"', f'[ {sums["ranks"][1][0]}"'), "not a list of checksums"),
        ("{}", "does not have the format"),
        (text.replace("tpplan.checksums/2", "tpplan.checksums/1"), "does not have the format"),
    ):
        (tmp_path / "sums.json").write_text(broken)
        result = execute(*verify, "--checksums", tmp_path / "sums.json")
        assert result.returncode in (1, 2) and what in " ".join(result.stderr.split()), (what, result.stderr)
        assert result.stderr.count("error[") == 1


def test_max_file_size_writes_several_files_and_an_index(tmp_path):
    """In the manifest's order, as many tensors a file as fit; a larger one has a separate file. Any reader of Hugging Face checkpoints
    reads them."""
    tensors = random_tensors(SHAPES)
    write_file(tmp_path / "w.safetensors", tensors)
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 2, "tp": 2})
    save = ["save", manifest, "--weights", tmp_path / "w.safetensors"]
    sizes = {name: byte_count(*shape) for name, shape in SHAPES.items()}
    for limit in (1, 1000, sum(sizes.values())):
        folder = tmp_path / f"files-{limit}"
        succeeds(*save, "--consolidated", folder, "--max-file-size", limit)
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        assert index["metadata"]["total_size"] == sum(sizes.values()) and set(index["weight_map"]) == set(SHAPES)
        files = sorted(folder.glob("*.safetensors"))
        assert [path.name for path in files] == [
            f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))
        ]
        held = [read_file(path)[1] for path in files]
        assert {name: content for file in held for name, content in file.items()} == tensors
        for file, path in zip(held, files, strict=True):
            assert all(index["weight_map"][name] == path.name for name in file)
            assert sum(sizes[name] for name in file) <= limit or sum(sizes[name] > 0 for name in file) == 1
        assert limit == 1000 or len(files) == (sum(size > 0 for size in sizes.values()) if limit == 1 else 1)
        succeeds("verify", manifest, "--weights", folder)
    assert execute(*save, "--consolidated", folder, "--max-file-size", 1).returncode == 1  # the output exists
    refused = execute(*save, "-o", tmp_path / "out", "--max-file-size", 1)
    assert refused.returncode == 2 and "--consolidated" in refused.stderr and not (tmp_path / "out").exists()
