"""load, verify, save and reshard with one process per rank, over Open MPI: the same files as with all ranks in one process."""

import json

import pytest
from executor import EXECUTOR, succeeds
from ranks import mpirun, names, needs_mpi, side_by_side
from test_stuck_calls import call
from weights import SPECS, byte_count, compile_manifest, random_tensors, write_file

pytestmark = needs_mpi

SHAPES = {
    "rows": ("float32", (10, 6)),
    "columns": ("bfloat16", (70, 1200)),
    "both": ("float32", (9, 10)),
    "stacked": ("float16", (3, 8, 10)),
    "line": ("float64", (11,)),
    "scalar": ("float32", ()),
    "whole": ("bfloat16", (50, 30)),
    "large": ("bfloat16", (3000, 500)),
    "thin": ("bfloat16", (3000, 6)),
}


def on_ranks(ranks, *arguments, fault=None):
    return mpirun(
        ranks, EXECUTOR, *arguments, "--backend", "mpi", timeout=120, **({"TPPLAN_EXEC_FAULT": fault} if fault else {})
    )


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize("mesh", [{"fsdp": 1, "tp": 1}, {"fsdp": 1, "tp": 3}, {"fsdp": 2, "tp": 2}], ids=str)
def test_processes_write_the_files_that_threads_write(mesh, tmp_path):
    ranks = mesh["fsdp"] * mesh["tp"]
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, mesh)
    source = ["--weights", tmp_path / "w.safetensors"]
    result = on_ranks(ranks, "load", manifest, *source, "--json", "--staging", "1MB")
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["read_bytes"] == said["needed_bytes"] == sum(byte_count(d, s) for d, s in SHAPES.values())
    result = on_ranks(
        ranks, "save", manifest, *source, "-o", tmp_path / "mpi", "--consolidated", tmp_path / "mpi.safetensors"
    )
    assert result.returncode == 0, result.stderr
    succeeds("save", manifest, *source, "-o", tmp_path / "local", "--consolidated", tmp_path / "local.safetensors")
    assert files(tmp_path / "mpi") == files(tmp_path / "local")
    assert (tmp_path / "mpi.safetensors").read_bytes() == (tmp_path / "local.safetensors").read_bytes()
    result = on_ranks(
        ranks, "verify", manifest, *source, "--from", tmp_path / "mpi", "--write-checksums", tmp_path / "sums.json"
    )
    assert result.returncode == 0, result.stderr
    succeeds("verify", manifest, "--from", tmp_path / "local", "--checksums", tmp_path / "sums.json")


def test_warning_is_printed_once_per_job(tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES | {"more": ("float32", (2,))}))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 1, "tp": 3})
    result = on_ranks(3, "load", manifest, "--weights", tmp_path / "w.safetensors")
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stderr.splitlines() if "warning" in line] == [
        f"{tmp_path / 'w.safetensors'}: warning[TP8026]: the weights have 1 tensor that the manifest lacks, skipped: more"
    ]


def test_processes_reshard_as_threads_do(tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    a = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 1, "tp": 4}, "a.json")
    b = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 3, "tp": 1}, "b.json")
    succeeds("save", a, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "A")
    succeeds("reshard", a, b, "--from", tmp_path / "A", "--to", tmp_path / "local")
    result = on_ranks(3, "reshard", a, b, "--from", tmp_path / "A", "--to", tmp_path / "mpi")
    assert result.returncode == 0, result.stderr
    assert files(tmp_path / "mpi") == files(tmp_path / "local")


def test_difference_on_one_rank_ends_all_ranks(tmp_path):
    tensors = random_tensors(SHAPES)
    write_file(tmp_path / "w.safetensors", tensors)
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 1, "tp": 2})
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out")
    shard = tmp_path / "out" / "shard-00002-model-00001-of-00001.safetensors"
    for path in shard.parent.glob("*.safetensors"):
        path.write_bytes(
            path.read_bytes().replace(b"TPPLAN_CRC32C", b"X" * 13)
        )  # the stored checksums would find it sooner
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    result = on_ranks(2, "verify", manifest, "--weights", tmp_path / "w.safetensors", "--from", tmp_path / "out")
    assert result.returncode == 1 and "rank 1: `" in result.stderr


@pytest.mark.parametrize("rank, kind", [(0, "exit"), (1, "exit"), (2, "throw")])
def test_rank_lost_during_a_save_leaves_no_files(rank, kind, tmp_path):
    """Step by step, until the rank completes: then the folder is complete."""
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 1, "tp": 3})
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "local")

    def lose(step):
        """The job's end, and the folder that it wrote, which is the only entry of its parent."""
        out = tmp_path / f"jobs{step}" / "out"
        out.parent.mkdir()
        fault = f"rank={rank},step={step},kind={kind}"
        source = ["--weights", tmp_path / "w.safetensors"]
        return on_ranks(3, "save", manifest, *source, "-o", out, "--deadline", "20", fault=fault), out

    through = None
    for first in range(1, 60, 4):
        for step, (result, out) in enumerate(side_by_side(lose, range(first, first + 4)), first):
            assert result.returncode in (0, 1), result.stderr
            if result.returncode == 0:
                through = through or step
                assert files(out) == files(tmp_path / "local")
                continue
            assert not through, f"step {step}, where {through} went through: {result.stderr}"
            assert names(rank, result.stderr) and "Traceback" not in result.stderr
            # The last step is the folder's own name: a rank lost there is lost after the work.
            assert out.exists() or not list(out.parent.iterdir()), f"step {step}"
            assert not out.exists() or files(out) == files(tmp_path / "local")
        if through:
            break
    assert through > 4


def test_error_is_printed_once_per_job(tmp_path):
    """A launcher that ends the job may discard all output of the ranks: such a job is repeated."""
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 1, "tp": 4})

    def said_of(case):
        rank, kind = case
        more = ["--deadline", "6"] if kind == "stuck" else []
        source = ["--weights", tmp_path / "w.safetensors"]
        for _ in range(3):
            said = on_ranks(4, "load", manifest, *source, *more, fault=f"rank={rank},step=3,kind={kind}").stderr
            if "error[" in said or kind == "exit":
                return said
        return said

    cases = [(0, "throw"), (2, "throw"), (2, "exit"), (0, "exit"), (2, "stuck"), (0, "stuck")]
    for (rank, kind), said in zip(cases, side_by_side(said_of, cases)):
        assert said.count("error[") == 1 or (kind == "exit" and "error[" not in said), (rank, kind, said)
        assert names(rank, said), (rank, kind, said)


def test_progress_of_the_job_is_printed_as_lines(tmp_path):
    """Every read is slow, so that there are lines before the end; messages of MPI are between them."""
    shapes = {"large": ("float32", (3000, 500))}
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    manifest = compile_manifest(tmp_path, shapes, {"large": ["tp", None]}, {"tp": 3})
    words = ["load", manifest, "--weights", tmp_path / "w.safetensors", "--backend", "mpi", "--format", "jsonl"]
    result = mpirun(3, EXECUTOR, *words, "--staging", "1MB", timeout=60, **call("pread", "w.safetensors", 0, "slow"))
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert len(lines) >= 2
    for line in lines:
        assert line["progress"].startswith("loading")
        assert 0 < line["done_bytes"] <= line["total_bytes"]
    assert [line["seconds"] for line in lines] == sorted({line["seconds"] for line in lines})
