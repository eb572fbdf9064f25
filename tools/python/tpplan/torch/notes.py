"""Errors of a backward pass get a note of whose gradient it was about. Autograd's nodes are of no module: those that this package makes,
and those of torch's that it asks for (redistributions), carry the name of their module or parameter, which a failure finds among the
frames that it comes through. What fails elsewhere is told which of these nodes came last."""

import functools

import torch

# What an operation of torch calls its node, and a unit that is gathered again itself (units.py).
CARRIERS = ("ctx", "self")
_passed = {"place": None}  # the last node that ran and carries a name


def passing(ctx):
    """Called by a node's backward, first."""
    if not torch.compiler.is_compiling():
        _passed["place"] = ctx.place


def carrying(tensor, place):
    """The tensor, whose node was made by a function of torch that is written in Python, and carries this name now if none before."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        with torch._C.DisableTorchFunction():
            node = tensor.grad_fn
        if isinstance(node, torch.autograd.function.BackwardCFunction) and not hasattr(node, "place"):
            node.place = place
    return tensor


def note_backward_passes():
    """From now on what a backward pass raises gets its note. Once a process; nothing where a torch starts its passes elsewhere."""
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
    for owner in (torch.autograd, torch.autograd.graph):  # torch puts one name back from the other
        owner._engine_run_backward = run_backward


def _note(error):
    if any("tpplan.torch" in note for note in getattr(error, "__notes__", ())):
        return None  # of a forward that ran again, or of a pass within
    place, frame = None, error.__traceback__
    while frame is not None:
        carriers = (frame.tb_frame.f_locals.get(name) for name in CARRIERS)
        place = next(
            (found for found in (getattr(c, "place", None) for c in carriers) if isinstance(found, str)), place
        )
        frame = frame.tb_next
    if place is not None:
        return f"in the backward pass of {place}, as tpplan.torch runs it"
    if _passed["place"] is None:
        return None
    return (
        f"in a backward pass, behind that of {_passed['place']}: the last place that tpplan.torch passed; "
        "torch.autograd.set_detect_anomaly(True) shows the call of the forward pass"
    )
