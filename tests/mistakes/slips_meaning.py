"""Plans that are read, and cannot be right for the model."""

from mistakes import AXIS, DATA, DOWN, GATE, HEAD, K, MESH, Mistake, O, Q, UP, V, rule

MEANING = [
    Mistake("tp of 3", {MESH: "mesh: {dp: 2, tp: 3}"}, MESH, "3", r"\b2\b.*\b4\b"),
    Mistake("tp of 8 with 4 kv heads", {MESH: "mesh: {dp: 2, tp: 8}"}, 0, "4 .*heads|kv|key", r"\b4\b"),
    Mistake("tp of 5 on the command line", {}, 0, "5", r"\b2\b.*\b4\b", mesh="tp=5"),
    Mistake("tp of 64", {MESH: "mesh: {dp: 2, tp: 64}"}, 0, "64", r"\b4\b"),
    Mistake("data over the axis of the styles", {DATA: "data: {axes: [tp], dim: 0}"}, DATA, "`tp`", "another|dp|axis"),
    Mistake("data over both axes", {DATA: "data: {axes: [dp, tp], dim: 0}"}, DATA, "`tp`", "another|dp|axis"),
    Mistake("data as a list", {DATA: "data: [dp]"}, DATA, "`data` is a list", r"data: \{axes: \[dp\]\}"),
    Mistake("data as a word", {DATA: "data: dp"}, DATA, "`dp`, not a mapping", r"data: \{axes: \[dp\]\}"),
    Mistake("axis is the data axis", {AXIS: "axis: dp"}, 0, "`dp`", "tp|axis"),
    Mistake("axis that nothing uses", {DATA: None}, MESH, "`dp`", "data"),
    Mistake(
        "colwise on a norm", {HEAD: rule("model.norm")}, HEAD, "norm|Linear|support", "replicate|sequence_parallel|spec"
    ),
    Mistake("short spec", {HEAD: rule("lm_head.weight", "[tp]")}, HEAD, "1 .*2|2 dims", r"null|\.\.\."),
    Mistake("long spec", {HEAD: rule("lm_head.weight", "[tp, null, null]")}, HEAD, "3 .*2|2 dims", "entr|2"),
    Mistake("spec on a norm", {HEAD: rule("model.norm.weight", "[null, tp]")}, HEAD, "1", "entr|1"),
    Mistake(
        "axis twice in a spec", {HEAD: rule("lm_head.weight", "[tp, tp]")}, HEAD, "dim 0 and dim 1", "once|null|one"
    ),
    Mistake(
        "everything by a star",
        {Q: rule("*"), K: None, V: None, O: None, GATE: None, UP: None, DOWN: None, HEAD: None},
        Q,
        "norm|support",
        "replicate|exclude|name|spec",
        findings=3,
    ),
    Mistake("both colwise", {O: rule("model.layers.*.self_attn.o_proj")}, O, "o_proj|piece", "rowwise", findings=4),
    Mistake("both rowwise", {Q: rule("model.layers.*.self_attn.q_proj", "rowwise")}, 0, "q_proj", "that of `k_proj`"),
    Mistake("down_proj forgotten", {DOWN: None}, 0, "down_proj|shard", "rowwise", findings=2),
    Mistake("gate forgotten", {GATE: None}, 0, "gate_proj|up_proj", "colwise|gate_proj", findings=2),
    Mistake("one projection forgotten", {K: None}, 0, "k_proj", "colwise|k_proj", findings=2),
    Mistake(
        "one layer only", {Q: rule("model.layers.0.self_attn.q_proj")}, 0, "q_proj|layer", r"\*|q_proj", findings=2
    ),
    Mistake("embedding leaves a piece", {6: rule("model.embed_tokens", "colwise")}, 6, "embed", "embedding_colwise"),
    Mistake(
        "lm_head leaves a piece",
        {HEAD: rule("lm_head", "{style: colwise, output_layouts: Shard(-1)}")},
        HEAD,
        "lm_head|piece",
        "colwise_gather_output",
    ),
    Mistake(
        "sequence_parallel alone",
        {HEAD: '  "lm_head": {style: colwise, output_layouts: Replicate}\n  "model.norm": sequence_parallel'},
        15,
        "norm|sequence",
        "sequence|Shard",
    ),
    Mistake(
        "option that changes nothing",
        {HEAD: rule("lm_head", "{style: replicate, use_local_output: false}")},
        HEAD,
        "use_local_output",
        "one of its options",
    ),
    Mistake(
        "input layouts of a wrong length",
        {
            HEAD: rule(
                "model.layers.*.self_attn",
                "{style: prepare_module_input, input_layouts: [Shard(1), null], desired_input_layouts: [Replicate]}",
            )
        },
        HEAD,
        "2 .*1|lengths",
        "same|entr|desired",
    ),
    Mistake(
        "redistribution to Partial",
        {HEAD: rule("lm_head", "{style: colwise, output_layouts: Partial}")},
        HEAD,
        "Partial",
        "Replicate|Shard|rowwise",
    ),
    Mistake(
        "fsdp over the axis of the styles", {DATA: "fsdp: {axis: tp}"}, DATA, "`tp`", "dp|another|axis", findings=2
    ),
    Mistake(
        "o_proj cut along its outputs",
        {O: rule("model.layers.*.self_attn.o_proj.weight", "[tp, null]")},
        Q,
        "shard",
        "rowwise",
        findings=3,  # a rule each
    ),
    Mistake(
        "o_proj splits what is cut",
        {O: rule("model.layers.*.self_attn.o_proj", "rowwise_split_input")},
        Q,
        "shard",
        "rowwise",
        findings=3,  # a rule each
    ),
    Mistake(
        "q_proj gathered", {Q: rule("model.layers.*.self_attn.q_proj", "colwise_gather_output")}, 0, "q_proj", "k_proj"
    ),
]
