"""Each package, installed in an otherwise empty environment and used there, also by the hooks and the action of an unbuilt checkout."""

import csv
import base64
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import PROGRAM, ROOT

BUILD = pathlib.Path(PROGRAM).parent
VERSION = re.search(r'TPPLAN_VERSION "(.*)"', (ROOT / "lib/base/version.h").read_text())[1]
MODEL, PLAN = "plans/models/llama-3-8b.json", "plans/llama.yaml"

sys.path.insert(0, str(ROOT / "tools/python"))
write_wheel = pytest.importorskip("write_wheel", reason="Python before 3.11 reads no TOML")


def call(*command, status=0, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **more)
    assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def alone(*command, path="/usr/bin:/bin", status=0, cwd="/", **variables):
    """A command with only these environment variables."""
    return call(*command, status=status, cwd=cwd, env={"PATH": str(path), "HOME": str(cwd), **variables})


def pack(folder, *kinds, **variables):
    call(ROOT / "tools/scripts/package", "--build", BUILD, "--output", folder, *kinds, env=os.environ | variables)
    return {"wheel": "*.whl", "archive": "*.tar.gz", "deb": "*.deb"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """{kind: path}, of the programs of this build."""
    if "NEEDED" in call("objdump", "-p", PROGRAM):
        pytest.skip("the programs of this build are not static")
    for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "file"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("dist")
    patterns = pack(folder, SOURCE_DATE_EPOCH="1700000000")
    found = {kind: list(folder.glob(pattern)) for kind, pattern in patterns.items()}
    assert {kind: len(paths) for kind, paths in found.items()} == {"wheel": 1, "archive": 1, "deb": 1}
    assert len(list(folder.iterdir())) == 3
    return {kind: paths[0] for kind, paths in found.items()}


@pytest.fixture(scope="module")
def environment(packages, tmp_path_factory):
    """An empty virtual environment with the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    alone(sys.executable, "-m", "venv", folder)
    alone(folder / "bin/pip", "install", "--no-index", "--disable-pip-version-check", packages["wheel"])
    return folder


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    """The only folder of the archive."""
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(packages["archive"]) as archive:
        archive.extractall(folder)
    (top,) = folder.iterdir()
    assert f"{top.name}.tar.gz" == packages["archive"].name
    return top


@pytest.fixture(scope="module")
def releases(packages, tmp_path_factory):
    """A folder of releases, a value of TPPLAN_RELEASES."""
    folder = tmp_path_factory.mktemp("releases")
    release = folder / f"v{VERSION}"
    release.mkdir()
    for path in packages.values():
        shutil.copy(path, release)
    (release / "SHA256SUMS").write_text(
        call("sha256sum", *sorted(path.name for path in release.iterdir()), cwd=release)
    )
    return f"file://{folder}"


def uses(prefix, work):
    """A correct plan, a wrong one, a manifest for the executor: with the programs and plans of one prefix."""
    share = prefix / "share/tpplan"
    model, plan = share / MODEL, share / PLAN
    assert alone(prefix / "bin/tpplan", "--version") == f"tpplan {VERSION}\n"
    assert "LlamaForCausalLM on [tp=8]" in alone(prefix / "bin/tpplan", "check", model, plan)
    assert "TP5001" in alone(prefix / "bin/tpplan", "check", model, plan, "--mesh", "tp=3", status=1)
    manifest = alone(prefix / "bin/tpplan", "compile", share / "plans/models/smollm2-135m.json", plan, "--mesh", "tp=3")
    (work / "tp3.json").write_text(manifest[: manifest.rindex("}") + 1])
    assert re.search(r"ok +backend local", alone(prefix / "bin/tpplan-exec", "doctor"))
    said = alone(prefix / "bin/tpplan-exec", "init", work / "tp3.json", "--seed", "1", "-o", work / "shards")
    assert list((work / "shards").iterdir()), said


def test_wheel_installs_both_programs_and_the_package(environment, tmp_path):
    uses(environment, tmp_path)
    on_path = f"{environment}/bin:/usr/bin:/bin"
    assert alone("tpplan", "--version", path=on_path) == f"tpplan {VERSION}\n"
    assert alone("tpplan-exec", "--version", path=on_path) == f"tpplan-exec {VERSION}\n"
    assert "--transformers" in alone("python", "-m", "tpplan.export", "--help", path=on_path)
    code = f"import sys, tpplan; print(len(tpplan.load_manifest({str(tmp_path / 'tp3.json')!r}).parameters), 'torch' in sys.modules)"
    assert re.fullmatch(r"\d+ False\n", alone("python", "-c", code, path=on_path))
    assert alone("pip", "list", "--format=freeze", "--disable-pip-version-check", path=on_path).count("tpplan==") == 1


def test_wheel_includes_the_load_library(environment, tmp_path):
    uses(environment, tmp_path)
    alone(
        environment / "bin/tpplan-exec",
        "init",
        tmp_path / "tp3.json",
        "--seed",
        "1",
        "--consolidated",
        tmp_path / "w.safetensors",
    )
    code = f"""
import tpplan
from tpplan.manifest import local_shape
manifest = tpplan.load_manifest({str(tmp_path / "tp3.json")!r})
norm = manifest.parameters["model.norm.weight"]
(size,) = local_shape(manifest, norm, 2)
into = {{"model.norm.weight": bytearray(2 * size)}}
assert norm.dtype == "bfloat16"
done = tpplan.load(manifest, {str(tmp_path / "w.safetensors")!r}, rank=2, into=into)
print(done.needed_bytes == 2 * size, any(into["model.norm.weight"]))
"""
    assert alone(environment / "bin/python", "-c", code) == "True True\n"


def test_wheel_is_removed_completely(environment, tmp_path):
    folder = tmp_path / "environment"
    shutil.copytree(environment, folder, symlinks=True)
    assert (folder / "share/man/man1/tpplan.1").exists()
    alone(folder / "bin/python", "-m", "pip", "uninstall", "--yes", "tpplan")
    assert not [path for path in folder.rglob("*") if path.is_file() and "tpplan" in str(path.relative_to(folder))]


def test_wheel_record_is_correct(packages):
    with zipfile.ZipFile(packages["wheel"]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
        rows = list(csv.reader(io.StringIO(wheel.read(name).decode())))
        assert [row[0] for row in rows] == wheel.namelist()
        for path, digest, size in rows[:-1]:
            data = wheel.read(path)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={expected}", len(data)), path
        assert rows[-1] == [name, "", ""]


def test_wheel_tag_states_the_required_glibc(packages, environment):
    """glibc 2.34, unless the compiler's own is newer than 2.37: the linker options are in tools/cmake/programs.cmake."""
    read = call("objdump", "-T", environment / "bin/tpplan-exec")
    asked = max(tuple(map(int, version)) for version in re.findall(r"\(?GLIBC_(\d+)\.(\d+)\)?", read))
    assert f"-manylinux_{asked[0]}_{asked[1]}_" in packages["wheel"].name
    ours = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
    assert asked <= max((2, 34), ours if ours > (2, 37) else (0, 0))
    assert write_wheel.asked_of_glibc(environment / "bin/tpplan") == (0, 0)


def test_wheel_is_rejected_if_a_program_needs_a_library(tmp_path):
    (tmp_path / "main.c").write_text(
        "extern const char *zlibVersion(void); int main(void) { return zlibVersion()[0] == 0; }\n"
    )
    (tmp_path / "library.c").write_text('const char *zlibVersion(void) { return "1"; }\n')
    call("cc", "-shared", "-fPIC", "-Wl,-soname,libz.so.1", "-o", tmp_path / "libz.so.1", tmp_path / "library.c")
    call("cc", "-o", tmp_path / "program", tmp_path / "main.c", tmp_path / "libz.so.1")
    with pytest.raises(SystemExit, match="needs libz.so.1"):
        write_wheel.platform_tag([tmp_path / "program"])


def test_archive_works_in_its_folder(unpacked, tmp_path):
    uses(unpacked, tmp_path)


def test_tpplan_runs_in_a_system_without_any_file(unpacked, tmp_path):
    shutil.copy(unpacked / "bin/tpplan", tmp_path)
    for name in (MODEL, PLAN):
        shutil.copy(unpacked / "share/tpplan" / name, tmp_path)
    inside = ["unshare", "--map-root-user", f"--root={tmp_path}", "/tpplan"]
    if os.geteuid() == 0:
        inside = ["chroot", tmp_path, "/tpplan"]
    elif subprocess.run([*inside, "--version"], capture_output=True).returncode != 0:
        pytest.skip("this system lets nobody but root change the root folder")
    assert "LlamaForCausalLM on [tp=8]" in call(*inside, "check", "/llama-3-8b.json", "/llama.yaml")


def below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_archive_and_deb_contain_the_installed_files(packages, unpacked, tmp_path):
    call("dpkg-deb", "-x", packages["deb"], tmp_path / "deb")
    call("cmake", "--install", BUILD, "--component", "runtime", "--strip", "--prefix", tmp_path / "prefix")
    installed = below(tmp_path / "prefix")
    for name in (
        "share/man/man1/tpplan.1",
        "share/zsh/site-functions/_tpplan-exec",
        "share/doc/tpplan/licenses/libre2-dev",
    ):
        assert installed[name]
    assert below(tmp_path / "deb/usr") == installed
    assert below(unpacked) == installed


def test_deb_lists_its_dependencies(packages, tmp_path):
    field = lambda name: call("dpkg-deb", "--field", packages["deb"], name).strip()
    assert (field("Package"), field("Version")) == ("tpplan", VERSION)
    asked = re.search(r"manylinux_(\d+)_(\d+)_", packages["wheel"].name)
    assert re.search(rf"libc6 \(>= {asked[1]}\.{asked[2]}\)", field("Depends")) and "libgcc-s1" in field("Depends")
    call("dpkg-deb", "-x", packages["deb"], tmp_path)
    uses(tmp_path / "usr", tmp_path)


def test_same_build_gives_the_same_bytes(packages, tmp_path):
    patterns = pack(tmp_path, SOURCE_DATE_EPOCH="1700000000")
    for kind, pattern in patterns.items():
        (again,) = tmp_path.glob(pattern)
        assert again.read_bytes() == packages[kind].read_bytes(), kind


@pytest.fixture
def checkout(tmp_path):
    """A checkout without a build."""
    folder = tmp_path / "checkout"
    for name in ("tools", ".github", "lib/base"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "python"))
    return folder


