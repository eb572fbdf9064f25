"""Writes a wheel of the files that `cmake --install` has installed: write_wheel.py PREFIX FOLDER; prints its path.

The wheel holds the programs, libtpplan_load and the Python package. No build backend is used, because CMake has
already compiled, stripped and installed all files, as for the archive and the .deb. An environment with the wheel has
the layout of any other prefix. The same prefix and SOURCE_DATE_EPOCH produce the same bytes.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("tpplan", "tpplan-exec")
LIBRARY = "libtpplan_load.so"
PACKAGE = "share/tpplan/python/"  # install path of the component `python`
# Libraries that PEP 600 allows a program to require on every Linux.
EVERYWHERE = re.compile(r"(lib(c|m|dl|rt|pthread)|ld-linux-[\w-]+|libgcc_s)\.so\.\d")


def asked_of_glibc(program):
    """Returns the lowest glibc (major, minor) that the program needs; (0, 0) if it is static. Exits if it needs a
    library that PEP 600 does not list."""
    read = subprocess.run(["objdump", "-p", program], capture_output=True, text=True, check=True).stdout
    missing = [name for name in re.findall(r"NEEDED +(\S+)", read) if not EVERYWHERE.fullmatch(name)]
    if missing:
        sys.exit(
            f"write_wheel.py: {program} needs {', '.join(missing)}: a wheel must contain statically linked programs"
        )
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", read)
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def platform_tag(programs):
    """Returns the PEP 600 tag of the oldest systems on which the programs run, at least manylinux_2_5."""
    major, minor = max([(2, 5), *map(asked_of_glibc, programs)])
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def metadata(version):
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    lines = {
        "Metadata-Version": "2.1",
        "Name": project["name"],
        "Version": version,
        "Summary": project["description"],
        "License": project["license"]["text"],
        "Requires-Python": project["requires-python"],
        "Description-Content-Type": "text/markdown",
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items()) + "\n" + (HERE / project["readme"]).read_text()


def place(path, stem):
    """Returns the path in the wheel of a file below the prefix."""
    if path.startswith("bin/"):
        return f"{stem}.data/scripts/{path.removeprefix('bin/')}"
    if path.startswith(PACKAGE):
        return path.removeprefix(PACKAGE)
    if path.startswith("share/doc/tpplan/"):
        return f"{stem}.dist-info/licenses/{path.removeprefix('share/doc/tpplan/').removeprefix('licenses/')}"
    return f"{stem}.data/data/{path}"


def main(prefix, folder):
    prefix = pathlib.Path(prefix)
    programs = [prefix / "bin" / name for name in PROGRAMS]
    library = prefix / "lib" / LIBRARY
    said = subprocess.run([programs[0], "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\d+\.\d+\.\d+", said)[0]
    tag, stem = f"py3-none-{platform_tag([*programs, library])}", f"tpplan-{version}"

    contents = {}  # path in the wheel -> (mode, bytes)
    for path in sorted(path for path in prefix.rglob("*") if path.is_file()):
        mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        contents[place(str(path.relative_to(prefix)), stem)] = (mode, path.read_bytes())
    wheel = f"Wheel-Version: 1.0\nGenerator: tpplan {version}\nRoot-Is-Purelib: true\nTag: {tag}\n"
    for name, text in (("METADATA", metadata(version)), ("WHEEL", wheel)):
        contents[f"{stem}.dist-info/{name}"] = (0o644, text.encode())
    record = (
        "".join(f"{name},{record_of(data)}\n" for name, (_, data) in contents.items()) + f"{stem}.dist-info/RECORD,,\n"
    )
    contents[f"{stem}.dist-info/RECORD"] = (0o644, record.encode())

    date = max(
        time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6], (1980, 1, 1, 0, 0, 0)
    )  # the earliest date of a zip
    path = pathlib.Path(folder) / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (mode, data) in contents.items():
            info = zipfile.ZipInfo(name, date)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            archive.writestr(info, data)
    print(path)


def record_of(data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest},{len(data)}"


if __name__ == "__main__":
    main(*sys.argv[1:])
