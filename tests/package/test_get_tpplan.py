"""tools/scripts/get-tpplan: the search order of the hooks and the action for the program, and their errors without one. Stand-ins print a
version in place of programs; test_installed.py uses the packages."""

import concurrent.futures
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
from conftest import ROOT

VERSION = re.search(r'TPPLAN_VERSION "(.*)"', (ROOT / "lib/base/version.h").read_text())[1]
ARCHIVE = f"tpplan-{VERSION}-linux-{platform.machine()}"


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "a checkout"
    for name in (
        "tools/scripts/get-tpplan",
        "tools/scripts/check-plans",
        "tools/scripts/fmt-plans",
        "lib/base/version.h",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def stand_in(path, version=VERSION):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'tpplan {version}'\n")
    path.chmod(0o755)
    return path


def release(folder, version=VERSION, checksum=None):
    """A release with a stand-in in its archive; the value of TPPLAN_RELEASES."""
    (folder / f"v{VERSION}").mkdir(parents=True)
    archive = folder / f"v{VERSION}" / f"{ARCHIVE}.tar.gz"
    script = f"#!/bin/sh\necho 'tpplan {version}'\n".encode()
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo(f"{ARCHIVE}/bin/tpplan")
        info.size, info.mode = len(script), 0o755
        tar.addfile(info, io.BytesIO(script))
    said = subprocess.run(
        ["sha256sum", archive.name], cwd=archive.parent, capture_output=True, text=True, check=True
    ).stdout
    (archive.parent / "SHA256SUMS").write_text(said if checksum is None else f"{checksum}  {archive.name}\n")
    return f"file://{folder}"


def get(checkout, *path, tool="get-tpplan", words=(), installs=1, **variables):
    """Without a pip index and a build system; packages cannot be installed, unless `installs` is 0."""
    tools = checkout.parent / "bin"
    if not tools.exists():
        tools.mkdir()
        for name in ("bash", "env", "sh", "sed", "uname", "tr", "cp", "mv", "rm", "mkdir", "mktemp", "dirname", "flock", "git",
                     "sha256sum", "tar", "gzip", "grep", "chmod", "tail", "cat"):  # fmt: skip
            (tools / name).symlink_to(pathlib.Path(shutil.which(name)).resolve())
        (tools / "python3").symlink_to(pathlib.Path(sys.executable).resolve())
    (checkout / "tools/scripts/install-packages").write_text(f"#!/bin/sh\necho no network >&2\nexit {installs}\n")
    (checkout / "tools/scripts/install-packages").chmod(0o755)
    clean = {"HOME": str(checkout.parent), "PIP_NO_INDEX": "1", "TPPLAN_RELEASES": "file:///nowhere"}
    clean["PATH"] = os.pathsep.join([*map(str, path), str(tools)])
    done = subprocess.run(
        [checkout / "tools/scripts" / tool, *words], capture_output=True, text=True, env=clean | variables
    )
    return done.returncode, done.stdout, done.stderr


def test_search_order_is_named_built_path(checkout, tmp_path):
    on_path = stand_in(tmp_path / "path/tpplan")
    assert get(checkout, on_path.parent) == (0, f"{on_path}\n", "")
    built = stand_in(checkout / "build/tpplan")
    assert get(checkout, on_path.parent) == (0, f"{built}\n", "")
    assert get(checkout, on_path.parent, TPPLAN="/named") == (0, "/named\n", "")


def test_program_of_another_version_is_ignored(checkout, tmp_path):
    older = stand_in(tmp_path / "path/tpplan", "0.0.1")
    got = checkout / "build/got/tpplan"
    assert get(checkout, older.parent, TPPLAN_RELEASES=release(tmp_path / "releases")) == (0, f"{got}\n", "")


def test_downloaded_program_is_reused(checkout, tmp_path):
    releases = release(tmp_path / "releases")
    assert get(checkout, TPPLAN_RELEASES=releases)[0] == 0
    assert get(checkout) == (0, f"{checkout}/build/got/tpplan\n", "")
    assert sorted(path.name for path in (checkout / "build/got").iterdir()) == ["lock", "tpplan"]


@pytest.mark.parametrize("wrong", [{"checksum": "0" * 64}, {"version": "0.0.1"}], ids=["checksum", "version"])
def test_archive_with_a_wrong_checksum_or_version_is_rejected(checkout, tmp_path, wrong):
    status, out, err = get(checkout, TPPLAN_RELEASES=release(tmp_path / "releases", **wrong))
    assert (status, out) == (2, "") and err.startswith("get-tpplan: archive failed:")
    assert ("does not match SHA256SUMS" in err) == ("checksum" in wrong)
    assert not (checkout / "build/got/tpplan").exists()


def test_error_without_any_source_has_a_help(checkout):
    for tool, words in (("get-tpplan", []), ("check-plans", ["model.json", "plan.yaml"]), ("fmt-plans", ["plan.yaml"])):
        status, out, err = get(checkout, tool=tool, words=words)
        assert (status, out) == (2, "")
        assert [line.split(":")[1] for line in err.splitlines()] == [
            " archive failed",
            " wheel failed",
            f" no release of tpplan {VERSION} found",
            " sources failed",
            f" install it (pip install tpplan=={VERSION}), or set TPPLAN to the path of the program",
        ]


def test_concurrent_hooks_download_once(checkout, tmp_path):
    releases = release(tmp_path / "releases")
    get(checkout, TPPLAN="/named")  # the tools of the path
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: get(checkout, TPPLAN_RELEASES=releases), range(4)))
    assert results == [(0, f"{checkout}/build/got/tpplan\n", "")] * 4


