"""What the tests did, from what record.py left: summary.py [--times] TITLE=FOLDER...; TITLE=!REASON for what did not run.

Prints what was skipped and why, one line of what ran, and `N passed, N failed, N skipped` alone on the last. Counts are
cases; a test that ended badly without a failed case (a crash, a deadline) is one that failed. Exit status 1 where anything
failed, or a piece ran nothing. Names every test that took more than SLOW seconds; --times adds the times of all tests.
"""

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree

NOTHING_RAN = 5
SLOW = 10  # seconds


def read_results(folder):
    """Of each test its record, with the counts of cases as `passed`, `failed` and, for each reason, `skipped`."""
    results = []
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        result = json.loads(path.read_text()) | {"passed": 0, "failed": 0, "skipped": collections.Counter()}
        cases = path.with_suffix(".xml")
        if not cases.exists() and result["status"] == 0:  # a test without cases is one
            result["passed"] = 1
        for case in read_cases(cases) if cases.exists() else []:
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                result["failed"] += 1
            elif skipped is not None:
                result["skipped"][reason_of(skipped)] += 1
            else:
                result["passed"] += 1
        ended_well = result["status"] == 0 or result["status"] == NOTHING_RAN and result["skipped"]
        if not ended_well and result["failed"] == 0:
            result["failed"] = 1
        results.append(result)
    return results


def read_cases(path):
    try:
        return list(xml.etree.ElementTree.parse(path).iter("testcase"))
    except xml.etree.ElementTree.ParseError:  # truncated: the test crashed, as its status shows
        return []


def reason_of(skipped):
    """pytest's text of a whole file's skip is a tuple of place and reason."""
    message = skipped.get("message", "")
    text = (skipped.text or "").strip() if message == "collection skipped" else message
    text = text.rstrip(")").rsplit(", '", 1)[-1].strip("'\"")
    return text.removeprefix("Skipped: ").removeprefix("skipped: ")


def count(result):
    return result["passed"] + result["failed"] + result["skipped"].total()


def print_times(results):
    print("| test | seconds of processor | seconds | cases |\n|---|---|---|---|")
    for r in sorted(results, key=lambda r: -r["processor"]):
        print(f"| {r['name']} | {r['processor']:.1f} | {r['seconds']:.1f} | {count(r)} |")
    print(
        f"| all | {sum(r['processor'] for r in results):.1f} | {sum(r['seconds'] for r in results):.1f} | "
        f"{sum(map(count, results))} |"
    )


def print_slow(title, results):
    for r in sorted(results, key=lambda r: -r["seconds"]):
        if r["seconds"] > SLOW:
            print(f"slow: {r['name']} ({title}): {r['seconds']:.0f} s, {r['processor']:.0f} s of CPU")


def main(arguments):
    times = "--times" in arguments
    ran, left_out = [], []
    for title, _, folder in (a.partition("=") for a in arguments if a != "--times"):
        if folder.startswith("!"):
            left_out.append(f"{title} not run ({folder[1:]})")
        else:
            ran.append((title, read_results(folder)))
    total, reasons = collections.Counter(passed=0, failed=0, skipped=0), collections.Counter()
    said = []
    for title, results in ran:
        if times:
            print(f"{title}:")
            print_times(results)
        print_slow(title, results)
        for r in results:
            reasons += r["skipped"]
            total.update(passed=r["passed"], failed=r["failed"], skipped=r["skipped"].total())
            if r["failed"]:
                print(f"failed: {r['name']} ({title}): {r['failed']}, exit status {r['status']}")
        if not any(r["passed"] or r["failed"] for r in results):
            print(f"failed: {title}: nothing ran")
            total["failed"] += 1
        said.append(f"{title} {sum(map(count, results))} cases of {len(results)} tests")
    for reason, times_skipped in reasons.most_common():
        print(f"skipped: {times_skipped} x {reason}")
    print("ran: " + "; ".join((said or ["nothing"]) + left_out))
    if not ran:
        total["failed"] += 1
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
