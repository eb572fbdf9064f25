// The complete result of checking a plan in memory, for comparison with the result of another method.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

#include "judge/judge.h"
#include "plan/read_plan.h"

namespace tpplan {

struct Seen {
  CheckResult plan_result;
  Diagnostics found;
};

inline Seen see(Checker& checker, const TpPlan& plan, const WalkOptions& walk) {
  Seen seen;
  seen.plan_result = check_plan(checker, plan, seen.found, Phase::Manifest, walk);
  return seen;
}

inline bool same_trace(const StepTrace& a, const StepTrace& b) {
  const auto same_value = [](const TracedValue& x, const TracedValue& y) {
    return x.value == y.value && x.shape == y.shape && x.from == y.from && x.param == y.param && x.dtype == y.dtype &&
           x.is_leaf == y.is_leaf && x.requires_grad == y.requires_grad && x.memory == y.memory;
  };
  const auto same_op = [](const TracedOp& x, const TracedOp& y) {
    return x.kind == y.kind && x.node == y.node && x.module == y.module && x.in_begin == y.in_begin &&
           x.in_end == y.in_end && x.out_begin == y.out_begin && x.out_end == y.out_end;
  };
  const auto same_shape = [](const GraphShape& x, const GraphShape& y) {
    return x.begin == y.begin && x.ndim == y.ndim;
  };
  return a.is_there == b.is_there && a.sizes == b.sizes && a.slots == b.slots && a.outputs == b.outputs &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same_value) &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), same_op) &&
         std::equal(a.shapes.begin(), a.shapes.end(), b.shapes.begin(), b.shapes.end(), same_shape);
}

inline bool same_findings(const Diagnostics& a, const Diagnostics& b) {
  return std::equal(a.list.begin(), a.list.end(), b.list.begin(), b.list.end(),
                    [](const Diagnostic& x, const Diagnostic& y) {
                      return x.code == y.code && x.message == y.message && x.count == y.count && x.fails == y.fails &&
                             x.help == y.help && x.label == y.label && x.span.offset == y.span.offset;
                    });
}

inline bool same_matches(const MatchTable& a, const MatchTable& b) {
  const auto same_param = [](const ParamMatch& x, const ParamMatch& y) {
    return x.rule == y.rule && x.by_module == y.by_module && x.dims == y.dims;
  };
  const auto same_boundary = [](const BoundaryMatch& x, const BoundaryMatch& y) {
    return x.module == y.module && x.rule == y.rule;
  };
  const auto same_rule = [](const RuleMatches& x, const RuleMatches& y) {
    return x.parameters == y.parameters && x.modules == y.modules && x.governed == y.governed &&
           x.clashes == y.clashes && x.addressed == y.addressed;
  };
  return a.dim_rules == b.dim_rules &&
         std::equal(a.params.begin(), a.params.end(), b.params.begin(), b.params.end(), same_param) &&
         std::equal(a.boundaries.begin(), a.boundaries.end(), b.boundaries.begin(), b.boundaries.end(),
                    same_boundary) &&
         std::equal(a.rules.begin(), a.rules.end(), b.rules.begin(), b.rules.end(), same_rule);
}

// Returns the first difference; empty if there is none.
inline std::string difference(const Seen& a, const Seen& b) {
  const Forecast &x = a.plan_result.forecast, &y = b.plan_result.forecast;
  if (a.plan_result.reached != b.plan_result.reached) return "the last phase";
  if (!same_matches(a.plan_result.matches, b.plan_result.matches)) return "matches";
  if (x.limit != y.limit || x.broken_at != y.broken_at || x.unlisted != y.unlisted) return "how far the walk went";
  if (x.calls != y.calls) return "calls";
  if (!same_trace(x.trace, y.trace)) return "the trace";
  if (!(a.plan_result.costs == b.plan_result.costs)) return "costs";
  if (!same_findings(a.found, b.found)) return "findings";
  return {};
}

inline MeshSizes sizes_of(std::string text) {
  MeshSizes sizes;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size()), equal = text.find('=', at);
    sizes.emplace_back(text.substr(at, equal - at), std::atoi(text.c_str() + equal + 1));
    at = end + 1;
  }
  return sizes;
}

}  // namespace tpplan
