#include <spdlog/fmt/fmt.h>

#include "plan/plan_sections.h"

namespace tpplan {
namespace {

void read_policy(PlanReader& reader, YamlId id, FsdpSettings& fsdp) {
  std::vector<std::string_view> names;
  for (const FsdpPolicyRow& policy : fsdp_policy_table()) names.push_back(policy.name);
  size_t choice = 0;
  if (read_choice(reader, id, "`fsdp.policy`", names, choice)) fsdp.policy = &fsdp_policy_table()[choice];
}

}  // namespace

void read_fsdp(PlanReader& reader, YamlId id) {
  const std::vector<MeshAxis>& axes = reader.plan.mesh.axes;
  const std::string form = fmt::format("name the axis that FSDP shards over: `fsdp: {{axis: {}}}`",
                                       axes.empty() ? "fsdp" : axes.front().name);
  static constexpr std::string_view known[] = {"axis", "min_weight_size", "patterns", "units", "policy"};
  FsdpSettings fsdp;
  fsdp.span = span_at(reader, id);
  bool has_axis = false;
  const bool is_map = for_each_entry(
      reader, id, "`fsdp`",
      [&](YamlId key, YamlId value) {
        const std::string& name = node_at(reader, key).text;
        if (name == "axis") {
          has_axis = true;
          fsdp.span = span_at(reader, value);
          read_axis(reader, value, "`fsdp.axis`", fsdp.axis);
        } else if (name == "min_weight_size") {
          read_integer(reader, value, "`fsdp.min_weight_size`", 0, fsdp.min_weight_size);
        } else if (name == "patterns") {
          read_patterns(reader, value, "`fsdp.patterns`", fsdp.patterns);
        } else if (name == "units") {
          read_patterns(reader, value, "`fsdp.units`", fsdp.units);
        } else if (name == "policy") {
          read_policy(reader, value, fsdp);
        } else {
          has_axis = has_axis || name == "axes";  // a misspelt key is not reported as missing, too
          report_unknown_key(reader, key, "`fsdp`", known);
        }
      },
      form);
  if (is_map && !has_axis) {
    fsdp.axis = find_axis(reader.plan.mesh, "fsdp");
    if (fsdp.axis == kNoAxis) {
      report_error(reader, Code::MissingPlanField, id, "`fsdp` has no `axis`, and the mesh has no axis named fsdp",
                   axes_help(reader));
    }
  }
  reader.plan.fsdp = std::move(fsdp);
}

}  // namespace tpplan
