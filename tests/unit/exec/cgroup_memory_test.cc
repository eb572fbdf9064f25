// Memory limits of control groups, read from folders that mimic the kernel's.
#include "exec/device/cgroup_memory.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

using namespace tpplan;
namespace fs = std::filesystem;

namespace {

struct Root {
  std::string path;
  Root() {
    char name[] = "/tmp/tpplan-cgroup-XXXXXX";
    path = mkdtemp(name);
  }
  ~Root() { fs::remove_all(path); }
};

void put(const Root& root, const std::string& file, const std::string& text) {
  fs::create_directories(fs::path(root.path + file).parent_path());
  std::ofstream(root.path + file) << text;
}

}  // namespace

TEST_CASE("a warm page cache counts as free memory") {
  const Root root;
  put(root, "/proc/self/cgroup", "0::/\n");
  put(root, "/sys/fs/cgroup/memory.max", "1000\n");
  put(root, "/sys/fs/cgroup/memory.current", "900\n");
  CHECK(memory_available_in_cgroups(root.path) == 100);
  put(root, "/sys/fs/cgroup/memory.stat", "anon 100\nfile 800\nactive_file 50\ninactive_file 750\n");
  CHECK(memory_available_in_cgroups(root.path) == 850);
}

TEST_CASE("the tightest of nested groups applies") {
  const Root root;
  put(root, "/proc/self/cgroup", "0::/job/step\n");
  put(root, "/sys/fs/cgroup/job/step/memory.max", "max\n");
  put(root, "/sys/fs/cgroup/job/step/memory.current", "10\n");
  CHECK(memory_available_in_cgroups(root.path) == UINT64_MAX);
  put(root, "/sys/fs/cgroup/job/memory.max", "500\n");
  put(root, "/sys/fs/cgroup/job/memory.current", "200\n");
  CHECK(memory_available_in_cgroups(root.path) == 300);
  put(root, "/sys/fs/cgroup/memory.max", "400\n");
  put(root, "/sys/fs/cgroup/memory.current", "300\n");
  CHECK(memory_available_in_cgroups(root.path) == 100);
}

TEST_CASE("version 1 of control groups is read as well") {
  const Root root;
  put(root, "/proc/self/cgroup", "12:cpu,cpuacct:/x\n9:memory:/job\n");
  put(root, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n");
  put(root, "/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "990\n");
  put(root, "/sys/fs/cgroup/memory/job/memory.stat", "cache 800\ntotal_inactive_file 790\n");
  CHECK(memory_available_in_cgroups(root.path) == 800);
}

TEST_CASE("no control group means no limit, and overuse leaves 0 bytes") {
  const Root root;
  CHECK(memory_available_in_cgroups(root.path) == UINT64_MAX);
  put(root, "/sys/fs/cgroup/memory.max", "1000\n");
  put(root, "/sys/fs/cgroup/memory.current", "2000\n");
  CHECK(memory_available_in_cgroups(root.path) == 0);
}
