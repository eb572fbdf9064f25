"""Checks recorded plans of transformers with other checkers, in one process on a fake process group:

    python tests/bench/peer_runs.py dry|spmd CASES.json

`dry` executes one step of the first rank and reports if it raises. `spmd` executes the same step under the type checker
spmd_types, as its documentation describes: unsharded parameters are invariant (replicated if the plan reduces their
gradients); inputs, buffers and the output are invariant; its bridge types DTensors; transformers' two collectives that
are autograd functions have hooks. CASES are those of tests/truth/run_cases.py. Prints for each case why it is rejected,
or null.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "truth")]

import torch.distributed as dist
from record_runs import Transformers
from torch.testing._internal.distributed.fake_pg import FakeStore


def hooked():
    """Registers transformers' collectives with spmd_types."""
    import spmd_types as spmd
    from spmd_types import rules
    from transformers.distributed import parallel_utils

    def summed_forward(*, x, process_group):
        return rules.all_reduce(x, process_group, src=spmd.P, dst=spmd.I)

    def summed_backward(*, x, process_group):
        return rules.convert(x, process_group, src=spmd.I, dst=spmd.R)

    parallel_utils._AllReduceForward.spmd_typecheck = staticmethod(summed_forward)
    parallel_utils._AllReduceBackward.spmd_typecheck = staticmethod(summed_backward)


def typed(model, plan, values):
    """Assigns types to unsharded values."""
    import spmd_types as spmd
    from torch.distributed.tensor import DTensor

    summed = [key for key, style in plan.items() if style == "replicated_with_grad_allreduce"]
    for path, parameter in model.named_parameters():
        module = path.rpartition(".")[0]
        if not isinstance(parameter, DTensor):
            generic = ".".join("*" if part.isdigit() else part for part in module.split("."))
            spmd.assert_type(parameter, spmd.R if generic in summed else spmd.I)
    for value in [*model.buffers(), *values]:
        spmd.assert_type(value, spmd.I)


def step(runner, model, case, check):
    inputs = runner.inputs(case)
    if not check:
        return runner.output(model(**inputs)).sum().backward()
    import spmd_types as spmd

    typed(model, model._tp_plan, [inputs["input_ids"]])
    output = runner.output(model(**inputs))
    spmd.assert_type(output, spmd.I)
    return output.sum().backward()


def judge(runner, case, check):
    """Returns why the plan of a case is rejected; None if it is accepted."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["tp"])
    try:
        mesh = dist.init_device_mesh("cpu", (case["tp"],), mesh_dim_names=("tp",))
        model = runner.build(case)
        runner.apply(model, mesh, case, None)
        if not check:
            step(runner, model, case, check)
            return None
        import spmd_types as spmd
        import spmd_types.checker

        with spmd.set_current_mesh(mesh), spmd.checker.typecheck():
            step(runner, model, case, check)
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        dist.destroy_process_group()


def main():
    mode, cases = sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text())
    check = mode == "spmd"
    if check:
        hooked()
    runner = Transformers(None)
    for case in cases:
        print(json.dumps(judge(runner, case, check)), flush=True)


if __name__ == "__main__":
    main()
