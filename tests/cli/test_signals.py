"""A signal during a write ends the program and leaves no partial file."""

import signal
import subprocess
import time

import pytest
from conftest import PROGRAM, ROOT


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_signal_during_a_write_leaves_no_file(tmp_path, name):
    command = [PROGRAM, "compile", ROOT / "plans/models/llama-3-8b.json", ROOT / "plans/llama-fsdp-tp.yaml"]
    command += ["-o", tmp_path / "manifest.json", "-q"]
    met = 0
    for _ in range(10):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not list(tmp_path.glob(".tpplan-*")):
                time.sleep(0.0002)
            process.send_signal(signal.Signals[name])
            ended_by = process.wait(60)
        met += ended_by == -signal.Signals[name]
        assert ended_by in (0, -signal.Signals[name])
        assert not list(tmp_path.glob(".tpplan-*"))
    assert met > 0 or (tmp_path / "manifest.json").exists()
