"""Applies a manifest to a torch model: `parallelize(model, manifest, device_mesh)`.

Parameters become DTensors on the whole mesh with the manifest's placements. The axes of the mesh are of two kinds. Over data
axes (those of `data`, and FSDP's) every rank computes with its own part of the batch, on tensors that know nothing of these
axes: a parameter that is cut over them is gathered where its module runs, and its gradient is summed back, once, as
`grad_reduce` says. Over the other axes, the model axes, modules with a boundary in the manifest compute with DTensors, and
their inputs and outputs go through from_local, redistribute and to_local as the boundary says, so that DTensor itself makes
the collectives and the sums of gradients. Linears whose boundary says what a product of pieces is compute with plain pieces
(plain_linear.py). A module without a boundary computes with plain tensors, if it is given plain tensors and holds its parameters
whole, and with DTensors otherwise.

Gradients over data axes are sums over the ranks, not means: divide the loss by the size of the whole batch. A manifest whose
plan says that they are averaged (`loss: {gradients: mean}`) is refused.

Every parameter is a DTensor on the whole mesh, so that torch's optimizers, its clip_grad_norm_ and its distributed checkpoints
work; where torch has no placement for a piece, it is a DTensor that knows its runs (pieces.py). clip_grad_norm (norms.py) counts
by the manifest's `norm_weight`.

model.py has the order: everything is checked (checks.py), values are cut (values.py), and modules get forwards (modules.py) that
put inputs and outputs into their layouts (boundaries.py), show parameters gathered (views.py), and let plain tensors meet
DTensors (mixing.py; rows of a table that is cut are looked up by embeddings.py). Under these stand placements.py, communication.py,
and the state that modules share (state.py).

checkpoints.py has a run of training on disk; notes.py what errors of a backward pass are told.

Sources of the rules: the manifest (lib/infer), torch 2.13 (torch/distributed/tensor/parallel/style.py), transformers 5.23
(distributed/tensor_parallel.py) for its styles of experts.
"""

from .checkpoints import load_states, save_states
from .mixing import mixed
from .model import parallelize
from .norms import clip_grad_norm, grad_norm
from .placements import ensure_dtensor
from .values import full_tensor

__all__ = [
    "clip_grad_norm",
    "ensure_dtensor",
    "full_tensor",
    "grad_norm",
    "load_states",
    "mixed",
    "parallelize",
    "save_states",
]
