#include "plan/write_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "plan/read_plan.h"
#include "plan/write_pieces.h"
#include "syntax/json_writer.h"

namespace tpplan {
namespace {

// ---- pieces ----

PlanPiece scalar(std::string raw) { return {.kind = PieceKind::Scalar, .raw = std::move(raw)}; }
PlanPiece brackets(PieceKind kind) { return {.kind = kind, .is_flow = true}; }

void add_item(PlanPiece& list, PlanPiece value) { list.entries.push_back({.value = std::move(value)}); }
void add_entry(PlanPiece& map, std::string_view name, std::string key, PlanPiece value) {
  map.entries.push_back({.key = std::move(key), .name = std::string(name), .value = std::move(value)});
}
void add_entry(PlanPiece& map, std::string_view key, PlanPiece value) {
  add_entry(map, key, std::string(key), std::move(value));
}
void add_entry(PlanPiece& map, std::string_view key, std::string raw) { add_entry(map, key, scalar(std::move(raw))); }

PlanPiece patterns_piece(const std::vector<ModulePattern>& patterns) {
  PlanPiece list = brackets(PieceKind::Sequence);
  for (const ModulePattern& pattern : patterns) add_item(list, scalar(json_text(pattern.text)));
  return list;
}

std::string bool_text(bool value) { return value ? "true" : "false"; }

// ---- rules ----

// An axis called `...` would be the ellipsis, were it not in a list.
PlanPiece spec_entry(const DimAxes& axes, const Mesh& mesh) {
  if (axes.empty()) return scalar("null");
  if (axes.size() == 1 && mesh.axes[axes[0]].name != "...") return scalar(axis_text(mesh.axes[axes[0]].name));
  PlanPiece list = brackets(PieceKind::Sequence);
  for (const AxisId axis : axes) add_item(list, scalar(axis_text(mesh.axes[axis].name)));
  return list;
}

PlanPiece spec_piece(const SpecTemplate& spec, const Mesh& mesh) {
  PlanPiece list = brackets(PieceKind::Sequence);
  for (const DimAxes& axes : spec.before) add_item(list, spec_entry(axes, mesh));
  if (spec.has_ellipsis) add_item(list, scalar("..."));
  for (const DimAxes& axes : spec.after) add_item(list, spec_entry(axes, mesh));
  return list;
}

std::string layout_text(const Layout& layout) { return layout ? to_text(*layout) : "null"; }

// One layout stands for a list of one.
PlanPiece layouts_piece(const std::vector<Layout>& layouts) {
  if (layouts.size() == 1 && layouts[0]) return scalar(layout_text(layouts[0]));
  PlanPiece list = brackets(PieceKind::Sequence);
  for (const Layout& layout : layouts) add_item(list, scalar(layout_text(layout)));
  return list;
}

PlanPiece kwargs_piece(const KwargLayouts& layouts) {
  PlanPiece map = brackets(PieceKind::Map);
  for (const auto& [name, layout] : layouts) add_entry(map, name, axis_text(name), scalar(layout_text(layout)));
  return map;
}

void add_options(PlanPiece& map, const RuleOptions& o) {
  const auto add = [&](StyleOption option, PlanPiece value) { add_entry(map, option_name(option), std::move(value)); };
  if (o.input_layouts) add(kInputLayouts, layouts_piece(*o.input_layouts));
  if (o.desired_input_layouts) add(kDesiredInputLayouts, layouts_piece(*o.desired_input_layouts));
  if (o.input_kwarg_layouts) add(kInputKwargLayouts, kwargs_piece(*o.input_kwarg_layouts));
  if (o.desired_input_kwarg_layouts) add(kDesiredInputKwargLayouts, kwargs_piece(*o.desired_input_kwarg_layouts));
  if (o.output_layouts) add(kOutputLayouts, layouts_piece(*o.output_layouts));
  if (o.desired_output_layouts) add(kDesiredOutputLayouts, layouts_piece(*o.desired_output_layouts));
  if (o.use_local_input) add(kUseLocalInput, scalar(bool_text(*o.use_local_input)));
  if (o.use_local_output) add(kUseLocalOutput, scalar(bool_text(*o.use_local_output)));
  if (o.sequence_dim) add(kSequenceDim, scalar(std::to_string(*o.sequence_dim)));
  if (o.forward_dtype) add(kForwardDtype, scalar(std::string(dtypes()[o.forward_dtype->dtype].name)));
  if (o.backward_dtype) add(kBackwardDtype, scalar(std::string(dtypes()[o.backward_dtype->dtype].name)));
}

// A style alone stands for a map of it.
PlanPiece rule_piece(const PlanRule& rule, const Mesh& mesh, AxisId default_axis) {
  PlanPiece map = brackets(PieceKind::Map);
  if (rule.style != nullptr)
    add_entry(map, "style", std::string(rule.style->name));
  else
    add_entry(map, "spec", spec_piece(*rule.spec, mesh));
  add_options(map, rule.options);
  if (rule.style != nullptr && rule.axis != default_axis) add_entry(map, "axis", axis_text(mesh.axes[rule.axis].name));
  if (rule.optional) add_entry(map, "optional", bool_text(true));
  if (rule.contiguous) add_entry(map, "contiguous", bool_text(true));
  if (rule.style == nullptr || map.entries.size() > 1) return map;
  PlanPiece alone = std::move(map.entries[0].value);
  return alone;
}

// The axis of rules that name none: `tp` where the mesh has it, otherwise what most styles go by. None where a style
// has none.
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

PlanPiece block_map() { return {.kind = PieceKind::Map}; }

struct RulePieces {
  PlanPiece whole = block_map();   // of whole paths
  PlanPiece blocks = block_map();  // by block
};

std::vector<std::string> comment_lines(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts) lines.push_back(text.empty() ? "#" : fmt::format("# {}", text));
  return lines;
}

// In quotes where a reader of YAML might take it for anything but text.
std::string dim_name_text(const std::string& name) {
  const bool is_plain = std::ranges::all_of(name, [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
  return is_plain ? axis_text(name) : json_text(name);
}

// A pair where nothing more is to be said.
PlanPiece pair_piece(const PlanRule& rule, const Mesh& mesh) {
  PlanPiece axes = spec_entry(rule.spec->before.front(), mesh);
  if (!rule.optional) {
    PlanPiece pair = brackets(PieceKind::Sequence);
    add_item(pair, scalar(dim_name_text(rule.key)));
    add_item(pair, std::move(axes));
    return pair;
  }
  PlanPiece map = brackets(PieceKind::Map);
  add_entry(map, "name", dim_name_text(rule.key));
  add_entry(map, "axes", std::move(axes));
  add_entry(map, "optional", bool_text(true));
  return map;
}

PlanPiece pairs_piece(const TpPlan& plan, const PlanComments& comments) {
  PlanPiece list{.kind = PieceKind::Sequence};
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    add_item(list, pair_piece(plan.rules[id], plan.mesh));
    if (id < comments.rules.size()) list.entries.back().leading = comment_lines(comments.rules[id]);
  }
  return list;
}

RulePieces rule_pieces(const TpPlan& plan, const PlanComments& comments, AxisId default_axis) {
  RulePieces pieces;
  for (const ModulePattern& block : plan.blocks)
    add_entry(pieces.blocks, block.text, json_text(block.text), block_map());
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    PlanPiece& map = rule.block == kNoRule ? pieces.whole : pieces.blocks.entries[rule.block].value;
    add_entry(map, rule.key, json_text(rule.key), rule_piece(rule, plan.mesh, default_axis));
    if (id < comments.rules.size()) map.entries.back().leading = comment_lines(comments.rules[id]);
  }
  return pieces;
}

// ---- the other keys ----

PlanPiece mesh_piece(const Mesh& mesh) {
  PlanPiece map = brackets(PieceKind::Map);
  for (const MeshAxis& axis : mesh.axes)
    add_entry(map, axis.name, axis_text(axis.name), scalar(std::to_string(axis.size)));
  return map;
}

PlanPiece data_piece(const DataSharding& data, const Mesh& mesh) {
  PlanPiece map = brackets(PieceKind::Map), axes = brackets(PieceKind::Sequence);
  for (const AxisId axis : data.axes) add_item(axes, scalar(axis_text(mesh.axes[axis].name)));
  add_entry(map, "axes", std::move(axes));
  add_entry(map, "dim", std::to_string(data.dim));
  return map;
}

PlanPiece loss_piece(const PlanLoss& loss, const Mesh& mesh) {
  static const Loss standard;
  const Loss& told = loss.told;
  PlanPiece map = brackets(PieceKind::Map), axes = brackets(PieceKind::Sequence);
  if (told.output != standard.output) add_entry(map, "output", std::to_string(told.output));
  add_entry(map, "reduction", std::string(to_text(told.reduction)));
  if (told.count != standard.count) add_entry(map, "count", std::string(to_text(told.count)));
  for (const AxisId axis : told.axes) add_item(axes, scalar(axis_text(mesh.axes[axis].name)));
  if (loss.names_axes) add_entry(map, "axes", std::move(axes));
  if (loss.names_gradients) add_entry(map, "gradients", std::string(to_text(told.gradients)));
  if (loss.cross_entropy != CrossEntropy::Unsaid)
    add_entry(map, "cross_entropy", std::string(kCrossEntropyNames[static_cast<size_t>(loss.cross_entropy)]));
  return map;
}

PlanPiece fsdp_piece(const FsdpSettings& fsdp, const Mesh& mesh) {
  static const FsdpSettings standard;
  PlanPiece map = brackets(PieceKind::Map);
  add_entry(map, "axis", axis_text(mesh.axes[fsdp.axis].name));
  if (fsdp.min_weight_size != standard.min_weight_size)
    add_entry(map, "min_weight_size", std::to_string(fsdp.min_weight_size));
  if (fsdp.policy != standard.policy) add_entry(map, "policy", std::string(fsdp.policy->name));
  if (!fsdp.patterns.empty()) add_entry(map, "patterns", patterns_piece(fsdp.patterns));
  if (!fsdp.units.empty()) add_entry(map, "units", patterns_piece(fsdp.units));
  return map;
}

PlanPiece distribution_piece(const Distribution& distribution) {
  const DistributionRow& row = distribution_table()[static_cast<size_t>(distribution.kind)];
  if (row.argument_count == 0) return scalar(std::string(row.name));
  PlanPiece map = brackets(PieceKind::Map), arguments = brackets(PieceKind::Map);
  for (size_t i = 0; i < row.argument_count; ++i)
    add_entry(arguments, row.arguments[i], number_text(distribution.arguments[i]));
  add_entry(map, row.name, row.argument_count == 1 ? std::move(arguments.entries[0].value) : std::move(arguments));
  return map;
}

PlanPiece init_piece(const std::vector<InitEntry>& init) {
  PlanPiece map = block_map();
  for (const InitEntry& entry : init)
    add_entry(map, entry.pattern.text, json_text(entry.pattern.text), distribution_piece(entry.distribution));
  return map;
}

PlanPiece suppressions_piece(const std::vector<Suppression>& suppressions) {
  PlanPiece list{.kind = PieceKind::Sequence};
  for (const Suppression& suppression : suppressions) {
    PlanPiece map = brackets(PieceKind::Map);
    add_entry(map, "code", std::string(kind_of(suppression.code).name));
    if (!suppression.rule.empty()) add_entry(map, "rule", json_text(suppression.rule));
    add_entry(map, "reason", json_text(suppression.reason));
    add_item(list, std::move(map));
  }
  return list;
}

}  // namespace

