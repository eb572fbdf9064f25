"""Runs a program as forks of a server that is already started (fork_server.cc), so that thousands of runs start the
program only once. Without TPPLAN_FORKS each run is a separate process, with the same results.
"""

import atexit
import os
import select
import struct
import subprocess
import time

SERVERS = {}  # path: Popen, started by the first run


def framed(*parts):
    """Encodes texts (bytes), and lists of them with their count."""
    out = []
    for part in parts:
        out += [struct.pack("=I", len(part)), part if isinstance(part, bytes) else framed(*part)]
    return b"".join(out)


def server(path):
    if path not in SERVERS or SERVERS[path].poll() is not None:
        SERVERS[path] = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
    return SERVERS[path]


@atexit.register
def stop_all():
    for process in SERVERS.values():
        process.stdin.close()
        process.wait()


def stop(path):
    """Kills the server and its child."""
    process = SERVERS.pop(path)
    os.killpg(process.pid, 9)
    process.wait()


def receive(path, size, limit):
    data = b""
    while len(data) < size:
        ready, _, _ = select.select([SERVERS[path].stdout], [], [], max(0.0, limit - time.monotonic()))
        if not ready:
            return None
        piece = os.read(SERVERS[path].stdout.fileno(), size - len(data))
        assert piece, f"{path} has ended"
        data += piece
    return data


def run_forked(path, arguments, input=None, env=None, cwd=None, timeout=60):
    """Returns the result of subprocess.run(arguments, capture_output=True, ...), from a fork of the server at
    `path`.
    """
    variables = [os.fsencode(f"{name}={value}") for name, value in (os.environ if env is None else env).items()]
    request = framed(
        os.fsencode(os.getcwd() if cwd is None else cwd), input or b"", [os.fsencode(a) for a in arguments], variables
    )
    pipe = server(path).stdin
    while request:
        request = request[os.write(pipe.fileno(), request) :]
    limit = time.monotonic() + timeout

    def answer(size):
        data = receive(path, size, limit)
        if data is None:
            stop(path)
            raise subprocess.TimeoutExpired(arguments, timeout)
        return data

    status = struct.unpack("=i", answer(4))[0]
    stdout, stderr = (answer(struct.unpack("=I", answer(4))[0]) for _ in range(2))
    return subprocess.CompletedProcess(arguments, status, stdout, stderr)
