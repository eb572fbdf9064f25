"""Any call of the C library may fail, at any point of any command: memory, reads, writes, fsync, rename, stat. The
command then ends with a status and a message that names the failure. Output files have their old or their complete new
content, and a command that succeeds has done all its work. The test makes a sample of each command's calls fail.
`python tests/bad_input/test_call_faults.py --all [COMMAND...]` makes each call fail and prints the counts.

Calls before main do not fail: mostly those of the loader and the libraries. They are the same for all commands, and the
program cannot handle a failed start.
"""

import errno
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))

from conftest import PROGRAM, ROOT  # noqa: E402
from forked import run_forked  # noqa: E402

pytestmark = pytest.mark.skipif(
    os.environ.get("TPPLAN_SANITIZED") == "1", reason="sanitizers have an allocator of their own"
)
FAILING = str(pathlib.Path(PROGRAM).parent / "tests" / "tpplan_failing_forks")
SMALL = TESTS / "golden" / "operations" / "colwise-and-rowwise"
OLD = b"what stood here before\n"
TIMEOUT = 20

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 1,
    "vocab_size": 256,
    "torch_dtype": "bfloat16",
}
NAMES = ["q_proj", "k_proj", "v_proj", "o_proj"]


def shard(names):
    header = {
        f"model.layers.0.self_attn.{name}.weight": {
            "dtype": "BF16",
            "shape": [64, 64],
            "data_offsets": [8192 * i, 8192 * i + 8192],
        }
        for i, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(8192 * len(names))


def write_project(folder):
    """Writes the inputs of all commands."""
    for name in ("model.json", "plan.yaml"):
        (folder / name).write_bytes((SMALL / name).read_bytes())
    shutil.copy(folder / "model.json", folder / "twin.json")
    shutil.copy(ROOT / "tests" / "plans" / "programs" / "mlp.json", folder / "program.json")
    plan = (folder / "plan.yaml").read_text()
    (folder / "other.yaml").write_text(plan.replace('"a": colwise, "b": rowwise', '"a": colwise_gather_output'))
    (folder / "wrong.yaml").write_text(plan.replace('"b": rowwise', '"b": replicate'))
    (folder / "loose.yaml").write_text("# mine\n" + plan.replace("{tp: 2}", "{tp:   2}"))
    (folder / "slip.yaml").write_text(plan.replace("mesh:", "mehs:"))
    (folder / "seeds.json").write_bytes((TESTS / "plans" / "models" / "seeds.json").read_bytes())
    (folder / "seeds.yaml").write_bytes((ROOT / "plans" / "seeds.yaml").read_bytes())
    (folder / "topology.yaml").write_bytes((ROOT / "plans" / "topologies" / "h100.yaml").read_bytes())
    (folder / "llama").mkdir()
    (folder / "llama" / "config.json").write_text(json.dumps(CONFIG))
    (folder / "llama" / "model-1.safetensors").write_bytes(shard(NAMES[:2]))
    (folder / "llama" / "model-2.safetensors").write_bytes(shard(NAMES[2:]))
    index = {
        f"model.layers.0.self_attn.{name}.weight": f"model-{1 + i // 2}.safetensors" for i, name in enumerate(NAMES)
    }
    (folder / "llama" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (folder / "project" / "below").mkdir(parents=True)
    (folder / "project" / ".git").mkdir()
    for name in ("model.json", "plan.yaml", "wrong.yaml"):
        shutil.copy(folder / name, folder / "project")
    (folder / "project" / ".tpplan.yaml").write_text(
        "checks:\n  - {model: 'm*l.json', plan: [plan.yaml, wrong.yaml], mesh: [tp=2, tp=4]}\nmax_replicated: 1%\n"
    )
    (folder / "plain").mkdir()
    (folder / "plain" / "config.json").write_text("{}")
    (folder / "plain" / "model.safetensors").write_bytes(shard(NAMES))
    for plan, name in (("plan.yaml", "a.json"), ("other.yaml", "b.json")):
        made = plainly(folder, "compile", "--no-config", "model.json", plan, "-o", name)
        assert made.returncode == 0, made.stderr
    for form in ("jax", "shardy", "torch"):
        made = plainly(folder, "export", "--no-config", "a.json", "--to", form, "--lossy", "-o", f"specs-{form}")
        assert made.returncode == 0, made.stderr
    made = plainly(folder, *"check --no-config seeds.json seeds.yaml --baseline known.json --write-baseline".split())
    assert made.returncode == 0, made.stderr
    if shutil.which("git") is not None:
        write_repository(folder)
    (folder / "link.json").symlink_to("linked.json")
    (folder / "linked.json").write_bytes(OLD)


def write_repository(folder):
    (folder / "repository").mkdir()
    for name in ("model.json", "plan.yaml"):
        shutil.copy(folder / name, folder / "repository")
    git = [
        "git",
        "-C",
        str(folder / "repository"),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "commit.gpgsign=0",
    ]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    shutil.copy(folder / "other.yaml", folder / "repository" / "plan.yaml")


# Commands, their folder in the project, and the files that they write. `OLD` is in these files before.
COMMANDS = {
    "compile": ("compile model.json plan.yaml -o manifest.json", ".", ["manifest.json"]),
    "compile-link": ("compile model.json plan.yaml -o link.json", ".", ["linked.json"]),
    "compile-stdout": ("compile -v model.json plan.yaml", ".", []),
    "compile-over-input": ("compile twin.json plan.yaml -o ./twin.json", ".", ["twin.json"]),
    "compile-phase": ("compile model.json plan.yaml --print operations", ".", []),
    "compile-wrong": ("compile seeds.json seeds.yaml -o manifest.json", ".", ["manifest.json"]),
    "check": ("check model.json plan.yaml --strict", ".", []),
    "check-wrong": ("check seeds.json seeds.yaml --example", ".", []),
    "check-costs": ("check model.json plan.yaml --costs --topology topology.yaml", ".", []),
    "check-json": ("check model.json wrong.yaml --format json", ".", []),
    "check-sarif": ("check model.json wrong.yaml --format sarif", ".", []),
    "check-fix": ("check model.json slip.yaml --fix", ".", ["slip.yaml"]),
    "check-project": ("check", "project", []),
    "check-settings": ("check ../../model.json ../../other.yaml", "project/below", []),
    "check-baseline": ("check seeds.json seeds.yaml --baseline known.json", ".", []),
    "write-baseline": ("check seeds.json seeds.yaml --baseline new.json --write-baseline", ".", ["new.json"]),
    "check-missing": ("check model.json plam.yaml", ".", []),
    "init": ("init seeds.json --mesh tp=2 --force -o first.yaml", ".", ["first.yaml", "plan.schema.json"]),
    "init-not-there": ("init seeds.json --mesh tp=2 -o first.yaml", ".", ["first.yaml"]),
    "init-config": ("init llama/config.json", ".", []),
    "init-weights": ("init llama/model.safetensors.index.json --mesh tp=2", ".", []),
    "init-weights-alone": ("init plain/model.safetensors --mesh tp=2", ".", []),
    "suggest": ("suggest model.json plan.yaml --max-ranks 3", ".", []),
    "explain": ("explain model.json plan.yaml a", ".", []),
    "explain-code": ("explain TP4001", ".", []),
    "show": ("show a.json", ".", []),
    "show-chart": ("show a.json --chart", ".", []),
    "show-rank": ("show a.json --rank 1 --format json", ".", []),
    "report": ("report b.json --against a.json -o page.html", ".", ["page.html"]),
    "export-torch": ("export a.json --to torch --python -o specs.py", ".", ["specs.py"]),
    "export-jax": ("export a.json --to jax", ".", []),
    "export-onnx": ("export a.json --to onnx --lossy", ".", []),
    "import-jax": ("import specs-jax --from jax -o imported.yaml", ".", ["imported.yaml", "plan.schema.json"]),
    "import-shardy": ("import specs-shardy --from shardy", ".", []),
    "import-torch": ("import specs-torch --from torch", ".", []),
    "import-config": ("import llama/config.json --from config -o imported.json", ".", ["imported.json"]),
    "import-weights": (
        "import llama/model.safetensors.index.json --from safetensors --model-config llama/config.json",
        ".",
        [],
    ),
    "propagate": ("propagate program.json", ".", []),
    "schema": ("schema plan", ".", []),
    "lint": ("lint model.json plan.yaml", ".", []),
    "rules": ("rules", ".", []),
    "diff": ("diff a.json b.json", ".", []),
    "diff-plans": ("diff model.json plan.yaml other.yaml --format markdown", ".", []),
    "diff-base": ("diff model.json plan.yaml --base HEAD", "repository", []),
    "fmt": ("fmt loose.yaml slip.yaml", ".", ["loose.yaml", "slip.yaml"]),
    "fmt-diff": ("fmt --diff loose.yaml", ".", []),
    "fmt-output": ("fmt loose.yaml -o formatted.yaml", ".", ["formatted.yaml"]),
    "help": ("check --help", ".", []),
    "version": ("--version", ".", []),
    "completion": ("completion bash", ".", []),
    "man": ("man", ".", []),
    "wrong-line": ("compile model.json plan.yaml --outptu x", ".", []),
}
# Their files exist before, with the content above.
KEPT = {"slip.yaml", "loose.yaml", "twin.json"}
# Does not exist before.
NEW = {"plan.schema.json"}

# Failures by kind of call: an error, or half of the work.
WAYS = {
    "memory": [errno.ENOMEM, "gone"],
    "open": [errno.EIO, errno.EMFILE],
    "read": [errno.EIO, errno.EINTR, "short"],
    "write": [errno.EIO, errno.ENOSPC, errno.EPIPE, errno.EINTR, "short"],
    "pthread_create": [errno.EAGAIN],
}
# Failures without effect: the terminal's width, the signal watcher, random numbers of the system, closing a descriptor after a read.
IDLE = {"isatty", "eventfd", "pthread_create", "getrandom"}
# The message of Abseil, a part of RE2 since 2023, if it cannot map memory for its locks and ends the process.
ABSEIL = b"low_level_alloc.cc"
CODED = re.compile(r"^(.*: )?(error\[TP\d{4}\]: \S|tpplan: error: \S)|^tpplan: error: \S", re.M)
OUT_OF_MEMORY = b"error[TP9001]: out of memory"


def plainly(folder, *words):
    return run_forked(FAILING, ["tpplan", *words], cwd=folder, env=variables(), timeout=TIMEOUT)


def variables(**more):
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"} | more


class Case:
    """A command in a separate folder, and its results without failures."""

    def __init__(self, name, folder):
        text, inside, outputs = COMMANDS[name]
        self.name, self.words, self.folder = name, text.split(), folder / inside
        self.outputs = {output: self.folder / output for output in outputs}
        self.before = {
            output: path.read_bytes() if output in KEPT else None if output in NEW else OLD
            for output, path in self.outputs.items()
        }
        self.reset()
        counts = folder / "counts"
        self.there = entries(self.folder) | {(path.name, False) for path in self.outputs.values()}
        self.plain = self.run(CALLS_TO=str(counts))
        self.calls = dict((k, int(v)) for k, v in (line.split() for line in counts.read_text().splitlines()))
        counts.unlink()
        self.after = {output: read_or_none(path) for output, path in self.outputs.items()}
        self.reset()
        assert self.plain.returncode in (0, 1, 2), self.plain

    def reset(self):
        for output, path in self.outputs.items():
            if self.before[output] is None:
                path.unlink(missing_ok=True)
            elif read_or_none(path) != self.before[output]:
                path.write_bytes(self.before[output])

    def run(self, **more):
        words = ["tpplan", *self.words]
        return run_forked(FAILING, words, cwd=self.folder, env=variables(**more), timeout=TIMEOUT)

    def faults(self, after=0):
        """Yields all (kind, number, failure); of memory calls only those after the first `after`."""
        for kind, count in self.calls.items():
            for number in range(1 + (after if kind == "memory" else 0), count + 1):
                for way in WAYS.get(kind, [errno.EIO]):
                    yield kind, number, way

    def fault_of(self, kind, number, way):
        """Returns the broken guarantees if this call fails; empty if none."""
        try:
            result = self.run(FAILING_CALL=f"{kind},{number},{way}")
        except subprocess.TimeoutExpired:
            return "hangs"
        broken = self.broken(result, kind, way)
        self.reset()
        return broken

    def broken(self, result, kind, way):
        status, plain = result.returncode, self.plain
        is_library = kind == "mmap" and status == -signal.SIGABRT and ABSEIL in result.stderr
        if status < 0 and not is_library:
            return f"ended by {signal.Signals(-status).name}"
        now = {output: read_or_none(path) for output, path in self.outputs.items()}
        for output, text in now.items():
            if text not in (self.before[output], self.after[output]):
                return f"{output} holds neither the old nor the new: {text[:60] if text else text}"
        left = entries(self.folder) ^ self.there
        left -= {(path.name, False) for path in self.outputs.values()}
        for name, is_link in left:
            (self.folder / name).unlink(missing_ok=True)
            if (name, True) in self.there:
                (self.folder / name).symlink_to("linked.json")
        if left:
            return f"left behind, or gone: {sorted(left)}"
        if is_library:
            return "" if now == self.before else "ended by Abseil, and something is written"
        same_files = now == self.after
        if status == plain.returncode and result.stdout == plain.stdout and same_files:
            # Only a failed standard error excuses a missing message.
            if timeless(result.stderr) == timeless(plain.stderr) or kind == "write":
                return ""
        if way == errno.EINTR or way == "short" or kind in IDLE:
            return f"status {status}, and it should not matter: {said(result)}"
        if status not in (1, 2, 3) or status == 1:
            return f"status {status}, and something differs: {said(result)}"
        is_said = CODED.search((result.stderr + b"\n" + result.stdout).decode())
        if kind == "memory" and status == 3 and OUT_OF_MEMORY in result.stderr:
            return ""
        # The message about a wrong name may lack its suggestion, which needs a folder listing.
        if status != 2 or (kind == "memory" and not (plain.returncode == 2 and is_said)):
            return f"status {status}: {said(result)}"
        if way == errno.EPIPE or is_said:
            return ""
        # Machine-readable formats report errors on standard output.
        return "" if re.search(rb'"TP\d{4}"', result.stdout) else f"no message: {said(result)}"


def entries(folder):
    """Returns the names in a folder, and which of them are links."""
    return {(p.name, p.is_symlink()) for p in folder.iterdir()}


def timeless(text):
    return re.sub(rb" +[0-9.]+ ms ", b" ms ", text)


def said(result):
    return f"{result.stderr.decode(errors='replace')[-300:]!r}"


def read_or_none(path):
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def sample(case, most):
    """The first and the last call of each kind with each failure, and some between, the same in every execution."""
    drawn = random.Random(case.name)
    by_way = {}
    for fault in case.faults():
        by_way.setdefault((fault[0], fault[2]), []).append(fault)
    chosen = []
    for faults in by_way.values():
        inner = faults[1:-1]
        chosen += dict.fromkeys([faults[0], faults[-1], *drawn.sample(inner, min(most, len(inner)))])
    return chosen


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_failed_call_is_reported_or_harmless(name, project):
    if COMMANDS[name][1] == "repository" and shutil.which("git") is None:
        pytest.skip("there is no git")
    case = Case(name, project)
    broken = {fault: case.fault_of(*fault) for fault in sample(case, 4)}
    assert not {fault: why for fault, why in broken.items() if why}


def main(names):
    """All commands, or these. Before it knows the command, the program declares all of them with the same allocations: only the test of
    the first command lets these fail."""
    total = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        write_project(pathlib.Path(folder))
        declared = Case("version", pathlib.Path(folder)).calls["memory"] * 9 // 10
        for at, name in enumerate(names or COMMANDS):
            case = Case(name, pathlib.Path(folder))
            broken, runs = {}, 0
            for fault in case.faults(declared if at > 0 else 0):
                runs += 1
                why = case.fault_of(*fault)
                if why:
                    broken[fault] = why
            print(f"{name}: status {case.plain.returncode}, {runs} runs, {len(broken)} broken", flush=True)
            for fault, why in broken.items():
                print("  ", *fault, why, flush=True)
            total, wrong = total + runs, wrong + len(broken)
    print(f"{total} runs, {wrong} broken")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] != ["--all"]:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[2:]))