std::string write_plan(const TpPlan& plan, const PlanComments& comments) {
  static const TpPlan standard;
  const AxisId axis = default_axis_of(plan);
  PlanPieces pieces;
  pieces.header = comment_lines(comments.header);
  PlanPiece& root = pieces.root;
  root.kind = PieceKind::Map;
  add_entry(root, "format", std::string(kPlanFormat));
  if (plan.dialect != standard.dialect) add_entry(root, "dialect", std::string(plan.dialect->name));
  if (plan.keras_match != standard.keras_match)
    add_entry(root, "keras_match", std::string(kKerasMatchNames[static_cast<size_t>(plan.keras_match)]));
  add_entry(root, "mesh", mesh_piece(plan.mesh));
  if (axis != kNoAxis && plan.mesh.axes[axis].name != "tp")
    add_entry(root, "axis", axis_text(plan.mesh.axes[axis].name));
  if (plan.uneven != standard.uneven) add_entry(root, "uneven", std::string(to_text(plan.uneven)));
  const bool is_list = plan.dialect->keys == KeySyntax::Names;
  RulePieces rules = is_list ? RulePieces{} : rule_pieces(plan, comments, axis);
  add_entry(root, "tp_plan", is_list ? pairs_piece(plan, comments) : std::move(rules.whole));
  if (!plan.blocks.empty() && !is_list) add_entry(root, "blocks", std::move(rules.blocks));
  if (plan.data) add_entry(root, "data", data_piece(*plan.data, plan.mesh));
  if (plan.loss) add_entry(root, "loss", loss_piece(*plan.loss, plan.mesh));
  if (plan.fsdp) add_entry(root, "fsdp", fsdp_piece(*plan.fsdp, plan.mesh));
  if (!plan.remat.empty()) add_entry(root, "remat", patterns_piece(plan.remat));
  if (!plan.init.empty()) add_entry(root, "init", init_piece(plan.init));
  if (!plan.suppressions.empty()) add_entry(root, "suppress", suppressions_piece(plan.suppressions));
  return write_pieces(std::move(pieces));
}

std::string rule_text(const PlanRule& rule, const Mesh& mesh, AxisId default_axis) {
  constexpr std::string_view key = "rule";
  PlanPieces pieces;
  pieces.root.kind = PieceKind::Map;
  add_entry(pieces.root, key, rule_piece(rule, mesh, default_axis));
  const std::string text = write_pieces(std::move(pieces));
  return text.substr(key.size() + 2, text.size() - key.size() - 3);  // without ": " and the line break
}

}  // namespace tpplan
