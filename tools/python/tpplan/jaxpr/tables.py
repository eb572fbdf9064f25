"""Encodes a trace as the tables of schemas/model.schema.json. Values have their global shape and their local shape on
a rank. A number that differs between the two is written as an entry of `sizes` with both (`local`)."""

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Value:
    """An array of the program."""

    id: int
    whole: tuple
    local: tuple
    dtype: str


@dataclasses.dataclass(frozen=True)
class Number:
    """A number of the program: its value in the global program, and on a rank."""

    whole: object
    local: object
    dtype: str = "int32"


@dataclasses.dataclass
class Recording:
    strings: dict = dataclasses.field(default_factory=dict)
    shapes: dict = dataclasses.field(default_factory=dict)
    sizes: dict = dataclasses.field(default_factory=dict)
    values: list = dataclasses.field(default_factory=list)
    leaves: list = dataclasses.field(default_factory=list)
    nodes: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)


def name(recording, text):
    return recording.strings.setdefault(text, len(recording.strings))


def new_value(recording, whole, local, dtype):
    whole, local = tuple(map(int, whole)), tuple(map(int, local))
    shape = recording.shapes.setdefault(whole, len(recording.shapes))
    recording.values.append([shape, name(recording, dtype), 0])
    return Value(len(recording.values) - 1, whole, local, dtype)


def add_leaf(recording, kind, path, whole, local, dtype):
    value = new_value(recording, whole, local, dtype)
    recording.leaves.append([value.id, kind, name(recording, path)])
    return value


def size(recording, whole, local):
    """Returns an integer as an argument."""
    whole, local = int(whole), int(local)
    if whole == local:
        return whole
    return ["e", recording.sizes.setdefault(("local", whole, local), len(recording.sizes))]


def sizes(recording, whole, local):
    return ["t", *[size(recording, w, n) for w, n in zip(whole, local)]]


def number(value):
    """Returns a number as an argument; a list for values that JSON cannot express."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, complex):
        return ["o", "complex"]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return ["f", "nan" if value != value else "inf" if value > 0 else "-inf"]
    return value


def add_node(recording, operation, arguments, results):
    recording.nodes.append([name(recording, operation), arguments, [], [value.id for value in results]])


def text(recording, settings):
    """Returns the field `graph` as text, one line for each table; `settings` are its first fields."""
    rows = {
        **settings,
        "strings": list(recording.strings),
        "shapes": [list(shape) for shape in recording.shapes],
        "sizes": [list(entry) for entry in recording.sizes],
        "values": recording.values,
        "leaves": recording.leaves,
        "nodes": recording.nodes,
        "output": recording.outputs[0] if len(recording.outputs) == 1 else recording.outputs,
    }
    lines = [f'  "{key}": {json.dumps(row, separators=(",", ":"))}' for key, row in rows.items()]
    return "{\n" + ",\n".join(lines) + "\n }"
