"""Values whose actual layout differs from the assumed one: pending partial sums, shards, local indices (K1 to K3)."""

import graphs as g
from bug import NEVER, ONLY, Bug, language_plan

LOCAL = {"dialect": "transformers"}


def given(rules, **members):
    return lambda sp: {"tp_plan": rules, **members}


def in_transformers(rules):
    return given(rules, **LOCAL)


def block(between=None, bias=False, up="mlp.up", down="mlp.down"):
    """A residual block: norm, then up, `between` and down in one module, added to the input."""

    def model(sp):
        m = g.new_model()
        x = g.hidden(m)
        normed = g.scale(m, "norm", x)

        def body(m, inner):
            y = g.linear(m, up, inner, g.INNER)
            y = (between or g.relu)(m, y)
            return g.linear(m, down, y, g.HIDDEN, bias=bias)

        return g.ends(m, g.add(m, x, g.wrapped(m, "mlp", normed, body)))

    return model


CUT = {"mlp.up": "colwise", "mlp.down": "rowwise"}
GATHERED = {"mlp.up": "colwise_gather_output", "mlp.down": "rowwise_split_input"}
OPEN = {"mlp.up": "colwise", "mlp.down.weight": "rowwise", "mlp.down": "local_params"}


def centred(m, y):
    """Subtracts the mean of all elements."""
    return g.op(m, "sub", [[y], [g.mean(m, y)]], g.shape_of(m, y))


def scaled(m, y):
    """Divides by the mean of the squares, as a norm does."""
    squares = g.op(m, "mul", [[y], [y]], g.shape_of(m, y))
    return g.op(m, "div", [[y], [g.mean(m, squares)]], g.shape_of(m, y))


def halves(m, y):
    a, b = g.chunks(m, y, 2)
    return g.cat(m, [g.op(m, "mul", [[a], [b]], g.shape_of(m, a))] * 2, -1)


def sliced(m, y):
    """Slices the first and the second half by global indices, and concatenates them again."""
    half = g.shape_of(m, y)[-1] // 2
    shape = [*g.shape_of(m, y)[:-1], half]
    parts = [
        g.op(m, "__getitem__", [[y], ["t", ["x"], ["s", begin, begin + half, None]]], shape) for begin in (0, half)
    ]
    return g.cat(m, parts, -1)


def packed(m, y):
    """Splits a fused result into q, k, v and z, b, a."""
    parts = g.chunks(m, y, 4)
    q, k, v = parts[:3]
    mixed = g.op(m, "mul", [[q], [k]], g.shape_of(m, q))
    return g.cat(m, [mixed, v, q, *parts[3:]], -1)


def auxiliary_model(sp):
    """An auxiliary loss of the router, in addition to the experts' output."""
    m = g.new_model()
    x = g.scale(m, "norm", g.hidden(m))

    def body(m, inner):
        aux = g.mean(m, inner)
        y = g.linear(m, "mlp.down", g.relu(m, g.linear(m, "mlp.up", inner, g.INNER)), g.HIDDEN)
        return g.add(m, y, aux)

    return g.ends(m, g.wrapped(m, "mlp", x, body))


def positions(own):
    """Positions that a module computes for its local tokens, from 0 (`own`), or that the model passes to it."""

    def model(sp):
        m = g.new_model()
        x = g.embedding(m, "embed", g.tokens(m))
        inner = g.enter(m, "rope", x)
        count = g.size(m, inner, 1) if own else g.SEQUENCE
        p = g.op(m, "arange", [count], [g.SEQUENCE], "int64", False)
        angles = g.op(m, "unsqueeze", [[p], -1], [g.SEQUENCE, 1], "int64", False)
        turned = g.leave(m, "rope", g.op(m, "mul", [[inner], [angles]], g.shape_of(m, x)))
        return g.ends(m, g.linear(m, "head", g.scale(m, "norm", turned), g.VOCABULARY))

    return model


