"""What the tests of the executor share. It stands beside the program that TPPLAN names."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import PROGRAM, ROOT, run  # noqa: E402, F401

EXECUTOR = str(pathlib.Path(PROGRAM).with_name("tpplan-exec"))


def execute(*arguments, env=None, cwd=None, timeout=120, **more):
    """Runs tpplan-exec; the result has returncode, stdout and stderr as text."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TPPLAN_")}
    return subprocess.run([EXECUTOR, *map(str, arguments)], capture_output=True, text=True, errors="replace", env=clean | (env or {}), cwd=cwd, timeout=timeout, **more)


def succeeds(*arguments, **more):
    result = execute(*arguments, **more)
    assert result.returncode == 0, result.stderr
    return result
