#include "walk/check_data_dim.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "ops/op_rules.h"
#include "plan/dialects.h"
#include "resolve/infer/infer_boundaries.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"
#include "walk/layers/model_tables.h"
#include "walk/runtimes.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"
#include "walk/state/value_uses.h"
#include "walk/state/walk_memory.h"
#include "walk/state/walk_state.h"
#include "walk/walk_forward.h"

namespace tpplan {
namespace {

// Returns the size of the data dim: that of the first input that has it; 0 if none has.
int64_t data_size_of(const OpGraph& graph, int dim) {
  for (const GraphLeaf& leaf : graph.leaves) {
    const auto shape = shape_of(graph, leaf.value);
    if (leaf.kind == LeafKind::Input && static_cast<size_t>(dim) < shape.size()) return shape[static_cast<size_t>(dim)];
  }
  return 0;
}

// Returns the smallest number of ranks that divides the size; 1 if it has no such divisor below 100.
int64_t ranks_for(int64_t size) {
  for (int64_t ranks = 2; ranks < 100; ++ranks) {
    if (size % ranks == 0 && size > 0) return ranks;
  }
  return 1;
}

// Operations whose result has the elements of the first argument, in other dims.
bool is_rearrangement(OpId op) {
  return is_view(op) || op == OpId::Unsqueeze || op == OpId::Expand || op == OpId::To || op == OpId::GetItem;
}

// Returns by node how its results are determined. A rank indexes its samples from 0, so that a range over the batch
// that is used as an index is right. Under context_parallel() attention is right, and torch shards positions and masks
// beside the inputs. Experts compute each token separately, in whatever order they group them.
std::vector<ShardedResult> nodes_on_shards(const ModelGraph& model, const ModelTables& tables, int64_t size,
                                           SequenceAttention attention) {
  const OpGraph& graph = model.operations;
  const auto is_index = [](const GraphNode& node, bool is_first) { return node.op == OpId::GetItem && !is_first; };
  const auto passes = [](const GraphNode& node, bool is_first) { return is_first && is_rearrangement(node.op); };
  const std::vector<bool> used = has_other_uses(graph, graph.outputs, is_index, passes);
  std::vector<bool> is_range(graph.values.size());
  std::vector<ShardedResult> nodes(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    for (const Crossing& crossing : crossings_of(graph, node)) is_range[crossing.to] = is_range[crossing.from];
    if (node.kind == NodeKind::Enter && model.modules[tables.module_of_string[node.name]].kind == ModuleKind::Experts)
      nodes[i] = ShardedResult::Skip;
    if (node.kind != NodeKind::Op || node.out_begin == node.out_end) continue;
    const ValueId result = graph.outs[node.out_begin];
    const auto shape = shape_of(graph, result);
    bool is_first = true, rearranges = false, indexes = false;
    each_arg(graph, node, [&](const GraphArg& arg) {
      if (arg.kind != ArgKind::Value) return;
      (is_first ? rearranges : indexes) |= is_range[arg.id];
      is_first = false;
    });
    const bool is_number = is_trainable(dtype_of(graph.strings[graph.values[result].dtype]));
    if (node.op == OpId::Arange && !used[result] && shape[0] == size) {
      nodes[i] = ShardedResult::Range;
      is_range[result] = true;
    } else if (indexes && node.op == OpId::GetItem) {
      nodes[i] = ShardedResult::Right;
    } else if (rearranges && is_rearrangement(node.op)) {
      is_range[result] = true;
    } else if (attention != SequenceAttention::Local && (op_row(node.op).rule == rule_attention || !is_number)) {
      nodes[i] = ShardedResult::Right;
    }
  }
  return nodes;
}

ShardingTable replicated_table(const ModelGraph& model) {
  ShardingTable table;
  table.params.resize(model.params.size());
  for (ParamId id = 0; id < model.params.size(); ++id)
    table.params[id].sharding = intern(table, {.spec = replicated_spec(model.params[id].ndim), .segments = {}});
  return table;
}

void report_data_dim(const TpPlan& plan, const ModelGraph& model, const Cause& cause, Diagnostics& diagnostics) {
  const bool is_norm = cause.op == "batch_norm";
  Diagnostic* d =
      report(diagnostics, is_norm ? Code::BatchNormOfShard : Code::DataDimCombined, plan.data->dim_span, "data");
  if (d == nullptr) return;
  std::vector<std::string> names;
  for (const AxisId axis : plan.data->axes) names.push_back(fmt::format("`{}`", axis_name(plan.mesh, axis)));
  const std::string axes = join(names, ", ");
  const std::string path(cause.module == kNone ? std::string_view{} : model.modules[cause.module].path);
  const std::string place = path.empty() ? std::string("the model") : fmt::format("`{}`", path);
  d->module = path;
  if (is_norm) {
    d->message = fmt::format(
        "{} computes its statistics over the local batch: {} shards dim {}, and each rank "
        "normalizes with values of its own",
        place, axes, plan.data->dim);
    d->help = "use torch.nn.SyncBatchNorm for statistics of the global batch, or allow this code";
    return;
  }
  d->message = fmt::format("{} combines elements along dim {}, which `data` shards over {}: {}", place, plan.data->dim,
                           axes, cause.reason);
  d->notes.push_back(
      {"a batch dim has elements that no operation combines; here each rank computes other values than "
       "one process with all data",
       {}});
  d->help = plan.data->dim == 0 ? "leave this axis out of `data.axes`, or move the operation out of the model"
                                : "write `dim: 0` if the batch comes first; if the step runs under torch's "
                                  "context_parallel(), write `attention: ring` or `all_to_all`; otherwise leave this "
                                  "axis out of `data.axes`";
}

// Walks the forward pass of the unsharded model on parts of the data. Returns why an output is wrong; empty if none is.
std::optional<Cause> find_cause(const ModelGraph& model, const ModelTables& tables, const DataSharding& data) {
  const OpGraph& graph = model.operations;
  const int64_t size = data_size_of(graph, data.dim), ranks = ranks_for(size);
  if (ranks == 1) return std::nullopt;
  TpPlan unsharded;
  unsharded.mesh.axes.push_back({.name = "data", .size = ranks});
  const MatchTable matches{.params = std::vector<ParamMatch>(model.params.size()),
                           .boundaries = {},
                           .rules = {},
                           .dim_rules = {},
                           .patterns = {}};
  const ShardingTable shardings = replicated_table(model);
  const BoundaryTable boundaries;
  const WalkInput input{.plan = unsharded,
                        .model = model,
                        .graph = graph,
                        .matches = matches,
                        .shardings = shardings,
                        .boundaries = boundaries,
                        .model_tables = tables,
                        .runtime = runtime_row(PlanRuntime::Transformers),
                        .axes = {0},
                        .data_axes = {},
                        .ranks = static_cast<size_t>(ranks),
                        .infer = true,
                        .loss = {},
                        .data_dim = data.dim,
                        .data_size = size,
                        .sharded_result_of = nodes_on_shards(model, tables, size, data.attention)};
  Diagnostics unused;
  WalkMemory memory;
  WalkOutput output{.diagnostics = unused};
  Walk walk{.in = input, .memory = memory, .out = output};
  begin_walk(walk);
  walk_forward(walk);
  if (output.crash != kNoId) return std::nullopt;
  for (const ValueId value : graph.outputs) {
    const SlotId slot = walk.memory.slot_of[value];
    const uint32_t cause = walk.memory.slots[slot].cause;
    if (!layout_of(walk, slot).wrong || cause == kNoId) continue;
    return output.causes[cause];
  }
  return std::nullopt;
}

}  // namespace

void check_data_dim(const TpPlan& plan, const ModelGraph& model, const ModelTables& tables, DataDimCauses& known,
                    Diagnostics& diagnostics) {
  const auto [place, is_new] = known.try_emplace({plan.data->dim, plan.data->attention});
  if (is_new) place->second = find_cause(model, tables, *plan.data);
  if (place->second) report_data_dim(plan, model, *place->second, diagnostics);
}

}  // namespace tpplan
