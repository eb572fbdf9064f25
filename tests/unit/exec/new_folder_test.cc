// Folders written by all ranks are complete or missing, after any failure at any time.
#include "exec/shards/new_folder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "exec/ranks/launch.h"

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

// Runs three ranks that write a folder and returns the exit status of the job.
int write_as_job(const fs::path& out) {
  const LaunchOptions options{
      .backend = "local", .device = "cpu", .world = kWorld, .deadline = 20, .agreement = "test"};
  const JobResult end = run_ranks(options, [&](Comm& comm) {
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

TEST_CASE("a failed folder write is atomic and leaves no files") {
  const std::shared_ptr<fs::path> parent = temporary_folder();
  const fs::path out = *parent / "out";
  for (int step = 1; step <= 5; ++step) {
    for (int round = 0; round < 40; ++round) {
      setenv("TPPLAN_EXEC_FAULT", ("rank=2,kind=throw,step=" + std::to_string(step)).c_str(), 1);
      const int status = write_as_job(out);
      unsetenv("TPPLAN_EXEC_FAULT");
      if (fs::exists(out)) {
        CHECK(step >= 4);  // renamed already when the rank failed, or no such step
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

namespace {

// Creates a work folder as left by a killed job, or the same without the mark.
void make_work_folder(const fs::path& folder, bool is_marked) {
  fs::create_directories(folder / "content");
  std::ofstream(folder / "content" / "shard") << "bytes";
  if (is_marked) std::ofstream(folder / "tpplan-unfinished") << "tpplan: unfinished output\n";
}

}  // namespace

TEST_CASE("only marked, unlocked work folders of the path are removed") {
  const std::shared_ptr<fs::path> parent = temporary_folder();
  const fs::path out = *parent / "out";
  for (const char* left : {".out.tpplan-0123abcd", ".out.tpplan-89abcdef-removed"})
    make_work_folder(*parent / left, true);
  const std::set<std::string> others = {
      ".out.tpplan-00000000",  // locked
      "out.tmp-20261126",      "out.tmp-20261126-keep-this",     ".out.tpplan-notours0",
      ".out.tpplan-0123abcde", ".out.tpplan-20261126-keep-this", ".other.tpplan-0123abcd"};
  for (const std::string& other : others) make_work_folder(*parent / other, true);
  make_work_folder(*parent / ".out.tpplan-20261126", false);  // without the mark
  const int held = open((*parent / ".out.tpplan-00000000").c_str(), O_RDONLY);
  REQUIRE(flock(held, LOCK_EX) == 0);
  CHECK(write_as_job(out) == 0);
  close(held);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(*parent)) names.insert(entry.path().filename().string());
  std::set<std::string> expected = others;
  expected.insert({"out", ".out.tpplan-20261126"});
  CHECK(names == expected);
  CHECK(files_in(*parent / ".out.tpplan-20261126" / "content") == 1);
}
