"""Gradients that are never reduced, or reduced too often (K4)."""

import graphs as g
from bug import NEVER, ONLY, Bug, language_model, language_plan, layer

LOCAL = {"dialect": "transformers"}
NORM = {"style": "sequence_parallel", "use_local_output": True}


def planned(dialect=None, **changes):
    return lambda sp: (LOCAL if dialect else {}) | {"tp_plan": language_plan(sp, **changes)}


def given(rules, **members):
    """The same plan with and without sequence parallelism."""
    return lambda sp: {"tp_plan": rules, **members}


def in_transformers(rules):
    return given(rules, **LOCAL)


# ---- norms and routers on a shard of the sequence ----


def missing_norm(which, kept):
    """The sequence-parallel plan of the language model with rules for only the norms in `kept`."""
    return given({key: rule for key, rule in language_plan(True).items() if key != "*norm"} | dict.fromkeys(kept, NORM))


def routed_model(sp):
    """A router and an expert with the same tokens; the router's result weights the expert's."""
    m = g.new_model()
    x = g.embedding(m, "embed", g.tokens(m))
    normed = g.scale(m, "norm", x)
    gates = g.linear(m, "mlp.router", normed, 1)
    shared = g.op(m, "sigmoid", [[gates]], g.shape_of(m, gates))
    mixed = g.op(m, "mul", [[g.mlp(m, "mlp", normed)], [shared]], g.shape_of(m, x))
    return g.ends(m, g.linear(m, "head", g.scale(m, "final_norm", mixed), g.VOCABULARY))


def routed_plan(*summed):
    return given(language_plan(True) | dict.fromkeys(summed, {"style": "replicated_with_grad_allreduce"}))


def biased_model(sp):
    m = g.new_model()
    x = layer(m, "layers.0", g.embedding(m, "embed", g.tokens(m)), g.layer_norm)
    return g.ends(m, g.linear(m, "head", g.scale(m, "final_norm", x), g.VOCABULARY))


# ---- weights used per head ----


def heads_model(name, bias=False):
    """Queries whose heads each go through a norm as wide as one head."""

    def model(sp):
        m = g.new_model()
        x = g.scale(m, "input_norm", g.hidden(m))
        q = g.linear(m, "attn.q", x, g.HIDDEN)
        asked = [g.size(m, q, 0), g.size(m, q, 1), -1, 2]
        heads = g.op(m, "view", [[q], ["t", *asked]], [g.BATCH, g.SEQUENCE, g.HEADS, 2])
        heads = g.layer_norm(m, f"attn.{name}", heads) if bias else g.scale(m, f"attn.{name}", heads)
        flat = ["t", g.size(m, heads, 0), g.size(m, heads, 1), -1]
        joined = g.op(m, "reshape", [[heads], flat], [g.BATCH, g.SEQUENCE, g.HIDDEN])
        return g.ends(m, g.linear(m, "attn.o", joined, g.HIDDEN))

    return model


HEADS = {"attn.q": "colwise", "attn.o": "rowwise"}


def summed_heads(name):
    return in_transformers({**HEADS, f"attn.{name}": "replicated_with_grad_allreduce"})


# ---- inputs of column-wise weights ----


def block_model(sp):
    m = g.new_model()
    x = g.scale(m, "norm", g.hidden(m))
    return g.ends(m, g.mlp(m, "mlp", x))


def named_block(up, down):
    def model(sp):
        m = g.new_model()
        x = g.scale(m, "norm", g.hidden(m))
        y = g.relu(m, g.linear(m, up, x, g.INNER))
        return g.ends(m, g.linear(m, down, y, g.HIDDEN))

    return model


def local(up, down):
    return in_transformers({f"{up}.weight": "colwise", up: "local_params", down: "rowwise"})


def cut(up, down):
    return in_transformers({up: "colwise", down: "rowwise"})


