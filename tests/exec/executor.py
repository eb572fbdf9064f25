"""Shared functions of the executor's tests."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import EXECUTOR, PROGRAM, ROOT, run, run_program  # noqa: E402, F401

# Prefixes of environment variables that would turn a test's process into a rank.
LAUNCHERS = ("TPPLAN_", "SLURM_", "OMPI_", "PMI_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_")


def execute(*arguments, env=None, cwd=None, timeout=120, **more):
    """Runs tpplan-exec; the result has returncode, stdout and stderr as text."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    clean |= env or {}
    if more:  # forks do not support limits and other options
        return subprocess.run(
            [EXECUTOR, *map(str, arguments)],
            capture_output=True,
            text=True,
            errors="replace",
            env=clean,
            cwd=cwd,
            timeout=timeout,
            **more,
        )
    result = run_program(EXECUTOR, *arguments, env=clean, cwd=cwd, timeout=timeout)
    result.stdout, result.stderr = (text.decode(errors="replace") for text in (result.stdout, result.stderr))
    return result


def succeeds(*arguments, **more):
    result = execute(*arguments, **more)
    assert result.returncode == 0, result.stderr
    return result
