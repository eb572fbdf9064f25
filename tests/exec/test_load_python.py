"""tpplan.load into plain Python memory, without a framework and numpy: results, callbacks and rejections."""

import errno
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import textwrap

import pytest
from executor import ROOT, succeeds
from test_load_library import BITS, BUFFERS, MESH, SHAPES, SPECS, TIED, held
from weights import compile_manifest, random_tensors, slices, write_file, write_index

from conftest import signed

if "TPPLAN_SANITIZED" in os.environ:
    pytest.skip("a library with sanitizers cannot be loaded into Python", allow_module_level=True)
sys.path.insert(0, str(ROOT / "tools" / "python"))

import tpplan  # noqa: E402


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Manifest, tensors, and for each rank the bytes of its shards."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tensors = random_tensors({name: shape for name, shape in SHAPES.items() if name not in ("e.start", "f.gone")})
    (folder / "weights").mkdir()
    write_index(folder / "weights", tensors)
    manifest = compile_manifest(folder, SHAPES, SPECS, MESH, tied=TIED, buffers=BUFFERS)
    tensors["e.start"] = tensors["d.end"]
    ranks = [{path: held(tensors[path], runs) for path, runs in of_rank.items()} for of_rank in slices(manifest, 6)]
    return manifest, tensors, ranks


def memory_for(expected):
    return {path: bytearray(b"\xa5" * len(content)) for path, content in expected.items()}


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_memory_is_filled_with_the_shards_of_the_rank(checkpoint):
    manifest, _, ranks = checkpoint
    for source in (manifest, str(manifest), tpplan.load_manifest(manifest)):
        for rank, expected in enumerate(ranks):
            into = memory_for(expected)
            done = tpplan.load(source, manifest.parent / "weights", rank=rank, into=into)
            assert into == expected
            assert set(done.paths) == set(expected) and set(done.left) == {"f.buffer", "f.gone"}
            assert done.needed_bytes == sum(map(len, expected.values())) - len(expected["e.start"])


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_module_callback_follows_its_last_tensor(checkpoint):
    manifest, _, ranks = checkpoint
    into, told = memory_for(ranks[2]), []

    def on_module(module):
        told.append(module)
        for path, content in into.items():
            if path.startswith(f"{module}." if module else ""):
                assert content == ranks[2][path], (module, path)

    progress = []
    tpplan.load(
        manifest,
        manifest.parent / "weights",
        rank=2,
        into=into,
        on_module=on_module,
        progress=lambda *done: progress.append(done),
        threads=1,
    )
    assert sorted(told) == ["", "a", "b", "c", "d", "e"] and told[-1] == ""
    assert progress[-1][0] == progress[-1][1] > 0


def test_single_tensor_costs_only_its_bytes(checkpoint):
    manifest, _, ranks = checkpoint
    into = {"e.start": bytearray(len(ranks[1]["e.start"]))}
    with pytest.warns(tpplan.LoadWarning, match="TP8025"):
        done = tpplan.load(manifest, manifest.parent / "weights", rank=1, into=into)
    assert into["e.start"] == ranks[1]["e.start"]
    assert done.needed_bytes == len(ranks[1]["e.start"]) and done.paths == ("e.start",)


def test_saved_folder_loads_on_another_mesh(checkpoint, tmp_path):
    manifest, tensors, _ = checkpoint
    succeeds("save", manifest, "--weights", manifest.parent / "weights", "-o", tmp_path / "saved")
    other = compile_manifest(tmp_path, SHAPES, SPECS, {"tp": 2, "fsdp": 1}, tied=TIED, buffers=BUFFERS)
    for rank, runs in enumerate(slices(other, 2)):
        expected = {path: held(tensors[path], dims) for path, dims in runs.items()}
        into = memory_for(expected)
        with pytest.warns(tpplan.LoadWarning):
            tpplan.load(other, tmp_path / "saved", rank=rank, into=into)
        assert into == expected


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_raising_callback_ends_the_load(checkpoint):
    manifest, _, ranks = checkpoint
    into, told = memory_for(ranks[0]), []

    def on_module(module):
        told.append(module)
        raise KeyError(module)

    with pytest.raises(KeyError):
        tpplan.load(manifest, manifest.parent / "weights", rank=0, into=into, on_module=on_module)
    assert len(told) == 1
    assert all(into[path] == ranks[0][path] for path in into if path.startswith(f"{told[0]}."))


