"""`tpplan import --from config`: the graphs match those of transformers, recorded as data/README.md describes."""

import json
import lzma
import pathlib

import pytest
from conftest import ROOT, codes, run
from graphs import digest

RECORDED = json.loads(lzma.decompress((pathlib.Path(__file__).parent / "data" / "configs.json.xz").read_bytes()))
CONFIG = RECORDED[1]["config"]  # a Llama of two layers
FAMILIES = sorted({row["config"]["model_type"] for row in RECORDED})


def import_config(folder, config, *flags):
    path = folder / "config.json"
    path.write_bytes(config if isinstance(config, bytes) else json.dumps(config).encode())
    return run("import", "--from", "config", path.name, *flags, cwd=folder)


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["config"]["model_type"])
def test_graph_matches_the_one_of_transformers(row, tmp_path):
    result = import_config(tmp_path, row["config"])
    is_gelu_of_gemma = (row["config"]["model_type"], row["config"].get("hidden_act")) == ("gemma", "gelu")
    expected = ["TP6012"] * is_gelu_of_gemma + ["TP6013"] * (row["graph"] is None)
    assert (result.returncode, codes(result)) == (0, expected), result.stderr.decode()
    model = json.loads(result.stdout)
    assert model["name"] == row["model"]["name"]
    for made, recorded in zip(model["modules"], row["model"]["modules"]):
        assert made == recorded
        for group in ("parameters", "buffers"):
            assert list(made.get(group, {})) == list(recorded.get(group, {}))
    graph = model.pop("graph", None)
    assert model == row["model"]
    assert (graph and digest(graph)) == row["graph"]


def test_each_family_is_recorded_with_several_configs():
    known = import_config_known()
    assert known == FAMILIES
    assert all(sum(row["config"]["model_type"] == family for row in RECORDED) >= 3 for family in FAMILIES)


def import_config_known():
    result = run("import", "--from", "config", "-", stdin=b'{"model_type": "unheard_of"}')
    text = " ".join(result.stderr.decode().split())
    assert (result.returncode, codes(result)) == (2, ["TP6011"])
    return sorted(text.split("use one of ")[1].split(", or export")[0].split(", "))


def test_imported_model_compiles_with_a_plan(tmp_path):
    assert import_config(tmp_path, CONFIG | {"num_key_value_heads": 4}, "-o", "model.json").returncode == 0
    result = run(
        "compile",
        tmp_path / "model.json",
        ROOT / "plans" / "llama.yaml",
        "--mesh",
        "tp=4",
        "-o",
        tmp_path / "manifest.json",
    )
    assert result.returncode == 0, result.stderr.decode()
    assert json.loads((tmp_path / "manifest.json").read_bytes())["parameters"]


def test_library_model_matches_its_config(tmp_path):
    config = pathlib.Path(__file__).parent / "data" / "llama-3-8b.config.json"
    made = json.loads(run("import", "--from", "config", config).stdout)
    shipped = json.loads((ROOT / "plans" / "models" / "llama-3-8b.json").read_bytes())
    assert [m for m in made["modules"] if "buffers" not in m] == [
        m for m in shipped["modules"] if m["path"] != "model.rotary_emb"
    ]


def test_python_floats_in_json_are_read(tmp_path):
    """Infinity and NaN, as json.dumps writes them and configs on the Hub contain them; in a string they are letters."""
    odd = {
        "time_step_limit": [0.0, float("inf")],
        "low": float("-inf"),
        "none": float("nan"),
        "label": 'say "Infinity" \\',
    }
    assert "-Infinity" in json.dumps(odd) and "NaN" in json.dumps(odd)
    made = [import_config(tmp_path, config) for config in (CONFIG, CONFIG | odd)]
    assert [m.returncode for m in made] == [0, 0] and made[0].stdout == made[1].stdout
    result = import_config(tmp_path, CONFIG | {"hidden_size": float("inf")})
    assert (result.returncode, codes(result)) == (2, ["TP6010"]) and b"Infinity" in result.stderr


def without(*names):
    return {key: value for key, value in CONFIG.items() if key not in names}


EXPERTS = {"num_experts": 2}, {"num_local_experts": 4}, {"num_experts": 2, "num_local_experts": 4}


