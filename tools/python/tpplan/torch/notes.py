"""Adds a note to errors of a backward pass: the module or parameter whose gradient failed.

Autograd nodes belong to no module. The nodes of this package, and the redistribution nodes of torch that it creates,
store the name of their module or parameter. A failure takes the name from the frames of its traceback, and otherwise
from the last named node that ran.
"""

import functools

import torch

# The local names of the node in a backward frame: `ctx` in torch's operations, `self` in the recomputation of
# units.py.
CARRIERS = ("ctx", "self")
_passed = {"place": None}  # name stored by the last node that ran


def passing(ctx):
    """Records this node as the last one that ran. A node's backward calls it first."""
    if not torch.compiler.is_compiling():
        _passed["place"] = ctx.place


def carrying(tensor, place):
    """Returns the tensor unchanged, and stores `place` in its autograd node if that is a Python function of torch
    without a name yet."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        with torch._C.DisableTorchFunction():
            node = tensor.grad_fn
        if isinstance(node, torch.autograd.function.BackwardCFunction) and not hasattr(node, "place"):
            node.place = place
    return tensor


def note_backward_passes():
    """Patches autograd's engine entry so that errors of a backward pass get a note. Does nothing if already patched,
    or if this torch has no such entry."""
    original = getattr(torch.autograd, "_engine_run_backward", None)
    if original is None or hasattr(original, "notes_places"):
        return

    @functools.wraps(original)
    def run_backward(*args, **kwargs):
        before, _passed["place"] = _passed["place"], None
        try:
            return original(*args, **kwargs)
        except Exception as error:
            text = _note(error)
            if text is not None and hasattr(error, "add_note"):
                error.add_note(text)
            raise
        finally:
            _passed["place"] = before

    run_backward.notes_places = True
    for owner in (torch.autograd, torch.autograd.graph):  # both modules import the name
        owner._engine_run_backward = run_backward


def _note(error):
    if any("tpplan.torch" in note for note in getattr(error, "__notes__", ())):
        return None  # already noted by a recomputed forward or by an inner backward pass
    place, frame = None, error.__traceback__
    while frame is not None:
        carriers = (frame.tb_frame.f_locals.get(name) for name in CARRIERS)
        place = next(
            (found for found in (getattr(c, "place", None) for c in carriers) if isinstance(found, str)), place
        )
        frame = frame.tb_next
    if place is not None:
        return f"in the backward pass of {place}, run by tpplan.torch"
    if _passed["place"] is None:
        return None
    return (
        f"in a backward pass, after that of {_passed['place']}, the last one that tpplan.torch ran; "
        "torch.autograd.set_detect_anomaly(True) shows the call of the forward pass"
    )
