#!/usr/bin/env python3
"""Whether reading past the page cache would help: a file that is not in the cache, read as `tpplan-exec load` reads, in calls of 2 MiB by
some threads, and the same with O_DIRECT; and one that is in it.

    python3 tests/bench/bench_direct.py FILE [--rounds 3]

GB/s, and seconds of processor a GB, at best. A file is put out of the cache by posix_fadvise, which asks and does
not order.
"""

import argparse
import mmap
import os
import resource
import threading
import time

CALL = 2 << 20


def read_all(path, threads, direct):
    """(seconds, seconds of processor)"""
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
    arguments = parser.parse_args()
    size = os.path.getsize(arguments.file) / 1e9
    ways = {
        "cold, through the cache": (True, False),
        "cold, O_DIRECT": (True, True),
        "in the cache": (False, False),
        "in the cache, O_DIRECT": (False, True),
    }
    print("| | " + " | ".join(f"{count} threads | s a GB" for count in arguments.threads) + " |")
    print("|" + "---|" * (1 + 2 * len(arguments.threads)))
    for name, (cold, direct) in ways.items():
        cells = []
        for threads in arguments.threads:
            best = None
            for _ in range(arguments.rounds):
                forget(arguments.file) if cold else read_all(arguments.file, 4, False)
                taken = read_all(arguments.file, threads, direct)
                best = min(best or taken, taken)
            cells.append(f"{size / best[0]:.2f} | {best[1] / size:.3f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
