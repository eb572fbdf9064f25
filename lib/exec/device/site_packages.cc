#include "exec/device/site_packages.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/text.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Returns the prefixes of Python installations, the most likely first.
std::vector<fs::path> python_prefixes() {
  std::vector<fs::path> prefixes;
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) prefixes.push_back(program.parent_path().parent_path());
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = variable(name); !prefix.empty()) prefixes.emplace_back(prefix);
  }
  const std::string path = variable("PATH");
  for (const std::string_view folder : split(path, ':')) {
    if (!folder.empty() && fs::exists(fs::path(folder) / "python3", failed))
      prefixes.push_back(fs::path(folder).parent_path());
  }
  if (const std::string home = variable("HOME"); !home.empty()) prefixes.push_back(fs::path(home) / ".local");
  return prefixes;
}

void add_existing(std::vector<std::string>& files, const fs::path& file) {
  std::error_code failed;
  if (fs::is_regular_file(file, failed) && std::ranges::find(files, file.string()) == files.end())
    files.push_back(file.string());
}

}  // namespace

std::vector<std::string> find_in_site_packages(std::string_view name) {
  std::vector<std::string> files;
  std::error_code failed;
  for (fs::path folder = fs::read_symlink("/proc/self/exe", failed); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (folder.filename() == "site-packages") add_existing(files, folder / name);  // this program is in a wheel
  }
  for (const fs::path& prefix : python_prefixes()) {
    std::vector<fs::path> pythons;
    for (fs::directory_iterator at(prefix / "lib", failed); !failed && at != fs::directory_iterator();
         at.increment(failed)) {
      if (at->path().filename().string().starts_with("python3")) pythons.push_back(at->path());
    }
    std::ranges::sort(pythons);
    for (const fs::path& python : pythons) {
      for (const char* packages : {"site-packages", "dist-packages"}) add_existing(files, python / packages / name);
    }
  }
  return files;
}

}  // namespace tpplan
