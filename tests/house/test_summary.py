"""The last lines of tools/test are correct: counts, silent failures, and tests that never ran."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

SUMMARY, RECORD = ROOT / "tests" / "summary.py", ROOT / "tests" / "record.py"
CASES = """\
import pytest
def test_good(): pass
@pytest.mark.skip(reason="no such thing here")
def test_left_out(): pass
"""
WHOLE = "import pytest\npytest.skip('no GPU', allow_module_level=True)\n"
# JUnit's XML of a passing case and a failed one, and a truncated one.
GOOD, BAD, CUT = (
    '<a><testcase name="x"/></a>',
    '<a><testcase name="x"><failure message="y"/></testcase></a>',
    '<a><testcase name="x"',
)


def summary(*arguments):
    done = subprocess.run([sys.executable, "-S", "-E", SUMMARY, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def record(folder, name, *command):
    """Runs a test as ctest does; its exit status."""
    return subprocess.run(
        [sys.executable, "-S", "-E", RECORD, folder, name, *map(str, command)], capture_output=True
    ).returncode


def record_shell(folder, name, xml, status=0):
    """A test that writes this XML and ends with this status (text: a shell command)."""
    end = status if isinstance(status, str) else f"exit {status}"
    return record(folder, name, "sh", "-c", f"cat > {{}} <<'END'\n{xml}\nEND\n{end}")


def record_pytest(folder, name, text):
    path = folder / f"test_{name}.py"
    path.write_text(text)
    return record(
        folder / "results", name, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={}", path
    )


def test_passed_and_skipped_are_counted_with_reasons(tmp_path):
    assert record_pytest(tmp_path, "cases", CASES) == 0
    assert record_pytest(tmp_path, "whole", WHOLE) == 77
    status, lines = summary(f"release={tmp_path / 'results'}", "fuzz=!--all runs it")
    assert status == 0
    assert sorted(lines[:2]) == ["skipped: 1 x no GPU", "skipped: 1 x no such thing here"]
    assert lines[2:] == [
        "ran: release 3 cases of 2 tests; fuzz not run (--all runs it)",
        "1 passed, 0 failed, 2 skipped",
    ]


def test_file_without_cases_fails(tmp_path):
    assert record_pytest(tmp_path, "empty", "") == 5
    assert summary(f"release={tmp_path / 'results'}")[1][-1] == "0 passed, 1 failed, 0 skipped"


def test_failed_case_is_named(tmp_path):
    assert record_shell(tmp_path, "a/b", BAD, 1) == 1
    assert record_shell(tmp_path, "a/c", GOOD) == 0
    status, lines = summary(f"release={tmp_path}")
    assert (
        status == 1
        and lines[0] == "failed: a/b (release): 1, exit status 1"
        and lines[-1] == "1 passed, 1 failed, 0 skipped"
    )


@pytest.mark.parametrize("xml, passed", [(GOOD, 1), (CUT, 0), ("", 0)], ids=["good", "cut", "none"])
@pytest.mark.parametrize("end, status", [("kill -KILL $$", 128 + 9), ("exit 1", 1), ("exit 5", 5)])
def test_test_with_a_bad_exit_status_fails_despite_its_cases(xml, passed, end, status, tmp_path):
    assert record_shell(tmp_path, "a/b", xml, end) == status
    assert summary(f"release={tmp_path}") == (
        1,
        [
            f"failed: a/b (release): 1, exit status {-9 if 'KILL' in end else status}",
            f"ran: release {passed + 1} cases of 1 tests",
            f"{passed} passed, 1 failed, 0 skipped",
        ],
    )


def test_test_without_cases_counts_as_one(tmp_path):
    assert record(tmp_path, "fuzz/plan_fuzz", "true") == 0
    assert summary(f"fuzz={tmp_path}") == (0, ["ran: fuzz 1 cases of 1 tests", "1 passed, 0 failed, 0 skipped"])


@pytest.mark.parametrize("arguments", [[], ["release="], ["fuzz=!not wanted"]])
def test_summary_of_no_tests_fails(arguments, tmp_path):
    status, lines = summary(*[a + str(tmp_path) if a.endswith("=") else a for a in arguments])
    assert status == 1 and lines[-1] == "0 passed, 1 failed, 0 skipped"


def test_times_are_those_of_the_processes_of_a_test(tmp_path):
    assert record(tmp_path, "a/b", "sh", "-c", f"{sys.executable} -S -E -c 'sum(range(60_000_000))'; true") == 0
    taken = json.loads((tmp_path / "a-b.json").read_text())
    assert taken["status"] == 0 and taken["processor"] > 0.1
    lines = summary("--times", f"release={tmp_path}")[1]
    assert "| a/b | " in "\n".join(lines) and lines[-1] == "1 passed, 0 failed, 0 skipped"


def test_tests_above_ten_seconds_are_named_slowest_first(tmp_path):
    for name, seconds in (("a/quick", 9.9), ("a/slow", 10.4), ("b/slowest", 48.2)):
        record_shell(tmp_path, name, GOOD)
        path = tmp_path / f"{name.replace('/', '-')}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": seconds, "processor": 3.1}))
    assert summary(f"release={tmp_path}")[1] == [
        "slow: b/slowest (release): 48 s, 3 s of CPU",
        "slow: a/slow (release): 10 s, 3 s of CPU",
        "ran: release 3 cases of 3 tests",
        "3 passed, 0 failed, 0 skipped",
    ]
