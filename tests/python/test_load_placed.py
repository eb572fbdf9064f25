"""DTensors with other placements than the manifest's have shards of the same shapes, and are rejected. The rank of a process and its
shards follow from the axes of the tensors' meshes; meshes with the axes in another order, or with some of them, are accepted."""

import bridge
import pytest

bridge.needs("torch", "safetensors")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor.placement_types import _StridedShard  # noqa: E402

import tpplan  # noqa: E402
from bridge import ranks  # noqa: E402, F401

WHOLE = {name: torch.arange(64.0).reshape(8, 8) + i for i, name in enumerate(("one", "both", "fused", "same"))}
PLAN = """format: tpplan.plan/1
mesh: {tp: 2, dp: 2}
tp_plan:
  "one": {spec: [tp, null]}
  "both": {spec: [[dp, tp], null]}
  "fused": {spec: [tp, null]}
"""
S, R = Shard(0), Replicate()
# Axes of a mesh of 2 x 2 and the selected ones, `part`; placements of each tensor; the error (None: it is filled).
CASES = {
    "as the manifest": (("tp", "dp"), None, {"one": (S, R), "both": (_StridedShard(0, split_factor=2), S)}, None),
    "axes in another order": (("dp", "tp"), None, {"one": (R, S), "both": (S, S), "same": (R, R)}, None),
    "a part of the mesh": (("dp", "tp"), "tp", {"one": (S,), "same": (R,)}, None),
    "an axis that the manifest lacks": (("pp", "tp"), None, {"one": (R, S)}, None),
    "other names": (("x", "y"), None, {"one": (S, R)}, None),
    "another axis": (
        ("tp", "dp"),
        None,
        {"one": (R, S)},
        "`one`: is Replicate over tp, Shard.0. over dp, but the manifest",
    ),
    "another order of cutting": (("tp", "dp"), None, {"both": (S, S)}, "`both`: is Shard.0. over tp, Shard.0. over dp"),
    "cut over what the manifest lacks": (
        ("pp", "tp"),
        None,
        {"one": (S, R)},
        "`one`: is Shard.0. over pp, Replicate over tp",
    ),
    "not over all": (("dp", "tp"), "tp", {"one": (S,), "both": (S,)}, "no DTensor has axis `dp`, which shards `both`"),
    "segments": (
        ("tp", "dp"),
        None,
        {"fused": (S, R)},
        "`fused`: is a DTensor, but torch has no placement for its segments",
    ),
}


def fills(rank, path, weights):
    for name, (axes, part, placements, says) in CASES.items():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=axes)
        mesh = mesh if part is None else mesh[part]
        nothing = torch.full((8, 8), -1.0)
        into = {path_: distribute_tensor(nothing, mesh, own, src_data_rank=None) for path_, own in placements.items()}
        if says is not None:
            with pytest.raises(tpplan.ManifestError, match=says):
                tpplan.load(path, weights, into=into)
        else:
            tpplan.load(path, weights, into=into)
        for path_, value in into.items():
            wanted = WHOLE[path_] if says is None else nothing
            assert torch.equal(value.full_tensor(), wanted), (name, path_)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp"))
    into = {"one": distribute_tensor(torch.zeros(8, 8), mesh, (S, R), src_data_rank=None)}
    with pytest.raises(tpplan.ManifestError, match="is at index . of axis `tp`, but rank . is at ."):
        tpplan.load(path, weights, into=into, rank=3 - rank)


def test_dtensors_are_filled_if_their_placements_match(tmp_path, ranks):  # noqa: F811
    own = {name: {"shape": [8, 8], "dtype": "float32"} for name in WHOLE}
    own["fused"] |= {"dims": ["out", "in"], "segments": {"out": [6, 2]}}
    graph = {"format": "tpplan.model/1", "name": "Own", "framework": "torch", "tied": []}
    graph["modules"] = [{"path": "", "type": "Own", "parameters": own}]
    path = bridge.compile_manifest(tmp_path, graph, PLAN)
    save_file(WHOLE, tmp_path / "w.safetensors")
    ranks.run(4, fills, str(path), str(tmp_path / "w.safetensors"))
