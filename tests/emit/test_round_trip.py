"""export -> import -> compile: a specs file becomes a plan that compiles to the same specs."""

import json
import lzma
import os
import re

import pytest

import emit_cases
from conftest import ROOT, codes, run, write
from emit_cases import READERS

PLANS = ROOT / "plans"
MODELS = ROOT / "tests" / "plans" / "models"
SANITIZED = os.environ.get("TPPLAN_SANITIZED") == "1"  # the same code on another mesh, in ten times the time


def shipped_plans():
    """[(plan, model, mesh), ...] of the lines `# Tested: MODEL on MESH MESH; MODEL on MESH.` in plans/."""
    found = []
    for path in sorted(PLANS.glob("*.yaml")):
        line = re.search(r"^# Tested: ([^:\n]*)\.$", path.read_text(encoding="utf-8"), re.MULTILINE)
        for part in line.group(1).split("; ") if line else []:
            model, meshes = part.split(" on ")
            found += [(path.stem, model, mesh) for mesh in meshes.split()[: 1 if SANITIZED else None]]
    return found


SHIPPED = shipped_plans()


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    """model_file(name): the path of a model graph without head counts. A spec file does not distinguish FSDP from tensor parallelism, and
    without FSDP's exemption a plan that splits heads is an error."""
    folder = tmp_path_factory.mktemp("models")

    def find(name):
        out = folder / f"{name}.json"
        if not out.exists():
            plain = next(
                (path for path in (PLANS / "models" / f"{name}.json", MODELS / f"{name}.json") if path.exists()), None
            )
            text = plain.read_bytes() if plain else lzma.decompress((MODELS / f"{name}.json.xz").read_bytes())
            model = json.loads(text)
            for module in model["modules"]:
                for attribute in ("num_heads", "num_kv_heads", "head_dim"):
                    module.get("attributes", {}).pop(attribute, None)
            out.write_text(json.dumps(model), encoding="utf-8")
        return out

    return find


def specs_of(manifest):
    return {entry["path"]: entry["spec"] for entry in json.loads(manifest)["parameters"]}


def compiled(model, plan, *flags):
    result = run("compile", model, plan, *flags)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def there_and_back(folder, manifest, name, *flags):
    """The path of the plan that imports the export to `name`."""
    (folder / "exported.json").write_bytes(manifest)
    specs, plan = folder / f"specs.{name}", folder / f"imported-{name}.yaml"
    exported = run("export", folder / "exported.json", "--to", name, "-o", specs, *flags)
    assert exported.returncode == 0, exported.stderr.decode()
    imported = run("import", "--from", name, specs, "-o", plan, "--quiet")
    assert (imported.returncode, imported.stdout, imported.stderr) == (0, b"", b"")
    return plan


@pytest.mark.parametrize(("plan", "model", "mesh"), SHIPPED)
def test_every_library_plan_round_trips(plan, model, mesh, model_file, tmp_path):
    manifest = compiled(model_file(model), PLANS / f"{plan}.yaml", "--mesh", mesh)
    for name in READERS:
        back = there_and_back(tmp_path, manifest, name, "--lossy")
        assert specs_of(compiled(model_file(model), back)) == specs_of(manifest)
        assert back.read_text(encoding="utf-8").count("\n") < 40, "layers share a rule"


def test_library_plans_exist():
    assert len({(plan, model) for plan, model, _ in SHIPPED}) >= 14


def random_cases():
    for seed in range(40):
        yield f"even-{seed}", emit_cases.random_case(seed), READERS
        yield f"segments-{seed}", emit_cases.random_case(seed, segments=True), READERS
        yield f"uneven-{seed}", emit_cases.random_case(seed, uneven=True), ("shardy", "torch")
    for name in ("TWO_AXES", "EVEN", "REPLICATED", "SCALAR", "SEGMENTS", "SEGMENTS_TWO_AXES", "UNEQUAL"):
        yield name.lower(), getattr(emit_cases, name), READERS
    for name in ("UNEVEN", "UNEVEN_TWO_AXES", "UNEVEN_STRIDED", "UNEVEN_ALIKE", "UNEVEN_SEGMENTS"):
        yield name.lower(), getattr(emit_cases, name), ("shardy", "torch")
    yield "hostile", emit_cases.hostile_case(), READERS


