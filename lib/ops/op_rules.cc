#include "ops/op_rules.h"

#include <algorithm>

#include "ops/factor_rules.h"

namespace tpplan {

void prepare_call(OpCall& call) {
  call.name = plain_op(call.graph.strings[call.node.name]);
  call.args.clear();
  for (uint32_t i = call.node.args_begin; i < call.node.args_end; i = call.graph.args[i].end) call.args.push_back(i);
}

OpResult run_rule(OpCall& call) {
  OpResult result;
  prepare_call(call);
  result.is_write = call.node.in_place;
  const size_t outs = call.node.out_end - call.node.out_begin;
  const auto graph_rule = std::find_if(call.graph.rules.begin(), call.graph.rules.end(),
                                       [&](const auto& rule) { return rule.first == call.name; });
  if (graph_rule != call.graph.rules.end())
    apply_factors(call, result, graph_rule->second, tensors_of(call));
  else if (const OpRule rule = op_row(call.node.op).rule)
    rule(call, result);
  else
    result.unknown = true;
  // Results that the rule did not set, or with another number of dims than traced, are unknown.
  if (result.outs.size() > outs) result.outs.resize(outs);
  for (size_t i = 0; i < outs; ++i) {
    if (i < result.outs.size() && result.outs[i].dims.size() == out_shape(call, i).size()) continue;
    const bool has_error = !result.crash.empty() || !result.wrong.empty();
    result.unknown = result.unknown || !has_error;
    ValueLayout replicated = replicated_layout(call.table, out_shape(call, i));
    if (i < result.outs.size())
      result.outs[i] = std::move(replicated);
    else
      result.outs.push_back(std::move(replicated));
  }
  return result;
}

}  // namespace tpplan