def wrong_target(path, value):
    def change(into):
        into[path] = value(into.get(path, b""))

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (wrong_target("a.rows", lambda old: old[:-1]), "`a.rows`: has 95 bytes, but this rank's shard has 96"),
        (wrong_target("a.rows", bytes), "`a.rows`: is read-only"),
        (wrong_target("a.rows", lambda old: memoryview(bytearray(192))[::2]), "`a.rows`: is not contiguous"),
        (wrong_target("a.rows", lambda old: [0.0] * 24), "`a.rows`: cannot be written to: list"),
        (wrong_target("a.more", lambda old: old), "`a.more`: is not in the manifest"),
        (wrong_target("f.gone", lambda old: bytearray(16)), "buffer `f.gone`: is not in the weights"),
    ],
    ids=["too short", "read-only", "with gaps", "a list", "unknown", "not stored"],
)
def test_wrong_target_memory_is_named_and_nothing_written(checkpoint, change, says):
    manifest, _, ranks = checkpoint
    into = memory_for(ranks[0])
    change(into)
    with pytest.raises(tpplan.ManifestError, match=says):
        tpplan.load(manifest, manifest.parent / "weights", rank=0, into=into)
    assert all(set(bytes(into[path])) <= {0xA5} for path in ranks[0] if path != "a.rows")


def test_library_errors_are_raised_with_their_text(checkpoint, tmp_path):
    manifest, tensors, ranks = checkpoint
    write_file(tmp_path / "lacking.safetensors", {name: t for name, t in tensors.items() if name != "a.rows"})
    write_file(tmp_path / "cut.safetensors", tensors)
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "cut.safetensors").read_bytes()[:-1])
    for weights, rank, says, status in (
        (tmp_path / "lacking.safetensors", 0, r"error\[TP8022\]: parameter `a.rows`", 1),
        (tmp_path / "cut.safetensors", 0, r"cut.safetensors:1:1: error\[TP6", 2),
        (tmp_path / "none", 0, r"error\[TP1001\]", 2),
        (manifest.parent / "weights", 6, "rank 6 is not in a mesh of 6 ranks", 2),
    ):
        into = memory_for(ranks[0])
        with pytest.raises(tpplan.LoadError, match=says) as raised:
            tpplan.load(manifest, weights, rank=rank, into=into)
        assert raised.value.status == status
        assert all(set(content) <= {0xA5} for content in into.values())


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_file_truncated_during_the_load_is_named(checkpoint, tmp_path):
    manifest, tensors, ranks = checkpoint
    write_file(tmp_path / "w.safetensors", {n: t for n, t in tensors.items() if n != "e.start"})
    opened = tpplan.load_library.Weights(manifest, False, tmp_path / "w.safetensors", 0)
    os.truncate(tmp_path / "w.safetensors", 4000)
    into = memory_for(ranks[0])
    targets = [(opened.tensors[p], *address_of(p, opened.tensors[p], value)) for p, value in into.items()]
    with pytest.raises(tpplan.LoadError, match=r"w.safetensors: error\[TP8028\]"):
        opened.read(targets)
    opened.close()


def address_of(path, tensor, value):
    from tpplan.memory import target_of

    target = target_of(path, tensor, value)
    return target.address, target.size


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_checksums_are_compared(checkpoint, tmp_path):
    manifest, tensors, ranks = checkpoint
    weights, sums = manifest.parent / "weights", tmp_path / "sums.json"
    succeeds("verify", manifest, "--weights", weights, "--write-checksums", sums)
    into = memory_for(ranks[3])
    tpplan.load(manifest, weights, rank=3, into=into, checksums=sums)
    assert into == ranks[3]
    sums.write_text(sums.read_text().replace("0", "1", 3000))
    with pytest.raises(tpplan.LoadError):
        tpplan.load(manifest, weights, rank=3, into=into, checksums=sums)


