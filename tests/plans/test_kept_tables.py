"""Plans checked one after another with shared caches have the results of separate checks: variants and random plans, of several kinds of
models, for every runtime (kept_tables.cc compares them)."""

import collections
import json
import lzma
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT, run
from test_each_layer import FAMILIES

sys.path.insert(0, str(ROOT / "tests" / "truth"))
DRIVER = pathlib.Path(PROGRAM).resolve().parent / "tests" / "tpplan_kept_tables"
LLAMA = ROOT / "plans" / "models" / "llama-3-8b.json"


def compare(model, count, *plans):
    """(checked plans, wrong ones, plans without any evaluation of an operation rule)"""
    result = subprocess.run([DRIVER, model, str(count), *plans], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return map(int, re.findall(r"\d+", result.stdout))


@pytest.mark.parametrize("plan", ["llama", "llama-fsdp-tp"])
def test_shipped_plans_and_random_variants(plan):
    judged, wrong, kept = compare(LLAMA, 60, ROOT / "plans" / f"{plan}.yaml")
    assert judged == 120 and wrong < judged and kept > 50


@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen3_moe", "gpt_neox", "gemma2"])
def test_model_family_in_both_dialects(family, tmp_path):
    config = FAMILIES[family] | {"num_hidden_layers": 4}
    if "layer_types" in config:
        config["layer_types"] = (config["layer_types"] * 4)[:4]
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = tmp_path / "model.json"
    assert run("import", "--from", "config", "config.json", "-o", model, cwd=tmp_path).returncode == 0
    plans = [tmp_path / f"{dialect}.yaml" for dialect in ("glob", "transformers")]
    for plan in plans:
        assert run("init", model, "--mesh", "tp=2", "--dialect", plan.stem, "-o", plan).returncode == 0
    judged, wrong, kept = compare(model, 30, *plans)
    assert judged == 180 and wrong < judged and kept > 50


def test_encoder_with_a_decoder(tmp_path):
    """models/t5-step.json.xz: python -m tpplan.export --transformers T5ForConditionalGeneration --kwargs '{"d_model": 32, "d_kv": 8,
    "d_ff": 48, "num_layers": 4, "num_heads": 4, "vocab_size": 64}' --batch 2 --sequence 16"""
    model = tmp_path / "t5.json"
    model.write_bytes(lzma.decompress((ROOT / "tests/plans/models/t5-step.json.xz").read_bytes()))
    judged, wrong, kept = compare(model, 60, ROOT / "plans" / "t5.yaml")
    assert judged == 120 and wrong < judged and kept > 50


@pytest.mark.parametrize("runs", ["runs_torch", "runs_transformers"])
def test_plans_from_real_ranks_and_random_variants(runs, tmp_path):
    from test_runs import files

    plans = collections.defaultdict(list)
    for _, model, plan in files(tmp_path, runs):
        plans[model].append(plan)
    totals = [
        sum(column) for column in zip(*(compare(model, 3, *of_it) for model, of_it in plans.items()), strict=True)
    ]
    judged, wrong, kept = totals
    assert judged > 1000 and judged - wrong > 200 and kept > 500
