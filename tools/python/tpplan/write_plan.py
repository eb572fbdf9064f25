"""Writes plan files (schemas/plan.schema.json); all plan exporters use it."""

import json
import os
import re
import subprocess

from .compiled import find_program
from .files import write_output
from .manifest import ManifestError

YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n", "none")
MAX_SIMPLE_KEY = 1000  # YAML: a longer key needs the `? key` form


SCHEMA = "plan.schema.json"
MODELINE = f"# yaml-language-server: $schema={SCHEMA}\n"


def write_plan_file(path, text, inputs=()):
    """Writes a plan as `tpplan init` does: with its schema next to it, and the first line by which editors find the
    schema. The program prints the schema. Without the program, or if the output is no regular file, only the plan is
    written."""
    is_file = path not in (None, "-") and (os.path.isfile(path) or not os.path.exists(path))
    schema = os.path.join(os.path.dirname(path), SCHEMA) if is_file else None
    known = _schema() if is_file and not os.path.lexists(schema) else None
    with_line = is_file and (known is not None or os.path.lexists(schema))
    write_output(path, MODELINE + text if with_line else text, inputs)
    if known is not None and not os.path.lexists(schema):  # it is the output if that is called plan.schema.json
        write_output(schema, known)


def _schema():
    """Returns the schema of plans, or None if the program is not found or fails."""
    try:
        done = subprocess.run([find_program(), "schema", "plan"], capture_output=True, check=True)
    except (ManifestError, OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.decode()


def write_plan(dialect, mesh, rules, uneven="error", keras_match=None, data=None):
    """Returns the YAML text of a plan. `mesh` is {axis: size}, `rules` {key: style, or a mapping of JSON values},
    `data` {"axes": [...], "dim": ...}. Styles apply to the axis `tp`, or to the last axis if the mesh has no `tp`."""
    lines = _head(dialect, mesh, uneven, keras_match)
    lines.append("tp_plan:\n" if rules else "tp_plan: {}\n")
    for key, rule in rules.items():
        text, value = _text(key), rule if isinstance(rule, str) else _value(rule)
        lines.append(f"  ? {text}\n  : {value}\n" if len(text.encode()) > MAX_SIMPLE_KEY else f"  {text}: {value}\n")
    if data is not None:
        lines.append(f"data: {_value(data)}\n")
    return "".join(lines)


def write_pairs(dialect, mesh, rules, data=None):
    """Returns the YAML text of a plan whose rules are a list of (logical name, axes, True if it may match nothing).
    `axes` is a mesh axis, a list of axes, or None."""
    lines = _head(dialect, mesh)
    lines.append("tp_plan:\n" if rules else "tp_plan: []\n")
    for name, axes, optional in rules:
        rule = {"name": name, "axes": axes, "optional": True} if optional else [name, axes]
        lines.append(f"  - {_value(rule)}\n")
    if data is not None:
        lines.append(f"data: {_value(data)}\n")
    return "".join(lines)


def _head(dialect, mesh, uneven="error", keras_match=None):
    settings = {
        "format": "tpplan.plan/1",
        "dialect": dialect,
        "keras_match": keras_match,
        "mesh": "{" + ", ".join(f"{_name(axis)}: {size}" for axis, size in mesh.items()) + "}",
        "axis": None if "tp" in mesh else _name(list(mesh)[-1]),
        "uneven": None if uneven == "error" else uneven,
    }
    return [f"{key}: {value}\n" for key, value in settings.items() if value is not None]


def _text(text):
    """Returns a JSON string in ASCII. DEL and characters beyond the basic plane are escaped as YAML requires."""
    escape = lambda match: f"\\u{ord(match[0]):04x}" if ord(match[0]) < 0x10000 else f"\\U{ord(match[0]):08x}"
    return re.sub(r"[^ -~]", escape, json.dumps(text, ensure_ascii=False))


def _name(name):
    return name if re.fullmatch("[a-z][a-z0-9_]*", name) and name not in YAML_WORDS else _text(name)


def _value(value):
    """Returns a mapping, list, text, number, boolean or None as one-line YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_name(key)}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value)
