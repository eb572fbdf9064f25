// Libraries from pip packages: PyPI has CUDA's, in folders that the linker does not search.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Returns the files at `name` below site-packages: of the Python that this program is installed in, of VIRTUAL_ENV and
// CONDA_PREFIX, of each `python3` on PATH, and of the user. Runs no Python.
[[nodiscard]] std::vector<std::string> find_in_site_packages(std::string_view name);

}  // namespace tpplan
