// `--topology`: the time of a step of a manifest.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/read_speeds.h"
#include "manifest/manifest.h"
#include "measure/measure_time.h"

namespace tpplan {

struct TimedStep {
  StepTime time;
  Topology topology;
};

// Reads what `words` name, each "FILE" or "AXIS=FILE", as files with ids from `first` on. False where one cannot be
// read, which is a finding. The files stay where they are.
[[nodiscard]] bool read_speed_files(const std::vector<std::string>& words, FileId first, std::vector<SpeedFile>& speeds,
                                    Diagnostics& diagnostics);

// Nothing where the manifest knows no operations, or where a file has something wrong, which is a finding.
[[nodiscard]] std::optional<TimedStep> time_manifest(const Manifest& manifest, std::span<const SpeedFile> speeds,
                                                     Diagnostics& diagnostics);

}  // namespace tpplan
