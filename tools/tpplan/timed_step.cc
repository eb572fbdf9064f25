#include "timed_step.h"

#include "inputs.h"

namespace tpplan {
namespace {

// "AXIS=FILE" and "FILE"; of a path with a slash before the sign all is a file.
SpeedFile speed_file(const std::string& word, std::string& path) {
  const size_t equals = word.find('=');
  const bool has_axis = equals != std::string::npos && equals > 0 && word.find('/') > equals;
  path = has_axis ? word.substr(equals + 1) : word;
  return {.axis = has_axis ? word.substr(0, equals) : std::string()};
}

}  // namespace

bool read_speed_files(const std::vector<std::string>& words, FileId first, std::vector<SpeedFile>& speeds,
                      Diagnostics& diagnostics) {
  constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  bool are_read = true;
  speeds.reserve(words.size());
  for (const std::string& word : words) {
    std::string path;
    SpeedFile& file = speeds.emplace_back(speed_file(word, path));
    file.file.id = static_cast<FileId>(first + speeds.size() - 1);
    are_read = read_input(path, kMostBytes, file.file, diagnostics) && are_read;
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
