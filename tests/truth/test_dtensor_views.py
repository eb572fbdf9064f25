"""Views of a sharded DTensor: `check` rejects a plan exactly if torch rejects the view.

The shapes are drawn by a fixed seed. torch runs them on a fake process group, whose collectives move no data.
"""

import json
import random

import pytest
from conftest import run

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch.distributed.tensor import DeviceMesh, DTensor, Shard  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

SIZES = (1, 2, 3, 4, 6, 8)


def draw_views(count):
    """Yields (shape, sharded dim, new shape, ranks). The sharded dim divides by the ranks."""
    draw = random.Random(20)
    while count:
        ranks = draw.choice((2, 3))
        shape = [draw.choice(SIZES) for _ in range(draw.randint(2, 4))]
        dim = draw.randrange(len(shape))
        rest, view = 1, []
        for size in shape:
            rest *= size
        while rest > 1 and len(view) < 3:
            view.append(draw.choice([n for n in range(1, rest + 1) if rest % n == 0]))
            rest //= view[-1]
        view.append(rest)
        if shape[dim] % ranks == 0 and dim == len(shape) - 1:  # the output of a linear
            count -= 1
            yield shape, dim, view, ranks


def torch_accepts(shape, dim, view, ranks):
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        local = list(shape)
        local[dim] //= ranks
        mesh = DeviceMesh("cpu", list(range(ranks)))
        DTensor.from_local(torch.zeros(local), mesh, [Shard(dim)], run_check=False).view(view)
        return True
    except RuntimeError:
        return False
    finally:
        dist.destroy_process_group()


def model_with_view(shape, view):
    """A linear, a view of its output, and another linear."""
    width = shape[-1]
    shapes = [[*shape[:-1], 8], [width, 8], shape, view, [4, view[-1]], [*view[:-1], 4]]
    return {
        "format": "tpplan.model/1", "name": "Net", "framework": "torch", "tied": [],
        "modules": [
            {"path": "", "type": "Net"},
            {"path": "a", "type": "Linear", "parameters": {"weight": {"shape": [width, 8], "dtype": "float32"}}},
            {"path": "b", "type": "Linear", "parameters": {"weight": {"shape": [4, view[-1]], "dtype": "float32"}}},
        ],
        "graph": {
            "mode": "train", "dtype": "float32",
            "strings": ["@enter", "", "a", "linear", "@exit", "view", "b", "float32", "x", "a.weight", "b.weight"],
            "shapes": shapes, "sizes": [], "guards": [], "output": 11,
            "values": [[s, 7, int(i > 2)] for i, s in enumerate((0, 0, 0, 1, 2, 2, 3, 3, 4, 5, 5, 5))],
            "leaves": [[0, "input", 8], [3, "param", 9], [8, "param", 10]],
            "nodes": [
                [0, 1, 1, 0, [[[0], 0, 1]]], [0, 2, 1, 0, [[[0], 1, 2]]], [3, [[2], [3], None], [], [4]],
                [4, 2, [[[], 4, 5]]], [5, [[5], ["t", *view]], [], [6]], [0, 6, 1, 0, [[[0], 6, 7]]],
                [3, [[7], [8], None], [], [9]], [4, 6, [[[], 9, 10]]], [4, 1, [[[], 10, 11]]],
            ],
        },
    }  # fmt: skip


def test_check_rejects_the_views_that_torch_rejects(tmp_path):
    accepted = 0
    for shape, dim, view, ranks in draw_views(150):
        (tmp_path / "m.json").write_text(json.dumps(model_with_view(shape, view)))
        (tmp_path / "p.yaml").write_text(
            f"format: tpplan.plan/1\ndialect: torch\nmesh: {{tp: {ranks}}}\ntp_plan:\n"
            f"  a: {{style: colwise, output_layouts: Shard({dim}), use_local_output: false}}\n"
            "  b: {style: colwise, input_layouts: Replicate, output_layouts: Replicate}\nuneven: torch\n"
        )
        is_right = torch_accepts(shape, dim, view, ranks)
        accepted += is_right
        result = run("check", tmp_path / "m.json", tmp_path / "p.yaml")
        assert (result.returncode == 0) == is_right, (shape, view, ranks, result.stdout.decode())
    assert accepted < 142
