"""Every row of lib/ops tested against torch: each operation on each rank's local tensors, for every layout of its operands, has the layout
that the rule predicts, and so do the gradients. If the rule has no strategy, no simple one is correct."""

import collections
import itertools
import json
import math
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import bridge  # noqa: E402

bridge.needs("torch")

import torch  # noqa: E402

import graph_runs  # noqa: E402
import op_calls  # noqa: E402
import op_cases  # noqa: E402

DRIVER = pathlib.Path(bridge.PROGRAM).parent / "tests" / "tpplan_op_rules"
# Torch rejects the backward of these for an empty shard: pools without channels, others without a batch.
NO_EMPTY_BACKWARD = ("adaptive_", "pixel_")
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
GROUPED = ("_grouped_mm", "grouped_mm")
VALUES_UNKNOWN = ("empty", "rand", "randn", "new_empty", "empty_like", "rand_like", "randn_like")


def made_by(call, tensors):
    args, kwargs = call.with_tensors(tensors)
    if kwargs.get("groups") == 0 or kwargs.get("enable_gqa") and args[1].shape[1] == 0:
        raise RuntimeError("torch 2.13 divides by the number of groups or heads, and the process ends")
    weights = zip(call.operands()[-2:], tensors[-2:])
    if call.name in RECURRENT and any(tuple(t.shape) != o.shape for o, t in weights):
        raise RuntimeError("torch 2.13 reads beyond weights that are pieces, and the process ends")
    if call.name == "_weight_norm" and args[1].numel() * math.prod(norm_dims(*args)) != (args[0].numel() or -1):
        raise RuntimeError(
            "torch 2.13 reads beyond a g that has fewer elements than the dim, and the process ends of no elements"
        )
    made = graph_runs.call(call.name, args, kwargs)
    if call.name in GROUPED:
        made = [without_rows(m, kwargs["offs"]) for m in made]
    return made


def without_rows(made, offsets):
    """Rows after the last group are uninitialised memory: removed here, because they may be equal by chance."""
    end = int(offsets[-1]) if len(offsets) else 0
    return made if end >= len(made) else torch.cat([made[:end], torch.full_like(made[end:], math.nan)])


def norm_dims(v, g, dim=0):
    return [size for d, size in enumerate(v.shape) if d != dim]


def wholes():
    generator = torch.Generator().manual_seed(1)
    return [[op_calls.fill(o, generator) for o in c.operands()] for c in op_cases.CASES]


