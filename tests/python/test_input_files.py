"""Python reads only regular files of bounded size, inside the folder that lists them, as the programs do."""

import json
import os
import pathlib
import struct
import subprocess
import sys

import bridge
import pytest

from tpplan import files

PREPARE = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
READERS = {
    "load_manifest": "import tpplan; tpplan.load_manifest(sys.argv[1])",
    "a plan or manifest": "from tpplan.compiled import is_plan; is_plan(sys.argv[1])",
    "stored_tensors": "from tpplan.states import stored_tensors; stored_tensors(sys.argv[1])",
    "an index": "import pathlib; from tpplan.safetensors_shards import _files_of_index; _files_of_index(pathlib.Path(sys.argv[1]))",
    "tpplan.states": "from tpplan.states import main, run_command; sys.exit(run_command(main, [sys.argv[1], '--of', sys.argv[1]]))",
}
SAYS = ("is not a regular file", "is larger than", "is not a safetensors file")


def read(reader, path):
    """The last lines of a reader's exception, within a second and 4 GiB; the test fails if the reader succeeds."""
    result = subprocess.run(
        [sys.executable, "-c", PREPARE + READERS[reader], path], capture_output=True, text=True, timeout=20
    )
    assert result.returncode == 1, (result.returncode, result.stderr)
    return result.stderr


def write_weights(path, name="a"):
    header = json.dumps({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("special", ["fifo", "device", "sparse"])
def test_special_or_huge_file_is_rejected(tmp_path, reader, special):
    path = tmp_path / "file"
    if special == "fifo":
        os.mkfifo(path)
    elif special == "device":
        path = pathlib.Path("/dev/zero")
    else:
        with open(path, "wb") as file:
            file.truncate(5 << 30)
    said = read(reader, str(path))
    assert any(text in said for text in SAYS), said


@pytest.mark.parametrize("special", ["fifo", "link"])
def test_folder_is_read_only_inside(tmp_path, special):
    folder = tmp_path / "saved"
    folder.mkdir()
    write_weights(folder / "a.safetensors")
    if special == "fifo":
        os.mkfifo(folder / "b.safetensors")
    else:
        write_weights(tmp_path / "secret", "b")
        (folder / "b.safetensors").symlink_to("../secret")
    said = read("stored_tensors", str(folder))
    assert "b.safetensors: cannot be read: is " in said, said
    (folder / "b.safetensors").unlink()
    (folder / "b.safetensors").symlink_to("a.safetensors")  # a link inside the folder is followed
    from tpplan.states import stored_tensors

    assert stored_tensors(folder) == {"a": ("float32", [2])}


def test_shards_of_an_index_are_inside_its_folder(tmp_path):
    bridge.needs("safetensors", "numpy")
    from tpplan.safetensors_shards import load_safetensors

    model = {"format": "tpplan.model/1", "name": "M", "framework": "torch", "modules": [
        {"path": "m", "type": "X", "parameters": {"a": {"shape": [2], "dtype": "float32"}}}]}  # fmt: skip
    manifest = bridge.compile_manifest(
        tmp_path, model, "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {m.a: {spec: [tp]}}\n"
    )
    index = tmp_path / "w" / "model.safetensors.index.json"
    index.parent.mkdir()
    index.write_text(json.dumps({"weight_map": {"m.a": "a.safetensors"}}))
    shard = index.parent / "a.safetensors"
    write_weights(tmp_path / "outside", "m.a")
    shard.symlink_to("../outside")
    with pytest.raises(ValueError, match="a.safetensors: cannot be read: is a link to a file outside its folder"):
        load_safetensors(manifest, index, 0, framework="numpy")
    assert load_safetensors(manifest, shard, 0, framework="numpy")["m.a"].shape == (1,)  # a named file may be a link
    shard.unlink()
    os.mkfifo(shard)
    for files_ in (index, [shard]):
        with pytest.raises(ValueError, match="a.safetensors: cannot be read: is not a regular file"):
            load_safetensors(manifest, files_, 0, framework="numpy")
    cache = tmp_path / "models--m"  # the cache of huggingface_hub
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots" / "0").mkdir(parents=True)
    write_weights(cache / "blobs" / "f00", "m.a")
    (cache / "snapshots" / "0" / "a.safetensors").symlink_to("../../blobs/f00")
    os.rename(index, cache / "snapshots" / "0" / index.name)
    assert load_safetensors(manifest, cache / "snapshots" / "0" / index.name, 1, framework="numpy")["m.a"].shape == (1,)


def test_output_follows_the_umask_without_changing_it(tmp_path, monkeypatch):
    """os.umask(0) and its reset would make files of other threads world-writable."""
    umask = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", None)
        files.write_output(tmp_path / "out", "text")
    finally:
        monkeypatch.undo()
        os.umask(umask)
    assert os.stat(tmp_path / "out").st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
