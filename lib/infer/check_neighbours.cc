#include "infer/check_neighbours.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

#include "infer/sharding_table.h"
#include "model/module_kinds.h"

namespace tpplan {
namespace {

// What a linear layer does with the last dim of its values on the rule's axis.
enum class Pieces : uint8_t { None, Leaves, Takes };

struct Neighbours {
  const TpPlan& plan;
  const ModelGraph& graph;
  const MatchTable& matches;
  const ShardingTable& shardings;
  Diagnostics& diagnostics;
  std::vector<RuleId> rules;  // by module: the rule of a style that cuts its parameters, or kNoRule
  std::vector<bool> closed;   // by module: a rule looks after the values that leave it
};

bool is_last_shard(const Placement& placement) { return placement.kind == PlacementKind::Shard && placement.dim < 0; }

// The layout that a rule writes for the first value, or else the style's own.
Placement first_or(const std::optional<std::vector<Layout>>& layouts, const Placement& standard) {
  return layouts && !layouts->empty() && layouts->front() ? *layouts->front() : standard;
}

bool stays_cut(const PlanRule& rule) {
  const StyleRow& style = *rule.style;
  if (style.cut_dim != kDimOut) return false;
  if (!style.output.used) return style.packed_segments > 1;  // nothing happens to what leaves
  return is_last_shard(first_or(rule.options.output_layouts, style.output.to));
}

bool wants_pieces(const PlanRule& rule) {
  const StyleRow& style = *rule.style;
  if (style.cut_dim != kDimIn) return false;
  if (!style.input.used) return style.packed_segments > 1;
  return is_last_shard(first_or(rule.options.input_layouts, style.input.from));
}

Pieces pieces_of(const Neighbours& n, ModuleId module) {
  if (n.rules[module] == kNoRule || n.graph.modules[module].kind != ModuleKind::Linear) return Pieces::None;
  const PlanRule& rule = n.plan.rules[n.rules[module]];
  return stays_cut(rule) ? Pieces::Leaves : wants_pieces(rule) ? Pieces::Takes : Pieces::None;
}

// ---- colwise and rowwise come in pairs ----

// Layers of one rule that look for a partner.
struct Pending {
  RuleId rule = kNoRule;
  ModuleId first = 0;
  uint64_t count = 0;
};
struct Unpaired {
  std::vector<Pending> leaves, takes;
  uint64_t layers = 0;  // linear layers below, with a rule or without
};

void add(std::vector<Pending>& list, const Pending& pending) {
  const auto known = std::find_if(list.begin(), list.end(), [&](const Pending& p) { return p.rule == pending.rule; });
  if (known == list.end())
    list.push_back(pending);
  else
    known->count += pending.count;
}

void add(Unpaired& all, const Unpaired& more) {
  for (const Pending& pending : more.leaves) add(all.leaves, pending);
  for (const Pending& pending : more.takes) add(all.takes, pending);
  all.layers += more.layers;
}

// True for one of several equal blocks in a list: values pass from one to the next whole.
bool is_repeated_block(const ModelGraph& graph, ModuleId id) {
  const Module& module = graph.modules[id];
  const std::string_view leaf = leaf_of(graph, module.path);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(leaf.data(), leaf.data() + leaf.size(), number);
  if (error != std::errc() || end != leaf.data() + leaf.size()) return false;
  const std::string list(module.path.substr(0, module.path.size() - leaf.size()));
  const auto like = [&](uint32_t other) {
    const ModuleId found = find_module(graph, list + std::to_string(other));
    return found != kNone && graph.modules[found].type == module.type;
  };
  return like(number + 1) || (number > 0 && like(number - 1));
}

// How a rule says that a value is whole outside: by a style where the dialect has it, else by an option.
std::string make_whole(const TpPlan& plan, std::string_view style, std::string_view option) {
  if (find_style(style, plan.dialect->styles) != nullptr) return fmt::format("use {}", style);
  return fmt::format("write `{}: Replicate`", option);
}

void report_unpaired(const Neighbours& n, const Pending& pending, bool leaves) {
  const PlanRule& rule = n.plan.rules[pending.rule];
  const Module& module = n.graph.modules[pending.first];
  Diagnostic* d =
      report(n.diagnostics, leaves ? Code::TP5150 : Code::TP5151, rule.value_span, fmt::format("{}", pending.rule));
  if (d == nullptr) return;
  d->counted = "module";
  d->message =
      leaves ? fmt::format("each rank leaves `{}` with a piece of its output, and no layer beside it takes pieces",
                           module.path)
             : fmt::format("`{}` takes its input for a piece, and no layer beside it leaves pieces", module.path);
  d->notes.push_back({leaves ? "what comes next has whole weights and gets a part of the values"
                             : "its input is whole: the product of a whole input and a piece of the weight fails",
                      span_of(n.graph, module)});
  d->help = leaves ? "cut the layer that follows with rowwise, or " : "cut the layer before it with colwise, or ";
  d->help += leaves ? make_whole(n.plan, "colwise_gather_output", "output_layouts")
                    : make_whole(n.plan, "rowwise_split_input", "input_layouts");
}

void report_unpaired(const Neighbours& n, const Unpaired& here) {
  for (const Pending& pending : here.leaves) {
    for (uint64_t i = 0; i < pending.count; ++i) report_unpaired(n, pending, true);
  }
  for (const Pending& pending : here.takes) {
    for (uint64_t i = 0; i < pending.count; ++i) report_unpaired(n, pending, false);
  }
}

size_t depth_of(const ModelGraph& graph, ModuleId id) {
  const std::string_view path = graph.modules[id].path;
  if (path.empty()) return 0;
  return 1 + static_cast<size_t>(std::count(path.begin(), path.end(), separator(graph.framework)));
}

// Ids of modules, those below before those above.
std::vector<ModuleId> deepest_first(const ModelGraph& graph) {
  std::vector<std::vector<ModuleId>> levels;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const size_t depth = depth_of(graph, id);
    if (levels.size() <= depth) levels.resize(depth + 1);
    levels[depth].push_back(id);
  }
  std::vector<ModuleId> order;
  order.reserve(graph.modules.size());
  for (auto level = levels.rbegin(); level != levels.rend(); ++level)
    order.insert(order.end(), level->begin(), level->end());
  return order;
}

// From the leaves up: where both kinds meet below one module they are partners; what is still alone at a repeated block
// or at the root has none. Of the only layer of a block nobody knows what comes after it.
void check_pairs(const Neighbours& n) {
  std::vector<Unpaired> below(n.graph.modules.size());
  for (const ModuleId id : deepest_first(n.graph)) {
    Unpaired here = std::move(below[id]);
    const Pieces own = pieces_of(n, id);
    if (own == Pieces::Leaves) add(here.leaves, {n.rules[id], id, 1});
    if (own == Pieces::Takes) add(here.takes, {n.rules[id], id, 1});
    here.layers += n.graph.modules[id].kind == ModuleKind::Linear;
    if (own == Pieces::None && (n.closed[id] || (!here.leaves.empty() && !here.takes.empty()))) {
      here.leaves.clear();
      here.takes.clear();
    }
    const ModuleId parent = parent_of(n.graph, id);
    if (parent == kNone || (own == Pieces::None && is_repeated_block(n.graph, id))) {
      if (here.layers > 1) report_unpaired(n, here);
      here.leaves.clear();
      here.takes.clear();
    }
    if (parent != kNone) add(below[parent], here);
  }
}

// ---- projections of one product ----

// Leaves of layers whose outputs meet in one product, so that all are cut, or none.
struct AlikeRow {
  std::array<std::string_view, 3> leaves;
  bool heads;  // q, k and v: a single kv head stays whole on purpose
};
constexpr AlikeRow kAlike[] = {
    {{"q_proj", "k_proj", "v_proj"}, true},
    {{"query", "key", "value"}, true},
    {{"wq", "wk", "wv"}, true},
    {{"q", "k", "v"}, true},
    {{"q_lin", "k_lin", "v_lin"}, true},
    {{"to_q", "to_k", "to_v"}, true},
    {{"query_proj", "key_proj", "value_proj"}, true},
    {{"query_dense", "key_dense", "value_dense"}, true},
    {{"gate_proj", "up_proj", ""}, false},
    {{"w1", "w3", ""}, false},
    {{"wi_0", "wi_1", ""}, false},
};

bool has_one_kv_head(const ModelGraph& graph, ModuleId parent) {
  const Module& module = graph.modules[parent];
  return module.attributes != kNone && graph.attributes[module.attributes].num_kv_heads == 1;
}

void report_unlike(const Neighbours& n, ModuleId cut, ModuleId other) {
  const RuleId rule = n.rules[cut];
  Diagnostic* d = report(n.diagnostics, Code::TP5152, n.plan.rules[rule].value_span, fmt::format("{}", rule));
  if (d == nullptr) return;
  d->counted = "module";
  d->message = fmt::format("each rank has a piece of the output of `{}`, and of `{}`, which it meets, {}",
                           n.graph.modules[cut].path, leaf_of(n.graph, n.graph.modules[other].path),
                           n.rules[other] == kNoRule ? "the whole" : "another part");
  d->notes.push_back({"the two are cut in different ways", span_of(n.graph, n.graph.modules[other])});
  d->help = fmt::format("give `{}` the style of `{}`", leaf_of(n.graph, n.graph.modules[other].path),
                        leaf_of(n.graph, n.graph.modules[cut].path));
}

void check_alike(const Neighbours& n, ModuleId id, const AlikeRow& row) {
  const ModuleId parent = parent_of(n.graph, id);
  if (parent == kNone || (row.heads && has_one_kv_head(n.graph, parent))) return;
  const std::string_view path = n.graph.modules[id].path;
  const std::string before(path.substr(0, path.size() - row.leaves[0].size()));
  std::array<ModuleId, 3> ids{id, kNone, kNone};
  for (size_t i = 1; i < ids.size(); ++i) {
    if (!row.leaves[i].empty()) ids[i] = find_module(n.graph, before + std::string(row.leaves[i]));
    if (ids[i] != kNone && n.graph.modules[ids[i]].kind != ModuleKind::Linear) ids[i] = kNone;
  }
  const auto cut =
      std::find_if(ids.begin(), ids.end(), [&](ModuleId m) { return m != kNone && pieces_of(n, m) == Pieces::Leaves; });
  if (cut == ids.end()) return;
  const auto other =
      std::find_if(ids.begin(), ids.end(), [&](ModuleId m) { return m != kNone && pieces_of(n, m) != Pieces::Leaves; });
  if (other != ids.end()) report_unlike(n, *cut, *other);
}

// ---- experts, embeddings, biases, sequences ----

// True when a rule looks after what leaves the module or one around it, up to the block that it is in.
bool is_looked_after(const Neighbours& n, ModuleId id) {
  for (; id != kNone; id = parent_of(n.graph, id)) {
    if (n.closed[id]) return true;
    if (is_repeated_block(n.graph, id)) return false;
  }
  return false;
}

void check_experts(const Neighbours& n, ModuleId id) {
  const Module& module = n.graph.modules[id];
  if (is_looked_after(n, id)) return;
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    const RuleId rule = n.shardings.params[param].rule;
    const StyleRow* style = rule == kNoRule ? nullptr : n.plan.rules[rule].style;
    if (style == nullptr || style->cut_dim.empty() || n.graph.params[param].ndim != 3) continue;
    Diagnostic* d = report(n.diagnostics, Code::TP5153, n.plan.rules[rule].value_span, "experts");
    if (d == nullptr) return;
    d->counted = "module";
    d->message = fmt::format("the experts `{}` are cut, and nothing sums what the ranks make of them", module.path);
    d->notes.push_back({"each rank's output is a part of a sum", span_of(n.graph, module)});
    d->help = "give the module of the experts moe_tp_experts";
    return;
  }
}

