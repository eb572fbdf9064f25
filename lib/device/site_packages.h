// Libraries that pip has installed: packages of PyPI bring CUDA's own, where the linker does not look.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// The files that stand at `name` below a Python's site-packages: of the one that this program is installed in, of
// VIRTUAL_ENV and CONDA_PREFIX, of each `python3` on PATH, of the user. Without asking a Python.
[[nodiscard]] std::vector<std::string> find_in_site_packages(std::string_view name);

}  // namespace tpplan
