"""Traces the operations of a model that an exporter has built."""

import sys

from ..files import printable
from ..graph import settings as settings_
from ..graph.recording import Untraceable
from ..graph.tables import tables, text
from ..graph.trace import trace


def find(exporter, model, name, kwargs, device, settings):
    """Returns the field `graph` as text; None, with a warning on standard error, if the model cannot be traced. If
    tracing fails on the meta device, a small model is rebuilt and traced on the CPU, unless `device` is set."""
    try:
        return record(exporter, model, device or "meta", settings)
    except Untraceable as error:
        reason = error
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if device is None and size <= settings_.SMALL and _has_inputs(exporter, model, settings):
        try:
            found = record(exporter, exporter.build(name, kwargs, "cpu", settings), "cpu", settings)
            print(f"note: the operations were traced on the CPU: {printable(reason, 500)}", file=sys.stderr)
            return found
        except Untraceable as error:
            reason = error
    remedy = (
        "describe the arguments of forward with --inputs" if not _has_inputs(exporter, model, settings) else _REMEDY
    )
    print(
        f"warning: the file has no operation graph: {printable(reason, 500)}\n"
        f"  = help: {remedy}, or omit the graph with --no-graph",
        file=sys.stderr,
    )
    return None


_REMEDY = (
    "trace operations that need data with --device cpu, other branches with --attention, --experts, --mode or --inputs"
)


def record(exporter, model, device, settings):
    """Returns the field `graph` as text. Raises Untraceable if tracing fails or the model's inputs are unknown."""
    args, kwargs = exporter.inputs(model, settings, device)
    if not args and not kwargs:
        raise Untraceable("the arguments of forward are unknown")
    model.train(settings.mode == "train")
    with exporter.traceable():
        recording = trace(model, args, kwargs, device, exporter.main_output)
    dtype = next(
        (str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.is_floating_point()), settings.dtype
    )
    return text(tables(recording, settings_.header(settings, dtype)))


def _has_inputs(exporter, model, settings):
    args, kwargs = exporter.inputs(model, settings, "meta")
    return bool(args or kwargs)
