"""Heads of attention modules, and segments of their fused projections, by the names of the codebases that people copy."""

from ..files import printable

# Attributes that say how many heads a module has, in the order in which they are asked; from the module, then from its `config`.
ATTRIBUTE_NAMES = {
    "num_heads": (
        "num_heads",
        "num_attention_heads",
        "n_heads",
        "n_head",
        "heads",
        "nhead",
        "num_attention_heads_per_partition",  # Megatron
    ),
    "num_kv_heads": (
        "num_kv_heads",
        "num_key_value_heads",
        "n_kv_heads",
        "kv_heads",
        "num_query_groups_per_partition",
        "num_query_groups",
        "n_query_groups",
    ),
    "head_dim": (
        "head_dim",
        "attention_head_size",
        "key_value_proj_dim",
        "head_size",
        "dim_head",
        "hidden_size_per_attention_head",
        "kv_channels",
    ),
}

# Linear modules whose rows are q, k and v one after the other, each by heads.
IN_BLOCKS = ("qkv_proj", "Wqkv", "qkv", "wqkv", "c_attn", "to_qkv")
NOT_IN_BLOCKS = ("CodeGen", "GPTBigCode")  # families that interleave them under one of these names
# Modules of torchtitan around a projection that has q, k and v of a kv head together, under one of these names.
BY_HEAD_INSIDE = ("FusedQKVLinear",)
# Those that have q, k and v of a head, or of a group of heads with one k and v, together: cuts between these are right.
BY_HEAD = ("query_key_value", "linear_qkv")
QUERIES = ("q_proj", "query", "wq", "q", "to_q", "q_lin", "query_proj")


def ask(holder, name):
    """An attribute, or None where there is none, or where a configuration says that it varies between layers."""
    try:
        return getattr(holder, name, None)
    except Exception:  # transformers' configurations of unlike layers raise an error of their own
        return None


def attributes(module):
    """What a module says of its heads: a type called attention, or one with heads and projections as attentions have them."""
    named = "Attention" in type(module).__name__
    if not named and not any(name in module._modules for name in (*IN_BLOCKS, *BY_HEAD, *QUERIES)):
        return {}
    found = {}
    for key, candidates in ATTRIBUTE_NAMES.items():
        for holder in (module, getattr(module, "config", None)):
            value = next((v for v in (ask(holder, c) for c in candidates) if type(v) is int and v > 0), None)
            if value is not None:
                found[key] = value
                break
    if "num_heads" not in found:
        return {}
    if found.get("num_kv_heads") and found["num_heads"] % found["num_kv_heads"]:
        del found["num_kv_heads"]
    return found


def complete(modules):
    """Writes into the modules of a model file what sizes say and attributes do not: the size of a head, the number of kv heads,
    and the segments q|k|v of fused projections. Returns what was guessed, in words, once for modules that are alike."""
    owners, guesses = {module["path"]: module for module in modules}, {}
    for module in modules:
        parent, _, leaf = module["path"].rpartition(".")
        owner = owners.get(parent, {})
        if owner.get("type") in BY_HEAD_INSIDE:
            _add_granularity(module, owners.get(parent.rpartition(".")[0], {}).get("attributes", {}))
            continue
        heads = owner.get("attributes", {})
        is_linear = module["type"].endswith(("Linear", "Conv1D")) or module.get("kind") == "linear"
        if not is_linear or "num_heads" not in heads:
            continue
        weight = module.get("parameters", {}).get("weight")
        if weight is None or len(weight["shape"]) != 2 or leaf not in (*IN_BLOCKS, *BY_HEAD, *QUERIES):
            continue
        out, inside = weight["shape"] if module["type"] != "Conv1D" else reversed(weight["shape"])
        guessed = _guess(heads, leaf, out, inside)
        if guessed:
            heads.update(guessed)
            said = ", ".join(f"{key} {value}" for key, value in guessed.items())
            guesses.setdefault((owner["type"], leaf, said), []).append(parent)
        in_blocks = leaf in IN_BLOCKS and not owner["type"].startswith(NOT_IN_BLOCKS)
        if in_blocks and "head_dim" in heads:
            _add_segments(module, heads, out)
    return [
        f"the sizes of `{printable(paths[0])}.{leaf}` say {said}, which no attribute does"
        + (f" (and of {len(paths) - 1} modules more)" if len(paths) > 1 else "")
        for (_, leaf, said), paths in guesses.items()
    ]


def _guess(heads, leaf, out, inside):
    """The attributes that are missing, where sizes leave no doubt: a projection of queries has the rows of all heads, a fused
    one those of k and v beside them; where nothing says the size of a head, all of them are as wide as the input."""
    count, size, groups = heads["num_heads"], heads.get("head_dim"), heads.get("num_kv_heads")
    if leaf in QUERIES:
        return {"head_dim": out // count} if size is None and out % count == 0 else {}
    if size is None and groups is not None:
        size = out // (count + 2 * groups)
    elif size is None:
        size = inside // count
    if groups is None and size:
        groups = (out // size - count) // 2
    if not size or not groups or groups < 0 or count % groups or (count + 2 * groups) * size != out:
        return {}
    found = {"head_dim": size} | ({"num_kv_heads": groups} if groups != count else {})
    return {key: value for key, value in found.items() if key not in heads}


def _add_granularity(module, heads):
    count, size = heads.get("num_heads", 0), heads.get("head_dim", 0)
    groups = heads.get("num_kv_heads", count)
    rows = (count // groups + 2) * size if groups else 0
    for name, entry in module.get("parameters", {}).items():
        if name in ("weight", "bias") and rows and entry["shape"][0] == rows * groups:
            entry["granularity"] = {"out": rows}


def _add_segments(module, heads, out):
    query = heads["num_heads"] * heads["head_dim"]
    key = heads.get("num_kv_heads", heads["num_heads"]) * heads["head_dim"]
    for name, entry in module["parameters"].items():
        if name in ("weight", "bias") and out == query + 2 * key:
            entry["segments"] = {"out": [query, key, key]}
