"""The output of each format, its limits, and that no loss of information is silent."""

import base64
import json
import re

import pytest

import emit_cases
from conftest import codes, run, write
from emit_cases import FORMATS


@pytest.fixture
def manifest_of(tmp_path):
    """manifest_of(model, plan): the path of the compiled manifest."""

    def compile_(model, plan):
        path = tmp_path / "manifest.json"
        result = run("compile", *write(tmp_path, model, plan), "-o", path)
        assert result.returncode == 0, result.stderr.decode()
        return path

    return compile_


def export(path, to, *flags):
    result = run("export", path, "--to", to, *flags)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def losses(path, to):
    """The losses of a format, from its diagnostics: [(sentence, count), ...]."""
    lossless = run("export", path, "--to", to)
    lossy = run("export", path, "--to", to, "--lossy")
    found = re.findall(r"error\[TP7003\]: (\w+ cannot express that .*)\n", lossless.stderr.decode())
    assert found == re.findall(r"warning\[TP7003\]: (\w+ cannot express that .*)\n", lossy.stderr.decode())
    assert (lossless.returncode, lossless.stdout) == (1, b"") if found else lossless.returncode == 0
    assert lossy.returncode == 0 and lossy.stdout
    assert codes(lossless) == codes(lossy) == ["TP7003"] * len(found)
    return found


def test_jax_has_the_arguments_of_mesh_and_partition_spec(manifest_of):
    assert json.loads(export(manifest_of(*emit_cases.TWO_AXES), "jax")) == {
        "mesh": {"axis_shapes": [2, 4], "axis_names": ["fsdp", "tp"]},
        "specs": {
            "layers.0.wq": [["tp", "fsdp"], None],
            "layers.1.wq": [["tp", "fsdp"], None],
            "head.weight": [["fsdp", "tp"], None],
        },
    }


def test_keras_merges_numbered_paths(manifest_of):
    assert json.loads(export(manifest_of(*emit_cases.EVEN), "keras")) == {
        "mesh": {"shape": [2, 4], "axis_names": ["fsdp", "tp"]},
        "layout_map": {
            r"layers\.[0-9]+\.wq": ["tp", "fsdp"],
            r"layers\.[0-9]+\.wo": ["fsdp", "tp"],
            r"experts\.w": ["tp", None, "fsdp"],
            r"norm\.weight": [None],
        },
    }


def test_keras_separates_a_number_with_another_layout(manifest_of):
    model = emit_cases.model_of({f"layers.{i}": {"w1": [8], "w2": [8]} for i in (0, 1, 12)})
    plan = emit_cases.plan_of({"layers.0.w*": [None], "layers.1.w*": ["tp"], "layers.12.w*": ["tp"]})
    layouts = json.loads(export(manifest_of(model, plan), "keras"))["layout_map"]
    assert layouts == {r"layers\.0\.w[0-9]+": [None], r"layers\.1\.w[0-9]+": ["tp"], r"layers\.12\.w[0-9]+": ["tp"]}


def test_keras_keys_match_only_their_paths(manifest_of):
    """With Keras' lookup: the key that equals the path, otherwise the only key that matches the full path."""
    for seed in range(30):
        path = manifest_of(*emit_cases.random_case(seed))
        layouts = json.loads(export(path, "keras", "--lossy"))["layout_map"]
        check_look_up(path, layouts)


def test_keras_keys_of_hostile_paths_match_only_their_paths(manifest_of):
    path = manifest_of(*emit_cases.hostile_case())
    layouts = json.loads(export(path, "keras"))["layout_map"]
    check_look_up(path, layouts)
    assert {r"m\.a[0-9]+b", "m.a[0-9]+b"} & set(layouts) == set(), "a key that is another parameter's path"


def check_look_up(path, layouts):
    for entry in json.loads(path.read_text(encoding="utf-8"))["parameters"]:
        matching = [key for key in layouts if key == entry["path"]] or [
            key for key in layouts if re.fullmatch(key, entry["path"])
        ]
        assert len(matching) == 1, (entry["path"], matching)
        major = [axes if isinstance(axes, (str, type(None))) else axes[0] for axes in entry["spec"]]
        assert layouts[matching[0]] == major


