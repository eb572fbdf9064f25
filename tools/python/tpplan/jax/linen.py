"""Boundaries of Flax Linen, whose modules are made anew at every call, and whose parameters are a dict."""

from ..files import printable
from ..manifest import ManifestError, load_manifest
from .boundaries import constraints


def linen_boundaries(manifest, mesh):
    """A context in which calls of Linen's modules are constrained as the manifest says: `with linen_boundaries(manifest, mesh):
    model.apply(variables, x)`, around or inside jit. The manifest's paths are those of the variables, or of their "params".
    Raises ManifestError for `remat`, for which Linen has nn.remat."""
    import flax.linen

    manifest = load_manifest(manifest)
    if manifest.remat:
        raise ManifestError(
            f"module `{printable(manifest.remat[0])}`",
            "is in `remat`, which cannot be put around a module of Linen from outside",
            "write flax.linen.remat in the model, and leave `remat` out of the plan",
        )
    found = {path.removeprefix("params").removeprefix("."): c for path, c in constraints(manifest, mesh).items()}

    def constrained_call(call, args, kwargs, context):
        constraint = found.get(".".join(context.module.path)) if context.method_name == "__call__" else None
        if constraint is None:
            return call(*args, **kwargs)
        args, kwargs = constraint.inputs(args, kwargs)
        return constraint.outputs(call(*args, **kwargs))

    return flax.linen.intercept_methods(constrained_call)
