"""Errors in weights, folders and disks: each is named, no partial file remains, no signal ends the program."""

import json
import os
import re
import resource
import signal
import subprocess
import time

import pytest
from executor import EXECUTOR, execute, succeeds
from weights import compile_manifest, random_tensors, write_file, write_index

SHAPES = {"m.a": ("float32", (8, 6)), "m.b": ("bfloat16", (4, 4)), "m.c": ("float32", (5,))}
SPECS = {"m.a": ["tp", None], "m.b": [None, "tp"]}


@pytest.fixture
def manifest(tmp_path):
    return compile_manifest(tmp_path, SHAPES, SPECS, {"tp": 2})


def refused(status, *arguments, **more):
    """Runs, checks the status and that the message starts with a place and has a code, except for usage errors; returns it."""
    result = execute(*arguments, **more)
    assert result.returncode == status, (result.returncode, result.stderr)
    assert result.stderr and "\x1b" not in result.stderr
    coded = re.match(r"^\S.*: error\[TP\d{4}\]: \S", result.stderr)
    is_usage = result.stderr.startswith("tpplan-exec: error: ") or "Run with --help" in result.stderr
    assert coded or (status == 2 and is_usage), result.stderr
    return result.stderr


def test_weight_error_has_place_rank_step_and_help(manifest, tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    said = refused(
        1,
        "load",
        manifest,
        "--weights",
        tmp_path / "w.safetensors",
        env={"TPPLAN_EXEC_FAULT": "rank=1,step=1,kind=throw"},
    )
    assert (
        said
        == f"""{manifest}: error[TP8014]: TPPLAN_EXEC_FAULT requests this failure
  = note: rank 1 failed at step 1 (checking free memory)
  = help: unset TPPLAN_EXEC_FAULT
"""
    )
    said = refused(1, "save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "no" / "folder")
    assert (
        said.startswith(f"{tmp_path / 'no' / 'folder'}")
        and ": error[TP8032]: No such file or directory\n  = note: rank 0 failed at step " in said
    )
    assert "  = help: nothing was written to" in said


def test_all_mismatches_are_reported_in_one_error(manifest, tmp_path):
    wrong = {
        "m.a": ("float32", (8, 7)),
        "m.b": ("float16", (4, 4)),
        "extra\x1b[2J": ("int8", (1,)),
        "more": ("int8", (1,)),
    }
    write_file(tmp_path / "w.safetensors", random_tensors(wrong))
    said = refused(1, "load", manifest, "--weights", tmp_path / "w.safetensors")
    assert "`m.a` has shape [8, 7] in the weights and [8, 6] in the manifest" in said
    assert "`m.b` is float16 in the weights and bfloat16 in the manifest" in said
    assert "parameter `m.c` of the manifest is not in" in said


def test_unknown_tensors_are_a_warning_with_a_count(manifest, tmp_path):
    tensors = random_tensors(SHAPES | {f"x{i}\x1b": ("int8", (1,)) for i in range(5)})
    write_file(tmp_path / "w.safetensors", tensors)
    said = succeeds("load", manifest, "--weights", tmp_path / "w.safetensors").stderr
    assert "the weights have 5 tensors that the manifest lacks" in said
    assert "x0\\x1b" in said and "and 2 more" in said and "\x1b" not in said


STRANGERS = {
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"),
    "html": (b"<!DOCTYPE html><html></html>", "HTML page"),
    "zip": (b"PK\x03\x04" + bytes(64), "safetensors.torch.save_file"),
    "empty": (b"", "too few"),
    "zeros": (bytes(4096), "begin with"),
    "cut": (b"\xff\0\0\0\0\0\0\0{", "it is truncated"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_other_file_formats_are_recognised(name, manifest, tmp_path):
    content, words = STRANGERS[name]
    (tmp_path / "w.safetensors").write_bytes(content)
    assert words in refused(2, "load", manifest, "--weights", tmp_path / "w.safetensors")


def test_pipes_and_devices_are_rejected_unread(manifest, tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.safetensors").mkdir()
    for path in (
        tmp_path / "pipe.safetensors",
        "/dev/zero",
        tmp_path / "empty",
        tmp_path / "folder.safetensors",
        tmp_path / "absent",
        "-",
        "",
    ):
        refused(2, "load", manifest, "--weights", path, timeout=10)


@pytest.mark.parametrize("target", ["../outside.safetensors", "/etc/passwd", "sub/x.safetensors", "..", "a\\b"])
def test_index_may_not_lead_out_of_its_folder(target, manifest, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_file(tmp_path / "outside.safetensors", random_tensors(SHAPES))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(SHAPES, target)}))
    assert "name files in the folder of the index" in refused(2, "load", manifest, "--weights", folder)


def test_link_may_not_lead_out_of_its_folder(manifest, tmp_path):
    succeeds_folder = tmp_path / "out"
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", succeeds_folder)
    shard = succeeds_folder / "shard-00002-model-00001-of-00001.safetensors"
    shard.rename(tmp_path / "elsewhere.safetensors")
    shard.symlink_to(tmp_path / "elsewhere.safetensors")
    assert "points outside its folder" in refused(2, "load", manifest, "--weights", succeeds_folder)
    write_index(tmp_path, random_tensors(SHAPES))
    (tmp_path / "in").mkdir()
    (tmp_path / "model.safetensors.index.json").rename(tmp_path / "in" / "model.safetensors.index.json")
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        (tmp_path / "in" / name).symlink_to(tmp_path / name)
    assert "put the file itself there" in refused(2, "load", manifest, "--weights", tmp_path / "in")


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


@pytest.mark.parametrize("what", ["folder", "file", "reshard"])
def test_full_disk_leaves_no_output(what, tmp_path):
    shapes = {"big": ("float32", (1 << 10, 1 << 10))}
    manifest = compile_manifest(tmp_path, shapes, {"big": ["tp", None]}, {"tp": 2}, "a.json")
    other = compile_manifest(tmp_path, shapes, {"big": [None, "tp"]}, {"tp": 2}, "b.json")
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "A")
    before = sorted(p.name for p in tmp_path.iterdir())
    arguments = {
        "folder": ["save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out"],
        "file": [
            "save",
            manifest,
            "--weights",
            tmp_path / "w.safetensors",
            "--consolidated",
            tmp_path / "one.safetensors",
        ],
        "reshard": ["reshard", manifest, other, "--from", tmp_path / "A", "--to", tmp_path / "B"],
    }[what]
    said = refused(1, *arguments, preexec_fn=small_files)
    assert "File too large" in said and "rank " in said
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_existing_folder_remains(manifest, tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    assert "already exists" in refused(
        1, "save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out"
    )
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine"]
    (tmp_path / "out" / "mine").unlink()
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", str(tmp_path / "out") + "/")


def test_input_file_is_not_overwritten(manifest, tmp_path):
    write_index(tmp_path, random_tensors(SHAPES))
    file = tmp_path / "model-00002-of-00002.safetensors"
    before = file.read_bytes()
    refused(2, "save", manifest, "--weights", tmp_path, "--consolidated", file)
    refused(2, "save", manifest, "--weights", tmp_path)
    assert file.read_bytes() == before


def test_folder_of_another_manifest_is_rejected(manifest, tmp_path):
    other = compile_manifest(tmp_path, SHAPES, SPECS, {"tp": 3}, "other.json")
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out")
    said = refused(1, "reshard", other, manifest, "--from", tmp_path / "out", "--to", tmp_path / "new")
    assert "the folder has other shards than" in said and not (tmp_path / "new").exists()
    refused(1, "verify", other, "--from", tmp_path / "out", "--weights", tmp_path / "w.safetensors")


def test_manifest_with_one_changed_byte_is_rejected(manifest, tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out")
    content = manifest.read_bytes()
    changed = tmp_path / "changed.json"
    for at in range(0, len(content), max(1, len(content) // 80)):
        changed.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        result = execute("verify", changed, "--from", tmp_path / "out", "--weights", tmp_path / "w.safetensors")
        assert result.returncode in (1, 2) and result.stderr, at


def test_overlapping_or_missing_shards_are_rejected(manifest, tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out")
    second = tmp_path / "out" / "shard-00002-model-00001-of-00001.safetensors"
    (tmp_path / "out" / "shard-00003-model-00001-of-00001.safetensors").write_bytes(second.read_bytes())
    said = refused(1, "load", manifest, "--weights", tmp_path / "out")
    assert "`m.a`" in said and ("overlap" in said or "larger" in said)
    (tmp_path / "out" / "shard-00003-model-00001-of-00001.safetensors").unlink()
    write_file(
        second, random_tensors({"m.z": ("int8", (1,))}), {"DCP_SHARDING_INFO": '{"m.z": {"saved_offsets": [0]}}'}
    )
    assert "in no shard" in refused(1, "load", manifest, "--weights", tmp_path / "out")
    for info in (
        "nonsense",
        "[]",
        '{"m.z": {}}',
        '{"m.z": {"saved_offsets": [-1]}}',
        '{"m.z": {"saved_offsets": ["0"]}}',
        "{",
    ):
        write_file(second, random_tensors({"m.z": ("int8", (1,))}), {"DCP_SHARDING_INFO": info})
        refused(2, "load", manifest, "--weights", tmp_path / "out")
    write_file(second, random_tensors({"m.z": ("int8", (1,))}))
    assert "DCP_SHARDING_INFO" in refused(2, "load", manifest, "--weights", tmp_path / "out")


def test_model_larger_than_memory_is_rejected(tmp_path):
    shapes = {"huge": ("uint8", (1 << 40,))}
    manifest = compile_manifest(tmp_path, shapes, {"huge": ["tp"]}, {"tp": 2})
    header = json.dumps({"huge": {"dtype": "U8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]}}).encode()
    with open(tmp_path / "w.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 40))  # holes: the file needs no disk space
    said = refused(3, "load", manifest, "--weights", tmp_path / "w.safetensors", timeout=20)
    assert "1.00 TiB" in said and "free" in said


def test_ulimit_limits_the_reported_free_memory(tmp_path):
    """`ulimit -v`: the reported free memory is less than the needed one."""
    if os.environ.get("TPPLAN_SANITIZED"):
        pytest.skip("a sanitizer needs more address space itself")
    shapes = {"m.a": ("uint8", (1 << 30,))}
    manifest = compile_manifest(tmp_path, shapes, {"m.a": ["tp"]}, {"tp": 2})
    header = json.dumps({"m.a": {"dtype": "U8", "shape": [1 << 30], "data_offsets": [0, 1 << 30]}}).encode()
    with open(tmp_path / "w.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 30))
    limit = 900 << 20
    result = execute(
        "load",
        manifest,
        "--weights",
        tmp_path / "w.safetensors",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    said = re.search(r"need ([\d.]+) (.iB), but only ([\d.]+) MiB of memory are free", " ".join(result.stderr.split()))
    assert result.returncode == 3 and said, result.stderr
    assert said[2] == "GiB" and float(said[3]) < 900, result.stderr


def test_wrong_usage_is_reported(manifest, tmp_path):
    refused(2, "verify", manifest)
    refused(2, "verify", manifest, "--from", tmp_path)
    refused(2, "load", manifest)
    refused(2, "load", tmp_path / "absent.json", "--weights", tmp_path)


def start_save_that_hangs(folder, manifest, output, step):
    """A job whose rank 1 hangs at a step, and the folder that it writes."""
    (folder / "out").mkdir(parents=True)
    write_file(folder / "w.safetensors", random_tensors(SHAPES))
    command = [EXECUTOR, "save", manifest, "--weights", folder / "w.safetensors", output, folder / "out" / "x"]
    fault = {"TPPLAN_EXEC_FAULT": f"rank=1,kind=hang,step={step}"}
    return subprocess.Popen(command, env=os.environ | fault, stderr=subprocess.PIPE), folder / "out"


@pytest.fixture(scope="module", params=["--output", "--consolidated"])
def save_with_something_made(request, tmp_path_factory):
    """The output and the first step at which a rank can hang with the new file or folder in place. All steps run at the same time."""
    folder = tmp_path_factory.mktemp("steps")
    manifest = compile_manifest(folder, SHAPES, SPECS, {"tp": 2})
    jobs = [start_save_that_hangs(folder / str(step), manifest, request.param, step) for step in range(1, 17)]
    first, limit = None, time.monotonic() + 20
    while first is None and time.monotonic() < limit:
        time.sleep(0.05)
        hung = [step for step, (job, out) in enumerate(jobs, 1) if list(out.iterdir()) and job.poll() is None]
        time.sleep(1)  # ranks that only pass the step have ended by then
        first = next((step for step in hung if jobs[step - 1][0].poll() is None), None)
    for job, _ in jobs:
        job.kill()
        job.communicate()
    assert first, "no step hung with something made"
    return request.param, first


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_during_a_save_leaves_no_files(ending, save_with_something_made, manifest, tmp_path):
    output, step = save_with_something_made
    job, out = start_save_that_hangs(tmp_path / "job", manifest, output, step)
    limit = time.monotonic() + 20
    while not list(out.iterdir()) and time.monotonic() < limit:
        time.sleep(0.01)
    assert list(out.iterdir()) and job.poll() is None
    job.send_signal(ending)
    job.communicate(timeout=20)
    assert job.returncode == -ending
    assert not list(out.iterdir())


def test_no_command_overwrites_its_input(tmp_path):
    tensors = random_tensors(SHAPES)
    (tmp_path / "model").mkdir()
    write_index(tmp_path / "model", tensors)
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"tp": 2})
    succeeds("save", manifest, "--weights", tmp_path / "model", "-o", tmp_path / "shards")
    weights, shards = ["--weights", tmp_path / "model"], ["--from", tmp_path / "shards"]
    inputs = [manifest, *(tmp_path / "model").iterdir(), *(tmp_path / "shards").iterdir()]
    before = {path: path.read_bytes() for path in inputs}
    assert len(inputs) == 1 + 3 + 3
    for path in inputs:
        command = (
            ["save", manifest, *weights, "--consolidated", path]
            if path.parent.name != "shards"
            else ["save", manifest, "--weights", tmp_path / "shards", "--consolidated", path]
        )
        assert "is one of the inputs" in refused(2, *command)
        assert "is one of the inputs" in refused(2, "verify", manifest, *weights, *shards, "--write-checksums", path)
    assert "is one of the inputs" in refused(2, "init", manifest, "--seed", "1", "--consolidated", manifest)
    assert {path: path.read_bytes() for path in inputs} == before
    assert "standard output" in refused(2, "save", manifest, *weights, "--consolidated", "-")


def test_output_link_is_followed(manifest, tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    (tmp_path / "disk").mkdir()
    for option, link, target in (("-o", "folder", "disk/folder"), ("--consolidated", "file", "disk/file")):
        (tmp_path / link).symlink_to(target)
        succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", option, tmp_path / link)
        assert (tmp_path / link).is_symlink() and (tmp_path / target).exists()
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors", "--from", tmp_path / "folder")
    assert sorted(p.name for p in (tmp_path / "disk").iterdir()) == ["file", "folder"]


def test_megabytes_of_header_text_are_read(manifest, tmp_path):
    """As the sharding info of a checkpoint with a hundred thousand tensors."""
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES), {"note": "x" * (5 << 20)})
    succeeds("load", manifest, "--weights", tmp_path / "w.safetensors")


def test_reshard_warns_once_about_skipped_tensors(tmp_path):
    before = compile_manifest(tmp_path, SHAPES, SPECS, {"tp": 2}, "before.json")
    after = compile_manifest(tmp_path, {"m.a": SHAPES["m.a"]}, {"m.a": ["tp", None]}, {"tp": 2}, "after.json")
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    succeeds("save", before, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "A")
    said = succeeds("reshard", before, after, "--from", tmp_path / "A", "--to", tmp_path / "B").stderr
    assert (
        said.count("warning") == 1 and "the weights have 2 tensors that the manifest lacks, skipped: m.b, m.c" in said
    )


def test_rows_with_a_partial_byte_are_a_manifest_error(tmp_path):
    manifest = compile_manifest(
        tmp_path, {"w": ("float4_e2m1fn", (2, 5)), "m": ("int8", (2,))}, {"m": ["tp"]}, {"tp": 2}
    )
    write_file(tmp_path / "w.safetensors", random_tensors({"w": ("float4_e2m1fn", (2, 5)), "m": ("int8", (2,))}))
    for command in (["load"], ["save", "-o", tmp_path / "out"], ["verify"]):
        said = refused(1, command[0], manifest, "--weights", tmp_path / "w.safetensors", *command[1:])
        assert "`w` is float4_e2m1fn of [2, 5], 4 bits per element: its rows end inside a byte" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seed", "18446744073709551616"],
        ["--seed", "-1"],
        ["--seed", "0x10"],
        ["--seed", "1.0"],
        ["--seed", "1", "--threads", "1025"],
        ["--seed", "1", "--deadline", "nan"],
        ["--seed", "1", "--deadline", "0"],
    ],
    ids=" ".join,
)
def test_numbers_out_of_range_are_usage_errors(arguments, manifest):
    assert arguments[-1] in refused(2, "init", manifest, *arguments)


@pytest.mark.parametrize(
    "size, fine",
    [
        ("1MB", True),
        ("1048576", True),
        ("2GiB", True),
        ("1mib", True),
        ("256", False),
        ("-1", False),
        ("99999999999999999999", False),
        ("17179869184G", False),
        ("1PB", False),
        ("MB", False),
        ("", False),
    ],
)
def test_staging_accepts_bytes_with_units(size, fine, manifest, tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    result = execute("load", manifest, "--weights", tmp_path / "w.safetensors", "--staging", size)
    assert result.returncode == (0 if fine else 2), result.stderr
