#!/usr/bin/env python3
"""Compares the computed seconds of published steps with the measured ones, row by row, and each GPU's share.

Needs a folder of published steps (default: ../shared/data/published next to the project) and the check that writes their
plans and runs (../shared/check/published). Prints a table in Markdown."""

import argparse
import importlib.machinery
import importlib.util
import json
import math
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def published(shared):
    """The check of published steps as a module."""
    loader = importlib.machinery.SourceFileLoader("published", str(shared / "check" / "published"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("published", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def price(check, bench, row, by):
    """(seconds, interval, terms) of a row; None if the program has no answer."""
    try:
        answer = bench.step(row, by)
        return answer["costs"]["step"]["seconds"], answer["costs"]["step"]["interval"], answer["costs"]["terms"]
    except check.NoAnswer:
        return None


def percent(predicted, measured):
    return f"{100 * (predicted / measured - 1):+.1f} %"


def table(check, rows, shown, bench, configs):
    print("| row | GPU, software | measured | preset | calibrated | largest terms |")
    print("|---|---|---|---|---|---|")
    errors = {}
    for row in rows:
        measured = check.measured(row)
        alone = price(check, bench, row, [])
        fitted = price(check, bench, row, check.calibrators(row, shown, configs))
        if alone is None or fitted is None:
            print(f"| {row['id']} | {', '.join(check.stack(row))} | {measured:.3g} s | - | - | no answer |")
            continue
        largest = sorted(fitted[2], key=lambda term: -term["seconds"])[:3]
        terms = ", ".join(f"{t['name']} {100 * t['seconds'] / fitted[0]:.0f} %" for t in largest)
        cells = (percent(alone[0], measured), percent(fitted[0], measured), terms)
        print(f"| {row['id']} | {', '.join(check.stack(row))} | {measured:.3g} s | {' | '.join(cells)} |")
        kind = "8-bit" if check.is_fp8(row) else "bf16" if check.is_complete(row) else "bf16, checkpointing unknown"
        if not check.is_skipped(row):
            errors.setdefault(kind, []).append(
                (abs(math.log(alone[0] / measured)), abs(math.log(fitted[0] / measured)))
            )
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build" / "tpplan"))
    parser.add_argument("--shared", type=pathlib.Path, default=ROOT.parent / "shared")
    parser.add_argument("--rows", type=int, default=None, help="the first rows only")
    arguments = parser.parse_args()
    if not (arguments.shared / "check" / "published").exists():
        print(f"skipped: {arguments.shared} has no published steps", file=sys.stderr)
        return 0
    check = published(arguments.shared)
    shown = json.loads((check.DATA / "steps.json").read_text())
    configs = {row["model"]: json.loads((check.DATA / "configs" / f"{row['model']}.json").read_text()) for row in shown}
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(arguments.program).resolve())
        bench = check.Bench(program, pathlib.Path(folder), check.DATA / "configs", ROOT / "plans" / "topologies")
        errors = table(check, shown[: arguments.rows], shown, bench, configs)
    print()
    print("| rows | count | median error, preset | median error, calibrated | within 10 %, calibrated |")
    print("|---|---|---|---|---|")
    for kind, pairs in errors.items():
        alone, fitted = ([math.expm1(error) for error in column] for column in zip(*pairs))
        share = sum(error <= 0.1 for error in fitted) / len(fitted)
        medians = f"{100 * statistics.median(alone):.1f} % | {100 * statistics.median(fitted):.1f} %"
        print(f"| {kind} | {len(pairs)} | {medians} | {100 * share:.0f} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
