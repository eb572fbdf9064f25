"""Exports read by their libraries: the shards of a rank match `tpplan show --rank`.

Each test is skipped if its library is missing."""

import itertools
import json
import math
import pathlib
import re
import subprocess
import sys

import pytest

import emit_cases
from conftest import run, write

SCRIPT = pathlib.Path(__file__).resolve().parent / "libraries.py"
NAMED = (
    "TWO_AXES",
    "EVEN",
    "REPLICATED",
    "SCALAR",
    "UNEVEN",
    "UNEVEN_TWO_AXES",
    "UNEVEN_STRIDED",
    "UNEVEN_ALIKE",
    "SEGMENTS",
    "SEGMENTS_TWO_AXES",
)
EVENLY = ("two_axes", "even", "replicated", "scalar", "hostile")
CASES = {name.lower(): getattr(emit_cases, name) for name in NAMED} | {"hostile": emit_cases.hostile_case()}
RANDOM = {f"random_{seed}": emit_cases.random_seams_case(seed) for seed in range(24)}
MAJOR = (emit_cases.TWO_AXES[0], emit_cases.plan_of({"layers.*.wq": ["tp", None], "head.weight": ["fsdp", None]}))
DTYPES = json.loads(run("schema", "model").stdout)


@pytest.fixture(scope="session")
def manifests(tmp_path_factory):
    """{case: path of its manifest}"""
    paths = {}
    for case, inputs in (CASES | RANDOM | {"major": MAJOR, "dtypes": dtypes_case()}).items():
        folder = tmp_path_factory.mktemp(case)
        result = run("compile", *write(folder, *inputs), "-o", folder / "manifest.json")
        assert result.returncode == 0, result.stderr.decode()
        paths[case] = folder / "manifest.json"
    return paths


def parameters_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["parameters"]


def shapes_of(path):
    return {entry["path"]: entry["shape"] for entry in parameters_of(path)}


def held_elements(path):
    """{path: [for each rank the sorted row-major indices of its shard]} by `tpplan show`."""
    shapes = shapes_of(path)
    held = {name: [] for name in shapes}
    mesh = json.loads(path.read_text(encoding="utf-8"))["mesh"]
    for rank in range(math.prod(axis["size"] for axis in mesh)):
        shown = run("show", path, "--rank", rank, "--format", "json")
        for line in shown.stdout.decode().strip("\n").split("\n"):
            entry = json.loads(line)
            shape = shapes[entry["path"]]
            runs = [[i for begin, end in dim for i in range(begin, end)] for dim in entry["intervals"]]
            strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
            indices = (sum(i * s for i, s in zip(index, strides)) for index in itertools.product(*runs))
            held[entry["path"]].append(sorted(indices))
    return held


def export(path, to, *flags):
    result = run("export", path, "--to", to, *flags)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def ask(library, requests):
    """The results of one process for {name: (export, shapes)}."""
    text = json.dumps([{"export": text, "shapes": shapes} for text, shapes in requests.values()])
    result = subprocess.run([sys.executable, SCRIPT, library], input=text.encode(), capture_output=True, timeout=600)
    if result.returncode == 77:
        pytest.skip(f"{library} is not installed: {result.stdout.decode().strip()}")
    assert result.returncode == 0, result.stderr.decode()
    return dict(zip(requests, json.loads(result.stdout), strict=True))


@pytest.fixture(scope="session")
def answers(manifests):
    """answers(library, to, cases, *flags): the library's results for the exports of these cases, computed once."""
    known = {}

    def ask_once(library, to, cases, *flags):
        key = (library, to, tuple(cases), flags)
        if key not in known:
            known[key] = ask(
                library, {case: (export(manifests[case], to, *flags), shapes_of(manifests[case])) for case in cases}
            )
        return known[key]

    return ask_once


@pytest.mark.parametrize("case", EVENLY)
@pytest.mark.parametrize("library", ["jax", "orbax", "onnx"])
def test_library_shards_match_the_manifest(library, case, answers, manifests):
    assert answers(library, library, EVENLY)[case] == held_elements(manifests[case])


