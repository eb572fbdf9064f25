"""Boundaries of Flax Linen, whose modules are recreated at every call, and whose parameters are a dict."""

from ..files import printable
from ..manifest import ManifestError, load_manifest
from .boundaries import constraints


def linen_boundaries(manifest, mesh):
    """Returns a context in which calls of Linen modules are constrained as the manifest specifies, around or inside
    jit:

        with linen_boundaries(manifest, mesh):
            model.apply(variables, x)

    The manifest's paths are those of the variables, or of their "params". Raises ManifestError for `remat`; use
    nn.remat in the model.
    """
    import flax.linen

    manifest = load_manifest(manifest)
    if manifest.remat:
        raise ManifestError(
            f"module `{printable(manifest.remat[0])}`",
            "is in `remat`, but tpplan cannot wrap a Linen module in remat",
            "use flax.linen.remat in the model, and remove `remat` from the plan",
        )
    found = {path.removeprefix("params").removeprefix("."): c for path, c in constraints(manifest, mesh).items()}

    def constrained_call(call, args, kwargs, context):
        constraint = found.get(".".join(context.module.path)) if context.method_name == "__call__" else None
        if constraint is None:
            return call(*args, **kwargs)
        args, kwargs = constraint.inputs(args, kwargs)
        return constraint.outputs(call(*args, **kwargs))

    return flax.linen.intercept_methods(constrained_call)
