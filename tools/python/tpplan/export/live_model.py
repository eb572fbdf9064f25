"""The model file of a torch model that is there, on any device: what the exporters do with one that they build."""

import copy
import sys

from ..compiled import PlanWarning, warn_user
from ..files import printable
from ..graph.recording import Untraceable
from ..graph.settings import Settings, as_inputs
from . import operations, torch_module, transformers_model
from .file_text import file_text


def torch_text(model, inputs=None):
    """The model file as text, with the operations of one step in the model's mode, which run on a copy without values.
    `inputs` says what forward takes: {name: tensor, or {"shape": [...], "dtype": "..."}}; a model that takes `input_ids`
    needs none. What cannot be recorded is left out, and a PlanWarning says why. Raises InputError."""
    modules = torch_module.model_graph(model)
    settings = Settings(mode="train" if model.training else "eval", inputs=as_inputs(inputs or {}))
    graph = None
    try:
        graph = operations.record(_exporter_of(model), _without_values(model), "meta", settings)
    except Untraceable as error:
        warn_user(
            PlanWarning(
                f"the operations were not recorded, and the plan is judged without them: {printable(error, 500)}\n"
                "  = help: say what forward takes with `inputs`, or compile the plan with a file of python -m tpplan.export"
            )
        )
    return file_text(modules, graph)


def _exporter_of(model):
    transformers = sys.modules.get("transformers")
    known = transformers is not None and isinstance(model, transformers.PreTrainedModel)
    return transformers_model if known else torch_module


def _without_values(model):
    """A copy of the model on the meta device, of which no value was copied. Raises Untraceable."""
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
