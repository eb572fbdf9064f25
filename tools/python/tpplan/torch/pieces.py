"""DTensors whose shards torch's placements cannot express, or whose torch checkpoints would be wrong. These are dims
sharded per segment, and uneven shards whose axes are not in mesh order.

A `Pieces` is a DTensor that knows which elements its rank holds. Elementwise operations with identically sharded
tensors work as on any DTensor: optimizers, norms, casts, arithmetic. Its gradient is a `Pieces` as well, and a
checkpoint gets one chunk per interval. All other operations would mix up elements and raise ValueError.

Source: torch 2.13 (torch/distributed/tensor/_api.py, torch/distributed/checkpoint/planner_helpers.py).
"""

import itertools
import re

import torch

from .. import slices
from ..files import printable
from .communication import Cutting, Gather, alike, step_of
from .placements import DTensor, Placement, Replicate, Shard, from_local

# Elementwise operations, also with a _foreach_ prefix or a trailing underscore.
ALONE = frozenset(
    "abs add addcdiv addcmul alias bernoulli clamp clamp_max clamp_min clone copy detach div empty_like eq exp fill full_like ge "
    "gt isfinite isinf isnan le lerp log lt maximum minimum mul nan_to_num ne neg ones_like pow reciprocal rsqrt sign sqrt "
    "square sub where zero zeros_like _to_copy".split()
)
# Reductions of all elements to a scalar.
OF_ALL = frozenset("linalg_vector_norm max min norm sum".split())
# Operations on lists of tensors, item by item.
OF_LISTS = re.compile(r"_fused_(adam|adamw|sgd|adagrad)|_amp_foreach_non_finite_check_and_unscale|_foreach_(\w+)")


def needs_pieces(tensor, mesh):
    """Returns True if a DTensor of this manifest tensor must be a Pieces."""
    sizes = dict(mesh)
    cut = [dim for dim, axes in enumerate(tensor.spec) if any(sizes[axis] > 1 for axis in axes)]
    segmented = any(len(tensor.segments.get(dim) or ()) > 1 for dim in cut)
    turned = any("StridedShard" in text for text in tensor.placements or ())
    return segmented or (turned and not slices.is_even(tensor.shape, tensor.spec, tensor.segments, mesh))


if DTensor is not None:

    class Segments(Placement):
        """The placement that a Pieces prints for a segmented dim. torch does not know it."""

        def __init__(self, dim, path):
            super().__init__()  # torch's is_replicate would crash the process without it
            self.dim, self.path = dim, path

        def __repr__(self):
            return (
                f"Segments(dim={self.dim}) of parameter `{printable(self.path)}` (not a torch placement: load "
                "full tensors with model.load_state_dict, and others with torch.distributed.checkpoint)"
            )

        def __eq__(self, other):
            return isinstance(other, Segments) and other.dim == self.dim

        def __hash__(self):
            return hash((Segments, self.dim))

    class Pieces(DTensor):
        __slots__ = ["_cutting"]

        @staticmethod
        def __new__(cls, local, spec, cutting, *, requires_grad=False):
            made = torch.Tensor._dtensor__new__(cls, local, spec, requires_grad=requires_grad)
            made._cutting = cutting
            return made

        def __init__(self, *args, **kwargs):
            pass

        def __repr__(self):
            return f"Pieces({self._local_tensor}, chunks={[(list(o), list(s)) for o, s, _ in self.chunks()]})"

        def __tensor_flatten__(self):
            return ["_local_tensor"], (self._spec, self._cutting, self.requires_grad)

        @staticmethod
        def __tensor_unflatten__(inner, context, outer_size, outer_stride):
            spec, cutting, requires_grad = context
            return Pieces(inner["_local_tensor"], spec, cutting, requires_grad=requires_grad)

        @property
        def placements(self):
            return tuple(
                Segments(p.dim, self._cutting.path) if not p.is_replicate() else p for p in self._spec.placements
            )

        def chunks(self):
            """Returns (offsets, sizes, slices of the local tensor) of each box of the global tensor that this rank
            holds."""
            c, dims = self._cutting, []
            for runs in slices.shard_slice(c.shape, c.spec, c.segments, c.mesh, c.coordinate):
                ends = list(itertools.accumulate(end - begin for begin, end in runs))
                dims.append([(b, e - b, slice(at - (e - b), at)) for (b, e), at in zip(runs, ends) if b < e])
            return [tuple(zip(*box)) for box in itertools.product(*dims)]

        def to_local(self, *, grad_placements=None):
            if grad_placements is not None:
                self._refuse("to_local with grad_placements")
            return _ToLocal.apply(self) if torch.is_grad_enabled() else self._local_tensor

        def full_tensor(self, *, grad_placements=None):
            if grad_placements is not None:
                self._refuse("full_tensor with grad_placements")
            whole = self.to_local()
            for dim, axes in enumerate(self._cutting.spec):
                for i in range(len(axes), 0, -1):
                    step = step_of(self._cutting, self.device_mesh, dim, list(axes[:i]))
                    whole = Gather.apply(whole, step, False)
            return whole

        def redistribute(self, device_mesh=None, placements=None, **more):
            same_mesh = device_mesh is None or device_mesh == self.device_mesh
            if same_mesh and placements is not None and tuple(placements) == self.placements:
                return self
            if not same_mesh or more or not all(p.is_replicate() for p in placements or [Shard(0)]):
                self._refuse("redistribute to anything but Replicate()")
            return from_local(self.full_tensor(), self.device_mesh, [Replicate()] * self.device_mesh.ndim, self.shape)

        def __create_write_items__(self, fqn, object):
            from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
            from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

            properties = TensorProperties.create_from_tensor(self._local_tensor)
            return [
                WriteItem(
                    index=MetadataIndex(fqn, chunk.offsets),
                    type=WriteItemType.SHARD,
                    tensor_data=TensorWriteData(chunk=chunk, properties=properties, size=self.size()),
                )
                for chunk in self.__create_chunk_list__()
            ]

        def __create_chunk_list__(self):
            from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

            return [ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)) for offsets, sizes, _ in self.chunks()]

        def __get_tensor_shard__(self, index):
            found = next((part for offsets, _, part in self.chunks() if torch.Size(offsets) == index.offset), None)
            if found is None:
                raise ValueError(
                    f"parameter `{printable(self._cutting.path)}`: this rank has no chunk at {index.offset}"
                )
            return self._local_tensor[found]

        def _refuse(self, what):
            raise ValueError(
                f"parameter `{printable(self._cutting.path)}`: {what} would return wrong elements, because torch has "
                "no placement for this rank's shard\n"
                "  = help: call full_tensor(), or use the parameter in the forward of its module"
            )

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            name = func.overloadpacket.__name__
            lists = OF_LISTS.fullmatch(name.rstrip("_"))
            within = _check(func, name.rstrip("_"), lists, args, kwargs or {})
            args_, kwargs_ = torch.utils._pytree.tree_map_only(Pieces, _as_dtensor, (args, kwargs or {}))
            result = func(*args_, **kwargs_)
            if name.endswith("_"):  # in-place operations return their first argument
                return args[0] if result is not None else None
            if lists:
                return [_as_pieces(r, one) for r, one in zip(result, args[0])]
            return _as_pieces(result, within)

    class _ToLocal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, pieces):
            ctx.spec, ctx.cutting = pieces._spec, pieces._cutting
            return pieces._local_tensor.view_as(pieces._local_tensor)

        @staticmethod
        def backward(ctx, gradient):
            return _OfLocal.apply(gradient, ctx.spec, ctx.cutting)

    class _OfLocal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, local, spec, cutting):
            return Pieces(local.view_as(local), spec, cutting, requires_grad=local.requires_grad)

        @staticmethod
        def backward(ctx, gradient):
            return gradient.to_local(), None, None

    torch.serialization.add_safe_globals([Pieces, Cutting])


