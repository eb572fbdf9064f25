"""Weights in other forms than the model's: fused tensors and their parts, also with interleaved heads of a group, other dtypes, and a
pipeline stage. The expected shard of a rank is a slice of torch's result for the global weights."""

import subprocess

import bridge
import pytest

bridge.needs("torch", "safetensors")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import tpplan  # noqa: E402
from conftest import EXECUTOR  # noqa: E402
from tpplan import manifest as m  # noqa: E402

# A fused tensor, its parts, and the dim along which they are concatenated.
FORMS = {
    "attn.qkv_proj.weight": (
        {"attn.q_proj.weight": (16, 16), "attn.k_proj.weight": (8, 16), "attn.v_proj.weight": (8, 16)},
        0,
    ),
    "attn.qkv_proj.bias": ({"attn.q_proj.bias": (16,), "attn.k_proj.bias": (8,), "attn.v_proj.bias": (8,)}, 0),
    "mlp.gate_up.weight": ({"mlp.gate.weight": (24, 16), "mlp.up.weight": (24, 16)}, 0),
    "conv.c_attn.weight": ({"conv.c_q.weight": (16, 32), "conv.c_k.weight": (16, 32), "conv.c_v.weight": (16, 32)}, 1),
}
FUSE = {
    "qkv_proj": ["q_proj", "k_proj", "v_proj"],
    "mlp.gate_up": ["mlp.gate", "mlp.up"],
    "c_attn": ["c_q", "c_k", "c_v"],
}
SPECS = {"attn": ["tp"], "mlp": [["fsdp", "tp"]], "conv": ["fsdp", "tp"]}
LAYERS = 4


def tensors(dtype=torch.float32):
    """The same values, fused and as separate parts."""
    torch.manual_seed(3)
    fused, apart = {}, {}
    for layer in range(LAYERS):
        for name, (parts, dim) in FORMS.items():
            values = {part: torch.randn(shape).to(dtype) for part, shape in parts.items()}
            apart |= {f"layers.{layer}.{part}": value for part, value in values.items()}
            fused[f"layers.{layer}.{name}"] = torch.cat(list(values.values()), dim)
    return fused, apart


def interleaved(fused, groups):
    """q of a group, k of it, v of it, and then the next group."""
    again = {}
    for path, value in fused.items():
        parts, dim = FORMS[path.split(".", 2)[2]]
        pieces = [p.chunk(groups, dim) for p in value.split([shape[dim] for shape in parts.values()], dim)]
        again[path] = torch.cat([piece[g] for g in range(groups) for piece in pieces], dim)
    return again


def compiled(folder, values, mesh, segments=False, dtype="float32"):
    """The manifest of such tensors; with `segments` each part of a fused one is sharded separately."""
    modules, rules = {}, []
    for path, value in values.items():
        module, name = path.rsplit(".", 1)
        modules.setdefault(module, {})[name] = {"shape": list(value.shape), "dtype": dtype}
        form = path.split(".", 2)[2]
        spec = (SPECS[form.split(".")[0]] + [None, None])[: value.dim()]
        if segments and form in FORMS:
            parts, dim = FORMS[form]
            modules[module][name]["dims"] = ["a", "b"][: value.dim()]
            modules[module][name]["segments"] = {"ab"[dim]: [shape[dim] for shape in parts.values()]}
        rules.append(f'  "{path}": {{spec: {str(spec).replace("None", "null")}}}\n')
    entries = [{"path": path, "type": "Own", "parameters": own} for path, own in modules.items()]
    graph = {"format": "tpplan.model/1", "name": "Forms", "framework": "torch"}
    graph["modules"] = [{"path": "", "type": "Model"}, *entries]
    folder.mkdir()
    plan = f"format: tpplan.plan/1\nmesh: {mesh}\ntp_plan:\n{''.join(rules)}"
    return bridge.compile_manifest(folder, graph, plan)


