// The version of programs, library and Python package. It stands here alone: CMakeLists.txt and tools/python/setup.py
// read this line, and tests/house holds the rest to it.
#pragma once

#define TPPLAN_VERSION "0.1.0"
