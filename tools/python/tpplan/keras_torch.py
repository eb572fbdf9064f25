"""The distribution library that Keras' torch backend lacks, of DTensors: one process a device, under torchrun.

`install()` puts it where Keras looks for one, once a process. Under a current distribution then, as on JAX:
trainable variables, and those with a layout, are DTensors from their creation on, and every assignment keeps their
placements; outputs of layers go to their layouts; `fit`, `evaluate` and `predict` cut each batch, which every process gets
whole, over the batch's axes; plain tensors that meet DTensors count as whole on every rank. Metrics, counters and states of
random generators stay plain, the same on every rank. The functions have the names and arguments of
keras/src/backend/jax/distribution_lib.py.
"""

import functools
import math
import os
import re
import sys
import threading

import keras
import torch
from keras.distribution import DeviceMesh, TensorLayout
from keras.src import optimizers, tree
from keras.src.backend.torch import core, trainer
from keras.src.layers.layer import Layer

from . import slices
from .manifest import ManifestError

try:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    from .torch import _placement, ensure_dtensor, mixed
except ImportError:  # torch before 2.5, or built without distributed
    DTensor = None

_state = threading.local()  # running: the thread is inside a call of a distributed model


# Devices and meshes.

def list_devices(device_type=None):
    kind = device_type or core.get_device().partition(":")[0]
    return [f"{kind}:{rank}" for rank in range(num_processes())]


def get_device_count(device_type=None):
    return len(list_devices(device_type))


def num_processes():
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else int(os.environ.get("WORLD_SIZE", 1))


def process_id():
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else int(os.environ.get("RANK", 0))


def initialize(job_addresses=None, num_processes=None, process_id=None):
    """Joins the processes: by torchrun's variables, or by the first of the addresses."""
    if torch.distributed.is_initialized():
        return
    given = {}
    if job_addresses:
        given = {"init_method": "tcp://" + job_addresses.split(",")[0], "world_size": num_processes, "rank": process_id}
    torch.distributed.init_process_group("nccl" if core.get_device().startswith("cuda") else "gloo", **given)


def _to_backend_mesh(device_mesh):
    """torch's DeviceMesh of a Keras one, whose device `kind:r` is rank r."""
    initialize()
    ranks = [int(str(device).partition(":")[2] or 0) for device in device_mesh.devices.flatten()]
    kind = str(device_mesh.devices.flatten()[0]).partition(":")[0].replace("gpu", "cuda")
    return torch.distributed.DeviceMesh(kind, torch.tensor(ranks).reshape(device_mesh.devices.shape),
                                        mesh_dim_names=tuple(device_mesh.axis_names))


def keras_mesh(mesh):
    """Keras' DeviceMesh of one of torch's; what is no DeviceMesh of torch as it is."""
    if not isinstance(mesh, torch.distributed.DeviceMesh):
        return mesh
    if not mesh.mesh_dim_names:
        raise ManifestError("`mesh`", "the device mesh has no names", "give mesh_dim_names to init_device_mesh")
    devices = [f"{mesh.device_type}:{rank}" for rank in mesh.mesh.flatten().tolist()]
    made = DeviceMesh(tuple(mesh.shape), list(mesh.mesh_dim_names), devices)
    made._backend_mesh = mesh
    return made


def mesh_info(device_mesh):
    """Shape, axis names and devices of a mesh."""
    return {"shape": tuple(device_mesh.shape), "axis_names": tuple(device_mesh.axis_names),
            "devices": [str(d) for d in device_mesh.devices.flatten()]}


# Layouts.

def placements_of(axes, device_mesh):
    """torch's placements of a layout's axes: for each axis of the mesh the dim that it cuts. An entry of several axes is
    cut by the first, its pieces by the second, and so on."""
    mesh = list(zip(device_mesh.axis_names, device_mesh.shape))
    spec = [() if entry is None else (entry,) if isinstance(entry, str) else tuple(entry) for entry in axes]
    return [_placement(text) for text in slices.placements_of(spec, {}, mesh)]


def _to_backend_layout(layout):
    """(torch's DeviceMesh, placements) of a TensorLayout."""
    if layout.device_mesh is None:
        raise ValueError("Cannot create sharding when device mesh is not set for TensorLayout.")
    return layout.device_mesh.backend_mesh, placements_of(layout.axes, layout.device_mesh)


