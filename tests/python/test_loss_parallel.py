"""Cross-entropy of the output of parallelize_module, inside torch's loss_parallel and outside of it: the `tpplan check` result for
`loss.cross_entropy` matches real ranks, and the calls of loss and step match the manifest."""

import functools
import json

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from bridge import ranks, run  # noqa: E402, F401
from test_torch_plans import calls_as_forecast, calls_of_a_step, style_of, whole  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import parallel  # noqa: E402

from tpplan.export import torch_module  # noqa: E402
from tpplan.graph.settings import Settings, header  # noqa: E402
from tpplan.graph.tables import tables, text  # noqa: E402
from tpplan.graph.trace import trace  # noqa: E402

BATCH, LENGTH, WIDTH = 2, 8, 24


class Classifier(nn.Module):
    classes = 48

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.norm = nn.LayerNorm(2 * WIDTH)
        self.head = nn.Linear(2 * WIDTH, self.classes)

    def forward(self, x):
        return self.head(self.norm(torch.relu(self.up(x))))


class Uneven(Classifier):
    """A number of classes that four ranks do not divide."""

    classes = 50


def make(kind):
    torch.manual_seed(3)
    return kind().double()


def data(kind):
    torch.manual_seed(4)
    x = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    return x, torch.randint(0, kind.classes, (BATCH, LENGTH))


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


@functools.cache
def model_file(kind):
    recording = trace(make(kind), (data(kind)[0],), {}, "cpu")
    settings = Settings(batch=BATCH, sequence=LENGTH)
    return torch_module.model_graph(make(kind)) | {
        "graph": json.loads(text(tables(recording, header(settings, "float64"))))
    }


CUT = {"head": {"style": "colwise", "use_local_output": False}}
GATHERED = {"head": {"style": "colwise", "output_layouts": "Replicate", "use_local_output": False}}

# Plan, place of the cross-entropy, class of the first error, and the model if it is not Classifier.
CASES = {
    "pieces of the classes, in parallel": (CUT, "parallel", None),
    "pieces of the classes that do not divide, in parallel": (CUT, "parallel", None, Uneven),
    "pieces of the classes, and plain targets": (CUT, "plain", "forward"),
    "whole DTensors, in parallel": (GATHERED, "parallel", "forward"),
    "whole DTensors, and plain targets": (GATHERED, "plain", "forward"),
    "an open sum, in parallel": (
        {
            "up": {"style": "colwise", "output_layouts": "Replicate"},
            "head": {
                "style": "rowwise",
                "input_layouts": "Replicate",
                "output_layouts": "Partial",
                "use_local_output": False,
            },
        },
        "parallel",
        "forward",
    ),
    "pieces of the sequence, in parallel": (
        {"head": {"style": "colwise", "output_layouts": "Shard(1)", "use_local_output": False}},
        "parallel",
        "forward",
    ),
    "whole tensors, in parallel": ({"head": GATHERED["head"] | {"use_local_output": True}}, "parallel", None),
    "whole tensors, and plain targets": ({"head": GATHERED["head"] | {"use_local_output": True}}, "plain", None),
}


def outcome(kind, rules, where, count, calls):
    """The class of the first error of a step with its loss; None if the step matches one process."""
    x, targets = data(kind)
    expected = make(kind)
    right = loss_of(expected(x), targets)
    right.backward()
    model = make(kind)
    plan = {key: style_of(rule) for key, rule in rules.items()}
    parallel.parallelize_module(model, init_device_mesh("cpu", (count,), mesh_dim_names=("tp",)), plan)

    def step():
        with calls:
            try:
                found = loss_of(model(x), targets)
            except Exception:
                return "forward"
            if (whole(found.detach()) - right).abs() > 1e-9:
                return "output"
            calls.phase = "backward"
            try:
                found.backward()
            except Exception:
                return "gradient"
        return None

    if where == "plain":
        found = step()
    else:
        # if an exception passes through, torch does not restore its operations
        within = parallel.loss_parallel()
        within.__enter__()
        found = step()
        within.__exit__(None, None, None)
    if found:
        return found
    for (_, a), (_, b) in zip(model.named_parameters(), expected.named_parameters()):
        if (whole(a.grad) - b.grad).abs().max() > 1e-9 * max(1, b.grad.abs().max()):
            return "gradient"
    return None


def check_on_rank(rank, kind, rules, where, count, expected, path):
    calls = calls_of_a_step()
    assert outcome(kind, rules, where, count, calls) == expected
    if rank == 0:
        with open(path, "w") as file:
            json.dump(calls.found, file)


def plan_text(rules, where, count):
    lines = [f"  {json.dumps(key)}: {json.dumps(rule)}\n" for key, rule in rules.items()]
    head = f"format: tpplan.plan/1\ndialect: torch\nmesh: {{tp: {count}}}\nuneven: torch\n"
    return head + f"loss: {{cross_entropy: {where}}}\ntp_plan:\n" + "".join(lines)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_check_result_and_calls_match_the_ranks(tmp_path, ranks, name, count):  # noqa: F811
    rules, where, fails, kind = (*CASES[name], Classifier)[:4]
    model, plan = bridge.write(tmp_path, json.dumps(model_file(kind)), plan_text(rules, where, count))
    ranks.run(count, check_on_rank, kind, rules, where, count, fails, str(tmp_path / "calls.json"))
    result = run("check", model, plan, "--format", "json")
    errors = [d for d in json.loads(result.stdout)["diagnostics"] if d["severity"] == "error"]
    assert [(d["code"], d["fails"]) for d in errors] == ([("TP5121", fails)] if fails else []), result.stdout
    if fails:
        return
    called = calls_as_forecast(model, plan, tmp_path / "calls.json")
    in_parallel = where == "parallel" and not rules["head"].get("use_local_output", True)
    assert called.count(("forward", "all_reduce", BATCH * LENGTH, True)) == (3 if in_parallel else 0)


@pytest.mark.parametrize("where", ["plain", "parallel"])
def test_plain_class_shards_are_found_in_both(tmp_path, where):
    plan = plan_text({"head": {"style": "colwise"}}, where, 2)
    model, path = bridge.write(tmp_path, json.dumps(model_file(Classifier)), plan)
    found = json.loads(run("check", model, path, "--format", "json").stdout)["diagnostics"]
    assert [d["code"] for d in found if d["severity"] == "error"] == ["TP5116"]
