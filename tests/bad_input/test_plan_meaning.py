"""Well-formed plans that are wrong for their model (exit status 1), and legal ones that look like a mistake (exit status 0 with a warning,
1 with --strict)."""

import json

import pytest
from conftest import codes, linear_model, plan_text, run, write
from promise import case, hold


def layers(count=4):
    """Linear modules with the names in the plans below."""
    shapes = {
        "attention__wq": [64, 32],
        "attention__wo": [32, 64],
        "feed_forward__w1": [64, 32],
        "feed_forward__w2": [32, 64],
    }
    return linear_model(**{f"layers__{i}__{name}": shape for i in range(count) for name, shape in shapes.items()})


def module(path, type, attributes=None, **parameters):
    entry = {"path": path, "type": type}
    if parameters:
        entry["parameters"] = {n: {"shape": s, "dtype": "float32"} for n, s in parameters.items()}
    if attributes:
        entry["attributes"] = attributes
    return entry


def model(*modules, **more):
    return {
        "format": "tpplan.model/1",
        "name": "T",
        "framework": "torch",
        "modules": [module("", "T"), *modules],
    } | more


def attention(num_heads, num_kv_heads, head_dim=8, hidden=64):
    return model(
        module("a", "Attention", {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_dim": head_dim}),
        module("a.q_proj", "Linear", weight=[num_heads * head_dim, hidden]),
        module("a.k_proj", "Linear", weight=[num_kv_heads * head_dim, hidden]),
        module("a.v_proj", "Linear", weight=[num_kv_heads * head_dim, hidden]),
        module("a.o_proj", "Linear", weight=[hidden, num_heads * head_dim]),
    )


LINEAR = linear_model(wq=[16, 8])
EMBEDDING = model(module("emb", "Embedding", weight=[32, 16]))
KERAS = {
    "format": "tpplan.model/1",
    "name": "T",
    "framework": "keras",
    "modules": [module("m/layers/0/q", "Dense", kernel=[8, 8])],
}
WITH_BIAS = linear_model(wq=([16, 8], [16]))
BLOCKED = model(module("g", "Linear", weight=[16, 8]))
BLOCKED["modules"][1]["parameters"]["weight"]["granularity"] = {"out": 3}
TIED = model(
    module("emb", "Embedding", weight=[32, 16]),
    module("head", "Linear", weight=[32, 16]),
    tied=[["head.weight", "emb.weight"]],
)


def rules(entries, model=LINEAR, **more):
    return model, plan_text(entries, **more)


def fsdp(min_weight_size=0, more=""):
    return f"fsdp: {{min_weight_size: {min_weight_size}{more}}}\n"


# (model, plan): exit status 1, no output. The rule of a one-rule plan is on line 5.
WRONG = [
    case("47-typo", rules({"*.feed_foward.w1": "colwise"}, layers()), 1, "TP4001", (5, 3), "feed_forward.w1`?"),
    case("47-part-of-a-path", rules({"w1": "colwise"}, layers()), 1, "TP4001", (5, 3), "`layers.*.feed_forward.w1`"),
    case("47-other-case", rules({"WQ": "colwise"}), 1, "TP4001", (5, 3)),
    case("47-regex", rules({"w[kv]": "colwise"}, dialect="regex"), 1, "TP4001", (5, 3)),
    case("47-torch", rules({"layers.*.attention.wk": "colwise"}, layers(), dialect="torch"), 0, "TP4002", (5, 3)),
    case("47-keras", rules({"kernel": "[null, tp]"}, dialect="keras"), 1, "TP4001", (5, 3)),
    case("47-one-of-two", rules({"wq": "colwise", "wk": "colwise"}), 1, "TP4001", (6, 3)),
    case("47-block", (layers(), plan_text({}, more='blocks: {"layer.*": {"attention.wq": colwise}}\n')), 1, "TP4009"),
    case("47-rule-in-a-block", (layers(), plan_text({}, more='blocks: {"layers.*": {"wq": colwise}}\n')), 1, "TP4001"),
    case(
        "47-key-of-a-block-from-the-root",
        (layers(), plan_text({}, more='blocks: {"layers.*": {"layers.0.attention.wq": colwise}}\n')),
        1,
        "TP4001",
        None,
        "keys of a block are relative to its modules: write `attention.wq`",
    ),
    case(
        "47-pattern-of-a-block-from-the-root",
        (layers(), plan_text({}, dialect="regex", more='blocks: {"layers.*": {"layers..*wq": colwise}}\n')),
        1,
        "TP4001",
        None,
        "remove the prefix up to `layers.*`: keys of a block are relative to its modules",
    ),
    case(
        "47-container",
        rules({"layers": "colwise"}, layers()),
        1,
        "TP4001",
        (5, 3),
        "without parameters of its own: name a path below it",
    ),
    case(
        "47-containers",
        rules({r"layers\.\d": "colwise"}, layers(), dialect="regex"),
        1,
        "TP4001",
        (5, 3),
        "such as `layers.0.attention.wq`",
    ),
    case(
        "47-container-in-a-block",
        (layers(), plan_text({}, more='blocks: {"layers.*": {"attention": colwise}}\n')),
        1,
        "TP4001",
        None,
        "`layers.0.attention` is a module without parameters of its own",
    ),
    case(
        "47-keras-module",
        rules({"m.layers.0.q": "[null, tp]"}, KERAS, dialect="keras"),
        1,
        "TP4001",
        (5, 3),
        "or a variable such as `m/layers/0/q/kernel`",
    ),
    case(
        "47-keras-modules",
        rules({"m/.*/q": "[null, tp]"}, KERAS, dialect="keras"),
        1,
        "TP4001",
        (5, 3),
        "name variables: write `m/.*/q/.*`",
    ),
    case(
        "54-longer-than-every-parameter",
        rules({"wq": "[tp, null, null]"}, WITH_BIAS),
        1,
        "TP5002",
        (5, 9),
        "write one entry for each dim",
    ),
    case("54-empty-spec", rules({"wq": "[]"}, WITH_BIAS), 1, "TP5002", (5, 9), "write one entry for each dim"),
    case("54-spec-of-the-weight", rules({"wq": "[tp, null]"}, WITH_BIAS), 1, "TP5002", (5, 9), "write `wq.weight`"),
    case("54-spec-of-the-bias", rules({"wq": "[tp]"}, WITH_BIAS), 1, "TP5002", (5, 9), "write `wq.bias`"),
    case(
        "56-blocks-that-do-not-fill-the-dim",
        rules({"g": "colwise"}, BLOCKED),
        1,
        "TP5006",
        (5, 8),
        "16 elements are 5 blocks of 3 with remainder 1",
    ),
    case("45-class-of-torch", rules({"wq": "ColwiseParallel"}), 1, "TP3005", (5, 9), "did you mean `colwise`?"),
    case(
        "45-class-of-torch-called",
        rules({"wq": "parallel.RowwiseParallel()"}, dialect="torch"),
        1,
        "TP3005",
        (5, 9),
        "did you mean `rowwise`?",
    ),
    case(
        "45-sequence-class-of-torch",
        rules({"wq": "SequenceParallel"}, dialect="torch"),
        1,
        "TP3005",
        (5, 9),
        "did you mean `sequence_parallel`?",
    ),
    case(
        "47-unseen-characters",
        (linear_model(lm_head=[16, 8]), plan_text({"x": "colwise"}).replace("x", "lm_head\u200b\u00a0")),
        1,
        "TP4001",
        None,
        "rule `lm_head\\u200b\\u00a0` matches nothing",
    ),
    case("47-remat", (LINEAR, plan_text({"wq": "colwise"}, more='remat: ["layers.*"]\n')), 1, "TP4009"),
    case("47-init", (LINEAR, plan_text({"wq": "colwise"}, more='init: {"wk": zeros}\n')), 0, "TP4011"),
    case(
        "47-init-shadowed", (LINEAR, plan_text({"wq": "colwise"}, more='init: {"*": zeros, "wq": ones}\n')), 0, "TP4011"
    ),
    case(
        "47-init-interval",
        (LINEAR, plan_text({"wq": "colwise"}, more='init: {"*": {uniform: {low: 1, high: 1}}}\n')),
        1,
        "TP3019",
    ),
    case(
        "47-init-overflow", (LINEAR, plan_text({"wq": "colwise"}, more='init: {"*": {constant: 1e999}}\n')), 2, "TP3003"
    ),
    case(
        "47-fsdp-pattern",
        rules({"wq": "colwise"}, mesh="{tp: 4, fsdp: 2}", more=fsdp(0, ', patterns: ["wk"]')),
        1,
        "TP4009",
    ),
    case(
        "48-styles-disagree",
        rules({"*.wq": "colwise", "*.attention.w?": "rowwise"}, layers()),
        1,
        "TP4003",
        None,
        "(plan.yaml:5:3)",
    ),
    case(
        "48-axes-disagree",
        rules({"w?": "colwise", "*q": "{style: colwise, axis: dp}"}, mesh="{tp: 4, dp: 2}"),
        1,
        "TP4003",
    ),
    case(
        "48-options-disagree", rules({"w?": "colwise", "*q": "{style: colwise, use_local_output: false}"}), 1, "TP4003"
    ),
    case("48-specs-disagree", rules({"w*.weight": "[tp, null]", "*q.weight": "[null, tp]"}), 1, "TP4003"),
    case("48-keras-refuses-two", rules({"wq.*": "[tp, null]", ".*weight": "[tp, null]"}, dialect="keras"), 1, "TP4003"),
    case(
        "48-torch-refuses-two",
        rules({"layers.*.attention.wq": "colwise", "layers.0.attention.*": "rowwise"}, layers(), dialect="torch"),
        1,
        "TP4008",
    ),
    case("49-lookahead", rules({"(?=w)q": "colwise"}, dialect="regex"), 1, "TP3012", (5, 3)),
    case("49-lookbehind", rules({"w(?<=w)q": "colwise"}, dialect="regex"), 1, "TP3012", (5, 3)),
    case("49-backreference", rules({r"(w)\1": "colwise"}, dialect="regex"), 1, "TP3012", (5, 3)),
    case("49-unbalanced", rules({"(wq": "colwise"}, dialect="regex"), 1, "TP3012", (5, 3)),
    case("49-unbalanced-class", rules({"[wq": "colwise"}, dialect="regex"), 1, "TP3012", (5, 3)),
    case("49-nothing-to-repeat", rules({"*wq": "colwise"}, dialect="regex"), 1, "TP3012", (5, 3)),
    case("49-repeats-too-often", rules({"(wq){1001}": "colwise"}, dialect="regex"), 1, "TP3012", (5, 3)),
    case(
        "49-repeats-multiply",
        rules({"((((x{100}){100}){100}){100}){100}": "colwise"}, dialect="regex"),
        1,
        "TP3012",
        (5, 3),
    ),
    case("49-bad-escape", rules({r"w\qq": "colwise"}, dialect="regex"), 1, "TP3012", (5, 3)),
    case("49-keras-lookahead", rules({"(?!x)wq.weight": "[tp, null]"}, dialect="keras"), 1, "TP3012", (5, 3)),
    case(
        "49-pattern-of-1000-bytes-is-cut",
        rules({"(" * 500 + "a" * 499 + "[": "colwise"}, dialect="regex"),
        1,
        "TP3012",
        (5, 3),
    ),
    case("50-unknown-style", rules({"wq": "colwize"}), 1, "TP3005", (5, 9), "did you mean `colwise`?"),
    case("50-style-of-another-case", rules({"wq": "ColwiseParallel"}), 1, "TP3005", (5, 9)),
    case("50-style-of-another-dialect", rules({"wq": "rowwise_rep"}, dialect="torch"), 1, "TP3014", (5, 9)),
    case(
        "50-unknown-axis-in-a-spec",
        rules({"wq.weight": "[model, null]"}),
        1,
        "TP3006",
        (5, 17),
        "the mesh has axis `tp`",
    ),
    case("50-unknown-axis-of-a-rule", rules({"wq": "{style: colwise, axis: model}"}), 1, "TP3006"),
    case("50-unknown-axis-of-the-plan", rules({"wq": "colwise"}, more="axis: model\n"), 1, "TP3006", (4, 7)),
    case("50-no-axis-called-tp", rules({"wq": "colwise"}, mesh="{model: 4}"), 1, "TP3006"),
    case("50-unknown-axis-of-the-data", rules({"wq": "colwise"}, more="data: {axes: [dp]}\n"), 1, "TP3006"),
    case("50-unknown-axis-of-fsdp", rules({"wq": "colwise"}, more="fsdp: {axis: fsdp}\n"), 1, "TP3006"),
    case("50-unknown-placement", rules({"wq": "{style: colwise, output_layouts: Shart(0)}"}), 1, "TP3007"),
    case("50-placement-of-a-float", rules({"wq": "{style: colwise, output_layouts: Shard(0.5)}"}), 1, "TP3007"),
    case("50-placement-without-a-dim", rules({"wq": "{style: colwise, output_layouts: Shard()}"}), 1, "TP3007"),
    case(
        "50-placement-of-a-huge-dim", rules({"wq": f"{{style: colwise, output_layouts: Shard({2**64})}}"}), 1, "TP3007"
    ),
    case("50-placement-strided", rules({"wq": '{style: colwise, output_layouts: "StridedShard(0, 2)"}'}), 1, "TP3007"),
    case("50-none-is-null", rules({"wq.weight": "[tp, None]"}), 1, "TP3007", (5, 21), "null"),
    case("50-unknown-option", rules({"wq": "{style: colwise, outputs: Shard(0)}"}), 1, "TP3004"),
    case("50-option-of-another-style", rules({"wq": "{style: colwise, sequence_dim: 1}"}), 1, "TP3008"),
    case("50-unknown-section", rules({"wq": "colwise"}, more="pipeline: {}\n"), 1, "TP3004", (4, 1)),
    case(
        "50-section-with-a-typo",
        rules({"wq": "colwise"}, more="block: {}\n"),
        1,
        "TP3004",
        (4, 1),
        "did you mean `blocks`?",
    ),
    case("50-unknown-dialect", rules({"wq": "colwise"}, dialect="jax"), 1, "TP3013", (2, 10)),
    case("50-unknown-uneven", rules({"wq": "colwise"}, more="uneven: pad\n"), 1, "TP3013", (4, 9)),
    case("50-style-and-spec", rules({"wq": "{style: colwise, spec: [tp, null]}"}), 1, "TP3008"),
    case("51-axis-on-two-dims", rules({"wq.weight": "[tp, tp]"}), 1, "TP5004"),
    case("51-axis-twice-on-one-dim", rules({"wq.weight": "[[tp, tp], null]"}), 1, "TP5004"),
    case("51-axis-inside-a-list", rules({"wq.weight": "[[tp, dp], dp]"}, mesh="{tp: 2, dp: 2}"), 1, "TP5004"),
    case("51-data-axis-twice", rules({"wq": "colwise"}, more="data: {axes: [tp, tp]}\n"), 1, "TP5004"),
    case("52-one-axis", rules({"wq": "colwise"}, mesh="{tp: 3}"), 1, "TP5001", (5, 9), "16 / 3 has remainder 1"),
    case("52-one-axis-spec", rules({"wq.weight": "[null, tp]"}, mesh="{tp: 3}"), 1, "TP5001"),
    case("52-more-ranks-than-rows", rules({"wq": "colwise"}, mesh="{tp: 32}"), 1, "TP5001"),
    case(
        "52-product-of-two",
        rules({"wq.weight": "[null, [tp, dp]]"}, linear_model(wq=[16, 12]), mesh="{tp: 4, dp: 6}"),
        1,
        "TP5003",
        None,
        "24",
    ),
    case(
        "52-product-beyond-64-bits",
        rules({"wq.weight": "[[a, b], null]"}, linear_model(wq=[65536, 8]), mesh="{a: 32768, b: 65535}"),
        1,
    ),
    case(
        "52-once-for-all-layers",
        rules({"*.wq": "colwise"}, layers(32), mesh="{tp: 3}"),
        1,
        "TP5001",
        None,
        "31 parameters more with the same cause",
    ),
    case("53-longer-than-the-shape", rules({"wq.weight": "[tp, null, null]"}), 1, "TP5002"),
    case("53-shorter-than-the-shape", rules({"wq.weight": "[tp]"}), 1, "TP5002"),
    case("53-empty-spec", rules({"wq.weight": "[]"}), 1, "TP5002"),
    case("53-on-a-scalar", rules({"s.x": "[tp]"}, model(module("s", "S", x=[]))), 1, "TP5002"),
    case("53-on-a-module-with-a-bias", rules({"wq": "[tp, null]"}, linear_model(wq=([16, 8], [16]))), 1, "TP5002"),
    case("53-ellipsis-twice", rules({"wq.weight": "[..., tp, ...]"}), 1, "TP3007"),
    case("53-longer-than-65-dims", rules({"wq.weight": "[" + "null, " * 64 + "tp]"}), 1, "TP5002"),
    case("54-spec-entry-is-a-number", rules({"wq.weight": "[0, -1]"}), 1, "TP3006"),
    case("55-axis-of-size-zero", rules({"wq": "colwise"}, mesh="{tp: 0}"), 2, "TP3009"),
    case("56-rank-map", rules({"wq": "colwise"}, more="ranks: [0, 2, 2, 3]\n"), 1, "TP3004", (4, 1)),
    case("56-world-size", rules({"wq": "colwise"}, more="world_size: 6\n"), 1, "TP3004", (4, 1)),
    case("57-output-to-partial", rules({"wq": "{style: colwise, output_layouts: Partial}"}), 1, "TP3016"),
    case(
        "57-prepared-input-to-partial",
        rules({"": "{style: prepare_module_input, input_layouts: [Replicate], desired_input_layouts: [Partial]}"}),
        1,
        "TP3016",
    ),
    case(
        "57-prepared-kwarg-to-partial",
        rules(
            {
                "": "{style: prepare_module_input, input_layouts: [Replicate], desired_input_layouts: [Replicate], "
                "input_kwarg_layouts: {x: Shard(0)}, desired_input_kwarg_layouts: {x: Partial}}"
            }
        ),
        1,
        "TP3016",
    ),
    case(
        "57-layouts-of-different-lengths",
        rules({"": "{style: prepare_module_input, input_layouts: null, desired_input_layouts: [Shard(0), null]}"}),
        1,
        "TP3015",
    ),
    case("57-partial-in-a-spec", rules({"wq.weight": "[Partial, null]"}), 1, "TP3006"),
    case(
        "58-scalar-under-dim0",
        rules(
            {"s.y": "[null]"}, model(module("s", "S", x=[], y=[8])), mesh="{fsdp: 2}", more=fsdp(0, ", policy: dim0")
        ),
        1,
        "TP5016",
    ),
    case("59-colwise-on-a-norm", rules({"n": "colwise"}, model(module("n", "LayerNorm", weight=[16]))), 1, "TP5009"),
    case("59-colwise-on-other-modules", rules({"n": "colwise"}, model(module("n", "Rope", weight=[16, 16]))), 1),
    case("60-fewer-kv-heads-than-ranks", rules({"a.*_proj": "colwise"}, attention(8, 2)), 1, "TP5007", None, "k_proj"),
    case("60-heads-cut-through", rules({"a.q_proj": "colwise"}, attention(6, 6)), 1, "TP5007"),
    case("60-output-cuts-heads", rules({"a.o_proj": "rowwise"}, attention(6, 6)), 1, "TP5007"),
    case(
        "61-tied-two-ways",
        rules({"emb": "embedding_colwise", "head": "colwise"}, TIED),
        1,
        "TP5011",
        None,
        "(model.json:1:",
    ),
    case("61-one-end-kept-whole", rules({"emb": "replicate", "head": "colwise"}, TIED), 1, "TP5011"),
]

# (model, plan): a manifest and a warning.
SUSPICIOUS = [
    case("47-optional-rule-may-match-nothing", rules({"wq": "colwise", "wk": "{style: colwise, optional: true}"}), 0),
    case(
        "47-shipped-rule-matches-nothing",
        rules({"wq": "colwise", "wk": "colwise"}, dialect="transformers"),
        0,
        "TP4002",
        (6, 3),
    ),
    case("48-patterns-that-agree", rules({"*.wq": "colwise", "*.attention.wq": "colwise"}, layers()), 0, "TP4004"),
    case(
        "58-fsdp-all-dims-taken", rules({"wq.weight": "[a, b]"}, mesh="{a: 2, b: 2, fsdp: 2}", more=fsdp()), 0, "TP5015"
    ),
    case(
        "58-fsdp-none-divides",
        rules({"wq.weight": "[null, null]"}, linear_model(wq=[15, 9]), mesh="{fsdp: 2}", more=fsdp()),
        0,
        "TP5015",
    ),
    case("58-fsdp-axis-is-used", rules({"wq.weight": "[fsdp, null]"}, mesh="{fsdp: 2}", more=fsdp()), 0, "TP5014"),
    case("62-shadowed-by-an-exact-key", rules({"w*": "colwise", "wq": "rowwise"}), 0, "TP4005", (5, 3)),
    case("62-shadowed-by-a-parameter-key", rules({"w*": "colwise", "wq.weight": "[null, tp]"}), 0, "TP4005", (5, 3)),
    case("55-axis-that-nothing-uses", rules({"wq": "colwise"}, mesh="{tp: 4, dp: 2}"), 0, "TP4007", (3, 15)),
    case("55-only-data-parallel", rules({"wq": "[null, null]"}, mesh="{dp: 8}"), 0, "TP4007", (3, 8)),
]


@pytest.mark.parametrize("inputs, status, code, place, says", WRONG)
def test_wrong_plan_is_rejected_at_its_place(tmp_path, inputs, status, code, place, says):
    hold(tmp_path, status, code, model=inputs[0], plan=inputs[1], file="plan" if code else None, place=place, says=says)


@pytest.mark.parametrize("inputs, status, code, place, says", SUSPICIOUS)
def test_suspicious_plan_is_a_warning_and_an_error_if_strict(tmp_path, inputs, status, code, place, says):
    hold(tmp_path, status, code, model=inputs[0], plan=inputs[1], file="plan" if code else None, place=place, says=says)
    strict = hold(tmp_path, 1 if code else 0, code, model=inputs[0], plan=inputs[1], flags=["--strict"])
    assert (b"error[" in strict.stderr) == (code is not None)


def test_47_wrong_rule_on_many_layers_is_one_diagnostic(tmp_path):
    result = hold(tmp_path, 1, "TP5001", model=layers(500), plan=plan_text({"*.wq": "colwise"}, "{tp: 3}"))
    assert result.stderr.count(b"error[") == 1


def test_49_backtracking_pattern_is_fast(tmp_path):
    name = "a" * 4000
    rules = {"(a+)+$": "colwise", "(a|a)*b": "{style: colwise, optional: true}"}
    result = hold(tmp_path, 0, model=linear_model(**{name: [16, 8]}), plan=plan_text(rules, dialect="regex"))
    assert result.manifest["parameters"][0]["spec"] == ["tp", None]


def test_49_many_large_patterns_stay_within_their_memory(tmp_path):
    rules = {f"(x{{1,{i}}}[a-z]*){{1,9}}": "{style: colwise, optional: true}" for i in range(1, 100)}
    hold(tmp_path, 0, model=linear_model(wq=[16, 8]), plan=plan_text(rules | {"wq": "colwise"}, dialect="regex"))


@pytest.mark.parametrize("layout, dim", [("Shard(-1)", -1), ("Shard(-2)", -2), ("Shard(1)", 1)])
def test_54_layouts_count_dims_from_both_ends(tmp_path, layout, dim):
    plan = plan_text({"wq": f"{{style: colwise, output_layouts: {layout}}}"})
    result = hold(tmp_path, 0, model=LINEAR, plan=plan)
    assert result.manifest["modules"][0]["outputs"][0]["to"] == [f"Shard({dim})"]


@pytest.mark.parametrize("layout", ["Shard(-7)", "Shard(6)", "Shard(99999)"])
def test_54_dim_that_no_tensor_has_is_rejected(tmp_path, layout):
    hold(tmp_path, 1, model=LINEAR, plan=plan_text({"wq": f"{{style: colwise, output_layouts: {layout}}}"}))


@pytest.mark.parametrize("dim", [-65, -1000, 65, 1000, 2**31, 2**63])
def test_54_sequence_dim_that_no_tensor_has_is_rejected(tmp_path, dim):
    norm = model(module("n", "LayerNorm", weight=[16]))
    plan = plan_text({"n": f"{{style: sequence_parallel, sequence_dim: {dim}}}"})
    result = run("compile", *write(tmp_path, norm, plan))
    assert result.returncode in (1, 2) and codes(result), result


def test_55_axis_of_size_one_shards_nothing_without_a_warning(tmp_path):
    result = hold(tmp_path, 0, model=LINEAR, plan=plan_text({"wq": "colwise"}, "{tp: 1}"))
    assert b"warning" not in result.stderr
    assert result.manifest["parameters"][0]["local_shape"] == [16, 8]


@pytest.mark.parametrize(
    "shape, reason", [([512, 512], "default"), ([513, 512], "fsdp")], ids=["58-at-2-to-the-18", "58-above"]
)
def test_58_parameter_at_the_fsdp_threshold_is_not_sharded(tmp_path, shape, reason):
    plan = plan_text({}, "{fsdp: 2}", more="fsdp: {axis: fsdp}\n").replace("tp_plan:\n", "")
    result = hold(tmp_path, 0, model=linear_model(wq=shape), plan=plan)
    assert result.manifest["parameters"][0]["reason"] == reason


@pytest.mark.parametrize("dialect", ["glob", "torch"])
def test_59_sequence_parallel_embedding_weight_is_replicated(tmp_path, dialect):
    result = hold(tmp_path, 0, model=EMBEDDING, plan=plan_text({"emb": "sequence_parallel"}, dialect=dialect))
    assert result.manifest["parameters"][0]["spec"] == [None, None]


def test_60_uneven_heads_are_an_error_or_warning_by_dialect(tmp_path):
    more = "uneven: torch\n"
    hold(tmp_path, 1, "TP5007", model=attention(6, 6), plan=plan_text({"a.q_proj": "colwise"}, more=more))
    hold(
        tmp_path,
        0,
        "TP5008",
        model=attention(6, 6),
        plan=plan_text({"a.q_proj": "colwise"}, dialect="torch", more=more),
    )


def test_52_uneven_help_is_omitted_if_heads_would_be_split(tmp_path):
    for model_, advised in ((attention(6, 6), False), (model(module("a.q_proj", "Linear", weight=[48, 64])), True)):
        result = hold(tmp_path, 1, "TP5001", model=model_, plan=plan_text({"a.q_proj": "colwise"}, mesh="{tp: 5}"))
        assert (b"uneven: torch" in b" ".join(result.stderr.split())) == advised


def test_45_data_parallel_plan_needs_no_axis_for_its_styles(tmp_path):
    more = "data: {axes: [dp]}\n"
    result = hold(tmp_path, 0, model=LINEAR, plan=plan_text({"*": "replicate"}, mesh="{dp: 8}", more=more))
    assert result.manifest["parameters"][0]["spec"] == [None, None] and b"warning" not in result.stderr
    hold(tmp_path, 1, "TP3006", model=LINEAR, plan=plan_text({"*": "colwise"}, mesh="{dp: 8}", more=more))


def test_61_tie_that_the_framework_breaks_is_a_warning(tmp_path):
    hold(tmp_path, 0, "TP5012", model=TIED, plan=plan_text({"head": "colwise"}, dialect="transformers"))


def test_52_uneven_shards_are_accepted_with_the_setting(tmp_path):
    plan = plan_text({"wq": "{style: colwise, use_local_output: false}"}, "{tp: 3}", more="uneven: torch\n")
    result = hold(tmp_path, 0, model=LINEAR, plan=plan)
    assert result.manifest["parameters"][0]["local_shapes"] == [[6, 8], [6, 8], [4, 8]]


def test_52_too_many_local_shapes_are_a_limit(tmp_path):
    model = linear_model(**{f"w{i}": [2**20 + 1 + i, 8] for i in range(4)})
    plan = plan_text({"w*": "{style: colwise, use_local_output: false}"}, f"{{tp: {2**17}}}", more="uneven: torch\n")
    result = hold(tmp_path, 3, model=model, plan=plan)
    assert b"TP9001" in result.stderr and b"131072 uneven shards" in result.stderr


def test_small_model_has_no_manifest_of_hundreds_of_megabytes(tmp_path):
    """The shape of each uneven shard is listed: 400 parameters over 2^16 ranks needed 594 MB."""
    model = linear_model(**{f"w{i}": [2**20 + 1 + i, 8] for i in range(400)})
    plan = plan_text({"w*": "{style: colwise, use_local_output: false}"}, f"{{tp: {2**16}}}", more="uneven: torch\n")
    result = hold(tmp_path, 3, model=model, plan=plan)
    assert b"TP9001" in result.stderr and b"more than 8388608 uneven shards" in result.stderr


def test_all_errors_of_a_plan_are_reported_at_once(tmp_path):
    plan = plan_text({"wq": "colwize", "wk": "[model, null]", "wv": "{style: colwise, sequence_dim: 1}"})
    result = hold(tmp_path, 1, "TP3005", model=LINEAR, plan=plan)
    assert codes(result) == ["TP3005", "TP3006", "TP3008"]


def test_rule_key_is_shown_as_written(tmp_path):
    key = "é w*\t'\""
    result = hold(tmp_path, 1, "TP4001", model=LINEAR, plan=plan_text({key: "colwise"}))
    assert "`é w*\\t'\"`" in result.stderr.decode() or json.dumps(key) in result.stderr.decode()