def output_layout(texts, device_mesh, data_axes):
    """A TensorLayout for the output of a layer, by the placements that a manifest writes: their dims may be negative."""
    layout = TensorLayout((), device_mesh)
    layout._tpplan_placements = [*zip(texts, [axis in data_axes for axis in device_mesh.axis_names])]
    return layout


def _placements_for(layout, shape):
    """The placements of a value of that shape. A batch that does not divide is whole on every rank, as its inputs were."""
    texts = getattr(layout, "_tpplan_placements", None)
    if texts is None:
        return layout.backend_layout[1]
    found, ndim = [_placement(text) for text, _ in texts], len(shape)
    for p in found:
        if isinstance(p, Shard) and not -ndim <= p.dim < ndim:
            raise ManifestError("layout of an output", f"{p} of a value with {ndim} dims", "write a layout that the value has")
    found = [Shard(p.dim % ndim) if isinstance(p, Shard) else p for p in found]
    cuts = [(i, p.dim) for i, (p, (_, is_data)) in enumerate(zip(found, texts)) if isinstance(p, Shard) and is_data]
    for i, dim in cuts:
        if shape[dim] % math.prod(layout.device_mesh.shape[j] for j, other in cuts if other == dim):
            found[i] = Replicate()
    return found


def distribute_tensor(tensor, layout):
    """A tensor, which is whole on every rank, or a DTensor, in this layout. Trees of them, and what has no values (the meta
    device), too."""
    return tree.map_structure(lambda t: _distribute(t, layout), tensor)


def _distribute(tensor, layout):
    if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
        return tensor
    mesh, placements = layout.device_mesh.backend_mesh, _placements_for(layout, tensor.shape)
    if isinstance(tensor, DTensor):
        return tensor if list(tensor.placements) == placements else tensor.redistribute(placements=placements)
    if tensor.requires_grad and not tensor.is_leaf:  # a value that a gradient goes through
        return ensure_dtensor(tensor, mesh).redistribute(placements=placements)
    return _cut(tensor, mesh, placements, layout)


def _cut(tensor, mesh, placements, layout):
    """This rank's piece of a whole tensor, in memory of its own, as a DTensor."""
    if getattr(layout, "_tpplan_placements", None) is not None:
        return ensure_dtensor(tensor, mesh).redistribute(placements=placements)
    spec = [() if entry is None else (entry,) if isinstance(entry, str) else tuple(entry) for entry in layout.axes]
    spec += [()] * (tensor.ndim - len(spec))
    names = list(zip(layout.device_mesh.axis_names, layout.device_mesh.shape))
    coordinate = dict(zip(layout.device_mesh.axis_names, mesh.get_coordinate()))
    local = tensor.detach()
    for dim, ((begin, end),) in enumerate(slices.shard_slice(tensor.shape, spec, {}, names, coordinate)):
        local = local.narrow(dim, begin, end - begin)
    local = local.clone(memory_format=torch.contiguous_format)
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.contiguous().stride())


def distribute_variable(value, layout):
    """The value of a variable, as the mesh's first rank has it, in this layout."""
    if isinstance(value, DTensor) or value.is_meta:
        return distribute_tensor(value, layout)
    return distribute_tensor(_from_first_rank(value.detach(), layout.device_mesh.backend_mesh), layout)


def distribute_data_input(per_process_batch, layout, batch_dim_name=None):
    """A batch, as the mesh's first rank has it, cut over the axes of the batch. One that does not divide stays whole on
    every rank: DTensor's means of unlike pieces are not those of the whole."""
    if not isinstance(per_process_batch, torch.Tensor) or isinstance(per_process_batch, DTensor) or per_process_batch.is_meta:
        return per_process_batch
    sizes = dict(zip(layout.device_mesh.axis_names, layout.device_mesh.shape))
    whole = _from_first_rank(per_process_batch, layout.device_mesh.backend_mesh)
    for dim, entry in enumerate(layout.axes):
        axes = () if entry is None else (entry,) if isinstance(entry, str) else entry
        if whole.shape[dim] % math.prod(sizes[axis] for axis in axes):
            return ensure_dtensor(whole, layout.device_mesh.backend_mesh)
    return distribute_tensor(whole, layout)


def _from_first_rank(tensor, mesh):
    """The tensor as the first rank of the mesh has it: axis by axis."""
    whole = tensor.clone(memory_format=torch.contiguous_format)
    for axis in range(mesh.ndim - 1, -1, -1):
        if mesh.size(axis) > 1:
            group = mesh.get_group(axis)
            torch.distributed.broadcast(whole, torch.distributed.get_global_rank(group, 0), group=group)
    return whole


