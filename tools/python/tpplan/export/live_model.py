"""Exports the model file of a live torch model on any device."""

import copy
import sys

from ..compiled import PlanWarning, warn_user
from ..files import printable
from ..graph.recording import Untraceable
from ..graph.settings import Settings, as_inputs
from . import operations, torch_module, transformers_model
from .file_text import file_text


def torch_text(model, inputs=None):
    """Returns the model file as text, with the operations of one step in the model's current mode, traced on a copy
    without values.

    `inputs` describes the inputs of forward: {name: tensor, or {"shape": [...], "dtype": "..."}}. A model that takes
    `input_ids` needs none. If tracing fails, the operations are omitted, and a PlanWarning explains why. Raises
    InputError if the model cannot be exported.
    """
    modules = torch_module.model_graph(model)
    settings = Settings(mode="train" if model.training else "eval", inputs=as_inputs(inputs or {}))
    graph = None
    try:
        graph = operations.record(_exporter_of(model), _without_values(model), "meta", settings)
    except Untraceable as error:
        warn_user(
            PlanWarning(
                f"the operations were not traced, so the plan is checked without them: {printable(error, 500)}\n"
                "  = help: describe the arguments of forward in `inputs`, or compile the plan with a file of python "
                "-m tpplan.export"
            )
        )
    return file_text(modules, graph)


def _exporter_of(model):
    transformers = sys.modules.get("transformers")
    known = transformers is not None and isinstance(model, transformers.PreTrainedModel)
    return transformers_model if known else torch_module


def _without_values(model):
    """Returns a copy of the model on the meta device, without copying values. Raises Untraceable if it cannot be
    copied."""
    import torch

    memo = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        empty = torch.empty_like(tensor, device="meta")
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        memo[id(tensor)] = torch.nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:  # whatever the model holds
        raise Untraceable(f"the model cannot be copied: {type(error).__name__}: {error}") from None
