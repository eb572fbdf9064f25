"""Traces module boundaries: the inputs and outputs of each call of `forward` get new ids.

A plan's style redistributes at these boundaries, so a value has different ids outside and inside a module.
"""

import contextlib
import dataclasses
import inspect

from .calls import own
from .recording import copy_value, learn, look_up
from .views import read


@contextlib.contextmanager
def modules_recorded(recording, torch, modules):
    """Traces the boundaries of the forward methods of these (path, module)."""
    before = []
    try:
        for path, module in modules:
            before.append((module, module.__dict__.get("forward")))
            module.forward = _wrapped(recording, torch, path, module.forward)
        yield
    finally:
        for module, forward in before:
            if forward is None:
                del module.__dict__["forward"]
            else:
                module.forward = forward


def _wrapped(recording, torch, path, forward):
    positions = positions_of(forward)

    def recorded(*args, **kwargs):
        with torch._C.DisableTorchFunction():
            args, kwargs, crossed = enter(recording, torch, path, args, kwargs, positions)
        recording.modules.append(path)
        result = forward(*args, **kwargs)
        recording.modules.pop()
        with torch._C.DisableTorchFunction():
            return exit_(recording, torch, path, result, crossed)

    recorded.__wrapped__ = forward  # transformers reads the signature
    return recorded


def positions_of(forward):
    """Returns {name: position} of the function's parameters that may be positional."""
    try:
        parameters = inspect.signature(forward).parameters.items()
    except (TypeError, ValueError):
        return {}
    names = [name for name, p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return {name: i for i, name in enumerate(names)}


def enter(recording, torch, path, args, kwargs, positions):
    """Adds the @enter node of a module; an argument passed by keyword also has the position of its parameter.

    Returns (args, kwargs, crossed). Every tensor is a separate object. `crossed` lists (entry, outside id, inside
    id), which exit_ restores.
    """
    ids, entered, row, crossed = {}, set(), [], []

    def before(tensor, _):
        ids[id(tensor)] = read(recording, look_up(recording, tensor))
        return tensor

    def inside(tensor, place):
        entry, outside = look_up(recording, tensor), ids[id(tensor)]
        if id(tensor) not in entered:
            entered.add(id(tensor))
        else:
            tensor = own(tensor)
            parent, entry = entry, learn(recording, tensor, outside)
            entry.parent = parent
        inner = entry.id = copy_value(recording, outside)
        crossed.append((entry, outside, inner))
        row.append(
            [place, outside, inner, *([positions[place[0]]] if len(place) == 1 and place[0] in positions else [])]
        )
        return tensor

    # Read all outside ids first: once one argument has its inside id, values that share its storage would be read
    # from there.
    replace(torch, (args, kwargs), [], before)
    args = tuple(replace(torch, a, [i], inside) for i, a in enumerate(args))
    kwargs = {k: replace(torch, v, [k], inside) for k, v in kwargs.items()}
    recording.nodes.append(["@enter", path, len(args), int(not torch.is_grad_enabled()), row])
    return args, kwargs, crossed


def exit_(recording, torch, path, result, crossed):
    """Adds the @exit node of a module. Returns the result, with every tensor a separate object."""
    seen, row, outer = {id(entry.tensor) for entry, _, _ in crossed}, [], []

    def outside(tensor, place):
        entry = look_up(recording, tensor)
        inner = read(recording, entry)
        if id(tensor) in seen or id(tensor) in recording.names:
            tensor = own(tensor)
            parent, entry = entry, learn(recording, tensor, inner)
            entry.parent = parent
        seen.add(id(tensor))
        made = copy_value(recording, inner)
        outer.append((entry, made))
        row.append([place, inner, made])
        return tensor

    result = replace(torch, result, [], outside)
    for entry, before, inner in crossed:
        if entry.id == inner:  # not written to inside the module
            entry.id = before
    for entry, made in outer:
        entry.id = made
    recording.nodes.append(["@exit", path, row])
    return result


def replace(torch, tree, place, change):
    """Returns the tree with change(tensor, place) applied to every tensor in its tuples, lists, dicts and
    dataclasses."""
    if isinstance(tree, torch.Tensor):
        return change(tree, place)
    if isinstance(tree, dict):
        made = {k: replace(torch, v, [*place, k], change) for k, v in tree.items()}
        if all(made[k] is v for k, v in tree.items()):
            return tree
        if type(tree) is dict:
            return made
        for k, v in made.items():  # transformers' outputs are dict and object at once
            tree[k] = v
        return tree
    if isinstance(tree, (tuple, list)):
        made = [replace(torch, v, [*place, i], change) for i, v in enumerate(tree)]
        if all(a is b for a, b in zip(made, tree)):
            return tree
        if hasattr(tree, "_fields"):
            return type(tree)(*made)
        return type(tree)(made) if type(tree) in (tuple, list) else tuple(made)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        changed = {}
        for field in dataclasses.fields(tree):
            old = getattr(tree, field.name, None)
            new = replace(torch, old, [*place, field.name], change)
            if new is not old:
                changed[field.name] = new
        return dataclasses.replace(tree, **changed) if changed else tree
    return tree
