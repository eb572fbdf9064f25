#include "suggest/fitting_lengths.h"

#include <set>
#include <tuple>

#include "judge/judge.h"
#include "ops/resize_graph.h"

namespace tpplan {
namespace {

// True if the plan is correct for the traced step at another sequence length. Replaces the operations of `graph`, a
// copy of the model.
bool is_right_at(ModelGraph& graph, const OpGraph& traced, const TpPlan& plan, const WalkOptions& walk,
                 int64_t sequence) {
  graph.operations = traced;
  Diagnostics trial;
  if (!resize_graph(graph.operations, graph.file, {.batch = 0, .sequence = sequence}, trial)) return false;
  Checker checker = make_checker(graph);  // of the resized graph
  std::ignore = check_plan(checker, plan, trial, Phase::Operations, walk);
  return !has_errors(trial);
}

}  // namespace

std::vector<int64_t> fitting_lengths(const ModelGraph& graph, const TpPlan& plan, const WalkOptions& walk,
                                     int64_t ranks) {
  const int64_t traced_length = graph.operations.sequence;
  std::set<int64_t> lengths;
  for (const int64_t divisor : {ranks, 2 * ranks}) {
    lengths.insert((traced_length - 1) / divisor * divisor);
    lengths.insert((traced_length / divisor + 1) * divisor);
  }
  ModelGraph other = graph;
  std::vector<int64_t> fitting;
  for (const int64_t length : lengths) {
    const bool may_be = traced_length > 0 && length > 0 && length <= kMaxStepSize;
    if (may_be && is_right_at(other, graph.operations, plan, walk, length)) fitting.push_back(length);
  }
  return fitting;
}

}  // namespace tpplan
