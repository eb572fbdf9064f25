"""Rules over the wrong one of two axes of equal size, so that shapes match (K5), and parts that a plan silently leaves
unsharded (K7, K8).
"""

import graphs as g
from bug import NEVER, ONLY, Bug, language_model, language_plan

TWO = ("cp", "tp")
NORM = {"style": "sequence_parallel", "use_local_output": True}


def changed(rules, **members):
    """The sequence-parallel plan of the language model, with some rules replaced."""
    return lambda sp: {"tp_plan": language_plan(sp) | rules, **members}


def over(rule, axis):
    return (rule if isinstance(rule, dict) else {"style": rule}) | {"axis": axis}


def attention_model(sp):
    """Attention scores from the queries of one input and the keys of another."""
    m = g.new_model()
    x, y = g.scale(m, "norm", g.hidden(m)), g.hidden(m, "y")
    q, k = g.linear(m, "q", x, g.INNER), g.linear(m, "k", y, g.INNER)
    return g.ends(m, g.linear(m, "o", g.op(m, "mul", [[q], [k]], g.shape_of(m, q)), g.HIDDEN))


def attention(axis):
    return lambda sp: {"tp_plan": {"q": "colwise", "k": over("colwise", axis), "o": "rowwise"}}


def scatter_model(sp):
    """An embedding, and a module that shards its output over the sequence."""
    m = g.new_model()
    x = g.wrapped(m, "scatter", g.embedding(m, "embed", g.tokens(m)), g.relu)
    return g.ends(m, g.linear(m, "head", g.scale(m, "norm", x), g.VOCABULARY))


def scatter(axis):
    return lambda sp: {"tp_plan": {
        "embed": {"style": "rowwise", "input_layouts": "Replicate"},
        "scatter": over({"style": "prepare_module_output", "output_layouts": "Replicate", "desired_output_layouts": "Shard(1)"}, axis),
        "norm": NORM,
        "head": {"style": "colwise", "input_layouts": "Shard(1)", "output_layouts": "Replicate"},
    }}  # fmt: skip


def gather_model(sp, name=None):
    """A module that gathers a sharded sequence, passed by position or by name."""
    m = g.new_model()
    x = g.scale(m, "norm", g.embedding(m, "embed", g.tokens(m)))
    inner = g.enter(m, "block", x, names=[name] if name else None)
    return g.ends(m, g.leave(m, "block", g.mlp(m, "block", inner)))


PIECES = {
    "embed": {"style": "rowwise", "input_layouts": "Replicate", "output_layouts": "Shard(1)"},
    "norm": NORM,
    "block.up": "colwise",
    "block.down": "rowwise",
}


def gather(axis):
    rule = {
        "style": "prepare_module_input",
        "input_layouts": "Shard(1)",
        "desired_input_layouts": "Replicate",
        "axis": axis,
    }
    return lambda sp: {"tp_plan": {**PIECES, "block": rule}}


def gather_by_name(name):
    rule = {"style": "prepare_module_input", "input_kwarg_layouts": {name: "Shard(1)"},
            "desired_input_kwarg_layouts": {name: "Replicate"}}  # fmt: skip
    return lambda sp: {"tp_plan": {**PIECES, "block": rule}}


def mask_model(sp):
    """A mask of the tokens, whose module selects the part for the experts' local tokens."""
    m = g.new_model()
    mask = g.given(m, "mask", [g.BATCH, g.SEQUENCE, 1])
    x = g.scale(m, "norm", g.embedding(m, "embed", g.tokens(m)))
    own = g.wrapped(m, "mask", mask, g.relu)
    y = g.op(m, "mul", [[x], [own]], g.shape_of(m, x))
    return g.ends(m, g.linear(m, "head", g.scale(m, "last_norm", y), g.VOCABULARY))


def mask(axis):
    rule = {
        "style": "prepare_module_output",
        "output_layouts": "Replicate",
        "desired_output_layouts": "Shard(1)",
        "axis": axis,
    }
    return lambda sp: {"tp_plan": {
        "embed": PIECES["embed"], "*norm": NORM, "mask": rule,
        "head": {"style": "colwise", "input_layouts": "Shard(1)", "output_layouts": "Replicate"}}}  # fmt: skip


def tied_model(sp):
    model = language_model(sp)
    model["tied"] = [["embed.weight", "head.weight"]]
    for leaf in model["graph"]["leaves"]:  # the tracer has one value for both names
        if model["graph"]["strings"][leaf[2]] == "head.weight":
            tied = leaf
    model["graph"]["leaves"].remove(tied)
    embed = next(leaf[0] for leaf in model["graph"]["leaves"] if model["graph"]["strings"][leaf[2]] == "embed.weight")
    for node in model["graph"]["nodes"]:
        node[1] = [[embed] if a == [tied[0]] else a for a in node[1]] if isinstance(node[1], list) else node[1]
    return model


def uneven_model(sp):
    """Five columns in shards of different sizes; without operations, as in a module tree."""
    m = g.new_model()
    y = g.linear(m, "up", g.hidden(m), 5)
    return {key: member for key, member in g.ends(m, y).items() if key != "graph"}


def uneven(rule):
    return lambda sp: {"tp_plan": {"up": rule}, "uneven": "torch", "dialect": "torch"}


BUGS = [
    Bug("M7452-4", "Megatron-LM#7452", "recomputation gathers over the default group: [0, 1, 2, 3] becomes [0, 1, 0, 1]", "TP5107",
        "", gather_model, gather("cp"), gather("tp"), ONLY, TWO),
    Bug("M7452-5", "Megatron-LM#7452", "the padding mask of experts is sharded over the default group", "TP5107", "", mask_model,
        mask("cp"), mask("tp"), ONLY, TWO),
    Bug("M7452-6", "Megatron-LM#7452", "the keys of cross-attention are sharded over the default group", "TP5107", "", attention_model,
        attention("cp"), attention("tp"), NEVER, TWO),
    Bug("M7452-7", "Megatron-LM#7452", "a sequence is scattered over the default group", "TP5107", "", scatter_model, scatter("cp"),
        scatter("tp"), ONLY, TWO),
    Bug("T5", "Megatron-LM#656", "tied embedding and head are sharded differently, and diverge", "TP5011", "", tied_model,
        lambda sp: {"tp_plan": {"embed.weight": {"spec": ["tp", None]}, "head.weight": {"spec": [None, "tp"]}}},
        lambda sp: {"tp_plan": language_plan(sp)}),
    Bug("pt172812", "pytorch#172812", "global sizes are computed from uneven shards: 6 and 4 instead of 5", "TP5017", "up", uneven_model,
        uneven("colwise"), uneven({"style": "colwise", "use_local_output": False}), NEVER),
    Bug("tt3708", "torchtitan#3708", "an argument has another name: the gather of the plan does not apply", "TP5107", "block.up", lambda sp:
        gather_model(sp, "x_BLD"), gather_by_name("x"), gather_by_name("x_BLD"), ONLY),
]  # fmt: skip