def cut(manifest, path, value, rank):
    for dim, runs in enumerate(m.local_slice(manifest, manifest.parameters[path], rank)):
        value = value.index_select(dim, torch.tensor([i for run in runs for i in range(*run)], dtype=torch.long))
    return value


def check(path, weights, wanted, **options):
    """Checks that every rank gets its shards of `wanted`, and reads only their bytes."""
    manifest = m.load_manifest(path)
    for rank in range(m.device_count(manifest)):
        pieces = {path: cut(manifest, path, value, rank) for path, value in wanted.items()}
        into = {path: torch.full_like(piece, 7).contiguous() for path, piece in pieces.items()}
        done = tpplan.load(path, weights, into=into, rank=rank, **options)
        for name, piece in pieces.items():
            assert torch.equal(into[name], piece), (rank, name)
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    fused, apart = tensors()
    save_file(fused, folder / "fused.safetensors")
    save_file(apart, folder / "apart.safetensors")
    save_file(interleaved(fused, 4), folder / "groups.safetensors")
    manifests = {
        "fused": compiled(folder / "fused", fused, "{fsdp: 2, tp: 2}"),
        "segments": compiled(folder / "segments", fused, "{fsdp: 2, tp: 4}", segments=True),
        "apart": compiled(folder / "apart", apart, "{fsdp: 2, tp: 2}"),
        "other": compiled(folder / "other", apart, "{fsdp: 1, tp: 4}"),
        "groups": compiled(folder / "groups", interleaved(fused, 4), "{fsdp: 1, tp: 4}"),
    }
    saved = ["save", manifests["other"], "--weights", folder / "apart.safetensors", "-o", folder / "saved", "-q"]
    subprocess.run([EXECUTOR, *saved], check=True)
    return folder, manifests, fused, apart


@pytest.mark.parametrize("name", ["fused", "segments"])
@pytest.mark.parametrize("source", ["apart.safetensors", "saved"])
def test_parts_become_fused_tensors(made, name, source):
    folder, manifests, fused, _ = made
    done = check(manifests[name], folder / source, fused, fuse=FUSE)
    manifest = m.load_manifest(manifests[name])
    held = [cut(manifest, path, value, m.device_count(manifest) - 1) for path, value in fused.items()]
    assert done.needed_bytes == sum(piece.numel() * 4 for piece in held)


@pytest.mark.parametrize("source, groups", [("fused.safetensors", 1), ("groups.safetensors", 4)])
def test_fused_tensors_become_their_parts(made, source, groups):
    folder, manifests, _, apart = made
    rules = {name: {"parts": parts, "groups": groups} for name, parts in FUSE.items()}
    done = check(manifests["apart"], folder / source, apart, fuse=FUSE if groups == 1 else rules)
    manifest = m.load_manifest(manifests["apart"])
    assert done.needed_bytes == sum(cut(manifest, path, value, 3).numel() * 4 for path, value in apart.items())


def test_parts_become_tensors_with_interleaved_groups(made):
    folder, manifests, fused, _ = made
    rules = {name: {"parts": parts, "groups": 4} for name, parts in FUSE.items()}
    for source in ("apart.safetensors", "saved"):
        check(manifests["groups"], folder / source, interleaved(fused, 4), fuse=rules)


