"""Runs one test of ctest and records its cost: record.py FOLDER NAME COMMAND...; {} in COMMAND is the file for its
cases.

In addition to the cases (JUnit's XML) it writes NAME.json: exit status, elapsed seconds, and CPU seconds of all
processes that the test waited for. Exits with the test's status, or with 77 if the complete test was skipped.

Temporary files of the test are in memory if enough is free: on a disk, rewriting a file takes milliseconds.
"""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

NOTHING_RAN, SKIPPED = (
    5,
    77,
)  # pytest's status if it ran no test, which ctest counts as a failure; our status if all tests were skipped


MEMORY, ROOM = "/dev/shm", 4 << 30  # bytes: much more than the tests that run at a time need


def make_folder():
    """Creates a folder for temporary files, from which programs can be started."""
    try:
        memory = os.statvfs(MEMORY)
    except OSError:
        return tempfile.mkdtemp()
    fits = memory.f_bavail * memory.f_frsize > ROOM and not memory.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)
    return tempfile.mkdtemp(prefix="tpplan-tests-", dir=MEMORY if fits else None)


def show_failures(cases):
    """Prints the failed cases of programs that write them only to the file."""
    import xml.etree.ElementTree

    try:
        tree = xml.etree.ElementTree.parse(cases)
    except xml.etree.ElementTree.ParseError:
        return print(f"{cases} is cut off")
    for case in tree.iter("testcase"):
        for failure in case.findall("failure") + case.findall("error"):
            print(
                f"failed: {case.get('classname')}: {case.get('name')}\n{failure.get('message', '')}\n{failure.text or ''}"
            )


def main(folder, name, *command):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stem = name.replace("/", "-")
    cases = folder / f"{stem}.xml"
    cases.unlink(missing_ok=True)
    start = time.monotonic()
    temporary = make_folder()
    try:
        environment = os.environ | {"TMPDIR": temporary}
        status = subprocess.run([part.replace("{}", str(cases)) for part in command], env=environment).returncode
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    seconds = time.monotonic() - start
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = {"name": name, "status": status, "seconds": seconds, "processor": usage.ru_utime + usage.ru_stime}
    (folder / f"{stem}.json").write_text(json.dumps(result) + "\n")
    if status == NOTHING_RAN and cases.exists() and "<skipped" in cases.read_text():
        return SKIPPED
    if status != 0 and "pytest" not in command and cases.exists():
        show_failures(cases)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