@pytest.mark.parametrize(
    ("inputs", "names"), [pytest.param(inputs, names, id=case) for case, inputs, names in random_cases()]
)
def test_specs_round_trip(inputs, names, tmp_path):
    model, plan = write(tmp_path, *inputs)
    manifest = compiled(model, plan)
    for name in names:
        back = there_and_back(tmp_path, manifest, name, "--lossy")
        assert specs_of(compiled(model, back)) == specs_of(manifest), name


@pytest.mark.parametrize("name", READERS)
def test_second_export_equals_the_first(name, tmp_path):
    model, plan = write(tmp_path, *emit_cases.EVEN)
    manifest = compiled(model, plan)
    back = there_and_back(tmp_path, manifest, name)
    first = (tmp_path / f"specs.{name}").read_bytes()
    again = there_and_back(tmp_path, compiled(model, back), name)
    assert (tmp_path / f"specs.{name}").read_bytes() == first and again.read_bytes() == back.read_bytes()


# Two fused weights and a bias, sharded over fsdp without regard to segments; by segment, over tp.
FUSED = {
    "format": "tpplan.model/1",
    "name": "Model",
    "framework": "torch",
    "modules": [
        {
            "path": "gate_up",
            "type": "Linear",
            "parameters": {
                "weight": {"shape": [32, 8], "dtype": "float32", "segments": {"out": [16, 16]}},
                "bias": {"shape": [32], "dtype": "float32"},
            },
        },
        {"path": "attn", "type": "Container", "attributes": {"num_heads": 4, "num_kv_heads": 2, "head_dim": 4}},
        {
            "path": "attn.qkv_proj",
            "type": "Linear",
            "parameters": {"weight": {"shape": [32, 8], "dtype": "float32", "segments": {"out": [16, 8, 8]}}},
        },
    ],
}
FSDP_ONLY = "format: tpplan.plan/1\nmesh: {fsdp: 2}\nfsdp: {axis: fsdp, min_weight_size: 0, policy: dim0}\n"


def slices_of(folder, manifest):
    (folder / "sliced.json").write_bytes(manifest)
    return {
        json.loads(line)["path"]: json.loads(line)["intervals"]
        for line in run("show", folder / "sliced.json", "--rank", "0", "--format", "json").stdout.splitlines()
    }


@pytest.mark.parametrize("name", READERS)
def test_fused_dim_sharded_as_one_segment_round_trips(name, tmp_path):
    model, plan = write(tmp_path, FUSED | {"modules": FUSED["modules"][:1]}, FSDP_ONLY)
    manifest = compiled(model, plan)
    assert slices_of(tmp_path, manifest)["gate_up.weight"] == [[[0, 16]], [[0, 8]]]
    result = run("compile", model, there_and_back(tmp_path, manifest, name))
    assert slices_of(tmp_path, result.stdout) == slices_of(tmp_path, manifest)
    assert result.returncode == 0 and set(codes(result)) == {"TP5013"}, "and the plan says that it does"


@pytest.mark.parametrize("name", READERS)
def test_shard_across_q_k_and_v_is_rejected_without_fsdp(name, tmp_path):
    model, plan = write(tmp_path, FUSED, FSDP_ONLY)
    result = run("compile", model, there_and_back(tmp_path, compiled(model, plan), name))
    assert (result.returncode, result.stdout) == (1, b"")
    assert (
        b"error[TP5005]: dim 0 of `attn.qkv_proj.weight` contains q, k and v, but is sharded as one segment"
        in result.stderr
    )
    assert b"help: use `fsdp:` if only FSDP shards this dim; otherwise remove" in result.stderr


def test_segments_in_torch_placements_round_trip(tmp_path):
    model, plan = write(
        tmp_path,
        FUSED | {"modules": FUSED["modules"][:1]},
        emit_cases.plan_of({"gate_up.weight": ["tp", None], "gate_up.bias": ["tp"]}, "{tp: 2}"),
    )
    manifest = compiled(model, plan)
    result = run("compile", model, there_and_back(tmp_path, manifest, "torch"))
    assert (result.returncode, codes(result)) == (0, [])
    assert (
        slices_of(tmp_path, result.stdout)
        == slices_of(tmp_path, manifest)
        == {"gate_up.weight": [[[0, 8], [16, 24]], [[0, 8]]], "gate_up.bias": [[[0, 8], [16, 24]]]}
    )


