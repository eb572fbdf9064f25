"""libtpplan_load, called from a C program (load_driver.c): its output is compared byte by byte with files made here, and rejected calls
leave the target memory unchanged."""

import itertools
import math
import os
import pathlib
import re
import struct
import subprocess

import pytest
from executor import EXECUTOR, LAUNCHERS, succeeds
from weights import BITS, compile_manifest, random_tensors, slices, write_file, write_index

ON_GPUS = pathlib.Path(EXECUTOR).parent / "tests" / "tpplan_load_simulated"
DRIVER = pathlib.Path(EXECUTOR).parent / "tests" / "tpplan_load_driver"
SHAPES = {
    "a.rows": ("float32", (10, 6)),
    "a.columns": ("bfloat16", (7, 12)),
    "a.thin": ("bfloat16", (40, 16)),
    "b.both": ("float32", (9, 10)),
    "b.stacked": ("float16", (3, 8, 10)),
    "b.fused": ("float32", (12, 4)),
    "c.line": ("float64", (11,)),
    "c.scalar": ("float32", ()),
    "c.empty": ("float32", (0, 4)),
    "c.short": ("int32", (2, 3)),
    "d.end": ("bfloat16", (8, 6)),
    "e.start": ("bfloat16", (8, 6)),
    "f.buffer": ("float32", (3,)),
    "f.gone": ("float32", (4,)),
}
SPECS = {
    "a.rows": ["tp", None],
    "a.columns": [None, "tp"],
    "a.thin": [None, "tp"],
    "b.both": ["fsdp", "tp"],
    "b.stacked": [None, "tp", "fsdp"],
    "b.fused": ["tp", None],
    "c.line": [["tp", "fsdp"]],
    "c.short": ["tp", None],
    "d.end": [None, "tp"],
    "e.start": [None, "tp"],
}
TIED, BUFFERS = [("d.end", "e.start")], ("f.buffer", "f.gone")
MESH = {"fsdp": 2, "tp": 3}
TENSOR = re.compile(r"tensor (\S+) (\S+) (\d) (\d+) (\[.*?\]) (\[.*?\]) (\w*) (\w\w)\n")


def drive(*arguments, **options):
    env = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    command = [DRIVER, *map(str, arguments), *(f"{name}={value}" for name, value in options.items())]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)


def read(*arguments, **options):
    """{path: bytes} of a successful call, and the paths in the order of the callbacks."""
    done = drive(*arguments, **options)
    assert done.returncode == 0, done.stderr
    found = TENSOR.findall(done.stdout)
    assert {row[-1] for row in found} == {"a5"}, "a byte behind a target was written"
    return {row[0]: bytes.fromhex(row[6]) for row in found}, re.findall(r"^filled (\S+)$", done.stdout, re.M)


def held(tensor, runs):
    """The bytes of a rank's shard of a tensor, given its intervals of each dim."""
    dtype, shape, content = tensor
    width = BITS[dtype] // 8
    indices = [[i for begin, end in dim for i in range(begin, end)] for dim in runs]
    strides = [math.prod(shape[d + 1 :]) * width for d in range(len(shape))]
    places = (sum(i * s for i, s in zip(index, strides)) for index in itertools.product(*indices))
    return b"".join(content[at : at + width] for at in places)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Manifest, tensors, and the shards of each rank. `weights` has the tensors as files with an index."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tensors = random_tensors({name: shape for name, shape in SHAPES.items() if name not in ("e.start", "f.gone")})
    (folder / "weights").mkdir()
    write_index(folder / "weights", tensors)
    manifest = compile_manifest(
        folder, SHAPES, SPECS, MESH, tied=TIED, segments={"b.fused": {"d0": [6, 3, 3]}}, buffers=BUFFERS
    )
    tensors["e.start"] = tensors["d.end"]
    ranks = [
        {path: held(tensors[path], runs) for path, runs in of_rank.items()} | {"f.buffer": tensors["f.buffer"][2]}
        for of_rank in slices(manifest, 6)
    ]
    return manifest, tensors, ranks


def test_each_rank_loads_its_shards(checkpoint):
    manifest, tensors, ranks = checkpoint
    for rank, expected in enumerate(ranks):
        for options in ({}, {"threads": 3, "staging": 1 << 20, "text": 1}, {"shared": 1, "again": 1}):
            found, told = read(manifest, manifest.parent / "weights", rank, **options)
            assert found == expected
            assert sorted(told) == sorted(expected)  # each once; with "again" in the first call


