#include "plan/plan_sections.h"

namespace tpplan {

void read_fsdp(PlanReader& reader, YamlId id) {
  static constexpr std::string_view known[] = {"axis", "min_weight_size", "patterns", "units", "policy"};
  FsdpSettings fsdp;
  fsdp.span = span_at(reader, id);
  bool has_axis = false;
  const bool is_map = for_each_entry(reader, id, "`fsdp`", [&](YamlId key, YamlId value) {
    const std::string& name = node_at(reader, key).text;
    size_t policy = 0;
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
      if (read_choice(reader, value, "`fsdp.policy`", kFsdpPolicyNames, policy))
        fsdp.policy = static_cast<FsdpPolicy>(policy);
    } else {
      unknown_key(reader, key, "`fsdp`", known);
    }
  });
  if (is_map && !has_axis) {
    fsdp.axis = find_axis(reader.plan.mesh, "fsdp");
    if (fsdp.axis == kNoAxis) {
      fault(reader, Code::TP3002, id, "`fsdp` names no `axis`, and the mesh has none called fsdp", axes_help(reader));
    }
  }
  reader.plan.fsdp = std::move(fsdp);
}

}  // namespace tpplan
