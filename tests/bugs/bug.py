"""A known bug of another project: a model, a plan with the bug, and the same plan with the bug fixed."""

from dataclasses import dataclass
from typing import Callable

import graphs as g

BOTH, ONLY, NEVER = (False, True), (True,), (False,)


@dataclass(frozen=True)
class Bug:
    """`model`, `wrong` and `right` are functions of a flag, which is true for sequence parallelism. They return the model, and
    the keys of the plan except `format` and `mesh`. `code` reports the bug; its message contains `place`."""

    row: str
    source: str
    what: str
    code: str
    place: str
    model: Callable
    wrong: Callable
    right: Callable
    sequence: tuple = BOTH
    axes: tuple = ("tp",)  # mesh axes of equal size; along all except the first, ranks have different data
    fits: tuple = (2, 3, 4)  # sizes of the axes


def rules(**members):
    """A plan of rules by their keys, with `_` for `.` and `ALL_` for `*.` left to the caller: keys are given as a dict."""
    return {"tp_plan": members.pop("plan"), **members}


# ---- the model of most bugs: a language model with one layer and without attention ----


def language_model(sp=False, **kwargs):
    m = g.new_model()
    x = g.embedding(m, "embed", g.tokens(m))
    x = layer(m, "layers.0", x, **kwargs)
    x = g.scale(m, "final_norm", x)
    return g.ends(m, g.linear(m, "head", x, g.VOCABULARY))


def layer(m, path, x, norm=g.scale):
    return g.add(m, x, g.mlp(m, path, norm(m, f"{path}.norm", x)))


def language_plan(sp, without=(), **changed):
    """Its plan, right: rules by key, without some, with others changed."""
    plan = (
        {
            "embed": {"style": "rowwise", "input_layouts": "Replicate", "output_layouts": "Shard(1)"},
            "*norm": {"style": "sequence_parallel", "use_local_output": True},
            "*.up": {"style": "colwise", "input_layouts": "Shard(1)"},
            "*.down": {"style": "rowwise", "output_layouts": "Shard(1)"},
            "head": {"style": "colwise", "input_layouts": "Shard(1)", "output_layouts": "Replicate"},
        }
        if sp
        else {
            "embed": {"style": "rowwise", "input_layouts": "Replicate"},
            "*.up": "colwise",
            "*.down": "rowwise",
            "head": {"style": "colwise", "output_layouts": "Replicate"},
        }
    )
    return {key: rule for key, rule in plan.items() if key not in without} | changed.pop("rules", {})
