"""Embeddings that are sharded over the vocabulary: each rank looks up its local rows, and the result is partial over
the sharding axes. Axes that do not shard the weight may shard the tokens.

DTensor uses a MaskPartial placement, which caches the mask of a call until the reduction. Compiled and eager code
share that cache, and torch.compile cannot trace it.
"""

from torch.nn import functional as F

from .placements import DTensor, Partial, Shard, _StridedShard, from_local


def is_cut_lookup(function, args, kwargs):
    """Returns True for an F.embedding call with a vocabulary-sharded weight and options that `look_up` supports."""
    if function is not F.embedding:
        return False
    tokens, table = _operands(args, kwargs)
    if not isinstance(tokens, DTensor) or not isinstance(table, DTensor):
        return False
    options = dict(zip(("max_norm", "norm_type", "scale_grad_by_freq", "sparse"), args[3:])) | kwargs
    if options.get("max_norm") is not None or options.get("scale_grad_by_freq") or options.get("sparse"):
        return False
    known = all(p.is_replicate() or _is_plain_cut(p) for p in (*table.placements, *tokens.placements))
    alone = all(p.is_replicate() or q.is_replicate() for p, q in zip(table.placements, tokens.placements))
    return known and alone and any(map(_cuts_rows, table.placements))


def look_up(args, kwargs):
    """Returns the embedding of the tokens as a DTensor that is Partial over the axes that shard the vocabulary.

    Each rank looks up the tokens in its row range and returns zeros for the others, so the sum over ranks is exact.
    The weight's gradient is Partial over the axes that shard the tokens.
    """
    tokens, table = _operands(args, kwargs)
    padding = args[2] if len(args) > 2 else kwargs.get("padding_idx")
    mesh, cuts = table.device_mesh, [axis for axis, p in enumerate(table.placements) if _cuts_rows(p)]
    begin, end = 0, table.shape[0]
    for axis in cuts:
        size, offset = Shard.local_shard_size_and_offset(end - begin, mesh.size(axis), mesh.get_local_rank(axis))
        begin, end = begin + offset, begin + offset + size
    open_sums = [p if q.is_replicate() else Partial() for p, q in zip(table.placements, tokens.placements)]
    whole, rows = tokens.to_local(), table.to_local(grad_placements=open_sums)
    elsewhere = (whole < begin) | (whole >= end)
    if padding is not None:
        padding += table.shape[0] if padding < 0 else 0
        padding = padding - begin if begin <= padding < end else None
    if end > begin:
        found = F.embedding((whole - begin).masked_fill(elsewhere, 0), rows, padding)
    else:  # an uneven shard may be empty
        found = rows.new_zeros((*whole.shape, rows.shape[1])) + rows.sum()
    found = found.masked_fill(elsewhere[..., None], 0)
    placements = [
        Partial() if _cuts_rows(p) else q if p.is_replicate() else Shard(whole.ndim)
        for p, q in zip(table.placements, tokens.placements)
    ]
    return from_local(found, mesh, placements, (*tokens.shape, table.shape[1]))


def _operands(args, kwargs):
    return args[0] if args else kwargs.get("input"), args[1] if len(args) > 1 else kwargs.get("weight")


def _is_plain_cut(placement):
    return placement.is_shard() and not isinstance(placement, _StridedShard)


def _cuts_rows(placement):
    return placement.is_shard(0)
