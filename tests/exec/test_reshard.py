"""reshard among many ranks: each opens the files that it reads and no others, what does not change is not moved, and a folder that
its manifest does not know to the byte is read header by header. Held against what `save` writes by the same manifest."""

import json
import os
import pathlib
import random

import pytest
from executor import execute, succeeds
from weights import byte_count, compile_manifest, random_tensors, write_file

FAULTY = str(pathlib.Path(os.environ["TPPLAN"]).parent / "tests" / "libtpplan_faulty_calls.so")
SHAPES = {"m.a": ("float32", (24, 16)), "m.b": ("bfloat16", (16, 24)), "m.c": ("float32", (5,)), "m.d": ("int8", (48,))}
CUT = {"m.a": ["fsdp", "tp"], "m.b": [None, "tp"], "m.d": [["tp", "fsdp"]]}


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def data_size(folder):
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def moved(before, after, source, target, **more):
    return json.loads(succeeds("reshard", before, after, "--from", source, "--to", target, "--json", **more).stdout)


@pytest.fixture
def saved(tmp_path):
    """(manifest, folder) of a job of 4 ranks."""
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, CUT, {"fsdp": 2, "tp": 2}, "a.json")
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "A")
    return manifest, tmp_path / "A"


def test_a_rank_opens_as_many_files_however_many_ranks_there_are(tmp_path):
    shapes = {f"m.{i}": ("float32", (256, 16)) for i in range(3)}
    cut = dict.fromkeys(shapes, ["fsdp", "tp"])
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    opened = []
    for ranks in (16, 64, 256):
        a = compile_manifest(tmp_path, shapes, cut, {"fsdp": ranks // 8, "tp": 8}, f"a{ranks}.json")
        b = compile_manifest(tmp_path, shapes, cut, {"fsdp": ranks // 4, "tp": 4}, f"b{ranks}.json")
        folder = tmp_path / f"A{ranks}"
        succeeds("save", a, "--weights", tmp_path / "w.safetensors", "-o", folder)
        result = moved(a, b, folder, tmp_path / f"B{ranks}")
        assert result["read_bytes"] == result["written_bytes"] == sum(byte_count(*v) for v in shapes.values())
        opened.append(result["most_files_opened"])
    assert opened == [8, 8, 8]  # those of one row of the old mesh


def test_the_same_layout_moves_nothing(saved, tmp_path):
    manifest, folder = saved
    result = moved(manifest, manifest, folder, tmp_path / "B")
    assert result == {
        "read_bytes": 0,
        "written_bytes": 0,
        "kept_bytes": data_size(folder),
        "most_files_opened": 0,
        "checked_bytes": 0,
    }
    assert files(tmp_path / "B") == files(folder)
    for path in folder.glob("*.safetensors"):
        assert path.stat().st_ino == (tmp_path / "B" / path.name).stat().st_ino


def test_what_cannot_be_linked_is_copied(saved, tmp_path):
    manifest, folder = saved
    other_disk = {
        "LD_PRELOAD": FAULTY,
        "FAULTY_CALL": "name=link,number=0,kind=18",
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
        "TSAN_OPTIONS": "report_bugs=0",
    }
    words = ["reshard", manifest, manifest, "--from", folder, "--to", tmp_path / "B", "--json"]
    result = execute(*words, env=other_disk, stdin=-3)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["kept_bytes"] == data_size(folder)
    assert files(tmp_path / "B") == files(folder)
    for path in folder.glob("*.safetensors"):
        assert path.stat().st_ino != (tmp_path / "B" / path.name).stat().st_ino


def test_only_what_changes_is_moved(tmp_path):
    """Twice the ranks, of which the first half hold what they held: the others have no files at all."""
    shapes = {"m.a": ("float32", (8, 8)), "m.b": ("float32", (8,))}
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    a = compile_manifest(tmp_path, shapes, {"m.a": ["tp", None]}, {"tp": 2}, "a.json")
    b = compile_manifest(tmp_path, shapes, {"m.a": ["tp", None]}, {"dp": 2, "tp": 2}, "b.json")
    succeeds("save", a, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "A")
    assert moved(a, b, tmp_path / "A", tmp_path / "B")["kept_bytes"] == data_size(tmp_path / "A")
    succeeds("verify", b, "--from", tmp_path / "B", "--weights", tmp_path / "w.safetensors")
    # One rank more for `m.b` alone: rank 1 has what it had, rank 0 has not.
    c = compile_manifest(
        tmp_path, shapes | {"m.b": ("float32", (8,))}, {"m.a": ["tp", None], "m.b": ["tp"]}, {"tp": 2}, "c.json"
    )
    result = moved(a, c, tmp_path / "A", tmp_path / "C")
    assert result["kept_bytes"] == 0 and result["written_bytes"] == 8 * 8 * 4 + 8 * 4
    succeeds("verify", c, "--from", tmp_path / "C", "--weights", tmp_path / "w.safetensors")


def test_a_folder_without_a_note_is_read_header_by_header(saved, tmp_path):
    manifest, folder = saved
    other = compile_manifest(tmp_path, SHAPES, CUT, {"fsdp": 3, "tp": 2}, "b.json")
    moved(manifest, other, folder, tmp_path / "B")
    (folder / "tpplan.json").unlink()
    result = moved(manifest, other, folder, tmp_path / "C")
    assert files(tmp_path / "C") == files(tmp_path / "B")
    assert result["most_files_opened"] == 4


@pytest.mark.parametrize("change", ["offsets", "shape", "cut off", "longer", "gone"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_file_that_is_not_what_the_manifest_says_is_refused_by_name(change, number, saved, tmp_path):
    manifest, folder = saved
    path = folder / f"shard-{number:05}-model-00001-of-00001.safetensors"
    content = path.read_bytes()
    if change == "offsets":
        at = content.index(b"m.a") + len(b'm.a\\":{\\"saved_offsets\\":[')
        path.write_bytes(content[:at] + b"9" + content[at + 1 :])
    elif change == "shape":
        path.write_bytes(content.replace(b'"shape":[12,8]', b'"shape":[8,12]'))
        assert path.read_bytes() != content
    elif change == "cut off":
        path.write_bytes(content[:-1])
    elif change == "longer":
        path.write_bytes(content + b"x")
    else:
        path.unlink()
    other = compile_manifest(tmp_path, SHAPES, CUT, {"fsdp": 1, "tp": 2}, "b.json")
    result = execute("reshard", manifest, other, "--from", folder, "--to", tmp_path / "B")
    assert result.returncode in (1, 2) and "error[TP" in result.stderr, result.stderr
    assert str(folder) in result.stderr
    assert not (tmp_path / "B").exists() and not list(tmp_path.glob("B.tmp-*"))


@pytest.mark.parametrize("seed", range(12))
def test_any_layout_to_any_other(seed, tmp_path):
    source = random.Random(seed)
    shapes, buffers = {}, ("m.buffer",)
    for i in range(source.randint(2, 6)):
        dims = tuple(source.choice([1, 3, 4, 7, 12, 30]) for _ in range(source.randint(0, 3)))
        shapes[f"m.w{i}"] = (source.choice(["float32", "bfloat16", "int8"]), dims)
    shapes["m.empty"], shapes["m.buffer"] = ("float32", (0, 4)), ("float32", (6,))
    stored = {name: shape for name, shape in shapes.items() if seed % 2 or name not in buffers}
    write_file(tmp_path / "w.safetensors", random_tensors(stored, seed))

    def manifest(name):
        mesh = {axis: source.randint(1, 3) for axis in ("x", "y", "z")}
        cuts = {}
        for tensor, (_, dims) in shapes.items():
            axes = list(mesh)
            source.shuffle(axes)
            cut = [None] * len(dims)
            for axis in axes[: source.randint(0, 3)] if dims and tensor not in buffers else []:
                d = source.randrange(len(dims))
                cut[d] = [*(cut[d] or []), axis]
            if any(cut) or tensor == "m.w0":
                cuts[tensor] = cut
        return compile_manifest(tmp_path, shapes, cuts, mesh, name, buffers=buffers)

    a, b = manifest("a.json"), manifest("b.json")
    for name, folder in ((a, "A"), (b, "direct")):
        succeeds("save", name, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / folder)
    moved(a, b, tmp_path / "A", tmp_path / "B")
    assert files(tmp_path / "B") == files(tmp_path / "direct")
    (tmp_path / "A" / "tpplan.json").unlink()
    moved(a, b, tmp_path / "A", tmp_path / "C")
    assert files(tmp_path / "C") == files(tmp_path / "direct")
