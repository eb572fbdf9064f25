"""No output option of any command overwrites an input of the command.

The options are read from the programs' help: an option that names a file and is missing in LINES fails the test.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import EXECUTOR, PROGRAM, ROOT, linear_model, plan_text, run, run_program, write

# A new file or a new folder. All other values are inputs. Mutually exclusive options have separate lines.
FILE, FOLDER = "new file", "new folder"
INPUTS = {"MODEL": "model.json", "PLAN": "plan.yaml"}
SPEEDS = {"--topology": "h100.yaml"}
WEIGHTS = {"MANIFEST": "manifest.json", "--weights": "weights"}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 128,
    "torch_dtype": "bfloat16",
}
LINES = {
    PROGRAM: [
        ("compile", INPUTS | {"--output": FILE}),
        ("check --write-baseline", INPUTS | SPEEDS | {"--run": "run.yaml", "--baseline": FILE}),
        ("check", SPEEDS | {"MODEL": "step.json", "PLAN": "keep.yaml", "--run": "run.yaml", "--trace": FILE}),
        (
            "init --force",
            SPEEDS
            | {"MODEL": "model.safetensors", "--model-config": "config.json", "--run": "run.yaml", "--output": FILE},
        ),
        ("suggest", INPUTS | SPEEDS | {"--run": "run.yaml"}),
        ("explain", {"WORDS": "model.json"}),
        ("show", SPEEDS | {"MANIFEST": "manifest.json", "--run": "run.yaml"}),
        ("report", SPEEDS | {"FILES": "manifest.json", "--against": "before.json", "--output": FILE}),
        ("report step.json", SPEEDS | {"FILES": "keep.yaml", "--run": "run.yaml", "--output": FILE}),
        ("export --to torch", {"MANIFEST": "manifest.json", "--output": FILE}),
        ("import --from safetensors", {"FILE": "model.safetensors", "--model-config": "config.json", "--output": FILE}),
        ("import --from jax", {"FILE": "specs.json", "--output": FILE}),
        ("propagate", {"PROGRAM": "program.json"}),
        (
            "search --ranks 2 --batch 2",
            SPEEDS | {"MODEL": "step.json", "--run": "run.yaml", "--keep": "keep.yaml", "--output": FILE},
        ),
        (
            "search --ranks 2 --batch 2 --mesh fsdp",
            SPEEDS | {"MODEL": "step.json", "--run": "run.yaml", "--keep": "keep.yaml", "--report": FILE},
        ),
        ("schema", {}),
        ("lint", INPUTS),
        ("rules", {}),
        ("diff", SPEEDS | {"FILES": "manifest.json", "--run": "run.yaml"}),
        ("lsp", {"--model": "model.json"}),
        ("fmt", {"PLAN": "plan.yaml", "--output": FILE}),
    ],
    EXECUTOR: [
        ("doctor", {}),
        ("explain", {}),
        ("load", WEIGHTS),
        ("init --seed 1", {"MANIFEST": "manifest.json", "--consolidated": FILE}),
        ("init --seed 1", {"MANIFEST": "manifest.json", "--output": FOLDER}),
        ("verify", WEIGHTS | {"--from": "saved", "--checksums": "sums.json", "--write-checksums": FILE}),
        ("run", {"MANIFEST": "manifest.json"}),
        ("save", WEIGHTS | {"--consolidated": FILE}),
        ("save", WEIGHTS | {"--output": FOLDER}),
        ("reshard", {"BEFORE": "manifest.json", "AFTER": "before.json", "--from": "saved", "--to": FOLDER}),
    ],
}
# Words in the help for values that are not files, and arguments and options that are not files despite another word.
NO_FILE = "AXIS=SIZE AXES SIZE CODE SHARE PHASE FORMAT NAME RANK INT UINT FLOAT BYTES SECONDS COMMIT WHEN TEXT Excludes".split()
NO_FILES = {"KIND", "CODE", "--parameter"}
ENTRY = re.compile(r"^  (?:-\w,)?(--[\w-]+|[A-Z]+)(?: ([A-Z[][^\s:]*?)(?:=\d+)?(?=[\s:]))?", re.M)


def files_of(program, command):
    """The options and positionals of a command, or of the program, that name files, by its help."""
    text = run_program(program, *command, "--help", timeout=60).stdout.decode()
    positional, _, options = text.partition("\nOptions:")
    assert options, text
    named = [name for name, _ in ENTRY.findall(positional.partition("\nPositionals:")[2])]
    named += [name for name, value in ENTRY.findall(options) if value and value not in NO_FILE]
    return set(named) - NO_FILES


def commands_of(program):
    text = run_program(program, "--help", timeout=60).stdout.decode()
    return re.findall(r"^  ([a-z]+) ", text.partition("\nSubcommands:")[2], re.M)


@pytest.mark.parametrize("program", LINES, ids=["tpplan", "tpplan-exec"])
def test_sweep_covers_every_file_option(program):
    assert files_of(program, []) == ({"--config"} if program == PROGRAM else set())
    own = {"completion", "man"}
    assert set(commands_of(program)) - own == {line.split()[0] for line, _ in LINES[program]}
    for command in {line.split()[0] for line, _ in LINES[program]}:
        known = {name for line, files in LINES[program] if line.split()[0] == command for name in files}
        assert files_of(program, [command]) == known, command


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a good file for every input."""
    folder = tmp_path_factory.mktemp("inputs")
    model, plan = write(folder, linear_model(wq=[16, 8]), plan_text({"wq": "colwise"}))
    shutil.copy(ROOT / "plans" / "topologies" / "h100.yaml", folder)
    (folder / "run.yaml").write_text("format: tpplan.run/1\n")
    (folder / "settings.yaml").write_text("strict: false\n")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 4, "hidden_size": 16}))

    (folder / "keep.yaml").write_text('format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {"*": replicate}\n')
    (folder / "llama.json").write_text(json.dumps(LLAMA))

    def made(program, *words):
        result = run_program(program, *words, cwd=folder, timeout=60)
        assert result.returncode == 0, result
        return result.stdout

    made(PROGRAM, "import", "--from", "config", "llama.json", "-o", "step.json")
    made(PROGRAM, "compile", model, plan, "-o", "manifest.json")
    made(PROGRAM, "compile", model, plan, "--mesh", "tp=2", "-o", "before.json")
    made(PROGRAM, "export", "manifest.json", "--to", "jax", "-o", "specs.json")
    made(EXECUTOR, "init", "manifest.json", "--seed", "1", "--consolidated", "model.safetensors", "-q")
    (folder / "weights").mkdir()
    shutil.copy(folder / "model.safetensors", folder / "weights")
    made(EXECUTOR, "save", "manifest.json", "--weights", "weights", "-o", "saved", "-q")
    made(EXECUTOR, "verify", "manifest.json", "--from", "saved", "--write-checksums", "sums.json", "-q")
    return folder


