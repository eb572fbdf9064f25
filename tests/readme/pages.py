"""The pages of the repository, and the commands in their console blocks."""

import dataclasses
import re
import shlex
import subprocess

from conftest import EXECUTOR, PROGRAM, ROOT

BLOCK = re.compile(r"```console\n(.*?)```", re.S)
STATUS = re.compile(r"# exit status (\d)")
PROGRAMS = {"tpplan": PROGRAM, "tpplan-exec": EXECUTOR, "cat": "cat"}
GENERATED = ("lib/diagnostics/explain/",)  # `tpplan explain` prints these; tests/explain checks them


def pages():
    """Paths of all pages, relative to the root."""
    found = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True)
    listed = found.stdout.decode().splitlines() or [str(p.relative_to(ROOT)) for p in ROOT.rglob("*.md")]
    hidden = re.compile(r"(^|/)(\.|build|dist)")
    return sorted(p for p in listed if (ROOT / p).exists() and not hidden.search(p) and not p.startswith(GENERATED))


@dataclasses.dataclass
class Step:
    """One command of a page and the output that the page shows below it."""

    page: str
    command: str
    shown: list


def steps_of(page):
    """The steps of a page, in the order of the page."""
    found = []
    for block in BLOCK.findall((ROOT / page).read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(page, line[2:], []))
            else:
                found[-1].shown.append(line)
    return found


def run_step(step, folder):
    """Runs the command in `folder`; returns exit status and output lines, standard output and error together."""
    words = shlex.split(step.command, comments=True)
    result = subprocess.run(
        [PROGRAMS[words[0]], *words[1:]], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return result.returncode, result.stdout.splitlines()


def expected_status(step):
    found = STATUS.search(step.command)
    return int(found[1]) if found else 0


def excerpt(shown, lines):
    """Returns the first and last lines of `lines`, as many as `shown` has before and after its `...`; all lines if
    `shown` has no `...`.
    """
    if "..." not in shown:
        return lines
    head = shown.index("...")
    tail = len(shown) - head - 1
    return [*lines[:head], "...", *lines[len(lines) - tail :]]


def write_shown(page, outputs):
    """Replaces the shown outputs of a page; `outputs` holds a list of lines for each step, in the order of the page."""
    rest = iter(outputs)

    def rewrite(match):
        lines = []
        for line in match[1].splitlines():
            if line.startswith("$ "):
                lines += [line, *next(rest)]
        return "```console\n" + "\n".join(lines) + "\n```"

    path = ROOT / page
    path.write_text(BLOCK.sub(rewrite, path.read_text()))