PIECES = {
    "embed": {"style": "rowwise", "input_layouts": "Replicate", "output_layouts": "Shard(1)"},
    "norm": {"style": "sequence_parallel", "use_local_output": True},
    "head": {"style": "colwise", "input_layouts": "Shard(1)", "output_layouts": "Replicate"},
}
AROUND_ROPE = {
    "rope": {"style": "prepare_module_input_output", "input_layouts": "Shard(1)", "desired_input_layouts": "Replicate",
             "use_local_input": True, "output_layouts": "Replicate", "desired_output_layouts": "Shard(1)"}
}  # fmt: skip


def expert_pieces(sp):
    """A rank's tokens of the sequence, and its columns of the experts' weight."""
    m = g.new_model()
    x = g.scale(m, "norm", g.embedding(m, "embed", g.tokens(m)))
    y = g.relu(m, g.linear(m, "experts.up", x, g.INNER))
    return g.ends(m, g.linear(m, "experts.down", y, g.HIDDEN))


EXPERTS = {**PIECES, "experts.down": {"style": "rowwise", "output_layouts": "Replicate"}}
EXPERTS.pop("head")


def smoothed_model(sp):
    """Logits minus their mean over the vocabulary, as in label smoothing."""
    m = g.new_model()
    y = g.linear(m, "head", g.scale(m, "norm", g.hidden(m)), g.VOCABULARY)
    return g.ends(m, g.mean(m, y))


def whole_model(sp):
    """Logits that a separate module returns."""
    m = g.new_model()
    x = g.scale(m, "norm", g.hidden(m))
    return g.ends(m, g.wrapped(m, "whole", g.linear(m, "head", x, g.VOCABULARY), g.relu))


def whole_takes(layout):
    rule = {"style": "prepare_module_output", "output_layouts": layout, "desired_output_layouts": "Replicate"}
    return given({"head": "colwise", "whole": rule})


def loss_model(sp):
    """A module that computes a per-token loss from logits."""
    m = g.new_model()
    y = g.linear(m, "head", g.scale(m, "norm", g.hidden(m)), g.VOCABULARY)

    def body(m, inner):
        return g.mean(m, g.op(m, "log_softmax", [[inner], -1], g.shape_of(m, inner)))

    return g.ends(m, g.wrapped(m, "loss", y, body))


def loss_takes(layout, head="Replicate"):
    return given({"head": {"style": "colwise", "output_layouts": head},
                  "loss": {"style": "prepare_module_input", "input_layouts": layout, "desired_input_layouts": "Replicate",
                           "use_local_output": True}})  # fmt: skip


def adapter_model(sp):
    """An adapter branch parallel to the matmul that it adapts."""
    m = g.new_model()
    x = g.scale(m, "norm", g.hidden(m))

    def body(m, inner):
        base = g.linear(m, "mlp.down", g.relu(m, g.linear(m, "mlp.up", inner, g.INNER)), g.HIDDEN)
        return g.add(m, base, g.linear(m, "mlp.lora", inner, g.HIDDEN))

    return g.ends(m, g.wrapped(m, "mlp", x, body))


def balance_model(sp):
    """A router's bias that is updated in place from the token counts."""
    m = g.new_model()
    x = g.scale(m, "norm", g.embedding(m, "embed", g.tokens(m)))
    gates = g.linear(m, "router", x, 12)
    load = g.op(m, "sum", [[gates], ["t", 0, 1]], [12])
    bias = g.buffer(m, "router", "bias", [12])
    moved = g.op(m, "sign", [[load]], [12])
    new = g.op(m, "add_", [[bias], [moved]], [12])
    out = g.op(m, "add", [[gates], [new]], g.shape_of(m, gates))
    return g.ends(m, g.linear(m, "head", g.mlp(m, "mlp", g.scale(m, "last_norm", x)), g.VOCABULARY), out)


