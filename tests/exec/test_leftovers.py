"""The next job that writes the same path removes and reports the leftovers of a killed job. Folders and files of the user remain."""

import os
import pathlib
import subprocess
import time

import pytest
from executor import EXECUTOR, execute, succeeds
from weights import compile_manifest, random_tensors, write_file

FAULTY = pathlib.Path(EXECUTOR).parent / "tests" / "libtpplan_faulty_calls.so"
SHAPES = {"m.a": ("float32", (8, 8))}
MARK = "tpplan: unfinished output\n"
KEPT = ("out.tmp-20261126-keep-this", "out.tmp-20261126", ".out.tpplan-20261126", ".out.tpplan-20261126-keep-this")


@pytest.fixture
def manifest(tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    for name in KEPT:
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text("all of it")
    return compile_manifest(tmp_path, SHAPES, {"m.a": ["tp", None]}, {"tp": 2}, "a.json")


def lines(tmp_path, manifest):
    """A command for every output that all ranks write."""
    weights = tmp_path / "w.safetensors"
    succeeds("save", manifest, "--weights", weights, "-o", tmp_path / "saved")
    return {
        "save": ["save", manifest, "--weights", weights, "-o"],
        "consolidated": ["save", manifest, "--weights", weights, "--consolidated"],
        "reshard": ["reshard", manifest, manifest, "--from", tmp_path / "saved", "--to"],
    }


@pytest.mark.parametrize("command", ["save", "consolidated", "reshard"])
def test_user_folders_remain(command, manifest, tmp_path):
    result = succeeds(*lines(tmp_path, manifest)[command], tmp_path / "out")
    assert "TP8034" not in result.stderr
    for name in KEPT:
        assert (tmp_path / name / "thesis.txt").read_text() == "all of it"


@pytest.mark.parametrize("command", ["save", "consolidated", "reshard"])
def test_marked_leftovers_are_removed_and_reported(command, manifest, tmp_path):
    left = tmp_path / ".out.tpplan-0123abcd"
    left.mkdir()
    (left / "tpplan-unfinished").write_text(MARK)
    (left / "content").mkdir()
    (left / "content" / "shard").write_text("half")
    result = succeeds(*lines(tmp_path, manifest)[command], tmp_path / "out")
    assert not left.exists() and f"{left}: warning[TP8034]" in result.stderr, result.stderr
    assert sorted(p.name for p in tmp_path.glob(".out*")) == sorted(k for k in KEPT if k.startswith("."))


def test_failed_output_leaves_no_files(manifest, tmp_path):
    before = sorted(p.name for p in tmp_path.iterdir())
    words = ["save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out"]
    result = execute(*words, env={"TPPLAN_EXEC_FAULT": "rank=1,step=5,kind=throw"})
    assert result.returncode != 0 and sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.skipif("TPPLAN_SANITIZED" in os.environ, reason="sanitizers have an allocator of their own")
def test_concurrent_jobs_do_not_remove_each_others_files(manifest, tmp_path):
    """The first job is slow right after it has marked its work folder; then the second one searches for leftovers."""
    slow = {"LD_PRELOAD": str(FAULTY), "FAULTY_CALL": "name=close,path=tpplan-unfinished,number=1,kind=slow"}
    words = ["save", manifest, "--weights", tmp_path / "w.safetensors", "--consolidated", tmp_path / "out.safetensors"]
    first = subprocess.Popen([EXECUTOR, *map(str, words)], env=os.environ | slow, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob(".out.safetensors.tpplan-*/tpplan-unfinished")):
        assert first.poll() is None, first.communicate()[1]
        time.sleep(0.01)
    second = succeeds(*words)
    said = first.communicate(timeout=60)[1]
    assert first.returncode == 0 and "TP8034" not in second.stderr + said, second.stderr + said
    assert [p.name for p in tmp_path.glob("*out.safetensors*")] == ["out.safetensors"]
