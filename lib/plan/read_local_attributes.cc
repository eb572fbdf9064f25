#include <spdlog/fmt/fmt.h>

#include "plan/plan_sections.h"

namespace tpplan {

// The attributes are numbers per rank only if ranks divide them by one axis, so the plan needs one.
void read_local_attributes(PlanReader& reader, YamlId id) {
  constexpr std::string_view form = "write a list of attributes for each module: `\"*.attention\": [num_heads]`";
  for_each_entry(
      reader, id, "`local_attributes`",
      [&](YamlId key, YamlId value) {
        if (!check_key_length(reader, key) || !expect(reader, value, YamlKind::Sequence, "a list of attributes", form))
          return;
        LocalAttributes& entry = reader.plan.local_attributes.emplace_back();
        entry.pattern = {node_at(reader, key).text, span_at(reader, key)};
        for (const YamlId item : node_at(reader, value).children) {
          if (expect_name(reader, item, "an attribute") && check_key_length(reader, item))
            entry.names.push_back({node_at(reader, item).text, span_at(reader, item)});
        }
      },
      form);
  if (reader.axis == kNoAxis && !reader.axis_is_wrong)
    report_error(
        reader, Code::MissingPlanField, id,
        fmt::format("`local_attributes` divides by an axis, but the mesh has no axis named {}", reader.axis_name),
        "write `axis:` with one of the axes of the mesh");
}

}  // namespace tpplan
