"""Small transformers models, one for each diagnostic of the walk, with a plan that fails and one that does not."""

import torch
from transformers import PreTrainedModel, PretrainedConfig
from transformers.modeling_outputs import BaseModelOutput

SIZE, WIDE = 8, 16


class Config(PretrainedConfig):
    model_type = "finding"


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(SIZE))

    def forward(self, x):
        return x * self.weight


class Model(PreTrainedModel):
    """norm, a, an operation between them, b."""

    config_class = Config
    inner = WIDE

    def __init__(self, config):
        super().__init__(config)
        self.norm = Norm()
        self.a = torch.nn.Linear(SIZE, WIDE, bias=False)
        self.b = torch.nn.Linear(self.inner, SIZE, bias=False)
        self.post_init()

    def between(self, y):
        return torch.relu(y)

    def forward(self, x, use_cache=False):
        return BaseModelOutput(last_hidden_state=self.b(self.between(self.a(self.norm(x)))))


class Viewed(Model):
    def between(self, y):
        return y.view(2, 12, 4, 4).flatten(2)


class Keywords(Model):
    def forward(self, x, use_cache=False):
        return BaseModelOutput(last_hidden_state=self.b(torch.relu(self.a(input=self.norm(x)))))


class Written(Model):
    def between(self, y):
        return y.add_(1)


class Halved(Model):
    inner = SIZE

    def between(self, y):
        return y.chunk(2, dim=-1)[0]


class Softmaxed(Model):
    def between(self, y):
        return torch.softmax(y, dim=-1)


class Rectified(Model):
    """A nonlinear operation on the result of b."""

    def forward(self, x, use_cache=False):
        return BaseModelOutput(last_hidden_state=torch.relu(self.b(torch.relu(self.a(self.norm(x))))))


CUT = {"a": "colwise", "b": "rowwise"}
GATHERED = {"a": "colwise_gather_output", "b": "rowwise_split_input"}

# Code, model, the failing plan, the correct one.
CASES = [
    ("TP5102", "Model", {"a": "colwise"}, CUT),
    ("TP5103", "Viewed", CUT, GATHERED),
    ("TP5104", "Model", {"a.weight": "colwise"}, CUT),
    ("TP5105", "Keywords", CUT, {"b": "colwise_gather_output"}),
    ("TP5106", "Written", CUT, {"b": "colwise_gather_output"}),
    ("TP5107", "Halved", CUT, GATHERED),
    ("TP5108", "Rectified", {"a": "colwise", "b.weight": "rowwise", "b": "local_params"}, CUT),
    ("TP5109", "Model", {"b": "all_reduce"}, CUT),
    ("TP5110", "Model", {"b": "colwise"}, {"b": "colwise_gather_output"}),
    ("TP5111", "Model", {"a.weight": "colwise", "a": "local_params", "b": "rowwise"}, CUT),
    ("TP5112", "Model", {"norm": "sequence_parallel"}, CUT),
    ("TP5113", "Softmaxed", CUT, GATHERED),
]  # fmt: skip


def cases():
    return [{"model": name, "kwargs": {}, "tp": 2, "plan": plan, "mutation_kind": kind, "mutation": code}
            for code, name, wrong, right in CASES for kind, plan in (("wrong", wrong), ("right", right))]  # fmt: skip
