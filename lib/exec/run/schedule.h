// The manifest's redistributions as one ordered list, which all ranks run in this order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

enum class SchedulePart : uint8_t { Input, Output, Gradient, Gather, Reduce };

// Returns "input", "output", "gradient", "gather" or "reduce".
[[nodiscard]] std::string_view to_text(SchedulePart part);

// A tensor that is redistributed: a value at a module boundary (Input, Output) or its gradient (Gradient); a parameter
// that is gathered (Gather) or its gradient that is reduced (Reduce). Those that differ only in the path are one entry.
struct ScheduleEntry {
  SchedulePart part{};
  std::string path;                   // the first path
  std::string pattern;                // all paths: "layers.{0..31}.w1"
  uint64_t count = 0;                 // number of paths
  std::vector<int64_t> shape;         // global; [batch, tokens, features] for an activation
  std::vector<DimSegments> segments;  // of a packed parameter
  DType dtype = 0;
  std::vector<Placement> from, to;  // the first layout, and the final one that the manifest declares
  std::vector<Step> steps;          // as in the manifest
};

struct ScheduleOptions {
  int64_t tokens = 8;  // of each sequence; the batch has one sequence for each shard of it
};

// Returns the schedule in manifest order: modules (forward, then backward), then parameters. An activation has the
// features of its module's weight, else of the first (for an output the last) linear weight inside the module, else 64.
// Its dtype is the one that the boundary declares, else float32; ids are int64.
[[nodiscard]] std::vector<ScheduleEntry> build_schedule(const Manifest& manifest, const ScheduleOptions& options);

}  // namespace tpplan