@pytest.mark.parametrize(
    ("rule", "status", "code"),
    [
        ("{spec: [tp, null], contiguous: true}", 0, "TP5013"),
        ("{spec: [tp, null], contiguous: false}", 0, None),
        ("{spec: [tp, null], contiguous: maybe}", 2, "TP3003"),
        ("{style: colwise, contiguous: true}", 1, "TP3008"),
    ],
)
def test_contiguous_is_only_valid_with_a_spec(rule, status, code, tmp_path):
    model = FUSED | {
        "modules": [FUSED["modules"][0] | {"parameters": {"weight": FUSED["modules"][0]["parameters"]["weight"]}}]
    }
    result = run(
        "check", *write(tmp_path, model, f"format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan:\n  gate_up: {rule}\n")
    )
    assert (result.returncode, codes(result)[:1]) == (status, [code] if code else [])


def import_text(folder, name, text):
    path = folder / "specs"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return run("import", "--from", name, path)


def jax_file(specs, axes=("fsdp", "tp"), sizes=(2, 4)):
    return json.dumps({"mesh": {"axis_shapes": sizes, "axis_names": axes}, "specs": specs})


def plan_from(folder, specs, **more):
    """The rules of the plan that imports a jax file: {key: spec as written}."""
    result = import_text(folder, "jax", jax_file(specs, **more))
    assert result.returncode == 0, result.stderr.decode()
    rules = re.findall(r'^  (".*"): \{spec: (.*?)(?:, contiguous: true)?\}$', result.stdout.decode(), re.MULTILINE)
    return {json.loads(key): spec for key, spec in rules}


def test_plan_is_short_and_plain(tmp_path):
    result = import_text(
        tmp_path, "jax", jax_file({"layers.0.wq": ["tp", None], "layers.1.wq": ["tp", None], "norm": [None]})
    )
    assert (
        result.stdout.decode()
        == """\
# Written by tpplan import --from jax.
format: tpplan.plan/1
mesh: {fsdp: 2, tp: 4}
tp_plan:
  "layers.*.wq": {spec: [tp, null], contiguous: true}
  "norm": {spec: [null]}
"""
    )


def test_plan_file_references_a_schema_next_to_it(tmp_path):
    (tmp_path / "specs").write_text(jax_file({"a.w": ["tp"]}))
    plan, schema = tmp_path / "plan.yaml", tmp_path / "plan.schema.json"
    result = run("import", "--from", "jax", tmp_path / "specs", "-o", plan)
    assert (result.returncode, result.stderr) == (0, f"{schema}: written for editors\n".encode())
    first, rest = plan.read_text().split("\n", 1)
    assert first == "# yaml-language-server: $schema=plan.schema.json"
    assert schema.read_bytes() == run("schema", "plan").stdout
    assert run("fmt", "--check", plan).returncode == 0
    schema.write_text("mine")
    result = run("import", "--from", "jax", tmp_path / "specs", "-o", plan, "--no-schema")
    assert (result.returncode, result.stderr) == (0, b"")
    assert (plan.read_text(), schema.read_text()) == (rest, "mine")


def test_glob_is_written_only_if_it_matches_exactly_its_paths(tmp_path):
    specs = {"layers.0.w": ["tp"], "layers.1.w": ["tp"], "layers.0.mlp.w": [None], "layers.1.mlp.w": [None]}
    assert plan_from(tmp_path, specs) == {"layers.[0-9].w": "[tp]", "layers.*.mlp.w": "[null]"}


def test_numbers_of_other_lengths_have_separate_globs(tmp_path):
    specs = {f"layers.{i}.w": ["tp"] for i in (0, 1, 10, 11, 100)} | {"layers.x.y.w": [None]}
    assert plan_from(tmp_path, specs) == {
        "layers.[0-9].w": "[tp]",
        "layers.[0-9][0-9].w": "[tp]",
        "layers.[0-9][0-9][0-9].w": "[tp]",
        "layers.x.y.w": "[null]",
    }


