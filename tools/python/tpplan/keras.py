"""Manifests in Keras 3: `layout_map` and `model_parallel` (JAX and torch backends), `distribute` (a built model).

Keras looks up a variable's layout by its path when the variable is created. `model_parallel(manifest, mesh)` returns
a ModelParallel with a LayoutMap of these paths. Keras' torch backend has no distribution. tpplan.keras_torch adds one
based on DTensor, with the same user code and one process per device.

Sources: Keras 3.15 (keras/src/distribution/distribution_lib.py, keras/src/backend/jax/distribution_lib.py).
"""

import difflib
import math

import keras
import numpy as np
from keras.distribution import DeviceMesh, LayoutMap, ModelParallel, TensorLayout

from . import slices
from .compiled import manifest_of
from .export.file_text import file_text
from .files import printable
from .keras_plan import OUTPUT
from .manifest import (
    ManifestError,
    check_mesh,
    check_parameters,
    device_count,
    load_manifest,
    refuse_sent_dtypes,
    shard_dim,
)


def tensor_layout(axes, mesh):
    """Returns a TensorLayout with these axes. An entry for several axes is a tuple, major to minor. Keras'
    constructor rejects tuples, although its backends support them."""
    layout = TensorLayout((None,) * len(axes), mesh)
    layout._axes = tuple(axes)
    return layout


def device_mesh(manifest, devices=None):
    """Returns the DeviceMesh of a manifest over `devices` (default: all that Keras lists; on the torch backend one
    per process). Raises ManifestError if there are too few."""
    manifest = load_manifest(manifest)
    _prepare_backend()
    if devices is None:
        devices = keras.distribution.list_devices()
    count = device_count(manifest)
    if len(devices) < count:
        raise ManifestError(
            "`mesh`",
            f"the manifest is for {count} devices, but there are {len(devices)}",
            "start more devices, or compile the plan with a smaller --mesh",
        )
    return DeviceMesh(
        tuple(size for _, size in manifest.mesh), [name for name, _ in manifest.mesh], np.array(devices)[:count]
    )


def layout_map(manifest, mesh):
    """Returns the LayoutMap of a manifest. Its keys are the paths of parameters, and `<layer>/output` for layers
    whose boundary has one output.

    On the JAX backend, an output layout that counts dims from the end is omitted, because a TensorLayout cannot
    express it; XLA chooses. The torch backend applies it as well.

    Raises ManifestError if the manifest does not fit the mesh, or if the backend does not support one of its
    shardings.
    """
    manifest = load_manifest(manifest)
    mesh = _checked_mesh(manifest, mesh)
    refuse_sent_dtypes(manifest, "a LayoutMap cannot set the dtype of collectives")
    found = LayoutMap(mesh)
    for path, tensor in manifest.parameters.items():
        found[path] = tensor_layout(_axes_of(manifest, tensor), mesh)
    for boundary in manifest.modules:
        value = boundary.outputs[0] if len(boundary.outputs) == 1 else None
        layout = (value.target or value.source) if value is not None else None
        if layout is None or any(text.startswith("Partial") for text in layout) or not boundary.path:
            continue
        axes = _output_axes(manifest, layout)
        if keras.backend.backend() == "torch":
            from .keras_torch import output_layout

            found[boundary.path + OUTPUT] = output_layout(layout, mesh, manifest.data_axes)
        elif axes is not None:
            found[boundary.path + OUTPUT] = tensor_layout(axes, mesh)
    return found


def _axes_of(manifest, tensor):
    """Returns Keras' axes of a parameter. Raises ManifestError for segments; on JAX for the same shardings as
    tpplan.jax."""
    if keras.backend.backend() == "jax":
        from .jax.arrays import partition_spec

        return tuple(partition_spec(manifest, tensor))
    if any(tensor.segments.get(dim) for dim, axes in enumerate(tensor.spec) if axes):
        raise ManifestError(
            f"parameter `{printable(tensor.path)}`",
            "is sharded per segment, which layouts of Keras cannot express",
            "store each segment in a separate layer",
        )
    return slices.entries_of(tensor.spec)


