"""Runs a command and prints its exit status, CPU seconds and peak memory in MiB as JSON. Without arguments, runs each
command of standard input, one JSON list per line.

It runs in a separate process, because the peak memory of a child includes the memory of its parent at the fork. A
command is killed after MOST_SECONDS of CPU time or at MOST_BYTES of memory, which its status shows. The limit is
several times the time of a slow machine, and a fraction of the time of quadratic work.
"""

import atexit
import functools
import json
import os
import resource
import subprocess
import sys

MOST_SECONDS = 20
MOST_BYTES = 2 << 30


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    if os.environ.get("TPPLAN_SANITIZED") != "1":
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def measure(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit)
    message = process.stderr.read(4000)
    written = len(message)
    while piece := process.stderr.read(1 << 16):
        written += len(piece)
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status  # the process is already reaped
    return {
        "status": os.waitstatus_to_exitcode(status),
        "seconds": usage.ru_utime + usage.ru_stime,
        "mebibytes": usage.ru_maxrss / 1024,
        "message": message.decode(errors="backslashreplace"),
        "message_bytes": written,
    }


def main(arguments):
    if arguments:
        return print(json.dumps(measure(arguments)))
    for line in sys.stdin:
        print(json.dumps(measure(json.loads(line))), flush=True)


# ---- for tests that measure many commands ----


@functools.cache
def server():
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)  # the process ends with its input
    return process


def measured(*command):
    """Returns the measurements of a command. One helper process runs all commands."""
    server().stdin.write(json.dumps([str(part) for part in command]) + "\n")
    server().stdin.flush()
    return json.loads(server().stdout.readline())


if __name__ == "__main__":
    main(sys.argv[1:])
