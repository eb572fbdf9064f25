"""The README's two commands, one after the other: what the first leaves behind does not keep the second from testing."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

QUICKSTART = (ROOT / "tools" / "quickstart").read_text()


def call(folder, *arguments, **more):
    return subprocess.run(
        [folder / "tools" / "test", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"TPPLAN_PYTHON": sys.executable},
        **more,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout without any build, whose machine has every package."""
    folder = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        if not path.name.startswith(("build", ".")) and path.name != "tools":
            (folder / path.name).symlink_to(path)
    (folder / "tools").mkdir()
    for path in (ROOT / "tools").iterdir():
        (folder / "tools" / path.name).symlink_to(path)
    (folder / "tools" / "install-packages").unlink()
    (folder / "tools" / "install-packages").write_text("#!/bin/sh\n")
    (folder / "tools" / "install-packages").chmod(0o755)
    return folder


def test_after_quickstart_the_test_command_finds_every_test(checkout):
    (line,) = re.findall(r"^cmake (?!--build).*?(?= >/dev/null)?$", QUICKSTART, re.M)
    words = [word for word in shlex.split(line) if word != ">/dev/null"]
    subprocess.run(words, cwd=checkout, check=True, capture_output=True)
    done = call(checkout, "--list")
    assert done.returncode == 0, done.stderr
    found = set(re.findall(r"Test +#\d+: (\S+)", done.stdout))
    written = {f"{path.parent.name}/{path.stem.removeprefix('test_')}" for path in (ROOT / "tests").glob("*/test_*.py")}
    apart = {
        name
        for name in written
        if re.match(
            "python/(?!manifest|readme|write_plan)|truth/(op_rules|.*_live)|emit/libraries|exec/.*_live|import/templates"
            "|report/browser|package/|readme/first_change|bad_input/(call_faults|manifest_bytes)",
            name,
        )
    }
    assert apart and found == written - apart | {"unit"}


@pytest.mark.parametrize(
    "arguments",
    [["--only"], ["--only", "everything"], ["--only", "fuzz,nothing"], ["--every"], ["release"]],
    ids=" ".join,
)
def test_a_piece_that_there_is_not_is_a_usage_error(arguments, checkout):
    done = call(checkout, *arguments)
    assert (done.returncode, done.stdout) == (2, "") and "tools/test: " in done.stderr


def test_help_names_every_piece(checkout):
    done = call(checkout, "--help")
    assert done.returncode == 0
    for word in (
        "--all",
        "--only",
        "--times",
        "release",
        "sanitizers",
        "fuzz",
        "frameworks",
        "browser",
        "package",
        "TPPLAN_PYTHON",
    ):
        assert word in done.stdout


def test_a_package_list_that_there_is_not_is_a_usage_error():
    done = subprocess.run([ROOT / "tools" / "install-packages", "biuld"], capture_output=True, text=True)
    assert done.returncode == 2 and "biuld" in done.stderr
