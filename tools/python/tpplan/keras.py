"""Manifests in Keras 3: `layout_map` and `model_parallel` (the JAX backend, and the torch backend), `distribute` (torch).

Keras looks up the layout of a variable by its path, when the variable is made; `model_parallel(manifest, mesh)` is its
ModelParallel with a map of these paths. The torch backend of Keras has no distribution of its own: tpplan.keras_torch gives
it one, of DTensors, with the same user's code, one process a device.

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
    """A TensorLayout of these axes; one dim over several axes is a tuple, major to minor, which Keras' own constructor
    refuses for the names that it does not find, although what it makes of layouts takes tuples."""
    layout = TensorLayout((None,) * len(axes), mesh)
    layout._axes = tuple(axes)
    return layout


def device_mesh(manifest, devices=None):
    """The DeviceMesh of a manifest over `devices` (default: all that Keras lists; on the torch backend one a process)."""
    manifest = load_manifest(manifest)
    _prepare_backend()
    if devices is None:
        devices = keras.distribution.list_devices()
    count = device_count(manifest)
    if len(devices) < count:
        raise ManifestError(
            "`mesh`",
            f"the manifest is for {count} devices, there are {len(devices)}",
            "start more, or compile the plan with --mesh",
        )
    return DeviceMesh(
        tuple(size for _, size in manifest.mesh), [name for name, _ in manifest.mesh], np.array(devices)[:count]
    )


def layout_map(manifest, mesh):
    """The LayoutMap of a manifest: each parameter by its path, and the outputs of layers with a boundary by
    `<layer>/output`. Outputs whose dim is counted from the end are left to XLA on the JAX backend, where a layout cannot
    say it; on the torch backend they are constrained, too.

    Raises ManifestError where the manifest does not fit the mesh, or is cut as the backend cannot."""
    manifest = load_manifest(manifest)
    mesh = _checked_mesh(manifest, mesh)
    refuse_sent_dtypes(manifest, "a LayoutMap has no word for the type in which values are sent")
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
    """Keras' axes of a parameter. On JAX the same shardings are refused as in tpplan.jax."""
    if keras.backend.backend() == "jax":
        from .jax.arrays import partition_spec

        return tuple(partition_spec(manifest, tensor))
    if any(tensor.segments.get(dim) for dim, axes in enumerate(tensor.spec) if axes):
        raise ManifestError(
            f"parameter `{printable(tensor.path)}`",
            "is cut by segments, which layouts of Keras cannot say",
            "keep the parts in layers of their own",
        )
    return slices.entries_of(tensor.spec)


def _output_axes(manifest, layout):
    """The axes of an output for a TensorLayout, as far as dims are counted from the front; None where they are not."""
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
    """Keras' DeviceMesh of one of its own or of torch's; others are refused."""
    _prepare_backend()
    if keras.backend.backend() == "torch" and not isinstance(mesh, DeviceMesh):
        from .keras_torch import keras_mesh

        mesh = keras_mesh(mesh)
    if not isinstance(mesh, DeviceMesh):
        raise ManifestError(
            "`mesh`",
            f"{type(mesh).__name__} is no DeviceMesh of Keras",
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
            "Keras", f"the {backend} backend has no model parallelism", "set KERAS_BACKEND to jax or torch"
        )


def _unknown_variable(path, known):
    """The error for a trainable variable that a manifest says nothing of: it would be whole on every rank, without a word. Names that
    Keras makes up count on, so that a second model of one process has others than the first."""
    near = difflib.get_close_matches(path, known, 3, 0.5) or known[:3]
    return ManifestError(
        f"variable `{printable(path)}`",
        f"is not in the manifest, which has {', '.join(f'`{printable(p)}`' for p in near)}",
        "name the model and its layers, or call keras.utils.clear_session() before it is made; or give the model, built, to"
        " tpplan.keras.distribute",
    )


class ManifestParallel(ModelParallel):
    """ModelParallel whose batch is cut as the manifest's `data` says: over any number of axes, or over none."""

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
        """Paths of layers at run time begin with the names of the models around them, which paths of variables may lack."""
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
    """The distribution of a manifest, for keras.distribution.set_distribution or `with ....scope()`: models that are made
    inside have sharded variables, and `fit` cuts the batch over the manifest's data axes."""
    manifest = load_manifest(manifest)
    return ManifestParallel(manifest, mesh if mesh is not None else device_mesh(manifest))


def check_model(model, manifest):
    """Holds a manifest against a built model, both ways. Raises ManifestError."""
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
    """What make() returns in the first process, in all that the mesh has, or, without a mesh, in all that there are."""
    _prepare_backend()
    if keras.backend.backend() == "jax":
        from .jax.processes import said_by_first_process

        return said_by_first_process(make)
    from .keras_torch import all_processes
    from .torch.communication import said_by_first_rank

    return said_by_first_rank(make, all_processes() if mesh is None else mesh.backend_mesh)


def _read_values(weights, manifest, mesh):
    """{path: value} of what a checkpoint has: on JAX arrays that are placed, on torch this rank's pieces. Every process calls it."""
    if keras.backend.backend() == "jax":
        from .jax.weights import load

        return load(manifest, weights, mesh.backend_mesh)
    from .keras_torch import read_pieces

    return read_pieces(weights, manifest, mesh)


def distribute(model, plan, mesh=None, *, manifest=None, weights=None):
    """Spreads a built Keras model in place, as the plan says; returns the model. `plan` is a plan (path, text or dict), which
    the first process compiles for this model and mesh, or a manifest; `manifest` is a path where the compiled one is kept. A
    plan's own axes must be this mesh's, which says their sizes; a plan without a mesh takes it. `mesh` is a
    DeviceMesh of Keras, or on the torch backend of torch; without one it is the plan's, over all devices.

    On the torch backend the model's variables, and those that an optimizer makes or has made for them, become DTensors, and stay
    sharded at every assignment. On the JAX backend they are placed anew. `weights` is a checkpoint (what tpplan.load takes) that has
    the model's trainable variables under their paths, `encoder/dense/kernel`, or as a tpplan.Checkpoint renames what it has; of
    those that are not trained it may lack some. Each process reads its pieces. `fit`, `evaluate`, `predict` and calls then work as before.

    The distribution becomes the current one. Raises PlanError, with the program's findings, for a plan that is wrong, in every
    process, and ManifestError and LoadError, before anything is touched, for a model or weights that do not fit."""
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
            "model",
            "its optimizer has variables already",
            "distribute the model before it is trained, and compile it anew",
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
