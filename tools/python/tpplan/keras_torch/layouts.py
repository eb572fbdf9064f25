"""Keras' layouts as torch placements, and their look-up by path."""

import math
import re

from keras.distribution import TensorLayout

from .. import slices
from ..torch.placements import Replicate, Shard, counted, placement


def placements_of(axes, device_mesh):
    """Returns torch's placements of a layout's axes. If an entry has several axes, the first shards the dim, the
    second those shards, and so on."""
    mesh = list(zip(device_mesh.axis_names, device_mesh.shape))
    return [placement(text) for text in slices.placements_of(slices.spec_of(axes), {}, mesh)]


def _to_backend_layout(layout):
    """Returns (torch's DeviceMesh, placements) of a TensorLayout."""
    if layout.device_mesh is None:
        raise ValueError("Cannot create sharding when device mesh is not set for TensorLayout.")
    return layout.device_mesh.backend_mesh, placements_of(layout.axes, layout.device_mesh)


def output_layout(texts, device_mesh, data_axes):
    """Returns a TensorLayout for a layer's output, from a manifest's placement texts, whose dims may be negative."""
    layout = TensorLayout((), device_mesh)
    layout._tpplan_placements = [*zip(texts, [axis in data_axes for axis in device_mesh.axis_names])]
    return layout


def placements_for(layout, shape):
    """Returns the placements of a value with this shape. A batch that its axes do not divide is replicated, as its
    inputs are."""
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
    """Returns a Keras path (`dense/kernel`) with torch's separators (`dense.kernel`). Leaf names are unchanged: a
    `kernel` is (in, out), a `weight` (out, in)."""
    return path.replace("/", ".")


def find_layout(layout_map, path, match=re.fullmatch):
    """Returns the layout of a path in a LayoutMap whose keys are Keras or torch paths; None if no key matches.

    The first of these keys applies, as in tpplan's dialect keras: the path, its torch form, or the key that matches
    either as a regular expression. Raises ValueError if several keys match, as Keras does.
    """
    for form in (path, torch_path(path)):
        if form in list(layout_map):  # `in` of a LayoutMap would match regular expressions
            return layout_map[form]
    found = [key for key in layout_map if match(key, path) or match(torch_path(key), torch_path(path))]
    if len(found) > 1:
        raise ValueError(f"Path '{path}' matches multiple layout specification keys: {found}.")
    return layout_map[found[0]] if found else None


# Patches of Keras methods, see patches.py. `original` is the replaced method.


def begin_distribution(original, self, device_mesh, batch_dim_name=None, auto_shard_dataset=True):
    """Disables `auto_shard_dataset`, because every process reads the same batches, which are sharded afterwards."""
    original(self, device_mesh, batch_dim_name, False)


def variable_layout(original, self, variable):
    """Returns a variable's layout; keys of the LayoutMap may also be torch paths."""
    found = getattr(variable, "_layout", None) or find_layout(self._layout_map, variable.path)
    return TensorLayout((None,) * len(variable.shape), self.device_mesh) if found is None else found
