"""Real files and their real readers: a small Llama of transformers, sharded with an index by save_pretrained, and our output read by
torch's distributed checkpoint and the safetensors package."""

import json

import pytest
from executor import ROOT, run, succeeds

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
safetensors_torch = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

PLAN = (ROOT / "plans" / "llama.yaml").read_text()
MESHES = {
    "tp4": "mesh: {tp: 4}",
    "f2t2": "mesh: {fsdp: 2, tp: 2}\nuneven: torch\ndata: {axes: [fsdp]}\nfsdp: {axis: fsdp, min_weight_size: 1}",
    "tp3": "mesh: {tp: 3}\nuneven: torch",
}


@pytest.fixture(scope="module", params=["bfloat16", "float32", "tied"])
def checkpoint(request, tmp_path_factory):
    """A folder with the checkpoint and a manifest for each mesh, and its tensors."""
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        hidden_size=48,
        intermediate_size=100,
        num_hidden_layers=2,
        num_attention_heads=12,
        num_key_value_heads=12,
        vocab_size=130,
        tie_word_embeddings=request.param == "tied",
    )
    model = transformers.LlamaForCausalLM(config).to(torch.float32 if request.param == "float32" else torch.bfloat16)
    with torch.no_grad():
        model.model.norm.weight[3] = float("nan")
    model.save_pretrained(folder, max_shard_size="60KB")
    assert (folder / "model.safetensors.index.json").exists()
    assert (
        run(
            "import", "--from", "safetensors", folder / "model.safetensors.index.json", "-o", folder / "model.json"
        ).returncode
        == 0
    )
    if request.param == "tied":
        description = json.loads((folder / "model.json").read_text())
        embedding = next(m for m in description["modules"] if m["path"] == "model.embed_tokens")
        description["modules"].append(embedding | {"path": "lm_head", "type": "Linear", "kind": "linear"})
        description["tied"] = [["lm_head.weight", "model.embed_tokens.weight"]]
        (folder / "model.json").write_text(json.dumps(description))
    for name, mesh in MESHES.items():
        plan = (
            PLAN.replace("mesh: {tp: 8}", mesh).replace("uneven: torch\n", "")
            if "uneven" not in mesh
            else PLAN.replace("mesh: {tp: 8}", mesh)
        )
        (folder / f"{name}.yaml").write_text(
            plan if name != "tp4" else plan.replace("mesh: {tp: 4}", "mesh: {tp: 4}\nuneven: torch")
        )
        result = run("compile", folder / "model.json", folder / f"{name}.yaml", "-o", folder / f"{name}.json")
        assert result.returncode == 0, result.stderr.decode()
    tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    return folder, tensors


def same_bytes(a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(a.reshape(-1).contiguous().view(torch.uint8), b.reshape(-1).contiguous().view(torch.uint8))
    )


def read_by_torch(folder, tensors):
    from torch.distributed.checkpoint import HuggingFaceStorageReader, load

    state = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    load(state, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    return state


@pytest.mark.filterwarnings("ignore:torch.distributed")
@pytest.mark.parametrize("mesh", MESHES)
def test_torch_reads_saved_shards(mesh, checkpoint, tmp_path):
    folder, tensors = checkpoint
    manifest = folder / f"{mesh}.json"
    succeeds("verify", manifest, "--weights", folder)
    succeeds(
        "save", manifest, "--weights", folder, "-o", tmp_path / "out", "--consolidated", tmp_path / "one.safetensors"
    )
    state = read_by_torch(tmp_path / "out", tensors)
    assert all(same_bytes(state[name], tensor) for name, tensor in tensors.items())
    one = safetensors_torch.load_file(tmp_path / "one.safetensors")
    assert set(one) == set(tensors) and all(same_bytes(one[name], tensor) for name, tensor in tensors.items())


@pytest.mark.filterwarnings("ignore:torch.distributed")
def test_reshard_round_trip_gives_identical_files(checkpoint, tmp_path):
    folder, tensors = checkpoint
    succeeds("save", folder / "tp4.json", "--weights", folder, "-o", tmp_path / "tp4")
    before = {p.name: p.read_bytes() for p in (tmp_path / "tp4").iterdir()}
    source = "tp4"
    for target in ("f2t2", "tp3", "tp4"):
        to = tmp_path / (target + ("_again" if target == "tp4" else ""))
        succeeds(
            "reshard", folder / f"{source}.json", folder / f"{target}.json", "--from", tmp_path / source, "--to", to
        )
        state = read_by_torch(to, tensors)
        assert all(same_bytes(state[name], tensor) for name, tensor in tensors.items())
        source = target
    assert {p.name: p.read_bytes() for p in to.iterdir()} == before


@pytest.mark.filterwarnings("ignore:torch.distributed")
def test_torch_reads_fused_and_empty_shards(tmp_path):
    from weights import compile_manifest

    tensors = {
        "m.qkv": torch.arange(96, dtype=torch.float32).reshape(16, 6),
        "m.short": torch.arange(6).reshape(2, 3).to(torch.int32),
        "m.half": torch.ones(5, 4, dtype=torch.float16),
        "m.scale": torch.tensor(3.5),
        "m.none": torch.zeros(0, 4),
    }
    safetensors_torch.save_file(tensors, tmp_path / "w.safetensors")
    shapes = {name: (str(t.dtype).removeprefix("torch."), tuple(t.shape)) for name, t in tensors.items()}
    manifest = compile_manifest(
        tmp_path,
        shapes,
        {"m.qkv": ["tp", None], "m.short": ["tp", None], "m.half": [None, "tp"]},
        {"tp": 4},
        segments={"m.qkv": {"d0": [8, 4, 4]}},
    )
    succeeds("save", manifest, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "out")
    state = read_by_torch(tmp_path / "out", tensors)
    assert all(same_bytes(state[name], tensor) for name, tensor in tensors.items())


@pytest.mark.filterwarnings("ignore:torch.distributed")
def test_torch_checkpoint_is_loaded(checkpoint, tmp_path):
    from torch.distributed.checkpoint import HuggingFaceStorageWriter, save

    folder, tensors = checkpoint
    if "tied" in str(folder):
        pytest.skip("torch's writer refuses tensors that share memory")
    save(
        dict(tensors),
        storage_writer=HuggingFaceStorageWriter(str(tmp_path / "dcp"), save_distributed=True),
        no_dist=True,
    )
    assert list((tmp_path / "dcp").glob("shard-00001-*.safetensors"))
    succeeds("verify", folder / "f2t2.json", "--weights", folder, "--from", tmp_path / "dcp")


def test_torch_consolidates_saved_shards(checkpoint, tmp_path):
    from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

    folder, tensors = checkpoint
    succeeds("save", folder / "tp3.json", "--weights", folder, "-o", tmp_path / "out")
    (tmp_path / "one").mkdir()
    consolidate_safetensors_files(
        str(tmp_path / "out"), str(tmp_path / "one"), fqn_to_index_mapping=dict.fromkeys(tensors, 1)
    )
    one = safetensors_torch.load_file(next((tmp_path / "one").glob("*.safetensors")))
    assert set(one) == set(tensors) and all(same_bytes(one[name], tensor) for name, tensor in tensors.items())
