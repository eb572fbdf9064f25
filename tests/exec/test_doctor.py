"""`tpplan-exec doctor` prints, for users and programs, what this machine supports."""

import json
import os
from pathlib import Path

import pytest

from ranks import run

EXEC = str(Path(os.environ["TPPLAN"]).with_name("tpplan-exec"))


def checks(**variables):
    result = run(EXEC, "doctor", "--json", **variables)
    assert result.returncode == 0, result.stderr
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_doctor_lists_every_check_and_local_works():
    found = checks()
    assert found["backend local"]["state"] == "ok"
    assert found["processors"]["state"] == "ok" and int(found["processors"]["found"].split()[0]) >= 1
    assert found["memory"]["found"].endswith("free")
    assert found["Open MPI"]["state"] in ("ok", "absent")
    assert found["launcher"]["state"] == "absent"
    assert all(check["remedy"] for check in found.values() if check["state"] != "ok")


def test_doctor_prints_the_variables_of_a_launcher():
    found = checks(RANK=3, WORLD_SIZE=8, MASTER_ADDR="node0")["launcher"]
    assert found["state"] == "ok"
    assert found["found"] == "torchrun: rank 3 of 8 (RANK=3 WORLD_SIZE=8 MASTER_ADDR=node0)"


def test_doctor_lists_conflicting_launcher_variables():
    found = checks(RANK=3, WORLD_SIZE=8, PMI_RANK=2, PMI_SIZE=8)["launcher"]
    assert found["state"] == "missing"
    assert "RANK=3, PMI_RANK=2" in found["found"]


def test_control_characters_of_variables_are_escaped():
    result = run(EXEC, "doctor", RANK="\x1b[31m", WORLD_SIZE="2")
    assert result.returncode == 0
    assert "\x1b" not in result.stdout and "\\x1b[31m" in result.stdout


def test_doctor_prints_the_install_hint_without_mpi(tmp_path):
    """A text file of that name simulates a missing library: the dynamic linker rejects it first."""
    (tmp_path / "libmpi.so.40").write_text("not a library")
    (tmp_path / "libmpi.so").write_text("not a library")
    found = checks(LD_LIBRARY_PATH=tmp_path)["Open MPI"]
    if found["state"] == "ok":
        pytest.skip("this linker passes over what is no library")
    assert found["state"] == "absent" and "install it" in found["found"]


def test_unknown_command_suggests_the_nearest():
    result = run(EXEC, "verfy", "manifest.json")
    assert result.returncode == 2 and "there is no command `verfy`: did you mean `verify`?" in result.stderr
