"""A step traced at one batch and sequence, resized to another, equals the step traced there: every value of every operation, and every
collective."""

import json
import os
import pathlib
import sys
import warnings

import pytest
from conftest import ROOT, plan_text, run

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "tests" / "truth")]

from run_cases import BASE, FAMILIES  # noqa: E402
from tpplan.export import operations, torch_module, transformers_model  # noqa: E402
from tpplan.graph.settings import Settings  # noqa: E402

SIZES = {"batch": (3, 12), "sequence": (2, 20), "both": (5, 32)}
MIXTRAL = (
    "MixtralForCausalLM",
    BASE | {"num_key_value_heads": 12, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 24},
    0,
)


def recorded(folder, name, kwargs, batch, sequence, **more):
    kwargs = kwargs | {"tie_word_embeddings": False}
    settings = Settings(
        **(
            {
                "mode": "eval",
                "batch": batch,
                "sequence": sequence,
                "attention": "eager",
                "experts": "grouped_mm",
                "dtype": "float32",
            }
            | more
        )
    )
    model = transformers_model.build(name, kwargs, "meta", settings)
    file = transformers_model.model_graph(model) | {
        "graph": json.loads(operations.record(transformers_model, model, "meta", settings))
    }
    path = folder / f"{batch}x{sequence}.json"
    path.write_text(json.dumps(file))
    return path


def plan_for(folder, model):
    """Shards only the head, so that all operations of any model are walked."""
    paths = {m["path"] for m in json.loads(model.read_text())["modules"]}
    head = next(p for p in ("lm_head", "embed_out") if p in paths)
    (folder / "plan.yaml").write_text(
        plan_text({head: "colwise_gather_output"}, mesh="{tp: 2}", dialect="transformers", more="uneven: torch\n")
    )
    return folder / "plan.yaml"


def printed(model, plan, *flags):
    result = run("compile", model, plan, "--print", "operations", "--quiet", *flags)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


@pytest.mark.parametrize("mode, attention", [("eval", "eager"), ("train", "sdpa")])
@pytest.mark.parametrize(
    "name, kwargs", [(n, k) for n, k, _ in (*FAMILIES, MIXTRAL)], ids=lambda v: v if isinstance(v, str) else ""
)
def test_resized_step_matches_a_trace_at_those_sizes(tmp_path, name, kwargs, mode, attention):
    if name.startswith("Gemma2") and attention == "sdpa":
        pytest.skip("transformers has no sdpa for Gemma2")
    first = recorded(tmp_path, name, kwargs, 2, 12, mode=mode, attention=attention)
    plan = plan_for(tmp_path, first)
    own = printed(first, plan)
    for batch, sequence in SIZES.values():
        there = recorded(tmp_path, name, kwargs, batch, sequence, mode=mode, attention=attention)
        found, wanted = printed(first, plan, "--batch", batch, "--sequence", sequence), printed(there, plan)
        assert wanted != own and found == wanted


def test_resized_collectives_match_a_trace_at_those_sizes(tmp_path):
    name, kwargs, _ = FAMILIES[0]
    first, there = recorded(tmp_path, name, kwargs, 2, 12), recorded(tmp_path, name, kwargs, 4, 48)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        plan_text(dict(transformers_model.build(name, kwargs, "meta").tp_plan), mesh="{tp: 2}", dialect="transformers")
    )
    listed = [json.loads(run("compile", model, plan, *flags).stdout)["collectives"]
              for model, flags in ((first, ("--batch", 4, "--sequence", 48)), (there, ()), (first, ()))]  # fmt: skip
    assert listed[0] == listed[1] and listed[0] != listed[2]


