#!/usr/bin/env python3
"""Times the matching of many rules with stars, compared with Python's fnmatch on the same rules and paths.

    cmake --build build --target tpplan_bench && python3 tests/bench/bench_globs.py [--runs 5] [--rows 7]

`check` is the full process, `without` the `check` of the same model with one rule. The difference, `for the rules`, is
reading the rules, matching, choosing one per parameter, and diagnostics; `-` if it is within the noise. fnmatch tests
each compiled rule on each path. With more than MOST_PAIRS pairs it tests an even sample of the paths, and its time is
scaled (marked `~`). Times are medians of alternating runs.
"""

import argparse
import fnmatch
import json
import pathlib
import re
import statistics
import tempfile
import time

from bench import ROOT, measure

NAMES = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "adapter_a",
    "adapter_b",
    "norm_proj",
]
MOST_PAIRS = 4_000_000  # pairs of rule and path that fnmatch tests


def layer_rules(count, layers):
    """Rules that match one parameter each."""
    return [f"*.layers.{i % layers}.{NAMES[i // layers]}.weight" for i in range(count)]


def hostile_rules(count, _):
    """Patterns with thirteen stars between texts that all paths of STEMS have, but in another order."""
    return ["*" + "o*" * 8 + "".join(f"{digit}*" for digit in f"{i:03}") + "o*o" for i in range(count)]


def matching_rules(count, _):
    """Patterns that match all paths; each begins with other letters."""
    beginning = "model.layers."
    return ["".join(c if i >> k & 1 else "*" for k, c in enumerate(beginning)) + "*" for i in range(1, count + 1)]


STEMS = {hostile_rules: "o" * 64}  # beginning of the paths

# Kind of rules, function that makes them, number of rules, number of parameters.
ROWS = [
    ("one parameter each", layer_rules, 1_000, 10_000),
    ("one parameter each", layer_rules, 10_000, 10_000),
    ("one parameter each", layer_rules, 1_000, 100_000),
    ("one parameter each", layer_rules, 10_000, 100_000),
    ("13 stars, no match", hostile_rules, 200, 1_000),
    ("13 stars, no match", hostile_rules, 1_000, 10_000),
    ("all match all", matching_rules, 1_000, 10_000),
]


def write_model(path, stem, layers):
    paths = [f"{stem}.{i}.{name}" for i in range(layers) for name in NAMES]
    modules = [{"path": "", "type": "Model"}]
    for name in paths:
        weight = {"shape": [1024, 1024], "dtype": "bfloat16"}
        modules.append({"path": name, "type": "Linear", "parameters": {"weight": weight}})
    path.write_text(
        json.dumps({"format": "tpplan.model/1", "name": "Layers", "framework": "torch", "modules": modules})
    )
    return [f"{name}.weight" for name in paths]


def write_plan(path, rules):
    entries = "".join(f'  "{rule}": {{style: colwise, optional: true}}\n' for rule in rules)
    path.write_text(f"format: tpplan.plan/1\nmesh: {{tp: 8}}\ntp_plan:\n{entries}")


def time_fnmatch(rules, paths):
    """Returns the seconds for all pairs, and True if they were extrapolated from a sample."""
    step = max(1, len(rules) * len(paths) // MOST_PAIRS)
    asked = paths[::step]
    start = time.process_time()
    for rule in rules:
        match = re.compile(fnmatch.translate(rule)).match
        for path in asked:
            match(path)
    return (time.process_time() - start) * len(paths) / len(asked), step > 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=len(ROWS))
    arguments = parser.parse_args()
    scratch = tempfile.TemporaryDirectory(prefix="tpplan-bench-")
    folder = pathlib.Path(scratch.name)
    print("| rules | each | parameters | check | without | for the rules | fnmatch | fnmatch / rules |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, make, count, parameters in ROWS[: arguments.rows]:
        model, plan, one = folder / "model.json", folder / "plan.yaml", folder / "one.yaml"
        layers = parameters // len(NAMES)
        paths, rules = write_model(model, STEMS.get(make, "model.layers"), layers), make(count, layers)
        write_plan(plan, rules)
        write_plan(one, ["*"])
        commands = {file: [arguments.build / "tpplan", "check", model, file, "-q"] for file in (plan, one)}
        seconds = {file: [] for file in commands}
        for run in range(arguments.runs + 1):  # the first run fills caches
            for file, command in commands.items():
                taken, *_ = measure(arguments.build, command)
                seconds[file] += [taken] if run else []
        check, without = (statistics.median(seconds[file]) for file in commands)
        taken = check - without
        known = taken > 0.02 * without
        peer, fewer = time_fnmatch(rules, paths)
        mark = "~" if fewer else ""
        print(
            f"| {count:,} | {kind} | {parameters:,} | {check * 1e3:.0f} ms | {without * 1e3:.0f} ms | "
            + (f"{taken * 1e3:.0f} ms" if known else "-")
            + f" | {mark}{peer * 1e3:.0f} ms | "
            + (f"{mark}{peer / taken:.0f} |" if known else "- |"),
            flush=True,
        )


if __name__ == "__main__":
    main()