def words_of(line, files, output):
    words = line.split()
    for name, value in sorted(files.items(), key=lambda item: item[0].startswith("-")):
        path = output if value in (FILE, FOLDER) else value
        words += [path] if not name.startswith("-") else [name, path]
    return words


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SWEEP = [
    pytest.param(program, line, files, id=f"{program.rpartition('/')[2]} {line} {output}")
    for program, lines in LINES.items()
    for line, files in lines
    for output in [name for name, value in files.items() if value in (FILE, FOLDER)]
]


@pytest.mark.parametrize(("program", "line", "files"), SWEEP)
def test_output_never_replaces_an_input(tmp_path, inputs, program, line, files):
    folder = tmp_path / "run"
    shutil.copytree(inputs, folder)
    settings = ["--config", "settings.yaml"] if program == PROGRAM else []
    good = run_program(program, *settings, *words_of(line, files, "output"), cwd=folder, timeout=60)
    assert good.returncode == 0, good
    shutil.rmtree(folder / "output") if FOLDER in files.values() else (folder / "output").unlink()
    (folder / "plan.schema.json").unlink(missing_ok=True)
    before = contents(folder)
    read = {value for value in files.values() if value not in (FILE, FOLDER)} | {*settings[1:]}
    for name in sorted(read):
        targets = sorted(p for p in (folder / name).rglob("*") if p.is_file()) if (folder / name).is_dir() else []
        for target in [folder / name, *targets]:
            aliases = [target]
            if target.is_file():
                (tmp_path / "link").symlink_to(target)
                (tmp_path / "hard").hardlink_to(target)
                aliases += [tmp_path / "link", tmp_path / "hard", folder / ".." / "run" / target.relative_to(folder)]
            for alias in aliases:
                result = run_program(program, *settings, *words_of(line, files, str(alias)), cwd=folder, timeout=60)
                text = result.stderr.decode()
                assert result.returncode in (1, 2), (alias, text)
                is_replaced = target.is_file() and FILE in files.values()
                assert f"error[{'TP1010' if is_replaced else 'TP'}" in text, (alias, text)
                assert contents(folder) == before, (alias, text)
            for alias in aliases[1:3]:
                assert alias.is_symlink() or alias.read_bytes() == target.read_bytes()
                alias.unlink()