@pytest.mark.parametrize("way", ["archive", "archive without curl", "wheel"])
def test_hooks_use_the_released_program_in_an_unbuilt_clone(checkout, packages, releases, unpacked, way, tmp_path):
    ways = {
        "archive": {"TPPLAN_RELEASES": releases},
        "archive without curl": {"TPPLAN_RELEASES": releases, "path": tmp_path},
        "wheel": {
            "PIP_FIND_LINKS": str(packages["wheel"].parent),
            "PIP_NO_INDEX": "1",
            "TPPLAN_RELEASES": "file:///nowhere",
        },
    }
    for program in pathlib.Path("/usr/bin").iterdir():
        if program.name not in ("curl", "wget"):
            (tmp_path / program.name).symlink_to(program)
    plans = unpacked / "share/tpplan"
    said = alone(
        checkout / "tools/scripts/check-plans",
        plans / MODEL,
        plans / PLAN,
        "--mesh=tp=3",
        cwd=checkout,
        status=1,
        **ways[way],
    )
    assert "TP5001" in said and ("get-tpplan: archive failed" in said) == (way == "wheel")
    assert (checkout / "build/got/tpplan").read_bytes() == (unpacked / "bin/tpplan").read_bytes()
    assert (
        alone(checkout / "tools/scripts/fmt-plans", "--check", plans / PLAN, cwd=checkout) == ""
    )  # without another request


def test_action_uses_the_released_program(checkout, releases, unpacked, tmp_path):
    text = (checkout / ".github/actions/tpplan/action.yml").read_text()
    get, check = re.findall(r"^      run: '(.*)'$", text, re.M)
    output = tmp_path / "output"
    action = {"GITHUB_ACTION_PATH": str(checkout / ".github/actions/tpplan"), "GITHUB_OUTPUT": str(output)}
    alone("bash", "-c", get, TPPLAN_RELEASES=releases, TPPLAN="", **action)
    program = re.fullmatch(r"program=(.*)\n", output.read_text())[1]
    plans = unpacked / "share/tpplan"
    more = {"MODEL": str(plans / MODEL), "PLAN": str(plans / PLAN), "PROGRAM": program}
    assert "::error" not in alone("bash", "-c", check, ARGUMENTS="", **more)
    assert "::error file=" in alone("bash", "-c", check, ARGUMENTS="--mesh tp=3", status=1, **more)
