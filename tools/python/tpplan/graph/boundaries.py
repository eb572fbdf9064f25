"""Where modules begin and end: what goes into a call of `forward`, and what comes out, each under a new id.

A style of a plan acts on these borders, so a value has one id outside of a module and another one inside."""

import contextlib
import dataclasses
import inspect

from .calls import own
from .recording import copy_value, learn, look_up
from .views import read


@contextlib.contextmanager
def modules_recorded(recording, torch, modules):
    """While this holds, the forward methods of (path, module) record where they begin and end."""
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

    recorded.__wrapped__ = forward  # transformers asks for the signature
    return recorded


def positions_of(forward):
    """The position of each parameter of a function that may be given by its name and by its position."""
    try:
        parameters = inspect.signature(forward).parameters.items()
    except (TypeError, ValueError):
        return {}
    names = [name for name, p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return {name: i for i, name in enumerate(names)}


def enter(recording, torch, path, args, kwargs, positions):
    """Records the beginning: what a keyword gives has the position of its parameter behind it. Returns the arguments,
    each tensor an object of its own, and what has to be undone."""
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

    # All outside ids first: once one argument is inside, what shares its storage would be read from there.
    replace(torch, (args, kwargs), [], before)
    args = tuple(replace(torch, a, [i], inside) for i, a in enumerate(args))
    kwargs = {k: replace(torch, v, [k], inside) for k, v in kwargs.items()}
    recording.nodes.append(["@enter", path, len(args), int(not torch.is_grad_enabled()), row])
    return args, kwargs, crossed


def exit_(recording, torch, path, result, crossed):
    """Records the end. Returns the result, each tensor an object of its own."""
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
        if entry.id == inner:  # not written to inside
            entry.id = before
    for entry, made in outer:
        entry.id = made
    recording.nodes.append(["@exit", path, row])
    return result


def replace(torch, tree, place, change):
    """The tree with change(tensor, place) for every tensor in its tuples, lists, dicts and dataclasses."""
    if isinstance(tree, torch.Tensor):
        return change(tree, place)
    if isinstance(tree, dict):
        made = {k: replace(torch, v, [*place, k], change) for k, v in tree.items()}
        if all(made[k] is v for k, v in tree.items()):
            return tree
        if type(tree) is dict:
            return made
        for k, v in made.items():  # transformers' outputs: dict and object in one
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
