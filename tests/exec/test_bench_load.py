"""The load benchmark prints its ratios. Their size is not checked: this machine may be busy."""

import pathlib
import subprocess
import sys


def test_load_benchmark_prints_every_ratio():
    script = pathlib.Path(__file__).with_name("bench_load.py")
    result = subprocess.run(
        [sys.executable, script, "--size", "8MiB", "--rounds", "1"], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert (
        [line.split()[0] for line in lines[1:]] == ["load", "load", "verify"]
        and "% of plain parallel pread" in lines[1]
        and "% of the memory" in lines[3]
    )
