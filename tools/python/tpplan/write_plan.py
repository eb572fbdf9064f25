"""Plans as files (schemas/plan.schema.json): what every exporter of plans writes with."""

import json
import os
import re
import subprocess

from .compiled import find_program
from .files import write_output
from .manifest import ManifestError

YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n", "none")
MAX_SIMPLE_KEY = 1000  # YAML: longer keys are written behind a question mark


SCHEMA = "plan.schema.json"
MODELINE = f"# yaml-language-server: $schema={SCHEMA}\n"


def write_plan_file(path, text, inputs=()):
    """Writes a plan as `tpplan init` does: with its schema beside it and the line by which editors find that. The schema is
    the program's: without the program, on standard output and where no regular file is written it is the plan alone."""
    is_file = path not in (None, "-") and (os.path.isfile(path) or not os.path.exists(path))
    schema = os.path.join(os.path.dirname(path), SCHEMA) if is_file else None
    known = _schema() if is_file and not os.path.lexists(schema) else None
    with_line = is_file and (known is not None or os.path.lexists(schema))
    write_output(path, MODELINE + text if with_line else text, inputs)
    if known is not None:
        write_output(schema, known)


def _schema():
    """The schema of plans, or None where there is no program to ask."""
    try:
        done = subprocess.run([find_program(), "schema", "plan"], capture_output=True, check=True)
    except (ManifestError, OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.decode()


def write_plan(dialect, mesh, rules, uneven="error", keras_match=None, data=None):
    """The YAML of a plan. `mesh` is {axis: size}, `rules` {key: style, or a mapping of names to what JSON can say}, `data`
    {"axes": [...], "dim": ...}. Styles go by `tp`, or in a mesh without it by the last axis."""
    lines = _head(dialect, mesh, uneven, keras_match)
    lines.append("tp_plan:\n" if rules else "tp_plan: {}\n")
    for key, rule in rules.items():
        text, value = _text(key), rule if isinstance(rule, str) else _value(rule)
        lines.append(f"  ? {text}\n  : {value}\n" if len(text.encode()) > MAX_SIMPLE_KEY else f"  {text}: {value}\n")
    if data is not None:
        lines.append(f"data: {_value(data)}\n")
    return "".join(lines)


def write_pairs(dialect, mesh, rules, data=None):
    """The YAML of a plan whose rules are a list: (name of dims, axis, list of axes or None, whether it may match nothing)."""
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
    """JSON in ASCII, but for DEL and for what is no single unit of UTF-16, which YAML writes in another way."""
    escape = lambda match: f"\\u{ord(match[0]):04x}" if ord(match[0]) < 0x10000 else f"\\U{ord(match[0]):08x}"
    return re.sub(r"[^ -~]", escape, json.dumps(text, ensure_ascii=False))


def _name(name):
    return name if re.fullmatch("[a-z][a-z0-9_]*", name) and name not in YAML_WORDS else _text(name)


def _value(value):
    """What stands on one line: mappings, lists, texts, numbers, booleans and None."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_name(key)}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value)
