"""Random plans for recorded models: the program and the simulation on virtual ranks agree on each."""

import json
import random

import bridge
import pytest

bridge.needs("torch")

import lockstep  # noqa: E402
from test_lockstep import DENSE, RUNS, leaves_of  # noqa: E402

import sys  # noqa: E402

sys.path.insert(0, str(bridge.ROOT / "tests" / "truth"))
from run_cases import plan_text  # noqa: E402

STYLES = ("colwise", "rowwise", "colwise_gather_output", "rowwise_split_input", "replicate", "embedding_rowwise",
          "embedding_colwise", "packed_colwise", "packed_rowwise", "all_reduce", "sequence_parallel",
          "replicated_with_grad_allreduce", "local_params", "moe_tp_experts")  # fmt: skip
FAILS = {"apply": "crash_apply", "forward": "crash_forward", "output": "wrong_output", "gradient": "wrong_grad"}
PLANS = 12  # per model


def random_plan(chooser, shipped, names):
    """The shipped plan with up to four changes; one of four plans is entirely random."""
    plan = {} if chooser.random() < 0.25 else dict(shipped)
    for _ in range(chooser.randint(1, 4)):
        key = chooser.choice(names)
        if chooser.random() < 0.3:
            plan.pop(key, None)
        else:
            plan[key] = chooser.choice(STYLES)
    return plan


@pytest.mark.parametrize("number", DENSE, ids=lambda i: f"{RUNS['models'][i]['name']}-{i}")
def test_program_and_simulation_agree_on_random_plans(tmp_path, number):
    import re

    model, chooser = RUNS["models"][number], random.Random(f"plans {number}")
    (tmp_path / "model.json").write_text(json.dumps(model))
    leaves = leaves_of(model)
    wanted = lockstep.whole_run(model, leaves)
    shipped = next(c["plan"] for c in RUNS["cases"] if c["file"] == number and c["mutation_kind"] == "shipped")
    names = sorted(
        {re.sub(r"\.\d+(?=\.|$)", ".*", m["path"]) for m in model["modules"] if m["path"] and m["type"] != "ModuleList"}
    )
    wrong, judged = [], 0
    for _ in range(PLANS):
        plan, ranks = random_plan(chooser, shipped, names), chooser.choice((2, 3, 4))
        try:
            outcome, why = lockstep.judge(model, ranks, plan, leaves, wanted)
        except lockstep.Unsupported:
            continue
        judged += 1
        (tmp_path / "plan.yaml").write_text(plan_text(plan, "transformers", ranks))
        result = bridge.run("check", tmp_path / "model.json", tmp_path / "plan.yaml", "--format", "json")
        found = [d for d in json.loads(result.stdout)["diagnostics"] if d["severity"] == "error"]
        if (result.returncode == 0) != (outcome == "ok"):
            wrong.append(f"tp {ranks} {plan}: simulated {outcome} {why}; the program: {[d['message'] for d in found]}")
    assert not wrong
    assert judged >= PLANS // 2
