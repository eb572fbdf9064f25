// `--topology`: computes the time of a step of a manifest.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/measure_time.h"
#include "manifest/manifest.h"
#include "topology/read_speeds.h"

namespace tpplan {

struct TimedStep {
  StepTime time;
  Topology topology;
};

// Returns the file of a value of `--topology`, "FILE" or "AXIS=FILE".
[[nodiscard]] std::string speed_path(const std::string& word);

// Returns a file of a measured step of a topology, whose paths are relative to the topology's file.
[[nodiscard]] std::string measured_path(const std::string& topology, const std::string& path);

// Reads the files that `words` name, each "FILE" or "AXIS=FILE", and numbers their ids from `first`. Returns false
// after reporting an unreadable file. Reserves `speeds`, so that its files do not move.
[[nodiscard]] bool read_speed_files(const std::vector<std::string>& words, FileId first, std::vector<SpeedFile>& speeds,
                                    Diagnostics& diagnostics);

// Returns the time of a step; empty if the manifest has no operations, or after reporting an invalid file.
[[nodiscard]] std::optional<TimedStep> time_manifest(const Manifest& manifest, std::span<const SpeedFile> speeds,
                                                     Diagnostics& diagnostics);

}  // namespace tpplan