BUGS = [
    Bug("TV-1", "TrainVerify, bug 1", "the all-reduce behind a row-wise product is missing: 2 = -1 + -1", "TP5109", "the model",
        block(), in_transformers(OPEN), in_transformers(CUT), NEVER),
    Bug("TV-3", "TrainVerify, bug 3", "all-gather in the place of an all-reduce", "TP5102", "",
        block(), given({"mlp.up": "colwise", "mlp.down": {"style": "rowwise", "output_layouts": "Shard(-1)"}}), given(CUT), NEVER),
    Bug("TV-4", "TrainVerify, bug 4", "all-reduce in the place of an all-gather", "TP5107", "whole", whole_model,
        whole_takes("Partial"),
        whole_takes("Shard(-1)"), NEVER),
    Bug("TV-12", "TrainVerify, bug 12", "division by another number: a mean over a piece", "TP5113", "mlp", block(centred),
        in_transformers(CUT), in_transformers(GATHERED), NEVER),
    Bug("TV-13", "TrainVerify, bug 13", "division by another number on all ranks: the mean square of a piece", "TP5113", "mlp",
        block(scaled),
        in_transformers(CUT), in_transformers(GATHERED), NEVER),
    Bug("E-B-aux", "Entangle, of ByteDance", "an auxiliary loss is not divided under tp: T times too large", "TP5109", "mlp",
        auxiliary_model, in_transformers({**OPEN, "mlp": "all_reduce"}), in_transformers(CUT), NEVER),
    Bug("E-B-moe", "Entangle, of ByteDance", "experts stay cut after a switch to sequence parallel: diagonal blocks of the product",
        "TP5107", "experts", expert_pieces, given({**EXPERTS, "experts.up.weight": {"spec": ["tp", None]}, "experts.up": "local_params"}),
        given({**EXPERTS, "experts.up": {"style": "colwise", "input_layouts": "Shard(1)"}}), ONLY),
    Bug("E-B-rope", "Entangle, of ByteDance", "positions of a piece of the sequence start at 0 on every rank", "TP5113", "rope",
        positions(True), given(PIECES), given({**PIECES, **AROUND_ROPE}), ONLY),
    Bug("E-B-pad", "Entangle, of ByteDance", "pieces are sliced by numbers of the whole", "TP5107", "mlp", block(sliced),
        in_transformers({**CUT, "mlp.up": "colwise"}), in_transformers(GATHERED), NEVER),
    Bug("M7452-1", "Megatron-LM#737, Megatron-LM#7466", "label smoothing averages over the local shard of the vocabulary", "TP5113",
        "the model", smoothed_model, given({"head": "colwise"}), given({"head": {"style": "colwise", "output_layouts": "Replicate"}}),
        NEVER),
    Bug("M7452-2", "Megatron-LM#7452", "gathered logits are the input of a loss for shards of the vocabulary", "TP5107", "loss", loss_model,
        loss_takes("Shard(-1)"), loss_takes("Replicate"), NEVER),
    Bug("tt4245", "torchtitan#4245", "a replicated bias is added before the all_reduce: tp times", "TP5109", "mlp.down", block(bias=True),
        in_transformers({**OPEN, "mlp": "all_reduce"}), in_transformers(CUT), NEVER),
    Bug("tt4154", "torchtitan#4154", "the routing bias, a buffer, follows the load of one rank", "TP5108", "", balance_model,
        given({**language_plan(True), "router": "replicated_with_grad_allreduce"}),
        given({"mlp.up": "colwise", "mlp.down": "rowwise"}), NEVER),
    Bug("MB5634", "Megatron-Bridge#5634", "the output of an adapter is replicated, but the output of its base is partial", "TP5109", "mlp",
        adapter_model, in_transformers({**OPEN, "mlp": "all_reduce"}), in_transformers(CUT), NEVER),
    Bug("M1989", "Megatron-LM#1989", "packed [Q|K|V|Z|b|a] is sharded as one segment", "TP5107", "mlp", block(packed),
        in_transformers(CUT), in_transformers(GATHERED), NEVER),
    Bug("M520", "Megatron-LM#520", "a fused gate and up is sharded as one segment: rows are mixed", "TP5107", "mlp", block(halves),
        in_transformers(CUT), in_transformers(GATHERED), NEVER),
]  # fmt: skip
