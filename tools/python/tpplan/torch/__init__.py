"""Applies a manifest to a torch model: `parallelize(model, manifest, device_mesh)`.

Parameters become DTensors on the full device mesh, with the manifest's placements. The mesh has data axes and model
axes.

- Data axes are those of `data` and of FSDP. Each rank computes on its shard of the batch, with tensors that ignore
  these axes. A parameter sharded over a data axis is all-gathered for the forward of its module. Its gradient is
  reduced once, as `grad_reduce` specifies.
- Model axes are all others. Modules with a boundary in the manifest compute with DTensors. Their inputs and outputs
  pass through from_local, redistribute and to_local as the boundary specifies, so DTensor issues the collectives.

A Linear whose boundary fixes the layout of its matmul computes on local tensors (plain_linear.py). A module without a
boundary computes with plain tensors if its inputs are plain and its parameters replicated, and with DTensors
otherwise.

Gradients over data axes are sums over ranks, not means: divide the loss by the global batch size. parallelize rejects
a manifest whose plan averages them (`loss: {gradients: mean}`).

Every parameter is a DTensor on the full mesh, so torch's optimizers, clip_grad_norm_ and distributed checkpoints
work. If torch has no placement for a shard, the parameter is a DTensor subclass that stores its intervals
(pieces.py). clip_grad_norm (norms.py) weights each rank's elements by the manifest's `norm_weight`.

model.py is the entry point. It runs these parts in order:

- checks.py validates the model against the manifest.
- values.py shards the values.
- modules.py replaces the forwards. boundaries.py redistributes inputs and outputs, views.py gathers parameters, and
  mixing.py converts plain tensors that are combined with DTensors. embeddings.py computes vocabulary-sharded
  embeddings.

placements.py, communication.py and state.py (the state shared by modules) are the lower layers. checkpoints.py saves
and loads training states. notes.py names the module in errors of the backward pass.

Sources of the rules: the manifest (lib/resolve/infer), torch 2.13 (torch/distributed/tensor/parallel/style.py),
transformers 5.23 (distributed/tensor_parallel.py) for its expert styles.
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
