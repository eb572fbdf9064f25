#include "timed_step.h"

#include <filesystem>

#include "inputs.h"

namespace tpplan {
namespace {

// Returns the axis of "AXIS=FILE"; empty for "FILE". A text with a slash before the equals sign is a path.
std::string speed_axis(const std::string& word) {
  const size_t equals = word.find('=');
  const bool has_axis = equals != std::string::npos && equals > 0 && word.find('/') > equals;
  return has_axis ? word.substr(0, equals) : std::string();
}

}  // namespace

std::string speed_path(const std::string& word) {
  const std::string axis = speed_axis(word);
  return axis.empty() ? word : word.substr(axis.size() + 1);
}

std::string measured_path(const std::string& topology, const std::string& path) {
  return (std::filesystem::path(topology).parent_path() / path).lexically_normal().string();
}

bool read_speed_files(const std::vector<std::string>& words, FileId first, std::vector<SpeedFile>& speeds,
                      Diagnostics& diagnostics) {
  constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  bool are_read = true;
  speeds.reserve(words.size());
  for (const std::string& word : words) {
    SpeedFile& file = speeds.emplace_back(SpeedFile{.axis = speed_axis(word)});
    file.file.id = static_cast<FileId>(first + speeds.size() - 1);
    are_read = read_input(speed_path(word), kMostBytes, file.file, diagnostics) && are_read;
  }
  return are_read;
}

std::optional<TimedStep> time_manifest(const Manifest& manifest, std::span<const SpeedFile> speeds,
                                       Diagnostics& diagnostics) {
  TimedStep step{.time = {}, .topology = read_speeds(speeds, manifest.mesh, diagnostics)};
  if (has_errors(diagnostics) || !manifest.costs.is_there) return std::nullopt;
  const std::vector<AxisId> data_axes = data_axes_of(manifest);
  step.time = measure_time(manifest.collectives, manifest.mesh, manifest.costs, data_axes, step.topology);
  return step;
}

}  // namespace tpplan
