"""reshard on many ranks: each rank opens only the files that it reads, unchanged shards are not moved, and a folder that its manifest does
not describe byte by byte is read header by header. The results are compared with those of `save` with the same manifest."""

import json
import os
import pathlib
import random
import re

import pytest
from conftest import run
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


def test_opened_files_do_not_grow_with_the_rank_count(tmp_path):
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


def test_same_layout_moves_no_bytes(saved, tmp_path):
    manifest, folder = saved
    result = moved(manifest, manifest, folder, tmp_path / "B")
    assert result == {
        "read_bytes": 0,
        "written_bytes": 0,
        "kept_bytes": data_size(folder),
        "most_files_opened": 0,
        "checked_bytes": sum(byte_count(*v) for v in SHAPES.values()),
    }
    assert files(tmp_path / "B") == files(folder)
    for path in folder.glob("*.safetensors"):
        assert path.stat().st_ino == (tmp_path / "B" / path.name).stat().st_ino


def test_shards_are_copied_if_links_fail(saved, tmp_path):
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


def link_shards(folder, target):
    """Moves the shards into `target` and creates symbolic links, as a user with a full disk does."""
    target.mkdir(exist_ok=True)
    for path in folder.glob("*.safetensors"):
        path.rename(target / path.name)
        path.symlink_to(target / path.name)


def test_links_inside_the_folder_become_files(saved, tmp_path):
    manifest, folder = saved
    for path in list(folder.glob("*.safetensors")):
        path.rename(folder / f"{path.name}.data")
        path.symlink_to(f"{path.name}.data")
    moved(manifest, manifest, folder, tmp_path / "B")
    assert not any(path.is_symlink() for path in (tmp_path / "B").iterdir())
    succeeds("verify", manifest, "--from", tmp_path / "B", "--weights", tmp_path / "w.safetensors")


@pytest.mark.parametrize("ranks", [(2, 2), (3, 2)])
@pytest.mark.parametrize("is_dangling", [False, True])
def test_links_out_of_the_folder_are_rejected(ranks, is_dangling, saved, tmp_path):
    manifest, folder = saved
    link_shards(folder, tmp_path / "elsewhere")
    if is_dangling:
        (tmp_path / "elsewhere").rename(tmp_path / "moved")
    other = compile_manifest(tmp_path, SHAPES, CUT, {"fsdp": ranks[0], "tp": ranks[1]}, "b.json")
    result = execute("reshard", manifest, other, "--from", folder, "--to", tmp_path / "B")
    assert result.returncode in (1, 2) and "symbolic link" in result.stderr, result.stderr
    assert not (tmp_path / "B").exists()


def test_flipped_bit_in_a_reused_shard_is_found(saved, tmp_path):
    manifest, folder = saved
    path = sorted(folder.glob("*.safetensors"))[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = execute("reshard", manifest, manifest, "--from", folder, "--to", tmp_path / "B")
    assert result.returncode == 1 and "TP8043" in result.stderr and not (tmp_path / "B").exists()


def test_only_changed_shards_are_moved(tmp_path):
    """Twice the ranks: the first half holds the same shards, the others have no files."""
    shapes = {"m.a": ("float32", (8, 8)), "m.b": ("float32", (8,))}
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    a = compile_manifest(tmp_path, shapes, {"m.a": ["tp", None]}, {"tp": 2}, "a.json")
    b = compile_manifest(tmp_path, shapes, {"m.a": ["tp", None]}, {"dp": 2, "tp": 2}, "b.json")
    succeeds("save", a, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "A")
    assert moved(a, b, tmp_path / "A", tmp_path / "B")["kept_bytes"] == data_size(tmp_path / "A")
    succeeds("verify", b, "--from", tmp_path / "B", "--weights", tmp_path / "w.safetensors")
    # One more rank for `m.b` only: the shard of rank 1 is unchanged, that of rank 0 changes.
    c = compile_manifest(
        tmp_path, shapes | {"m.b": ("float32", (8,))}, {"m.a": ["tp", None], "m.b": ["tp"]}, {"tp": 2}, "c.json"
    )
    result = moved(a, c, tmp_path / "A", tmp_path / "C")
    assert result["kept_bytes"] == 0 and result["written_bytes"] == 8 * 8 * 4 + 8 * 4
    succeeds("verify", c, "--from", tmp_path / "C", "--weights", tmp_path / "w.safetensors")


def test_folder_without_metadata_is_read_by_headers(saved, tmp_path):
    manifest, folder = saved
    other = compile_manifest(tmp_path, SHAPES, CUT, {"fsdp": 3, "tp": 2}, "b.json")
    moved(manifest, other, folder, tmp_path / "B")
    (folder / "tpplan.json").unlink()
    result = moved(manifest, other, folder, tmp_path / "C")
    assert files(tmp_path / "C") == files(tmp_path / "B")
    assert result["most_files_opened"] == 4


@pytest.mark.parametrize("change", ["offsets", "shape", "cut off", "longer", "gone"])
@pytest.mark.parametrize("number", [1, 3])
def test_file_that_differs_from_the_manifest_is_named(change, number, saved, tmp_path):
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


def test_manifest_of_the_same_shardings_fits(saved, tmp_path):
    """Only the hash of the model file differs, which was formatted again."""
    manifest, folder = saved
    model = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(model, indent=1))
    again = tmp_path / "again.json"
    result = run("compile", tmp_path / "model.json", tmp_path / "plan.yaml", "-o", again)
    assert result.returncode == 0 and again.read_bytes() != manifest.read_bytes()
    assert moved(again, manifest, folder, tmp_path / "B")["written_bytes"] == 0
    succeeds("verify", again, "--from", folder, "--weights", tmp_path / "w.safetensors")


def test_manifests_of_two_models_are_rejected(saved, tmp_path):
    manifest, folder = saved
    padded = compile_manifest(tmp_path, SHAPES | {"m.a": ("float32", (32, 16))}, CUT, {"tp": 2, "fsdp": 2}, "b.json")
    said = execute("reshard", manifest, padded, "--from", folder, "--to", tmp_path / "B").stderr
    assert re.search(r"error\[TP8023\]: `m.a` has shape \[24, 16\] in \S*a.json and \[32, 16\] here", said), said
    assert not (tmp_path / "B").exists()