def test_keras_key_equal_to_another_path_is_rewritten(manifest_of):
    """Keras would use `m.a\\.b` for the parameter of that name, before any expression."""
    model = emit_cases.model_of({"m": {"a+": [8], "a\\+": [8], "x1": [8], "x2": [8], "x[0-9]+": [8]}})
    plan = emit_cases.plan_of(
        {"m.a+": ["tp"], "m.a\\+": [None], "m.x1": ["fsdp"], "m.x2": ["fsdp"], "m.x[[]0-9]+": [None]}
    )
    model["framework"] = "keras"
    model["modules"][0]["path"] = "m"
    path = manifest_of(model, plan.replace("m.", "m/"))
    layouts = json.loads(export(path, "keras"))["layout_map"]
    check_look_up(path, layouts)
    assert layouts == {"(?:)m/a\\+": ["tp"], "m/a\\\\\\+": [None], "(?:)m/x[0-9]+": ["fsdp"], "m/x\\[0-9\\]\\+": [None]}


def test_shardy_is_a_module_with_one_function_declaration(manifest_of):
    assert (
        export(manifest_of(*emit_cases.SCALAR), "shardy")
        == """\
module {
  sdy.mesh @mesh = <["fsdp"=2, "tp"=4]>
  func.func private @parameters(
    tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>, tpplan.path = "a.scale"},
    tensor<0x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>, tpplan.path = "a.empty"},
    tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {"fsdp"}]>, tpplan.path = "a.w"})
}
"""
    )


def test_orbax_is_the_sharding_file_of_a_checkpoint(manifest_of):
    document = json.loads(export(manifest_of(*emit_cases.TWO_AXES), "orbax"))
    named = {base64.urlsafe_b64decode(key).decode(): json.loads(text) for key, text in document.items()}
    assert list(named) == ["layers.0.wq", "layers.1.wq", "head.weight"]
    assert named["head.weight"] == {
        "sharding_type": "NamedSharding",
        "shape": [2, 4],
        "axis_names": ["fsdp", "tp"],
        "axis_types": ["AxisType.Auto", "AxisType.Auto"],
        "partition_spec": [["fsdp", "tp"], None],
    }


def test_orbax_keys_are_urlsafe_base64_of_any_path(manifest_of):
    path = manifest_of(*emit_cases.hostile_case())
    keys = list(json.loads(export(path, "orbax")))
    paths = [entry["path"] for entry in json.loads(path.read_text(encoding="utf-8"))["parameters"]]
    assert keys == [base64.urlsafe_b64encode(path.encode()).decode() for path in paths]


def test_torch_has_the_arguments_of_mesh_and_placements(manifest_of):
    assert json.loads(export(manifest_of(*emit_cases.TWO_AXES), "torch")) == {
        "mesh": {"mesh_shape": [2, 4], "mesh_dim_names": ["fsdp", "tp"]},
        "uneven": "error",
        "parameters": {
            "layers.0.wq": ["_StridedShard(0, split_factor=4)", "Shard(0)"],
            "layers.1.wq": ["_StridedShard(0, split_factor=4)", "Shard(0)"],
            "head.weight": ["Shard(0)", "Shard(0)"],
        },
    }


def test_torch_python_output_is_a_module(manifest_of):
    assert (
        export(manifest_of(*emit_cases.TWO_AXES), "torch", "--python")
        == """\
# Written by tpplan export --to torch --python.
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

# init_device_mesh(device_type, mesh_shape, mesh_dim_names=mesh_dim_names)
mesh_shape = (2, 4)
mesh_dim_names = ("fsdp", "tp")

# distribute_tensor(parameter, mesh, placements[path])
placements = {
    "layers.0.wq": [_StridedShard(0, split_factor=4), Shard(0)],
    "layers.1.wq": [_StridedShard(0, split_factor=4), Shard(0)],
    "head.weight": [Shard(0), Shard(0)],
}
"""
    )


def test_torch_python_imports_its_names_and_writes_1_tuples(manifest_of):
    model = emit_cases.model_of({"a": {"w": [8]}})
    text = export(manifest_of(model, emit_cases.plan_of({"a.w": ["tp"]}, mesh="{tp: 8}")), "torch", "--python")
    assert "_StridedShard" not in text
    assert 'mesh_shape = (8,)\nmesh_dim_names = ("tp",)\n' in text
    text = export(manifest_of(model, emit_cases.plan_of({"a.w": ["t, p"]}, mesh='{"t, p": 8}')), "torch", "--python")
    assert 'mesh_shape = (8,)\nmesh_dim_names = ("t, p",)\n' in text


