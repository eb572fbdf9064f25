"""Holds manifests against models and meshes that run. Raises ManifestError, naming what does not fit."""

from ..files import printable
from .manifest import COMPILE_AGAIN, EXPORT_AGAIN, ManifestError
from .totals import counted, sum_totals


def check_mesh(manifest, axes):
    """Holds the manifest against a running mesh: its (name or None, size), major to minor. Raises ManifestError."""
    written = ", ".join(f"{name}={size}" for name, size in manifest.mesh)
    found = ", ".join(f"{name}={size}" for name, size in axes)
    sizes_differ = [size for _, size in axes] != [size for _, size in manifest.mesh]
    names_differ = any(name is None or name != wanted for (name, _), (wanted, _) in zip(axes, manifest.mesh))
    if sizes_differ or names_differ:
        raise ManifestError(
            "`mesh`",
            f"the manifest is for [{written}], the device mesh is [{found}]",
            "make the device mesh with these names and sizes, in this order, or compile the plan with --mesh",
        )


def refuse_sent_dtypes(manifest, reason):
    """Raises ManifestError where a boundary sends its values or gradients in a type of their own; `reason` says why nobody
    does that here."""
    for module in manifest.modules:
        for value in (*module.inputs, *module.outputs):
            if value.forward_dtype or value.backward_dtype:
                word = "forward_dtype" if value.forward_dtype else "backward_dtype"
                raise ManifestError(
                    f"module `{printable(module.path)}`",
                    f"has `{word}`, and {reason}",
                    "take it from the plan, or run the model by tpplan.torch",
                )


def check_parameters(manifest, parameters, ties=()):
    """Holds the manifest against a model's parameters: {path: (shape, dtype name)}, and groups of paths that name one tensor.

    Raises ManifestError, naming the parameter, when one is missing here or there, when a shape or dtype differs, when names
    of one tensor are cut differently, and when the totals are not the sums over these tensors."""
    unknown = [path for path in parameters if path not in manifest.parameters]
    missing = [path for path in manifest.parameters if path not in parameters]
    for paths, what in (
        (unknown, "is a parameter of the model that the manifest does not have"),
        (missing, "stands in the manifest, but the model has no such parameter"),
    ):
        if paths:
            more = f" ({len(paths) - 1} more like it)" if len(paths) > 1 else ""
            raise ManifestError(f"parameter `{printable(paths[0])}`", what + more, EXPORT_AGAIN)
    for path, (shape, dtype) in parameters.items():
        tensor = manifest.parameters[path]
        if tuple(shape) != tensor.shape:
            raise ManifestError(
                f"parameter `{printable(path)}`",
                f"has shape {list(shape)} in the model and {list(tensor.shape)} in the manifest",
                EXPORT_AGAIN,
            )
        if dtype != tensor.dtype:
            raise ManifestError(
                f"parameter `{printable(path)}`",
                f"is {dtype} in the model and {tensor.dtype} in the manifest",
                f"build the model in {tensor.dtype}, or " + EXPORT_AGAIN,
            )
    _check_ties(manifest, ties)
    tensors = counted(manifest, ties)
    if manifest.totals["parameters"] != len(tensors):
        raise ManifestError(
            "`totals`",
            f"the manifest counts {manifest.totals['parameters']} tensors, the model has {len(tensors)}, with names "
            "of one tensor counted once",
            EXPORT_AGAIN,
        )
    if sum_totals(manifest, tensors) != manifest.totals:
        raise ManifestError("`totals`", "are not the sums over the parameters", COMPILE_AGAIN)


def _check_ties(manifest, ties):
    for group in ties:
        first = manifest.parameters[group[0]]
        for path in group[1:]:
            other = manifest.parameters[path]
            if (other.spec, other.segments) != (first.spec, first.segments):
                raise ManifestError(
                    f"parameter `{printable(path)}`",
                    f"is the same tensor as `{printable(group[0])}` in the model, and the manifest cuts them differently",
                    "give both ends one rule, or build the model with untied weights",
                )


def check_buffers(manifest, buffers):
    """Holds the manifest against a model's buffers: {path: (shape, dtype name)}."""
    for path, (shape, dtype) in buffers.items():
        where = f"buffer `{printable(path)}`"
        if path not in manifest.buffers:
            raise ManifestError(where, "is a buffer of the model that the manifest does not have", EXPORT_AGAIN)
        wanted = manifest.buffers[path]
        if (tuple(shape), dtype) != (wanted.shape, wanted.dtype):
            raise ManifestError(
                where,
                f"is {list(shape)} {dtype} in the model, and {list(wanted.shape)} {wanted.dtype} in the manifest",
                EXPORT_AGAIN,
            )
    for path in manifest.buffers:
        if path not in buffers:
            raise ManifestError(
                f"buffer `{printable(path)}`", "stands in the manifest, but the model has no such buffer", EXPORT_AGAIN
            )