def experts_model(sp):
    """Experts that every token goes through, with one common weight; weighted by the router's result."""
    m = g.new_model()
    x = g.scale(m, "norm", g.hidden(m))
    w = g.weight(m, "mlp.experts", "up", [g.INNER, g.HIDDEN], "Experts")
    v = g.weight(m, "mlp.experts", "down", [g.HIDDEN, g.INNER], "Experts")
    outer = g.enter(m, "mlp", x)
    inner = g.enter(m, "mlp.experts", outer)
    y = g.op(m, "linear", [[inner], [w]], [g.BATCH, g.SEQUENCE, g.INNER])
    y = g.op(m, "linear", [[g.relu(m, y)], [v]], [g.BATCH, g.SEQUENCE, g.HIDDEN])
    return g.ends(m, g.leave(m, "mlp", g.leave(m, "mlp.experts", y)))


EXPERTS = {"mlp.experts.up": "colwise", "mlp.experts.down": "rowwise"}


def chunked_model(sp):
    """The head's matmul on one chunk of the sequence after the other."""
    m = g.new_model()
    x = g.scale(m, "final_norm", g.hidden(m))
    parts = [g.relu(m, g.linear(m, "head", part, g.INNER)) for part in g.chunks(m, x, 2, 1)]
    return g.ends(m, g.linear(m, "score", g.cat(m, parts, 1), g.HIDDEN))


def region_model(sp):
    """A replicated weight in a region that computes on local shards."""
    m = g.new_model()
    x = g.linear(m, "region.up", g.scale(m, "norm", g.hidden(m)), g.INNER)
    w = g.weight(m, "region.gate", "weight", [1], "Gate")
    inner = g.enter(m, "region.gate", x)
    y = g.leave(m, "region.gate", g.op(m, "mul", [[inner], [w]], g.shape_of(m, x)))
    return g.ends(m, g.linear(m, "region.down", y, g.HIDDEN))


REGION = {"region.up": "colwise", "region.down": "rowwise"}


def gathered_model(sp):
    """A module that gathers a sequence that arrives sharded."""
    m = g.new_model()
    x = g.scale(m, "norm", g.embedding(m, "embed", g.tokens(m)))
    inner = g.enter(m, "block", x)
    y = g.linear(m, "block.up", inner, g.INNER)
    y = g.linear(m, "block.down", g.relu(m, y), g.HIDDEN)
    return g.ends(m, g.leave(m, "block", y))


GATHER = {
    "embed": {"style": "rowwise", "input_layouts": "Replicate", "output_layouts": "Shard(1)"},
    "norm": NORM,
    "block": {"style": "prepare_module_input", "input_layouts": "Shard(1)", "desired_input_layouts": "Replicate",
              "use_local_output": True},
    "block.down": "rowwise",
}  # fmt: skip


def two_axes(norm):
    """The sequence is sharded over cp, a data axis, and over tp by sequence parallelism."""
    return lambda sp: {"tp_plan": language_plan(True, rules={"*norm": norm} if norm else {}, without=() if norm else ("*norm",)),
                       "data": {"axes": ["cp"], "dim": 1}}  # fmt: skip


def frozen_model(sp):
    """A trainable norm and a frozen weight on local shards."""
    m = g.new_model()
    x = g.scale(m, "norm", g.embedding(m, "embed", g.tokens(m)))
    x = g.scale(m, "base.final_norm", g.mlp(m, "mlp", x), grad=False)
    return g.ends(m, g.linear(m, "head", g.scale(m, "adapter", x), g.VOCABULARY))


