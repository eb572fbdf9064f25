"""The graphs that `tpplan import --from config` writes are those that the exporter records of the model: at sizes and with flags
that no template was recorded with, judged alike, and forecast alike."""

import json
import random
import sys

import pytest
from conftest import ROOT, run
from graphs import canonical

sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tools" / "templates"), str(ROOT / "tools" / "python")]

import bridge  # noqa: E402

bridge.needs("torch", "transformers")

import families  # noqa: E402
import record_family  # noqa: E402
import transformers  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from transformers.activations import ACT2CLS  # noqa: E402

ACTIVATIONS = sorted(set(ACT2CLS) - {"prelu", "xielu"})
VARIANTS = [(family, number) for family in families.FAMILIES for number in range(len(families.variants(family)))]


def unseen(family, number):
    """A config of a variant as no recording had it: other sizes, and flags that templates serve without being recorded anew."""
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
def test_a_graph_is_the_one_that_is_traced(family, number, tmp_path):
    config = unseen(family, number)
    traced, _ = record_family.trace(config, 2, 64)
    made = canonical(imported(tmp_path, config)["graph"])
    for key, value in canonical(traced).items():
        assert made[key] == value, key


def mutations(plan):
    """The plan, and plans with one rule less, or with another style for it."""
    yield plan
    for key, style in plan.items():
        yield {k: s for k, s in plan.items() if k != key}
        if style in ("colwise", "rowwise"):
            yield plan | {key: {"colwise": "rowwise", "rowwise": "colwise"}[style]}


@pytest.mark.parametrize("family", families.FAMILIES)
def test_plans_are_judged_and_forecast_alike(family, tmp_path):
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
    assert len(said) > 2  # they were not all alike


def without_places(report, status):
    """What is said of a plan: places in the models are others."""
    text = json.dumps(report).replace("traced.json", "MODEL").replace("imported.json", "MODEL")
    report = json.loads(text)

    def strip(part):
        if isinstance(part, dict):
            is_place = str(part.get("file", "")).endswith("MODEL")
            return {k: strip(v) for k, v in part.items() if not (is_place and k in ("line", "column", "length", "end"))}
        return [strip(each) for each in part] if isinstance(part, list) else part

    return [status, strip(report)]
