"""Exports a LayoutMap of Keras as a plan file in the dialect keras."""

from .files import InputError, find_object, printable
from .write_plan import write_plan

OUTPUT = "/output"  # Keras' suffix of a layer's path for the layout of its output


def from_keras(name, mesh, kwargs, model=None):
    """Returns the plan file of `package.module:NAME`: a keras.distribution.LayoutMap or ModelParallel, or a function
    that returns one, called with `kwargs`. If the map has a DeviceMesh, it replaces `mesh`."""
    try:
        import keras
    except ImportError as error:
        raise InputError(
            f"keras cannot be imported: {printable(error)}", "pip install keras, and set KERAS_BACKEND"
        ) from None
    found = find_object(name)
    if callable(found) and not isinstance(found, keras.distribution.LayoutMap):
        try:
            found = found(**kwargs)
        except Exception as error:  # whatever the function raises
            raise InputError(
                f"`{printable(name)}` failed: {type(error).__name__}: {printable(error)}",
                "pass its arguments with --kwargs",
                1,
            ) from None
    return keras_plan(found, mesh)


def keras_plan(found, mesh):
    """Returns the plan file of a LayoutMap or ModelParallel. A layout with fewer entries than dims leaves the last
    dims unsharded, as in Keras."""
    from keras.distribution import LayoutMap, ModelParallel

    batch = found.batch_dim_name if isinstance(found, ModelParallel) else None
    found = found._layout_map if isinstance(found, ModelParallel) else found
    if not isinstance(found, LayoutMap):
        raise InputError(
            "the object is not a LayoutMap",
            "name a keras.distribution.LayoutMap or ModelParallel, or a function that returns one",
            1,
        )
    if found.device_mesh is not None:
        mesh = {str(axis): int(size) for axis, size in zip(found.device_mesh.axis_names, found.device_mesh.shape)}
    batch = batch or (next(iter(mesh)) if len(mesh) > 1 else None)
    rules = {}
    for key, layout in found.items():
        axes = [list(axis) if isinstance(axis, tuple) else axis for axis in layout.axes]
        if key.endswith(OUTPUT):
            rules[key.removesuffix(OUTPUT)] = _output_rule(key, axes, batch)
        else:
            rules[key] = {"spec": [*axes, "..."]}
    data = {"axes": [batch], "dim": 0} if len(mesh) > 1 else None
    return write_plan("keras", mesh, rules, keras_match=_match_of(LayoutMap), data=data)


def _output_rule(key, axes, batch):
    """Returns the prepare_module_output rule for the layout of a layer's output. Raises InputError if more than one
    axis besides the batch axis shards it."""
    cuts = [(dim, axis) for dim, axis in enumerate(axes) if axis is not None and not (dim == 0 and axis == batch)]
    if len(cuts) > 1 or any(isinstance(axis, list) for _, axis in cuts):
        raise InputError(
            f"`{printable(key)}`: a plan cannot express the output layout {axes}",
            "remove the key, and write its rule by hand",
            1,
        )
    layout = f"Shard({cuts[0][0]})" if cuts else "Replicate"
    return {"style": "prepare_module_output", "output_layouts": layout, "desired_output_layouts": layout} | (
        {"axis": cuts[0][1]} if cuts else {}
    )


def _match_of(layout_map):
    """Returns how this Keras matches keys: "fullmatch" (3.15), "search" (earlier) or "match" (the first versions)."""
    probe = layout_map(None)
    probe["b"] = ()
    if probe["ab"] is not None:
        return "search"
    return "match" if probe["ba"] is not None else "fullmatch"