// A table of positions or heads inside an attention is cut by heads, as its neighbours are.
bool is_inside_attention(const ModelGraph& graph, ModuleId id) {
  for (ModuleId at = parent_of(graph, id); at != kNone; at = parent_of(graph, at)) {
    if (type_of(graph, graph.modules[at]).find("Attention") != std::string_view::npos) return true;
    if (is_repeated_block(graph, at)) return false;
  }
  return false;
}

void check_embedding(const Neighbours& n, ModuleId id) {
  if (n.rules[id] == kNoRule || !stays_cut(n.plan.rules[n.rules[id]]) || is_inside_attention(n.graph, id) ||
      is_looked_after(n, parent_of(n.graph, id)))
    return;
  const PlanRule& rule = n.plan.rules[n.rules[id]];
  Diagnostic* d = report(n.diagnostics, Code::TP5154, rule.value_span, fmt::format("{}", n.rules[id]));
  if (d == nullptr) return;
  d->counted = "module";
  d->message = fmt::format("each rank leaves `{}` with a piece of every embedding", n.graph.modules[id].path);
  d->notes.push_back({"the layers that follow take whole embeddings", span_of(n.graph, n.graph.modules[id])});
  d->help = make_whole(n.plan, "embedding_colwise", "output_layouts");
}

