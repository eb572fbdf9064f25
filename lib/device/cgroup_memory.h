// The memory that the control groups of this process leave it.
#pragma once

#include <cstdint>
#include <string>

namespace tpplan {

// The least that a group of the process, or one around it, has left: its limit without what is used, where pages of
// files that nobody holds count as free, as the kernel gives them back before it kills. Control groups of version 2 and
// 1 (docs.kernel.org/admin-guide/cgroup-v2.html, cgroup-v1/memory.html). UINT64_MAX without a limit. `root`: of the
// file system in which /proc and /sys stand.
[[nodiscard]] uint64_t memory_left_by_cgroups(const std::string& root = "");

}  // namespace tpplan
