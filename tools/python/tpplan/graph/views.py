"""Writes: a tensor that was written to gets a new id, and with it everything that shares its storage.

Tensors that share a storage form a tree of views. A write goes up the tree to the tensor that owns the storage, each step as
a node (a setitem, or the view turned round); the other views are made again where they are read."""

from .recording import Untraceable, add_value, copy_value, place

# Views that are the whole of their parent, where they share its storage at all.
IDENTITIES = frozenset(
    (
        "alias",
        "detach",
        "data",
        "contiguous",
        "to",
        "float",
        "double",
        "half",
        "bfloat16",
        "int",
        "long",
        "bool",
        "type_as",
        "type",
        "cpu",
        "cuda",
    )
    + (
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_dropout",
        "positive",
        "resolve_conj",
        "resolve_neg",
    )
)
RESHAPES = frozenset(
    ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "reshape_as", "view_as")
)
SWAPS = frozenset(("transpose", "t", "T", "mT"))


def read(recording, entry):
    """The id that a tensor has now."""
    if entry.writes == recording.storages[entry.storage]:
        return entry.id
    if entry.parent is None:
        entry.writes = recording.storages[entry.storage]
        return entry.id
    parent = read(recording, entry.parent)
    if entry.call is None:
        entry.id = parent
    else:
        op, args, kwargs, results = entry.call
        args = [[parent] if type(a) is list and a and type(a[0]) is int else a for a in args[:1]] + args[1:]
        made = [copy_value(recording, r) for r in results]
        recording.nodes.append([op, args, kwargs, made])
        entry.id = made[entry.place]
    entry.writes = recording.storages[entry.storage]
    return entry.id


def written(recording, entry, value):
    """The tensor has been written to, and is `value` now."""
    chain, step = [], entry
    while step.parent is not None:
        chain.append((step, step.parent, read(recording, step.parent)))
        step = step.parent
    recording.storages[entry.storage] += 1
    now = recording.storages[entry.storage]
    entry.id, entry.writes = value, now
    for child, parent, before in chain:
        parent.id, parent.writes = _write_up(recording, child, parent, before), now


def _write_up(recording, child, parent, before):
    """The id of `parent`, which was `before`, after the view `child` of it was written to."""
    if child.call is None:
        return child.id
    op, args, kwargs, results = child.call
    if op in IDENTITIES:
        return child.id
    rank = len(recording.values[before].shape)

    def node(name, arguments):
        made = add_value(recording, parent.tensor, recording.values[child.id].requires_grad)
        recording.nodes.append([name, arguments, [], [made]])
        return made

    def at(dim, index):
        """The parent with `index` of this dim replaced by the child."""
        return node("__setitem__", [[before], ["t", *[["s", None, None, None]] * (dim % rank), index], [child.id]])

    def size(value, dim):
        return _entry(recording, ("size", value, dim % rank))

    options = dict(zip(kwargs[::2], kwargs[1::2]))
    if op == "__getitem__":
        return node("__setitem__", [[before], args[1], [child.id]])
    if op == "select":
        return at(args[1], args[2])
    if op == "narrow":
        end = _entry(recording, ("add", _expression(recording, args[2]), _expression(recording, args[3])))
        return at(args[1], ["s", args[2], end, None])
    if op == "unbind":
        return at(args[1] if len(args) > 1 else options.get("dim", 0), child.place)
    if op in ("chunk", "split", "tensor_split", "split_with_sizes"):
        dim = args[2] if len(args) > 2 else options.get("dim", 0)
        start = 0
        for earlier in results[: child.place]:
            step = ("size", earlier, dim % rank)
            start = step if start == 0 else ("add", start, step)
        end = ("size", results[child.place], dim % rank)
        return at(
            dim, ["s", _entry(recording, start), _entry(recording, end if start == 0 else ("add", start, end)), None]
        )
    if op in RESHAPES:
        return node("view", [[child.id], ["t", *[size(before, d) for d in range(rank)]]])
    if op in SWAPS:
        return node(op, [[child.id], *args[1:]])
    if op == "permute":
        dims = [d % rank for d in args[1][1:]]
        return node("permute", [[child.id], ["t", *[dims.index(d) for d in range(rank)]]])
    raise Untraceable(f"{place(recording)} writes through {op}")


def _expression(recording, argument):
    return argument if type(argument) is int else ("entry", argument[1])


def _entry(recording, expression):
    """The argument for an expression, whose parts may be entries that are there already."""
    if type(expression) is int:
        return expression
    return ["e", _intern(recording, expression)[0]]


def _intern(recording, expression):
    if type(expression) is int:
        return expression
    if expression[0] == "entry":
        return [expression[1]]
    if expression[0] == "size":
        key, entry = expression, list(expression)
    else:
        entry = [expression[0], *[_intern(recording, e) for e in expression[1:]]]
        key = (entry[0], *[tuple(e) if type(e) is list else e for e in entry[1:]])
    found = recording.size_index.get(key)
    if found is None:
        recording.sizes.append(entry)
        found = recording.size_index[key] = len(recording.sizes) - 1
    return [found]
