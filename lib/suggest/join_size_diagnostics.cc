#include "suggest/join_size_diagnostics.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "diagnostics/remove_diagnostics.h"
#include "suggest/suggest_meshes.h"

namespace tpplan {
namespace {

constexpr int64_t kSizes[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
constexpr size_t kMostParams = 40'000;  // a check takes tens of milliseconds per size
constexpr size_t kShown = 4;

bool is_of_sizes(const Diagnostic& d) { return d.severity == Severity::Error && kind_of(d.code).is_size; }

size_t count_of_sizes(const Diagnostics& diagnostics) {
  return static_cast<size_t>(std::ranges::count_if(diagnostics.list, is_of_sizes));
}

std::vector<std::string> fitting_sizes(Checker& checker, const TpPlan& plan, AxisId axis, const WalkOptions& walk) {
  std::vector<std::string> sizes;
  TpPlan other = plan;
  for (const int64_t size : kSizes) {
    if (size == plan.mesh.axes[axis].size) continue;
    other.mesh.axes[axis].size = size;
    Diagnostics unheard;
    std::ignore = check_plan(checker, other, unheard, Phase::Operations, walk);
    if (!has_errors(unheard)) sizes.push_back(std::to_string(size));
  }
  return sizes;
}

// Returns a list of alternatives: "2, 4 or 8".
std::string alternatives(std::vector<std::string> words) {
  const std::string last = words.back();
  words.pop_back();
  return words.empty() ? last : fmt::format("{} or {}", join(words, ", "), last);
}

}  // namespace

void join_size_diagnostics(Checker& checker, const TpPlan& plan, const WalkOptions& walk, Diagnostics& diagnostics) {
  const AxisId axis = main_axis(plan);
  if (count_of_sizes(diagnostics) < 2 || axis == kNoAxis || checker.graph.params.size() > kMostParams) return;
  std::vector<std::string> sizes = fitting_sizes(checker, plan, axis, walk);
  if (sizes.empty()) return;
  const MeshAxis& mesh_axis = plan.mesh.axes[axis];
  Diagnostic joined;
  joined.span = axis < plan.axis_spans.size() ? plan.axis_spans[axis] : Span{};
  size_t found = 0;
  for (const Diagnostic& d : diagnostics.list) {
    if (!is_of_sizes(d)) continue;
    if (found++ == 0) joined.code = d.code;
    if (found <= kShown) joined.notes.push_back({d.message, d.span});
  }
  if (found > kShown) joined.notes.push_back({fmt::format("and {} more with the same cause", found - kShown), {}});
  joined.message =
      fmt::format("the model is not divisible by `{}` of {}, in {} places", mesh_axis.name, mesh_axis.size, found);
  joined.help = fmt::format("set `{}` to {} to fit the whole plan", mesh_axis.name, alternatives(std::move(sizes)));
  remove_diagnostics(diagnostics, is_of_sizes);
  diagnostics.list.push_back(std::move(joined));
}

}  // namespace tpplan
