#include "plan/tp_plan.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "sharding/partition_spec.h"

namespace tpplan {

std::string treatment_text(const PlanRule& rule, const Mesh& mesh) {
  if (rule.style != nullptr) return std::string(rule.style->name);
  if (!rule.spec) return "?";
  const auto entries = [&](const std::vector<DimAxes>& part) {
    const std::string text = to_text(part, mesh);  // P(...)
    return text.substr(2, text.size() - 3);
  };
  if (!rule.spec->has_ellipsis) return to_text(rule.spec->before, mesh);
  std::vector<std::string> parts;
  if (!rule.spec->before.empty()) parts.push_back(entries(rule.spec->before));
  parts.push_back("...");
  if (!rule.spec->after.empty()) parts.push_back(entries(rule.spec->after));
  return "P(" + join(parts, ", ") + ")";
}

bool same_treatment(const PlanRule& a, const PlanRule& b) {
  return a.style == b.style && a.spec == b.spec && a.axis == b.axis && a.contiguous == b.contiguous &&
         a.options == b.options;
}

namespace {

void dump_patterns(std::string& out, std::string_view name, const std::vector<ModulePattern>& patterns) {
  for (const ModulePattern& pattern : patterns) out += fmt::format("{} {}\n", name, pattern.text);
}

std::string layouts_text(const std::vector<Layout>& layouts) {
  std::vector<std::string> parts;
  for (const Layout& layout : layouts) parts.push_back(layout ? to_text(*layout) : "null");
  return "[" + join(parts, ", ") + "]";
}

void dump_options(std::string& out, const RuleOptions& options) {
  const std::pair<std::string_view, const std::optional<std::vector<Layout>>*> lists[] = {
      {"input_layouts", &options.input_layouts},
      {"desired_input_layouts", &options.desired_input_layouts},
      {"output_layouts", &options.output_layouts},
      {"desired_output_layouts", &options.desired_output_layouts}};
  for (const auto& [name, list] : lists) {
    if (*list) out += fmt::format(" {}={}", name, layouts_text(**list));
  }
  const std::pair<std::string_view, const std::optional<KwargLayouts>*> maps[] = {
      {"input_kwarg_layouts", &options.input_kwarg_layouts},
      {"desired_input_kwarg_layouts", &options.desired_input_kwarg_layouts}};
  for (const auto& [name, map] : maps) {
    if (!*map) continue;
    std::vector<std::string> parts;
    for (const auto& [key, layout] : **map)
      parts.push_back(fmt::format("{}: {}", key, layout ? to_text(*layout) : "null"));
    out += fmt::format(" {}={{{}}}", name, join(parts, ", "));
  }
  if (options.sequence_dim) out += fmt::format(" sequence_dim={}", *options.sequence_dim);
  if (options.use_local_input) out += fmt::format(" use_local_input={}", *options.use_local_input);
  if (options.use_local_output) out += fmt::format(" use_local_output={}", *options.use_local_output);
}

}  // namespace

std::string dump(const TpPlan& plan) {
  std::string out = fmt::format("dialect {}\nmesh {}\nuneven {}\n", plan.dialect->name, to_text(plan.mesh),
                                kUnevenPolicyNames[static_cast<size_t>(plan.uneven)]);
  for (const PlanRule& rule : plan.rules) {
    out += "rule ";
    if (rule.block != kNoRule) out += fmt::format("{} / ", plan.blocks[rule.block].text);
    out += fmt::format("{}: {}", rule.key, treatment_text(rule, plan.mesh));
    if (rule.axis != kNoAxis) out += fmt::format(" over {}", plan.mesh.axes[rule.axis].name);
    if (rule.optional) out += " optional";
    if (rule.contiguous) out += " contiguous";
    dump_options(out, rule.options);
    out += '\n';
  }
  if (plan.data) {
    out += "data";
    for (const AxisId axis : plan.data->axes) out += " " + plan.mesh.axes[axis].name;
    out += fmt::format(" dim {}\n", plan.data->dim);
  }
  if (plan.fsdp) {
    out += fmt::format("fsdp {} {} min_weight_size {}\n", plan.mesh.axes[plan.fsdp->axis].name,
                       kFsdpPolicyNames[static_cast<size_t>(plan.fsdp->policy)], plan.fsdp->min_weight_size);
    dump_patterns(out, "fsdp pattern", plan.fsdp->patterns);
    dump_patterns(out, "fsdp unit", plan.fsdp->units);
  }
  dump_patterns(out, "remat", plan.remat);
  for (const InitEntry& entry : plan.init)
    out += fmt::format("init {}: {}\n", entry.pattern.text, to_text(entry.distribution));
  return out;
}

}  // namespace tpplan
