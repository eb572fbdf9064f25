"""Runs a command and prints its exit status, processor seconds and peak memory in MiB as JSON; without arguments each
command of standard input, a JSON list a line.

A process of its own: the peak of a child that a large process starts begins with what that process had in memory. A
command that runs away is killed after MOST_SECONDS of processor time or at MOST_BYTES of memory, and its status says so: that
is the tests' bound of time, several times what slow machines need, and a part of what work that grows with a product takes.
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
    process.returncode = status  # nobody waits for it again
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
    atexit.register(process.communicate)  # it ends with its input
    return process


def measured(*command):
    """What a process of its own, which stays for the next command, measures."""
    server().stdin.write(json.dumps([str(part) for part in command]) + "\n")
    server().stdin.flush()
    return json.loads(server().stdout.readline())


if __name__ == "__main__":
    main(sys.argv[1:])