# Collectives.

def all_gather_variable(variable):
    """The whole value of a variable (or of a tensor), plain, on every rank. Every rank must call it."""
    return _whole(getattr(variable, "value", variable))


def _whole(value):
    """A plain tensor of a DTensor; all that is not one as it is."""
    if not isinstance(value, DTensor):
        return value
    if all(type(p) in (Shard, Replicate) or p.is_partial() for p in value.placements):
        return value.full_tensor()
    # torch's full_tensor of strided pieces is right where they are even, and Keras cuts no others.
    return value.redistribute(placements=[Replicate()] * value.device_mesh.ndim).to_local()


def all_reduce(tensor, op="sum", axis_name=None):
    """The sum ("sum", or "mean", "max", "min") of the ranks' tensors along an axis of the current mesh (None: all)."""
    ops = {"sum": torch.distributed.ReduceOp.SUM, "mean": torch.distributed.ReduceOp.SUM, "max": torch.distributed.ReduceOp.MAX,
           "min": torch.distributed.ReduceOp.MIN}
    if op not in ops:
        raise ValueError(f"`op` is one of {', '.join(ops)}. Received: op={op}")
    result, mesh = tensor.detach().clone(), _current_mesh()
    for axis in mesh.mesh_dim_names if axis_name is None else [axis_name]:
        torch.distributed.all_reduce(result, ops[op], group=mesh.get_group(axis))
        result = result / mesh.size(mesh.mesh_dim_names.index(axis)) if op == "mean" else result
    return result


def all_gather(tensor, axis, axis_name):
    """The ranks' tensors along an axis of the current mesh, one after the other in dim `axis`. Their sizes may differ there."""
    mesh = _current_mesh()
    group, count = mesh.get_group(axis_name), mesh.size(mesh.mesh_dim_names.index(axis_name))
    sizes = [torch.zeros(1, dtype=torch.int64, device=tensor.device) for _ in range(count)]
    torch.distributed.all_gather(sizes, torch.tensor([tensor.shape[axis]], device=tensor.device), group=group)
    longest = max(int(size) for size in sizes)
    shape = list(tensor.shape)
    shape[axis] = longest
    padded = tensor.new_zeros(shape)
    padded.narrow(axis, 0, tensor.shape[axis]).copy_(tensor.detach())
    pieces = [torch.empty_like(padded) for _ in range(count)]
    torch.distributed.all_gather(pieces, padded, group=group)
    return torch.cat([piece.narrow(axis, 0, int(size)) for piece, size in zip(pieces, sizes)], axis)


def _current_mesh():
    distribution = keras.distribution.distribution()
    if distribution is None:
        raise ManifestError("`mesh`", "there is no current distribution",
                            "keras.distribution.set_distribution(tpplan.keras.model_parallel(manifest))")
    return distribution.device_mesh.backend_mesh


# Paths.

def torch_path(path):
    """A path of Keras (`dense/kernel`) in torch's writing (`dense.kernel`). Names of leaves are not changed: a `kernel` is
    (in, out), a `weight` (out, in)."""
    return path.replace("/", ".")


def find_layout(layout_map, path, match=re.fullmatch):
    """The layout of a path in a LayoutMap whose keys are in Keras' or in torch's writing: the key that is the path; the one
    that is it in torch's writing; the one that matches either as a regular expression. None where no key does; ValueError
    where two do, as in Keras. The rules of tpplan's dialect keras."""
    for form in (path, torch_path(path)):
        if form in list(layout_map):  # `in` of a LayoutMap itself looks up by expressions
            return layout_map[form]
    found = [key for key in layout_map if match(key, path) or match(torch_path(key), torch_path(path))]
    if len(found) > 1:
        raise ValueError(f"Path '{path}' matches multiple layout specification keys: {found}.")
    return layout_map[found[0]] if found else None


# Variables.

def spread_variables(model, distribution):
    """Spreads the variables of a built model over a distribution's mesh, in place."""
    distribution.device_mesh.backend_mesh  # noqa: B018  the processes join
    for variable in model.variables:
        _spread(variable, distribution)
    for layer in model._flatten_layers():
        if hasattr(layer, "_torch_params"):
            layer._track_variables()