def test_releases_are_those_of_the_clone_origin(checkout, tmp_path):
    """git runs unchanged; a fake curl prints the requested URL."""
    subprocess.run(["git", "init", "-q", checkout], check=True)
    subprocess.run(["git", "-C", checkout, "remote", "add", "origin", "https://github.com/some/where.git"], check=True)
    curl = tmp_path / "path/curl"
    curl.parent.mkdir()
    curl.write_text('#!/bin/sh\nfor word; do url=$word; done\necho "$url" >&2\nexit 22\n')
    curl.chmod(0o755)
    err = get(checkout, curl.parent, TPPLAN_RELEASES="")[2]
    assert f"archive failed: https://github.com/some/where/releases/download/v{VERSION}/{ARCHIVE}.tar.gz" in err
    subprocess.run(["git", "-C", checkout, "remote", "set-url", "origin", "/a/folder"], check=True)
    assert "archive failed: /a/folder has no releases" in get(checkout, TPPLAN_RELEASES="")[2]


def test_only_tpplan_is_built_without_a_release(checkout, tmp_path):
    """A fake cmake stores its arguments."""
    cmake = tmp_path / "path/cmake"
    cmake.parent.mkdir()
    said = tmp_path / "asked"
    program = f"#!/bin/sh\\necho tpplan {VERSION}\\n"
    cmake.write_text(
        f'#!/bin/sh\necho "$@" >>{said}\n[ "$1" != --build ] || {{ mkdir -p "$2"; printf \'{program}\' >"$2/tpplan"; }}\n'
        '[ ! -e "$2/tpplan" ] || chmod 755 "$2/tpplan"\n'
    )
    cmake.chmod(0o755)
    status, out, err = get(checkout, cmake.parent, installs=0)
    assert (status, out) == (0, f"{checkout}/build/got/tpplan\n"), err
    assert "building it, which takes minutes" in err
    assert (
        re.search(r"^--build .* --target tpplan$", said.read_text(), re.M) and "-DTPPLAN_TESTS=OFF" in said.read_text()
    )
    assert sorted(path.name for path in (checkout / "build/got").iterdir()) == [
        "lock",
        "tpplan",
    ]  # the build folder is removed
