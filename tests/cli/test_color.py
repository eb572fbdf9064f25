"""Colour in output other than diagnostics: --color always adds only colour codes to the text, and names add none."""

import re

import pytest

from conftest import ROOT, linear_model, plan_text, run, write

MODEL, PLAN = ROOT / "plans/models/llama-3-8b.json", ROOT / "plans/llama.yaml"
CODE = re.compile(r"\x1b\[[0-9;]*m")
PATH = "model.layers.0.self_attn.o_proj"


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    out = [tmp_path_factory.mktemp("color") / name for name in ("old.json", "new.json")]
    for path, plan in zip(out, (PLAN, ROOT / "plans/llama-fsdp-tp.yaml")):
        assert run("compile", MODEL, plan, "-q", "-o", path).returncode == 0
    return out


def words_of(command, manifests):
    old, new = manifests
    return {
        "diff": ("diff", old, new),
        "show": ("show", old),
        "show a rank": ("show", old, "--rank", "1"),
        "show a chart": ("show", old, "--chart", "--ascii"),
        "show a parameter": ("show", old, "--parameter", PATH + ".weight"),
        "explain a path": ("explain", MODEL, PLAN, PATH),
        "explain a glob": ("explain", MODEL, PLAN, "model.layers.*.mlp.*"),
        "explain a code": ("explain", "TP4001"),
        "explain a style": ("explain", "colwise"),
    }[command]


@pytest.mark.parametrize(
    "command, painted",
    [
        ("diff", ["\x1b[1;33m~ mesh ", "\x1b[1;32m+ gather", "\x1b[1mparameters: "]),
        ("show", ["\x1b[1mrules\x1b[0m", "\x1b[1mLlamaForCausalLM on [tp=8]\x1b[0m"]),
        ("show a rank", [f"\x1b[1m{PATH}.weight\x1b[0m  [4096, 512] of [4096, 4096]"]),
        ("show a chart", ["\x1b[1;34m#", "\x1b[1;32m=", "\x1b[1;34m#\x1b[0m sharded parameters"]),
        ("show a parameter", [f"\x1b[1m{PATH}.weight\x1b[0m  [4096, 4096]", "  \x1b[1;34mspec\x1b[0m  "]),
        ("explain a path", [f"\x1b[1m{PATH}\x1b[0m  Linear", "  \x1b[1;34mmatch\x1b[0m  "]),
        ("explain a glob", ["\x1b[1mmodel.layers.0.mlp.gate_proj.weight and 31 more\x1b[0m"]),
        ("explain a code", ["\x1b[1m# TP4001"]),
        ("explain a style", ["\x1b[1mcolwise"]),
    ],
)
def test_coloured_output_has_the_same_text(manifests, command, painted):
    words = words_of(command, manifests)
    plain, colored = run(*words), run(*words, "--color", "always")
    assert plain.stderr == colored.stderr == b"" and plain.returncode == colored.returncode
    text = colored.stdout.decode()
    assert b"\x1b" not in plain.stdout and CODE.sub("", text) == plain.stdout.decode()
    assert [part for part in painted if part not in text] == []
    assert run(*words, "--color", "never").stdout == plain.stdout
    assert run(*words, env={"FORCE_COLOR": "1"}).stdout == colored.stdout


@pytest.mark.parametrize("command", ["diff", "show", "explain"])
def test_colour_code_in_a_name_is_escaped(tmp_path, command):
    name = "a\x1b[1;31mb"
    model = linear_model(m=[8, 8])
    model["modules"][-1]["parameters"] = {name: {"shape": [8, 8], "dtype": "float32"}}
    files = []
    for number, spec in enumerate(("[tp, null]", "[null, tp]")):
        folder = tmp_path / str(number)
        folder.mkdir()
        files.append(write(folder, model, plan_text({"*": spec})))
        result = run("compile", *files[-1], "-q", "-o", folder / "manifest.json")
        assert result.returncode == 0, result.stderr.decode()
    words = {
        "diff": ("diff", tmp_path / "0/manifest.json", tmp_path / "1/manifest.json"),
        "show": ("show", tmp_path / "0/manifest.json", "--parameter", "m." + name),
        "explain": ("explain", *files[0], "m." + name),
    }[command]
    text = run(*words, "--color", "always").stdout.decode()
    assert "\\x1b[1;31mb" in text and "a\x1b" not in text
