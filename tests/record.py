"""Runs one test of ctest and notes what it took: record.py FOLDER NAME COMMAND..., {} in COMMAND is the file for its cases.

Beside the cases (JUnit's XML) it leaves NAME.json: exit status, seconds, and seconds of processor time of all processes that
the test waited for. Ends with the test's status; with 77 where the test had to be skipped whole.

Temporary files of the test stand in memory where that has room: disks take milliseconds for each file that is written again.
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

NOTHING_RAN, SKIPPED = 5, 77  # pytest's status, for ctest a failure unless something was skipped; ours for that


MEMORY, ROOM = "/dev/shm", 4 << 30  # bytes: what the tests that run at a time have, and much more


def make_folder():
    """For temporary files; programs are started from there, too."""
    try:
        memory = os.statvfs(MEMORY)
    except OSError:
        return tempfile.mkdtemp()
    fits = memory.f_bavail * memory.f_frsize > ROOM and not memory.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)
    return tempfile.mkdtemp(prefix="tpplan-tests-", dir=MEMORY if fits else None)


def show_failures(cases):
    """For programs that write their cases to the file only."""
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
