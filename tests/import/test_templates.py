"""The graphs of `tpplan import --from config` match those that the exporter traces: at sizes and with flags of no recording, with the same
check results and forecasts."""

import json
import random
import sys

import pytest
from conftest import ROOT, run
from graphs import canonical

sys.path[:0] = [
    str(ROOT / "tests" / "python"),
    str(ROOT / "tools" / "generate" / "templates"),
    str(ROOT / "tools" / "python"),
]

import bridge  # noqa: E402

bridge.needs("torch", "transformers")

import families  # noqa: E402
import record_family  # noqa: E402
import transformers  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from transformers.activations import ACT2CLS  # noqa: E402

ACTIVATIONS = sorted(set(ACT2CLS) - {"prelu", "xielu"})
# All variants; of those with a longrope some of each family, because they differ only before the layers.
VARIANTS = [
    (family, number)
    for family in families.FAMILIES
    for number, variant in enumerate(families.variants(family))
    if variant["rope"] == "static" or number % 8 == 1
]


def unseen(family, number):
    """A config of a variant that differs from every recording: other sizes, and flags that templates support without a new recording."""
    config_class = transformers.CONFIG_MAPPING[family]
    config, _, _ = families.draw(family, families.variants(family)[number], config_class, 1000 + number)
    choose = random.Random(f"{family} {number}")
    for name in ("hidden_act", "hidden_activation"):
        if name in config_class().to_dict():
            config[name] = choose.choice(ACTIVATIONS)
    config["tie_word_embeddings"] = choose.random() < 0.5
    for name in ("attention_bias", "mlp_bias", "qkv_bias", "use_bias"):
        if name in config:
            config[name] = choose.random() < 0.5
    if choose.random() < 0.3:
        config["pad_token_id"] = None
    return config


