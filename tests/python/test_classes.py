"""Every causal language model of transformers is exported from the config.json that its class writes."""

import json
import os
import warnings

import bridge
import pytest

bridge.needs("torch", "transformers")
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402

import small_classes  # noqa: E402
from tpplan.export import transformers_model  # noqa: E402
from tpplan.files import InputError  # noqa: E402

NAMES = sorted(
    {
        name
        for names in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
        for name in ([names] if isinstance(names, str) else names)
    }
)


def config_of(name, small):
    """The configuration of a class, with default or small sizes; None if transformers cannot create it or the model."""
    model_class = getattr(transformers, name)
    try:
        config = model_class.config_class(**(small_classes.kwargs_of(name) if small else {}))
        with torch.device("meta"):
            model_class._from_config(config)
    except Exception:
        return None
    return config


def exported(name, small, path):
    """The number of parameters in the file; None if transformers has no such model."""
    config = config_of(name, small)
    if config is None:
        return None
    path.write_text(json.dumps(config.to_dict() | {"architectures": [name]}))
    return sum(
        len(m.get("parameters", ()))
        for m in transformers_model.model_graph(transformers_model.build(str(path), {}, "meta"))["modules"]
    )


def test_every_causal_class_is_exported_from_its_config(tmp_path):
    refused, impossible = {}, []
    for name in NAMES:
        for small in (False, True):
            try:
                count = exported(name, small, tmp_path / "config.json")
            except InputError as error:
                refused[name] = str(error)
                break
            if count is not None:
                assert count > 0, name
                break
        else:
            impossible.append(name)
    assert not refused
    assert len(NAMES) > 150 and len(impossible) < 10, f"{len(impossible)} of {len(NAMES)} are not made: {impossible}"


SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "vocab_size": 128,
    "architectures": ["LlamaForCausalLM"],
}


@pytest.mark.parametrize(
    "fields, dtype, is_said",
    [
        ({}, torch.float32, True),
        ({"dtype": "bfloat16"}, torch.bfloat16, False),
        ({"torch_dtype": "float16"}, torch.float16, False),
    ],
)
def test_config_without_dtype_is_reported(tmp_path, capsys, fields, dtype, is_said):
    (tmp_path / "config.json").write_text(json.dumps(SMALL | {"model_type": "llama"} | fields))
    model = transformers_model.build(str(tmp_path / "config.json"), {})
    assert next(model.parameters()).dtype == dtype
    assert ("the file has no `dtype`, so the parameters are float32" in capsys.readouterr().err) == is_said


def test_known_architecture_names_its_model_type(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL | {"model_type": "my_llama"}))
    with pytest.raises(InputError) as error:
        transformers_model.build(str(tmp_path / "config.json"), {})
    assert 'write "model_type": "llama", which is that of LlamaForCausalLM' in error.value.remedy