@pytest.mark.parametrize(
    "family, counts", [("mixtral", (2, 4, 2)), ("qwen2_moe", (2, None, 2)), ("qwen3_moe", (2, 4, 4))]
)
def test_expert_count_uses_the_key_of_the_family(family, counts, tmp_path):
    """The `num_experts` of transformers 5.23 after reading such a config; None: its default, which is never guessed."""
    for keys, count in zip(EXPERTS, counts):
        config = (
            CONFIG | {"model_type": family, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16} | keys
        )
        result = import_config(tmp_path, config)
        assert (result.returncode == 0) == (count is not None), result.stderr.decode()
        if count is not None:
            assert {
                m["attributes"]["num_experts"]
                for m in json.loads(result.stdout)["modules"]
                if "num_experts" in m.get("attributes", {})
            } == {count}


BAD = {
    "no model_type": (without("model_type"), "TP6010", (1, 1)),
    "model_type null": (CONFIG | {"model_type": None}, "TP6010", (1, 1)),
    "model_type a number": (CONFIG | {"model_type": 3}, "TP6010", None),
    "unknown model_type": (b'{\n  "model_type": "lama"}', "TP6011", (2, 17)),
    "another architecture": (CONFIG | {"architectures": ["LlamaModel"]}, "TP6011", None),
    "architectures no list": (CONFIG | {"architectures": "LlamaForCausalLM"}, "TP6010", None),
    **{
        f"no {name}": (without(name), "TP6010", (1, 1))
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    },
    "null size": (CONFIG | {"vocab_size": None}, "TP6010", None),
    "size 0": (CONFIG | {"hidden_size": 0}, "TP6010", None),
    "negative size": (CONFIG | {"vocab_size": -1}, "TP6010", None),
    "float size": (
        b'{"model_type": "llama",\n "vocab_size": 1.5, "hidden_size": 8, "intermediate_size": 8, '
        b'"num_hidden_layers": 1, "num_attention_heads": 1}',
        "TP6010",
        (2, 16),
    ),
    "huge size": (CONFIG | {"vocab_size": 10**30}, "TP6010", None),
    "2^32": (CONFIG | {"vocab_size": 2**32}, "TP6010", None),
    "fused rows past 64 bits": (
        CONFIG
        | {"model_type": "phi3"}
        | dict.fromkeys(("num_attention_heads", "num_key_value_heads", "head_dim"), 2**31),
        "TP6010",
        (1, 1),
    ),
    "string size": (CONFIG | {"vocab_size": "96"}, "TP6010", None),
    "too many layers": (CONFIG | {"num_hidden_layers": 10**9}, "TP6010", None),
    "heads do not divide hidden": (CONFIG | {"num_attention_heads": 3, "num_key_value_heads": 3}, "TP6010", None),
    "heads among kv heads": (CONFIG | {"num_key_value_heads": 3}, "TP6010", None),
    "flag no flag": (CONFIG | {"attention_bias": "yes"}, "TP6010", None),
    "dtype unknown": (CONFIG | {"dtype": "float31"}, "TP6010", None),
    "activation unknown": (CONFIG | {"hidden_act": "sillu"}, "TP6010", None),
    "activation with parameters": (CONFIG | {"hidden_act": "prelu"}, "TP6010", None),
    "rope no object": (CONFIG | {"rope_scaling": [1]}, "TP6010", None),
    "moe without experts": ({"model_type": "qwen3_moe"} | without("model_type"), "TP6010", None),
    "not JSON": (b"model_type: llama", "TP1003", (1, 1)),
    "an array": (b"[]", "TP1003", (1, 1)),
    "empty": (b"", "TP1008", None),
    "a key twice": (b'{"model_type": "llama",\n"model_type": "llama"}', "TP1006", (2, 1)),
    "not UTF-8": (b'{"model_type": "\xff"}', "TP1003", None),
    "deep": (b'{"a": ' + b"[" * 10**5, "TP1007", None),
    "too large": (b'{"a": "' + b"x" * (5 << 20) + b'"}', "TP1002", None),
    "hostile type": (CONFIG | {"model_type": "<script>\x1b[2J\u202e"}, "TP6011", None),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_config_is_an_error_with_a_place(name, tmp_path):
    content, code, place = BAD[name]
    result = import_config(tmp_path, content, "-o", "model.json")
    text = result.stderr.decode()
    assert result.returncode == 2 and result.stdout == b"", text
    assert set(codes(result)) == {code}, text
    assert not (tmp_path / "model.json").exists()
    line, column = text.split("config.json:", 1)[1].split(":")[:2]
    assert int(line) >= 1 and int(column) >= 1
    if place is not None:
        assert (int(line), int(column)) == place
    assert "\x1b" not in text and "\u202e" not in text


def test_unread_setting_is_a_warning(tmp_path):
    result = import_config(tmp_path, CONFIG | {"quantization_config": {"bits": 4}})
    assert (result.returncode, codes(result)) == (0, ["TP6012"])


def test_config_is_never_the_output(tmp_path):
    result = import_config(tmp_path, CONFIG, "-o", "config.json")
    assert (result.returncode, codes(result)) == (2, ["TP1010"])
    assert json.loads((tmp_path / "config.json").read_bytes()) == CONFIG


def imported_graph(folder, config):
    result = import_config(folder, config)
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout).get("graph"), result


