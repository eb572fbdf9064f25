"""Builds transformers models by class, model type or config.json, on the meta device. Nothing is downloaded, and no
code of a checkpoint runs."""

import contextlib
import inspect
import json
import os
import sys

from ..files import InputError, printable, read_json
from ..graph.settings import make_input, read_dtype
from . import torch_module


def build(name, kwargs, device="meta", settings=None):
    """Returns the transformers model `name`: a model class (LlamaForCausalLM), a model type (llama), or the path of a
    config.json, whose `architectures` names the class. `kwargs` are arguments of the configuration. `settings`
    (tpplan.graph.settings) has the dtype and the implementations of attention and experts. Raises InputError if it
    cannot be built."""
    transformers, torch = _transformers(), torch_module._torch()
    model_class, config = _find(transformers, name, kwargs, settings is not None and settings.dtype is not None)
    try:
        with torch.device(device):
            return model_class._from_config(config, **_options(model_class, settings))
    except Exception as error:  # whatever the model's code raises
        raise InputError(
            f"{model_class.__name__} cannot be built: {type(error).__name__}: {printable(error, 500)}",
            "change the configuration with --kwargs; if it cannot be built on the meta device, use --device cpu",
            1,
        ) from None


def model_graph(model):
    return torch_module.model_graph(model)


def inputs(model, settings, device):
    """Returns (positional arguments, keyword arguments) for a call of forward. The cache is disabled."""
    accepted = inspect.signature(type(model).forward).parameters
    described = dict(settings.inputs)
    sizes = {"shape": [settings.batch, settings.sequence], "dtype": "int64"}
    if not described and "input_ids" in accepted:
        described["input_ids"] = sizes
        if model.config.is_encoder_decoder and "decoder_input_ids" in accepted:
            described["decoder_input_ids"] = sizes
    made = {name: make_input(d, device, torch_module.smallest_table(model)) for name, d in described.items()}
    return (), made | ({"use_cache": False} if made and "use_cache" in accepted else {})


def main_output(result):
    """Returns the tensors that the loss uses: the logits or the last hidden state; None for all."""
    for name in ("logits", "last_hidden_state"):
        found = getattr(result, name, None)
        if found is not None:
            return [found]
    return None


@contextlib.contextmanager
def traceable():
    """Makes transformers build its masks as under tracing, without reading data."""
    _transformers()
    holders = [m for n, m in list(sys.modules.items()) if n.startswith("transformers.") and "is_tracing" in vars(m)]
    before = [(holder, vars(holder)["is_tracing"]) for holder in holders]
    try:
        for holder in holders:
            holder.is_tracing = lambda tensor=None: True
        yield
    finally:
        for holder, function in before:
            holder.is_tracing = function


def _options(model_class, settings):
    """Returns the keyword arguments of _from_config."""
    if settings is None:
        return {}
    made = {
        "dtype": settings.dtype,
        "attn_implementation": settings.attention,
        "experts_implementation": settings.experts,
    }
    if settings.experts is not None and not model_class._can_set_experts_implementation():
        del made["experts_implementation"]
        print(
            f"note: {model_class.__name__} has no choice of experts, so `--experts "
            f"{printable(settings.experts)}` has no effect",
            file=sys.stderr,
        )
    return {name: value for name, value in made.items() if value is not None}


def _transformers():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers
    except ImportError:
        raise InputError("transformers is not installed", "pip install transformers") from None
    return transformers


def _find(transformers, name, kwargs, has_dtype):
    """Returns (model class, configuration). Raises InputError if transformers has no such model."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    remedy = "name a class (LlamaForCausalLM), a model type (llama) or a config.json"
    if name.endswith(".json") or os.path.sep in name:
        return _find_in_file(transformers, CONFIG_MAPPING, name, kwargs, has_dtype)
    if name in CONFIG_MAPPING:
        config = _make_config(CONFIG_MAPPING[name], kwargs)
        return _class_of(transformers, config, name), config
    model_class = _class_named(transformers, name)
    if model_class is None or model_class.config_class is None:
        raise InputError(f"transformers {transformers.__version__} has no model `{printable(name)}`", remedy)
    return model_class, _make_config(model_class.config_class, kwargs)


def _find_in_file(transformers, mapping, path, kwargs, has_dtype):
    try:
        with open(path, encoding="utf-8") as file:
            written = read_json(file.read(), printable(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {printable(path)}: {printable(error)}", "give the config.json of a model"
        ) from None
    model_type = written.get("model_type") if isinstance(written, dict) else None
    names = written.get("architectures") if isinstance(written, dict) else None
    named = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
    known = _class_named(transformers, named)
    if not isinstance(model_type, str) or model_type not in mapping:
        known_type = getattr(known and known.config_class, "model_type", None)
        raise InputError(
            f"{printable(path)}: transformers {transformers.__version__} has no model_type "
            f"{printable(json.dumps(model_type))}",
            f'write "model_type": "{known_type}", which is that of {named}, if the model needs no custom code'
            if known_type
            else "give the config.json of a model that needs no custom code",
        )
    if written.get("quantization_config"):
        print(
            f"note: {printable(path)}: `quantization_config` is ignored, so the model has the tensors "
            "before quantization; use tpplan import --from safetensors for the tensors of a checkpoint",
            file=sys.stderr,
        )
    config = _make_config(
        mapping[model_type], {k: v for k, v in written.items() if k not in ("model_type", "auto_map")} | kwargs
    )
    if not has_dtype and "dtype" not in kwargs:
        _set_dtype(config, written, path)
    return known or _class_of(transformers, config, path), config


def _set_dtype(config, written, path):
    """Sets the dtype that from_pretrained takes: that of the file or of its `text_config`. Prints a note if neither has
    one: from_pretrained then takes the checkpoint's, which is not read here."""
    for part in (written, written.get("text_config")):
        found = isinstance(part, dict) and (part.get("dtype") or part.get("torch_dtype"))
        if isinstance(found, str) and found not in ("auto", ""):
            if part is not written:
                config.dtype = read_dtype(found)
            return
    print(
        f"note: {printable(path)}: the file has no `dtype`, so the parameters are float32; `--dtype bfloat16` sets "
        "the dtype of the checkpoint",
        file=sys.stderr,
    )


def _class_named(transformers, name):
    """Returns the model class of this name, or None."""
    found = getattr(transformers, name, None) if name.isidentifier() else None
    return found if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel) else None


def _make_config(config_class, kwargs):
    try:
        return config_class(**kwargs)
    except Exception as error:
        raise InputError(
            f"{config_class.__name__} rejects the configuration: {type(error).__name__}: {printable(error, 500)}",
            "change --kwargs or the file",
            1,
        ) from None


def _class_of(transformers, config, name):
    """Returns the causal language model class of this configuration, or its base model class. Raises InputError if it
    has neither."""
    for auto in (transformers.AutoModelForCausalLM, transformers.AutoModel):
        if type(config) in auto._model_mapping:
            found = auto._model_mapping[type(config)]
            return found[0] if isinstance(found, (list, tuple)) else found
    raise InputError(f"transformers has no auto class for `{printable(name)}`", "name the model class")
