"""The version is that of the programs, in lib/base/version.h; a source distribution has it in PKG-INFO."""

import pathlib
import re

from setuptools import setup

here = pathlib.Path(__file__).resolve().parent
header, info = here.parent.parent / "lib" / "base" / "version.h", here / "PKG-INFO"
text = header.read_text() if header.exists() else info.read_text()
setup(version=re.search(r'^(?:#define TPPLAN_VERSION "|Version: )([0-9.]+)', text, re.M).group(1))