def _output_axes(manifest, layout):
    """Returns the axes of an output for a TensorLayout; None if a dim is counted from the end."""
    dims = {}
    for (axis, size), text in zip(manifest.mesh, layout):
        if text != "Replicate" and size > 1:
            dims.setdefault(shard_dim(text), []).append(axis)
    if any(dim < 0 for dim in dims):
        return None
    return slices.entries_of([dims.get(dim, ()) for dim in range(max(dims, default=-1) + 1)])


def _checked_mesh(manifest, mesh):
    mesh = _keras_mesh(mesh)
    check_mesh(manifest, _axes_of_mesh(mesh))
    return mesh


def _axes_of_mesh(mesh):
    return list(zip(mesh.axis_names, mesh.shape))


def _keras_mesh(mesh):
    """Returns Keras' DeviceMesh for one of Keras or of torch. Raises ManifestError for other values."""
    _prepare_backend()
    if keras.backend.backend() == "torch" and not isinstance(mesh, DeviceMesh):
        from .keras_torch import keras_mesh

        mesh = keras_mesh(mesh)
    if not isinstance(mesh, DeviceMesh):
        raise ManifestError(
            "`mesh`",
            f"{type(mesh).__name__} is not a DeviceMesh of Keras",
            "make one with tpplan.keras.device_mesh(manifest)",
        )
    return mesh


def _prepare_backend():
    backend = keras.backend.backend()
    if backend == "torch":
        from .keras_torch import install

        install()
    elif backend != "jax":
        raise ManifestError(
            "Keras", f"the {backend} backend does not support model parallelism", "set KERAS_BACKEND to jax or torch"
        )


def _unknown_variable(path, known):
    """Returns the error for a trainable variable that the manifest lacks. Keras would silently replicate it.
    Generated names are numbered per process, so a second model of one process has different paths."""
    near = difflib.get_close_matches(path, known, 3, 0.5) or known[:3]
    return ManifestError(
        f"variable `{printable(path)}`",
        f"is not in the manifest, which has {', '.join(f'`{printable(p)}`' for p in near)}",
        "name the model and its layers, call keras.utils.clear_session() before you create it, or "
        "pass the built model to tpplan.keras.distribute",
    )


class ManifestParallel(ModelParallel):
    """A ModelParallel that shards the batch over the manifest's data axes: none, one or several."""

    def __init__(self, manifest, mesh):
        manifest = load_manifest(manifest)
        super().__init__(
            layout_map=layout_map(manifest, mesh),
            auto_shard_dataset=False,
            batch_dim_name=manifest.data_axes[0] if manifest.data_axes else None,
        )
        self.manifest = manifest

    @property
    def num_model_replicas(self):
        sizes = dict(self.manifest.mesh) if hasattr(self, "manifest") else {}
        return math.prod(sizes[axis] for axis in self.manifest.data_axes) if sizes else 1

    def get_variable_layout(self, variable):
        found = getattr(variable, "_layout", None)
        if found is None:
            found = self._layout_map._layout_map.get(variable.path)
        if found is None and variable._trainable:
            raise _unknown_variable(variable.path, list(self.manifest.parameters) if hasattr(self, "manifest") else [])
        return tensor_layout((None,) * len(variable.shape), self.device_mesh) if found is None else found

    def get_tensor_layout(self, path):
        """Returns the layout for a layer's path, or None. Retries without leading names: at run time the path begins
        with the enclosing models, which variable paths may lack."""
        while path:
            if path in self._layout_map._layout_map:
                return self._layout_map._layout_map[path]
            path = path.partition("/")[2]
        return None

    def get_data_layout(self, data_shape):
        axes = [None] * len(data_shape)
        if self.manifest.data_axes and len(axes) > self.manifest.data_dim:
            axes[self.manifest.data_dim] = slices.entries_of([self.manifest.data_axes])[0]
        return tensor_layout(axes, self.device_mesh)


