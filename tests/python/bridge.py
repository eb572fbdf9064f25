"""Shared functions of the tests of tools/python: the package on the path, compiled manifests, running ranks."""

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
from conftest import PROGRAM, run, write  # noqa: E402, F401


def needs(*modules):
    """Skips the tests of a file if one of these modules cannot be imported, with the reason. Also skips them in a
    sanitized build, where they would mostly test the frameworks.
    """
    if os.environ.get("TPPLAN_SANITIZED"):
        pytest.skip("the live tests run with the release build", allow_module_level=True)
    for module in modules:
        pytest.importorskip(module, reason=f"{module} is not installed (tests/requirements-live.txt)")


def compile_manifest(folder, model, plan, *flags):
    """Compiles with the real program and returns the path of the manifest. Fails on errors."""
    model_path, plan_path = write(folder, model if isinstance(model, dict) else json.dumps(model), plan)
    output = folder / "manifest.json"
    result = run("compile", model_path, plan_path, "-o", output, *flags)
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    return output


def sent_in(manifest, dtype):
    """Returns the manifest with every output of a boundary sent in this dtype."""
    import dataclasses

    typed = [
        dataclasses.replace(b, outputs=tuple(dataclasses.replace(v, forward_dtype=dtype) for v in b.outputs))
        for b in manifest.modules
    ]
    assert any(b.outputs for b in typed)
    return dataclasses.replace(manifest, modules=tuple(typed))


def mesh_of(manifest):
    """Returns the device mesh of a manifest, on ranks with an initialized gloo group. Only ranks import torch."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(
        "cpu", tuple(size for _, size in manifest.mesh), mesh_dim_names=tuple(axis for axis, _ in manifest.mesh)
    )


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def serve(rank, count, port, jobs, answers):
    """Main loop of one rank: runs the functions that it receives, and replies with their exceptions."""
    import datetime
    import faulthandler
    import traceback

    import torch

    faulthandler.enable()  # prints the stack of a rank that a signal ends
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=count, timeout=datetime.timedelta(seconds=180))
    while (job := jobs.get()) is not None:
        try:
            job[0](rank, *job[1])
            answers.put((rank, None))
        except BaseException:
            answers.put((rank, traceback.format_exc()))


def ranks_context(function):
    """Returns a context whose processes are forked from one that has imported the function's file, since importing a
    framework takes longer than most tests.
    """
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed.tensor", function.__module__])
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # Python 3.11 does not hand it on
    return context


class Ranks:
    """Processes in a gloo group that live as long as the tests of a file, because starting them takes longer than the
    tests.
    """

    def __init__(self):
        self.pools = {}

    def run(self, count, function, *arguments, timeout=240, again=True):
        """Runs function(rank, *arguments) on `count` ranks. Fails the test with a rank's exception, and stops these
        ranks.

        torch and gloo sometimes abort in malloc. Ranks that were ended by a signal run once more, with a warning; a
        second abort fails the test.
        """
        import queue
        import warnings

        if count not in self.pools:
            context = ranks_context(function)
            answers, port = context.Queue(), free_port()
            jobs = [context.Queue() for _ in range(count)]
            processes = [
                context.Process(target=serve, args=(r, count, port, jobs[r], answers), daemon=True)
                for r in range(count)
            ]
            for process in processes:
                process.start()
            self.pools[count] = processes, jobs, answers
        processes, jobs, answers = self.pools[count]
        for job in jobs:
            job.put((function, arguments))
        for _ in range(count):
            try:
                rank, error = answers.get(timeout=timeout)
            except queue.Empty:
                rank, error = "?", f"no answer in {timeout} s"
            if error is not None:
                signals = self.stop(count)
                if signals and again:
                    warnings.warn(f"signal {signals} ended a rank of {count}: run once more", stacklevel=2)
                    return self.run(count, function, *arguments, timeout=timeout, again=False)
                pytest.fail(f"rank {rank} of {count}: {error}", pytrace=False)

    def stop(self, count):
        """Stops the ranks. Returns the signals that had ended ranks before."""
        processes = self.pools.pop(count)[0]
        for process in processes:
            process.join(0.5)  # its peers detect an abort first
        signals = [-process.exitcode for process in processes if (process.exitcode or 0) < 0]
        for process in processes:
            process.terminate()
            process.join()
        return signals

    def stop_all(self):
        for count in list(self.pools):
            self.stop(count)


@pytest.fixture(scope="module")
def ranks():
    pool = Ranks()
    yield pool
    pool.stop_all()