def _as_dtensor(pieces):
    return DTensor(pieces._local_tensor, pieces._spec, requires_grad=pieces.requires_grad)


def _as_pieces(result, like):
    if isinstance(like, Pieces) and isinstance(result, DTensor) and result.ndim:
        return Pieces(result._local_tensor, result._spec, like._cutting)
    return result


def _check(func, base, lists, args, kwargs):
    """Returns the first Pieces among the arguments. Raises ValueError for an operation that is not elementwise or a
    full reduction, and for tensors that are sharded differently."""
    columns = [args]
    if lists:
        long = [value for value in args if isinstance(value, (list, tuple)) and value]
        columns = list(zip(*long)) if len({len(value) for value in long}) == 1 else [sum(map(list, long), [])]
    first = None
    for values in columns:
        given = [v for v in (*values, *kwargs.values()) if isinstance(v, torch.Tensor) and v.ndim]
        pieces = [v for v in given if isinstance(v, Pieces)]
        first = pieces[0] if first is None and pieces else first
        if any(not isinstance(v, Pieces) or not alike(v._cutting, pieces[0]._cutting) for v in given if pieces):
            pieces[0]._refuse(f"{func} with a differently sharded tensor")
    known = (lists[2] is None or lists[2] in ALONE | OF_ALL) if lists else base in ALONE | OF_ALL
    same_view = base in ("view", "_unsafe_view") and tuple(args[1]) == tuple(first.shape)
    if base in OF_ALL and base != "linalg_vector_norm" and len(args) > (2 if base == "norm" else 1):
        known = False  # reduces one dim only
    if base == "linalg_vector_norm" and len(args) > 2 and args[2] is not None:
        known = False
    if not known and not same_view:
        first._refuse(str(func))
    return first


def like(value, local):
    """Returns a local tensor as a DTensor or Pieces that is sharded as `value`."""
    if isinstance(value, Pieces):
        return Pieces(local, value._spec, value._cutting)
    return DTensor(local, value._spec, requires_grad=False)


def pieces_of(local, mesh, cutting):
    """Returns a local shard as a Pieces on the device mesh."""
    cuts = {axis: dim for dim, axes in enumerate(cutting.spec) for axis in axes}
    plain = [Shard(cuts[axis]) if axis in cuts else Replicate() for axis, _ in cutting.mesh]
    whole = from_local(local, mesh, plain, cutting.shape)
    return Pieces(whole._local_tensor, whole._spec, cutting)