def test_number_with_another_spec_has_a_separate_rule(tmp_path):
    specs = {"layers.0.w": [None], "layers.1.w": ["tp"], "layers.2.w": ["tp"]}
    assert plan_from(tmp_path, specs) == {"layers.0.w": "[null]", "layers.1.w": "[tp]", "layers.2.w": "[tp]"}


def test_glob_characters_in_paths_are_escaped(tmp_path):
    specs = {"m.*": ["tp"], "m.a": [None], "m.[x]": ["fsdp"], "m.x": [None], "m.?": ["tp"]}
    assert list(plan_from(tmp_path, specs)) == ["m.[*]", "m.a", "m.[[]x]", "m.x", "m.[?]"]


def test_ambiguous_yaml_names_are_quoted(tmp_path):
    axes = ("null", "no", "8", "a b", "...", "tp")
    specs = {"a.w": [["null", "no"], "8", ["a b"], ["..."], "tp"]}
    (tmp_path / "specs").write_text(jax_file(specs, axes=axes, sizes=(2, 2, 2, 2, 2, 2)), encoding="utf-8")
    plan = tmp_path / "plan.yaml"
    assert run("import", "--from", "jax", tmp_path / "specs", "-o", plan).returncode == 0
    model = tmp_path / "model.json"
    model.write_text(json.dumps(emit_cases.model_of({"a": {"w": [8, 8, 8, 8, 8]}})), encoding="utf-8")
    assert specs_of(compiled(model, plan)) == {"a.w": [["null", "no"], "8", "a b", "...", "tp"]}


def test_torch_placements_of_handwritten_plans_are_read(tmp_path):
    parameters = {
        "a": ["Replicate", "Shard(dim=1)"],
        "b": ["_StridedShard(dim=0, sf=4)", "Shard(0)"],
        "c": ["StridedShard(0, 4)", "StridedShard(0, 2)"],
        "d": ["Replicate()", "_StridedShard(0, split_factor=3)"],
    }
    text = json.dumps({"mesh": {"mesh_shape": [2, 4], "mesh_dim_names": ["fsdp", "tp"]}, "parameters": parameters})
    result = import_text(tmp_path, "torch", text)
    assert re.findall(r'"(\w)": \{spec: (.*)\}', result.stdout.decode()) == [
        ("a", "[null, tp, ...], contiguous: true"),
        ("b", "[[tp, fsdp], ...], contiguous: true"),
        ("c", "[[tp, fsdp], ...]"),
        ("d", "[tp, ...]"),
    ]


SDY = 'sdy.mesh @m = <["x"=2, "y"=4]>\n'


def test_shardy_paths_are_the_names_of_jax_arguments(tmp_path):
    text = """\
module @jit_f {
  sdy.mesh @m = <["x"=2]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>} loc("params['up']['kernel']"), \
%arg1: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>} loc(#loc1), \
%arg2: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>} loc("tokens")) -> (tensor<4xf32>) {
  }
}
#loc1 = loc("state.layers[0].down.value")
"""
    result = import_text(tmp_path, "shardy", text)
    assert re.findall(r'  "(.*)": \{spec: (\[.*?\])', result.stdout.decode()) == [
        ("up.kernel", "[x, null]"),
        ("layers.0.down", "[null, x]"),
    ]


def test_shardy_is_read_from_any_module(tmp_path):
    text = (
        '// a comment with "quotes\n'
        + "module @jit_f attributes {mhlo.num_partitions = 8 : i32} {\n"
        + SDY
        + """\
  func.func public @main(%arg0: tensor<8x8xf32> {tpplan.path = "a\\22\\0A", \
sdy.sharding = #sdy.sharding<@m, [{"y", "x"}, {}]>}) -> tensor<8x8xf32> {
    return %arg0 : tensor<8x8xf32>
  }
  func.func private @f(tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{}], replicated={"x"}>, tpplan.path = "b"}, tensor<8xf32>)
}
"""
    )
    result = import_text(tmp_path, "shardy", text)
    assert re.findall(r'  (".*"): \{spec: (.*)\}', result.stdout.decode()) == [
        ('"a\\"\\n"', '[["y", x], null], contiguous: true'),
        ('"b"', "[null]"),
    ]


def parameter(sharding):
    return f'func.func private @f(tensor<8x8xf32> {{sdy.sharding = {sharding}, tpplan.path = "w"}})\n'


