"""Mistakes that people make, and what the program must say of each: a place, a reason and a remedy.

A plan's mistake is an edit of a right plan (project.py): lines by number. `line` is where the finding must point, `reason`
must be found in what it says, `remedy` in its help. A command's mistake is a line of arguments.
"""

from dataclasses import dataclass, field

from project import PLAN

Q, K, V, O = 7, 8, 9, 10  # lines of the right plan
GATE, UP, DOWN, HEAD = 11, 12, 13, 14
MESH, AXIS, TP_PLAN, DATA = 3, 4, 5, 15
ATTENTION = '"model.layers.*.self_attn'
Q_PATH = r"`model\.layers\.(\*|0)\.self_attn\.q_proj`"
RULES = PLAN.splitlines()[5:14]
CHECK_WITH_MESH = "checks: [{model: model.json, plan: plan.yaml, mesh: {tp: 4}}]\n"


@dataclass
class Mistake:
    name: str
    edits: dict = field(default_factory=dict)  # line: its text; None leaves the line out
    line: int = 0  # 0: any
    reason: str = ""
    remedy: str = ""
    file: str = "plan.yaml"  # which of project.py's plans is edited
    findings: int = 1  # the most that one cause may give
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
