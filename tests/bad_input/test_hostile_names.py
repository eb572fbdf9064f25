"""Names come from files, and files from strangers: no text in any field of a model, a plan or a manifest moves a terminal's cursor, hides
or reorders output, or is a command to a CI runner (lines that begin with `::`, and `##[`), in any format of any command."""

import json
import re

import pytest
from conftest import run, signed
from promise import UNPRINTABLE

HOSTILE = (
    "a\x1b[1;31m\x1b]0;t\x07\r\n  ::error::b\n::stop-commands::c\n##[error]d\u061c\u2028\u202e\u200b\U000e0041\x85e"
)
# Their escaped form; at the beginning of a line the runner must not see a command.
COMMAND = re.compile(
    r"^\s*::(?!(error|warning|notice) (file=[^:]*,)?(line=[^:]*,)?title=TP|notice title=tpplan|group::|endgroup::)"
)
LEGACY = "##["

MODEL = {
    "format": "tpplan.model/1",
    "name": "model name",
    "framework": "torch",
    "metadata": {"note": "said"},
    "tied": [["root.head.weight", "root.embed.weight"]],
    "modules": [
        {"path": "", "type": "Root", "buffers": {"mask": {"shape": [4], "dtype": "bool"}}},
        {"path": "root.embed", "type": "Embedding", "parameters": {"weight": {"shape": [64, 16], "dtype": "float32"}}},
        {
            "path": "root.layers.0.up",
            "type": "Linear",
            "parameters": {
                "weight": {"shape": [64, 16], "dtype": "float32"},
                "bias": {"shape": [64], "dtype": "float32"},
            },
        },
        {
            "path": "root.layers.0.down",
            "type": "Linear",
            "parameters": {"weight": {"shape": [16, 64], "dtype": "float32"}},
        },
        {
            "path": "root.layers.0.norm",
            "type": "LayerNorm",
            "parameters": {"weight": {"shape": [16], "dtype": "float32"}},
        },
        {
            "path": "root.own",
            "type": "Custom",
            "parameters": {"w": {"shape": [8, 16], "dtype": "float32", "dims": ["rows", "columns"]}},
        },
        {"path": "root.head", "type": "Linear", "parameters": {"weight": {"shape": [64, 16], "dtype": "float32"}}},
    ],
}
PLAN = {
    "format": "tpplan.plan/1",
    "dialect": "glob",
    "mesh": {"data": 2, "shard": 2, "tensor": 2},
    "axis": "tensor",
    "uneven": "error",
    "tp_plan": {
        "*.up": "colwise",
        "*.down": {"style": "rowwise", "output_layouts": "Replicate"},
        "root.own.w": ["tensor", None],
        "root.embed": "rowwise",
        "not.there": {"style": "colwise", "optional": True},
    },
    "blocks": {"root.layers.*": {"norm": "sequence_parallel"}},
    "data": {"axes": ["data", "shard"], "dim": 0},
    "loss": {"output": 0, "reduction": "mean", "count": "global", "axes": ["data", "shard"], "gradients": "sum"},
    "fsdp": {"axis": "shard", "policy": "largest_dim", "min_weight_size": 1, "patterns": ["*.up", "*.own"]},
    "remat": ["root.layers.*"],
    "init": {"*.own.w": {"normal": {"mean": 0, "std": 0.02}}},
    "suppress": [{"code": "TP4006", "reason": "a reason"}],
}
ALLOW = [f"--allow=TP{number}" for number in range(5150, 5157)]
PAIR = ["MODEL", "PLAN"]
FORMATS = ["human", "json", "jsonl", "sarif", "github", "gitlab", "markdown", "junit"]
# Input of other programs, which must escape it.
DATA = ("export", "report")
FINDS = [["check", *PAIR, "--format", format] for format in FORMATS] + [
    ["check", *PAIR, "--color", "always", "-v"],
    ["check", *PAIR, "--costs", "--recipe", "adamw"],
    ["check", *PAIR, "--costs", "--format", "json"],
    ["check", *PAIR, "--diff"],
    ["check", *PAIR, "--mesh", "PIECE=2"],
    ["check", *PAIR, "--example", "--strict"],
    ["check", *PAIR, "--suggest"],
    ["lint", *PAIR],
    ["suggest", *PAIR, "--max-ranks", "8"],
    ["suggest", *PAIR, "--max-ranks", "8", "--format", "json"],
    *[["explain", *PAIR, path] for path in ("root.layers.0.up.weight", "root.own", "root.own.w", "*", "PIECE", "mask")],
    *[
        ["compile", *PAIR, "--print", p]
        for p in "model graph plan matches shardings boundaries operations manifest".split()
    ],
    ["compile", *PAIR, "-v", "-o", "out.json"],
    ["diff", "MODEL", "old.yaml", "PLAN"],
    ["diff", "MODEL", "old.yaml", "PLAN", "--format", "json"],
    ["fmt", "--diff", "PLAN"],
    ["fmt", "--check", "PLAN"],
]
READS = [
    ["show", "MANIFEST"],
    ["show", "MANIFEST", "--format", "json"],
    ["show", "MANIFEST", "--chart", "--ascii"],
    ["show", "MANIFEST", "--rank", "1"],
    ["show", "MANIFEST", "--rank", "1", "--format", "json"],
    *[["show", "MANIFEST", "--parameter", path] for path in ("root.own.w", "root.layers.0.up.weight", "PIECE", "mask")],
    ["diff", "old.json", "MANIFEST"],
    ["diff", "old.json", "MANIFEST", "--format", "json"],
    ["report", "MANIFEST", "--against", "old.json"],
    *[["export", "MANIFEST", "--lossy", "--to", to] for to in "jax keras onnx orbax shardy torch".split()],
    ["export", "MANIFEST", "--to", "torch", "--python", "--lossy"],
]


