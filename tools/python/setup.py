"""Reads the version from lib/base/version.h, which the programs use, or from PKG-INFO in a source distribution."""

import pathlib
import re

from setuptools import setup

here = pathlib.Path(__file__).resolve().parent
header, info = here.parent.parent / "lib" / "base" / "version.h", here / "PKG-INFO"
text = header.read_text() if header.exists() else info.read_text()
setup(version=re.search(r'^(?:#define TPPLAN_VERSION "|Version: )([0-9.]+)', text, re.M).group(1))
