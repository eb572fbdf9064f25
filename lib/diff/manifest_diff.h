// The result of comparing two manifests: changes grouped by identical fields, and their costs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diff/diff_calls.h"
#include "manifest/manifest.h"

namespace tpplan {

// One field that differs. `before` and `after` are human-readable, unescaped and never equal; `_json` is the value in
// the manifest's JSON. An added entry has only the after side, a removed one only the before side; the other is empty.
// The name of a renamed rule is a RuleChange, not a field change.
struct FieldChange {
  std::string_view field;  // "spec", "local_shapes", "rule", "mesh", ...
  std::string before, after;
  std::string before_json, after_json;
};

// Paths that differ only in layer numbers.
struct PathFamily {
  std::string pattern;                  // starred_path of all of them
  std::vector<std::string_view> paths;  // in file order, views into the manifest
  uint64_t of = 0;                      // number of paths in the manifest with this pattern, changed or not
};

// Entries with identical changes, probably of one cause. For added and removed entries `fields` has all their fields.
struct ChangeGroup {
  std::vector<FieldChange> fields;
  std::vector<PathFamily> families;  // in file order of their first path, which serves as the example
  uint64_t count = 0;                // of all families
};

// Differences of parameters, buffers or modules. Groups are in file order of their first path.
struct ListDiff {
  uint64_t before = 0, after = 0;  // numbers of entries
  uint64_t added_count = 0, removed_count = 0, changed_count = 0;
  std::vector<ChangeGroup> added, removed, changed;
};

// A rule that differs. Two rules are the same if block and key are equal, or if they were renamed (diff/diff_rules.h).
struct RuleChange {
  const ManifestRule* rule = nullptr;
  const ManifestRule* renamed_from = nullptr;  // the old rule if it was renamed, otherwise nullptr
  std::optional<uint64_t> before, after;       // numbers of matches; absent if the manifest lacks the rule
};

enum class CommPhase : uint8_t { Forward, Backward, Gather, Gradient };
inline constexpr std::string_view kCommPhaseNames[] = {"forward", "backward", "gather", "gradient"};  // by CommPhase
static_assert(std::size(kCommPhaseNames) == static_cast<size_t>(CommPhase::Gradient) + 1);
[[nodiscard]] inline std::string_view to_text(CommPhase phase) { return kCommPhaseNames[static_cast<size_t>(phase)]; }

// Numbers of a collective in the two manifests. Forward and backward count values at module boundaries; gather and
// gradient count parameters. Local slices do not count. Bytes are the payload of these parameters on rank 0; they are 0
// for values, whose sizes a manifest does not have.
struct CollectiveCount {
  CommPhase phase{};
  CollectiveKind kind{};
  std::string axis;
  uint64_t before = 0, after = 0;
  uint64_t bytes_before = 0, bytes_after = 0;
};

struct RankBytes {
  uint64_t ranks = 1;
  std::optional<uint64_t> min;  // absent if the manifest does not list ranks
  uint64_t max = 0;
  uint64_t total = 0;       // of the whole model
  uint64_t ideal = 0;       // ManifestTotals::ideal_bytes_per_rank
  uint64_t replicated = 0;  // of fully replicated parameters
};

// Times of one step on rank 0 (cost/measure_time.h).
struct StepSeconds {
  double forward = 0, backward = 0;   // matmuls
  double waited = 0, overlapped = 0;  // collectives
  double total = 0;
};

// Step times of both manifests, set by a caller with a machine description. Does not affect ManifestDiff::same, because
// times follow from the manifests.
struct TimeDiff {
  bool is_requested = false;
  std::string machine;  // its name in the topology
  std::optional<StepSeconds> before, after;
};

// Costs of one step on rank 0, and the data that all ranks train in it.
struct StepTotals {
  std::optional<uint64_t> sent;      // bytes of collectives; absent if the manifest does not list them
  std::optional<uint64_t> memory;    // of a run: tensors at the peak; absent if the sum exceeds 64 bits
  std::optional<uint64_t> reserved;  // of a run: what the caching allocator holds
  std::optional<double> seconds;     // of a run; absent without a topology
  bool has_activations = false;      // `memory` includes them
  uint64_t batch = 0, sequence = 0;  // local sizes; 0 if unknown
  uint64_t micro_batches = 1;        // of `batch`
  uint64_t data_ranks = 1;           // ranks with different data
};

// Returns the tokens of a step on all data ranks: samples if the sequence length is unknown, data ranks if the batch is
// unknown too.
[[nodiscard]] inline uint64_t tokens_of(const StepTotals& step) {
  return std::max<uint64_t>(1, step.batch) * std::max<uint64_t>(1, step.sequence) * step.micro_batches *
         step.data_ranks;
}

// Costs of a step in both manifests, set by a caller. Does not affect ManifestDiff::same, like TimeDiff.
struct StepDiff {
  bool is_requested = false;  // true if a manifest lists the calls of a step
  std::string_view recipe;    // of the memory
  bool has_run = false;       // memory and seconds are those of `tpplan check --run`
  StepTotals before, after;
};

// All differences of two manifests, with views into both. The manifests must outlive it.
struct ManifestDiff {
  bool same = true;                   // true if only `inputs`, `step` and `time` may differ
  std::vector<FieldChange> inputs;    // "model_name", "model_sha256", "plan_sha256"; not counted in `same`
  std::vector<FieldChange> settings;  // "mesh", "uneven", "data", "step", "loss", ... (kSettings)
  std::vector<RuleChange> rules;      // rules that differ, in file order, removed ones last
  ListDiff parameters, buffers, modules;
  std::vector<CollectiveCount> collectives;  // by phase, kind and axis, including equal counts
  CallsDiff calls;                           // of a step, if the models have traced operations
  RankBytes bytes_before, bytes_after;
  StepDiff step;
  TimeDiff time;
};

}  // namespace tpplan
