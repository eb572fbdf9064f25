// The version of programs, library and Python package. CMakeLists.txt and tools/python/setup.py read this line, and
// tests/house compares other places with it.
#pragma once

#define TPPLAN_VERSION "0.1.0"
