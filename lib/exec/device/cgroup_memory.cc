#include "exec/device/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace tpplan {
namespace {

// The names of the files of a cgroup version, and of its counter of inactive file pages.
struct CgroupVersion {
  std::string_view controllers;  // in /proc/self/cgroup
  std::string_view mount;
  std::string_view limit, used, idle_pages;
};

constexpr CgroupVersion kVersions[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

bool read_number(const std::string& path, uint64_t& number) {
  std::ifstream file(path);
  return static_cast<bool>(file >> number);  // "max" is no number
}

uint64_t left_in(const std::string& folder, const CgroupVersion& version) {
  uint64_t limit = 0, used = 0;
  if (!read_number(folder + "/" + std::string(version.limit), limit) ||
      !read_number(folder + "/" + std::string(version.used), used))
    return UINT64_MAX;
  std::ifstream stat(folder + "/memory.stat");
  uint64_t bytes = 0;
  for (std::string name; stat >> name >> bytes;) {
    if (name == version.idle_pages) used -= std::min(used, bytes);
  }
  return limit > used ? limit - used : 0;
}

// Returns the path of the process in the hierarchy of a version, from /proc/self/cgroup ("0::/a/b", "9:memory:/a/b");
// "/" if there is no entry, as in a container that sees its group as the root.
std::string path_in(const std::string& root, const CgroupVersion& version) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_it = version.controllers.empty()
                           ? names == ",," && line.starts_with("0:")
                           : names.find("," + std::string(version.controllers) + ",") != std::string::npos;
    if (is_it) return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

uint64_t memory_available_in_cgroups(const std::string& root) {
  uint64_t left = UINT64_MAX;
  for (const CgroupVersion& version : kVersions) {
    std::string path = path_in(root, version);
    while (path.ends_with('/')) path.pop_back();
    // From the group of the process to the root: each can have a limit.
    for (;; path.resize(path.find_last_of('/'))) {
      left = std::min(left, left_in(root + std::string(version.mount) + path, version));
      if (path.empty()) break;
    }
  }
  return left;
}

}  // namespace tpplan
