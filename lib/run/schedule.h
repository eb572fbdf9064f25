// The manifest's redistributions as one ordered list: what every rank runs, in the order in which all of them run it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

enum class SchedulePart : uint8_t { Input, Output, Gradient, Gather, Reduce };

// "input", "output", "gradient", "gather", "reduce".
[[nodiscard]] std::string_view to_text(SchedulePart part);

// A tensor that is redistributed: a value at a module's boundary going forward (Input, Output) or its gradient going
// back (Gradient); a parameter gathered for its module (Gather), or its gradient summed and scattered (Reduce). Those
// that agree in everything but the path are one entry.
struct ScheduleEntry {
  SchedulePart part{};
  std::string path;                   // the first of them
  std::string pattern;                // all of them: "layers.{0..31}.w1"
  uint64_t count = 0;                 // how many there are in the model
  std::vector<int64_t> shape;         // of the whole tensor; an activation's is [batch, tokens, features]
  std::vector<DimSegments> segments;  // of a packed parameter
  DType dtype = 0;
  std::vector<Placement> from, to;  // where it starts, and where the manifest promises that it ends
  std::vector<Step> steps;          // as the manifest says them
};

struct ScheduleOptions {
  int64_t tokens = 8;  // of each sequence; the batch is as many sequences as there are pieces of it
};

// In the manifest's order: modules (forward, then backward), then parameters. An activation has the features of its
// module's weight or, where the module has none, of the first (for an output the last) linear weight inside it, else
// 64; it is float32 where its boundary names no type to send it in, ids are int64.
[[nodiscard]] std::vector<ScheduleEntry> build_schedule(const Manifest& manifest, const ScheduleOptions& options);

}  // namespace tpplan