class Branches(torch.nn.Module):
    """Takes another branch from 64 positions on."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x):
        y = self.a(x)
        return y + 1 if x.shape[1] < 64 else y


def test_size_with_another_branch_is_an_error_at_its_place(tmp_path):
    settings = Settings(inputs={"x": {"shape": [2, 16, 8], "dtype": "float32"}})
    with torch.device("meta"):
        model = Branches()
    file = torch_module.model_graph(model) | {
        "graph": json.loads(operations.record(torch_module, model, "meta", settings))
    }
    (tmp_path / "model.json").write_text(json.dumps(file))
    (tmp_path / "plan.yaml").write_text(
        plan_text({"a": "colwise_gather_output"}, mesh="{tp: 2}", dialect="transformers")
    )
    fine = run("check", tmp_path / "model.json", tmp_path / "plan.yaml", "--sequence", 63)
    assert fine.returncode == 0, fine.stdout.decode()
    result = run(
        "check", tmp_path / "model.json", tmp_path / "plan.yaml", "--batch", 4, "--sequence", 64, "--format", "json"
    )
    (found,) = json.loads(result.stdout)["diagnostics"]
    assert (result.returncode, found["code"]) == (2, "TP2015")
    assert "64 < 64 is false, but was true in the traced step (16 < 64)" in found["message"]
    assert "--batch 4 --sequence 64" in found["help"] and pathlib.Path(found["place"]["file"]).name == "model.json"


def folded(y):
    return torch.nn.functional.fold(
        torch.nn.functional.unfold(y[:, None], 3, padding=1, stride=2), (y.shape[1], y.shape[2]), 3, padding=1, stride=2
    )


ALONG_THE_SEQUENCE = {
    "fft": lambda y: torch.fft.ifft(torch.fft.fft(y, dim=1), dim=1).real,
    "fft of a length": lambda y: torch.fft.fft(y, n=10, dim=1).abs(),
    "rfft": lambda y: torch.fft.rfft(y, dim=1).abs(),
    "irfft": lambda y: torch.fft.irfft(torch.fft.rfft(y, dim=1), dim=1),
    "irfft of a length": lambda y: torch.fft.irfft(torch.fft.rfft(y, dim=1), n=y.shape[1], dim=1),
    "stft": lambda y: torch.stft(y.sum(-1), 8, 4, window=torch.ones(8), return_complex=True).abs(),
    "stft that is not centered": lambda y: torch.stft(
        y.sum(-1), 8, window=torch.ones(8), center=False, return_complex=True
    ).abs(),
    "im2col": lambda y: torch.nn.functional.unfold(y[:, None], (3, 2), padding=1, stride=2),
    "col2im": folded,
    "unfold": lambda y: y.unfold(1, 4, 2),
    "max_pool1d": lambda y: torch.nn.functional.max_pool1d(y.mT, 3, 2, padding=1, ceil_mode=True),
    "cosine_similarity": lambda y: torch.nn.functional.cosine_similarity(y[:, :, None], y[:, None], dim=-1),
    "diff": lambda y: torch.diff(y, n=2, dim=1),
}


class Along(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.a = torch.nn.Linear(8, 8, bias=False)
        self.function = function

    def forward(self, x):
        return self.function(self.a(x))


@pytest.mark.parametrize("name", ALONG_THE_SEQUENCE)
def test_windows_and_transforms_are_resized_like_torch(tmp_path, name):
    plan = tmp_path / "plan.yaml"
    plan.write_text(plan_text({"a": "colwise_gather_output"}, mesh="{tp: 2}", dialect="transformers"))

    def model_of(batch, sequence):
        settings = Settings(inputs={"x": {"shape": [batch, sequence, 8], "dtype": "float32"}})
        with torch.device("meta"):
            model = Along(ALONG_THE_SEQUENCE[name])
        graph = json.loads(operations.record(torch_module, model, "meta", settings))
        path = tmp_path / f"{batch}x{sequence}.json"
        path.write_text(json.dumps(torch_module.model_graph(model) | {"graph": graph}))
        return path

    first = model_of(2, 16)
    for batch, sequence in ((2, 24), (5, 17), (3, 40)):
        there = printed(model_of(batch, sequence), plan)
        assert printed(first, plan, "--batch", batch, "--sequence", sequence) == there != printed(first, plan)