ONE_OF_EACH = {row["config"]["model_type"]: row for row in RECORDED if row["graph"]}


@pytest.mark.parametrize("family", FAMILIES)
def test_operations_of_every_family_are_valid(family, tmp_path):
    """The reader accepts the graph, and every operation on replicated values has the traced result; at another length as well."""
    assert import_config(tmp_path, ONE_OF_EACH[family]["config"], "-o", "model.json").returncode == 0
    (tmp_path / "plan.yaml").write_text("format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {}\n")
    for more in ((), ("--sequence", "48", "--batch", "3")):
        result = run("check", "model.json", "plan.yaml", "--allow", "TP4006", "--allow", "TP4007", *more, cwd=tmp_path)
        assert not [code for code in codes(result) if code.startswith("TP2")], result.stderr.decode()


def test_wrong_shape_in_a_graph_is_detected(tmp_path):
    """The test above would fail if an expression of a template were wrong."""
    graph, _ = imported_graph(tmp_path, CONFIG)
    model = json.loads(import_config(tmp_path, CONFIG).stdout)
    wrong = graph["shapes"].index([2, 64, CONFIG["hidden_size"]])
    model["graph"]["shapes"][wrong] = [2, 64, CONFIG["hidden_size"] + 1]
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "plan.yaml").write_text("format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {}\n")
    assert "TP2013" in codes(run("check", "model.json", "plan.yaml", cwd=tmp_path))


