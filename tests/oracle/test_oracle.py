"""Random models and plans: the program's result, its codes and its manifest match those that judge_plan.py computes from the documents.
`python tests/oracle/test_oracle.py COUNT SEED` compares more (TPPLAN names the program)."""

import collections
import itertools
import json
import math
import pathlib
import random
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import run  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from judge_plan import judge, piece_shape  # noqa: E402
from random_plans import FAULTS, draw_pair, plan_text  # noqa: E402

HERE_KNOWN = {"TP4004", "TP4005"}


def right(model, plan):
    return judge(model, plan)["status"] == 0


def shown(result, severity):
    return set(re.findall(rf"{severity}\[(TP\d+)\]", result.stderr.decode()))


def begins(entry, rank):
    """First and last index of a rank's shards by `offsets`: {dim: intervals}."""
    found = {}
    for dim in entry.get("offsets", []):
        piece = sum(rank // stride % count * step for stride, count, step in dim["ranks"])
        runs, base = [], 0
        for segment in dim["runs"]:
            sizes = [length for count, length in segment for _ in range(count)]
            begin = base + sum(sizes[:piece])
            runs.append([begin, begin + sizes[piece]])
            base += sum(sizes)
        found[dim["dim"]] = runs
    return found


def local_shape(entry, mesh, rank):
    """A rank's shape by `local_shape` or `local_shapes`."""
    if entry["local_shape"] is not None:
        return entry["local_shape"]
    used = {axis for dim in entry["spec"] if dim for axis in (dim if isinstance(dim, list) else [dim])}
    place = 0
    for axis, coordinate in zip(
        mesh, next(itertools.islice(itertools.product(*map(range, mesh.values())), rank, None))
    ):
        place = place * mesh[axis] + coordinate if axis in used else place
    return entry["local_shapes"][place]


def differences_of_manifest(expected, manifest, plan):
    """Differences of the manifest."""
    found, mesh = [], plan["mesh"]
    if [rule["matches"] for rule in manifest["rules"]] != expected["matches"]:
        found.append(f"matches {[rule['matches'] for rule in manifest['rules']]}, expected {expected['matches']}")
    names = [entry["path"] for entry in manifest["parameters"]]
    if names != [entry["path"] for entry in expected["parameters"]]:
        return [*found, f"parameters {names}"]
    for mine, entry in zip(expected["parameters"], manifest["parameters"]):
        for field in ("spec", "placements", "reason", "rule", "style", "replicas"):
            if mine[field] != entry[field]:
                found.append(f"{mine['path']}: {field} {entry[field]}, expected {mine[field]}")
        sums = [[one["axis"], one["kind"]] for one in entry["grad_reduce"] if one["by"] != "module"]
        if sums != mine["grad_reduce"]:
            found.append(f"{mine['path']}: gradient {sums}, expected {mine['grad_reduce']}")
        if entry.get("segments", {}) != mine["segments"]:
            found.append(f"{mine['path']}: segments {entry.get('segments')}, expected {mine['segments']}")
        if mine["spec"] != entry["spec"]:
            continue
        shapes = [piece_shape(runs) for runs in mine["held"]]
        if (entry["local_shape"] is None) == all(shape == shapes[0] for shape in shapes):
            found.append(f"{mine['path']}: local_shape {entry['local_shape']}, expected {shapes}")
        for rank, (runs, shape) in enumerate(zip(mine["held"], shapes)):
            if local_shape(entry, mesh, rank) != shape:
                found.append(f"{mine['path']}: rank {rank} holds {local_shape(entry, mesh, rank)}, expected {shape}")
                break
            said = begins(entry, rank)
            if any(said[dim] != [list(run) for run in runs[dim]] for dim in said):
                found.append(f"{mine['path']}: rank {rank} holds {said}, expected {runs}")
                break
    for key, value in expected["totals"].items():
        if manifest["totals"][key] != value:
            found.append(f"{key} {manifest['totals'][key]}, expected {value}")
    return found


def differences_of_show(expected, manifest_file, rank):
    """Differences of `tpplan show` for the rank's shards."""
    lines = run("show", manifest_file, "--rank", rank, "--format", "json").stdout.decode().splitlines()
    said = {entry["path"]: entry["intervals"] for entry in map(json.loads, lines)}
    mine = {
        entry["path"]: [[list(run) for run in runs] for runs in entry["held"][rank]] for entry in expected["parameters"]
    }
    return [f"show: {path} {said.get(path)}, expected {mine[path]}" for path in mine if said.get(path) != mine[path]]


def differences(model, plan, fault, folder, show=False):
    """Differences of the program for a pair, and the expectation."""
    expected = judge(model, plan)
    files = folder / "model.json", folder / "plan.yaml"
    files[0].write_text(json.dumps(model))
    files[1].write_text(plan_text(plan))
    result = run("compile", *files, "-o", folder / "manifest.json")
    errors, causes = shown(result, "error"), expected["causes"]
    found = []
    if fault is None and expected["status"]:
        found.append(f"a plan without a fault is wrong to the oracle: {causes}")
    if fault not in (None, "?") and not any(fault in cause for cause in causes):
        found.append(f"the fault {fault} is none to the oracle: {causes}")
    if result.returncode != expected["status"]:
        found.append(f"status {result.returncode} {sorted(errors)}, expected {expected['status']} {causes}")
    elif errors - set().union(*causes, expected.get("also", set())) or any(not errors & cause for cause in causes):
        found.append(f"codes {sorted(errors)}, expected of each of {causes}")
    elif not expected["status"]:
        warnings = shown(result, "warning") & HERE_KNOWN
        if warnings != expected["warnings"]:
            found.append(f"warnings {sorted(warnings)}, expected {sorted(expected['warnings'])}")
        found += differences_of_manifest(expected, json.loads((folder / "manifest.json").read_text()), plan)
        if show:
            found += differences_of_show(expected, folder / "manifest.json", math.prod(plan["mesh"].values()) - 1)
    return found, expected


def compare(count, seed, folder, told, fault=None):
    """Compares random pairs; calls `told(pair, differences)` for those that differ. Returns the counts."""
    seen = collections.Counter()
    for number in range(count):
        model, plan, code = draw_pair(random.Random(f"{seed} {number}"), right, fault)
        found, expected = differences(model, plan, code, folder, show=number % 8 == 0)
        seen["right" if expected["status"] == 0 else "wrong"] += 1
        seen.update({code for cause in expected["causes"] for code in cause})
        if found:
            told(f"{seed} {number}", found)
    return seen


def test_program_matches_the_oracle(tmp_path):
    told = []
    seen = compare(200, 1, tmp_path, lambda pair, found: told.append((pair, found)))
    assert not told, told
    assert seen["right"] > 80 and seen["wrong"] > 60, seen


def test_single_error_has_the_code_of_the_oracle(tmp_path):
    told = []
    for fault in FAULTS:
        compare(4, fault.__name__, tmp_path, lambda pair, found: told.append((pair, found)), fault)
    assert not told, told


def main(count, seed):
    with tempfile.TemporaryDirectory() as name:
        folder, told = pathlib.Path(name), []

        def tell(pair, found):
            told.append(pair)
            print(
                f"--- pair {pair}",
                *found,
                (folder / "model.json").read_text(),
                (folder / "plan.yaml").read_text(),
                sep="\n",
            )

        seen = compare(count, seed, folder, tell)
    print(f"{count} compared: {seen.pop('right', 0)} right, {seen.pop('wrong', 0)} wrong, {len(told)} differ")
    print(*(f"{code} {times}" for code, times in sorted(seen.items())), sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