def imported(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    result = run("import", "--from", "config", "config.json", cwd=folder)
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


@pytest.mark.parametrize("family, number", VARIANTS)
def test_template_graph_matches_the_trace(family, number, tmp_path):
    config = unseen(family, number)
    traced, _ = record_family.trace(config, 2, 64)
    made = canonical(imported(tmp_path, config)["graph"])
    for key, value in canonical(traced).items():
        assert made[key] == value, key


def long_rope(rotated, **more):
    """Lists have a number for each rotated pair of dims."""
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 100}
    lists = {"short_factor": [1.25] * (rotated // 2), "long_factor": [2, *[2.5, 1e-3] * rotated][: rotated // 2]}
    return {"rope_scaling": rope | lists | more}


YARN = {"rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 100}
# Of a Llama with heads of 24 dims and at most 1000 recorded tokens.
ROPES = {
    "yarn": {"rope_scaling": YARN},
    "yarn of an old file": {"rope_scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 500}},
    "yarn with a factor of attention": {"rope_scaling": YARN | {"attention_factor": 0.75}},
    "yarn with a factor of 1": {"rope_scaling": YARN | {"factor": 1.0}},
    "yarn by lengths": {"rope_scaling": YARN | {"factor": None}},
    "yarn by lengths beside it": {"rope_scaling": YARN | {"factor": None}, "original_max_position_embeddings": 250},
    "yarn with two scales": {"rope_scaling": YARN | {"mscale": 0.707, "mscale_all_dim": 1.2}},
    "yarn with one scale": {"rope_scaling": YARN | {"mscale": 0.707}},
    "yarn among parameters": {"rope_parameters": YARN | {"rope_theta": 7e4}},
    "two dictionaries": {"rope_parameters": YARN, "rope_scaling": YARN | {"factor": 3.0}},
    "an empty dictionary": {"rope_parameters": YARN, "rope_scaling": {}},
    "proportional": {"rope_scaling": {"rope_type": "proportional", "partial_rotary_factor": 0.5}},
    "dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "dynamic at its longest": {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}, "max_position_embeddings": 64},
    "longrope": long_rope(24),
    "longrope with a factor": long_rope(24, factor=3.0),
    "longrope with a factor of attention": long_rope(24, attention_factor=1.19),
    "longrope of short models": long_rope(24, factor=0.5),
    "longrope with theta": long_rope(24, rope_theta=30000),
    "longrope beside a theta": long_rope(24) | {"rope_theta": 2e5, "original_max_position_embeddings": 200},
    "longrope of no length": long_rope(24, original_max_position_embeddings=1000),
}


@pytest.mark.parametrize("name", ROPES)
def test_every_rope_matches_the_trace(name, tmp_path):
    small = {
        "model_type": "llama",
        "hidden_size": 96,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "vocab_size": 90,
    }
    config = small | {"num_attention_heads": 4, "max_position_embeddings": 1000, "dtype": "float16"} | ROPES[name]
    needs_data = "dynamic" in name
    traced, _ = record_family.trace(json.loads(json.dumps(config)), 2, 64, "cpu" if needs_data else "meta")
    assert canonical(imported(tmp_path, config)["graph"]) == canonical(traced)


@pytest.mark.parametrize("family", families.FAMILIES)
def test_length_dependent_rope_matches_the_trace(family, tmp_path):
    """phi3 has no rope of this type, and its yarn is a longrope. Experts run as one matmul only on the meta device: for their models the
    test compares the part before the layers."""
    config = unseen(family, 0)
    part = config.get("rotary_pct", config.get("partial_rotary_factor", 1.0))
    rotated = int(config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]) * part)
    if family == "phi3":
        config |= {"hidden_size": config["num_attention_heads"] * config["head_dim"]}
        config |= long_rope(rotated, rope_type="yarn", factor=9.0)
    else:
        config |= {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": 80}
    traced, _ = record_family.trace(json.loads(json.dumps(config)), 2, 64, "meta" if family == "phi3" else "cpu")
    graphs = canonical(imported(tmp_path, config)["graph"]), canonical(traced)
    if "num_experts_per_tok" in config:
        graphs = [before_layers(graph["nodes"]) for graph in graphs]
    assert graphs[0] == graphs[1]


def before_layers(nodes):
    first = next(i for i, node in enumerate(nodes) if node[:2] == ["@enter", "model.layers.0"])
    assert any(node[:2] == ["@exit", "model.rotary_emb"] for node in nodes[:first])
    return nodes[:first]


def mutations(plan):
    """The plan, and plans with one rule less, or with another style for it."""
    yield plan
    for key, style in plan.items():
        yield {k: s for k, s in plan.items() if k != key}
        if style in ("colwise", "rowwise"):
            yield plan | {key: {"colwise": "rowwise", "rowwise": "colwise"}[style]}


@pytest.mark.parametrize("family", families.FAMILIES)
def test_plans_have_the_same_check_results_and_forecasts(family, tmp_path):
    config = unseen(family, 0) | {"vocab_size": 96, "num_attention_heads": 4, "hidden_size": 128, "head_dim": 32}
    config["num_key_value_heads"] = 2
    if family == "gpt_neox":
        del config["head_dim"], config["num_key_value_heads"]
    graph, model = record_family.trace(config, 2, 64)
    (tmp_path / "traced.json").write_text(json.dumps(torch_module.model_graph(model) | {"graph": graph}))
    (tmp_path / "imported.json").write_text(json.dumps(imported(tmp_path, config)))
    plan = dict(model.config.base_model_tp_plan)
    base = model.base_model_prefix
    rules = {f"{base}.{key}": style for key, style in plan.items()} | dict(type(model)._tp_plan or {})
    said = set()
    for mutated in mutations(rules):
        text = {"format": "tpplan.plan/1", "dialect": "transformers", "mesh": {"tp": 2}, "tp_plan": mutated}
        (tmp_path / "plan.yaml").write_text(json.dumps(text))
        results = [
            run("check", name, "plan.yaml", "--costs", "--format", "json", cwd=tmp_path)
            for name in ("traced.json", "imported.json")
        ]
        first, second = (without_places(json.loads(r.stdout), r.returncode) for r in results)
        assert first == second, mutated
        said.add(json.dumps(first, sort_keys=True))
    assert len(said) > 2  # the results differ between plans


def without_places(report, status):
    """The output for a plan without places, which differ between the models."""
    text = json.dumps(report).replace("traced.json", "MODEL").replace("imported.json", "MODEL")
    report = json.loads(text)

    def strip(part):
        if isinstance(part, dict):
            is_place = str(part.get("file", "")).endswith("MODEL")
            return {k: strip(v) for k, v in part.items() if not (is_place and k in ("line", "column", "length", "end"))}
        return [strip(each) for each in part] if isinstance(part, list) else part

    return [status, strip(report)]