UNRECORDED = {
    "a rope that nobody knows": (
        CONFIG | {"rope_scaling": {"rope_type": "xpos", "factor": 4.0}},
        "rope of type `xpos`",
    ),
    "a rope of pictures": (CONFIG | {"rope_scaling": {"rope_type": "axial"}}, "rope of type `axial`"),
    **{
        f"{kind} without {key}": (CONFIG | {"rope_scaling": {"rope_type": kind} | rest}, f"`{kind}` has no `{key}`")
        for kind, key, rest in (
            ("yarn", "factor", {"original_max_position_embeddings": 32}),
            ("linear", "factor", {}),
            ("dynamic", "factor", {}),
            ("llama3", "high_freq_factor", {"factor": 8.0, "low_freq_factor": 1.0}),
            ("longrope", "short_factor", {"long_factor": [1.0] * 8}),
        )
    },
    "a factor that is no number": (CONFIG | {"rope_scaling": {"rope_type": "yarn", "factor": "4"}}, "`factor` of rope"),
    "a logarithm of nothing": (
        CONFIG | {"rope_scaling": {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 0}},
        "the scaling of its rope is not a number",
    ),
    "a list of another length": (
        CONFIG | {"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.0] * 7}},
        "`long_factor` of rope has 7 numbers, but rotates 8 pairs",
    ),
    "a list that is none": (
        CONFIG | {"rope_scaling": {"rope_type": "longrope", "short_factor": 1.0, "long_factor": [1.0] * 8}},
        "`short_factor` of rope is not a list",
    ),
    "a list with a text": (
        CONFIG | {"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": ["1"] * 8}},
        "is not a number",
    ),
    "a dynamic rope beyond its length": (
        CONFIG | {"max_position_embeddings": 63, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        "changes beyond 63 tokens, but the step has 64",
    ),
    "a part of each head that its attention does not take": (
        CONFIG | {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}},
        "rope rotates 8 dims of 16",
    ),
    "a rope for each type of layers": (
        CONFIG | {"rope_scaling": {"full_attention": {"rope_type": "default"}}},
        "a separate rope for each layer type",
    ),
    "a rope that phi3 refuses": (
        ONE_OF_EACH["phi3"]["config"] | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        "rope of type `linear`",
    ),
    "a flag": (CONFIG | {"output_attentions": True}, "`output_attentions` is true, but was false"),
    "another rope type": (CONFIG | {"rope_scaling": {"rope_type": 7}}, "rope of type `7`"),
    "a length of layer_types": (
        CONFIG | {"model_type": "qwen2", "layer_types": ["full_attention"], "num_key_value_heads": 2},
        "`layer_types` is not a list of 2 types",
    ),
    "a type of layers": (
        CONFIG
        | {"model_type": "qwen2", "layer_types": ["full_attention", "chunked_attention"], "num_key_value_heads": 2},
        "layers of the type `chunked_attention`",
    ),
    "a number that is none": (CONFIG | {"rms_norm_eps": "tiny"}, "`rms_norm_eps` is a string"),
    "more experts a token than there are": (
        ONE_OF_EACH["mixtral"]["config"] | {"num_experts_per_tok": 100},
        "100 experts per token",
    ),
    "a padding token before the vocabulary": (CONFIG | {"pad_token_id": -97}, "`pad_token_id` is -97"),
    "a padding token between two": (CONFIG | {"pad_token_id": 1.5}, "`pad_token_id` is 1.5"),
    "another attention": (CONFIG | {"_attn_implementation": "eager"}, "is eager, but was sdpa"),
    "attention to what follows": (CONFIG | {"is_causal": False}, "`is_causal` is false, but was true"),
    "experts one after the other": (
        ONE_OF_EACH["mixtral"]["config"] | {"experts_implementation": "batched_mm"},
        "is batched_mm, but was grouped_mm",
    ),
    "a padding token beyond the vocabulary": (CONFIG | {"pad_token_id": 96}, "`pad_token_id` is 96"),
    "an odd number of rotated dims": (
        ONE_OF_EACH["gpt_neox"]["config"] | {"num_attention_heads": 4, "rotary_pct": 0.3125},
        "is not divisible by 2",
    ),
}


@pytest.mark.parametrize("name", UNRECORDED)
def test_config_without_traced_operations_has_a_reason(name, tmp_path):
    config, reason = UNRECORDED[name]
    graph, result = imported_graph(tmp_path, config)
    text = " ".join(result.stderr.decode().split())
    assert graph is None and codes(result) == ["TP6013"] and reason in text, text


def test_negative_padding_token_counts_from_the_end(tmp_path):
    graphs = [imported_graph(tmp_path, CONFIG | {"pad_token_id": padding})[0] for padding in (-3, 93)]
    assert graphs[0] == graphs[1]


def test_each_layer_has_separate_modules(tmp_path):
    graph, _ = imported_graph(tmp_path, CONFIG | {"num_hidden_layers": 80})
    entered = [graph["strings"][n[1]] for n in graph["nodes"] if graph["strings"][n[0]] == "@enter"]
    assert sum(path.endswith("self_attn.q_proj") for path in entered) == 80 and len(set(entered)) == len(entered)


def test_missing_parameters_are_no_arguments(tmp_path):
    """One template serves models with and without biases, with and without tied parameters."""
    with_bias, _ = imported_graph(tmp_path, CONFIG | {"attention_bias": True, "mlp_bias": True})
    tied, _ = imported_graph(tmp_path, CONFIG | {"tie_word_embeddings": True})
    plain, _ = imported_graph(tmp_path, CONFIG | {"tie_word_embeddings": False})
    paths = {
        name: {g["strings"][leaf[2]] for leaf in g["leaves"]}
        for name, g in {"bias": with_bias, "tied": tied, "plain": plain}.items()
    }
    assert "model.layers.0.self_attn.q_proj.bias" in paths["bias"] - paths["plain"]
    assert paths["plain"] - paths["tied"] == {"lm_head.weight"}
