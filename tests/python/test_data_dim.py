"""`data` along a dim: `check` reports TP5124 exactly if a model computes other values on parts of that dim than on all of it."""

import json

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from bridge import run  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tpplan.export import torch_module  # noqa: E402
from tpplan.graph.settings import Settings, header  # noqa: E402
from tpplan.graph.tables import tables, text  # noqa: E402
from tpplan.graph.trace import trace  # noqa: E402

BATCH, LENGTH, WIDTH = 4, 8, 6


def heads(x):
    return x.unflatten(-1, (2, 3)).transpose(1, 2)


# Each with a batch of sequences as its input.
CODES = {
    "linear": lambda x: F.gelu(x) + 1,
    "norm": lambda x: F.layer_norm(x, (WIDTH,)),
    "mean": lambda x: x - x.mean(1, keepdim=True),
    "mean of samples": lambda x: x - x.mean(0, keepdim=True),
    "cumsum": lambda x: x.cumsum(1),
    "flip": lambda x: x.flip(1),
    "flip of samples": lambda x: x.flip(0),
    "roll": lambda x: torch.roll(x, 1, 1),
    "softmax": lambda x: x.softmax(1),
    "positions": lambda x: x + torch.arange(x.shape[1])[None, :, None],
    "convolution": lambda x: F.conv1d(x.transpose(1, 2), torch.ones(WIDTH, WIDTH, 3), padding=1).transpose(1, 2),
    "attention": lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x)).transpose(1, 2).flatten(2),
    "pairs": lambda x: x @ x.transpose(1, 2) @ x,
    "pairs of samples": lambda x: torch.einsum("btd,ctd->bct", x, x).sum(1),
    "indexed samples": lambda x: x[torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])[None, :]],
    "sorted": lambda x: x.sort(1).values,
    "group norm": lambda x: F.group_norm(x.transpose(1, 2), 2).transpose(1, 2),
    "folded": lambda x: F.linear(x.flatten(0, 1), torch.ones(WIDTH, WIDTH)).unflatten(0, x.shape[:2]),
}


class Model(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.code, self.first = code, nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.code(self.first(x))


def make(name):
    torch.manual_seed(1)
    return Model(CODES[name])


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", CODES)
def test_check_rejects_dims_that_the_model_combines(tmp_path, name, dim):
    model, x = make(name), torch.randn(BATCH, LENGTH, WIDTH)
    whole = model(x)
    parts = [model(part) for part in x.chunk(2, dim)]
    is_right = parts[0].dim() == whole.dim() and torch.cat(parts, dim).shape == whole.shape
    is_right = is_right and torch.allclose(torch.cat(parts, dim), whole, atol=1e-5)
    settings = Settings(batch=BATCH, sequence=LENGTH)
    graph = json.loads(text(tables(trace(make(name), (x,), {}, "cpu"), header(settings, "float32"))))
    (tmp_path / "m.json").write_text(json.dumps(torch_module.model_graph(model) | {"graph": graph}))
    (tmp_path / "p.yaml").write_text(
        f"format: tpplan.plan/1\nmesh: {{dp: 2}}\ntp_plan: {{first: replicate}}\ndata: {{axes: [dp], dim: {dim}}}\n"
    )
    result = run("check", tmp_path / "m.json", tmp_path / "p.yaml")
    assert (b"TP5124" not in result.stdout) == is_right, result.stdout.decode()
