"""Layouts of Keras as placements of torch, and their look-up by path."""

import math
import re

from keras.distribution import TensorLayout

from .. import slices
from ..torch.placements import Replicate, Shard, counted, placement


def placements_of(axes, device_mesh):
    """torch's placements of a layout's axes: for each axis of the mesh the dim that it cuts. An entry of several axes is
    cut by the first, its pieces by the second, and so on."""
    mesh = list(zip(device_mesh.axis_names, device_mesh.shape))
    return [placement(text) for text in slices.placements_of(slices.spec_of(axes), {}, mesh)]


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


def placements_for(layout, shape):
    """The placements of a value of that shape. A batch that does not divide is whole on every rank, as its inputs were."""
    texts = getattr(layout, "_tpplan_placements", None)
    if texts is None:
        return layout.backend_layout[1]
    found, ndim = [placement(text) for text, _ in texts], len(shape)
    found = counted(found, ndim, "layout of an output")
    cuts = [(i, p.dim) for i, (p, (_, is_data)) in enumerate(zip(found, texts)) if isinstance(p, Shard) and is_data]
    for i, dim in cuts:
        if shape[dim] % math.prod(layout.device_mesh.shape[j] for j, other in cuts if other == dim):
            found[i] = Replicate()
    return found


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


# What patches.py puts in Keras' place. `original` is what stood there.


def begin_distribution(original, self, device_mesh, batch_dim_name=None, auto_shard_dataset=True):
    """Every process reads the same batches, so that no data set is cut before it is read, whatever `auto_shard_dataset` says."""
    original(self, device_mesh, batch_dim_name, False)


def variable_layout(original, self, variable):
    """Keys of a LayoutMap may be in torch's writing, too."""
    found = getattr(variable, "_layout", None) or find_layout(self._layout_map, variable.path)
    return TensorLayout((None,) * len(variable.shape), self.device_mesh) if found is None else found