def test_saved_folder_loads_on_another_mesh(checkpoint, tmp_path):
    manifest, tensors, _ = checkpoint
    succeeds("save", manifest, "--weights", manifest.parent / "weights", "-o", tmp_path / "saved")
    assert len(list((tmp_path / "saved").glob("*.safetensors"))) > 1
    other = compile_manifest(
        tmp_path,
        SHAPES,
        SPECS,
        {"tp": 2, "fsdp": 1},
        tied=TIED,
        segments={"b.fused": {"d0": [6, 3, 3]}},
        buffers=BUFFERS,
    )
    for rank, runs in enumerate(slices(other, 2)):
        found, _ = read(other, tmp_path / "saved", rank)
        expected = {path: held(tensors[path], dims) for path, dims in runs.items()}
        assert found == expected | {"f.buffer": tensors["f.buffer"][2]}


def test_tensor_description_matches_the_manifest(checkpoint):
    manifest, _, _ = checkpoint
    done = drive(manifest, manifest.parent / "weights", 1)
    rows = {row[0]: row[1:6] for row in TENSOR.findall(done.stdout)}
    assert rows["a.columns"] == ("bfloat16", "0", "1", "[7, 4]", "[7, 12]")
    assert rows["e.start"][2] == rows["d.end"][2]
    assert rows["f.buffer"][1] == "1" and "f.gone" not in rows
    assert "warning[TP8025]" in done.stderr


def test_single_tensor_reads_only_its_bytes(checkpoint):
    manifest, _, ranks = checkpoint
    for path in ("a.rows", "e.start"):
        done = drive(manifest, manifest.parent / "weights", 4, only=path)
        assert [row[0] for row in TENSOR.findall(done.stdout)] == [path]
        assert bytes.fromhex(TENSOR.findall(done.stdout)[0][6]) == ranks[4][path]
        needed = int(re.search(r"^read \d+ (\d+)$", done.stdout, re.M)[1])
        assert needed == len(ranks[4][path])


def test_prefix_maps_checkpoint_names_to_the_manifest(checkpoint, tmp_path):
    manifest, tensors, ranks = checkpoint
    stored = {f"model.{name}": t for name, t in tensors.items() if name != "e.start"}
    stored["extra"] = ("int8", (2,), b"ab")
    write_file(tmp_path / "w.safetensors", stored)
    assert read(manifest, tmp_path / "w.safetensors", 5, prefix="model.")[0] == ranks[5]
    done = drive(manifest, tmp_path / "w.safetensors", 5)
    assert done.returncode == 1 and "error[TP8022]: parameter `a.rows`" in done.stderr
    stored["model.a.rows"] = ("float64", (10, 6), bytes(480))
    write_file(tmp_path / "w.safetensors", stored)
    done = drive(manifest, tmp_path / "w.safetensors", 5, prefix="model.")
    assert done.returncode == 1 and "`a.rows` (stored as `model.a.rows`) is float64 in the weights" in done.stderr


