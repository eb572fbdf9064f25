"""Compares the verdicts on recorded plans, and their times: tpplan, a dry run on a fake process group, and the type
checker spmd_types, each on the same cases (tests/truth/data, runs_transformers). Run by bench_walk.py --peers.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "truth")]

# Recorded outcome -> column of the table. For correct plans the table counts false rejections.
KINDS = {
    "crash_apply": "crashes",
    "crash_forward": "crashes",
    "crash_backward": "crashes",
    "wrong_output": "wrong results",
    "wrong_grad": "wrong gradients",
    "ok": "right",
}
COLUMNS = ("crashes", "wrong results", "wrong gradients", "right")
# Error of spmd_types if it has no type for a DTensor placement: no verdict, for right and wrong plans.
NO_VERDICT = "Unknown DTensor placement"


def sample(folder, step):
    """Returns every step-th recorded plan: (case for peer_runs.py, model file, plan file)."""
    from run_cases import FAMILIES
    from test_runs import files

    for case, model, plan in list(files(folder, "runs_transformers"))[::step]:
        name, kwargs, _ = FAMILIES[case["file"]]
        yield case | {"model": name, "kwargs": kwargs}, model, plan


def needed(package):
    """Returns the version of a package in tests/requirements-bench.txt."""
    return re.search(rf"^{package}==(\S+)", (ROOT / "tests" / "requirements-bench.txt").read_text(), re.MULTILINE)[1]


def why_not(python, package):
    """Returns why this Python cannot check plans with the package; empty if it can."""
    question = f"import importlib.metadata as m; print(m.version({package!r}))"
    asked = subprocess.run([python, "-c", question], capture_output=True, text=True)
    wanted = needed(package)
    if asked.returncode != 0:
        return f"{python} has no {package}: pip install -r tests/requirements-bench.txt"
    return "" if asked.stdout.strip() == wanted else f"{python} has {package} {asked.stdout.strip()}, not {wanted}"


def table_row(name, cases, reasons, seconds):
    """Returns one line of the table: rejected plans by kind. `reasons` are texts, empty for an accepted plan."""
    total, found, stops = collections.Counter(), collections.Counter(), 0
    for case, reason in zip(cases, reasons, strict=True):
        total[KINDS[case["outcome"]]] += 1
        stops += NO_VERDICT in reason
        found[KINDS[case["outcome"]]] += bool(reason) and NO_VERDICT not in reason
    cells = " | ".join(f"{found[kind]} of {total[kind]}" for kind in COLUMNS)
    return f"| {name} | {cells} | {stops} | {seconds:.2f} s |"


def judge_cases(program, folder, step, spmd_python, cpu_seconds):
    """Returns the lines of the table. `cpu_seconds(command, may_fail)` runs a process and returns its seconds, status
    and output.
    """
    rows = list(sample(folder, step))
    cases = [case for case, _, _ in rows]
    (folder / "cases.json").write_text(json.dumps(cases))
    yield f"{len(cases)} plans that ran on real ranks, found wrong of those that are, and refused of those that are right"
    yield "| | crashes | wrong results | wrong gradients | right plans refused | no verdict | CPU |"
    yield "|---|---|---|---|---|---|---|"
    judged = [cpu_seconds([program, "check", model, plan, "-q"], may_fail=True) for _, model, plan in rows]
    reasons = ["exit status 1" if status == 1 else "" for _, status, _ in judged]
    yield table_row("tpplan check", cases, reasons, sum(seconds for seconds, _, _ in judged))
    for name, mode, python in (
        ("dry run on a fake process group", "dry", sys.executable),
        ("spmd_types", "spmd", spmd_python),
    ):
        reason = why_not(python, "spmd_types") if mode == "spmd" else ""
        if reason:
            yield f"{name}: skipped, {reason}"
            continue
        seconds, _, out = cpu_seconds([python, HERE / "peer_runs.py", mode, folder / "cases.json"])
        yield table_row(name, cases, [json.loads(line) or "" for line in out.splitlines()], seconds)
