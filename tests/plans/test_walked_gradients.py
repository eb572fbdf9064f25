"""The gradients of module boundaries in a manifest, as the walk of the operations finds them."""

import json

from conftest import run

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 6,
    "vocab_size": 32,
    "max_position_embeddings": 16,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "float32",
}

# The norm passes a DTensor to the colwise layers, so its boundary reduces their partial gradient.
PLAN = """\
format: tpplan.plan/1
dialect: torch
mesh: {tp: 2}
tp_plan:
  model.layers.*.post_attention_layernorm: {style: prepare_module_output, output_layouts: Replicate,
    desired_output_layouts: Replicate, use_local_output: false}
  model.layers.*.mlp.gate_proj: colwise
  model.layers.*.mlp.up_proj: colwise
  model.layers.*.mlp.down_proj: rowwise
"""


def gradients_of(manifest, name):
    """The distinct gradients of modules that end with `name`, and their number."""
    found = [
        (side, value["gradient"]["from"], value["gradient"]["to"])
        for module in manifest["modules"]
        if module["path"].endswith(name)
        for side in ("inputs", "outputs")
        for value in module[side]
    ]
    return [found[i] for i in range(len(found)) if found[i] not in found[:i]], len(found)


def test_repeated_layers_have_the_walked_gradients(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert run("import", "config.json", "--from", "config", "-q", "-o", "model.json", cwd=tmp_path).returncode == 0
    result = run("compile", "model.json", "plan.yaml", "-q", "-o", "manifest.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    partial, whole, sharded = ["Partial(sum)"], ["Replicate"], ["Shard(-1)"]
    assert gradients_of(manifest, "post_attention_layernorm") == ([("outputs", partial, whole)], 6)
    for name in ("gate_proj", "up_proj"):
        assert gradients_of(manifest, name) == ([("inputs", partial, partial), ("outputs", sharded, sharded)], 12)
    backward = [call for call in manifest["collectives"] if call["phase"] == "backward"]
    sums = sum(len(value.get("backward", [])) for m in manifest["modules"] for value in (*m["inputs"], *m["outputs"]))
    assert sums == len(backward) == 6
