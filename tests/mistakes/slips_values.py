"""Mistakes in the values of keys: styles, specs, layouts, sizes, settings."""

from mistakes import AXIS, DATA, HEAD, MESH, Mistake, O, Q, TP_PLAN, rule

VALUES = [
    Mistake("style misspelled", {Q: rule("model.layers.*.self_attn.q_proj", "colwsie")}, Q, "`colwsie`", "`colwise`"),
    Mistake("style in capitals", {Q: rule("model.layers.*.self_attn.q_proj", "Colwise")}, Q, "`Colwise`", "`colwise`"),
    Mistake(
        "torch's class for a style",
        {Q: rule("model.layers.*.self_attn.q_proj", "ColwiseParallel")},
        Q,
        "ColwiseParallel",
        "`colwise`",
    ),
    Mistake(
        "torch's call for a style",
        {Q: rule("model.layers.*.self_attn.q_proj", "ColwiseParallel()")},
        Q,
        "ColwiseParallel",
        "`colwise`",
    ),
    Mistake(
        "Megatron's name",
        {Q: rule("model.layers.*.self_attn.q_proj", "column_parallel")},
        Q,
        "column_parallel",
        "`colwise`",
    ),
    Mistake(
        "Megatron's class",
        {Q: rule("model.layers.*.self_attn.q_proj", "ColumnParallelLinear")},
        Q,
        "ColumnParallelLinear",
        "`colwise`",
    ),
    Mistake(
        "Megatron's row class",
        {O: rule("model.layers.*.self_attn.o_proj", "RowParallelLinear")},
        O,
        "RowParallelLinear",
        "`rowwise`",
    ),
    Mistake("column", {Q: rule("model.layers.*.self_attn.q_proj", "column")}, Q, "`column`", "`colwise`"),
    Mistake("row", {O: rule("model.layers.*.self_attn.o_proj", "row")}, O, "`row`", "`rowwise`"),
    Mistake("col", {Q: rule("model.layers.*.self_attn.q_proj", "col")}, Q, "`col`", "`colwise`"),
    Mistake(
        "style with a hyphen", {Q: rule("model.layers.*.self_attn.q_proj", "col-wise")}, Q, "col-wise", "`colwise`"
    ),
    Mistake("replicated", {HEAD: rule("lm_head", "replicated")}, HEAD, "`replicated`", "`replicate`"),
    Mistake("none for a style", {HEAD: rule("lm_head", "none")}, HEAD, "`none`", "replicate"),
    Mistake("null for a style", {HEAD: rule("lm_head", "null")}, HEAD, "no style", "`replicate`"),
    Mistake("no value", {HEAD: '  "lm_head":'}, HEAD, "no style", "`replicate`"),
    Mistake("a placement for a style", {HEAD: rule("lm_head", "Shard(0)")}, HEAD, r"Shard\(0\)", r"spec|colwise|\[tp"),
    Mistake("a number for a style", {HEAD: rule("lm_head", "0")}, HEAD, "number|`0`", "style|colwise|spec"),
    Mistake("an axis for a style", {HEAD: rule("lm_head", "tp")}, HEAD, "`tp`", r"colwise|spec|\["),
    Mistake("true for a style", {HEAD: rule("lm_head", "true")}, HEAD, "true", "style|colwise"),
    Mistake("a tuple for a spec", {HEAD: rule("lm_head.weight", "(tp, null)")}, HEAD, "tp, null", r"\[tp, null\]"),
    Mistake("a PartitionSpec", {HEAD: rule("lm_head.weight", "P('tp', None)")}, HEAD, "P\\(", r"\[tp, null\]"),
    Mistake("None in a spec", {HEAD: rule("lm_head.weight", "[tp, None]")}, HEAD, "None", "null"),
    Mistake(
        "placements for a spec",
        {HEAD: rule("lm_head.weight", "[Shard(0), Replicate]")},
        HEAD,
        "Shard",
        r"axis|spec|\[tp",
    ),
    Mistake("a number in a spec", {HEAD: rule("lm_head.weight", "[0, null]")}, HEAD, "number|`0`", "axis|axes"),
    Mistake(
        "a number in a list of axes", {HEAD: rule("lm_head.weight", "[[tp, 1], null]")}, HEAD, "number 1", "axis|axes"
    ),
    Mistake(
        "style and spec",
        {HEAD: rule("lm_head.weight", "{style: colwise, spec: [tp, null]}")},
        HEAD,
        "style|spec",
        "one|remove",
    ),
    Mistake("neither style nor spec", {HEAD: rule("lm_head", "{output_layouts: Replicate}")}, HEAD, "style", "style"),
    Mistake(
        "option misspelled",
        {HEAD: rule("lm_head", "{style: colwise, output_layout: Replicate}")},
        HEAD,
        "output_layout",
        "`output_layouts`",
    ),
    Mistake(
        "option of another style",
        {HEAD: rule("lm_head", "{style: colwise, sequence_dim: 1}")},
        HEAD,
        "sequence_dim",
        "one of its options",
    ),
    Mistake(
        "layout misspelled",
        {HEAD: rule("lm_head", "{style: colwise, output_layouts: Replicated}")},
        HEAD,
        "Replicated",
        "`Replicate`",
    ),
    Mistake(
        "layout in small letters",
        {HEAD: rule("lm_head", "{style: colwise, output_layouts: replicate}")},
        HEAD,
        "replicate",
        "`Replicate`",
    ),
    Mistake(
        "Shard without its dim",
        {HEAD: rule("lm_head", "{style: colwise, output_layouts: Shard}")},
        HEAD,
        "Shard",
        r"Shard\(",
    ),
    Mistake(
        "Shard with square brackets",
        {HEAD: rule("lm_head", "{style: colwise, output_layouts: 'Shard[1]'}")},
        HEAD,
        r"Shard\[1\]",
        r"`Shard\(1\)`",
    ),
    Mistake(
        "Shard with a name",
        {HEAD: rule("lm_head", "{style: colwise, output_layouts: Shard(dim=1)}")},
        HEAD,
        "Shard",
        r"`Shard\(1\)`",
    ),
    Mistake(
        "Shard of a dim that nothing has",
        {HEAD: rule("lm_head", "{style: colwise, output_layouts: Shard(7)}")},
        HEAD,
        r"Shard\(7\)|dim 7",
        "dim|Shard",
    ),
    Mistake(
        "sequence_dim that nothing has",
        {HEAD: '  "model.norm": {style: sequence_parallel, sequence_dim: 9}'},
        HEAD,
        "9",
        "sequence_dim|dim",
    ),
    Mistake("axis misspelled in a spec", {HEAD: rule("lm_head.weight", "[pt, null]")}, HEAD, "`pt`", "`tp`"),
    Mistake("axis misspelled", {AXIS: "axis: tpp"}, AXIS, "`tpp`", "`tp`"),
    Mistake("axis of a rule misspelled", {HEAD: rule("lm_head", "{style: colwise, axis: t}")}, HEAD, "`t`", "`tp`"),
    Mistake("quoted size", {MESH: 'mesh: {dp: 2, tp: "4"}'}, MESH, '"4"|text', "quotes"),
    Mistake("size of zero", {MESH: "mesh: {dp: 2, tp: 0}"}, MESH, "0", "at least 1|remove"),
    Mistake("negative size", {MESH: "mesh: {dp: 2, tp: -4}"}, MESH, "-4", "at least 1|device"),
    Mistake("size with a point", {MESH: "mesh: {dp: 2, tp: 4.0}"}, MESH, "4.0", "`4`|whole"),
    Mistake("auto size", {MESH: "mesh: {dp: -1, tp: 4}"}, MESH, "-1", "number of ranks"),
    Mistake("mesh as a list", {MESH: "mesh: [2, 4]"}, MESH, "list", r"`mesh: {|name"),
    Mistake("mesh as a number", {MESH: "mesh: 8"}, MESH, "8|number", r"`mesh: {"),
    Mistake("mesh as on the command line", {MESH: "mesh: tp=4"}, MESH, "tp=4", r"`mesh: {tp: 4}`"),
    Mistake("no mesh", {MESH: None}, 0, "mesh", r"`mesh: {"),
    Mistake("empty mesh", {MESH: "mesh: {}"}, MESH, "no axes|empty", r"mesh: {"),
    Mistake("no format", {1: None}, 0, "format", "`format: tpplan.plan/1`"),
    Mistake("format misspelled", {1: "format: tpplan.plan/l"}, 1, "tpplan.plan/l", "tpplan.plan/1"),
    Mistake("format of a model", {1: "format: tpplan.model/1"}, 1, "tpplan.model", "MODEL PLAN|tpplan.plan/1"),
    Mistake("no rules", {n: None for n in range(5, 15)}, 0, "tp_plan|rules", "tp_plan"),
    Mistake("rules empty", {n: None for n in range(6, 15)}, TP_PLAN, "no rules", "`tp_plan:`"),
    Mistake("tp_plan misspelled", {TP_PLAN: "tp-plan:"}, TP_PLAN, "tp-plan", "`tp_plan`"),
    Mistake("top key misspelled", {DATA: "dta: {axes: [dp], dim: 0}"}, DATA, "`dta`", "`data`"),
    Mistake("top key of another tool", {DATA: "device_mesh: {tp: 4}"}, DATA, "device_mesh", "mesh"),
    Mistake("dialect misspelled", {2: "dialect: globs"}, 2, "globs", "`glob`"),
    Mistake("dialect that nobody has", {2: "dialect: megatron"}, 2, "megatron", "`glob`"),
    Mistake("uneven as a boolean", {2: "uneven: true"}, 2, "true|boolean", "torch|error"),
    Mistake("uneven with another word", {2: "uneven: allow"}, 2, "allow", "torch"),
    Mistake(
        "boolean as yes", {HEAD: rule("lm_head", "{style: colwise, use_local_output: yes}")}, HEAD, "yes", "`true`"
    ),
    Mistake(
        "boolean in capitals",
        {HEAD: rule("lm_head", "{style: colwise, use_local_output: True}")},
        HEAD,
        "True",
        "`true`",
    ),
    Mistake(
        "quoted boolean", {HEAD: rule("lm_head", '{style: colwise, use_local_output: "true"}')}, HEAD, "true", "quotes"
    ),
    Mistake(
        "style of transformers in torch's dialect",
        {2: "dialect: torch", HEAD: rule("lm_head", "colwise_gather_output")},
        HEAD,
        "colwise_gather_output|transformers",
        "colwise|output_layouts|dialect",
    ),
    # ---- words of other frameworks ----
    Mistake(
        "torch's call with arguments",
        {HEAD: rule("lm_head", "ColwiseParallel(output_layouts=Replicate())")},
        HEAD,
        "ColwiseParallel",
        "`{style: colwise, output_layouts: Replicate}`",
    ),
    Mistake(
        "torch's call with a tuple",
        {
            HEAD: rule(
                "model", "PrepareModuleInput(input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None))"
            )
        },
        HEAD,
        "PrepareModuleInput",
        r"input_layouts: \[Shard\(1\), null\], desired_input_layouts: \[Replicate, null\]",
    ),
    Mistake("vLLM's whole layer", {HEAD: rule("lm_head", "ReplicatedLinear")}, HEAD, "Replicated", "`replicate`"),
    Mistake("older transformers' style", {HEAD: rule("lm_head", "local_colwise")}, HEAD, "local_colwise", "`colwise`"),
    Mistake("style with parallel", {HEAD: rule("lm_head", "colwise_parallel")}, HEAD, "colwise_p", "`colwise`"),
    Mistake("short for sequence parallel", {HEAD: rule("model.norm", "sp")}, HEAD, "`sp`", "`sequence_parallel`"),
    Mistake("style and a note", {HEAD: rule("lm_head", "colwise (tp)")}, HEAD, "colwise", "`colwise`"),
    Mistake("style as a list", {HEAD: rule("lm_head", "[colwise]")}, HEAD, "a style", "`colwise`"),
    Mistake("two styles", {HEAD: rule("lm_head", "[colwise, rowwise]")}, HEAD, "a style", "one style"),
    Mistake("style of options as a list", {HEAD: rule("lm_head", "{style: [colwise]}")}, HEAD, "a list", "`colwise`"),
    Mistake("spec as text", {HEAD: rule("lm_head.weight", "'[tp, null]'")}, HEAD, "tp, null", r"`\[tp, null\]`"),
    Mistake(
        "a NamedSharding",
        {HEAD: rule("lm_head.weight", "NamedSharding(mesh, P('tp', None))")},
        HEAD,
        "NamedSharding",
        r"`\[tp, null\]`",
    ),
    Mistake("none in a spec", {HEAD: rule("lm_head.weight", "[tp, none]")}, HEAD, "none", "`null`"),
    Mistake("a star in a spec", {HEAD: rule("lm_head.weight", "[tp, '*']")}, HEAD, r"`\*`", "`null`"),
    Mistake("two axes in one text", {HEAD: rule("lm_head.weight", '["tp,dp", null]')}, HEAD, "tp,dp", r"`\[tp, dp\]`"),
    Mistake("two axes with a plus", {HEAD: rule("lm_head.weight", "[tp+dp, null]")}, HEAD, r"tp\+dp", r"`\[tp, dp\]`"),
    Mistake("DTensor's R", {HEAD: rule("lm_head", "{style: colwise, output_layouts: R}")}, HEAD, "`R`", "`Replicate`"),
    Mistake(
        "DTensor's S", {HEAD: rule("lm_head", "{style: colwise, output_layouts: S(1)}")}, HEAD, "S", r"`Shard\(1\)`"
    ),
    Mistake(
        "Megatron's gather_output",
        {HEAD: rule("lm_head", "{style: colwise, gather_output: true}")},
        HEAD,
        "gather_output",
        "output_layouts: Replicate",
    ),
    Mistake(
        "Megatron's input_is_parallel",
        {O: rule("model.layers.*.self_attn.o_proj", "{style: rowwise, input_is_parallel: true}")},
        O,
        "input_is_parallel",
        "rowwise_split_input",
    ),
    Mistake("a dim beside a style", {HEAD: rule("lm_head", "{style: colwise, dim: 0}")}, HEAD, "`dim`", "`spec:"),
    Mistake("placements as a key", {HEAD: rule("lm_head", "{placements: [Shard(0)]}")}, HEAD, "placements", "`spec`"),
    Mistake("axes in capitals", {MESH: "mesh: {DP: 2, TP: 4}"}, 0, "`tp`", "`TP`", findings=2),
    Mistake("sizes before names", {MESH: "mesh: {2: dp, 4: tp}"}, MESH, "`dp`", "`dp: 2`", findings=2),
    Mistake(
        "mesh as torch has it", {MESH: "mesh: {shape: [2, 4], names: [dp, tp]}"}, MESH, "list", "dp: 2", findings=2
    ),
    Mistake("a list of one axis each", {MESH: "mesh: [{dp: 2}, {tp: 4}]"}, MESH, "list", r"mesh: {tp: 8}"),
    Mistake("vLLM's size", {DATA: "data: {axes: [dp]}\ntensor_parallel_size: 4"}, 16, "tensor_par", "mesh: {"),
    Mistake("transformers' key", {TP_PLAN: "base_model_tp_plan:"}, TP_PLAN, "base_model_tp_plan", "`tp_plan`"),
    Mistake(
        "sequence parallel as a switch", {DATA: "data: {axes: [dp]}\nsequence_parallel: true"}, 16, "sequence", "rules"
    ),
    Mistake(
        "checkpointing as a switch", {DATA: "data: {axes: [dp]}\nactivation_checkpointing: true"}, 16, "activ", "remat"
    ),
    Mistake("fsdp as a switch", {DATA: "fsdp: true"}, DATA, "true", "`fsdp: {axis: dp}`"),
    Mistake("fsdp as an axis", {DATA: "fsdp: dp"}, DATA, "`dp`", "`fsdp: {axis: dp}`"),
    Mistake("axes of fsdp", {DATA: "fsdp: {axes: [dp]}"}, DATA, "`axes`", "`axis`", findings=2),
    Mistake("remat without brackets", {DATA: 'data: {axes: [dp]}\nremat: "model.layers.*"'}, 16, "remat", r'\["model'),
    Mistake("init as a call", {DATA: 'data: {axes: [dp]}\ninit: {"*": xavier_uniform}'}, 16, "xavier", "uniform: {low"),
    Mistake(
        "init without names", {DATA: 'data: {axes: [dp]}\ninit: {"*": {normal: 0.02}}'}, 16, "0.02", "{mean: 0, std"
    ),
    Mistake("loss as a word", {DATA: "data: {axes: [dp]}\nloss: mean"}, 16, "mean", "{reduction: mean}"),
    Mistake(
        "loss_parallel", {DATA: "data: {axes: [dp]}\nloss: {loss_parallel: true}"}, 16, "loss_p", "cross_entropy: par"
    ),
    Mistake("suppress as codes", {DATA: "data: {axes: [dp]}\nsuppress: [TP4004]"}, 16, "TP4004", "reason:"),
    Mistake(
        "a block with a style",
        {DATA: 'data: {axes: [dp]}\nblocks: {"model.layers.*": colwise}'},
        16,
        "colwise",
        "rules",
    ),
    Mistake(
        "a block with nothing", {DATA: 'data: {axes: [dp]}\nblocks: {"model.layers.*": {}}'}, 16, "no rules", "remove"
    ),
    Mistake("dialect of Hugging Face", {2: "dialect: huggingface"}, 2, "huggingface", "`transformers`"),
    Mistake("dialect of regular expressions", {2: "dialect: re"}, 2, "`re`", "`regex`"),
    Mistake("dialect of Flax", {2: "dialect: flax"}, 2, "flax", "`logical`"),
    Mistake("format without its number", {1: "format: tpplan.plan"}, 1, "tpplan.plan", "`format: tpplan.plan/1`"),
]
