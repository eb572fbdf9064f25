"""Folders of `save` and `reshard` store a checksum of each tensor in each file. Every reader verifies them during the read, on the mesh
that wrote the folder and on any other."""

import json
import random

import pytest
from executor import execute, succeeds
from ranks import mpirun, needs_mpi
from weights import byte_count, compile_manifest, random_tensors, read_file, write_file

KEY = "TPPLAN_CRC32C"
SHAPES = {"m.a": ("float32", (24, 16)), "m.b": ("bfloat16", (16, 24)), "m.c": ("float32", (5,)), "m.d": ("int8", (48,))}
CUT = {"m.a": ["fsdp", "tp"], "m.b": [None, "tp"], "m.d": [["tp", "fsdp"]]}
SIZE = sum(byte_count(*shape) for shape in SHAPES.values())
# Thin and thick lines, gaps between them, dims after the sharded one, intervals of a fused dim, a replicated tensor.
LARGE = {
    "l.rows": ("float32", (128, 512)),
    "l.thin": ("bfloat16", (200, 96)),
    "l.deep": ("int8", (6, 70, 60)),
    "l.fused": ("float32", (192, 40)),
    "l.all": ("float32", (1000,)),
}
LARGE_CUT = {"l.rows": ["fsdp", "tp"], "l.thin": [None, "tp"], "l.deep": [None, "tp", "fsdp"], "l.fused": ["tp", None]}
SEGMENTS = {"l.fused": {"d0": [96, 48, 48]}}


def table():
    entries = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        entries.append(byte)
    return entries


TABLE = table()


def crc32c(content):
    sum_ = 0xFFFFFFFF
    for byte in content:
        sum_ = sum_ >> 8 ^ TABLE[(sum_ ^ byte) & 255]
    return f"{sum_ ^ 0xFFFFFFFF:08x}"


def kept(path):
    """{name: checksum} as stored in a file."""
    metadata, tensors = read_file(path)
    return dict(zip(tensors, [metadata[KEY][i : i + 8] for i in range(0, len(metadata[KEY]), 8)], strict=True))


def holds_its_checksums(folder):
    for path in folder.glob("*.safetensors"):
        assert kept(path) == {name: crc32c(content) for name, (_, _, content) in read_file(path)[1].items()}, path


def save(folder, shapes=SHAPES, cut=CUT, mesh=None, name="A", **more):
    manifest = compile_manifest(folder, shapes, cut, mesh or {"fsdp": 2, "tp": 2}, f"{name}.json", **more)
    write_file(folder / "w.safetensors", random_tensors(shapes))
    succeeds("save", manifest, "--weights", folder / "w.safetensors", "-o", folder / name)
    return manifest, folder / name


def said(*words):
    return json.loads(succeeds(*words, "--json").stdout)


