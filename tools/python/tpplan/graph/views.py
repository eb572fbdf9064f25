"""Writes: a tensor that is written to gets a new id, and so does every tensor that shares its storage.

Tensors that share a storage form a tree of views. A write is propagated up the tree to the owner of the storage, one
node per step: a setitem, or the inverse view. Other views are recreated when they are read.
"""

from .recording import Untraceable, add_value, copy_value, place

# Views of all of their parent, if they share its storage.
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
    """Returns the current id of a tensor; recreates a view whose storage has been written to."""
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
    """Registers that the tensor has been written to and has the id `value`."""
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
    """Returns the new id of `parent`, whose old id is `before`, after a write to its view `child`."""
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
        """Returns the parent with `index` of this dim replaced by the child."""
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
    raise Untraceable(f"{place(recording)} writes in place through {op}, which tpplan cannot trace")


def _expression(recording, argument):
    return argument if type(argument) is int else ("entry", argument[1])


def _entry(recording, expression):
    """Returns the argument for an expression, whose operands may be existing entries."""
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
