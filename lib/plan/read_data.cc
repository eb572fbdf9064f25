#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "plan/plan_sections.h"

namespace tpplan {
namespace {

// Along a data axis every rank has a batch of its own: a style that cuts layers over it would join pieces of other
// batches. Experts may be spread over it.
// @pre rules have been read
void check_styles_elsewhere(PlanReader& reader, YamlId id, AxisId axis) {
  const auto is_cut = [axis](const PlanRule& rule) {
    return rule.style != nullptr && rule.axis == axis && !rule.style->is_for_experts &&
           (!rule.style->cut_dim.empty() || rule.style->input.used || rule.style->output.used);
  };
  const std::vector<PlanRule>& rules = reader.plan.rules;
  const auto first = std::find_if(rules.begin(), rules.end(), is_cut);
  if (first == rules.end()) return;
  const auto count = static_cast<uint64_t>(std::count_if(first, rules.end(), is_cut));
  Diagnostic& d = fault(reader, Code::TP3020, id,
                        fmt::format("axis `{}` cuts the batch, and {} over it too", node_at(reader, id).text,
                                    count == 1 ? "a style goes" : fmt::format("{} styles go", count)),
                        fmt::format("name another axis here, or another `axis` for the styles: {}", axes_help(reader)));
  d.notes.push_back({fmt::format("the first of them: `{}`, {}", first->key, first->style->name), first->key_span});
}

// `data: [dp]` and `data: dp`: the axes without their key. How it is written with it.
std::string with_axes(const PlanReader& reader, YamlId id) {
  const YamlNode& node = node_at(reader, id);
  std::string axes = node.kind == YamlKind::Scalar ? node.text : "";
  for (const YamlId child : node.children) {
    const std::string& name = node_at(reader, child).text;
    if (!name.empty()) axes += (axes.empty() ? "" : ", ") + name;
  }
  return fmt::format("name the axes that cut the batch: `data: {{axes: [{}]}}`", axes.empty() ? "fsdp" : axes);
}

}  // namespace

void read_data(PlanReader& reader, YamlId id) {
  if (!expect(reader, id, YamlKind::Map, "`data`")) {
    reader.diagnostics.list.back().help = with_axes(reader, id);
    return;
  }
  static constexpr std::string_view known[] = {"axes", "dim"};
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
          fault(reader, Code::TP5004, item,
                fmt::format("axis `{}` stands twice in `data.axes`", node_at(reader, item).text));
      }
    } else if (name == "dim") {
      int64_t dim = 0;
      data.dim_span = span_at(reader, value);
      if (read_integer(reader, value, "`data.dim`", 0, dim, Code::TP3003, 63)) data.dim = static_cast<int>(dim);
    } else {
      unknown_key(reader, key, "`data`", known);
    }
  });
  if (data.axes.empty() && faults == reader.diagnostics.list.size()) {
    fault(reader, Code::TP3018, id, "`data` changes nothing without axes",
          "name the axes that cut the batch: `axes: [fsdp]`");
  }
  reader.plan.data = std::move(data);
}

}  // namespace tpplan