def ask(folder, questions):
    """The program's results for (case, ranks, layouts)."""
    tensors = wholes()
    results = [made_by(c, t) for c, t in zip(op_cases.CASES, tensors)]
    model = folder / "ops.json"
    model.write_text(json.dumps(op_calls.graph_of(op_cases.CASES, tensors, results)))
    lines = "".join(f"{case} {ranks} {' '.join(layouts)}\n" for case, ranks, layouts in questions)
    done = subprocess.run([DRIVER, model], input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tensors, results, [json.loads(line) for line in done.stdout.splitlines()]


def simple_ways(found, whole, ranks):
    """Layouts under which the ranks' results would be the value."""
    if all(op_calls.same(f, whole) for f in found):
        yield "R"
    if all(f.shape == whole.shape for f in found) and whole.dtype != torch.bool and op_calls.same(sum(found), whole):
        yield "P"
    for dim in range(whole.ndim):
        others = [d for d in range(whole.ndim) if d != dim]
        if (
            all(f.ndim == whole.ndim for f in found)
            and all(f.shape[d] == whole.shape[d] for f in found for d in others)
            and op_calls.same(torch.cat(found, dim), whole)
            and whole.shape[dim] > 1
        ):
            yield f"S{dim}"


def holds(described, found, whole, ranks):
    """Empty if the ranks hold the layout of the program, else the difference."""
    for rank, tensor in enumerate(found):
        if list(tensor.shape) != [dim["local"][rank] for dim in described["dims"]]:
            return f"rank {rank} has {list(tensor.shape)}, said {[dim['local'][rank] for dim in described['dims']]}"
    if described["zero"] and any(bool((t != 0).any()) for t in found):
        return "not zero"
    if described["partial"] and len({f.shape for f in found}) > 1:
        return (
            "" if any(dim["any"] for dim in described["dims"]) else "terms of several sizes"
        )  # each uses its shard of a repeated value
    if described["partial"]:
        found = [sum(found)] * ranks
    for rank, tensor in enumerate(found):
        if not op_calls.same(tensor, op_calls.take(whole, described, rank)):
            return f"rank {rank} holds other values"
    return ""


def judged(call, ranks, layouts, whole, results, answer):
    """("right" | "found" | "crash" | "cautious" | a fault, ...)."""
    generator = torch.Generator().manual_seed(7)
    operands = [op_calls.spread(t, layout, ranks, generator) for t, layout in zip(whole, layouts)]
    differentiable = [t.is_floating_point() and t.dtype == torch.float64 for t in whole]
    differentiable = [d and layout != "Z" for d, layout in zip(differentiable, layouts)]  # constants
    operands = [
        [t.requires_grad_(d and not call.name.endswith("_") or d and call.name.startswith("__")) for t in row]
        for row, d in zip(operands, differentiable)
    ]
    said = "crash" if answer["crash"] else "wrong" if answer["wrong"] else "unknown" if answer["unknown"] else "right"
    try:
        found = [made_by(call, [row[rank] for row in operands]) for rank in range(ranks)]
    except (RuntimeError, IndexError, ValueError, TypeError, AssertionError) as error:
        return (
            "a fault: torch raises, and the rule says it works"
            if said == "right"
            else "found"
            if said == "wrong"
            else said,
            str(error)[:80],
        )
    if any(len(f) != len(results) for f in found):
        return ("a fault: another number of results", "") if said == "right" else (said, "")
    if said == "crash":
        return "cautious", answer["crash"]
    if said in ("wrong", "unknown"):
        ways = [set(simple_ways([f[o].detach() for f in found], r, ranks)) for o, r in enumerate(results)]
        return ("cautious" if all(ways) and call.name not in VALUES_UNKNOWN else "found"), answer["wrong"] or "unknown"
    for o, (described, r) in enumerate(zip(answer["outs"], results)):
        if call.name in VALUES_UNKNOWN:
            r, parts = torch.zeros_like(r), [torch.zeros_like(f[o]) for f in found]
        else:
            parts = [f[o].detach() for f in found]
        if fault := holds(described, parts, r, ranks):
            return "a fault: the ranks do not hold what the rule says", f"result {o}: {fault}"
    return gradients(call, ranks, operands, found, whole, results, answer, layouts)


def gradients(call, ranks, operands, found, whole, results, answer, layouts):
    if not all(is_tiled(described) for described in answer["outs"]):
        return "right", ""  # some elements are on several ranks or on none: the next check reports the error
    wanted = [t.clone().requires_grad_(row[0].requires_grad) for t, row in zip(whole, operands)]
    if not any(t.requires_grad for t in wanted):
        return "right", ""
    made = made_by(call, wanted)
    weights = [
        torch.randn(r.shape, generator=torch.Generator().manual_seed(3 + o), dtype=r.dtype)
        if r.dtype in (torch.float64, torch.complex128)
        else None
        for o, r in enumerate(made)
    ]
    loss = sum((m * w).real.sum() for m, w in zip(made, weights) if w is not None and m.requires_grad)
    if isinstance(loss, int):
        return "right", ""
    try:
        loss.backward()
    except RuntimeError as error:
        assert "derivative" in str(error), error
        return "right", ""
    for rank in range(ranks):
        terms = []
        for o, w in enumerate(weights):
            if w is None or not found[rank][o].requires_grad:
                continue
            local = local_weight(w, answer["outs"][o], rank, ranks)
            if local is None:
                return "right", ""  # the elements of a repeated value are unknown here
            terms.append((found[rank][o] * local).real.sum())
        if terms and not (call.name.startswith(NO_EMPTY_BACKWARD) and any(not f.numel() for f in found[rank])):
            sum(terms).backward()
    for i, (want, row, layout) in enumerate(zip(wanted, operands, layouts)):
        if not want.requires_grad:
            continue
        states = {g[i] for g, w in zip(answer["gradients"], weights) if w is not None}
        zero = torch.zeros_like(want)
        have = [t.grad if t.grad is not None else torch.zeros_like(t) for t in row]
        want = want.grad if want.grad is not None else zero
        if states == {"open"}:
            right = op_calls.same(sum(have), want)
        else:
            right = all(
                op_calls.same(h, w)
                for h, w in zip(have, op_calls.spread(want, layout if layout[0] in "SK" else "R", ranks, None))
            )
        if not right:
            return "a fault: the gradient is not what the layouts say", f"of operand {i}, {states}"
    return "right", ""


def is_tiled(described):
    """True if every element of the result is on one rank, or on each, and at most one dim is sharded."""
    cut = 0
    for dim in described["dims"]:
        ranks = range(len(dim["local"]))
        if not dim["any"]:
            held, size = [op_calls.positions(dim, r) for r in ranks], dim["size"]
            cut += any(len(h) != size for h in held)
            if any(len(h) != size for h in held) and sorted(sum(held, [])) != list(range(size)):
                return False
        else:
            cut += any(n != dim["size"] for n in dim["local"])
    return cut < 2


def local_weight(weight, described, rank, ranks):
    for d, dim in enumerate(described["dims"]):
        if not dim["any"]:
            index = op_calls.positions(dim, rank)
        elif sum(dim["local"]) == weight.shape[d]:
            index = list(range(sum(dim["local"][:rank]), sum(dim["local"][: rank + 1])))
        elif all(n == weight.shape[d] for n in dim["local"]):
            index = list(range(weight.shape[d]))
        else:
            return None
        weight = weight.index_select(d, torch.tensor(index, dtype=torch.int64))
    return weight


def combinations():
    for number, case in enumerate(op_cases.CASES):
        for ranks in (2, 3):
            for layouts in itertools.product(*[op_calls.layouts_of(o, ranks) for o in case.operands()]):
                yield number, ranks, layouts


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """[(case, ranks, layouts, result, reason)]."""
    torch.set_num_threads(1)
    questions = list(combinations())
    tensors, results, answers = ask(tmp_path_factory.mktemp("ops"), questions)
    assert len(answers) == len(questions)
    return [(number, ranks, layouts, *judged(op_cases.CASES[number], ranks, layouts, tensors[number], results[number], answer))
            for (number, ranks, layouts), answer in zip(questions, answers)]  # fmt: skip


def test_every_operation_of_a_row_has_a_case():
    listed = subprocess.run([DRIVER, "names"], capture_output=True, text=True, check=True).stdout
    rows = [set(line.split()) for line in listed.splitlines()]
    tried = {c.name if c.name.startswith("__") else c.name.rstrip("_") for c in op_cases.CASES}
    assert set().union(*[names for names in rows if not names & tried]) == set(op_cases.UNCALLABLE)
    assert tried <= set().union(*rows)


def shown(rows):
    return "\n".join(
        f"{op_cases.CASES[n].name} {[list(o.shape) for o in op_cases.CASES[n].operands()]} {op_cases.CASES[n].args[1:]} "
        f"on {ranks}: {' '.join(layouts)}: {verdict}: {why}"
        for n, ranks, layouts, verdict, why in rows
    )


def test_ranks_and_gradients_match_the_rules(verdicts):
    faults = [row for row in verdicts if row[3].startswith("a fault")]
    assert not faults, f"{len(faults)} of {len(verdicts)}\n" + shown(faults[:40])


def test_no_rule_is_more_cautious_than_before(verdicts):
    counts = collections.Counter(op_cases.CASES[n].name for n, _, _, verdict, _ in verdicts if verdict == "cautious")
    more = {name: count for name, count in counts.items() if count > op_cases.CAUTIOUS.get(name, 0)}
    assert not more, shown(
        [row for row in verdicts if row[3] == "cautious" and op_cases.CASES[row[0]].name in more][:40]
    )


def test_every_layout_was_tested(verdicts):
    counts = collections.Counter(verdict for *_, verdict, _ in verdicts)
    assert counts["right"] > 2000 and counts["found"] > 2000 and counts["crash"] > 100, counts
