"""What the program writes are the same bytes wherever it runs, whoever compiled it: same_bytes.txt, in the form of sha256sum,
holds every build to them that runs this test (released and static, with sanitizers and shared libraries, by clang). And it
is the same in other locales, on one processor, with the members of the inputs in another order.

TPPLAN_UPDATE_GOLDEN=1 writes the file anew where what is written was changed on purpose."""

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
# Of a manifest: what other programs are fed with, and what people look at.
WRITTEN = {
    "show": ("show", "manifest.json", "--format", "json"),
    "rank": ("show", "manifest.json", "--rank", "1"),
    "chart": ("show", "manifest.json", "--chart"),
    "report": ("report", "manifest.json"),
    **{to: ("export", "manifest.json", "--to", to, "--lossy", "--quiet") for to in ("jax", "shardy", "torch")},
}


def shipped():
    """{plan: (model, mesh)}: the first model that its comment names, on the last mesh of it."""
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
    """{what: bytes}"""
    mesh = put_inputs(plan, folder)
    manifest = good(run("compile", "model.json", "plan.yaml", "--mesh", mesh, cwd=folder))
    (folder / "manifest.json").write_bytes(manifest)
    made = {what: good(run(*arguments, cwd=folder)) for what, arguments in WRITTEN.items()}
    costs = run("check", "model.json", "plan.yaml", "--mesh", mesh, "--costs", "--topology", TOPOLOGY, cwd=folder)
    return {"manifest": manifest, "costs": good(costs), **made}


def recorded():
    return dict(reversed(line.split("  ")) for line in GOLDEN.read_text().splitlines())


@pytest.mark.parametrize("plan", SHIPPED)
def test_every_build_writes_these_bytes(plan, tmp_path):
    made = {f"{plan}/{what}": hashlib.sha256(text).hexdigest() for what, text in outputs(plan, tmp_path).items()}
    if os.environ.get("TPPLAN_UPDATE_GOLDEN"):
        kept = {name: digest for name, digest in (recorded() if GOLDEN.exists() else {}).items() if name not in made}
        GOLDEN.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted((kept | made).items())))
    held = {name: digest for name, digest in recorded().items() if name.startswith(f"{plan}/")}
    other = sorted(name for name in made if held.get(name) != made[name])
    assert made.keys() == held.keys() and not other, f"{other} are not as {GOLDEN.name} has them"


def test_the_list_holds_every_shipped_plan():
    assert {name.split("/")[0] for name in recorded()} == set(SHIPPED)


# ---- the same build, elsewhere ----


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    return folder, outputs("llama", folder)


@pytest.fixture(scope="module")
def turkish(tmp_path_factory):
    """Variables of a locale where i is no small I, and whose numbers have commas."""
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
def test_surroundings_change_nothing(variables, llama, monkeypatch):
    folder, made = llama
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    again = outputs("llama", folder)
    again["chart"] = made["chart"]  # drawn with what the locale's characters allow, which report/report holds
    assert again == made


def test_another_language_changes_nothing(turkish, llama, monkeypatch):
    folder, made = llama
    for name, value in turkish.items():
        monkeypatch.setenv(name, value)
    assert outputs("llama", folder) == made


def test_one_processor_and_another_run_change_nothing(llama):
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
    """The same document, the members of each object in another order: but for those whose order says something:
    parameters and buffers of a module stand as the model has them, tables of a graph before what names their entries."""
    if isinstance(value, list):
        return [shuffled(item, generator) for item in value]
    if not isinstance(value, dict):
        return value
    members = [(key, item if key in IN_ORDER else shuffled(item, generator)) for key, item in value.items()]
    generator.shuffle(members)
    return dict(members)


def without_texts_of_inputs(manifest):
    """A manifest but for what it says of the texts that it was made of."""
    document = json.loads(manifest)
    del document["digest"], document["inputs"]["model"]["sha256"], document["inputs"]["plan"]["sha256"]
    for rule in document["rules"]:
        del rule["line"]
    return json.dumps(document)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_members_changes_nothing(seed, llama, tmp_path):
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
