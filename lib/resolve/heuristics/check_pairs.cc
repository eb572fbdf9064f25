#include "resolve/heuristics/check_pairs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "model/mlp_roles.h"
#include "model/module_kinds.h"
#include "model/name_subject.h"

namespace tpplan {
namespace {

// Layers of one rule without a partner so far.
struct Pending {
  RuleId rule = kNoRule;
  ModuleId first = 0;
  uint64_t count = 0;
};
struct Unpaired {
  std::vector<Pending> outputs, inputs;
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
  for (const Pending& pending : more.outputs) add(all.outputs, pending);
  for (const Pending& pending : more.inputs) add(all.inputs, pending);
  all.layers += more.layers;
}

void report_unpaired(const Neighbours& n, const Pending& pending, bool has_no_reader) {
  const PlanRule& rule = n.plan.rules[pending.rule];
  const Module& module = n.graph.modules[pending.first];
  Diagnostic* d = report(n.diagnostics, has_no_reader ? Code::ShardsWithoutReader : Code::ShardsWithoutSource,
                         rule.value_span, fmt::format("{}", pending.rule));
  if (d == nullptr) return;
  d->counted = "module";
  name_subject(*d, module);
  d->message =
      has_no_reader
          ? fmt::format("the output of `{}` stays sharded, but no layer next to it expects a sharded input",
                        module.path)
          : fmt::format("`{}` expects a sharded input, but no layer next to it has a sharded output", module.path);
  d->notes.push_back({has_no_reader ? "the next layer has replicated weights and receives only a shard of the values"
                                    : "its input is replicated: a matmul of the full input with a weight shard fails",
                      span_of(n.graph, module)});
  d->help = has_no_reader ? "shard the next layer with rowwise, or " : "shard the layer before it with colwise, or ";
  d->help += has_no_reader ? replicate_help(n.plan, "colwise_gather_output", "output_layouts")
                           : replicate_help(n.plan, "rowwise_split_input", "input_layouts");
}

// Reports a layer that expects shards, as the down projection that its name denotes, although by its sizes it is an up
// projection and reads the hidden state.
void report_up_as_down(const Neighbours& n, ModuleId id) {
  const PlanRule& rule = n.plan.rules[n.rules[id]];
  const Module& module = n.graph.modules[id];
  Diagnostic* d = report(n.diagnostics, Code::ShardsWithoutSource, rule.value_span, fmt::format("up/{}", n.rules[id]));
  if (d == nullptr) return;
  d->counted = "module";
  name_subject(*d, module);
  const LinearSizes sizes = sizes_of_linear(n.graph, id);
  d->message = fmt::format(
      "`{}` expects a sharded input, but its sizes ({} to {} features) are those of the layer "
      "before an activation, which reads the replicated hidden state",
      module.path, sizes.in, sizes.out);
  d->notes.push_back({"the up projection beside it has the same sizes", span_of(n.graph, module)});
  const ModuleId down = find_down(n.graph, id);
  d->help = fmt::format("shard `{}` with colwise", leaf_of(n.graph, module.path));
  if (down != kNone) d->help += fmt::format(", and `{}` with rowwise", leaf_of(n.graph, n.graph.modules[down].path));
}

void report_unpaired(const Neighbours& n, const Unpaired& here) {
  for (const Pending& pending : here.outputs) {
    for (uint64_t i = 0; i < pending.count; ++i) report_unpaired(n, pending, true);
  }
  for (const Pending& pending : here.inputs) {
    for (uint64_t i = 0; i < pending.count; ++i) report_unpaired(n, pending, false);
  }
}

// The children of each module as linked lists in file order. kNone ends a list.
struct ChildLists {
  std::vector<ModuleId> first;  // by parent
  std::vector<ModuleId> next;   // by child
};

ChildLists list_children(const ModelGraph& graph) {
  ChildLists children;
  children.first.assign(graph.modules.size(), kNone);
  children.next.assign(graph.modules.size(), kNone);
  for (auto id = static_cast<ModuleId>(graph.modules.size()); id-- > 0;) {
    const ModuleId parent = parent_of(graph, id);
    if (parent == kNone) continue;
    children.next[id] = children.first[parent];
    children.first[parent] = id;
  }
  return children;
}

struct PairCheck {
  const Neighbours& n;
  const ChildLists children;
  std::vector<Unpaired> unpaired;  // by depth: the unpaired layers below the visited module of that depth
};

// Visits the children of module `id`, then the module. Adds its unpaired layers to those of its parent. The recursion
// is limited by the length of a path (kMaxPathBytes).
void check_below(PairCheck& check, ModuleId id, size_t depth) {
  const Neighbours& n = check.n;
  if (check.unpaired.size() <= depth) check.unpaired.emplace_back();
  for (ModuleId child = check.children.first[id]; child != kNone; child = check.children.next[child])
    check_below(check, child, depth + 1);
  Unpaired& here = check.unpaired[depth];
  const ShardUse use = shard_use_of(n, id);
  if (use == ShardUse::Outputs) add(here.outputs, {n.rules[id], id, 1});
  if (use == ShardUse::Expects && is_up_by_size(n.graph, id))
    report_up_as_down(n, id);
  else if (use == ShardUse::Expects)
    add(here.inputs, {n.rules[id], id, 1});
  here.layers += n.graph.modules[id].kind == ModuleKind::Linear;
  if (use == ShardUse::None && (n.redistributes[id] || (!here.outputs.empty() && !here.inputs.empty()))) {
    here.outputs.clear();
    here.inputs.clear();
  }
  const ModuleId parent = parent_of(n.graph, id);
  if (parent == kNone || (use == ShardUse::None && is_repeated_block(n.graph, id))) {
    if (here.layers > 1) report_unpaired(n, here);
    here.outputs.clear();
    here.inputs.clear();
  }
  if (parent != kNone) add(check.unpaired[depth - 1], here);
  here.outputs.clear();
  here.inputs.clear();
  here.layers = 0;
}

}  // namespace

// Visits children before parents. Colwise and rowwise layers with a common ancestor are partners. Layers that are
// unpaired at a repeated block or at the root are reported, unless the block has only one linear layer: its successor
// is unknown.
void check_pairs(const Neighbours& n) {
  PairCheck check{.n = n, .children = list_children(n.graph), .unpaired = {}};
  for (ModuleId id = 0; id < n.graph.modules.size(); ++id) {
    if (parent_of(n.graph, id) == kNone) check_below(check, id, 0);
  }
}

}  // namespace tpplan
