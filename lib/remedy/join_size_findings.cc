#include "remedy/join_size_findings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "diagnostics/remove_findings.h"
#include "judge.h"
#include "remedy/suggest_meshes.h"

namespace tpplan {
namespace {

constexpr int64_t kSizes[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
constexpr size_t kMostParams = 40'000;  // tens of milliseconds for each size
constexpr size_t kShown = 4;

bool is_of_sizes(const Diagnostic& d) {
  static constexpr Code codes[] = {Code::TP5001, Code::TP5003, Code::TP5005, Code::TP5006, Code::TP5007, Code::TP5018};
  return d.severity == Severity::Error && std::ranges::find(codes, d.code) != std::end(codes);
}

size_t count_of_sizes(const Diagnostics& diagnostics) {
  return static_cast<size_t>(std::ranges::count_if(diagnostics.list, is_of_sizes));
}

std::vector<std::string> fitting_sizes(const ModelGraph& graph, const TpPlan& plan, AxisId axis) {
  std::vector<std::string> sizes;
  TpPlan other = plan;
  for (const int64_t size : kSizes) {
    if (size == plan.mesh.axes[axis].size) continue;
    other.mesh.axes[axis].size = size;
    Diagnostics unheard;
    std::ignore = judge(graph, other, unheard, Phase::Shardings, {});
    if (count_of_sizes(unheard) == 0) sizes.push_back(std::to_string(size));
  }
  return sizes;
}

// "2, 4 or 8"
std::string alternatives(std::vector<std::string> words) {
  const std::string last = words.back();
  words.pop_back();
  return words.empty() ? last : fmt::format("{} or {}", join(words, ", "), last);
}

}  // namespace

void join_size_findings(const ModelGraph& graph, const TpPlan& plan, Diagnostics& diagnostics) {
  const AxisId axis = main_axis(plan);
  if (count_of_sizes(diagnostics) < 2 || axis == kNoAxis || graph.params.size() > kMostParams) return;
  std::vector<std::string> sizes = fitting_sizes(graph, plan, axis);
  if (sizes.empty()) return;
  const MeshAxis& cut = plan.mesh.axes[axis];
  Diagnostic joined;
  joined.span = axis < plan.axis_spans.size() ? plan.axis_spans[axis] : Span{};
  size_t found = 0;
  for (const Diagnostic& d : diagnostics.list) {
    if (!is_of_sizes(d)) continue;
    if (found++ == 0) joined.code = d.code;
    if (found <= kShown) joined.notes.push_back({d.message, d.span});
  }
  if (found > kShown) joined.notes.push_back({fmt::format("and {} more of the same cause", found - kShown), {}});
  joined.message = fmt::format("the model does not divide by `{}` of {}, in {} places", cut.name, cut.size, found);
  joined.help = fmt::format("`{}` of {} fits the whole plan", cut.name, alternatives(std::move(sizes)));
  remove_findings(diagnostics, is_of_sizes);
  diagnostics.list.push_back(std::move(joined));
}

}  // namespace tpplan
