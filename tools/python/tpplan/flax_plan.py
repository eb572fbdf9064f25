"""Logical axis rules, as Flax and MaxText have them, as a plan file in the dialect logical. The program resolves them."""

from .files import InputError, find_object, printable
from .write_plan import write_pairs

# What Flax' examples and MaxText call the dim of the batch, and how names begin that are of values alone.
BATCH_NAMES = ("batch", "activation_batch")
OF_VALUES = (*BATCH_NAMES, "activation_")
RULES_HELP = "name a list of (logical name, mesh axis, axes or None)"


def from_flax(name, mesh, kwargs, model=None):
    """A list of (logical name, mesh axis, axes or None), or a function that makes one from `kwargs`. The model, which names its
    dims (`logical_axes`), is not asked before the plan is compiled."""
    found = find_object(name)
    if callable(found):
        try:
            found = found(**kwargs)
        except Exception as error:  # whatever the function raises
            raise InputError(
                f"`{printable(name)}` failed: {type(error).__name__}: {printable(error)}",
                "give its arguments with --kwargs",
                1,
            ) from None
    return logical_plan(found, mesh)


def logical_plan(rules, mesh):
    """The plan of logical axis rules on a mesh {axis: size}. The axes of the first rule for a name of BATCH_NAMES cut the batch.
    Rules for names of values may find no parameter."""
    if not isinstance(rules, (list, tuple)):
        raise InputError(f"`{type(rules).__name__}` is no list of logical axis rules", RULES_HELP, 1)
    pairs = []
    for rule in rules:
        if not isinstance(rule, (list, tuple)) or len(rule) != 2 or not isinstance(rule[0], str):
            raise InputError(f"{printable(rule)} is no logical axis rule", RULES_HELP, 1)
        name, axes = rule
        listed = axes if isinstance(axes, (list, tuple)) else () if axes is None else (axes,)
        if not all(isinstance(axis, str) for axis in listed):
            raise InputError(f"{printable(rule)} is no logical axis rule", RULES_HELP, 1)
        pairs.append((name, list(axes) if isinstance(axes, tuple) else axes, name.startswith(OF_VALUES)))
    return write_pairs("logical", mesh, pairs, data=_data(pairs))


def _data(pairs):
    """The plan's `data`; None where the rules say nothing of a batch."""
    axes = next((axes for name, axes, _ in pairs if name in BATCH_NAMES), None)
    return {"axes": [axes] if isinstance(axes, str) else list(axes), "dim": 0} if axes else None
