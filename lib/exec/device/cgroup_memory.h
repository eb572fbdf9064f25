// The memory that is available under the control groups of this process.
#pragma once

#include <cstdint>
#include <string>

namespace tpplan {

// Returns the bytes available under the tightest limit among the process's control group and its ancestors: limit minus
// usage, where inactive file pages count as free, because the kernel reclaims them before it kills. Control groups of
// version 2 and 1 (docs.kernel.org/admin-guide/cgroup-v2.html, cgroup-v1/memory.html). UINT64_MAX without a limit.
// `root`: the directory that contains /proc and /sys.
[[nodiscard]] uint64_t memory_available_in_cgroups(const std::string& root = "");

}  // namespace tpplan
