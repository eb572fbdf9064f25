"""What the tests of tools/python share: the package on the path, compiled manifests, running ranks."""

import json
import os
import pathlib
import socket
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "python"))
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tools" / "python"), os.environ.get("PYTHONPATH", "")])

sys.path.insert(0, str(ROOT / "tests"))
from conftest import run, write  # noqa: E402


def needs(*modules):
    """Skips the tests of a file where one of these cannot be imported, and says which."""
    for module in modules:
        pytest.importorskip(module, reason=f"{module} is not installed (tests/requirements-live.txt)")


def compile_manifest(folder, model, plan, *flags):
    """Compiles with the real program; the path of the manifest. Fails on errors."""
    model_path, plan_path = write(folder, model if isinstance(model, dict) else json.dumps(model), plan)
    output = folder / "manifest.json"
    result = run("compile", model_path, plan_path, "-o", output, *flags)
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    return output


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def rank_main(rank, count, port, function, arguments):
    import torch

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=count)
    try:
        function(rank, *arguments)
    finally:
        torch.distributed.destroy_process_group()


def on_ranks(count, function, *arguments):
    """Runs function(rank, *arguments) in `count` processes joined by gloo; a failure in one fails the test."""
    import torch.multiprocessing

    torch.multiprocessing.spawn(rank_main, (count, free_port(), function, arguments), nprocs=count)
