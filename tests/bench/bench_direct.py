#!/usr/bin/env python3
"""Measures if reads with O_DIRECT are faster. Reads a file that is not in the page cache in calls of 2 MiB by several
threads, as `tpplan-exec load` does, with and without O_DIRECT; and a file that is in the cache. With --uring also by
one thread with several calls in flight (uring_read.cc, which it compiles), into plain and into registered memory.

    python3 tests/bench/bench_direct.py FILE [--rounds 3] [--threads 1 2 4 8] [--uring]

Prints the best GB/s and CPU seconds per GB. posix_fadvise removes a file from the cache, but the kernel may ignore
it.
"""

import argparse
import functools
import mmap
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import time

CALL = 2 << 20


def read_all(path, threads, direct):
    """Returns (seconds, CPU seconds)."""
    flags = os.O_RDONLY | (os.O_DIRECT if direct else 0)
    descriptor, size = os.open(path, flags), os.path.getsize(path)
    places = iter(range(0, size, CALL))
    lock = threading.Lock()

    def work():
        buffer = mmap.mmap(-1, CALL)  # aligned
        while True:
            with lock:
                place = next(places, None)
            if place is None:
                return
            os.preadv(descriptor, [buffer], place)

    used, start = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds, now = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF)
    os.close(descriptor)
    return seconds, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def read_by_uring(program, registered, path, count, direct):
    """Returns (seconds, CPU seconds) of one thread with `count` calls in flight."""
    command = [program, path, str(count), "direct" if direct else "cached", registered]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return tuple(map(float, done.stdout.split()))


def compiled(folder):
    """Compiles uring_read.cc and returns the program."""
    source, program = pathlib.Path(__file__).parent / "uring_read.cc", os.path.join(folder, "uring_read")
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, "-O2", "-std=c++20", source, "-o", program], check=True)
    return program


def forget(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--uring", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        readers = {"": read_all}
        if arguments.uring:
            program = compiled(folder)
            readers[", io_uring"] = functools.partial(read_by_uring, program, "plain")
            readers[", io_uring, registered"] = functools.partial(read_by_uring, program, "registered")
        measure(arguments, readers)


def measure(arguments, readers):
    size = os.path.getsize(arguments.file) / 1e9
    ways = {
        "cold, through the cache": (True, False),
        "cold, O_DIRECT": (True, True),
        "in the cache": (False, False),
        "in the cache, O_DIRECT": (False, True),
    }
    print("| | " + " | ".join(f"{count} | s a GB" for count in arguments.threads) + " |")
    print("|" + "---|" * (1 + 2 * len(arguments.threads)))
    for name, (cold, direct) in ways.items():
        best = {}  # the methods alternate
        for _ in range(arguments.rounds):
            for reader, read in readers.items():
                for count in arguments.threads:
                    forget(arguments.file) if cold else read_all(arguments.file, 4, False)
                    taken = read(arguments.file, count, direct)
                    best[reader, count] = min(best.get((reader, count), taken), taken)
        for reader in readers:
            times = [best[reader, count] for count in arguments.threads]
            cells = [f"{size / seconds:.2f} | {processor / size:.3f}" for seconds, processor in times]
            print(f"| {name}{reader} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
