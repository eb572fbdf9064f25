#include "suggest/smallest_examples.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/starred_path.h"
#include "ops/resize_graph.h"
#include "suggest/suggest_meshes.h"

namespace tpplan {
namespace {

constexpr uint64_t kMostWalked = 2'000'000;

struct SmallSearch {
  Checker& checker;
  TpPlan plan;
  WalkOptions walk;
  uint64_t remaining_operations = kMostWalked;
};

bool is_same_error(const Example& a, const Example& b) {
  return a.code == b.code && a.operation == b.operation && a.in_shapes == b.in_shapes &&
         starred_path(a.path) == starred_path(b.path);
}

// Returns the wanted diagnostic's example at the current sizes of plan and graph. Returns nullopt if it does not occur
// there, or if the limit of walked operations is reached.
std::optional<Example> found_at(SmallSearch& search, Checker& checker, const Example& wanted) {
  const ModelGraph& graph = checker.graph;
  const uint64_t operations = std::max<uint64_t>(graph.operations.nodes.size(), 1);
  if (search.remaining_operations < operations) return std::nullopt;
  search.remaining_operations -= operations;
  Diagnostics unheard;
  const CheckResult j = check_plan(checker, search.plan, unheard, Phase::Operations, search.walk);
  const auto& examples = j.forecast.examples;
  const auto same = std::ranges::find_if(examples, [&](const Example& e) { return is_same_error(e, wanted); });
  if (same == examples.end()) return std::nullopt;
  Example example = *same;
  example.mesh = to_text(search.plan.mesh);
  example.batch = graph.operations.batch;
  example.sequence = graph.operations.sequence;
  return example;
}

// Returns candidate steps, those with the fewest tokens first. Batches are 1, 2 and the traced one; sequence lengths
// are 2^a and 3 * 2^a below the traced one, and the traced one.
std::vector<StepSizes> steps_up_to(const OpGraph& traced) {
  std::vector<int64_t> lengths{1, traced.sequence};
  for (int64_t two = 2; two < traced.sequence; two *= 2) {
    lengths.push_back(two);
    if (two / 2 * 3 < traced.sequence) lengths.push_back(two / 2 * 3);
  }
  std::vector<StepSizes> steps;
  for (int64_t batch = 1; batch <= traced.batch; batch = batch < 2 ? 2 : std::max(batch + 1, traced.batch)) {
    for (const int64_t length : lengths) steps.push_back({.batch = batch, .sequence = length});
  }
  std::ranges::stable_sort(steps, {},
                           [](const StepSizes& step) { return std::pair(step.batch * step.sequence, step.batch); });
  return steps;
}

std::optional<Example> found_at_a_step(SmallSearch& search, const Example& wanted) {
  const OpGraph& traced = search.checker.graph.operations;
  if (traced.batch == 0 || traced.sequence == 0) return std::nullopt;
  ModelGraph other = search.checker.graph;
  for (const StepSizes& step : steps_up_to(traced)) {
    other.operations = traced;
    Diagnostics unheard;
    if (!resize_graph(other.operations, other.file, step, unheard)) continue;
    Checker checker = make_checker(other);
    if (auto example = found_at(search, checker, wanted)) return example;
  }
  return std::nullopt;
}

std::vector<int64_t> sizes_up_to(int64_t plan_size) {
  std::vector<int64_t> sizes;
  for (int64_t size = 2; size < plan_size; ++size) {
    int64_t rest = size;
    while (rest % 2 == 0) rest /= 2;
    while (rest % 3 == 0) rest /= 3;
    if (rest == 1) sizes.push_back(size);
  }
  sizes.push_back(plan_size);
  return sizes;
}

Example smallest(SmallSearch& search, const TpPlan& plan, AxisId axis, const Example& of_plan) {
  for (const int64_t size : sizes_up_to(std::min<int64_t>(plan.mesh.axes[axis].size, 64))) {
    search.plan = plan;
    search.plan.mesh.axes[axis].size = size;
    auto example = found_at(search, search.checker, of_plan);
    if (!example) continue;
    if (auto smaller = found_at_a_step(search, of_plan)) return *smaller;
    return *example;
  }
  return of_plan;
}

}  // namespace

std::vector<Example> smallest_examples(Checker& checker, const TpPlan& plan, const WalkOptions& walk,
                                       std::vector<Example> examples) {
  const AxisId axis = main_axis(plan);
  SmallSearch search{.checker = checker, .plan = plan, .walk = walk};
  for (Example& example : examples) {
    if (!example.in_shapes) continue;
    example.mesh = to_text(plan.mesh);
    example.batch = checker.graph.operations.batch;
    example.sequence = checker.graph.operations.sequence;
    if (axis != kNoAxis) example = smallest(search, plan, axis, example);
  }
  return examples;
}

}  // namespace tpplan