def test_load_needs_little_extra_memory(tmp_path):
    """64 MiB into existing memory: the peak of the process grows by less than a tenth of it, and each byte is read once."""
    shapes = {"a.w": ("float32", (4096, 8192)), "a.v": ("bfloat16", (2048, 8192))}
    manifest = compile_manifest(tmp_path, shapes, {"a.w": [None, "tp"], "a.v": ["tp", None]}, {"tp": 2})
    write_file(tmp_path / "w.safetensors", {name: (*shape, b"") for name, shape in shapes.items()})
    header = (tmp_path / "w.safetensors").read_bytes()[8:]
    total = sum(math.prod(shape) * BITS[dtype] // 8 for dtype, shape in shapes.values())
    at, text = 0, header.decode()
    for name, (dtype, shape) in shapes.items():
        size = math.prod(shape) * BITS[dtype] // 8
        text = text.replace('"data_offsets": [0, 0]', f'"data_offsets": [{at}, {at + size}]', 1)
        at += size
    with open(tmp_path / "w.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text.encode())
        file.truncate(8 + len(text) + total)
    code = f"""
    import resource, sys
    sys.path.insert(0, {str(ROOT / "tools" / "python")!r})
    import tpplan
    small = {{"a.v": memoryview(bytearray(2048 * 8192))}}
    tpplan.load({str(manifest)!r}, {str(tmp_path / "w.safetensors")!r}, rank=1, into=small, staging=1 << 20)
    into = small | {{"a.w": memoryview(bytearray(b"x" * (4096 * 8192 * 2)))}}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = tpplan.load({str(manifest)!r}, {str(tmp_path / "w.safetensors")!r}, rank=1, into=into, staging=1 << 20)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, done.read_bytes, done.needed_bytes)
    assert not any(into["a.w"][::4096])
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    grown, read, needed = map(int, ran.stdout.split())
    assert needed == total // 2 and read == needed
    assert grown * 1024 < needed // 10


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_rename_maps_checkpoint_names_to_the_manifest(checkpoint, tmp_path):
    manifest, tensors, ranks = checkpoint
    stored = {name.replace("a.", "old.").replace("b.", "old."): t for name, t in tensors.items() if name != "e.start"}
    write_file(tmp_path / "w.safetensors", stored)
    into = memory_for(ranks[0])
    old = {"rows": "a", "columns": "a", "thin": "a", "both": "b", "stacked": "b", "fused": "b"}
    for rename in (
        {r"^old\.(rows|columns|thin)$": r"a.\1", r"^old": "b"},
        lambda name: name.replace("old", old.get(name[4:], "")),
    ):
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=0, into=into, rename=rename)
        assert into == ranks[0]
    both = {"^old": "b", "b.rows": "a.rows", "b.columns": "a.rows"}
    with pytest.raises(
        tpplan.LoadError, match="`old.rows` and `old.columns` of the weights are both renamed to `a.rows`"
    ):
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=0, into=into, rename=both)
    with pytest.raises(ZeroDivisionError):
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=0, into=into, rename=lambda name: 1 // 0)
    with pytest.raises(tpplan.ManifestError, match="`rename`: is not a dict of regular expressions"):
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=0, into=into, rename={"(": ""})


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_one_module_loads_under_its_local_names(checkpoint):
    manifest, _, ranks = checkpoint
    into = {path[2:]: bytearray(len(ranks[1][path])) for path in ranks[1] if path.startswith("a.")}
    done = tpplan.load(manifest, manifest.parent / "weights", rank=1, into=into, prefix="a")
    assert into == {path[2:]: content for path, content in ranks[1].items() if path.startswith("a.")}
    assert set(done.paths) == set(into) and "a.rows" not in done.left and "c.line" in done.left
    with pytest.raises(tpplan.ManifestError, match="`b.rows`: is not in the manifest"):
        tpplan.load(manifest, manifest.parent / "weights", rank=1, into=into, prefix="b")


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_library_save_matches_the_program_save(checkpoint, tmp_path):
    from tpplan.load_weights import save_own

    manifest, _, ranks = checkpoint
    weights = manifest.parent / "weights"
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(signed(json.loads(manifest.read_text()) | {"buffers": []})))
    succeeds("save", path, "--weights", weights, "-o", tmp_path / "saved")
    (tmp_path / "own").mkdir()
    for rank, own in enumerate(ranks):
        save_own(path, rank, tmp_path / "own", {name: bytearray(content) for name, content in own.items()})
    files = {name: (tmp_path / "saved" / name).read_bytes() for name in os.listdir(tmp_path / "saved")}
    assert files == {name: (tmp_path / "own" / name).read_bytes() for name in os.listdir(tmp_path / "own")}
    with pytest.raises(tpplan.LoadError, match="TP8032"):
        save_own(path, 0, tmp_path / "none", memory_for(ranks[0]))
    with pytest.raises(KeyError):
        save_own(path, 0, tmp_path / "own", {})


def test_only_marked_unlocked_work_folders_are_removed(tmp_path):
    from tpplan.new_folder import begin_folder, drop_folder, finish_folder

    begin = "from tpplan.new_folder import begin_folder; print(begin_folder('out'), flush=True); input()"
    command, env = [sys.executable, "-c", begin], os.environ | {"PYTHONPATH": str(ROOT / "tools" / "python")}
    job = subprocess.Popen(command, cwd=tmp_path, env=env, stdin=-1, stdout=-1, text=True)
    with job:
        other = tmp_path / job.stdout.readline().strip()
        own = begin_folder(tmp_path / "out")
        assert other.is_dir() and own != str(other)
        drop_folder(own)
        job.kill()
        job.wait()
        assert [path.name for path in tmp_path.iterdir()] == [other.parent.name]
    kept = [".out.tpplan-20261126", "out.tmp-20261126-keep-this", f"{other.parent.name}-mine"]
    for name in kept:
        (tmp_path / name / "mine").mkdir(parents=True)
    with pytest.warns(UserWarning, match=r"removed the unfinished output .*TP8034"):
        own = begin_folder(tmp_path / "out")
    assert not other.exists()
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")  # a link to an empty folder: its target becomes the folder
    linked = begin_folder(tmp_path / "link")
    (pathlib.Path(linked) / "file").write_text("")
    finish_folder(linked, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path / "target") == ["file"]
    finish_folder(own, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["out", "link", "target", *kept])
    (tmp_path / "out" / "file").write_text("")
    with pytest.raises(tpplan.ManifestError, match="already exists"):
        begin_folder(tmp_path / "out")
    with pytest.raises(tpplan.ManifestError, match="cannot be created"):
        begin_folder(tmp_path / "out" / "file" / "below")


@pytest.mark.parametrize("call", ["fcntl.flock", "builtins.open"])
def test_failure_leaves_no_work_folder(tmp_path, monkeypatch, call):
    from tpplan.new_folder import begin_folder, drop_folder

    def fail(*_, **__):
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(call, fail)
        if call != "fcntl.flock":
            with pytest.raises(tpplan.ManifestError, match="cannot be created: No locks available"):
                begin_folder(tmp_path / "out")
        else:  # a file system without locks
            made = pathlib.Path(begin_folder(tmp_path / "out"))
            assert sorted(path.name for path in made.parent.iterdir()) == ["content", "tpplan-unfinished"]
            drop_folder(str(made))
    assert list(tmp_path.iterdir()) == []


def test_save_rejects_memory_of_another_dtype(checkpoint, tmp_path):
    manifest, _, ranks = checkpoint
    opened = tpplan.load_library.Weights(manifest, False, None, 0, dtype="float64")
    with pytest.raises(tpplan.LoadError, match="opened with a `dtype`: the saved shards would not match the manifest"):
        opened.save(tmp_path, [])
    opened.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(tpplan.LoadError, match="a part of `fused` has no name"):
        tpplan.load_library.Weights(manifest, False, manifest.parent / "weights", 0, fuse=[("fused", ["q", ""], 0)])


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_parts_are_fused_and_dtypes_cast(checkpoint, tmp_path):
    """Integer values only; python/test_load_forms.py has the rest."""
    manifest, tensors, _ = checkpoint
    rows, columns = range(12), range(4)
    values = [row * 16 + column for row in rows for column in columns]
    stored = {name: tensor for name, tensor in tensors.items() if name not in ("b.fused", "e.start")}
    stored["b.q"] = "float64", (8, 4), struct.pack("<32d", *values[:32])
    stored["b.k"] = "float64", (4, 4), struct.pack("<16d", *values[32:])
    write_file(tmp_path / "w.safetensors", stored)
    wanted = "float32", (12, 4), struct.pack("<48f", *values)
    for rank, runs in enumerate(slices(manifest, 6)):
        into = {"b.fused": bytearray(len(held(wanted, runs["b.fused"])))}
        rules = {"fuse": {"fused": ["q", "k"]}, "dtype": "manifest"}
        done = tpplan.load(manifest, tmp_path / "w.safetensors", rank=rank, into=into, **rules)
        assert into["b.fused"] == held(wanted, runs["b.fused"])
        assert done.needed_bytes == 2 * len(into["b.fused"])
        half = {"b.fused": bytearray(len(into["b.fused"]) // 2)}
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=rank, into=half, fuse=rules["fuse"], dtype="float16")
        count = len(half["b.fused"]) // 2
        assert struct.unpack(f"<{count}e", half["b.fused"]) == struct.unpack(f"<{count}f", into["b.fused"])
    with pytest.raises(
        tpplan.LoadError, match="is float64 in the weights and float32 in the manifest: dtypes are not cast"
    ):
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=0, into=into, fuse=rules["fuse"])
    with pytest.raises(tpplan.LoadError, match="`int32` is not a floating-point dtype of at least 16 bits"):
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=0, into=into, dtype="int32")
    with pytest.raises(tpplan.LoadError, match="TP8022.*`b.fused`"):
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=0, into=into, dtype="manifest")


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"threads": -3}, "`threads`: is -3"),
        ({"staging": -1}, "`staging`: is -1"),
        ({"rank": "0"}, "`rank`: is '0'"),
        ({"weights": None}, "`weights`: NoneType is not a path"),
        ({"weights": 5}, "`weights`: int is not a path"),
        ({"rename": lambda name: 3}, "`rename`: returns int for `"),
        ({"fuse": ["q"]}, "`fuse`: list is not a dict"),
        ({"fuse": {"q": {"parts": ["a", "b"], "groups": "x"}}}, "`fuse`: `q` has 'x' groups"),
        ({"prefix": "z"}, "`prefix`: the manifest has no tensor below `z`"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_invalid_argument_error_has_a_help(checkpoint, options, says):
    manifest, _, ranks = checkpoint
    into = memory_for(ranks[0])
    given = {"weights": manifest.parent / "weights", "rank": 0} | options
    with pytest.raises(tpplan.ManifestError, match=says) as raised:
        tpplan.load(manifest, into=into, **given)
    assert "= help: " in str(raised.value)
    assert all(set(content) <= {0xA5} for content in into.values())


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_shared_memory_of_untied_tensors_is_rejected(checkpoint):
    """The last write would be random; tied tensors hold the same bytes."""
    manifest, _, ranks = checkpoint
    into, memory = memory_for(ranks[0]), bytearray(b"\xa5" * 4096)
    into["d.end"] = into["e.start"] = memoryview(memory)[2000 : 2000 + len(ranks[0]["d.end"])]
    tpplan.load(manifest, manifest.parent / "weights", rank=0, into=into)
    assert into["d.end"] == ranks[0]["d.end"]
    memory[:] = b"\xa5" * 4096
    into["a.rows"] = memoryview(memory)[: len(ranks[0]["a.rows"])]
    into["a.columns"] = memoryview(memory)[50 : 50 + len(ranks[0]["a.columns"])]
    with pytest.raises(tpplan.LoadError, match="`a.rows` and `a.columns` share memory, but are not tied"):
        tpplan.load(manifest, manifest.parent / "weights", rank=0, into=into)
    assert set(memory) == {0xA5}


def test_remote_weights_are_rejected_with_a_help(checkpoint):
    manifest, _, ranks = checkpoint
    for address in ("https://example.com/model.safetensors", "s3://bucket/model.safetensors"):
        with pytest.raises(tpplan.LoadError, match="nothing is read over a network"):
            tpplan.load(manifest, address, rank=0, into=memory_for(ranks[0]))


@pytest.mark.parametrize("mesh", [{"fsdp": 2, "tp": 2}, {"fsdp": 1, "tp": 1}])
def test_flipped_bit_is_found_by_ranks_that_read_its_tensor(mesh, tmp_path):
    """On the mesh that wrote it, and on one in which a rank reads all of several files."""
    from test_own_checksums import CUT, SHAPES, SIZE, change_a_bit, save

    _, folder = save(tmp_path)
    other = compile_manifest(tmp_path, SHAPES, CUT, mesh, "other.json")
    cut = slices(other, math.prod(mesh.values()))
    ranks = [{path: held((*SHAPES[path], bytes(SIZE)), runs) for path, runs in own.items()} for own in cut]

    def load(rank, **more):
        into = memory_for(ranks[rank])
        return tpplan.load(other, folder, rank=rank, into=into, **more)

    sizes = [load(rank) for rank in range(len(ranks))]
    assert all(done.checked_bytes >= done.needed_bytes // 2 for done in sizes)
    assert len(ranks) > 1 or sizes[0].checked_bytes == SIZE
    change_a_bit(folder / "shard-00001-model-00001-of-00001.safetensors", "first")
    told = []
    with pytest.raises(tpplan.LoadError, match=r"error.TP8043.: `m.a` has CRC-32C") as raised:
        load(0, on_module=told.append)
    assert raised.value.status == 1 and "" not in told


@pytest.mark.filterwarnings("ignore::tpplan.LoadWarning")
def test_memory_cannot_be_resized_during_a_write(checkpoint):
    manifest, _, ranks = checkpoint
    into, refused = memory_for(ranks[0]), []

    def resize(*_):
        for content in filter(None, into.values()):
            with pytest.raises(BufferError):
                content.clear()
            refused.append(content)

    tpplan.load(manifest, manifest.parent / "weights", rank=0, into=into, progress=resize)
    assert refused and into == ranks[0]
    into["a.rows"].clear()


@pytest.mark.parametrize("name, value", [("rank", 1 << 32), ("threads", 1 << 32), ("staging", 1 << 64)])
def test_number_beyond_the_c_type_is_rejected(checkpoint, name, value):
    manifest, _, ranks = checkpoint
    into = memory_for(ranks[0])
    with pytest.raises(tpplan.ManifestError, match=f"`{name}`: is {value}\n"):
        tpplan.load(manifest, manifest.parent / "weights", into=into, **({"rank": 0} | {name: value}))
    assert all(set(content) <= {0xA5} for content in into.values())


def test_groups_of_a_fused_tensor_fit_into_64_bits(checkpoint):
    manifest, _, ranks = checkpoint
    fuse = {"qkv": {"parts": ["q", "k"], "groups": (1 << 64) + 1}}
    with pytest.raises(tpplan.ManifestError, match="`groups`: is 18446744073709551617\n"):
        tpplan.load(manifest, manifest.parent / "weights", rank=0, into=memory_for(ranks[0]), fuse=fuse)


def test_zero_byte_in_a_name_is_rejected(checkpoint, tmp_path):
    manifest, tensors, ranks = checkpoint
    weights = str(manifest.parent / "weights")
    for changed in (
        {"manifest": f"{manifest}\0x"},
        {"weights": f"{weights}\0x"},
        {"checksums": f"{tmp_path}\0x"},
        {"rename": lambda name: f"{name}\0x"},
        {"dtype": "manifest\0x"},
        {"fuse": {"a\0x": ["b", "c"]}},
        {"fuse": {"a": ["b\0x", "c"]}},
    ):
        into = memory_for(ranks[0])
        arguments = {"manifest": manifest, "weights": weights, "rank": 0, "into": into} | changed
        with pytest.raises(tpplan.ManifestError, match=f"`{next(iter(changed))}`: .*(zero|null) byte"):
            tpplan.load(**arguments)
        assert all(set(content) <= {0xA5} for content in into.values())
    write_file(tmp_path / "w.safetensors", {f"{name}\0x": tensor for name, tensor in tensors.items()})
    with pytest.raises(tpplan.LoadError, match=r"a tensor `\S+x`: `rename` does not support names with a zero byte"):
        tpplan.load(manifest, tmp_path / "w.safetensors", rank=0, into=memory_for(ranks[0]), rename=lambda name: name)
    named = compile_manifest(tmp_path, {"a.w": ("float32", (4,))}, {"a.w": ["tp"]}, {"tp": 2})
    document = json.loads(named.read_text())
    document["parameters"][0]["path"] = "a.w\0x"
    named.write_text(json.dumps(signed(document)))
    write_file(tmp_path / "w.safetensors", random_tensors({"a.w\0x": ("float32", (4,))}))
    with pytest.raises(tpplan.LoadError, match=r"the manifest has a tensor `\S+x`: C does not support names"):
        tpplan.load(named, tmp_path / "w.safetensors", rank=0, into={"a.w": bytearray(16)})
