#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>

#include "base/text.h"
#include "plan/plan_sections.h"

namespace tpplan {
namespace {

// Along a data axis ranks have different batches, so a style that shards layers over it would combine shards of
// different batches. Experts can be sharded over it.
// @pre rules have been read
void check_styles_elsewhere(PlanReader& reader, YamlId id, AxisId axis) {
  const auto shards_over_axis = [axis](const PlanRule& rule) {
    return rule.style != nullptr && rule.axis == axis && !rule.style->is_for_experts &&
           (!rule.style->shard_dim.empty() || rule.style->input.used || rule.style->output.used);
  };
  const std::vector<PlanRule>& rules = reader.plan.rules;
  const auto first = std::find_if(rules.begin(), rules.end(), shards_over_axis);
  if (first == rules.end()) return;
  const auto count = static_cast<uint64_t>(std::count_if(first, rules.end(), shards_over_axis));
  Diagnostic& d = report_error(
      reader, Code::StyleOverDataAxis, id,
      fmt::format("axis `{}` shards the batch, but {} over it too, which would mix different batches",
                  node_at(reader, id).text, count == 1 ? "a style shards" : fmt::format("{} styles shard", count)),
      fmt::format("write another axis here, or another `axis` for the styles: {}", axes_help(reader)));
  d.notes.push_back(
      {fmt::format("the first of these rules is `{}`, {}", first->key, first->style->name), first->key_span});
}

// Returns the correct form for `data: [dp]` and `data: dp`, which lack the key `axes`.
std::string with_axes(const PlanReader& reader, YamlId id) {
  const YamlNode& node = node_at(reader, id);
  std::string axes = node.kind == YamlKind::Scalar ? node.text : "";
  for (const YamlId child : node.children) {
    const std::string& name = node_at(reader, child).text;
    if (!name.empty()) axes += (axes.empty() ? "" : ", ") + name;
  }
  return fmt::format("name the axes that shard the batch: `data: {{axes: [{}]}}`", axes.empty() ? "fsdp" : axes);
}

}  // namespace

void read_data(PlanReader& reader, YamlId id) {
  if (!expect(reader, id, YamlKind::Map, "`data`")) {
    reader.diagnostics.list.back().help = with_axes(reader, id);
    return;
  }
  static constexpr std::string_view known[] = {"axes", "dim", "attention"};
  DataSharding data{.axes = {}, .dim_span = span_at(reader, id)};
  const size_t faults = reader.diagnostics.list.size();
  for_each_entry(reader, id, "`data`", [&](YamlId key, YamlId value) {
    const std::string& name = node_at(reader, key).text;
    if (name == "axes") {
      for (const YamlId item : items_of(reader, value)) {
        AxisId axis = kNoAxis;
        if (!read_axis(reader, item, "a data axis", axis)) continue;
        check_styles_elsewhere(reader, item, axis);
        if (std::find(data.axes.begin(), data.axes.end(), axis) == data.axes.end())
          data.axes.push_back(axis);
        else
          report_error(reader, Code::AxisUsedTwice, item,
                       fmt::format("axis `{}` occurs twice in `data.axes`", node_at(reader, item).text));
      }
    } else if (name == "dim") {
      int64_t dim = 0;
      data.dim_span = span_at(reader, value);
      if (read_integer(reader, value, "`data.dim`", 0, dim, Code::InvalidPlanValue, 63))
        data.dim = static_cast<int>(dim);
    } else if (name == "attention") {
      size_t index = 0;
      if (read_choice(reader, value, "`data.attention`", std::span(kSequenceAttentionNames).subspan(1), index))
        data.attention = static_cast<SequenceAttention>(index + 1);
    } else {
      report_unknown_key(reader, key, "`data`", known);
    }
  });
  if (data.axes.empty() && faults == reader.diagnostics.list.size()) {
    report_error(reader, Code::SettingWithoutEffect, id, "`data` has no effect without axes",
                 "name the axes that shard the batch: `axes: [fsdp]`");
  }
  reader.plan.data = std::move(data);
}

}  // namespace tpplan