void check_bias(const Neighbours& n, ModuleId id) {
  const Module& module = n.graph.modules[id];
  ParamId weight = kNone, bias = kNone;
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    if (n.graph.params[param].name == "bias") bias = param;
    if (find_dim(dims_of(n.graph, module, n.graph.params[param]), kDimIn) >= 0) weight = param;
  }
  if (weight == kNone || bias == kNone || n.graph.params[bias].ndim != 1) return;
  const int out = find_dim(dims_of(n.graph, module, n.graph.params[weight]), kDimOut);
  const RuleId rule = n.shardings.params[weight].rule;
  if (out < 0 || rule == kNoRule || n.rules[id] != kNoRule) return;  // a style for the module cuts both
  const AxisId fsdp = n.plan.fsdp ? n.plan.fsdp->axis : kNoAxis;
  const auto axes_of = [&](ParamId param, size_t dim) {
    DimAxes axes = sharding_of(n.shardings, param).spec[dim];
    std::erase(axes, fsdp);
    return axes;
  };
  if (axes_of(weight, static_cast<size_t>(out)) == axes_of(bias, 0)) return;
  Diagnostic* d = report(n.diagnostics, Code::TP5156, n.plan.rules[rule].key_span, fmt::format("{}", rule));
  if (d == nullptr) return;
  d->counted = "module";
  d->message = fmt::format("the bias of `{}` is not cut as the outputs of its weight are", module.path);
  d->notes.push_back({"a rank adds it to outputs that it does not belong to", span_of(n.graph, n.graph.params[bias])});
  d->help = "name the module instead of its weight, or give the bias the same cut";
}

