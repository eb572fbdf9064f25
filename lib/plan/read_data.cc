#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "plan/plan_sections.h"

namespace tpplan {

void read_data(PlanReader& reader, YamlId id) {
  static constexpr std::string_view known[] = {"axes", "dim"};
  DataSharding data;
  const size_t faults = reader.diagnostics.list.size();
  for_each_entry(reader, id, "`data`", [&](YamlId key, YamlId value) {
    const std::string& name = node_at(reader, key).text;
    if (name == "axes") {
      for (const YamlId item : items_of(reader, value)) {
        AxisId axis = kNoAxis;
        if (!read_axis(reader, item, "a data axis", axis)) continue;
        if (std::find(data.axes.begin(), data.axes.end(), axis) == data.axes.end())
          data.axes.push_back(axis);
        else
          fault(reader, Code::TP5004, item,
                fmt::format("axis `{}` stands twice in `data.axes`", node_at(reader, item).text));
      }
    } else if (name == "dim") {
      int64_t dim = 0;
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
