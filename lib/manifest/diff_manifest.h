// What is different between two manifests: what moved, what it costs, and once for each way in which it moved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/diff_calls.h"
#include "manifest/manifest.h"

namespace tpplan {

// One member that differs. That a renamed rule has another name is said of the rule, and is none. `before` and `after`
// are words for people, in which names stand as they are (escape them); the two are never equal. `_json` is the value
// as a manifest writes it. What was added has only the after side, what was removed only the before side; the other one
// is empty.
struct FieldChange {
  std::string_view field;  // "spec", "local_shapes", "rule", "mesh", ...
  std::string before, after;
  std::string before_json, after_json;
};

// Paths that differ in layer numbers only.
struct PathFamily {
  std::string pattern;                  // path_pattern of all of them
  std::vector<std::string_view> paths;  // in file order, views into the manifest
  uint64_t of = 0;                      // how many paths with this pattern the manifest has, changed or not
};

// Things that changed in the same way: one cause. For what was added or removed `fields` is all that the manifest says
// of it.
struct ChangeGroup {
  std::vector<FieldChange> fields;
  std::vector<PathFamily> families;  // in file order of their first path, which is the example
  uint64_t count = 0;                // of all families
};

// Parameters, buffers or modules. Groups are in file order of their first path.
struct ListDiff {
  uint64_t before = 0, after = 0;  // how many there are
  uint64_t added_count = 0, removed_count = 0, changed_count = 0;
  std::vector<ChangeGroup> added, removed, changed;
};

// Rules are one rule when block and key are equal, or when they decide over the same things under two names
// (manifest/diff_rules.h). Absent: the manifest does not have it.
struct RuleChange {
  const ManifestRule* rule = nullptr;
  const ManifestRule* renamed_from = nullptr;  // of the old manifest; nullptr: it is called so there, too
  std::optional<uint64_t> before, after;       // what it matches
};

enum class CommPhase : uint8_t { Forward, Backward, Gather, Gradient };

// How often a collective stands in the manifests: forward and backward once for each value at a module's boundary,
// gather and gradient once for each tensor that is gathered for its module, or whose gradient is reduced. Slices move
// nothing and do not count. `bytes` are the payload on rank 0 of all these tensors; 0 of values, whose sizes a manifest
// does not know.
struct CollectiveCount {
  CommPhase phase{};
  CollectiveKind kind{};
  std::string axis;
  uint64_t before = 0, after = 0;
  uint64_t bytes_before = 0, bytes_after = 0;
};

struct RankBytes {
  uint64_t ranks = 1;
  std::optional<uint64_t> min;  // absent: the manifest does not list its ranks
  uint64_t max = 0;
  uint64_t total = 0;       // of the whole model
  uint64_t ideal = 0;       // total / ranks, rounded up
  uint64_t replicated = 0;  // of parameters that every rank holds whole
};

// Of a step of rank 0 (measure/measure_time.h).
struct StepSeconds {
  double forward = 0, backward = 0;   // products
  double waited = 0, overlapped = 0;  // collectives
  double total = 0;
};

// Filled in by who knows machines. It is no difference of its own: what a manifest says decides over it.
struct TimeDiff {
  bool is_asked = false;
  std::string machine;  // what the topology calls it
  std::optional<StepSeconds> before, after;
};

// Holds views into both manifests, which outlive it.
struct ManifestDiff {
  bool same = true;                 // nothing below but `inputs` differs
  std::vector<FieldChange> inputs;  // "model_name", "model_sha256", "plan_sha256": where it came from is no difference
  std::vector<FieldChange> settings;  // "mesh", "uneven", "data", "fsdp", "tied", "remat"
  std::vector<RuleChange> rules;      // that differ, in file order, those that are gone at the end
  ListDiff parameters, buffers, modules;
  std::vector<CollectiveCount> collectives;  // all there are, equal counts too: by phase, kind and axis
  CallsDiff calls;                           // of a step, where the models have operations
  RankBytes bytes_before, bytes_after;
  TimeDiff time;
};

// Compares what two manifests mean. Names of axes and rules are compared, never their numbers; the order of parameters,
// modules and rules, the lines of rules, the inputs' hashes and the tool's version are no difference.
[[nodiscard]] ManifestDiff diff_manifests(const Manifest& old_manifest, const Manifest& new_manifest);

// "forward", "backward", "gather", "gradient".
[[nodiscard]] std::string_view to_text(CommPhase phase);

}  // namespace tpplan