def _spread(variable, distribution):
    """Makes the value of a variable a DTensor, where it is trainable or has a layout that cuts it."""
    layout = variable._layout
    if layout is None and distribution is not None:
        layout = distribution.get_variable_layout(variable)
        if not variable._trainable and not any(layout.axes):
            layout = None
    if layout is None or isinstance(variable._value, DTensor) or variable._value.is_meta:
        return
    variable._layout = layout
    variable._value = torch.nn.Parameter(distribute_variable(variable._value, layout), requires_grad=variable._value.requires_grad)


def _initialize(original, self, value):
    original(self, value)
    if self._shape is None:
        self._shape = tuple(self._value.shape)
    _spread(self, keras.distribution.distribution())


def _direct_assign(original, self, value):
    own = self.value
    if isinstance(own, DTensor):
        with torch.no_grad():
            value = distribute_tensor(value, self._layout)
            own.to_local().copy_(value.to_local())
    else:
        original(self, _whole(value))


def _array(original, self, dtype=None, copy=None):
    value = core.convert_to_numpy(_whole(self.value))
    return value.astype(dtype) if dtype else value


# Calls and steps.

def _call(original, self, *args, **kwargs):
    if getattr(_state, "running", False) or keras.distribution.distribution() is None:
        return original(self, *args, **kwargs)
    _state.running = True
    try:
        with mixed():
            return original(self, *args, **kwargs)
    finally:
        _state.running = False


def _make_function(name, original, self, *args, **kwargs):
    """The function of one step, which cuts its batch and returns plain tensors."""
    before = getattr(self, name)
    original(self, *args, **kwargs)
    step = getattr(self, name)
    if step is before:
        return

    @functools.wraps(step)
    def distributed(data):
        distribution = keras.distribution.distribution()
        if distribution is None:
            return step(data)
        data = tree.map_structure(lambda x: _batch(x, distribution), data)
        running, _state.running = getattr(_state, "running", False), True
        try:
            with mixed():
                return tree.map_structure(_whole, step(data))
        finally:
            _state.running = running

    setattr(self, name, distributed)


def _batch(x, distribution):
    if x is None or isinstance(x, (str, bytes)):
        return x
    x = core.convert_to_tensor(x)
    return distribute_data_input(x, distribution.get_data_layout(tuple(x.shape)), distribution.batch_dim_name)


def _apply(original, self, grads, trainable_variables=None):
    """Gradients go to the placements of their variables: sums over the batch's axes are made here at the latest."""
    variables = self._trainable_variables if trainable_variables is None else trainable_variables
    grads = [g if g is None or getattr(v, "_layout", None) is None else distribute_tensor(g, v._layout) for g, v in zip(grads, variables)]
    return original(self, grads, trainable_variables)


# What is put in Keras' place: owner, name, function that is given what stood there.
PATCHES = (
    (core.Variable, "_initialize", _initialize), (core.Variable, "_direct_assign", _direct_assign), (core.Variable, "__array__", _array),
    (Layer, "__call__", _call), (optimizers.Optimizer, "apply", _apply),
    (trainer.TorchTrainer, "make_train_function", functools.partial(_make_function, "train_function")),
    (trainer.TorchTrainer, "make_test_function", functools.partial(_make_function, "test_function")),
    (trainer.TorchTrainer, "make_predict_function", functools.partial(_make_function, "predict_function")),
)


def install():
    """Gives the torch backend of Keras this distribution library. Raises ManifestError where torch has no DTensor, or where
    Keras has a library of its own by now."""
    library = sys.modules["keras.src.distribution.distribution_lib"]
    here = sys.modules[__name__]
    if library.distribution_lib is here:
        return
    if DTensor is None:
        raise ManifestError("torch", f"torch {torch.__version__} has no DTensor (torch.distributed.tensor)",
                            "install torch 2.5 or later, with distributed")
    if library.distribution_lib is not None:
        raise ManifestError("Keras", f"Keras {keras.__version__} distributes on torch by itself",
                            "give its ModelParallel tpplan.keras.layout_map(manifest, mesh)")
    library.distribution_lib = here
    for owner, name, replacement in PATCHES:
        setattr(owner, name, _patched(getattr(owner, name), replacement))


def _patched(original, replacement):
    @functools.wraps(original)
    def call(self, *args, **kwargs):
        return replacement(original, self, *args, **kwargs)

    return call
