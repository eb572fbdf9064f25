"""tpplan-exec for the tests: it stands beside the program that TPPLAN names."""

import os
import subprocess

from conftest import EXECUTOR


def execute(*arguments, env=None, cwd=None, timeout=120):
    """Runs tpplan-exec; the result has returncode, stdout and stderr as text."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TPPLAN_", "SLURM_", "OMPI_", "PMI_")) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return subprocess.run([EXECUTOR, *map(str, arguments)], capture_output=True, text=True, env=clean | (env or {}), cwd=cwd, timeout=timeout)