@pytest.mark.parametrize("case", EVENLY[1:])
def test_keras_finds_the_layout_of_every_variable(case, answers, manifests):
    assert answers("keras", "keras", EVENLY[1:])[case] == held_elements(manifests[case])


def test_keras_uses_the_major_axis_of_two(answers, manifests):
    assert answers("keras", "keras", ["two_axes"], "--lossy")["two_axes"] == held_elements(manifests["major"])


@pytest.mark.parametrize("flags", [(), ("--python",)], ids=["json", "python"])
@pytest.mark.parametrize("case", CASES)
def test_torch_shards_match_the_manifest(case, flags, answers, manifests):
    assert answers("torch", "torch", CASES, *flags)[case] == held_elements(manifests[case])


@pytest.mark.parametrize("case", RANDOM)
def test_lossless_export_to_torch_matches_the_manifest(case, answers, manifests):
    """For each parameter: without a loss it has the manifest's elements, with one it has not."""
    made, held = answers("torch", "torch", RANDOM, "--lossy")[case], held_elements(manifests[case])
    wrong = [path for path in held if made[path] != held[path]]
    refused = run("export", manifests[case], "--to", "torch")
    assert refused.returncode == (1 if wrong else 0)
    notes = re.findall(r"cannot express that .*`(m\.w\d+)`|and (\d+) parameters? more", refused.stderr.decode())
    assert len(wrong) == sum(int(more) if more else 1 for _, more in notes)
    assert {path for path, _ in notes if path} <= set(wrong)


@pytest.mark.parametrize("case", CASES)
def test_mlir_verifies_the_shardy_export(case, answers, manifests):
    answer = answers("mlir", "shardy", CASES, "--lossy")[case]
    manifest = json.loads(manifests[case].read_text(encoding="utf-8"))
    assert answer["mesh"] == [[axis["name"], axis["size"]] for axis in manifest["mesh"]]
    for entry in manifest["parameters"]:
        axes = [[] if e is None else [e] if isinstance(e, str) else e for e in entry["spec"]]
        assert answer["parameters"][entry["path"]] == [entry["shape"], "f32", axes]
    assert len(answer["parameters"]) == len(manifest["parameters"])


@pytest.mark.parametrize("case", CASES)
def test_mlir_output_reads_as_the_export(case, answers, manifests, tmp_path):
    texts = export(manifests[case], "shardy", "--lossy"), answers("mlir", "shardy", CASES, "--lossy")[case]["text"]
    plans = []
    for text in texts:
        (tmp_path / "specs.mlir").write_text(text, encoding="utf-8")
        plans.append(run("import", "--from", "shardy", tmp_path / "specs.mlir").stdout)
    assert plans[0] and plans[0] == plans[1]


def dtypes_case():
    model = emit_cases.model_of({"m": {name: ([32], {"dtype": name}) for name in find_dtypes(DTYPES)}})
    return model, emit_cases.plan_of({"m": ["tp"]})


def find_dtypes(schema):
    """The enumeration of a schema that contains bfloat16."""
    if isinstance(schema, dict):
        if "bfloat16" in schema.get("enum", []):
            return schema["enum"]
        schema = list(schema.values())
    found = [find_dtypes(item) for item in schema] if isinstance(schema, list) else []
    return next((names for names in found if names), None)


def test_every_dtype_has_a_type_in_mlir(answers):
    parameters = answers("mlir", "shardy", ["dtypes"])["dtypes"]["parameters"]
    types = {path.removeprefix("m."): type_ for path, (_, type_, _) in parameters.items()}
    assert set(types) == set(find_dtypes(DTYPES)) and "none" not in types.values()
    assert (types["bfloat16"], types["float8_e4m3fn"], types["uint8"], types["bool"]) == (
        "bf16",
        "f8E4M3FN",
        "ui8",
        "i1",
    )
