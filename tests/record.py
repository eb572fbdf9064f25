"""Runs one test of ctest and notes what it took: record.py FOLDER NAME COMMAND..., {} in COMMAND is the file for its cases.

Beside the cases (JUnit's XML) it leaves NAME.json: exit status, seconds, and seconds of processor time of all processes that
the test waited for. Ends with the test's status; with 77 where the test had to be skipped whole.
"""

import json
import pathlib
import resource
import subprocess
import sys
import time

NOTHING_RAN, SKIPPED = 5, 77  # pytest's status, for ctest a failure unless something was skipped; ours for that


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
    status = subprocess.run([part.replace("{}", str(cases)) for part in command]).returncode
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
