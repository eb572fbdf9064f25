// Folders that all ranks write together: whole or not there, whoever fails and whenever.
#include "shards/new_folder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "ranks/launch.h"

using namespace tpplan;
namespace fs = std::filesystem;

namespace {

constexpr int kWorld = 3, kFilesOfARank = 40;

std::shared_ptr<fs::path> temporary_folder() {
  std::string name = (fs::temp_directory_path() / "tpplan-new-folder-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  return {new fs::path(name), [](fs::path* path) {
            fs::remove_all(*path);
            delete path;
          }};
}

// Three ranks write a folder; the exit status of the job.
int write_as_job(const fs::path& out) {
  const LaunchOptions options{
      .backend = "local", .device = "cpu", .world = kWorld, .deadline = 20, .agreement = "test"};
  const JobEnd end = run_ranks(options, [&](Comm& comm) {
    FolderSteps steps;
    steps.write = [&](const std::string& folder) {
      for (int i = 0; i < kFilesOfARank; ++i)
        std::ignore = create_file(folder + "/" + std::to_string(comm.rank) + "-" + std::to_string(i));
    };
    write_folder(comm, out.string(), steps);
    return 0;
  });
  return end.status;
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a folder whose writing fails at any step is whole or not there, and nothing stays beside it") {
  const std::shared_ptr<fs::path> parent = temporary_folder();
  const fs::path out = *parent / "out";
  for (int step = 1; step <= 5; ++step) {
    for (int round = 0; round < 40; ++round) {
      setenv("TPPLAN_EXEC_FAULT", ("rank=2,kind=throw,step=" + std::to_string(step)).c_str(), 1);
      const int status = write_as_job(out);
      unsetenv("TPPLAN_EXEC_FAULT");
      if (fs::exists(out)) {
        CHECK(step >= 4);  // named while the rank failed, or there is no such step
        CHECK(files_in(out) == kWorld * kFilesOfARank);
        fs::remove_all(out);
      } else {
        CHECK(status == 1);
      }
      CHECK(files_in(*parent) == 0);
    }
  }
  CHECK(write_as_job(out) == 0);
  CHECK(files_in(out) == kWorld * kFilesOfARank);
}

TEST_CASE("what a job that was killed left is removed by the next, and what another one writes is not") {
  const std::shared_ptr<fs::path> parent = temporary_folder();
  const fs::path out = *parent / "out";
  fs::create_directory(*parent / "out.tmp-0123abcd");
  std::ignore = create_file((*parent / "out.tmp-0123abcd" / "shard").string());
  std::ignore = create_file((*parent / "out.tmp-89abcdef-removed").string());
  for (const char* other : {"out.tmp-notours", "other.tmp-0123abcd", "out.tmp-00000000"})
    fs::create_directory(*parent / other);
  const int held = open((*parent / "out.tmp-00000000").c_str(), O_RDONLY);
  REQUIRE(flock(held, LOCK_EX) == 0);
  CHECK(write_as_job(out) == 0);
  close(held);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(*parent)) names.insert(entry.path().filename().string());
  CHECK(names == std::set<std::string>{"out", "out.tmp-notours", "other.tmp-0123abcd", "out.tmp-00000000"});
}
