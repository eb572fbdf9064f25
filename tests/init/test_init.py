"""`tpplan init`: the first plan of a model is correct, shards all that can be sharded, and matches the library plan if there is one."""

import json
import lzma
import math

import pytest
from conftest import ROOT, codes, linear_model, run

RECORDED = json.loads(lzma.decompress((ROOT / "tests" / "import" / "data" / "configs.json.xz").read_bytes()))
MODELS = ROOT / "tests" / "plans" / "models"
LARGE = 1 << 18  # elements from which a parameter without a rule is reported
READY = [
    ("llama-3-8b", "llama", "tp=8", "glob"),
    ("llama-3-70b", "llama", "tp=8", "glob"),
    ("qwen2.5-7b", "qwen2", "tp=4", "transformers"),
    ("qwen2.5-32b", "qwen2", "tp=8", "transformers"),
    ("mixtral-8x7b", "mixtral", "tp=4", "transformers"),
    ("gpt-neox-20b", "gpt-neox", "tp=8", "transformers"),
    ("deepseek-v3", "deepseek-v3", "tp=16", "transformers"),
    ("bert-base", "bert", "tp=4", "glob"),
    ("t5-base", "t5", "tp=4", "glob"),
    ("equinox-decoder", "equinox", "fsdp=2,tp=4", "glob"),
]


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")

    def find(name):
        for plain in (ROOT / "plans" / "models" / f"{name}.json", MODELS / f"{name}.json", folder / f"{name}.json"):
            if plain.exists():
                return plain
        (folder / f"{name}.json").write_bytes(lzma.decompress((MODELS / f"{name}.json.xz").read_bytes()))
        return folder / f"{name}.json"

    return find


def drafted(folder, model, *flags):
    """The manifest of the model under its first plan, after a check without warnings except `allowed`."""
    plan = folder / "plan.yaml"
    result = run("init", model, "-o", plan, "--force", *flags)
    assert result.returncode == 0, result.stderr.decode()
    return plan, json.loads(compiled(model, plan))


def compiled(model, plan, *flags):
    result = run("compile", model, plan, "--strict", *flags)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def specs(manifest):
    return {entry["path"]: entry["spec"] for entry in manifest["parameters"]}


