#include "exec/shards/choose_weights.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "base/long_calls.h"
#include "base/text.h"
#include "diagnostics/fault.h"
#include "weights/weight_formats.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndex = ".index.json";

Fault unusable(const std::string& folder, std::string message, std::string help = {}) {
  return {.code = Code::NoWeights, .message = std::move(message), .help = std::move(help), .place = folder};
}

// Finds a checkpoint by Hugging Face's names: the index, else the single file. Empty if neither exists.
std::string find_model(const fs::path& folder) {
  std::error_code error;
  for (const WeightFormat& format : weight_formats()) {
    const std::string file = fmt::format("model{}", format.extension);
    for (const std::string& name : {file + std::string(kIndex), file}) {
      const std::string path = (folder / name).string();
      if (make_registered_call("stat", path, kNoOffset, [&] { return fs::exists(path, error); })) return path;
    }
  }
  return "";
}

bool is_of_a_format(std::string_view name, std::string_view ending) {
  return std::ranges::any_of(weight_formats(), [&](const WeightFormat& format) {
    return name.ends_with(fmt::format("{}{}", format.extension, ending));
  });
}

}  // namespace

ChosenWeights choose_weights(const std::string& path) {
  std::error_code error;
  const bool is_folder = make_registered_call("stat", path, kNoOffset, [&] { return fs::is_directory(path, error); });
  if (!is_folder) return {.path = path, .shards = {}};
  ChosenWeights chosen{.path = find_model(path), .shards = {}};
  if (!chosen.path.empty()) return chosen;
  std::vector<std::string> indexes;
  begin_call("a folder listing", path);
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_of_a_format(name, "")) chosen.shards.push_back(name);
    if (is_of_a_format(name, kIndex)) indexes.push_back(name);
  }
  end_call();
  if (error) throw unusable(path, fmt::format("cannot read the folder: {}", error.message()));
  std::ranges::sort(chosen.shards);
  std::ranges::sort(indexes);
  if (indexes.size() > 1)
    throw unusable(path,
                   fmt::format("the folder has {} indexes, among them {} and {}", indexes.size(),
                               escape_for_terminal(indexes[0]), escape_for_terminal(indexes[1])),
                   "pass one of them");
  if (indexes.empty() && chosen.shards.empty())
    throw unusable(path, fmt::format("the folder has no {} file and no index", weight_formats().front().name),
                   "pass a folder that `tpplan-exec save` or torch wrote, or one with model.safetensors");
  if (!indexes.empty())
    chosen.path = (fs::path(path) / indexes[0]).string();
  else if (chosen.shards.size() == 1)
    chosen.path = (fs::path(path) / chosen.shards[0]).string();
  return chosen;
}

}  // namespace tpplan
