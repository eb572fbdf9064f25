"""Expert parallelism: each rank computes the tokens routed to its local experts, and the results are all-reduced.

transformers calls its experts as forward(tokens, chosen, weights), with each token's expert indices. Here each local
choice becomes one row, as in AllToAllEP of transformers (distributed/expert_parallel.py). Every rank of a model axis
holds all tokens, so no all-to-all is needed.
"""

from .. import slices
from ..files import printable
from ..manifest import ManifestError
from ..paths import join
from .communication import SumGradient
from .placements import DTensor, Partial, Replicate, from_local, gathered


def experts_of(state, path, module):
    """Returns (first, last + 1, axes): the range of this rank's experts, and the model axes that shard them.

    Raises ManifestError if the module's parameters are sharded differently, if no axis shards them, or if
    `num_experts` differs from their number.
    """
    known = state.manifest.parameters
    paths = [join(path, name) for name, value in module._parameters.items() if value is not None]
    tensors = [known[p] for p in paths if p in known]
    cuts = {(t.shape[0], tuple(a for a in t.spec[0] if a in state.model_axes)) if t.shape else None for t in tensors}
    where = f"module `{printable(path)}`"
    if len(cuts) != 1 or None in cuts:
        raise ManifestError(
            where,
            "dispatches tokens to experts, but its parameters have different local experts",
            "write `grouped_gemm` for all of its parameters",
        )
    ((count, axes),) = cuts
    if not axes and state.model_axes and not any(axis for t in tensors for axis in t.spec[0]):
        raise ManifestError(
            where,
            "dispatches tokens to experts, but every rank has all experts",
            "write `grouped_gemm` for its parameters",
        )
    if getattr(module, "num_experts", None) != count:
        raise ManifestError(
            where,
            f"dispatches tokens to experts, but its attribute `num_experts` is not {count}, the number of "
            "experts in its parameters",
            "set `num_experts` on the module",
        )
    begin, end = slices.cut((0, count), axes, state.manifest.mesh, state.coordinate)
    return begin, end, axes


def dealt_out(state, path, module, original, names):
    """Returns the forward that computes this rank's experts only, and sets `module.num_experts` to their number.
    Returns `original` if no axis shards the experts."""
    begin, end, axes = experts_of(state, path, module)
    axes = [axis for axis in axes if state.mesh.size(state.mesh.mesh_dim_names.index(axis)) > 1]
    groups = [state.mesh.get_group(axis) for axis in axes]
    open_sum = [Partial() if axis in axes else Replicate() for axis in state.model_axes]
    if not axes:
        return original
    module.num_experts = end - begin

    def forward(*args, **kwargs):
        given = dict(zip(names, args)) | kwargs
        tokens, chosen, weights = (_plain(given.pop(name)) for name in names[:3])
        for group in groups:
            tokens, weights = (SumGradient.apply(value, group, state.names[path]) for value in (tokens, weights))
        rows = ((chosen >= begin) & (chosen < end)).nonzero(as_tuple=True)
        mine = _first(tokens[rows[:-1]], tokens), _first(chosen[rows], chosen), _first(weights[rows], weights)
        mine = mine[0], mine[1][..., None] - begin, mine[2][..., None]
        if not len(rows[0]):  # an all-zero row, so that the weights get zero gradients
            mine = [value.sum(-2, keepdim=True) for value in mine]
        out = original(*mine, **given)
        out = out.reshape(-1, out.shape[-1])[: len(rows[0])].to(tokens.dtype)
        summed = tokens.new_zeros((*tokens.shape[:-1], out.shape[-1])).index_put(rows[:-1], out, accumulate=True)
        summed = from_local(summed, state.model_mesh, open_sum, summed.shape)
        return gathered(summed, state.names[path])

    return forward


def _plain(value):
    return gathered(value) if isinstance(value, DTensor) else value


def _first(rows, like):
    """Reshapes rows to the number of dims that the module expects, with leading dims of size 1."""
    return rows.reshape(*[1] * (like.dim() - 2), *rows.shape)
