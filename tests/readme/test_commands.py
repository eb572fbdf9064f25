"""The README's two commands in sequence: the files of the first do not affect the tests of the second."""

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
    """A checkout without a build, on a machine with every package."""
    folder = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        if not path.name.startswith(("build", ".")) and path.name != "tools":
            (folder / path.name).symlink_to(path)
    scripts = folder / "tools" / "scripts"
    scripts.mkdir(parents=True)
    for path in [p for p in (ROOT / "tools").iterdir() if p.name != "scripts"]:
        (folder / "tools" / path.name).symlink_to(path)
    for path in [p for p in (ROOT / "tools/scripts").iterdir() if p.name != "install-packages"]:
        (scripts / path.name).symlink_to(path)
    (scripts / "install-packages").write_text("#!/bin/sh\n")
    (scripts / "install-packages").chmod(0o755)
    return folder


def test_every_test_is_found_after_quickstart(checkout):
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
            "python/(?!manifest|input_files|readme|write_plan)|truth/(dtensor_views|op_rules|.*_live)"
            "|emit/libraries|exec/.*_live|import/(dcp|templates)"
            "|report/browser|package/|readme/first_change|bad_input/(call_faults|manifest_bytes)",
            name,
        )
    }
    assert apart and found == written - apart | {"unit"}


def test_plain_cmake_configures_without_doctest(checkout, tmp_path):
    (line,) = re.findall(r"`(cmake -S \. [^`&]*?) && cmake --build build`", (ROOT / "tools" / "README.md").read_text())
    words = [str(tmp_path) if word == "build" else word for word in shlex.split(line)]
    words += ["-DCMAKE_DISABLE_FIND_PACKAGE_doctest=TRUE", "-DTPPLAN_CUDA=OFF", "-DTPPLAN_STATIC=OFF"]
    done = subprocess.run(words, cwd=checkout, check=True, capture_output=True, text=True)
    assert "-- Tests: off, doctest not found (apt-get install doctest-dev)\n" in done.stdout
    assert " -O3 -DNDEBUG " in (tmp_path / "compile_commands.json").read_text()
    asked = subprocess.run([*words, "-DTPPLAN_TESTS=ON"], cwd=checkout, capture_output=True, text=True)
    assert asked.returncode != 0 and "TPPLAN_TESTS is ON, but doctest not found" in asked.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--only"], ["--only", "everything"], ["--only", "fuzz,nothing"], ["--every"], ["release"]],
    ids=" ".join,
)
def test_unknown_test_group_is_a_usage_error(arguments, checkout):
    done = call(checkout, *arguments)
    assert (done.returncode, done.stdout) == (2, "") and "tools/test: " in done.stderr


def test_help_names_every_test_group(checkout):
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


def test_unknown_package_list_is_a_usage_error():
    done = subprocess.run([ROOT / "tools" / "scripts" / "install-packages", "biuld"], capture_output=True, text=True)
    assert done.returncode == 2 and "biuld" in done.stderr