BUGS = [
    Bug("T6", "Megatron-LM#599", "the gradient of the router is never reduced over tp: replicas diverge from the first step",
        "TP5111", "mlp.router", routed_model, routed_plan(), routed_plan("mlp.router"), ONLY),
    Bug("T11", "TransformerEngine#435", "gradients of norms in sequence parallelism are partial, and the caller does not reduce them",
        "TP5111", "layers.0.norm", language_model, missing_norm("layers.0.norm", ["final_norm"]), planned(), ONLY),
    Bug("T13", "TTrace, bug 13", "gradients of norms with tp and cp: one of the axes is forgotten", "TP5111", "norm",
        language_model, two_axes(None), two_axes(NORM), ONLY, ("cp", "tp")),
    Bug("T14", "Megatron-LM#1446", "the gradient of the last norm is not reduced over tp: a pattern misses it", "TP5111",
        "final_norm", language_model, missing_norm("final_norm", ["layers.*norm"]), planned(), ONLY),
    Bug("TV-5", "TrainVerify, bug 5", "the all-reduce of an input's gradient is missing", "TP5111", "norm", block_model,
        local("mlp.up", "mlp.down"), cut("mlp.up", "mlp.down"), NEVER),
    Bug("E-B-norm", "Entangle, of ByteDance", "a norm's weight in a region of heads is not aggregated", "TP5111", "attn.k_norm",
        heads_model("k_norm"), in_transformers(HEADS), summed_heads("k_norm"), NEVER),
    Bug("E-7", "Entangle, bug 7", "a flag removes the all-reduce behind a product that is cut by the vocabulary", "TP5111", "norm",
        named_block("head", "score"), local("head", "score"), cut("head", "score"), NEVER),
    Bug("E-8", "Entangle, bug 8", "SwitchMLP: the router sees tokens of its own rank", "TP5111", "mlp.router", routed_model,
        routed_plan(), routed_plan("mlp.router"), ONLY),
    Bug("E-9", "Entangle, bug 9", "weight and bias of the norm before the MLP", "TP5111", "layers.0.norm.bias", biased_model,
        missing_norm("layers.0.norm", ["final_norm"]), planned(), ONLY),
    Bug("M7452-11", "Megatron-LM#7452", "the gradient of a norm of heads is reduced only with sequence parallelism", "TP5111",
        "attn.out_norm", heads_model("out_norm"), in_transformers(HEADS), summed_heads("out_norm"), NEVER),
    Bug("M7452-B1", "Megatron-LM#7452", "backward of a gathered sequence slices a partial gradient", "TP5111",
        "the gradient", gathered_model, given({**GATHER, "block.up.weight": {"spec": ["tp", None]}, "block.up": "local_params"}),
        given({**GATHER, "block.up": "colwise"}), ONLY),
    Bug("tt4054", "torchtitan#4054", "the gradient's layout is passed on with expert parallel only: all below the experts is short",
        "TP5111", "norm", experts_model, in_transformers({**EXPERTS, "mlp.experts": "local_params", "mlp": "all_reduce"}),
        in_transformers({**EXPERTS, "mlp.experts": "moe_tp_experts"}), NEVER),
    Bug("tt1878", "torchtitan#1878", "to_local without the gradient's placement", "TP5111", "norm", named_block("w1", "w2"),
        local("w1", "w2"), cut("w1", "w2"), NEVER),
    Bug("autoparallel515", "autoparallel#515", "weights of a local region: the gradient of each rank covers its shard only", "TP5111",
        "region.gate", region_model, in_transformers(REGION),
        in_transformers({**REGION, "region.gate": "replicated_with_grad_allreduce"}), NEVER),
    Bug("tt3412", "torchtitan#3412", "a loss in chunks treats partial gradients as complete", "TP5111", "final_norm",
        chunked_model, local("head", "score"), cut("head", "score"), NEVER),
    Bug("tt4267", "torchtitan#4267", "frozen weights are trained once they are redistributed: only the adapter's is asked for",
        "TP5111", "adapter.weight", frozen_model, given(language_plan(True) | {"base.final_norm": "replicate"}),
        given(language_plan(True) | {"base.final_norm": "replicate", "adapter": NORM}), ONLY),
]  # fmt: skip
