"""Checks manifests against models and device meshes. Raises ManifestError, which names the mismatch."""

from ..files import printable
from .manifest import EXPORT_AGAIN, ManifestError


def check_mesh(manifest, axes):
    """Checks the manifest's mesh against a device mesh: its (name or None, size) pairs, major to minor. Raises
    ManifestError."""
    written = ", ".join(f"{name}={size}" for name, size in manifest.mesh)
    found = ", ".join(f"{name}={size}" for name, size in axes)
    sizes_differ = [size for _, size in axes] != [size for _, size in manifest.mesh]
    names_differ = any(name is None or name != wanted for (name, _), (wanted, _) in zip(axes, manifest.mesh))
    if sizes_differ or names_differ:
        raise ManifestError(
            "`mesh`",
            f"the manifest is for mesh [{written}], but the device mesh is [{found}]",
            "make the device mesh with the manifest's names and sizes in this order, or compile the plan with --mesh",
        )


def refuse_sent_dtypes(manifest, reason):
    """Raises ManifestError if a boundary sends its values or gradients in another dtype; `reason` is why this is not
    supported here."""
    for module in manifest.modules:
        for value in (*module.inputs, *module.outputs):
            if value.forward_dtype or value.backward_dtype:
                word = "forward_dtype" if value.forward_dtype else "backward_dtype"
                raise ManifestError(
                    f"module `{printable(module.path)}`",
                    f"has `{word}`, but {reason}",
                    "remove it from the plan, or run the model with tpplan.torch",
                )


def check_parameters(manifest, parameters, ties=()):
    """Checks the manifest against a model's parameters {path: (shape, dtype name)} and its ties, groups of paths of
    one tensor.

    Raises ManifestError, which names the parameter, if it is missing in the manifest or the model, if its shape or
    dtype differs, or if tied parameters are sharded differently. Also raises it if the number of tensors differs.
    """
    unknown = [path for path in parameters if path not in manifest.parameters]
    missing = [path for path in manifest.parameters if path not in parameters]
    for paths, what in (
        (unknown, "is in the model but not in the manifest"),
        (missing, "is in the manifest but not in the model"),
    ):
        if paths:
            more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
            raise ManifestError(f"parameter `{printable(paths[0])}`", what + more, EXPORT_AGAIN)
    for path, (shape, dtype) in parameters.items():
        tensor = manifest.parameters[path]
        if tuple(shape) != tensor.shape:
            raise ManifestError(
                f"parameter `{printable(path)}`",
                f"has shape {list(shape)} in the model, but {list(tensor.shape)} in the manifest",
                EXPORT_AGAIN,
            )
        if dtype != tensor.dtype:
            raise ManifestError(
                f"parameter `{printable(path)}`",
                f"is {dtype} in the model, but {tensor.dtype} in the manifest",
                f"build the model in {tensor.dtype}, or " + EXPORT_AGAIN,
            )
    _check_ties(manifest, ties)
    count = len(parameters) - sum(len(group) - 1 for group in ties)
    if manifest.counted != count:
        raise ManifestError(
            "`totals`",
            f"the manifest counts {manifest.counted} tensors, but the model has {count}; tied parameters count once",
            EXPORT_AGAIN,
        )


def _check_ties(manifest, ties):
    for group in ties:
        first = manifest.parameters[group[0]]
        for path in group[1:]:
            other = manifest.parameters[path]
            if (other.spec, other.segments) != (first.spec, first.segments):
                raise ManifestError(
                    f"parameter `{printable(path)}`",
                    f"is tied to `{printable(group[0])}` in the model, but the manifest shards them differently",
                    "give both parameters the same rule, or build the model with untied weights",
                )


def check_buffers(manifest, buffers):
    """Checks the manifest against a model's buffers {path: (shape, dtype name)}. Raises ManifestError."""
    for path, (shape, dtype) in buffers.items():
        where = f"buffer `{printable(path)}`"
        if path not in manifest.buffers:
            raise ManifestError(where, "is in the model but not in the manifest", EXPORT_AGAIN)
        wanted = manifest.buffers[path]
        if (tuple(shape), dtype) != (wanted.shape, wanted.dtype):
            raise ManifestError(
                where,
                f"is {list(shape)} {dtype} in the model, but {list(wanted.shape)} {wanted.dtype} in the manifest",
                EXPORT_AGAIN,
            )
    for path in manifest.buffers:
        if path not in buffers:
            raise ManifestError(f"buffer `{printable(path)}`", "is in the manifest but not in the model", EXPORT_AGAIN)
