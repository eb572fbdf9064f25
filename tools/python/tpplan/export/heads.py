"""Heads of attention modules, and segments of their fused projections, from the names used in common codebases."""

from ..files import printable

# Attributes with the head counts of a module, in order of preference; looked up in the module, then in its `config`.
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

# Words in the names of attributes with sizes.
SIZE_WORDS = ("head", "dim", "size", "group", "kv")

# Linear modules whose rows are q, k and v, one after the other, each by heads.
IN_BLOCKS = ("qkv_proj", "W_pack", "Wqkv", "qkv", "wqkv", "c_attn", "to_qkv")
NOT_IN_BLOCKS = ("CodeGen", "GPTBigCode")  # model families that interleave q, k and v under one of these names
# torchtitan modules around a projection that stores q, k and v per kv head, under one of these names.
BY_HEAD_INSIDE = ("FusedQKVLinear",)
# Modules that store q, k and v per head, or per group of heads with one k and v. They may be split between these.
BY_HEAD = ("query_key_value", "linear_qkv")
QUERIES = ("q_proj", "query", "wq", "q", "to_q", "q_lin", "query_proj")


def ask(holder, name):
    """Returns an attribute of a holder; None if it is missing, or if a transformers configuration reports that it
    varies by layer."""
    try:
        return getattr(holder, name, None)
    except Exception:  # transformers raises an error for configurations with different layers
        return None


def attributes(module):
    """Returns the head counts and sizes of an attention module; {} for other modules. A module counts as attention if
    its type name contains Attention, or if it has heads and projections with the usual names."""
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
    if type(module).__module__.startswith(("torch.", "transformers.")):
        return found  # a library's code runs on all heads, and `import --from config` records the same
    return found | _own_sizes(module, found)


def _own_sizes(module, found):
    """Returns the numbers of heads and sizes that the module's code stores, under its names: code that runs on a part
    of the heads divides some of them (`local_attributes` of a plan)."""
    return {
        name: value
        for name, value in vars(module).items()
        if type(value) is int and value > 1 and name not in found and any(word in name for word in SIZE_WORDS)
    }


def complete(modules):
    """Adds inferred facts to the modules of a model file, in place: head_dim, num_kv_heads, and the q|k|v segments of
    fused projections. Returns a message for each guess, one for modules with equal guesses."""
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
        f"the sizes of `{printable(paths[0])}.{leaf}` imply {said}, which no attribute specifies"
        + (f" (and {len(paths) - 1} more modules)" if len(paths) > 1 else "")
        for (_, leaf, said), paths in guesses.items()
    ]


def _guess(heads, leaf, out, inside):
    """Returns the missing attributes that the sizes determine.

    A query projection has the rows of all heads; a fused one has those of k and v as well. If no attribute has the
    head size, all heads together are as wide as the input.
    """
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
