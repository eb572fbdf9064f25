"""Every build writes the same bytes: same_bytes.txt, in the format of sha256sum, has the hash of each output, for all builds that run this
test (release and static, with sanitizers and shared libraries, by clang). Locales, the number of processors and the order of fields in the
inputs change no byte.

TPPLAN_UPDATE_GOLDEN=1 writes the file after an intended change of the output."""

import hashlib
import json
import lzma
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, run

GOLDEN = pathlib.Path(__file__).with_name("same_bytes.txt")
TOPOLOGY = ROOT / "plans" / "topologies" / "h100.yaml"
MODELS = ROOT / "tests" / "plans" / "models"
# Outputs made from a manifest, for other programs and for users.
WRITTEN = {
    "show": ("show", "manifest.json", "--format", "json"),
    "rank": ("show", "manifest.json", "--rank", "1"),
    "chart": ("show", "manifest.json", "--chart"),
    "report": ("report", "manifest.json"),
    **{to: ("export", "manifest.json", "--to", to, "--lossy", "--quiet") for to in ("jax", "shardy", "torch")},
}


def shipped():
    """{plan: (model, mesh)}: the first model in its comment, on the last mesh of that model."""
    found = {}
    for path in sorted((ROOT / "plans").glob("*.yaml")):
        for model, mesh in re.findall(r"^# Tested: (\S+) on (?:\S+ )*?(\S+?)[;.:]", path.read_text(), re.MULTILINE):
            found[path.stem] = (model, mesh)
    return {plan: pair for plan, pair in found.items() if plan != "seeds"}


SHIPPED = shipped()


def put_inputs(plan, folder):
    model, mesh = SHIPPED[plan]
    for place in (ROOT / "plans" / "models", MODELS):
        if (place / f"{model}.json").exists():
            shutil.copy(place / f"{model}.json", folder / "model.json")
    if not (folder / "model.json").exists():
        (folder / "model.json").write_bytes(lzma.decompress((MODELS / f"{model}.json.xz").read_bytes()))
    shutil.copy(ROOT / "plans" / f"{plan}.yaml", folder / "plan.yaml")
    return mesh


def good(result):
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def outputs(plan, folder):
    """{output: bytes}"""
    mesh = put_inputs(plan, folder)
    manifest = good(run("compile", "model.json", "plan.yaml", "--mesh", mesh, cwd=folder))
    (folder / "manifest.json").write_bytes(manifest)
    made = {what: good(run(*arguments, cwd=folder)) for what, arguments in WRITTEN.items()}
    costs = run("check", "model.json", "plan.yaml", "--mesh", mesh, "--costs", "--topology", TOPOLOGY, cwd=folder)
    return {"manifest": manifest, "costs": good(costs), **made}


def recorded():
    return dict(reversed(line.split("  ")) for line in GOLDEN.read_text().splitlines())


@pytest.mark.parametrize("plan", SHIPPED)
def test_every_build_writes_the_same_bytes(plan, tmp_path):
    made = {f"{plan}/{what}": hashlib.sha256(text).hexdigest() for what, text in outputs(plan, tmp_path).items()}
    if os.environ.get("TPPLAN_UPDATE_GOLDEN"):
        kept = {name: digest for name, digest in (recorded() if GOLDEN.exists() else {}).items() if name not in made}
        GOLDEN.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted((kept | made).items())))
    held = {name: digest for name, digest in recorded().items() if name.startswith(f"{plan}/")}
    other = sorted(name for name in made if held.get(name) != made[name])
    assert made.keys() == held.keys() and not other, f"{other} are not as {GOLDEN.name} has them"


def test_list_has_every_library_plan():
    assert {name.split("/")[0] for name in recorded()} == set(SHIPPED)


# ---- the same build, elsewhere ----


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    return folder, outputs("llama", folder)


@pytest.fixture(scope="module")
def turkish(tmp_path_factory):
    """Environment variables of a locale with a dotted capital I and decimal commas."""
    folder = tmp_path_factory.mktemp("locales")
    try:
        made = subprocess.run(
            ["localedef", "-i", "tr_TR", "-f", "UTF-8", folder / "tr_TR.UTF-8"], capture_output=True, check=False
        )
    except OSError:
        made = None
    if made is None or not (folder / "tr_TR.UTF-8").exists():
        pytest.skip("this machine can make no locale: it lacks localedef or the sources of locales")
    return {"LOCPATH": str(folder), "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}


ELSEWHERE = {
    "no-locale": {"LC_ALL": "C", "LANG": "C"},
    "a-locale-that-is-not-there": {"LC_ALL": "xx_XX.UTF-8"},
    "another-day": {"TZ": "Pacific/Kiritimati", "SOURCE_DATE_EPOCH": "0"},
    "no-home": {"HOME": "/nonexistent", "USER": "", "TMPDIR": "/nonexistent"},
}


@pytest.mark.parametrize("variables", ELSEWHERE.values(), ids=ELSEWHERE)
def test_environment_changes_no_byte(variables, llama, monkeypatch):
    folder, made = llama
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    again = outputs("llama", folder)
    again["chart"] = made["chart"]  # depends on the character set of the locale, which report/report tests
    assert again == made


def test_locale_changes_no_byte(turkish, llama, monkeypatch):
    folder, made = llama
    for name, value in turkish.items():
        monkeypatch.setenv(name, value)
    assert outputs("llama", folder) == made


def test_single_processor_changes_no_byte(llama):
    folder, made = llama
    processors = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(processors)})
        assert outputs("llama", folder) == made
    finally:
        os.sched_setaffinity(0, processors)
    assert outputs("llama", folder) == made


IN_ORDER = ("parameters", "buffers", "graph")


def shuffled(value, generator):
    """The same document with shuffled fields, except where the order has a meaning: parameters and buffers of a module, and the tables of
    a graph before their uses."""
    if isinstance(value, list):
        return [shuffled(item, generator) for item in value]
    if not isinstance(value, dict):
        return value
    members = [(key, item if key in IN_ORDER else shuffled(item, generator)) for key, item in value.items()]
    generator.shuffle(members)
    return dict(members)


def without_texts_of_inputs(manifest):
    """A manifest without the names and hashes of its inputs."""
    document = json.loads(manifest)
    del document["digest"], document["inputs"]["model"]["sha256"], document["inputs"]["plan"]["sha256"]
    for rule in document["rules"]:
        del rule["line"]
    return json.dumps(document)


@pytest.mark.parametrize("seed", range(3))
def test_field_order_changes_no_byte(seed, llama, tmp_path):
    _, made = llama
    mesh = put_inputs("llama", tmp_path)
    generator = random.Random(seed)
    model = json.loads((tmp_path / "model.json").read_text())
    plan = (tmp_path / "plan.yaml").read_text()
    blocks = re.findall(r"(?m)^(?:#.*\n)*[a-z_]+:.*\n(?:[ #].*\n|\n)*", plan)
    assert len("".join(blocks)) > len(plan) / 2 and len(blocks) > 3
    generator.shuffle(blocks)
    (tmp_path / "model.json").write_text(json.dumps(shuffled(model, generator)))
    (tmp_path / "plan.yaml").write_text("".join(blocks))
    again = good(run("compile", "model.json", "plan.yaml", "--mesh", mesh, cwd=tmp_path))
    assert without_texts_of_inputs(again) == without_texts_of_inputs(made["manifest"])
