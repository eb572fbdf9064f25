"""Plans as files (schemas/plan.schema.json): what every exporter of plans writes with."""

import json
import re

YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n", "none")
MAX_SIMPLE_KEY = 1000  # YAML: longer keys are written behind a question mark


def write_plan(dialect, mesh, rules, uneven="error", keras_match=None, data=None):
    """The YAML of a plan. `mesh` is {axis: size}, `rules` {key: style, or a mapping of names to what JSON can say}, `data`
    {"axes": [...], "dim": ...}. Styles go by `tp`, or in a mesh without it by the last axis."""
    settings = {
        "format": "tpplan.plan/1",
        "dialect": dialect,
        "keras_match": keras_match,
        "mesh": "{" + ", ".join(f"{_name(axis)}: {size}" for axis, size in mesh.items()) + "}",
        "axis": None if "tp" in mesh else _name(list(mesh)[-1]),
        "uneven": None if uneven == "error" else uneven,
    }
    lines = [f"{key}: {value}\n" for key, value in settings.items() if value is not None]
    lines.append("tp_plan:\n" if rules else "tp_plan: {}\n")
    for key, rule in rules.items():
        text, value = _text(key), rule if isinstance(rule, str) else _value(rule)
        lines.append(f"  ? {text}\n  : {value}\n" if len(text.encode()) > MAX_SIMPLE_KEY else f"  {text}: {value}\n")
    if data is not None:
        lines.append(f"data: {_value(data)}\n")
    return "".join(lines)


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
