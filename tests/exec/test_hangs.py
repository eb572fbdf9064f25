"""A rank that hangs at any step of any command is named within the deadline, and no files remain."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from executor import EXECUTOR, LAUNCHERS, succeeds
from small_models import plan
from weights import compile_manifest, random_tensors, write_file
from conftest import linear_model, run, write

DEADLINE = 2
IN_TIME = DEADLINE + 15  # allowance for a busy machine
TOGETHER = 24  # concurrent jobs, which sleep most of the time
SHAPES = {"m.a": ("float32", (8, 6)), "m.b": ("bfloat16", (4, 4)), "m.c": ("float32", (5,))}
CUT = {"m.a": ["tp", None], "m.b": [None, "tp"]}


def a_manifest_that_communicates(folder):
    model = linear_model(up=[6, 4], down=[4, 6])
    rules = {"up": "colwise", "down": "rowwise"}
    manifest = folder / "run.json"
    result = run(
        "compile",
        *write(folder, model, plan({"tp": 3}, rules, init={"*": {"normal": {"mean": 0, "std": 1}}})),
        "-o",
        manifest,
    )
    assert result.returncode == 0, result.stderr.decode()
    return manifest


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """{command: arguments, with {} for the folder of the job}."""
    folder = tmp_path_factory.mktemp("hangs")
    weights = folder / "w.safetensors"
    write_file(weights, random_tensors(SHAPES))
    manifest = compile_manifest(folder, SHAPES, CUT, {"tp": 3})
    other = compile_manifest(folder, SHAPES, {"m.a": [None, "tp"]}, {"tp": 3}, "other.json")
    communicates = a_manifest_that_communicates(folder)
    succeeds("save", manifest, "--weights", weights, "-o", folder / "shards")
    return {
        "load": ["load", manifest, "--weights", weights],
        "verify": [
            "verify",
            manifest,
            "--weights",
            weights,
            "--from",
            folder / "shards",
            "--write-checksums",
            "{}/sums.json",
        ],
        "init": ["init", communicates, "--seed", 1, "-o", "{}/folder", "--consolidated", "{}/file"],
        "save": ["save", manifest, "--weights", weights, "-o", "{}/folder", "--consolidated", "{}/file"],
        "reshard": ["reshard", manifest, other, "--from", folder / "shards", "--to", "{}/folder"],
        "run": ["run", communicates, "--iterations", 1],
    }


def start_with_a_rank_that_hangs(arguments, folder, rank, step):
    """(exit status, standard error); status None: the test ended it."""
    folder.mkdir()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    command = [EXECUTOR, *(str(a).replace("{}", str(folder)) for a in arguments), "--deadline", str(DEADLINE)]
    job = subprocess.Popen(
        command,
        env=clean | {"TPPLAN_EXEC_FAULT": f"rank={rank},step={step},kind=hang"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, said = job.communicate(timeout=IN_TIME)
    except subprocess.TimeoutExpired:
        job.kill()
        return None, job.communicate()[1]
    return job.returncode, said


def ends_of(pool, arguments, folder, rank):
    """Ends of the jobs in which the rank hangs at step 1, 2, ..., up to the last existing step."""
    ends = []
    while not any(status == 0 for status, _ in ends):
        steps = range(len(ends) + 1, len(ends) + 1 + 12)
        ends += pool.map(lambda step: start_with_a_rank_that_hangs(arguments, folder / str(step), rank, step), steps)
    last = next(i for i, (status, _) in enumerate(ends) if status == 0)
    assert all(status == 0 for status, _ in ends[last:])  # no such step: no rank hangs
    return ends[:last]


CASES = [(command, rank) for command in ("load", "verify", "init", "save", "reshard", "run") for rank in (0, 1)]


@pytest.fixture(scope="module")
def all_ends(commands, tmp_path_factory):
    """{(command, rank): (folder, ends)}, all jobs at the same time: they sleep."""
    folders = {case: tmp_path_factory.mktemp(f"{case[0]}-{case[1]}") for case in CASES}
    with ThreadPoolExecutor(TOGETHER) as pool, ThreadPoolExecutor(len(CASES)) as each:
        ends = each.map(lambda case: ends_of(pool, commands[case[0]], folders[case], case[1]), CASES)
        return dict(zip(CASES, zip(folders.values(), ends)))


@pytest.mark.parametrize("command, rank", CASES)
def test_hang_at_every_step_names_the_rank_in_time(command, rank, all_ends):
    folder, ends = all_ends[command, rank]
    assert len(ends) >= 4
    for step, (status, said) in enumerate(ends, 1):
        assert status == 1, (step, said)
        assert f"rank {rank}, which is still at step {step} (" in said, said
        left = {path.name for path in (folder / str(step)).iterdir()}
        assert left <= {"folder", "file", "sums.json"}, (step, left)  # results of an earlier step, no partial file
