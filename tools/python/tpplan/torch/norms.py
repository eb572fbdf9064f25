"""The global gradient norm, as in one process: each element counts once, however many ranks hold it."""

import torch

from ..manifest import COMPILE_AGAIN, ManifestError
from .placements import DTensor


def _local(gradient):
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient


def _held_gradients(model):
    """Yields (manifest tensor, local gradient) of every parameter with a gradient; a tied parameter comes once.
    Raises ManifestError if the manifest has no `norm_weight` for it."""
    for held in model._tpplan_state.by_id.values():
        if held.is_parameter and held.value.grad is not None:
            if held.tensor.norm_weight is None:
                raise ManifestError(
                    f"parameter `{held.tensor.path}`", "has no `norm_weight` in the manifest", COMPILE_AGAIN
                )
            yield held.tensor, _local(held.value.grad)


def grad_norm(model, norm_type=2.0):
    """Returns the norm of order `norm_type` over all gradients of a parallelized model, as a scalar tensor. Every
    rank must call it.

    Each rank's powers are weighted by the manifest's `norm_weight`. All ranks that hold an element hold the same
    gradient of it, after the reduction over the axes of `grad_reduce`.
    """
    state, norm_type = model._tpplan_state, float(norm_type)
    found = list(_held_gradients(model))
    device = state.mesh.device_type
    kind = max((g.dtype for _, g in found), key=lambda d: torch.finfo(d).bits, default=torch.float32)
    kind = torch.promote_types(kind, torch.float32)
    total = torch.zeros((), dtype=kind, device=device)
    for tensor, gradient in found:
        gradient = gradient.detach().to(kind)
        if norm_type == float("inf"):
            total = torch.maximum(total, gradient.abs().max()) if gradient.numel() else total
        else:
            total = total + gradient.abs().pow(norm_type).sum() * float(tensor.norm_weight)
    how = torch.distributed.ReduceOp.MAX if norm_type == float("inf") else torch.distributed.ReduceOp.SUM
    for axis in range(state.mesh.ndim):
        torch.distributed.all_reduce(total, op=how, group=state.mesh.get_group(axis))
    return total if norm_type == float("inf") else total.pow(1.0 / norm_type)


def clip_grad_norm(model, max_norm, norm_type=2.0):
    """Scales the gradients of a parallelized model in place so that their norm is at most `max_norm`, identically on
    all ranks. Returns the norm before scaling, as torch.nn.utils.clip_grad_norm_ does. Every rank must call it."""
    norm = grad_norm(model, norm_type)
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    with torch.no_grad():
        for _, gradient in _held_gradients(model):
            gradient.mul_(factor.to(gradient.dtype))
    return norm