def test_onnx_lists_the_ranks_of_each_shard(manifest_of):
    document = json.loads(export(manifest_of(*emit_cases.EVEN), "onnx"))
    assert document["model"] == {"configuration": [{"name": "tpplan", "num_devices": 8}]}
    assert document["device_configuration"]["configuration_id"] == "tpplan"
    specs = {spec["tensor_name"]: spec for spec in document["device_configuration"]["sharding_spec"]}
    assert specs["norm.weight"] == {
        "tensor_name": "norm.weight",
        "device": [-1],
        "index_to_device_group_map": [{"key": -1, "value": [0, 1, 2, 3, 4, 5, 6, 7]}],
    }
    assert specs["layers.0.wq"] == {
        "tensor_name": "layers.0.wq",
        "device": [0, 4, 1, 5, 2, 6, 3, 7],
        "sharded_dim": [
            {"axis": 0, "simple_sharding": [{"dim_value": 32, "num_shards": 4}]},
            {"axis": 1, "simple_sharding": [{"dim_value": 8, "num_shards": 2}]},
        ],
    }


def test_onnx_rejects_a_mesh_with_too_many_ranks(manifest_of):
    model = emit_cases.model_of({"a": {"w": [1 << 20]}})
    path = manifest_of(model, emit_cases.plan_of({"a.w": ["tp"]}, mesh="{tp: 131072}"))
    result = run("export", path, "--to", "onnx", "--lossy")
    assert (result.returncode, codes(result), result.stdout) == (3, ["TP9001"], b"")
    assert export(path, "jax")


SEGMENTS_LOSS = "{} cannot express that the segments of `a.{}` are sharded separately"
UNEVEN_LOSS = "{} cannot express that the shards of `a.one` have different sizes"


@pytest.mark.parametrize("case", ["EVEN", "REPLICATED", "SCALAR"])
@pytest.mark.parametrize("to", FORMATS)
def test_even_shards_over_one_axis_are_lossless_everywhere(to, case, manifest_of):
    assert losses(manifest_of(*getattr(emit_cases, case)), to) == []


@pytest.mark.parametrize("to", FORMATS)
def test_two_axes_on_a_dim_are_lossless_except_in_keras(to, manifest_of):
    expected = ["keras cannot express that a dim of `layers.0.wq` is sharded over two axes"] if to == "keras" else []
    assert losses(manifest_of(*emit_cases.TWO_AXES), to) == expected


@pytest.mark.parametrize("to", FORMATS)
def test_uneven_shards_are_lossless_in_torch_and_shardy(to, manifest_of):
    expected = [] if to in ("torch", "shardy") else [UNEVEN_LOSS.format(to)]
    assert losses(manifest_of(*emit_cases.UNEVEN), to) == expected


@pytest.mark.parametrize(
    ("case", "is_lost"), [("UNEVEN_TWO_AXES", True), ("UNEVEN_STRIDED", True), ("UNEVEN_ALIKE", False)]
)
def test_shardy_shards_an_uneven_dim_by_the_axis_product(case, is_lost, manifest_of):
    path = manifest_of(*getattr(emit_cases, case))
    sentence = "shardy cannot express that a dim of `a.w` is sharded unevenly, one axis after the other"
    assert losses(path, "shardy") == ([sentence] if is_lost else [])
    assert losses(path, "torch") == []


@pytest.mark.parametrize("to", FORMATS)
def test_even_segments_are_lossless_only_in_torch(to, manifest_of):
    expected = [] if to == "torch" else [SEGMENTS_LOSS.format(to, "equal")]
    assert losses(manifest_of(*emit_cases.SEGMENTS), to) == expected


@pytest.mark.parametrize("to", FORMATS)
def test_uneven_segments_are_lossy_everywhere(to, manifest_of):
    expected = SEGMENTS_LOSS.format(to, "qkv").replace(
        "`a.qkv`", "`a.qkv`, which have different sizes," if to == "torch" else "`a.qkv`"
    )
    assert losses(manifest_of(*emit_cases.UNEQUAL), to) == [expected]


def test_uneven_segments_over_two_axes_are_lossy_in_torch(manifest_of):
    sentence = "torch cannot express that a dim of `a.w` is sharded unevenly over several axes"
    assert losses(manifest_of(*emit_cases.UNEVEN_SEGMENTS), "torch") == [sentence]


def test_unsharded_segments_are_no_loss(manifest_of):
    model, _ = emit_cases.SEGMENTS
    path = manifest_of(model, emit_cases.plan_of({"a.equal": [None, "tp"], "a.plain": [None, "fsdp"]}))
    for to in FORMATS:
        assert losses(path, to) == []


