#include "plan/tp_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "sharding/partition_spec.h"

namespace tpplan {

std::string rule_value_text(const PlanRule& rule, const Mesh& mesh) {
  if (rule.style != nullptr) return std::string(rule.style->name);
  if (!rule.spec) return "?";
  const auto entries = [&](const std::vector<DimAxes>& part) {
    const std::string text = to_text(part, mesh);  // in brackets
    return text.substr(1, text.size() - 2);
  };
  if (rule.of_dim) return entries(rule.spec->before);
  if (!rule.spec->has_ellipsis) return to_text(rule.spec->before, mesh);
  std::vector<std::string> parts;
  if (!rule.spec->before.empty()) parts.push_back(entries(rule.spec->before));
  parts.push_back("...");
  if (!rule.spec->after.empty()) parts.push_back(entries(rule.spec->after));
  return "[" + join(parts, ", ") + "]";
}

UnevenPolicy uneven_policy_of(const TpPlan& plan) {
  return plan.fsdp && plan.fsdp->policy->uneven_policy == UnevenPolicy::Torch ? UnevenPolicy::Torch : plan.uneven;
}

bool is_data_axis(const TpPlan& plan, AxisId axis) {
  return (plan.fsdp && plan.fsdp->axis == axis) ||
         (plan.data && std::find(plan.data->axes.begin(), plan.data->axes.end(), axis) != plan.data->axes.end());
}

std::vector<AxisId> data_axes_of(const TpPlan& plan) {
  std::vector<AxisId> axes;
  for (size_t i = 0; i < plan.mesh.axes.size(); ++i) {
    if (is_data_axis(plan, static_cast<AxisId>(i))) axes.push_back(static_cast<AxisId>(i));
  }
  return axes;
}

std::optional<Loss> resolved_loss(const TpPlan& plan, Reduction joined) {
  if (!plan.loss) return std::nullopt;
  Loss loss = plan.loss->given;
  if (!plan.loss->names_axes) loss.axes = data_axes_of(plan);
  if (!plan.loss->names_gradients) loss.gradients = joined;
  return loss;
}

bool has_same_effect(const PlanRule& a, const PlanRule& b) {
  return a.style == b.style && a.spec == b.spec && a.axis == b.axis && a.contiguous == b.contiguous &&
         a.options == b.options;
}

namespace {

// True if two lists are equal item by item.
template <typename List, typename Same>
bool same_list(const List& a, const List& b, Same same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool same_patterns(const std::vector<ModulePattern>& a, const std::vector<ModulePattern>& b) {
  return same_list(a, b, [](const ModulePattern& x, const ModulePattern& y) { return x.text == y.text; });
}

bool same_rule(const PlanRule& a, const PlanRule& b) {
  return a.key == b.key && a.block == b.block && a.optional == b.optional && has_same_effect(a, b);
}

bool same_data(const DataSharding& a, const DataSharding& b) {
  return a.axes == b.axes && a.dim == b.dim && a.attention == b.attention;
}

bool same_loss(const PlanLoss& a, const PlanLoss& b) {
  return a.given == b.given && a.cross_entropy == b.cross_entropy && a.names_axes == b.names_axes &&
         a.names_gradients == b.names_gradients;
}

bool same_fsdp(const FsdpSettings& a, const FsdpSettings& b) {
  return a.axis == b.axis && a.min_weight_size == b.min_weight_size && a.policy == b.policy &&
         same_patterns(a.patterns, b.patterns) && same_patterns(a.units, b.units);
}

bool same_local_attributes(const LocalAttributes& a, const LocalAttributes& b) {
  return a.pattern.text == b.pattern.text && same_patterns(a.names, b.names);
}

bool same_init(const InitEntry& a, const InitEntry& b) {
  return a.pattern.text == b.pattern.text && a.distribution == b.distribution;
}

bool same_suppression(const Suppression& a, const Suppression& b) {
  return a.code == b.code && a.reason == b.reason && a.rule == b.rule;
}

}  // namespace

bool same_plan(const TpPlan& a, const TpPlan& b) {
  const auto same_axis = [](const MeshAxis& x, const MeshAxis& y) { return x.name == y.name && x.size == y.size; };
  return a.dialect == b.dialect && a.keras_match == b.keras_match && a.uneven == b.uneven &&
         same_list(a.mesh.axes, b.mesh.axes, same_axis) && same_patterns(a.blocks, b.blocks) &&
         same_list(a.rules, b.rules, same_rule) && a.data.has_value() == b.data.has_value() &&
         (!a.data || same_data(*a.data, *b.data)) && a.loss.has_value() == b.loss.has_value() &&
         (!a.loss || same_loss(*a.loss, *b.loss)) && a.fsdp.has_value() == b.fsdp.has_value() &&
         (!a.fsdp || same_fsdp(*a.fsdp, *b.fsdp)) && same_patterns(a.remat, b.remat) &&
         same_list(a.local_attributes, b.local_attributes, same_local_attributes) &&
         same_list(a.init, b.init, same_init) && same_list(a.suppressions, b.suppressions, same_suppression);
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
  if (options.forward_dtype) out += fmt::format(" forward_dtype={}", dtypes()[options.forward_dtype->dtype].name);
  if (options.backward_dtype) out += fmt::format(" backward_dtype={}", dtypes()[options.backward_dtype->dtype].name);
  if (options.use_local_input) out += fmt::format(" use_local_input={}", *options.use_local_input);
  if (options.use_local_output) out += fmt::format(" use_local_output={}", *options.use_local_output);
}

}  // namespace

std::string dump(const TpPlan& plan) {
  std::string out =
      fmt::format("dialect {}\nmesh {}\nuneven {}\n", plan.dialect->name, to_text(plan.mesh), to_text(plan.uneven));
  for (const PlanRule& rule : plan.rules) {
    out += "rule ";
    if (rule.block != kNoRule) out += fmt::format("{} / ", plan.blocks[rule.block].text);
    out += fmt::format("{}: {}", rule.key, rule_value_text(rule, plan.mesh));
    if (rule.axis != kNoAxis) out += fmt::format(" over {}", axis_name(plan.mesh, rule.axis));
    if (rule.optional) out += " optional";
    if (rule.contiguous) out += " contiguous";
    dump_options(out, rule.options);
    out += '\n';
  }
  if (plan.data) {
    out += "data";
    for (const AxisId axis : plan.data->axes) out += " " + axis_name(plan.mesh, axis);
    out += fmt::format(" dim {}", plan.data->dim);
    if (plan.data->attention != SequenceAttention::Local)
      out += fmt::format(" attention {}", kSequenceAttentionNames[static_cast<size_t>(plan.data->attention)]);
    out += '\n';
  }
  if (plan.loss) {
    const Loss& loss = plan.loss->given;
    out += fmt::format("loss {} of output {}", to_text(loss.reduction), loss.output);
    if (loss.reduction == Reduction::Mean) out += fmt::format(" count {}", to_text(loss.count));
    if (plan.loss->names_axes) out += " over";
    for (const AxisId axis : loss.axes) out += " " + axis_name(plan.mesh, axis);
    if (plan.loss->names_gradients) out += fmt::format(" gradients {}", to_text(loss.gradients));
    if (plan.loss->cross_entropy != CrossEntropy::Unspecified)
      out += fmt::format(" cross_entropy {}", kCrossEntropyNames[static_cast<size_t>(plan.loss->cross_entropy)]);
    out += '\n';
  }
  if (plan.fsdp) {
    out += fmt::format("fsdp {} {} min_weight_size {}\n", axis_name(plan.mesh, plan.fsdp->axis),
                       plan.fsdp->policy->name, plan.fsdp->min_weight_size);
    dump_patterns(out, "fsdp pattern", plan.fsdp->patterns);
    dump_patterns(out, "fsdp unit", plan.fsdp->units);
  }
  dump_patterns(out, "remat", plan.remat);
  for (const LocalAttributes& entry : plan.local_attributes) {
    out += fmt::format("local_attributes {}:", entry.pattern.text);
    for (const ModulePattern& name : entry.names) out += " " + name.text;
    out += '\n';
  }
  for (const InitEntry& entry : plan.init)
    out += fmt::format("init {}: {}\n", entry.pattern.text, to_text(entry.distribution));
  return out;
}

}  // namespace tpplan
