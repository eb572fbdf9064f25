#include "infer/check_pairs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/module_kinds.h"

namespace tpplan {
namespace {

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

}  // namespace

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

}  // namespace tpplan