def test_states_manifest_never_replaces_a_state(tmp_path, inputs):
    folder = tmp_path / "run"
    shutil.copytree(inputs, folder)
    before = contents(folder)
    command = [sys.executable, "-m", "tpplan.states", "manifest.json", "--of", "saved", "-o"]
    env = os.environ | {"PYTHONPATH": str(ROOT / "tools" / "python")}
    for target in ("manifest.json", *sorted((folder / "saved").iterdir())):
        result = subprocess.run([*command, target], cwd=folder, env=env, capture_output=True, timeout=60)
        assert result.returncode == 2 and b"is one of the inputs" in result.stderr, result
        assert contents(folder) == before


KNOWN = '{"format": "tpplan.baseline/1", "findings": []}\n'


def write_baseline(folder, *words):
    return run("check", *words, "--write-baseline", cwd=folder)


@pytest.mark.parametrize("text", ["notes of mine\n", "{}", "[1]", KNOWN.replace("/1", "/2"), KNOWN[:20], "\0" * 9])
@pytest.mark.parametrize("by", ["option", "settings"])
def test_only_a_baseline_is_replaced_by_a_baseline(tmp_path, text, by):
    write(tmp_path, linear_model(wq=[16, 8]), plan_text({"wq": "colwise"}))
    (tmp_path / ".git").mkdir()
    (tmp_path / "known.json").write_text(text)
    words = ["model.json", "plan.yaml", "--baseline", "known.json"]
    if by == "settings":
        checks = "checks: [{model: model.json, plan: plan.yaml}]\n"
        (tmp_path / ".tpplan.yaml").write_text("baseline: known.json\n" + checks)
        words = []
    result = write_baseline(tmp_path, *words)
    assert result.returncode == 2 and (tmp_path / "known.json").read_text() == text
    assert "the file exists and is not a baseline" in result.stderr.decode() and b"  = help: " in result.stderr
    for good in ("", KNOWN):
        (tmp_path / "known.json").write_text(good)
        assert write_baseline(tmp_path, *words).returncode == 0
        assert '"findings": ' in (tmp_path / "known.json").read_text() != good


@pytest.mark.parametrize("name", ["model.json", "plan.yaml", ".tpplan.yaml"])
def test_baseline_of_the_settings_is_no_input(tmp_path, name):
    write(tmp_path, linear_model(wq=[16, 8]), plan_text({"wq": "colwise"}))
    (tmp_path / ".git").mkdir()
    settings = f"baseline: {name}\nchecks: [{{model: m*.json, plan: plan.yaml}}]\n"
    (tmp_path / ".tpplan.yaml").write_text(settings)
    before = contents(tmp_path)
    result = write_baseline(tmp_path)
    assert result.returncode == 2 and b"TP1010" in result.stderr and contents(tmp_path) == before