def test_progress_ends_at_the_total(checkpoint):
    manifest, _, _ = checkpoint
    done = drive(manifest, manifest.parent / "weights", 0)
    reached, total = re.search(r"^progress (\d+) of (\d+)$", done.stdout, re.M).groups()
    assert reached == total == re.search(r"^read (\d+) ", done.stdout, re.M)[1]


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        ({"short": "a.rows"}, 1, "`a.rows`: its target has 95 bytes, but rank 0 holds 96 bytes of it"),
        ({"twice": "a.rows"}, 2, "`a.rows` has two targets"),
        ({"null": "a.rows"}, 2, "`a.rows`: `data` of its target is NULL"),
        ({"staging": 1000}, 2, "is too small: pass at least 1.00 MiB"),
        ({"size": 8}, 2, "the options are from another version"),
        ({"threads": -1}, 2, "`threads` is -1: pass 0 for the default"),
        ({"checksums": "/nowhere"}, 2, "error[TP8044]"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_invalid_arguments_are_rejected_and_write_nothing(checkpoint, options, status, says):
    manifest, _, ranks = checkpoint
    done = drive(manifest, manifest.parent / "weights", 0, kept=1, **options)
    assert done.returncode == status and says in done.stderr
    for path, _, _, _, _, _, content, after in TENSOR.findall(done.stdout):
        if path != options.get("null"):
            assert set(bytes.fromhex(content + after)) == {0xA5}


def test_callback_stops_the_load(checkpoint):
    manifest, _, ranks = checkpoint
    done = drive(manifest, manifest.parent / "weights", 0, stop=2, kept=1)
    assert done.returncode == 4 and "a callback stopped the call" in done.stderr
    told = re.findall(r"^filled (\S+)$", done.stdout, re.M)
    assert len(told) == 2
    found = {row[0]: bytes.fromhex(row[6]) for row in TENSOR.findall(done.stdout)}
    assert all(found[path] == ranks[0][path] for path in told)  # reported tensors are complete


def test_concurrent_calls_are_rejected(checkpoint):
    """From callbacks, and from concurrent threads: no wrong target, no double free, no missing read."""
    manifest, _, ranks = checkpoint
    found, told = read(manifest, manifest.parent / "weights", 3, inside=1)
    assert found == ranks[3] and sorted(told) == sorted(ranks[3])
    done = drive(manifest, manifest.parent / "weights", 3, at_once=4, inside=1)
    assert done.returncode == 0 and done.stdout.startswith("at once: one\n"), done.stdout[:200]
    assert {row[0]: bytes.fromhex(row[6]) for row in TENSOR.findall(done.stdout)} == ranks[3]


def test_wrong_manifest_weights_or_rank_shows_the_place(checkpoint, tmp_path):
    manifest, tensors, _ = checkpoint
    weights = manifest.parent / "weights"
    (tmp_path / "edited.json").write_text(manifest.read_text().replace('"a.rows"', '"a.lines"', 1))
    lacking = {name: t for name, t in tensors.items() if name != "a.rows"}
    write_file(tmp_path / "lacking.safetensors", lacking)
    write_file(tmp_path / "wider.safetensors", tensors | {"a.rows": ("float64", (10, 6), bytes(480))})
    write_file(tmp_path / "cut.safetensors", tensors)
    content = (tmp_path / "cut.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(content[:-1])
    cases = [
        ((tmp_path / "none.json", weights, 0), 2, "none.json: error[TP1001]"),
        ((tmp_path / "edited.json", weights, 0), 1, "edited.json:"),
        ((manifest, tmp_path / "none", 0), 2, "none:1:1: error[TP1001]"),
        ((manifest, tmp_path / "lacking.safetensors", 0), 1, "error[TP8022]: parameter `a.rows`"),
        ((manifest, tmp_path / "wider.safetensors", 0), 1, "error[TP8023]"),
        ((manifest, tmp_path / "cut.safetensors", 0), 2, "cut.safetensors:1:1: error[TP6"),
        ((manifest, weights, 6), 2, "rank 6 is not in a mesh of 6 ranks"),
        ((manifest, weights, -1), 2, "rank -1 is not in a mesh of 6 ranks"),
    ]
    for arguments, status, says in cases:
        done = drive(*arguments)
        assert (done.returncode, says in done.stderr) == (status, True), (says, done.returncode, done.stderr)
        assert done.stdout == ""


def test_garbage_headers_are_an_error(checkpoint, tmp_path):
    manifest, _, _ = checkpoint
    for content in (b"", b"\xff" * 64, struct.pack("<Q", 1 << 60) + b"{}", struct.pack("<Q", 2) + b"[]"):
        (tmp_path / "w.safetensors").write_bytes(content)
        done = drive(manifest, tmp_path / "w.safetensors", 0)
        assert done.returncode in (1, 2) and "error[TP" in done.stderr, content


def test_checksums_are_verified_during_the_load(checkpoint, tmp_path):
    manifest, tensors, ranks = checkpoint
    weights, sums = manifest.parent / "weights", tmp_path / "sums.json"
    succeeds("verify", manifest, "--weights", weights, "--write-checksums", sums)
    for rank, expected in enumerate(ranks):
        assert read(manifest, weights, rank, checksums=sums)[0] == expected
    dtype, shape, content = tensors["a.rows"]
    changed = tensors | {"a.rows": (dtype, shape, content[:5] + bytes([content[5] ^ 1]) + content[6:])}
    del changed["e.start"]
    write_file(tmp_path / "changed.safetensors", changed)
    done = drive(manifest, tmp_path / "changed.safetensors", 0, checksums=sums)
    assert done.returncode == 1 and "error[TP8043]: rank 0: `a.rows` has SHA-256" in done.stderr
    assert "filled a.rows" not in done.stdout
    assert read(manifest, tmp_path / "changed.safetensors", 2, checksums=sums)  # whose rows are unchanged
    other = compile_manifest(tmp_path, SHAPES, SPECS, {"tp": 1, "fsdp": 1}, tied=TIED, buffers=BUFFERS)
    done = drive(other, weights, 0, checksums=sums)
    assert done.returncode == 1 and "error[TP8030]" in done.stderr


def test_failed_allocation_never_ends_the_process(checkpoint, tmp_path):
    """Every allocation, from the first to the last: each failure is an error that names it."""
    if "TPPLAN_SANITIZED" in os.environ:
        pytest.skip("sanitizers have an allocator of their own")
    shapes = {"a.x": ("float32", (4, 4)), "a.y": ("float32", (4, 4))}
    manifest = compile_manifest(tmp_path, shapes, {"a.x": ["tp", None]}, {"tp": 2})
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors", "--write-checksums", tmp_path / "sums.json")
    done = drive(manifest, tmp_path / "w.safetensors", 1, malloc=0, checksums=tmp_path / "sums.json")
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert int(done.stdout.split()[0]) > 500


def on_gpu(manifest, weights, rank, gpu, *more, **variables):
    """The result of a load into a simulated GPU, and {path: bytes} of the reported tensors."""
    command = [ON_GPUS, manifest, weights, rank, gpu, *more]
    env = os.environ | {"SIMULATED_GPUS": "6"} | variables
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env, timeout=120)
    return done, {line.split(" ")[0]: bytes.fromhex(line.split(" ")[1]) for line in done.stdout.splitlines()}


def test_gpu_memory_is_filled_from_threads_on_that_gpu(checkpoint, tmp_path):
    manifest, tensors, ranks = checkpoint
    weights = manifest.parent / "weights"
    for rank, expected in enumerate(ranks):
        done, found = on_gpu(manifest, weights, rank, 5 - rank)
        assert done.returncode == 0, done.stderr
        assert {path: found[path] for path in expected} == expected
        if rank < 2:  # no later copy waits for the copy to a tied name
            _, found = on_gpu(manifest, weights, rank, 0, LOAD_ONLY="d.end e.start")
            assert found == {path: expected[path] for path in ("d.end", "e.start")}
    succeeds("verify", manifest, "--weights", weights, "--write-checksums", tmp_path / "sums")
    done, found = on_gpu(manifest, weights, 1, 2, tmp_path / "sums")
    assert done.returncode == 0 and found["a.rows"] == ranks[1]["a.rows"], done.stderr
    other = {name: (dtype, shape, content[::-1]) for name, (dtype, shape, content) in tensors.items()}
    write_file(tmp_path / "other.safetensors", other)
    done, _ = on_gpu(manifest, tmp_path / "other.safetensors", 1, 2, tmp_path / "sums")
    assert done.returncode == 1 and "error[TP8043]" in done.stderr
    wide = {
        name: ("float64" if dtype == "float32" else dtype, shape, content * 2 if dtype == "float32" else content)
        for name, (dtype, shape, content) in tensors.items()
    }
    write_file(tmp_path / "wide.safetensors", wide)
    done, found = on_gpu(manifest, tmp_path / "wide.safetensors", 0, 0, LOAD_DTYPE="manifest")
    assert (done.returncode, found) == (2, {}) and "is cast, which is supported only in host memory" in done.stderr


def test_gpu_error_ends_the_load_and_is_reported(checkpoint):
    manifest, _, ranks = checkpoint
    failures = 0
    for call in range(45, 2000, 23):
        done, found = on_gpu(manifest, manifest.parent / "weights", 0, 0, SIMULATED_CUDA_FAULT=f"call={call}")
        if done.returncode == 0:
            break
        failures += done.returncode == 1 and "error[TP8011]: GPU 0: cudaErrorIllegalAddress" in done.stderr
    assert done.returncode == 0 and failures > 3
