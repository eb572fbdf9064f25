"""The loss: tokens, counts and gradients."""

from bug import BOTH, ONLY, Bug, language_model, language_plan

MEAN = {"reduction": "mean", "count": "global"}


def losing(loss, **more):
    """The correct plan of the language model, with this loss."""
    return lambda sp: {"tp_plan": language_plan(sp), "loss": loss, **more}


def sharded(loss):
    """Every rank has the logits of its shard of the sequence, and a local loss."""
    whole = {"style": "colwise", "input_layouts": "Shard(1)", "output_layouts": "Shard(1)"}
    return lambda sp: {"tp_plan": language_plan(sp) | {"head": whole}, "data": {"axes": ["dp"]}, "loss": loss}


def both_axes(loss):
    """Ranks along dp have different sequences, ranks along cp shards of one sequence."""
    return lambda sp: {"tp_plan": language_plan(sp), "data": {"axes": ["dp", "cp"]}, "loss": loss}


BUGS = [
    Bug("T3", "Megatron-LM#673, Megatron-LM#906", "the loss is scaled by cp twice, or not at all", "TP5117", "`cp`",
        language_model, both_axes({**MEAN, "axes": ["dp"]}), both_axes(MEAN), BOTH, ("dp", "cp", "tp")),
    Bug("T4", "TTrace, bug 4", "data parallel: the loss is divided by a rank's own count, and gradients are added up", "TP5117",
        "`dp`", language_model, losing({"reduction": "mean"}, data={"axes": ["dp"]}), losing(MEAN, data={"axes": ["dp"]}),
        BOTH, ("dp", "tp")),
    Bug("M7452-3", "Megatron-LM#7498", "a loss per token is divided by the rank's own count of tokens: 14/3 for 4", "TP5119",
        "`dp`", language_model, losing({"count": "per_rank", "gradients": "mean"}, data={"axes": ["dp"]}),
        losing({**MEAN, "gradients": "sum"}, data={"axes": ["dp"]}), BOTH, ("dp", "tp")),
    Bug("M7452-9", "Megatron-LM#7513", "the loss of a part of the sequence is divided by that part's count: half of it", "TP5117",
        "`tp`", language_model, sharded({"count": "per_rank", "axes": ["dp", "tp"]}), sharded({**MEAN, "axes": ["dp", "tp"]}), ONLY,
        ("dp", "tp")),
    Bug("tt2206", "torchtitan#2206", "mean by rank and micro batch, where batches count unlike", "TP5119", "`dp`",
        language_model, losing({"gradients": "mean", "axes": ["dp"]}, data={"axes": ["dp"]}),
        losing({**MEAN, "axes": ["dp"], "gradients": "sum"}, data={"axes": ["dp"]}), BOTH, ("dp", "tp")),
    Bug("tt3827", "torchtitan#3827", "logits are gathered, every rank computes the same loss, and the gather sums its gradient",
        "TP5118", "`tp`", language_model, losing({**MEAN, "axes": ["tp"]}), losing(MEAN)),
]  # fmt: skip
