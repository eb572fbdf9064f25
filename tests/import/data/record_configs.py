"""Records the graphs that transformers builds from configs: `python record_configs.py` with torch and transformers 5.23
writes configs.json.xz next to this file. The models are built on the meta device; nothing is downloaded.
"""

import json
import lzma
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools" / "python"))

sys.path.insert(0, str(HERE.parent))

from graphs import digest  # noqa: E402
from tpplan.export import operations, transformers_model  # noqa: E402
from tpplan.graph.recording import Untraceable  # noqa: E402
from tpplan.graph.settings import Settings  # noqa: E402

SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
SHARED = {"shared_expert_intermediate_size": 48}
# Several configs of each family, in addition to SMALL.
CONFIGS = {
    "llama": [
        {},
        {"num_key_value_heads": 2, "torch_dtype": "bfloat16", "tie_word_embeddings": True},
        {"attention_bias": True, "mlp_bias": True},
        {"head_dim": 24, "num_key_value_heads": 1, "hidden_act": "relu", "dtype": "float16"},
        {"num_key_value_heads": None, "head_dim": None},
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
            "rope_theta": 500000.0,
            "num_hidden_layers": 12,
        },
    ],
    "mistral": [
        {"num_attention_heads": 8},
        {"num_key_value_heads": 2, "head_dim": 32, "dtype": "bfloat16"},
        {"num_key_value_heads": 4, "hidden_act": "gelu"},
    ],
    "mixtral": [
        {"num_attention_heads": 8, "num_local_experts": 8},
        {"num_key_value_heads": 2, "num_local_experts": 3, "tie_word_embeddings": True, "dtype": "bfloat16"},
        {"num_key_value_heads": 4, "head_dim": 8, "num_local_experts": 2},
    ],
    "qwen2": [
        {"num_attention_heads": 32},
        {"num_key_value_heads": 2, "tie_word_embeddings": True, "dtype": "bfloat16"},
        {"num_key_value_heads": 1, "head_dim": 24},
    ],
    "qwen2_moe": [
        EXPERTS | SHARED | {"num_attention_heads": 16},
        EXPERTS | SHARED | {"num_key_value_heads": 2, "qkv_bias": False, "dtype": "bfloat16"},
        EXPERTS
        | SHARED
        | {"num_key_value_heads": 4, "num_hidden_layers": 6, "decoder_sparse_step": 2, "mlp_only_layers": [1]},
    ],
    "qwen3": [
        {"num_attention_heads": 32},
        {"num_key_value_heads": 2, "head_dim": 16, "attention_bias": True, "dtype": "bfloat16"},
        {"num_key_value_heads": 4, "head_dim": 32, "tie_word_embeddings": True},
    ],
    "qwen3_moe": [
        EXPERTS,
        EXPERTS | {"num_key_value_heads": 2, "head_dim": 32, "attention_bias": True, "dtype": "bfloat16"},
        EXPERTS
        | {
            "num_key_value_heads": 2,
            "num_hidden_layers": 5,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [3],
            "tie_word_embeddings": True,
        },
    ],
    "gemma": [
        {"num_attention_heads": 16},
        {"num_key_value_heads": 1, "head_dim": 32, "dtype": "bfloat16"},
        {"num_key_value_heads": 4, "hidden_act": "gelu", "tie_word_embeddings": False, "attention_bias": True},
    ],
    "gemma2": [
        {},
        {"num_key_value_heads": 2, "head_dim": 32, "dtype": "bfloat16"},
        {"hidden_activation": "gelu", "tie_word_embeddings": False, "attention_bias": True},
    ],
    "gpt_neox": [
        {},
        {"attention_bias": False, "tie_word_embeddings": True, "dtype": "float16"},
        {"rotary_pct": 0.5, "hidden_act": "gelu_fast"},
        {"rotary_pct": 1.0, "num_attention_heads": 2},
    ],
    "phi3": [
        {},
        {"num_key_value_heads": 2, "dtype": "bfloat16", "tie_word_embeddings": True},
        {"num_key_value_heads": 1, "partial_rotary_factor": 0.75},
    ],
    "olmo2": [
        {},
        {"num_key_value_heads": 2, "attention_bias": True, "dtype": "bfloat16"},
        {"num_key_value_heads": 1, "tie_word_embeddings": True},
    ],
    "starcoder2": [
        {},
        {"num_key_value_heads": 4, "use_bias": False, "dtype": "bfloat16"},
        {"tie_word_embeddings": False, "hidden_act": "gelu"},
    ],
    "granite": [
        {},
        {"num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True, "dtype": "bfloat16"},
        {"tie_word_embeddings": True},
    ],
}


def record(model_type, fields, folder):
    config = {"model_type": model_type} | SMALL | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2} | fields
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    model = transformers_model.build(str(path), {})
    try:
        graph = digest(json.loads(operations.record(transformers_model, model, "meta", Settings())))
    except Untraceable:  # the model cannot run
        graph = None
    return {"config": config, "model": transformers_model.model_graph(model), "graph": graph}


def main():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        recorded = [
            record(model_type, fields, pathlib.Path(folder)) for model_type, rows in CONFIGS.items() for fields in rows
        ]
    (HERE / "configs.json.xz").write_bytes(lzma.compress(json.dumps(recorded).encode(), preset=9))


if __name__ == "__main__":
    main()
