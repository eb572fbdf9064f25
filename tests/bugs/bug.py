"""A known bug: a model, a plan with the bug, and the same plan without it."""

from dataclasses import dataclass
from typing import Callable

import graphs as g

BOTH, ONLY, NEVER = (False, True), (True,), (False,)


@dataclass(frozen=True)
class Bug:
    """`model`, `wrong` and `right` are functions of `sp`, whether the plan is sequence parallel; plans have no `format`
    and `mesh`. `code` is the code of the diagnostic, `place` a word of its message.
    """

    row: str
    source: str
    what: str
    code: str
    place: str
    model: Callable
    wrong: Callable
    right: Callable
    sequence: tuple = BOTH
    axes: tuple = ("tp",)  # of the mesh, all of one size; along other axes each rank has different data
    fits: tuple = (2, 3, 4)  # sizes of the axes


def rules(**members):
    """Returns a plan: `plan` has its rules by key, the other arguments are its other fields."""
    return {"tp_plan": members.pop("plan"), **members}


# ---- the model of most bugs: a language model of one layer, without attention ----


def language_model(sp=False, **kwargs):
    m = g.new_model()
    x = g.embedding(m, "embed", g.tokens(m))
    x = layer(m, "layers.0", x, **kwargs)
    x = g.scale(m, "final_norm", x)
    return g.ends(m, g.linear(m, "head", x, g.VOCABULARY))


def layer(m, path, x, norm=g.scale):
    return g.add(m, x, g.mlp(m, path, norm(m, f"{path}.norm", x)))


def language_plan(sp, without=(), **changed):
    """Returns its correct plan, without some rules and with others changed."""
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