def test_loss_is_one_diagnostic_with_a_parameter_and_a_count(manifest_of):
    model = emit_cases.model_of({f"layers.{i}": {"w": [5]} for i in range(12)} | {"other": {"v": [4]}})
    path = manifest_of(model, emit_cases.plan_of({"layers.*.w": ["tp"], "other.v": ["tp"]}, more="uneven: torch\n"))
    text = run("export", path, "--to", "jax").stderr.decode()
    lines = path.read_text(encoding="utf-8").splitlines()
    line, row = next((i, row) for i, row in enumerate(lines, 1) if '"layers.0.w"' in row)
    column = row.index('"layers.0.w"') + 1
    assert text.startswith(f"{path}:{line}:{column}: error[TP7003]: ")
    assert text.count("TP7003") == 1 and "11 parameters more with the same cause" in text and "--lossy" in text


def test_dropped_axes_leave_a_valid_jax_sharding(manifest_of):
    model = emit_cases.model_of({"a": {"five": [5, 8], "six": [6], "eight": [8], "twelve": [12]}})
    rules = {
        "a.five": [["fsdp", "tp"], "a"],
        "a.six": [["fsdp", "tp"]],
        "a.eight": [["tp", "fsdp"]],
        "a.twelve": [["tp", "fsdp"]],
    }
    path = manifest_of(model, emit_cases.plan_of(rules, "{fsdp: 2, tp: 4, a: 2}", "uneven: torch\n"))
    jax = json.loads(export(path, "jax", "--lossy"))["specs"]
    assert jax == {"a.five": [None, "a"], "a.six": ["fsdp"], "a.eight": [["tp", "fsdp"]], "a.twelve": ["tp"]}
    keras = json.loads(export(path, "keras", "--lossy"))["layout_map"]
    assert keras == {r"a\.five": [None, "a"], r"a\.six": ["fsdp"], r"a\.eight": ["tp"], r"a\.twelve": ["tp"]}


# ---- the command ----


@pytest.mark.parametrize("to", FORMATS)
def test_export_to_a_file_matches_standard_output(to, manifest_of, tmp_path):
    path = manifest_of(*emit_cases.EVEN)
    output = tmp_path / "out"
    result = run("export", path, "--to", to, "-o", output)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert output.read_bytes() == run("export", path, "--to", to).stdout
    assert output.read_bytes() == run("export", "-", "--to", to, stdin=path.read_bytes()).stdout


@pytest.mark.parametrize("to", FORMATS)
def test_lossy_export_writes_no_file(to, manifest_of, tmp_path):
    path = manifest_of(*emit_cases.UNEQUAL)
    output = tmp_path / "out"
    output.write_text("old", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    result = run("export", path, "--to", to, "-o", output)
    assert (result.returncode, output.read_text(encoding="utf-8")) == (1, "old")
    assert sorted(tmp_path.iterdir()) == before
    assert result.stderr.decode().endswith("1 error; nothing is written\n")


def test_manifest_is_not_overwritten(manifest_of):
    path = manifest_of(*emit_cases.EVEN)
    before = path.read_bytes()
    result = run("export", path, "--to", "jax", "-o", path)
    assert (result.returncode, codes(result), path.read_bytes()) == (2, ["TP1010"], before)


def test_unwritable_output_is_an_error(manifest_of, tmp_path):
    result = run("export", manifest_of(*emit_cases.EVEN), "--to", "jax", "-o", tmp_path / "no" / "folder")
    assert (result.returncode, codes(result)) == (2, ["TP1009"])


def test_unreadable_or_wrong_file_is_rejected(tmp_path):
    (tmp_path / "plan.json").write_text("{}", encoding="utf-8")
    assert codes(run("export", tmp_path / "absent.json", "--to", "jax")) == ["TP1001"]
    result = run("export", tmp_path / "plan.json", "--to", "jax")
    assert (result.returncode, codes(result), result.stdout) == (2, ["TP7001"], b"")


@pytest.mark.parametrize("flags", [(), ("--to", "numpy"), ("--to", "jax", "--python"), ("--to", "keras", "--python")])
def test_wrong_arguments_are_usage_errors(flags, manifest_of):
    result = run("export", manifest_of(*emit_cases.EVEN), *flags)
    assert (result.returncode, result.stdout) == (2, b"") and result.stderr


def test_help_names_every_format():
    text = run("export", "--help").stdout.decode()
    assert all(f"{to}: " in text for to in FORMATS)
