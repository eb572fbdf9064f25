"""`tpplan import --from dcp` reads checkpoints of torch.distributed.checkpoint, and rejects every pickle that is none."""

import json
import os
import pickle
import pickletools

import pytest

from conftest import run

torch = pytest.importorskip("torch", reason="torch is not installed (tests/requirements-live.txt)")
if os.environ.get("TPPLAN_SANITIZED"):
    pytest.skip("the live tests run with the release build", allow_module_level=True)
dcp = pytest.importorskip("torch.distributed.checkpoint")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(4, 6).to(torch.bfloat16)
        self.norm = torch.nn.LayerNorm(4)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))


@pytest.fixture
def model():
    return torch.nn.ModuleDict({"layers": torch.nn.ModuleList([Block(), Block()])})


def save(folder, state):
    with pytest.warns(UserWarning):
        dcp.save(state, checkpoint_id=folder)
    return folder / ".metadata"


def imported(path, folder, *flags):
    output = folder / "model.json"
    result = run("import", "--from", "dcp", path, "-o", output, *flags)
    assert result.returncode == 0, result.stderr.decode()
    modules = json.loads(output.read_text())["modules"]
    tensors = {
        f"{module['path']}.{name}": (entry["shape"], entry["dtype"])
        for module in modules
        for name, entry in module.get("parameters", {}).items()
    }
    return tensors, result.stderr.decode()


def tensors_of(state):
    return {name: (list(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in state.items()}


def test_state_dict_is_imported(tmp_path, model):
    state = model.state_dict()
    save(tmp_path / "checkpoint", state)
    for path in (tmp_path / "checkpoint", tmp_path / "checkpoint" / ".metadata"):
        tensors, said = imported(path, tmp_path)
        assert tensors == tensors_of(state) and "left out" not in said


def test_optimizer_is_left_out(tmp_path, model):
    optimizer = torch.optim.AdamW(model.parameters())
    sum(p.float().sum() for p in model.parameters()).backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
    path = save(tmp_path / "checkpoint", state)
    tensors, said = imported(path, tmp_path)
    assert tensors == tensors_of(model.state_dict()) and "tensors of optimizer are left out" in said


def test_other_object_names(tmp_path, model):
    """One object of any name is the model; of several without `model` none is."""
    state = model.state_dict()
    tensors, _ = imported(save(tmp_path / "one", {"net": state}), tmp_path)
    assert tensors == tensors_of(state)
    result = run("import", "--from", "dcp", save(tmp_path / "two", {"ema": state, "net": state}))
    assert result.returncode == 2 and b"the objects ema, net, but none with the name `model`" in result.stderr


def test_config_gives_head_counts(tmp_path):
    layer = {f"model.layers.0.self_attn.{n}_proj.weight": torch.zeros(8, 8) for n in "qkvo"}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "num_attention_heads": 4, "hidden_size": 8}))
    imported(save(tmp_path / "checkpoint", layer), tmp_path, "--model-config", config)
    modules = json.loads((tmp_path / "model.json").read_text())["modules"]
    assert next(m["attributes"]["num_heads"] for m in modules if m["path"].endswith("self_attn")) == 4


def test_first_plan_of_metadata(tmp_path):
    shapes = {"gate_proj": (8, 4), "up_proj": (8, 4), "down_proj": (4, 8)}
    path = save(tmp_path / "checkpoint", {f"layers.0.mlp.{n}.weight": torch.zeros(s) for n, s in shapes.items()})
    result = run("init", path, "--mesh", "tp=2")
    assert result.returncode == 0 and b'mlp.down_proj": rowwise' in result.stdout, result


@pytest.mark.parametrize("protocol", range(2, 6))
def test_protocols_of_python(tmp_path, model, protocol):
    path = save(tmp_path / "checkpoint", {f"layers.{i}.weight": torch.zeros(i % 7, 300) for i in range(400)})
    path.write_bytes(pickle.dumps(pickle.loads(path.read_bytes()), protocol))
    tensors, _ = imported(path, tmp_path)
    assert len(tensors) == 400 and tensors["layers.6.weight"] == ([6, 300], "float32")


class Runs:
    def __reduce__(self):
        return (os.system, ("touch executed",))


HOSTILE = {
    "a call": pickle.dumps(Runs()),
    "a call in a dict": pickle.dumps({"state_dict_metadata": Runs()}),
    "a call of a builtin": pickle.dumps(eval),
    "a set": pickle.dumps({1, 2}),
    "a float": pickle.dumps(1.5),
    "bytes": pickle.dumps(b"x"),
    "another value": pickle.dumps({"a": [1, (2, None)]}),
    "text protocol": b"cos\nsystem\n(S'touch executed'\ntR.",
    "instance opcode": b"\x80\x02(S'touch executed'\nios\nsystem\n.",
    "persistent id": b"\x80\x02Pmodel\n.",
    "extension": b"\x80\x02\x82\x01.",
    "nothing": b"",
    "no end": b"\x80\x04]",
    "no operand": b"\x80\x04\x85.",
    "pop below a mark": b"\x80\x04](\x85.",
    "no mark": b"\x80\x04t.",
    "memo of nothing": b"\x80\x04\x94.",
    "unknown memo": b"\x80\x04h\x05.",
    "text beyond the end": b"\x80\x04X\xff\xff\xff\xff.",
    "class without names": b"\x80\x04NN\x93.",
    "itself": b"\x80\x04]\x94h\x00a.",
    "thousands of lists": b"\x80\x04" + b"]" * 100_000 + b".",
    "millions of values": b"\x80\x04(" + b"N" * 9_000_000 + b"l.",
    "millions of dicts": b"\x80\x04(" + b"}" * 9_000_000 + b"t.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_other_pickles_are_rejected(tmp_path, name):
    path = tmp_path / ".metadata"
    path.write_bytes(HOSTILE[name])
    result = run("import", "--from", "dcp", path, "-o", tmp_path / "model.json", cwd=tmp_path)
    assert result.returncode == 2 and b"error[TP" in result.stderr, result
    assert not (tmp_path / "executed").exists() and not (tmp_path / "model.json").exists()


def test_every_truncation_is_rejected(tmp_path, model):
    """A prefix of a checkpoint's pickle, cut at each opcode, is an error and no crash."""
    whole = save(tmp_path / "checkpoint", {"a.weight": torch.zeros(2, 3)}).read_bytes()
    path = tmp_path / ".metadata"
    for _, _, end in list(pickletools.genops(whole))[1:]:
        path.write_bytes(whole[:end])
        assert run("import", "--from", "dcp", path).returncode == 2, end