GOOD = parameter('#sdy.sharding<@m, [{"x"}, {}]>')
MESH = '"mesh": {"axis_shapes": [2], "axis_names": ["tp"]}'
TORCH = '{"mesh": {"mesh_shape": [2, 4], "mesh_dim_names": ["fsdp", "tp"]}, "parameters": {"w": %s}}'
REFUSED = [
    ("jax", "{}", "no `mesh`"),
    ("jax", "{%s}" % MESH, "no `specs`"),
    ("jax", '{%s, "specs": {}}' % MESH, "no parameters"),
    ("jax", '{%s, "specs": []}' % MESH, "not an object"),
    ("jax", '{%s, "specs": {"w": "tp"}}' % MESH, "not an array"),
    ("jax", '{%s, "specs": {"w": [3]}}' % MESH, "not a string"),
    ("jax", '{%s, "specs": {"w": [[null]]}}' % MESH, "is null"),
    ("jax", '{%s, "specs": {"w": ["x"]}}' % MESH, "`x` is not an axis"),
    ("jax", '{%s, "specs": {"w": ["tp", "tp"]}}' % MESH, "twice in one spec"),
    ("jax", '{"mesh": [], "specs": {"w": []}}', "not an object"),
    ("jax", '{"mesh": {"axis_shapes": [2]}, "specs": {"w": []}}', "no `axis_names`"),
    ("jax", '{"mesh": {"axis_shapes": [2, 2], "axis_names": ["a"]}, "specs": {"w": []}}', "different lengths"),
    ("jax", '{"mesh": {"axis_shapes": [2], "axis_names": ["a", "b"]}, "specs": {"w": []}}', "different lengths"),
    ("jax", '{"mesh": {"axis_shapes": [2, 2], "axis_names": ["a", "a"]}, "specs": {"w": []}}', "twice in the mesh"),
    ("jax", '{"mesh": {"axis_shapes": [0], "axis_names": ["a"]}, "specs": {"w": []}}', "must have at least 1"),
    ("jax", '{"mesh": {"axis_shapes": [2.0], "axis_names": ["a"]}, "specs": {"w": []}}', "not a whole number"),
    ("jax", '{"mesh": {"axis_shapes": [2], "axis_names": [""]}, "specs": {"w": []}}', "empty name"),
    ("jax", '{"mesh": {"axis_shapes": [65536, 32768], "axis_names": ["a", "b"]}, "specs": {"w": []}}', "2^31"),
    ("jax", '{%s, "uneven": "pad", "specs": {"w": []}}' % MESH, "must be error or torch"),
    ("torch", TORCH % '["Shard(0)"]', "1 placements"),
    ("torch", TORCH % '["Shard(0)", "Partial()"]', "Partial"),
    ("torch", TORCH % '["Shard(0)", "Shard(-1)"]', "Shard(-1)"),
    ("torch", TORCH % '["Shard(0)", "Cut(1)"]', "Cut(1)"),
    ("torch", TORCH % '["_StridedShard(0, split_factor=3)", "Shard(0)"]', "split factor"),
    ("torch", TORCH % '["_StridedShard(0, split_factor=0)", "Shard(0)"]', "split_factor=0"),
    ("torch", TORCH % "{}", "not an array"),
    ("torch", TORCH % "[1, 2]", "not a string"),
    ("shardy", GOOD, "is not an earlier mesh of this module"),
    ("shardy", SDY, "no parameters"),
    ("shardy", "module {}", "no `sdy.mesh`"),
    ("shardy", SDY + GOOD + GOOD, "`w` appears twice"),
    ("shardy", SDY + SDY, "two meshes"),
    ("shardy", SDY.replace(">", ", device_ids=[0]>"), "device ids"),
    ("shardy", SDY.replace("=2", "=two"), "not an axis size"),
    ("shardy", SDY + parameter('#sdy.sharding<@m, [{"x", ?}, {}]>'), "open"),
    ("shardy", SDY + parameter("#sdy.sharding<@m, [{?}, {}]>"), "open"),
    ("shardy", SDY + parameter('#sdy.sharding<@m, [{"x"}p1, {}]>'), "priorities"),
    ("shardy", SDY + parameter('#sdy.sharding<@m, [{"y":(1)2}, {}]>'), "parts of axis `y`"),
    ("shardy", SDY + parameter('#sdy.sharding<@m, [{"z"}, {}]>'), "`z` is not an axis"),
    ("shardy", SDY + parameter('#sdy.sharding<@m, [{"x"}, {"x"}]>'), "twice in one spec"),
    ("shardy", SDY + parameter('#sdy.sharding<@n, [{"x"}, {}]>'), "`@n`"),
    ("shardy", SDY + parameter('#sdy.sharding<@m, [{}, {}], unreduced={"x"}>'), "`unreduced`"),
    ("shardy", SDY + parameter("#other.sharding<@m, [{}, {}]>"), "no sdy.sharding"),
    ("shardy", 'module attributes {tpplan.uneven = "pad"} {\n' + SDY + GOOD + "}", "tpplan.uneven is `pad`"),
    ("shardy", SDY + 'func.func private @f(tensor<f32> {tpplan.path = "w\\FF"})', "UTF-8"),
    ("shardy", SDY + 'func.func private @f(tensor<f32> {tpplan.path = "w\\q"})', "escape"),
    ("shardy", SDY + 'func.func private @f(tensor<f32> {tpplan.path = "w', "a string"),
    ("shardy", SDY + "func.func private @f(tensor<f32> {tpplan.path = 3})", "a string"),
]