@pytest.mark.parametrize("stored", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("held", ["bfloat16", "float16", "float32", "float64"])
def test_casts_match_torch(made, tmp_path, recwarn, stored, held):
    folder, manifests, *_ = made
    fused, apart = (
        {path: value.to(getattr(torch, stored)) for path, value in tree.items()} for tree in tensors(torch.float64)
    )
    apart["layers.0.mlp.up.weight"][0, :4] = torch.tensor([float("inf"), 1e-7, 65519.0, -0.0])
    fused["layers.0.mlp.gate_up.weight"][24, :4] = apart["layers.0.mlp.up.weight"][0, :4]
    save_file(apart, tmp_path / "w.safetensors")
    wanted = {path: value.to(getattr(torch, held)) for path, value in fused.items()}
    check(
        manifests["segments"],
        tmp_path / "w.safetensors",
        wanted,
        fuse=FUSE,
        dtype=getattr(torch, held),
        staging=1 << 20,
    )
    lost = torch.finfo(getattr(torch, held)).eps > torch.finfo(getattr(torch, stored)).eps
    lost |= torch.finfo(getattr(torch, held)).max < torch.finfo(getattr(torch, stored)).max
    said = [str(w.message) for w in recwarn.list if issubclass(w.category, tpplan.LoadWarning)]
    assert bool(said) == lost and all("16 tensors lose precision by a cast" in text for text in said)
    if held == "float32":
        check(manifests["segments"], tmp_path / "w.safetensors", wanted, fuse=FUSE, dtype="manifest")
        given = tpplan.Checkpoint(tmp_path / "w.safetensors", fuse=FUSE, dtype="manifest")
        check(manifests["segments"], given, wanted)
        with pytest.raises(tpplan.ManifestError, match="`dtype`: is given twice"):
            check(manifests["segments"], given, wanted, dtype="manifest")
        if stored != held:
            with pytest.raises(
                tpplan.LoadError, match=f"is {stored} in the weights and float32 in the manifest: dtypes are not cast"
            ):
                check(manifests["segments"], tmp_path / "w.safetensors", wanted, fuse=FUSE)


def test_pipeline_stage_loads_its_layers_under_local_indices(made, tmp_path):
    """The stage of layers 2 and 3, with the manifest of the full model, and with a separate one."""
    folder, manifests, _, apart = made
    names = {"layers.0": "layers.2", "layers.1": "layers.3"}
    own = {
        path.replace("layers.2", "layers.0").replace("layers.3", "layers.1"): (path, value)
        for path, value in apart.items()
        if path[7] in "23"
    }
    manifest = m.load_manifest(manifests["apart"])
    into = {path: torch.zeros_like(cut(manifest, full, value, 3)).contiguous() for path, (full, value) in own.items()}
    told = []
    done = tpplan.load(
        manifests["apart"], folder / "apart.safetensors", into=into, rank=3, prefix=names, on_module=told.append
    )
    for path, (full, value) in own.items():
        assert torch.equal(into[path], cut(manifest, full, value, 3)), path
    assert set(done.paths) == set(own) and {"layers.0.attn", "layers.0", "layers.1", ""} <= set(told)
    assert done.needed_bytes == sum(piece.numel() * 4 for piece in into.values())

    alone = {path: value for path, (_, value) in own.items()}
    stage = compiled(tmp_path / "stage", alone, "{fsdp: 2, tp: 2}")
    rename = {r"^layers\.[01]\.": "elsewhere.", r"^layers\.2\.": "layers.0.", r"^layers\.3\.": "layers.1."}
    only = lambda name: (
        None if name[7] in "01" else name.replace("layers.2", "layers.0").replace("layers.3", "layers.1")
    )  # noqa: E731
    check(stage, folder / "apart.safetensors", alone, rename=only)
    with pytest.raises(tpplan.LoadError, match="are both renamed to `elsewhere"):
        check(stage, folder / "apart.safetensors", alone, rename=rename)
    with pytest.raises(tpplan.ManifestError, match="`layers.7.up`: is not in the manifest"):
        tpplan.load(
            manifests["apart"], folder / "apart.safetensors", into={"layers.7.up": torch.zeros(1)}, prefix=names
        )


def test_other_device_memory_is_filled_through_the_host(made, monkeypatch):
    """No GPU is needed: the test treats all memory as that of another device."""
    folder, manifests, fused, _ = made
    before, told = [], []
    make = torch.empty
    monkeypatch.setattr("tpplan.memory.is_host_memory", lambda tensor: False)
    monkeypatch.setattr(torch, "empty", lambda *args, **options: before.append(options) or make(*args, **options))
    check(manifests["segments"], folder / "apart.safetensors", fused, fuse=FUSE, on_module=told.append)
    assert len(before) == len(fused) * 8 and told.count("") == 8
    on_meta = {"layers.0.attn.qkv_proj.bias": torch.zeros(8, device="meta")}
    with pytest.raises(tpplan.ManifestError, match="is on the meta device, which has no memory"):
        tpplan.load(manifests["segments"], folder / "apart.safetensors", into=on_meta, fuse=FUSE)


@pytest.mark.parametrize(
    "fuse, says",
    [
        ({"qkv_proj": ["q_proj", "v_proj", "up"]}, "TP8022"),
        ({"qkv_proj": ["q_proj", "v_proj"]}, r"TP8023.*its parts do not add up to \[32, 16\]"),
        ({"qkv_proj": {"parts": ["q_proj", "k_proj", "v_proj"], "groups": 3}}, "`groups` does not divide its parts"),
        ({"qkv": ["q_proj", "k_proj", "v_proj"]}, "TP8022"),
        ({"qkv_proj": ["q_proj"]}, "is not a list of at least two names"),
        ({"qkv_proj": "q_proj"}, "is not a list of at least two names"),
    ],
)
def test_wrong_fuse_rules_are_rejected(made, fuse, says):
    folder, manifests, fused, _ = made
    with pytest.raises((tpplan.LoadError, tpplan.ManifestError), match=says):
        check(manifests["fused"], folder / "apart.safetensors", fused, fuse=FUSE | fuse if "qkv_proj" in fuse else fuse)


def test_parts_that_mismatch_the_stored_tensor_are_rejected(made, tmp_path):
    folder, manifests, fused, apart = made
    with pytest.raises(
        tpplan.LoadError, match="`layers.0.attn.q_proj.weight`.*the manifest has no `w_proj` next to it"
    ):
        check(manifests["apart"], folder / "fused.safetensors", apart, fuse=FUSE | {"qkv_proj": ["q_proj", "w_proj"]})
    save_file({path: value[:-1].contiguous() for path, value in fused.items()}, tmp_path / "w.safetensors")
    with pytest.raises(tpplan.LoadError, match=r"the parts do not add up to the stored shape \[31, 16\]"):
        check(manifests["apart"], tmp_path / "w.safetensors", apart, fuse=FUSE)


def test_storage_cannot_be_resized_during_a_load(made):
    folder, manifests, _, apart = made
    manifest, refused = m.load_manifest(manifests["apart"]), []
    wanted = {path: cut(manifest, path, value, 0) for path, value in apart.items()}
    into = {path: torch.zeros_like(value) for path, value in wanted.items()}

    def resize(*_):
        for value in into.values():
            with pytest.raises(RuntimeError, match="not resizable"):
                value.untyped_storage().resize_(0)
            refused.append(value)

    tpplan.load(manifest, folder / "apart.safetensors", into=into, rank=0, progress=resize, on_module=resize)
    assert refused and all(torch.equal(into[path], value) for path, value in wanted.items())


def test_odd_memory_is_rejected_and_autograd_sees_writes(made):
    import numpy as np

    folder, manifests, fused, apart = made
    path = next(iter(apart))
    rank_0 = cut(m.load_manifest(manifests["apart"]), path, apart[path], 0)

    def load(value):
        tpplan.load(manifests["apart"], folder / "apart.safetensors", into={path: value}, rank=0)
        return value

    swapped = np.zeros(tuple(rank_0.shape), ">f4")
    for value, says in (
        (swapped, "is not in this machine's byte order"),
        (torch._neg_view(torch.zeros_like(rank_0)), "is a view that negates"),
        (torch.zeros_like(rank_0).to_sparse(), "is sparse_coo, not strided"),
    ):
        with pytest.raises(m.ManifestError, match=says):
            load(value)
    assert not swapped.any()
    weight = torch.nn.Parameter(torch.zeros_like(rank_0))
    loss = (weight * weight).sum()  # whose gradient uses the old values
    assert torch.equal(load(weight), rank_0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        assert torch.equal(load(torch.zeros_like(rank_0)), rank_0)
