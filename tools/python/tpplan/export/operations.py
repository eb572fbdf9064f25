"""The operations of a model that an exporter has built, or why there are none."""

import sys

from ..files import printable
from ..graph import settings as settings_
from ..graph.recording import Untraceable
from ..graph.tables import tables, text
from ..graph.trace import trace


def find(exporter, model, name, kwargs, device, settings):
    """The member `graph` as text, or None where the model cannot be recorded, and standard error says why. What cannot be
    recorded on the meta device is built again on the CPU, if nobody named a device and it is small."""
    try:
        return record(exporter, model, device or "meta", settings)
    except Untraceable as error:
        reason = error
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if device is None and size <= settings_.SMALL and _has_inputs(exporter, model, settings):
        try:
            found = record(exporter, exporter.build(name, kwargs, "cpu", settings), "cpu", settings)
            print(f"note: the operations were recorded on the CPU: {printable(reason, 500)}", file=sys.stderr)
            return found
        except Untraceable as error:
            reason = error
    remedy = "say what forward takes with --inputs" if not _has_inputs(exporter, model, settings) else _REMEDY
    print(
        f"warning: the file has no graph: {printable(reason, 500)}\n  = help: {remedy}, or leave the graph out with --no-graph",
        file=sys.stderr,
    )
    return None


_REMEDY = (
    "what needs data may be recorded with --device cpu, other branches with --attention, --experts, --mode or --inputs"
)


def record(exporter, model, device, settings):
    """The member `graph` as text. Raises Untraceable."""
    args, kwargs = exporter.inputs(model, settings, device)
    if not args and not kwargs:
        raise Untraceable("nothing says what forward takes")
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
