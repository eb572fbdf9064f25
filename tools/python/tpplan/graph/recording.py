"""What is recorded, and the tensors that it knows by their ids."""

import dataclasses

INPUT, PARAMETER, BUFFER, CONSTANT = "input", "param", "buffer", "constant"


class Untraceable(Exception):
    """Why there can be no graph, as the end of a sentence that begins with `no graph: `."""


@dataclasses.dataclass(slots=True)
class Known:
    """A tensor that was met: its present id, the number of writes to its storage that the id has seen, and where it is a
    view of another tensor, that one, the call that made it, and its place among the call's results."""

    tensor: object
    id: int
    storage: int
    writes: int
    parent: object = None
    call: tuple = None
    place: int = 0


@dataclasses.dataclass(slots=True)
class Value:
    shape: tuple
    dtype: str
    requires_grad: bool


@dataclasses.dataclass
class Recording:
    """One run. Nodes are lists: [op, arguments, keywords, results] with arguments as schemas/model.schema.json has them, or
    ["@enter", path, number of positional arguments, under no_grad, [[place, outside, inside], ...]], or
    ["@exit", path, [[place, inside, outside], ...]]. Sizes are entries of `sizes` by number, as `size_index` finds them."""

    names: dict  # id(tensor) -> (kind of leaf, path)
    values: list = dataclasses.field(default_factory=list)
    leaves: list = dataclasses.field(default_factory=list)  # (value, kind, path)
    nodes: list = dataclasses.field(default_factory=list)
    sizes: list = dataclasses.field(default_factory=list)  # ["size", value, dim] or [operation, operand, operand]
    size_index: dict = dataclasses.field(default_factory=dict)
    guards: dict = dataclasses.field(default_factory=dict)  # (comparison, expression, expression) -> bool
    known: dict = dataclasses.field(default_factory=dict)  # id(tensor) -> Known; holds the tensors
    storages: dict = dataclasses.field(default_factory=dict)  # storage -> number of writes
    modules: list = dataclasses.field(default_factory=list)  # paths of the modules that run now
    outputs: list = dataclasses.field(default_factory=list)


def add_value(recording, tensor, requires_grad=None):
    dtype = str(tensor.dtype)[6:]
    recording.values.append(
        Value(tuple(tensor.shape), dtype, tensor.requires_grad if requires_grad is None else requires_grad)
    )
    return len(recording.values) - 1


def copy_value(recording, value):
    recording.values.append(recording.values[value])
    return len(recording.values) - 1


def storage_of(tensor):
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse tensors and wrappers have none
        return -id(tensor)


def learn(recording, tensor, value, parent=None, call=None, place=0):
    storage = storage_of(tensor)
    entry = Known(tensor, value, storage, recording.storages.setdefault(storage, 0), parent, call, place)
    recording.known[id(tensor)] = entry
    return entry


def look_up(recording, tensor):
    """What is known of a tensor; one that was not met before is a leaf."""
    entry = recording.known.get(id(tensor))
    if entry is not None:
        return entry
    kind, path = recording.names.get(id(tensor), (CONSTANT, ""))
    if kind == CONSTANT and tensor.grad_fn is not None:
        raise Untraceable(f"{place(recording)} computes with a value that no recorded call made")
    value = add_value(recording, tensor)
    recording.leaves.append((value, kind, path))
    return learn(recording, tensor, value)


def intern_size(recording, expression):
    """The operand of `sizes` for an expression: a number, or [k]."""
    if type(expression) is int:
        return expression
    found = recording.size_index.get(expression)
    if found is None:
        if expression[0] == "size":
            entry = list(expression)
        else:
            entry = [expression[0], *(intern_size(recording, e) for e in expression[1:])]
        recording.sizes.append(entry)
        found = recording.size_index[expression] = len(recording.sizes) - 1
    return [found]


def place(recording):
    """The innermost module that runs, for messages."""
    return f"module `{recording.modules[-1]}`" if recording.modules and recording.modules[-1] else "the model"