@pytest.mark.parametrize(("model", "ready", "mesh", "dialect"), READY)
def test_first_plan_shards_as_the_library_plan(model_file, tmp_path, model, ready, mesh, dialect):
    path = model_file(model)
    _, manifest = drafted(tmp_path, path, "--mesh", mesh, "--dialect", dialect)
    assert specs(manifest) == specs(json.loads(compiled(path, ROOT / "plans" / f"{ready}.yaml", "--mesh", mesh)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("dialect", ["glob", "transformers"])
@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["config"]["model_type"])
def test_every_config_gets_a_correct_plan(tmp_path, row, dialect, ranks):
    config, model = tmp_path / "config.json", tmp_path / "model.json"
    config.write_text(json.dumps(row["config"]))
    assert run("import", "--from", "config", config, "-o", model).returncode == 0
    result = run("init", config, "--mesh", f"tp={ranks}", "--dialect", dialect, "-o", tmp_path / "plan.yaml")
    if result.returncode == 1:  # the mesh divides no size: some rank would have no shard
        assert b"no part of" in result.stderr
        assert all(size % ranks for size in sizes_of(row["config"])), result.stderr.decode()
        return
    assert result.returncode == 0, result.stderr.decode()
    manifest = json.loads(compiled(model, tmp_path / "plan.yaml"))
    for entry in manifest["parameters"]:
        is_large = math.prod(entry["shape"]) > LARGE
        assert not is_large or entry["reason"] != "default" or entry["spec"] != [None] * len(entry["shape"]), entry


def sizes_of(config):
    return [config[key] for key in ("vocab_size", "hidden_size", "intermediate_size") if key in config]


CONFIG = ROOT / "tests" / "import" / "data" / "llama-3-8b.config.json"


def test_plan_file_references_a_schema_next_to_it(tmp_path):
    assert run("init", CONFIG, "-o", tmp_path / "plan.yaml").returncode == 0
    first = (tmp_path / "plan.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=plan.schema.json"
    assert (tmp_path / "plan.schema.json").read_bytes() == run("schema", "plan").stdout
    assert run("fmt", "--check", tmp_path / "plan.yaml").returncode == 0


def test_plan_on_stdout_references_no_schema(tmp_path):
    result = run("init", CONFIG, cwd=tmp_path)
    assert b"format: tpplan.plan/1" in result.stdout and b"$schema" not in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_replaced_only_with_force(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("mine")
    (tmp_path / "plan.schema.json").write_text("mine")
    result = run("init", CONFIG, "-o", plan)
    assert result.returncode == 2 and b"--force" in result.stderr and plan.read_text() == "mine"
    assert run("init", CONFIG, "-o", plan, "--force", "--no-schema").returncode == 0
    assert plan.read_text().startswith("# A draft plan")
    assert (tmp_path / "plan.schema.json").read_text() == "mine"


def small_llama(**fields):
    config = json.loads(CONFIG.read_text()) | {"num_hidden_layers": 2} | fields
    return json.dumps(config)


def init_small(folder, *flags, **fields):
    (folder / "config.json").write_text(small_llama(**fields))
    return run("init", folder / "config.json", *flags)


def test_default_mesh_is_the_largest_that_shards_everything(tmp_path):
    assert b"mesh: {tp: 8}" in init_small(tmp_path).stdout
    assert b"mesh: {tp: 2}" in init_small(tmp_path, num_key_value_heads=2).stdout


def test_indivisible_heads_are_reported_and_never_split(tmp_path):
    result = init_small(tmp_path, "--mesh", "tp=8", num_key_value_heads=2)
    text = " ".join(result.stdout.decode().replace("#", "").split())
    assert result.returncode == 0 and "Otherwise: `tp` (8) does not divide the 2 kv heads" in text
    assert '"self_attn.q_proj": colwise_gather_output' in text and '"mlp.up_proj": colwise' in text
    assert '"self_attn.k_proj": colwise_gather_output' in text  # sharded; the output is gathered before heads unfold


def test_model_that_no_axis_divides_gets_no_plan(tmp_path):
    result = init_small(tmp_path, "--mesh", "tp=3", "-o", tmp_path / "plan.yaml", intermediate_size=14336)
    assert result.returncode == 0 and b": replicated, because" in (tmp_path / "plan.yaml").read_bytes()
    result = init_small(tmp_path, "--mesh", "tp=11", "-o", tmp_path / "other.yaml")
    assert result.returncode == 1 and b"no part of LlamaForCausalLM" in result.stderr
    assert not (tmp_path / "other.yaml").exists()


def write_weights(path):
    """Attention of one layer, without its heads."""
    header = {"model.layers.0.self_attn.%s_proj.weight" % name: [64, 64] for name in "qkvo"}
    body = json.dumps(
        {
            n: {"dtype": "F32", "shape": s, "data_offsets": [i * 16384, (i + 1) * 16384]}
            for i, (n, s) in enumerate(header.items())
        }
    )
    body += " " * (-len(body) % 8)
    path.write_bytes(len(body).to_bytes(8, "little") + body.encode() + bytes(16384 * 4))


def test_checkpoint_heads_come_from_the_config_next_to_it(tmp_path):
    write_weights(tmp_path / "model.safetensors")
    assert (
        b'"model.layers.0.self_attn.q_proj": colwise\n'
        in run("init", tmp_path / "model.safetensors", "--mesh", "tp=8").stdout
    )
    (tmp_path / "config.json").write_text(small_llama(hidden_size=64, num_attention_heads=4, num_key_value_heads=4))
    gathered = run("init", tmp_path / "model.safetensors", "--mesh", "tp=8").stdout
    assert b"does not divide the 4 kv heads" in gathered.replace(b"\n# ", b" ")
    assert b'"model.layers.0.self_attn.q_proj": colwise_gather_output\n' in gathered


def test_config_next_to_weights_stays_in_their_folder(tmp_path):
    snapshot, blobs = tmp_path / "snapshots" / "0123", tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (snapshot / "model.safetensors").symlink_to("../../blobs/weights")
    (snapshot / "config.json").symlink_to("../../blobs/config")
    (blobs / "config").write_text(small_llama(hidden_size=64, num_attention_heads=4, num_key_value_heads=4))
    write_weights(blobs / "weights")  # the cache of huggingface_hub
    assert run("init", snapshot / "model.safetensors", "--mesh", "tp=2").returncode == 0
    folder = tmp_path / "weights"
    folder.mkdir()
    write_weights(folder / "model.safetensors")
    (folder / "config.json").symlink_to(blobs / "config")
    for words, cwd in (([folder / "model.safetensors"], tmp_path), (["model.safetensors"], folder)):
        result = run("init", *words, "--mesh", "tp=2", cwd=cwd)
        assert (result.returncode, codes(result)) == (2, ["TP1001"])
        assert b"a link to a file outside their folder" in result.stderr and b"--model-config FILE" in result.stderr
        assert run("init", *words, "--model-config", blobs / "config", "--mesh", "tp=2", cwd=cwd).returncode == 0


def test_dialect_must_support_the_framework():
    result = run("init", MODELS / "keras-decoder.json", "--dialect", "transformers")
    assert result.returncode == 2 and b"a model of keras" in result.stderr
    result = run("init", MODELS / "keras-decoder.json", "--mesh", "batch=2,model=4")
    assert b'"attention/query/kernel": {spec: [model, null, null]}' in result.stdout


def test_unknown_parameters_prevent_sharding_without_operations(tmp_path):
    (tmp_path / "model.json").write_bytes(lzma.decompress((MODELS / "gpt-oss-120b.json.xz").read_bytes()))
    text = " ".join(run("init", tmp_path / "model.json", "--mesh", "tp=4").stdout.decode().replace("#", "").split())
    assert "the use of `self_attn.sinks` is unknown" in text
    assert '"self_attn.q_proj": colwise_gather_output' in text


def test_list_of_one_block_is_sharded_like_longer_lists(tmp_path):
    model = linear_model(
        **{
            f"{block}__ffn__{name}": shape
            for block in ("b__0__0", "b__1__0", "b__1__1")
            for name, shape in (("fc1", [1024, 512]), ("fc2", [512, 1024]))
        }
    )
    kinds = {"b": "ModuleList", "b.0": "Sequential", "b.1": "Sequential"} | dict.fromkeys(
        ("b.0.0", "b.1.0", "b.1.1"), "Block"
    )
    there = {module["path"] for module in model["modules"]}
    model["modules"] += [{"path": path, "type": kind} for path, kind in kinds.items() if path not in there]
    for module in model["modules"]:
        module["type"] = kinds.get(module["path"], module["type"])
    model["modules"].sort(key=lambda module: module["path"])
    (tmp_path / "model.json").write_text(json.dumps(model))
    plan, manifest = drafted(tmp_path, tmp_path / "model.json", "--mesh", "tp=2")
    assert plan.read_text().count('"ffn.fc1": colwise') == 1
    assert all(any(spec) for spec in specs(manifest).values())


@pytest.mark.parametrize("dialect", ["glob", "transformers"])
@pytest.mark.parametrize("name", ["[a]", "w?", "w*", "[[]", "]", "[!a]x"])
def test_glob_characters_in_keys_are_escaped(tmp_path, name, dialect):
    """`[a]` is a glob class, and `w?` would match `wx`: layers with those names are different layers."""
    if dialect == "transformers" and "*" in name:
        pytest.skip("a key of transformers cannot name a module with a star")
    shapes = {"gate_proj": [512, 64], "up_proj": [512, 64], "down_proj": [64, 512]}
    others = ["a", "wx", "wxy", "[", "x"]
    paths = [f"{block}.{layer}" for block in [name, *others] for layer in shapes]
    model = linear_model(**{"unused": [8, 8]})
    model["modules"] = [
        {
            "path": path,
            "type": "Linear",
            "parameters": {"weight": {"shape": shapes[path.rsplit(".", 1)[1]], "dtype": "float32"}},
        }
        for path in paths
    ]
    (tmp_path / "model.json").write_text(json.dumps(model))
    result = run("init", tmp_path / "model.json", "--mesh", "tp=4", "--dialect", dialect, "-o", tmp_path / "plan.yaml")
    assert result.returncode == 0, result.stderr.decode()
    manifest = json.loads(compiled(tmp_path / "model.json", tmp_path / "plan.yaml"))
    matched = {}
    for parameter in manifest["parameters"]:
        if parameter["rule"] is not None:
            matched.setdefault(parameter["rule"], []).append(parameter["path"])
    own = [rule for rule, paths in matched.items() if any(path.startswith(f"{name}.") for path in paths)]
    assert own and all(len(matched[rule]) == 1 for rule in own), matched


def test_sizes_take_precedence_over_names_of_mlp_layers(tmp_path):
    """Qwen-1 multiplies w1 and w2, which Llama's checkpoints name gate and down, and returns by c_proj."""
    sizes = {"w1": [176, 64], "w2": [176, 64], "c_proj": [64, 176]}
    modules = [
        {"path": f"mlp.{name}", "type": "Linear", "parameters": {"weight": {"shape": shape, "dtype": "float32"}}}
        for name, shape in sizes.items()
    ]
    model = tmp_path / "model.json"
    model.write_text(json.dumps({"format": "tpplan.model/1", "name": "M", "framework": "torch", "modules": modules}))
    plan = run("init", model, "--mesh", "tp=2", "-o", tmp_path / "plan.yaml")
    assert plan.returncode == 0, plan.stderr
    rules = (tmp_path / "plan.yaml").read_text()
    for name, style in (("w1", "colwise"), ("w2", "colwise"), ("c_proj", "rowwise")):
        assert f'"mlp.{name}": {style}' in rules or f"mlp.{name}: {style}" in rules
