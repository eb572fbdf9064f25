"""Runs functions of a test file in separate processes, because frameworks read their environment only when they are
imported.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
from bridge import free_port

HERE = pathlib.Path(__file__).resolve().parent
# Compiled without optimization: most programs run once.
XLA_FLAGS = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
ENVIRONMENTS = {
    "jax": {"XLA_FLAGS": XLA_FLAGS, "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax"},
    "torch": {"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
}


def run_apart(file, function, *arguments, framework="jax", ranks=0):
    """Calls file.function(*arguments) in a new process, or on `ranks` processes under torchrun. Fails with their
    output.
    """
    start = [sys.executable]
    if ranks:  # uses the address, because a machine may be unable to resolve its name
        start += [
            "-m",
            "torch.distributed.run",
            "--nnodes",
            "1",
            "--nproc-per-node",
            str(ranks),
            "--local-addr",
            "127.0.0.1",
            "--master-addr",
            "127.0.0.1",
            "--master-port",
            str(free_port()),
        ]
    done = subprocess.run(
        [*start, HERE / "apart.py", file, function, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={
            **os.environ,
            **ENVIRONMENTS[framework],
            "KERAS_HOME": os.path.join(tempfile.gettempdir(), "tpplan-keras"),
        },
    )
    if done.returncode:
        pytest.fail(f"{file}.{function}{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}", pytrace=False)


if __name__ == "__main__":
    getattr(__import__(sys.argv[1]), sys.argv[2])(*sys.argv[3:])
    if "RANK" in os.environ:  # gloo's threads may still run when the interpreter exits, and abort it
        sys.stdout.flush()
        os._exit(0)
