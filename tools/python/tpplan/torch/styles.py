"""Styles whose modules ask for more than their boundaries say."""

import torch

from .communication import SumGradient

# Styles whose modules compute with their own local pieces, as transformers runs them.
LOCAL_STYLES = (
    "moe_tp_experts",
    "local_params",
    "packed_colwise",
    "packed_rowwise",
    "all_reduce",
    "ep_dispatch_experts",
    "moe_identity_expert",
    "mla_kv_a_proj",
)

# Styles that sum or divide over the axis of their rule, which a manifest says only where there is but one.
ONE_AXIS_STYLES = ("moe_identity_expert", "mla_kv_a_proj")


def rope_size(model):
    """How many columns of an mla_kv_a_proj are the rope's: what the model's configuration says; None where it does not."""
    config = getattr(model, "config", None)
    if callable(getattr(config, "get_text_config", None)):
        config = config.get_text_config()
    return getattr(config, "qk_rope_head_dim", None)


def sum_rope_gradient(state, path, result, size):
    """mla_kv_a_proj: the rope columns go past the column-sharded projection, which sums the gradient of the others."""
    passed, rope = result.split([result.shape[-1] - size, size], -1)
    for axis in state.model_axes:
        rope = SumGradient.apply(rope, state.mesh.get_group(axis), state.names[path])
    return torch.cat([passed, rope], -1)