def words(document, found=None):
    """All texts of a document, and their parts between dots: keys and values, each once."""
    found = {} if found is None else found
    if isinstance(document, str):
        for word in [document, *document.split(".")]:
            if re.search("[a-z]", word):
                found[word] = True
    elif isinstance(document, list):
        for entry in document:
            words(entry, found)
    elif isinstance(document, dict):
        for key, value in document.items():
            words(key, found)
            words(value, found)
    return list(found)


def replaced(document, texts):
    """The document with a text for each word of `texts`, in place of a full text or of a part between dots."""
    if isinstance(document, str):
        return texts.get(document) or ".".join(texts.get(part, part) for part in document.split("."))
    if isinstance(document, list):
        return [replaced(entry, texts) for entry in document]
    if isinstance(document, dict):
        return {replaced(key, texts): replaced(value, texts) for key, value in document.items()}
    return document


def hold(arguments, folder, **more):
    result = run(*arguments, cwd=folder, **more)
    assert 0 <= result.returncode <= 3, (arguments, result)
    text = (result.stdout + b"\n" + result.stderr).decode()
    shown = re.sub("\x1b\\[(0|1|1;3[1-4])m", "", text) if "always" in arguments else text
    if "--diff" in arguments:  # a carriage return at the end of a line belongs to the file, and patch needs it
        shown = shown.replace("\r\n", "\n")
    bad = UNPRINTABLE.search(shown)
    assert bad is None, f"{arguments}: {bad[0]!r} in {shown[max(0, bad.start() - 200) : bad.end() + 40]!r}"
    for line in shown.split("\n"):
        assert not COMMAND.match(line), f"{arguments}: {line!r} is a command"
        is_ours = line.startswith("::") or arguments[-1] == "junit" or arguments[0] in DATA
        assert is_ours or LEGACY not in line, f"{arguments}: {line!r} is a command"
    return result


def write(folder, name, document):
    (folder / name).write_text(json.dumps(document, ensure_ascii=False))


def filled(command, texts, piece):
    names = {"MODEL": "model.json", "PLAN": "plan.yaml", "MANIFEST": "manifest.json"}
    return [names.get(part, replaced(part.replace("PIECE", piece), texts)) for part in command]


def for_people(commands, text):
    """All human-readable commands for the text with everything; those that print lines of names for the text that is a command at the
    beginning of a line."""
    return commands if text == HOSTILE else [c for c in commands if c[0] != "export" and "--format" not in c]


@pytest.fixture
def good(tmp_path):
    write(tmp_path, "model.json", MODEL)
    write(tmp_path, "plan.yaml", PLAN)
    write(tmp_path, "old.yaml", PLAN | {"tp_plan": {"*.up": "colwise"}, "fsdp": PLAN["fsdp"] | {"axis": "data"}})
    for plan, manifest in (("plan.yaml", "good.json"), ("old.yaml", "old.json")):
        result = run("compile", "model.json", plan, "-o", manifest, cwd=tmp_path)
        assert result.returncode == 0, result.stderr.decode()
    return tmp_path


def write_with(folder, documents, texts):
    for name, document in documents.items():
        changed = replaced(document, texts)
        write(folder, name, signed(changed, ensure_ascii=False) if name == "manifest.json" else changed)


def hold_all(documents, commands, probe, text, folder):
    """Each word separately: with `probe`, and with one of the other commands in turn; then all words that may be any text, each with a
    different text, with all commands. Returns these texts."""
    commands, free = for_people(commands, text), {}
    for turn, word in enumerate(words(list(documents.values()))):
        write_with(folder, documents, {word: text})
        if hold(filled(probe, {word: text}, text), folder).returncode == 0:
            free[word] = f"{text}{turn}"
        hold(filled(commands[turn % len(commands)], {word: text}, text), folder)
    # A path is replaced by its parts, so that prefixes of other paths remain prefixes.
    free = {word: t for word, t in free.items() if "." not in word or not free.keys() & set(word.split("."))}
    write_with(folder, documents, free)
    assert hold(filled(probe, free, text), folder).returncode == 0
    for command in commands:
        hold(filled(command, free, text), folder)
    return free


TEXTS = pytest.mark.parametrize("text", [HOSTILE, "::error::x"], ids=["long", "command"])


@TEXTS
def test_model_and_plan_names_are_escaped(good, text):
    documents = {"model.json": MODEL, "plan.yaml": PLAN}
    free = hold_all(documents, FINDS, ["compile", "MODEL", "PLAN", "-v", "-o", "out.json"], text, good)
    assert {"tensor", "rows", "a reason"} < set(free)


@TEXTS
def test_manifest_names_are_escaped(good, text):
    documents = {"manifest.json": json.loads((good / "good.json").read_text())}
    free = hold_all(documents, READS, ["show", "MANIFEST"], text, good)
    assert {"tensor", "own", "embed"} < set(free)