def change_a_bit(path, place):
    """Flips a bit of the weights of a file: in the first byte, the last one, or one in the middle."""
    content = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    content[{"first": begin, "middle": (begin + len(content)) // 2, "last": len(content) - 1}[place]] ^= 16
    path.write_bytes(content)


def test_each_file_stores_checksums_of_its_tensors(tmp_path):
    _, folder = save(tmp_path)
    holds_its_checksums(folder)


@pytest.mark.parametrize(
    "mesh", [{"fsdp": 2, "tp": 2}, {"fsdp": 1, "tp": 1}, {"fsdp": 3, "tp": 2}, {"fsdp": 1, "tp": 4}]
)
def test_every_byte_is_verified_on_any_mesh(mesh, tmp_path):
    _, folder = save(tmp_path)
    other = compile_manifest(tmp_path, SHAPES, CUT, mesh, "other.json")
    result = said("load", other, "--weights", folder)
    assert result["checked_bytes"] == result["read_bytes"] == SIZE


@pytest.mark.parametrize("mesh", [{"fsdp": 2, "tp": 2}, {"fsdp": 4, "tp": 3}, {"fsdp": 1, "tp": 1}])
def test_checksums_of_lines_of_any_length_combine(mesh, tmp_path):
    _, folder = save(tmp_path, LARGE, LARGE_CUT, segments=SEGMENTS)
    other = compile_manifest(tmp_path, LARGE, LARGE_CUT, mesh, "other.json", segments=SEGMENTS)
    for more in ([], ["--staging", "1MB", "--threads", "3"]):
        result = said("load", other, "--weights", folder, *more)
        assert result["checked_bytes"] == sum(byte_count(*shape) for shape in LARGE.values())


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_every_reader_finds_a_flipped_bit(number, place, tmp_path):
    manifest, folder = save(tmp_path)
    other = compile_manifest(tmp_path, SHAPES, CUT, {"fsdp": 1, "tp": 3}, "other.json")
    path = folder / f"shard-{number:05}-model-00001-of-00001.safetensors"
    change_a_bit(path, place)
    damaged = next(name for name, (_, _, content) in read_file(path)[1].items() if kept(path)[name] != crc32c(content))
    for words in (
        ["load", manifest, "--weights", folder],
        ["load", other, "--weights", folder],
        ["verify", manifest, "--from", folder],
        ["save", other, "--weights", folder, "-o", tmp_path / "B"],
        ["reshard", manifest, other, "--from", folder, "--to", tmp_path / "B"],
    ):
        result = execute(*words)
        text = " ".join(result.stderr.split())
        assert result.returncode == 1 and "error[TP8043]" in text, (words, text)
        assert f"`{damaged}` has CRC-32C" in text and path.name in text and result.stderr.count("error[") == 1, text
        assert not (tmp_path / "B").exists() and not list(tmp_path.glob("B.tmp-*"))
    (folder / "tpplan.json").unlink()  # a folder that its manifest does not describe
    result = execute("reshard", manifest, other, "--from", folder, "--to", tmp_path / "B")
    assert result.returncode == 1 and f"`{damaged}` has CRC-32C" in " ".join(result.stderr.split())


def test_verify_needs_only_the_folder(tmp_path):
    manifest, folder = save(tmp_path)
    result = said("verify", manifest, "--from", folder)
    assert result["checked_bytes"] == SIZE and result["compared_bytes"] == 0
    # Folders of other writers have no checksums to compare with.
    for path in folder.glob("*.safetensors"):
        path.write_bytes(path.read_bytes().replace(KEY.encode(), b"X" * len(KEY)))
    result = execute("verify", manifest, "--from", folder)
    assert result.returncode == 2 and "error[TP8044]" in result.stderr, result.stderr
    succeeds("verify", manifest, "--from", folder, "--weights", tmp_path / "w.safetensors")
    assert said("load", manifest, "--weights", folder)["checked_bytes"] == 0


def test_invalid_checksum_list_is_rejected(tmp_path):
    manifest, folder = save(tmp_path)
    path = folder / "shard-00003-model-00001-of-00001.safetensors"
    content, digits = path.read_bytes(), read_file(path)[0][KEY].encode()
    for broken in (digits[:-1] + b"g", digits[:-1] + b"A", b" " + digits[1:]):
        path.write_bytes(content.replace(digits, broken))
        result = execute("load", manifest, "--weights", folder)
        assert result.returncode == 2 and "error[TP8044]" in result.stderr and path.name in result.stderr, result.stderr
    path.write_bytes(content.replace(digits, bytes(reversed(digits))))
    result = execute("load", manifest, "--weights", folder)
    assert result.returncode == 1 and "error[TP8043]" in result.stderr


@pytest.mark.parametrize("seed", range(6))
def test_reshard_copies_and_computes_checksums(seed, tmp_path):
    source = random.Random(seed)
    meshes = [{"fsdp": source.randint(1, 3), "tp": source.randint(1, 4)} for _ in range(3)]
    manifest, folder = save(tmp_path, LARGE, LARGE_CUT, meshes[0], segments=SEGMENTS)
    for i, mesh in enumerate(meshes[1:]):
        other = compile_manifest(tmp_path, LARGE, LARGE_CUT, mesh, f"m{i}.json", segments=SEGMENTS)
        if i == 1:
            (folder / "tpplan.json").unlink()  # reads header by header
        result = said("reshard", manifest, other, "--from", folder, "--to", tmp_path / f"to{i}", "--staging", "1MB")
        assert (
            0 <= result["checked_bytes"] - result["read_bytes"] <= result["kept_bytes"]
        )  # headers of copied files are not read
        manifest, folder = other, tmp_path / f"to{i}"
        holds_its_checksums(folder)
        assert said("verify", manifest, "--from", folder)["checked_bytes"] == sum(
            byte_count(*s) for s in LARGE.values()
        )


@needs_mpi
def test_processes_exchange_the_checksums_they_read(tmp_path):
    """No process reads a full file or writes a file without the others: more ranks than shards, in another layout."""
    manifest, folder = save(tmp_path, LARGE, LARGE_CUT, segments=SEGMENTS)
    other = compile_manifest(tmp_path, LARGE, LARGE_CUT, {"fsdp": 1, "tp": 3}, "other.json", segments=SEGMENTS)
    program = succeeds.__globals__["EXECUTOR"]
    mpi = ["--backend", "mpi", "--json", "--quiet"]
    loaded = mpirun(3, program, "load", other, "--weights", folder, *mpi)
    assert loaded.returncode == 0, loaded.stderr
    assert json.loads(loaded.stdout)["checked_bytes"] == sum(byte_count(*shape) for shape in LARGE.values())
    words = ["reshard", manifest, other, "--from", folder, "--to"]
    moved = mpirun(3, program, *words, tmp_path / "mpi", *mpi)
    assert moved.returncode == 0, moved.stderr
    assert json.loads(moved.stdout)["checked_bytes"] == json.loads(moved.stdout)["read_bytes"]
    succeeds(*words, tmp_path / "local")
    files = lambda name: {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}  # noqa: E731
    assert files("mpi") == files("local")
    change_a_bit(next(iter(sorted(folder.glob("shard-00002-*")))), "middle")
    for words in (["load", other, "--weights", folder], [*words, tmp_path / "mpi2"]):
        result = mpirun(3, program, *words, *mpi)
        assert result.returncode != 0 and "has CRC-32C" in " ".join(result.stderr.split()), result.stderr
        assert not (tmp_path / "mpi2").exists()
