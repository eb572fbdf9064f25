"""The state of a trace, and the tensors that it knows by id."""

import dataclasses

INPUT, PARAMETER, BUFFER, CONSTANT = "input", "param", "buffer", "constant"


class Untraceable(Exception):
    """The reason why tracing fails, worded to follow `no graph: `."""


@dataclasses.dataclass(slots=True)
class Known:
    """A tensor of the trace: its current id, and the number of writes to its storage that the id includes. For a
    view: its parent, the call that created it, and its index among that call's results."""

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
    """One traced call of a model.

    A node is a list of one of these forms, with arguments as in schemas/model.schema.json:

    - [op, arguments, keywords, results]
    - ["@enter", path, number of positional arguments, 1 under no_grad, [[place, outside, inside], ...]]
    - ["@exit", path, [[place, inside, outside], ...]]

    `size_index` maps an expression to its index in `sizes`.
    """

    names: dict  # id(tensor) -> (kind of leaf, path)
    values: list = dataclasses.field(default_factory=list)
    leaves: list = dataclasses.field(default_factory=list)  # (value, kind, path)
    nodes: list = dataclasses.field(default_factory=list)
    sizes: list = dataclasses.field(default_factory=list)  # ["size", value, dim] or [operation, operand, operand]
    size_index: dict = dataclasses.field(default_factory=dict)
    guards: dict = dataclasses.field(default_factory=dict)  # (comparison, expression, expression) -> bool
    known: dict = dataclasses.field(default_factory=dict)  # id(tensor) -> Known; holds the tensors
    storages: dict = dataclasses.field(default_factory=dict)  # storage -> number of writes
    modules: list = dataclasses.field(default_factory=list)  # paths of the modules that are running
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
    except (NotImplementedError, RuntimeError):  # sparse tensors and wrappers have no storage
        return -id(tensor)


def learn(recording, tensor, value, parent=None, call=None, place=0):
    storage = storage_of(tensor)
    entry = Known(tensor, value, storage, recording.storages.setdefault(storage, 0), parent, call, place)
    recording.known[id(tensor)] = entry
    return entry


def look_up(recording, tensor):
    """Returns the entry of a tensor; an unknown tensor becomes a leaf. Raises Untraceable if an untraced operation
    created it."""
    entry = recording.known.get(id(tensor))
    if entry is not None:
        return entry
    kind, path = recording.names.get(id(tensor), (CONSTANT, ""))
    if kind == CONSTANT and tensor.grad_fn is not None:
        raise Untraceable(f"{place(recording)} uses a value that no traced call created")
    value = add_value(recording, tensor)
    recording.leaves.append((value, kind, path))
    return learn(recording, tensor, value)


def intern_size(recording, expression):
    """Returns the operand for an expression: a number, or [index in `sizes`]."""
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
    """Returns the innermost running module, for messages."""
    return f"module `{recording.modules[-1]}`" if recording.modules and recording.modules[-1] else "the model"
