"""Common mistakes of users, and the required diagnostic for each: a position, a reason and a help.

A mistake in a plan is an edit of the correct plan (project.py), by line numbers. `line` is the required line of the
diagnostic. `reason` must match in its message, `remedy` in its help. A mistake in a command is a list of arguments.
"""

from dataclasses import dataclass, field

from project import PLAN

Q, K, V, O = 7, 8, 9, 10  # lines of the correct plan
GATE, UP, DOWN, HEAD = 11, 12, 13, 14
MESH, AXIS, TP_PLAN, DATA = 3, 4, 5, 15
ATTENTION = '"model.layers.*.self_attn'
Q_PATH = r"`model\.layers\.(\*|0)\.self_attn\.q_proj`"
RULES = PLAN.splitlines()[5:14]
CHECK_WITH_MESH = "checks: [{model: model.json, plan: plan.yaml, mesh: {tp: 4}}]\n"


@dataclass
class Mistake:
    name: str
    edits: dict = field(default_factory=dict)  # line: its text; None removes the line
    line: int = 0  # 0: any line
    reason: str = ""
    remedy: str = ""
    file: str = "plan.yaml"  # which of project.py's plans is edited
    findings: int = 1  # maximum number of diagnostics for one cause
    mesh: str = ""


@dataclass
class Line:
    name: str
    arguments: str
    reason: str
    remedy: str
    status: int = 2
    files: dict = field(default_factory=dict)


def rule(key, value="colwise"):
    return f'  "{key}": {value}'