bool cuts_sequence(const PlanRule& rule) {
  if (rule.style == nullptr || rule.style->name == "sequence_parallel") return false;
  const auto sequence = [](const std::optional<std::vector<Layout>>& layouts) {
    return layouts && std::any_of(layouts->begin(), layouts->end(), [](const Layout& layout) {
             return layout && layout->kind == PlacementKind::Shard && layout->dim >= 0;
           });
  };
  const auto named = [](const std::optional<KwargLayouts>& layouts) {
    return layouts && std::any_of(layouts->begin(), layouts->end(), [](const auto& entry) {
             return entry.second && entry.second->kind == PlacementKind::Shard && entry.second->dim >= 0;
           });
  };
  const RuleOptions& o = rule.options;
  return sequence(o.output_layouts) || sequence(o.desired_output_layouts) || sequence(o.desired_input_layouts) ||
         named(o.desired_input_kwarg_layouts);
}

void check_sequence(const Neighbours& n) {
  if (std::any_of(n.plan.rules.begin(), n.plan.rules.end(), cuts_sequence)) return;
  for (const BoundaryMatch& match : n.matches.boundaries) {
    const PlanRule& rule = n.plan.rules[match.rule];
    if (rule.style == nullptr || rule.style->name != "sequence_parallel") continue;
    Diagnostic* d = report(n.diagnostics, Code::TP5155, rule.value_span, "sequence");
    if (d == nullptr) continue;
    d->counted = "module";
    d->message =
        fmt::format("`{}` takes its input for a piece of the sequence, and nothing in this plan cuts the sequence",
                    n.graph.modules[match.module].path);
    d->notes.push_back({"what comes in is whole: gradients are summed as many times as there are ranks",
                        span_of(n.graph, n.graph.modules[match.module])});
    d->help = "let the layers before it leave Shard(1) (`output_layouts`), or leave this rule out";
  }
}

Neighbours look_around(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                       const ShardingTable& shardings, Diagnostics& diagnostics) {
  Neighbours n{plan, graph, matches, shardings, diagnostics, {}, {}};
  n.rules.assign(graph.modules.size(), kNoRule);
  n.closed.assign(graph.modules.size(), false);
  for (const BoundaryMatch& match : matches.boundaries) {
    const StyleRow* style = plan.rules[match.rule].style;
    if (style == nullptr) continue;
    if (!style->cut_dim.empty())
      n.rules[match.module] = match.rule;
    else if (style->output.used && style->name != "sequence_parallel")
      n.closed[match.module] = true;
  }
  return n;
}

}  // namespace

void check_neighbours(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                      const ShardingTable& shardings, Diagnostics& diagnostics) {
  const Neighbours n = look_around(plan, graph, matches, shardings, diagnostics);
  check_pairs(n);
  check_sequence(n);
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    const std::string_view leaf = leaf_of(graph, module.path);
    if (module.kind == ModuleKind::Linear) {
      check_bias(n, id);
      for (const AlikeRow& row : kAlike) {
        if (row.leaves[0] == leaf) check_alike(n, id, row);
      }
    }
    if (module.kind == ModuleKind::Experts) check_experts(n, id);
    if (module.kind == ModuleKind::Embedding) check_embedding(n, id);
  }
}

}  // namespace tpplan
