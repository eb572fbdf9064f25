"""Styles whose modules need more than their boundaries specify."""

import math

import torch

from ..style_steps import STYLES
from .communication import SumGradient


def has_property(style, name):
    """Returns True if a style has a property of style_steps.py. `style` can be None."""
    return STYLES.get(style, {}).get(name, False)


def steps_of(style, side):
    """Returns the steps of a style at its `input` or `output`, besides the layouts in the manifest."""
    return STYLES.get(style, {}).get(side, ())


def needs_one_axis(style):
    """Returns True if a style has steps over the axis of its rule. The manifest does not name that axis, so there must
    be one only."""
    return bool(steps_of(style, "input") or steps_of(style, "output"))


def sums_tail_gradient(style):
    """Returns True if a style reduces the gradient of its RoPE columns, which makes the gradients of its parameters
    complete."""
    return "sum_tail_gradient" in steps_of(style, "output")


def rope_size(model):
    """Returns how many output columns of an mla_kv_a_proj are for RoPE, from the model's config; None if the config
    has no qk_rope_head_dim."""
    config = getattr(model, "config", None)
    if callable(getattr(config, "get_text_config", None)):
        config = config.get_text_config()
    return getattr(config, "qk_rope_head_dim", None)


def _divide(state, path, value, size):
    return value / math.prod(state.model_mesh.shape)


def _sum_tail_gradient(state, path, value, size):
    """All-reduces the gradient of the RoPE columns of an mla_kv_a_proj. They bypass the colwise projection, whose
    backward reduces the gradient of the other columns."""
    passed, rope = value.split([value.shape[-1] - size, size], -1)
    for axis in state.model_axes:
        rope = SumGradient.apply(rope, state.mesh.get_group(axis), state.names[path])
    return torch.cat([passed, rope], -1)


_STEPS = {"divide": _divide, "sum_tail_gradient": _sum_tail_gradient}


def run_steps(steps, state, path, value, size):
    """Applies steps to a value. `size`: the result of rope_size."""
    for step in steps:
        value = _STEPS[step](state, path, value, size)
    return value
