#include "resolve/infer/check_coverage.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "model/attention_names.h"
#include "model/module_kinds.h"
#include "model/name_subject.h"
#include "resolve/infer/axis_use.h"
#include "resolve/match/decide_dims.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

void report_unmatched(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table,
                      Diagnostics& diagnostics) {
  const bool by_names = plan.dialect->targets == KeyTargets::Dims;
  uint64_t unnamed = 0;  // parameters without dim names, if rules are keyed by them
  uint64_t count = 0, bytes = 0, all_bytes = 0, largest_bytes = 0;
  ParamId largest = 0;
  for (ParamId id = 0; id < table.params.size(); ++id) {
    const uint64_t elements = elements_of(shape_of(graph, graph.params[id]));
    const uint64_t size = byte_size(graph.params[id].dtype, elements);
    all_bytes += size;
    if (table.params[id].rule != kNoRule || elements <= kLargeParameter ||
        !is_fully_replicated(sharding_of(table, id).spec, plan.mesh))
      continue;
    ++count;
    unnamed += by_names && logical_axes_of(graph, graph.params[id]).empty();
    bytes += size;
    if (size > largest_bytes) {
      largest_bytes = size;
      largest = id;
    }
  }
  if (count == 0 || device_count(plan.mesh) == 1) return;
  Diagnostic* d = report(diagnostics, Code::UnmatchedParameters, plan.rules_span);
  if (d == nullptr) return;
  const std::string shape = shape_text(shape_of(graph, graph.params[largest]));
  name_subject(*d, graph, graph.params[largest]);
  d->message = fmt::format("{} of more than {} elements {} replicated on every rank: {}, {:.1f} % of the model",
                           counted(count, "parameter"), kLargeParameter,
                           count == 1 ? "matches no rule and stays" : "match no rule and stay", human_bytes(bytes),
                           100.0 * static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(all_bytes, 1)));
  d->notes.push_back({fmt::format("the largest is `{}` {}, {}", path_of(graph, graph.params[largest]), shape,
                                  human_bytes(largest_bytes)),
                      span_of(graph, graph.params[largest])});
  const std::string_view replicate_style = plan.dialect->replicate_style;
  if (unnamed > 0)
    d->notes.push_back({fmt::format("{} of them {} no `logical_axes` in the model, which the rules match", unnamed,
                                    unnamed == 1 ? "has" : "have"),
                        {}});
  d->help = replicate_style.empty() ? "add a rule for them, or suppress this warning with a reason"
                                    : fmt::format("add a rule for them, `{}` if this is intended", replicate_style);
}

void report_unused_axes(const TpPlan& plan, const MatchTable& matches, const ShardingTable& table,
                        Diagnostics& diagnostics) {
  const std::vector<bool> used = used_axes(plan, matches, table);
  for (size_t axis = 0; axis < used.size(); ++axis) {
    if (used[axis] || plan.mesh.axes[axis].size == 1) continue;
    const Span place = axis < plan.axis_spans.size() ? plan.axis_spans[axis] : Span{};
    Diagnostic& d = report_message(diagnostics, Code::UnusedAxis, place,
                                   fmt::format("mesh axis `{}` ({}) is unused: all its ranks have the same tensors",
                                               axis_name(plan.mesh, axis), plan.mesh.axes[axis].size));
    d.help = "shard a parameter over it, name it in `data.axes`, or remove it";
  }
}

}  // namespace

void check_coverage(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, const ShardingTable& table,
                    Diagnostics& diagnostics) {
  report_unmatched(plan, graph, table, diagnostics);
  report_unused_axes(plan, matches, table, diagnostics);
}

}  // namespace tpplan
