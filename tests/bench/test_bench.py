"""The benchmarks of the pages run and print the columns of their tables. No test depends on the speed of the machine."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT

BENCH = ROOT / "tests" / "bench" / "bench.py"
sanitized = pytest.mark.skipif("TPPLAN_SANITIZED" in os.environ, reason="sanitizers have figures of their own")


PAGES = {
    "tests/README.md": [
        "cmake --build build --target tpplan_bench && python3 tests/bench/bench.py --peers",
        "python3 tests/bench/bench_walk.py --peers",
        "python3 tests/bench/bench_globs.py",
    ],
    "tools/tpplan-exec/README.md": ["python3 tests/bench/bench_ranks.py", "python3 tests/bench/bench_plan.py"],
}


def test_pages_show_the_command_of_each_table():
    missing = [(page, line) for page, lines in PAGES.items() for line in lines if line not in (ROOT / page).read_text()]
    assert not missing


@sanitized
def test_short_benchmark_fills_the_first_row():
    command = [sys.executable, BENCH, "--build", pathlib.Path(PROGRAM).parent, "--runs", "1", "--largest", "405b"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    head, rule, row = result.stdout.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|") == 14
    number, time, memory = r"[\d.]+", r"[\d.]+ ms", r"[\d.]+ MiB"
    cells = ["1,137", "9", memory, time, time, number, number, memory, number, time, time, time, memory]
    assert re.fullmatch(r"\| " + r" \| ".join(cells) + r" \|", row), row


@sanitized
def test_glob_benchmark_compares_with_fnmatch():
    command = [sys.executable, BENCH.parent / "bench_globs.py", "--build", pathlib.Path(PROGRAM).parent]
    result = subprocess.run([*command, "--runs", "1", "--rows", "1"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    head, rule, row = result.stdout.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|") == 9
    assert re.match(
        r"\| 1,000 \| one parameter each \| 10,000 \| \d+ ms \| \d+ ms \| (\d+ ms|-) \| ~\d+ ms \| (~\d+|-) \|$", row
    ), row


@sanitized
def test_rank_benchmark_scales_ranks_at_constant_weights():
    command = [sys.executable, BENCH.parent / "bench_ranks.py", "--build", pathlib.Path(PROGRAM).parent]
    command += ["--ranks", "4", "16", "--tensors", "3"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    head, rule, *rows = result.stdout.splitlines()
    assert head.count("|") == rule.count("|") == 12 and len(rows) == 2
    for row, ranks in zip(rows, (4, 16)):
        assert re.match(rf"\| {ranks}( \| [\d.]+ \| \d+){{5}} \|$", row), row


def test_published_steps_are_skipped_where_there_are_none(tmp_path):
    command = [sys.executable, BENCH.parent / "bench_published.py", "--program", PROGRAM, "--shared", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0 and result.stdout == "" and "no published steps" in result.stderr


@sanitized
def test_failing_program_is_no_measurement(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tpplan").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "tpplan").chmod(0o755)
    for name in ("tpplan_measure", "tpplan_sax_pass"):
        (tmp_path / "tests" / name).symlink_to(pathlib.Path(PROGRAM).resolve().parent / "tests" / name)
    result = subprocess.run(
        [sys.executable, BENCH, "--build", tmp_path, "--runs", "1", "--largest", "405b"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode != 0 and "failed" in result.stderr


# ---- recorded plans, checked by bench_walk.py --peers ----


def test_recorded_plans_are_counted_by_outcome(tmp_path):
    from bench_walk import cpu_seconds
    from judge_cases import COLUMNS, KINDS, judge_cases, sample

    outcomes = [KINDS[case["outcome"]] for case, _, _ in sample(tmp_path, 7)]
    assert set(outcomes) == set(COLUMNS)
    lines = judge_cases(PROGRAM, tmp_path, 7, sys.executable, cpu_seconds)
    first, _, _, row = (next(lines) for _ in range(4))
    assert first.startswith(f"{len(outcomes)} plans that ran on real ranks")
    found = {kind: outcomes.count(kind) for kind in COLUMNS} | {"right": 0}
    cells = [f"{found[kind]} of {outcomes.count(kind)}" for kind in COLUMNS]
    assert row.startswith("| tpplan check | " + " | ".join(cells) + " | ")


def test_missing_peer_is_skipped_with_the_reason(tmp_path):
    from judge_cases import needed, why_not

    empty, other = tmp_path / "empty", tmp_path / "other"
    empty.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    other.write_text("#!/bin/sh\necho 0.0.1\n")
    for python in (empty, other):
        python.chmod(0o755)
    assert needed("spmd_types") == "0.3.1"
    assert why_not(str(empty), "spmd_types").endswith("pip install -r tests/requirements-bench.txt")
    assert why_not(str(other), "spmd_types") == f"{other} has spmd_types 0.0.1, not 0.3.1"


@sanitized
def test_in_memory_check_is_timed_by_phase():
    program = pathlib.Path(PROGRAM).resolve().parent / "tests" / "tpplan_judge_speed"
    golden = ROOT / "tests/golden/manifest/saved-activations-under-tp"
    command = [program, golden / "model.json", golden / "plan.yaml", ROOT / "plans/topologies/h100.yaml", "3"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    *rows, last = result.stdout.splitlines()
    same, drawn = rows[:10], rows[10:]
    assert same[8].startswith("judged and priced: verdict, bytes, memory, time ")
    assert re.match(r"the same on \d+ processors at once ", same[9])
    assert all(re.search(r"[\d.]+ us +[\d.]+ a second$", row) for row in same)
    assert [re.match(r".*?(?=  )", row)[0] for row in drawn] == [
        f"{plans}{kept}"
        for plans in ("neighbours, one rule apart", "right neighbours", "plans drawn at random")
        for kept in ("", ", with caches")
    ]
    assert all(re.search(r"[\d.]+ us +[\d.]+ a second, \d+ of \d+ right$", row) for row in drawn)
    assert all(re.search(r" (\d+) of \1 right$", row) for row in drawn[2:4])
    assert re.fullmatch(r"memory \d+ bytes, sent \d+ bytes, [\d.]+ s", last)


@sanitized
def test_planning_benchmark_supports_any_rank_count():
    command = [sys.executable, BENCH.parent / "bench_plan.py", "--build", pathlib.Path(PROGRAM).parent]
    result = subprocess.run(
        [*command, "--ranks", "8", "64", "--tensors", "3", "--runs", "1"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    head, rule, *rows = result.stdout.splitlines()
    assert head.count("|") == rule.count("|") == 8 and len(rows) == 2
    for row, ranks in zip(rows, (8, 64)):
        assert re.match(rf"\| {ranks}( \| [\d.]+ \| [\d.]+){{3}} \|$", row), row


@sanitized
def test_direct_read_methods_are_compared(tmp_path):
    file = tmp_path / "weights"
    file.write_bytes(os.urandom((3 << 20) + 4096 + 1))  # ends inside a block
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        pytest.skip(f"no O_DIRECT where temporary files are: {error}")
    command = [
        sys.executable,
        BENCH.parent / "bench_direct.py",
        file,
        "--rounds",
        "1",
        "--threads",
        "1",
        "4",
        "--uring",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if result.stderr.startswith("uring_read: io_uring_setup: "):
        pytest.skip(f"io_uring is not let in here: {result.stderr}")
    assert result.returncode == 0, result.stderr
    head, rule, *rows = result.stdout.splitlines()
    assert head.count("|") == 6 and rule.count("|") == 6 and len(rows) == 12
    for row in rows:
        assert re.match(r"\| (cold|in the cache)[^|]*( \| [\d.]+){4} \|$", row), row
