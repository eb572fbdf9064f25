#include "base/write_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

using namespace tpplan;
namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Folder {
  fs::path path = fs::temp_directory_path() / ("write_file_test-" + std::to_string(getpid()));
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
};

TEST_CASE("a file saved after it was read is not overwritten") {
  const Folder folder;
  const fs::path plan = folder.path / "plan.yaml";
  struct Row {
    const char* by;
    void (*save)(const fs::path& path);
  };
  const Row rows[] = {
      {"writing", [](const fs::path& path) { std::ofstream(path) << "saved"; }},
      {"writing as many bytes", [](const fs::path& path) { std::ofstream(path) << "READ"; }},
      {"renaming",
       [](const fs::path& path) {
         std::ofstream(path.string() + "~") << "saved";
         fs::rename(path.string() + "~", path);
       }},
      {"appending", [](const fs::path& path) { std::ofstream(path, std::ios::app) << " and more"; }},
      {"a folder",
       [](const fs::path& path) {
         fs::remove(path);
         fs::create_directory(path);
       }},
      {"deleting", [](const fs::path& path) { fs::remove(path); }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.by);
    fs::remove(plan);
    std::ofstream(plan) << "read";
    std::string saved;
    const std::string fault = rewrite_file(plan, "read", [&](const Sink& sink) {
      row.save(plan);
      saved = text_of(plan);
      return sink("written");
    });
    CHECK(fault == kChangedSinceRead);
    CHECK(text_of(plan) == saved);
    CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == (fs::exists(plan) ? 1 : 0));
  }
}

TEST_CASE("an unchanged file is rewritten through its link") {
  const Folder folder;
  const fs::path plan = folder.path / "plan.yaml", link = folder.path / "link";
  std::ofstream(plan) << "read";
  fs::create_symlink("plan.yaml", link);
  CHECK(rewrite_file(link, "read", [](const Sink& sink) { return sink("written"); }).empty());
  CHECK(text_of(plan) == "written");
  CHECK(fs::is_symlink(link));
}

}  // namespace
