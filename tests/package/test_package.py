"""The files of `cmake --install`, and the libraries in another project."""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest
from conftest import PROGRAM, ROOT

BUILD = pathlib.Path(PROGRAM).parent
CONSUMER = pathlib.Path(__file__).parent / "consumer"
INPUTS = [ROOT / "plans/models/llama-3-8b.json", ROOT / "plans/llama-fsdp-tp.yaml"]
WRONG = [ROOT / "plans/models/llama-3-8b.json", ROOT / "tests/plans/wrong/output-colwise.yaml"]


def cached(folder, name):
    return re.search(rf"^{name}:\w+=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M).group(1)


def call(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    call("cmake", "--install", BUILD, "--prefix", folder)
    return folder


def configure(folder, *arguments):
    """The consumer, without optimisation and with the compiler of the libraries."""
    same = [f"-D{name}={cached(BUILD, name)}" for name in ("CMAKE_CXX_COMPILER", "CMAKE_CXX_FLAGS")]
    call(
        "cmake",
        "-S",
        CONSUMER,
        "-B",
        folder,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        *same,
        *arguments,
    )


def said_by(consumer):
    """Checks that the consumer's output for a correct plan and for a wrong one matches the program's."""
    right = call(consumer, *INPUTS)
    manifest = json.loads(call(PROGRAM, "compile", *INPUTS))
    assert right == f"compiled: {len(manifest['parameters'])} parameters\n"
    wrong = subprocess.run([consumer, *WRONG], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stdout.splitlines()[0]) == (1, "judged: TP5102")


def expected():
    """Every path of an installation below the prefix."""
    library = cached(BUILD, "CMAKE_INSTALL_LIBDIR")
    yield from ("bin/tpplan", "bin/tpplan-exec", "share/doc/tpplan/LICENSE")
    yield from (f"{library}/libtpplan_load.so", "include/tpplan_load.h")
    if "NEEDED" not in call("objdump", "-p", PROGRAM):  # a static program needs the licences of its libraries
        compiler = re.search(
            r"COMPILER_VERSION \"(\d+)", next(BUILD.glob("CMakeFiles/*/CMakeCXXCompiler.cmake")).read_text()
        )[1]
        packages = [
            "libcli11-dev",
            "libfmt-dev",
            "libspdlog-dev",
            "nlohmann-json3-dev",
            "libyaml-cpp-dev",
            "libre2-dev",
            "libssl-dev",
        ]
        packages += [
            "libc6-dev",
            f"libstdc++-{compiler}-dev",
            *(["libabsl-dev"] if b"absl" in pathlib.Path(PROGRAM).read_bytes() else []),
        ]
        yield from (f"share/doc/tpplan/licenses/{package}" for package in packages)
    yield from (f"{library}/libtpplan_{name}.a" for name in ("core", "compiler"))
    kind = cached(BUILD, "CMAKE_BUILD_TYPE").lower()
    for name in ("Config", "ConfigVersion", "Libraries", "Targets", f"Targets-{kind}"):
        yield f"{library}/cmake/tpplan/tpplan{name}.cmake"
    for program in ("tpplan", "tpplan-exec"):
        yield f"share/man/man1/{program}.1"
        yield f"share/bash-completion/completions/{program}"
        yield f"share/zsh/site-functions/_{program}"
        yield f"share/fish/vendor_completions.d/{program}.fish"
    yield "share/tpplan/problem-matcher.json"
    for folder in ("plans", "schemas"):
        yield from (f"share/tpplan/{path.relative_to(ROOT)}" for path in (ROOT / folder).rglob("*") if path.is_file())
    for path in [*(ROOT / "lib").rglob("*.h"), *(ROOT / "lib").rglob("*.def")]:
        name = path.relative_to(ROOT / "lib")
        if name.parts[0] != "exec":
            yield f"include/tpplan/{name}"


def test_installation_has_exactly_these_files(tmp_path):
    """With DESTDIR, as package builders call it."""
    call("cmake", "--install", BUILD, "--prefix", "/usr/local", env=os.environ | {"DESTDIR": str(tmp_path)})
    found = [path for path in tmp_path.rglob("*") if not path.is_dir() or not any(path.iterdir())]
    found = {str(path.relative_to(tmp_path / "usr/local")) for path in found}
    assert sorted(found - {"share/doc/tpplan/licenses/cuda"}) == sorted(
        expected()
    )  # if the toolkit has its licence text


def test_shell_files_match_the_program_output(prefix):
    for program in ("tpplan", "tpplan-exec"):
        for path, words in (
            (f"man/man1/{program}.1", ["man"]),
            (f"bash-completion/completions/{program}", ["completion", "bash"]),
            (f"zsh/site-functions/_{program}", ["completion", "zsh"]),
            (f"fish/vendor_completions.d/{program}.fish", ["completion", "fish"]),
        ):
            assert (prefix / "share" / path).read_text() == call(prefix / "bin" / program, *words) != ""


def test_find_package_provides_libraries_and_programs(prefix, tmp_path):
    configure(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DVERSION={cached(BUILD, 'CMAKE_PROJECT_VERSION')}")
    assert cached(tmp_path, "tpplan_DIR").startswith(str(prefix))
    call("cmake", "--build", tmp_path)
    said_by(tmp_path / "consumer")


def test_add_subdirectory_provides_only_the_libraries(tmp_path):
    """The libraries are not compiled again: links to those of this build replace the consumer's."""
    configure(tmp_path, f"-DTPPLAN_SOURCES={ROOT}")
    units = json.loads((tmp_path / "compile_commands.json").read_text())
    assert not [
        unit["file"]
        for unit in units
        if "/tools/" in unit["file"]
        or "/tests/" in unit["file"].removeprefix(str(CONSUMER))
        or "/lib/exec/" in unit["file"]
    ]
    assert not re.search(
        r"-W|-O|-static|-fsanitize",
        " ".join(unit["command"] for unit in units).replace(cached(BUILD, "CMAKE_CXX_FLAGS"), ""),
    )
    assert "Total Tests: 0" in call("ctest", "-N", "--test-dir", tmp_path)
    call("cmake", "--install", tmp_path, "--prefix", tmp_path / "prefix")
    assert not (tmp_path / "prefix").exists()
    for name in ("libtpplan_core.a", "libtpplan_compiler.a"):
        (tmp_path / "tpplan" / name).symlink_to(BUILD / name)
    for made in ("CMakeFiles/consumer.dir/main.cc.o", "consumer"):
        command = call("ninja", "-C", tmp_path, "-t", "commands", "-s", made).splitlines()[-1]
        call("sh", "-c", command, cwd=tmp_path)
    said_by(tmp_path / "consumer")
