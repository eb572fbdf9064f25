#include "plan/write_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "plan/read_plan.h"
#include "plan/write_plan_syntax.h"
#include "text/json_writer.h"
#include "text/yaml_tree.h"

namespace tpplan {
namespace {

// ---- pieces ----

PlanNode scalar(std::string raw) { return {.kind = SyntaxKind::Scalar, .raw = std::move(raw)}; }
PlanNode brackets(SyntaxKind kind) { return {.kind = kind, .is_flow = true}; }

void add_item(PlanNode& list, PlanNode value) { list.entries.push_back({.value = std::move(value)}); }
void add_entry(PlanNode& map, std::string_view name, std::string key, PlanNode value) {
  map.entries.push_back({.key = std::move(key), .name = std::string(name), .value = std::move(value)});
}
void add_entry(PlanNode& map, std::string_view key, PlanNode value) {
  add_entry(map, key, std::string(key), std::move(value));
}
void add_entry(PlanNode& map, std::string_view key, std::string raw) { add_entry(map, key, scalar(std::move(raw))); }

PlanNode patterns_node(const std::vector<ModulePattern>& patterns) {
  PlanNode list = brackets(SyntaxKind::Sequence);
  for (const ModulePattern& pattern : patterns) add_item(list, scalar(quoted_text(pattern.text)));
  return list;
}

std::string bool_text(bool value) { return value ? "true" : "false"; }

// ---- rules ----

// An axis with the name `...` needs a list: alone it would be the ellipsis.
PlanNode spec_entry(const DimAxes& axes, const Mesh& mesh) {
  if (axes.empty()) return scalar("null");
  if (axes.size() == 1 && mesh.axes[axes[0]].name != "...") return scalar(axis_text(mesh.axes[axes[0]].name));
  PlanNode list = brackets(SyntaxKind::Sequence);
  for (const AxisId axis : axes) add_item(list, scalar(axis_text(mesh.axes[axis].name)));
  return list;
}

PlanNode spec_node(const SpecTemplate& spec, const Mesh& mesh) {
  PlanNode list = brackets(SyntaxKind::Sequence);
  for (const DimAxes& axes : spec.before) add_item(list, spec_entry(axes, mesh));
  if (spec.has_ellipsis) add_item(list, scalar("..."));
  for (const DimAxes& axes : spec.after) add_item(list, spec_entry(axes, mesh));
  return list;
}

std::string layout_text(const Layout& layout) { return layout ? to_text(*layout) : "null"; }

// A single layout is written without a list.
PlanNode layouts_node(const std::vector<Layout>& layouts) {
  if (layouts.size() == 1 && layouts[0]) return scalar(layout_text(layouts[0]));
  PlanNode list = brackets(SyntaxKind::Sequence);
  for (const Layout& layout : layouts) add_item(list, scalar(layout_text(layout)));
  return list;
}

PlanNode kwargs_node(const KwargLayouts& layouts) {
  PlanNode map = brackets(SyntaxKind::Map);
  for (const auto& [name, layout] : layouts) add_entry(map, name, axis_text(name), scalar(layout_text(layout)));
  return map;
}

void add_options(PlanNode& map, const RuleOptions& o) {
  const auto add = [&](StyleOption option, PlanNode value) { add_entry(map, option_name(option), std::move(value)); };
  if (o.input_layouts) add(kInputLayouts, layouts_node(*o.input_layouts));
  if (o.desired_input_layouts) add(kDesiredInputLayouts, layouts_node(*o.desired_input_layouts));
  if (o.input_kwarg_layouts) add(kInputKwargLayouts, kwargs_node(*o.input_kwarg_layouts));
  if (o.desired_input_kwarg_layouts) add(kDesiredInputKwargLayouts, kwargs_node(*o.desired_input_kwarg_layouts));
  if (o.output_layouts) add(kOutputLayouts, layouts_node(*o.output_layouts));
  if (o.desired_output_layouts) add(kDesiredOutputLayouts, layouts_node(*o.desired_output_layouts));
  if (o.use_local_input) add(kUseLocalInput, scalar(bool_text(*o.use_local_input)));
  if (o.use_local_output) add(kUseLocalOutput, scalar(bool_text(*o.use_local_output)));
  if (o.sequence_dim) add(kSequenceDim, scalar(std::to_string(*o.sequence_dim)));
  if (o.forward_dtype) add(kForwardDtype, scalar(std::string(dtypes()[o.forward_dtype->dtype].name)));
  if (o.backward_dtype) add(kBackwardDtype, scalar(std::string(dtypes()[o.backward_dtype->dtype].name)));
}

// A style without options is written without a map.
PlanNode rule_node(const PlanRule& rule, const Mesh& mesh, AxisId default_axis) {
  PlanNode map = brackets(SyntaxKind::Map);
  if (rule.style != nullptr)
    add_entry(map, "style", std::string(rule.style->name));
  else
    add_entry(map, "spec", spec_node(*rule.spec, mesh));
  add_options(map, rule.options);
  if (rule.style != nullptr && rule.axis != default_axis) add_entry(map, "axis", axis_text(mesh.axes[rule.axis].name));
  if (rule.optional) add_entry(map, "optional", bool_text(true));
  if (rule.contiguous) add_entry(map, "contiguous", bool_text(true));
  if (rule.style == nullptr || map.entries.size() > 1) return map;
  PlanNode value = std::move(map.entries[0].value);
  return value;
}

// Returns the axis for `axis:`: `tp` if the mesh has it, else the axis of most styles. kNoAxis if a style has none.
AxisId default_axis_of(const TpPlan& plan) {
  const AxisId standard = find_axis(plan.mesh, "tp");
  if (standard != kNoAxis) return standard;
  std::map<AxisId, size_t> uses;
  for (const PlanRule& rule : plan.rules) {
    if (rule.style != nullptr) ++uses[rule.axis];
  }
  if (uses.empty() || uses.contains(kNoAxis)) return kNoAxis;
  return std::max_element(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

PlanNode block_map() { return {.kind = SyntaxKind::Map}; }

struct RuleNodes {
  PlanNode whole = block_map();   // of whole paths
  PlanNode blocks = block_map();  // by block
};

std::vector<std::string> comment_lines(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts)
    lines.push_back(text.empty() ? "#" : fmt::format("# {}", escape_for_terminal(text)));
  return lines;
}

// Returns the name of a dim, quoted if some YAML reader could parse it as another type.
std::string dim_name_text(const std::string& name) {
  const bool is_plain = std::ranges::all_of(name, [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
  return is_plain ? axis_text(name) : quoted_text(name);
}

// A rule without options is written as a pair.
PlanNode pair_node(const PlanRule& rule, const Mesh& mesh) {
  PlanNode axes = spec_entry(rule.spec->before.front(), mesh);
  if (!rule.optional) {
    PlanNode pair = brackets(SyntaxKind::Sequence);
    add_item(pair, scalar(dim_name_text(rule.key)));
    add_item(pair, std::move(axes));
    return pair;
  }
  PlanNode map = brackets(SyntaxKind::Map);
  add_entry(map, "name", dim_name_text(rule.key));
  add_entry(map, "axes", std::move(axes));
  add_entry(map, "optional", bool_text(true));
  return map;
}

PlanNode pairs_node(const TpPlan& plan, const PlanComments& comments) {
  PlanNode list{.kind = SyntaxKind::Sequence};
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    add_item(list, pair_node(plan.rules[id], plan.mesh));
    if (id < comments.rules.size()) list.entries.back().leading = comment_lines(comments.rules[id]);
  }
  return list;
}

RuleNodes rule_nodes(const TpPlan& plan, const PlanComments& comments, AxisId default_axis) {
  RuleNodes pieces;
  for (const ModulePattern& block : plan.blocks)
    add_entry(pieces.blocks, block.text, quoted_text(block.text), block_map());
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    PlanNode& map = rule.block == kNoRule ? pieces.whole : pieces.blocks.entries[rule.block].value;
    add_entry(map, rule.key, quoted_text(rule.key), rule_node(rule, plan.mesh, default_axis));
    if (id < comments.rules.size()) map.entries.back().leading = comment_lines(comments.rules[id]);
  }
  return pieces;
}

// ---- the other keys ----

PlanNode mesh_node(const Mesh& mesh) {
  PlanNode map = brackets(SyntaxKind::Map);
  for (const MeshAxis& axis : mesh.axes)
    add_entry(map, axis.name, axis_text(axis.name), scalar(std::to_string(axis.size)));
  return map;
}

PlanNode data_node(const DataSharding& data, const Mesh& mesh) {
  PlanNode map = brackets(SyntaxKind::Map), axes = brackets(SyntaxKind::Sequence);
  for (const AxisId axis : data.axes) add_item(axes, scalar(axis_text(mesh.axes[axis].name)));
  add_entry(map, "axes", std::move(axes));
  add_entry(map, "dim", std::to_string(data.dim));
  if (data.attention != SequenceAttention::Local)
    add_entry(map, "attention", std::string(kSequenceAttentionNames[static_cast<size_t>(data.attention)]));
  return map;
}

PlanNode loss_node(const PlanLoss& loss, const Mesh& mesh) {
  static const Loss standard;
  const Loss& given = loss.given;
  PlanNode map = brackets(SyntaxKind::Map), axes = brackets(SyntaxKind::Sequence);
  if (given.output != standard.output) add_entry(map, "output", std::to_string(given.output));
  add_entry(map, "reduction", std::string(to_text(given.reduction)));
  if (given.count != standard.count) add_entry(map, "count", std::string(to_text(given.count)));
  for (const AxisId axis : given.axes) add_item(axes, scalar(axis_text(mesh.axes[axis].name)));
  if (loss.names_axes) add_entry(map, "axes", std::move(axes));
  if (loss.names_gradients) add_entry(map, "gradients", std::string(to_text(given.gradients)));
  if (loss.cross_entropy != CrossEntropy::Unspecified)
    add_entry(map, "cross_entropy", std::string(kCrossEntropyNames[static_cast<size_t>(loss.cross_entropy)]));
  return map;
}

PlanNode fsdp_node(const FsdpSettings& fsdp, const Mesh& mesh) {
  static const FsdpSettings standard;
  PlanNode map = brackets(SyntaxKind::Map);
  add_entry(map, "axis", axis_text(mesh.axes[fsdp.axis].name));
  if (fsdp.min_weight_size != standard.min_weight_size)
    add_entry(map, "min_weight_size", std::to_string(fsdp.min_weight_size));
  if (fsdp.policy != standard.policy) add_entry(map, "policy", std::string(fsdp.policy->name));
  if (!fsdp.patterns.empty()) add_entry(map, "patterns", patterns_node(fsdp.patterns));
  if (!fsdp.units.empty()) add_entry(map, "units", patterns_node(fsdp.units));
  return map;
}

PlanNode distribution_node(const Distribution& distribution) {
  const DistributionRow& row = distribution_table()[static_cast<size_t>(distribution.kind)];
  if (row.argument_count == 0) return scalar(std::string(row.name));
  PlanNode map = brackets(SyntaxKind::Map), arguments = brackets(SyntaxKind::Map);
  for (size_t i = 0; i < row.argument_count; ++i)
    add_entry(arguments, row.arguments[i], number_text(distribution.arguments[i]));
  add_entry(map, row.name, row.argument_count == 1 ? std::move(arguments.entries[0].value) : std::move(arguments));
  return map;
}

PlanNode init_node(const std::vector<InitEntry>& init) {
  PlanNode map = block_map();
  for (const InitEntry& entry : init)
    add_entry(map, entry.pattern.text, quoted_text(entry.pattern.text), distribution_node(entry.distribution));
  return map;
}

PlanNode local_attributes_node(const std::vector<LocalAttributes>& entries) {
  PlanNode map = block_map();
  for (const LocalAttributes& entry : entries)
    add_entry(map, entry.pattern.text, quoted_text(entry.pattern.text), patterns_node(entry.names));
  return map;
}

PlanNode suppressions_node(const std::vector<Suppression>& suppressions) {
  PlanNode list{.kind = SyntaxKind::Sequence};
  for (const Suppression& suppression : suppressions) {
    PlanNode map = brackets(SyntaxKind::Map);
    add_entry(map, "code", std::string(kind_of(suppression.code).id));
    if (!suppression.rule.empty()) add_entry(map, "rule", quoted_text(suppression.rule));
    add_entry(map, "reason", quoted_text(suppression.reason));
    add_item(list, std::move(map));
  }
  return list;
}

}  // namespace

std::string write_plan(const TpPlan& plan, const PlanComments& comments) {
  static const TpPlan standard;
  const AxisId axis = default_axis_of(plan);
  PlanSyntax pieces;
  pieces.header = comment_lines(comments.header);
  PlanNode& root = pieces.root;
  root.kind = SyntaxKind::Map;
  add_entry(root, "format", std::string(kPlanFormat));
  if (plan.dialect != standard.dialect) add_entry(root, "dialect", std::string(plan.dialect->name));
  if (plan.keras_match != standard.keras_match)
    add_entry(root, "keras_match", std::string(kKerasMatchNames[static_cast<size_t>(plan.keras_match)]));
  add_entry(root, "mesh", mesh_node(plan.mesh));
  if (axis != kNoAxis && plan.mesh.axes[axis].name != "tp")
    add_entry(root, "axis", axis_text(plan.mesh.axes[axis].name));
  if (plan.uneven != standard.uneven) add_entry(root, "uneven", std::string(to_text(plan.uneven)));
  const bool is_list = plan.dialect->keys == KeySyntax::Names;
  RuleNodes rules = is_list ? RuleNodes{} : rule_nodes(plan, comments, axis);
  add_entry(root, "tp_plan", is_list ? pairs_node(plan, comments) : std::move(rules.whole));
  if (!plan.blocks.empty() && !is_list) add_entry(root, "blocks", std::move(rules.blocks));
  if (plan.data) add_entry(root, "data", data_node(*plan.data, plan.mesh));
  if (plan.loss) add_entry(root, "loss", loss_node(*plan.loss, plan.mesh));
  const auto add_commented = [&](std::string_view key, PlanNode node, const std::vector<std::string>& texts) {
    add_entry(root, key, std::move(node));
    root.entries.back().leading = comment_lines(texts);
  };
  if (plan.fsdp) add_commented("fsdp", fsdp_node(*plan.fsdp, plan.mesh), comments.fsdp);
  if (!plan.remat.empty()) add_commented("remat", patterns_node(plan.remat), comments.remat);
  if (!plan.local_attributes.empty()) add_entry(root, "local_attributes", local_attributes_node(plan.local_attributes));
  if (!plan.init.empty()) add_entry(root, "init", init_node(plan.init));
  if (!plan.suppressions.empty()) add_entry(root, "suppress", suppressions_node(plan.suppressions));
  return write_plan_syntax(std::move(pieces));
}

std::string round_trip_error(const std::string& text, const TpPlan& plan) {
  constexpr YamlLimits limits;
  if (text.size() > limits.bytes)
    return fmt::format("it has {}, but a plan has at most {}", human_bytes(text.size()), human_bytes(limits.bytes));
  Diagnostics faults;
  const TpPlan read = read_plan({.name = {}, .text = text}, {}, faults);
  for (const Diagnostic& d : faults.list) {
    if (d.severity == Severity::Error) return d.message;
  }
  return same_plan(read, plan) ? "" : "it would be read as a different plan";
}

// Quotes a text as JSON, except for invisible characters beyond U+FFFF: JSON escapes them as two surrogates, which YAML
// does not read.
std::string quoted_text(std::string_view text) {
  std::string yaml = "\"";
  size_t from = 0;
  const auto add_until = [&](size_t end) {
    const std::string json = json_text(text.substr(from, end - from));
    yaml.append(json, 1, json.size() - 2);
  };
  for (size_t at = 0; at < text.size(); ++at) {
    const char32_t point = utf8_length(text.substr(at, 4)) == 4 ? code_point(text.substr(at, 4)) : 0;
    if (!is_invisible(point) || point < 0x10000) continue;
    add_until(at);
    yaml += fmt::format("\\U{:08x}", static_cast<uint32_t>(point));
    from = at + 4;
  }
  add_until(text.size());
  return yaml + '"';
}

std::string key_text(std::string_view key) {
  std::string text = quoted_text(key);
  const auto backslashes = static_cast<size_t>(std::ranges::count(key, '\\'));
  const bool is_verbatim = backslashes > 0 && key.find('\'') == std::string_view::npos &&
                           text.size() == key.size() + backslashes + 2;  // nothing else has an escape
  return is_verbatim ? fmt::format("'{}'", key) : text;
}

std::string rule_text(const PlanRule& rule, const Mesh& mesh, AxisId default_axis) {
  constexpr std::string_view key = "rule";
  PlanSyntax pieces;
  pieces.root.kind = SyntaxKind::Map;
  add_entry(pieces.root, key, rule_node(rule, mesh, default_axis));
  const std::string text = write_plan_syntax(std::move(pieces));
  return text.substr(key.size() + 2, text.size() - key.size() - 3);  // without ": " and the line break
}

}  // namespace tpplan