def model_parallel(manifest, mesh=None):
    """Returns the distribution of a manifest, for keras.distribution.set_distribution or as `with
    model_parallel(...).scope()`. Models created under it have sharded variables. `fit` shards the batch over the
    manifest's data axes."""
    manifest = load_manifest(manifest)
    return ManifestParallel(manifest, mesh if mesh is not None else device_mesh(manifest))


def check_model(model, manifest):
    """Raises ManifestError if a built model and a manifest differ in parameters, shapes or dtypes."""
    from .export.keras_model import model_graph
    from .files import InputError

    manifest = load_manifest(manifest)
    try:
        graph = model_graph(model)
    except InputError as error:
        raise ManifestError("model", str(error), error.remedy) from None
    check_parameters(
        manifest,
        {
            "/".join(filter(None, (module["path"], name))): (tuple(p["shape"]), p["dtype"])
            for module in graph["modules"]
            for name, p in module.get("parameters", {}).items()
        },
    )


def _said_by_first(make, mesh):
    """Calls make() in the first process and returns its result in all processes of the mesh (default: all processes)."""
    _prepare_backend()
    if keras.backend.backend() == "jax":
        from .jax.processes import said_by_first_process

        return said_by_first_process(make)
    from .keras_torch import all_processes
    from .torch.communication import said_by_first_rank

    return said_by_first_rank(make, all_processes() if mesh is None else mesh.backend_mesh)


def _read_values(weights, manifest, mesh):
    """Returns {path: value} of the variables in a checkpoint: sharded arrays on JAX, this rank's local shards on
    torch. Every process must call it."""
    if keras.backend.backend() == "jax":
        from .jax.weights import load

        return load(manifest, weights, mesh.backend_mesh)
    from .keras_torch import read_pieces

    return read_pieces(weights, manifest, mesh)


def distribute(model, plan, mesh=None, *, manifest=None, weights=None):
    """Shards the variables of a built Keras model in place, as the plan specifies, and returns the model.

    `plan` is a path, a text or a dict of a plan or of a manifest. The first process compiles a plan for this model
    and mesh. `manifest` is the path to which the compiled manifest is written. The axes of a plan must be the axes of
    the mesh, which provides their sizes; a plan without a mesh uses this one. `mesh` is a DeviceMesh of Keras, or of
    torch on the torch backend (default: the plan's mesh over all devices).

    On the torch backend the model's variables and their optimizer variables become DTensors, and stay sharded when
    assigned. On the JAX backend they are placed with their new sharding.

    `weights` is a checkpoint as tpplan.load takes it. It must have the model's trainable variables under their paths,
    such as `encoder/dense/kernel`, or as a tpplan.Checkpoint renames them. It may lack non-trainable ones. Each
    process reads its shards. `fit`, `evaluate`, `predict` and calls work as before.

    The distribution becomes the current one. Raises PlanError, with the diagnostics, in every process if the plan is
    wrong. Raises ManifestError or LoadError, before any change, if the model or the weights do not fit.
    """
    from .export.keras_model import model_graph

    mesh = mesh if mesh is None else _keras_mesh(mesh)
    axes = None if mesh is None else _axes_of_mesh(mesh)
    manifest = manifest_of(
        plan, lambda: file_text(model_graph(model)), axes, manifest, said=lambda make: _said_by_first(make, mesh)
    )
    check_model(model, manifest)
    distribution = model_parallel(manifest, mesh)
    is_torch = keras.backend.backend() == "torch"
    if not is_torch and getattr(model, "optimizer", None) is not None and model.optimizer.built:
        raise ManifestError(
            "model", "its optimizer already has variables", "distribute the model before training, and compile it again"
        )
    values = {} if weights is None else _read_values(weights, manifest, distribution.device_mesh)
    if is_torch:
        from .keras_torch import fill_variables, spread_variables

        spread_variables(model, distribution)
        fill_variables(model, values)
    else:
        for variable in model.variables:
            variable._layout = distribution.get_variable_layout(variable)
            variable.assign(values.get(variable.path, variable.value))
    keras.distribution.set_distribution(distribution)
    return model
