"""Exports logical axis rules, as in Flax and MaxText, as a plan file in the dialect logical. tpplan resolves the rules
when it compiles the plan.
"""

from .files import InputError, find_object, printable
from .write_plan import write_pairs

# Logical names of the batch dim in Flax' examples and MaxText, and prefixes of names that only activations have.
BATCH_NAMES = ("batch", "activation_batch")
OF_VALUES = (*BATCH_NAMES, "activation_")
RULES_HELP = "name a list of pairs (logical name, axes), with one mesh axis, several axes or None"


def from_flax(name, mesh, kwargs, model=None):
    """Returns the plan file of `package.module:NAME`: a list of (logical name, axes), or a function that returns one,
    called with `kwargs`. `axes` is a mesh axis, several axes, or None. `model` is not read: its `logical_axes` are
    resolved when the plan is compiled."""
    found = find_object(name)
    if callable(found):
        try:
            found = found(**kwargs)
        except Exception as error:  # whatever the function raises
            raise InputError(
                f"`{printable(name)}` failed: {type(error).__name__}: {printable(error)}",
                "pass its arguments with --kwargs",
                1,
            ) from None
    return logical_plan(found, mesh)


def logical_plan(rules, mesh):
    """Returns the plan file of logical axis rules, (logical name, axes), on a mesh {axis: size}. The first rule for a
    name of BATCH_NAMES defines the data axes. Rules for names of activations are optional: they may match no
    parameter. Raises InputError for other values."""
    if not isinstance(rules, (list, tuple)):
        raise InputError(f"`{type(rules).__name__}` is not a list of logical axis rules", RULES_HELP, 1)
    pairs = []
    for rule in rules:
        if not isinstance(rule, (list, tuple)) or len(rule) != 2 or not isinstance(rule[0], str):
            raise InputError(f"{printable(rule)} is not a logical axis rule", RULES_HELP, 1)
        name, axes = rule
        listed = axes if isinstance(axes, (list, tuple)) else () if axes is None else (axes,)
        if not all(isinstance(axis, str) for axis in listed):
            raise InputError(f"{printable(rule)} is not a logical axis rule", RULES_HELP, 1)
        pairs.append((name, list(axes) if isinstance(axes, tuple) else axes, name.startswith(OF_VALUES)))
    return write_pairs("logical", mesh, pairs, data=_data(pairs))


def _data(pairs):
    """Returns the plan's `data`; None if no rule names the batch dim."""
    axes = next((axes for name, axes, _ in pairs if name in BATCH_NAMES), None)
    return {"axes": [axes] if isinstance(axes, str) else list(axes), "dim": 0} if axes else None
