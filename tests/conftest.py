"""Fixtures of all tests that run the program. The environment variable TPPLAN, set by ctest, is its path."""

import fcntl
import gc
import hashlib
import json
import os
import pathlib
import pty
import struct
import subprocess
import termios

import pytest

from forked import run_forked

# Garbage collection over the values of a large manifest takes as long as reading it.
gc.set_threshold(100_000, 20, 20)

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("TPPLAN", str(ROOT / "build" / "tpplan"))
EXECUTOR = str(pathlib.Path(PROGRAM).with_name("tpplan-exec"))
# If ctest starts a fork server (CMakeLists.txt), a run of a program is a fork of its server.
FORKS = {PROGRAM: "tpplan_forks", EXECUTOR: "tpplan_exec_forks"} if "TPPLAN_FORKS" in os.environ else {}


def run_program(program, *arguments, **more):
    """subprocess.run of one of the two programs, its output captured as bytes; `more` are input, env, cwd and timeout."""
    command = [program, *map(str, arguments)]
    if program in FORKS:
        return run_forked(str(pathlib.Path(PROGRAM).parent / "tests" / FORKS[program]), command, **more)
    return subprocess.run(command, capture_output=True, **more)


# Heuristic warnings about neighbouring modules. Small models and partial plans omit the layers of a complete plan, so tests
# of other properties allow these warnings.
NEIGHBOURS = [f"TP{number}" for number in range(5150, 5157)]


def run(*arguments, stdin=None, env=None, cwd=None, timeout=60):
    """Runs tpplan; the result has returncode, stdout and stderr as bytes."""
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("TPPLAN_", "FORCE_COLOR", "CLICOLOR", "NO_COLOR"))
    }
    return run_program(PROGRAM, *arguments, input=stdin or b"", env=clean | (env or {}), cwd=cwd, timeout=timeout)


def on_terminal(columns, *arguments, env=os.environ):
    """Returns the output of the program on a terminal of this width."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"this machine gives no terminal: {error}")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=theirs, env=env) as process:
        os.close(theirs)
        out = b""
        try:
            while piece := os.read(ours, 1 << 16):
                out += piece
        except OSError:  # Linux reports the end of the terminal as an error
            pass
        os.close(ours)
        assert process.wait(30) == 0
    return out.decode().replace("\r\n", "\n")


def codes(result):
    """Returns the diagnostic codes on standard error or output, in order and with repetitions."""
    text = (result.stderr + result.stdout).decode(errors="replace")
    return [part.split("]")[0] for part in text.split("[")[1:] if part.startswith("TP") and part[2:6].isdigit()]


def signed(manifest, ensure_ascii=True):
    """A manifest that was changed, with the digest of its text: as if the program had written it so. It holds for a text that
    json.dumps writes with the same `ensure_ascii`."""
    rest = {key: value for key, value in manifest.items() if key != "digest"}
    text = json.dumps(rest, separators=(",", ":"), ensure_ascii=ensure_ascii)[:-1]
    return rest | {"digest": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}


@pytest.fixture
def compiles(tmp_path):
    """compiles(model, plan, *flags): writes both (dicts or text), compiles, returns the manifest; fails on errors."""

    def compile_(model, plan, *flags):
        result = run("compile", *write(tmp_path, model, plan), *flags)
        assert result.returncode == 0, result.stderr.decode(errors="replace")
        return json.loads(result.stdout)

    return compile_


@pytest.fixture
def refuses(tmp_path):
    """refuses(model, plan, *flags): compiles, checks that nothing was written, returns (exit status, codes, stderr)."""

    def compile_(model, plan, *flags):
        output = tmp_path / "manifest.json"
        result = run("compile", *write(tmp_path, model, plan), "-o", output, *flags)
        assert result.returncode in (1, 2, 3), result
        assert not output.exists()
        assert not list(tmp_path.glob(".tpplan-*")), "a temporary file was left behind"
        return result.returncode, codes(result), result.stderr.decode(errors="replace")

    return compile_


def write(folder, model, plan):
    """Writes a model (dict, text or bytes) and a plan (text or bytes); returns their paths."""
    paths = folder / "model.json", folder / "plan.yaml"
    for path, content in zip(paths, (json.dumps(model) if isinstance(model, dict) else model, plan)):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


def linear_model(**modules):
    """A torch model of Linear modules: linear_model(wq=[16, 8]) or with a bias: wq=([16, 8], [16])."""
    entries = [{"path": "", "type": "Model"}]
    for path, shapes in modules.items():
        shapes = shapes if isinstance(shapes, tuple) else (shapes,)
        parameters = {n: {"shape": s, "dtype": "float32"} for n, s in zip(("weight", "bias"), shapes)}
        entries.append({"path": path.replace("__", "."), "type": "Linear", "parameters": parameters})
    return {"format": "tpplan.model/1", "name": "Test", "framework": "torch", "modules": entries}


def plan_text(rules, mesh="{tp: 4}", dialect="glob", more=""):
    """A plan with these rules: {key: YAML text of the treatment}."""
    lines = [f"  {json.dumps(key)}: {treatment}" for key, treatment in rules.items()]
    return f"format: tpplan.plan/1\ndialect: {dialect}\nmesh: {mesh}\n{more}tp_plan:\n" + "\n".join(lines) + "\n"
