"""Every command of "Your first change" in lib/README.md runs, in a copy of the checkout, in the order of the page.

The test compiles one touched file and runs the tested program in place of the one that the build would link.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import EXECUTOR, PROGRAM, ROOT

PAGE = re.search(r"^## Your first change\n(.*?)^## ", (ROOT / "lib" / "README.md").read_text(), re.M | re.S).group(1)
COMMANDS = [line[2:] for block in re.findall(r"```console\n(.*?)```", PAGE, re.S) for line in block.splitlines()]
TOUCHED = "lib/plan/read_rules.cc"


def run_command(command, folder):
    """Runs a line of the page. A build is a dry run of the page's target, followed by a real build of TOUCHED."""
    environment = {**os.environ}
    words = shlex.split(command)
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    if words[:2] == ["cmake", "--preset"]:
        words += [f"-DTPPLAN_PYTHON={sys.executable}"]
    if words[:2] == ["cmake", "--build"]:
        build_touched(folder / words[2])
        words += ["--", "-n"]  # fails if the target does not exist
    result = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


def build_touched(build):
    file = build.parent / TOUCHED
    file.write_text(file.read_text() + "// touched\n")
    command = ["cmake", "--build", build, "--target", f"{file}^"]  # ninja: the output of this file
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0 and f"{TOUCHED}.o" in result.stdout, result.stdout + result.stderr


@pytest.mark.skipif(not all(map(shutil.which, ("cmake", "ninja", "git"))), reason="nothing to build with")
def test_page_leads_from_a_checkout_to_a_golden_case(tmp_path):
    checkout = tmp_path / "checkout"
    shutil.copytree(
        ROOT,
        checkout,
        symlinks=True,
        ignore=shutil.ignore_patterns("build", "build-*", ".git", ".venv", "dist", "__pycache__", ".library", "shared"),
    )
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "c"]):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    outputs = {}
    for command in COMMANDS:
        outputs[command] = run_command(command, checkout)
        if command.startswith("cmake --preset"):
            (checkout / "build-dev" / "tpplan").symlink_to(PROGRAM)
            (checkout / "build-dev" / "tpplan-exec").symlink_to(EXECUTOR)
        if command.startswith("cp -r "):
            case = checkout / command.split()[-1]
            recorded = (case / "expected.txt").read_text()
            (case / "expected.txt").write_text("what nobody says\n")
    assert (case / "expected.txt").read_text() == recorded
    assert [line for line in outputs if line.startswith("ctest")] and "100% tests passed" in outputs[COMMANDS[2]]