@pytest.mark.parametrize(("name", "text", "says"), REFUSED)
def test_unreadable_specs_are_rejected_at_their_place(name, text, says, tmp_path):
    result = import_text(tmp_path, name, text)
    assert (result.returncode, result.stdout, codes(result)) == (2, b"", ["TP7004"])
    assert says in result.stderr.decode()
    assert re.match(rf"{re.escape(str(tmp_path / 'specs'))}:\d+:\d+: error\[TP7004\]: ", result.stderr.decode())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "TP1008"),
        ("{", "TP1003"),
        ("[]", "TP1003"),
        ('{"a": 1, "a": 2}', "TP1006"),
        (jax_file({}).replace("{}", '{"w": [], "w": []}'), "TP1006"),
        (b"{\xff", "TP1003"),
    ],
)
def test_broken_json_is_rejected_by_the_json_reader(text, code, tmp_path):
    result = import_text(tmp_path, "jax", text)
    assert (result.returncode, result.stdout, codes(result)) == (2, b"", [code])


@pytest.mark.parametrize("name", READERS)
def test_every_truncation_is_rejected_or_read(name, tmp_path):
    model, plan = write(tmp_path, *emit_cases.SCALAR)
    there_and_back(tmp_path, compiled(model, plan), name)
    text = (tmp_path / f"specs.{name}").read_bytes()
    for length in range(len(text)):
        result = import_text(tmp_path, name, text[:length])
        assert result.returncode in (0, 2), (length, result.stderr)
        assert bool(result.stdout) == (result.returncode == 0)


def in_letters(number):
    """A unique name without digits: names that differ only in digits share a glob."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        ({"a" * 4000 + in_letters(i): ["tp"] for i in range(2200)}, "a plan has at most 8.00 MiB"),
        ({in_letters(i): ["tp"] for i in range(170_000)}, "more than 500000 values"),
    ],
    ids=["bytes", "values"],
)
def test_too_large_plan_is_not_written(specs, says, tmp_path):
    result = import_text(tmp_path, "jax", jax_file(specs))
    assert (result.returncode, result.stdout, codes(result)) == (3, b"", ["TP9001"])
    assert says in result.stderr.decode()


def test_specs_file_is_not_overwritten(tmp_path):
    path = tmp_path / "specs"
    path.write_text(jax_file({"w": ["tp"]}), encoding="utf-8")
    before = path.read_bytes()
    result = run("import", "--from", "jax", path, "-o", path)
    assert (result.returncode, codes(result), path.read_bytes()) == (2, ["TP1010"], before)


@pytest.mark.parametrize("flags", [(), ("--from", "keras"), ("--from",)])
def test_wrong_arguments_are_usage_errors(flags, tmp_path):
    (tmp_path / "specs").write_text("{}", encoding="utf-8")
    result = run("import", tmp_path / "specs", *flags)
    assert (result.returncode, result.stdout) == (2, b"") and result.stderr
