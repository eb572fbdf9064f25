#include "walk/operation/loss_parallel.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "ops/op_rules.h"
#include "walk/report/loss_calls.h"
#include "walk/report/report_cause.h"
#include "walk/state/declared_placements.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"
#include "walk/state/value_uses.h"

namespace tpplan {
namespace {

bool is_inside(const DtensorRun& run) {
  return is_in_loss_parallel(run.walk, run.node.op) && !run.slots.empty() &&
         layout_of(run.walk, run.slots[0]).is_dtensor;
}

// True if one axis shards this dim of the first operand.
bool is_sharded_once(const DtensorRun& run, size_t dim) {
  const DeclaredPlacements& declared = layout_of(run.walk, run.slots[0]).declared;
  return std::ranges::count(declared, shard_of(dim)) == 1;
}

// Returns the dim of a softmax, or the dim of the classes of a loss.
size_t dim_of_classes(const DtensorRun& run) {
  const size_t dims = shape_of(run, 0).size();
  if (run.node.op != OpId::LogSoftmax) return dims > 1 ? 1 : 0;
  OpCall call = op_call_of(run.walk, run.node);
  prepare_call(call);
  return dim_index(number_at(call, 1, "dim", -1).traced, dims);
}

// True if every use of a value is an nll_loss, directly or behind views and outputs of modules, or the loss outside.
bool feeds_losses(const Walk& walk, ValueId value) {
  const OpGraph& graph = walk.in.graph;
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (static_cast<int64_t>(i) != static_cast<int64_t>(walk.in.plan.loss->given.output))
      outputs.push_back(graph.outputs[i]);
  }
  const auto is_loss = [](const GraphNode& node, bool) { return node.op == OpId::NllLoss; };
  const auto passes = [](const GraphNode& node, bool) { return is_view(node.op); };
  return !has_other_uses(graph, outputs, is_loss, passes)[value];
}

}  // namespace

bool is_in_loss_parallel(const Walk& walk, OpId op) {
  return (op == OpId::LogSoftmax || op == OpId::CrossEntropy || op == OpId::NllLoss) && walk.in.plan.loss &&
         walk.in.plan.loss->cross_entropy == CrossEntropy::Parallel;
}

bool is_parallel_loss(const DtensorRun& run) {
  if (!is_inside(run)) return false;
  const bool follows_softmax =
      run.node.op == OpId::NllLoss && is_fully_replicated(layout_of(run.walk, run.slots[0]).declared);
  return follows_softmax || is_sharded_once(run, dim_of_classes(run));
}

// The layouts are those of gathered logits, so that a later nll_loss has a replicated operand. The calls are those of
// loss_parallel(), listed at the softmax.
void run_parallel_loss(DtensorRun& run) {
  Walk& walk = run.walk;
  const SlotId logits = run.slots[0];
  const size_t calls = walk.out.calls.size();
  run.declared = replicated_placements(walk);
  for (size_t i = 0; i < run.slots.size(); ++i) redistribute_operand(run, i, run.declared);
  walk.out.calls.resize(calls);
  walk.out.call_modules.resize(calls);
  if (!is_fully_replicated(layout_of(walk, logits).declared)) append_loss_calls(walk, logits, current_module(walk));
  if (walk.out.crash == kNoId) compute_result(run);
}

void check_log_softmax(const DtensorRun& run) {
  Walk& walk = run.walk;
  if (!is_inside(run) || walk.in.infer || !walk.memory.slots[run.slots[0]].requires_grad) return;
  OpCall call = op_call_of(walk, run.node);
  prepare_call(call);
  const bool is_smoothed = run.node.op == OpId::CrossEntropy && [&] {
    const GraphArg* smoothing = find_arg(call, 7, "label_smoothing");
    return smoothing != nullptr && smoothing->number != 0;
  }();
  if (!is_sharded_once(run, dim_of_classes(run))) return;
  const bool is_softmax = run.node.op == OpId::LogSoftmax;
  if (is_softmax ? feeds_losses(walk, walk.in.graph.outs[run.node.out_begin]) : !is_smoothed) return;
  report_cause(walk,
               {.code = Code::LossParallelGradient,
                .reason = fmt::format("{} of class shards has a wrong gradient: in loss_parallel() the backward of "
                                      "log_softmax is that of cross_entropy",
                                      is_smoothed ? "cross_entropy with label_smoothing" : "log_softmax"),
                .op = std::string(run.name),
                .module = current_module(walk),
                .rule = run.rule,
                .layouts = {},
                .help = is_smoothed ? "set `label_smoothing` to 0, or leave loss_parallel() and gather the logits"
                                    : "write `x - torch.logsumexp(x, -1, keepdim=True)` in place of log_softmax"},
               FirstFailure::Gradient);
}

}  // namespace tpplan
