#include "resolve/infer/apply_init.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

using enum ModuleKind;

// Default initialization of the parameters of a kind of module. The first matching row applies.
struct DefaultRow {
  ModuleKind kind;
  std::string_view ending;  // of the parameter's name; empty: any
  size_t min_dims;
  Distribution distribution;
};

constexpr Distribution kZeros{DistributionKind::Zeros, {}}, kOnes{DistributionKind::Ones, {}},
    kNormal{DistributionKind::Normal, {0, 0.02}};
constexpr DefaultRow kDefaults[] = {
    {Norm, "bias", 0, kZeros},      {Norm, "beta", 0, kZeros},    {Norm, "weight", 0, kOnes},
    {Norm, "scale", 0, kOnes},      {Norm, "gamma", 0, kOnes},    {Linear, "bias", 0, kZeros},
    {Embedding, "bias", 0, kZeros}, {Experts, "bias", 0, kZeros}, {Linear, "", 2, kNormal},
    {Embedding, "", 2, kNormal},    {Experts, "", 2, kNormal},
};

const Distribution* default_of(const ModelGraph& graph, const Param& param) {
  if (param.is_buffer || !is_compute_dtype(param.dtype)) return nullptr;
  const ModuleKind kind = graph.modules[param.module].kind;
  const auto fits = [&](const DefaultRow& row) {
    return row.kind == kind && param.name.ends_with(row.ending) && param.ndim >= row.min_dims;
  };
  const auto found = std::find_if(std::begin(kDefaults), std::end(kDefaults), fits);
  return found == std::end(kDefaults) ? nullptr : &found->distribution;
}

uint32_t intern(InitTable& table, const Distribution& distribution) {
  const auto known = std::find(table.distributions.begin(), table.distributions.end(), distribution);
  const auto index = static_cast<uint32_t>(known - table.distributions.begin());
  if (known == table.distributions.end()) table.distributions.push_back(distribution);
  return index;
}

void choose(const TpPlan& plan, const ModelGraph& graph, const Param& param, ParamInit& init, InitTable& table) {
  const Distribution* fallback = default_of(graph, param);
  if (init.entry != kNone)
    init.distribution = intern(table, plan.init[init.entry].distribution);
  else if (fallback != nullptr)
    init.distribution = intern(table, *fallback);
}

// Reports entries that match and have no effect. match_patterns has reported entries without a match.
void report_idle(const TpPlan& plan, const PatternMatches& matches, const InitTable& table, Diagnostics& diagnostics) {
  std::vector<bool> has_effect(plan.init.size());
  for (const auto* inits : {&table.params, &table.buffers}) {
    for (const ParamInit& init : *inits) {
      if (init.entry != kNone) has_effect[init.entry] = true;
    }
  }
  for (size_t i = 0; i < has_effect.size(); ++i) {
    if (has_effect[i] || matches.of_init[i].matched == 0) continue;
    report_message(diagnostics, Code::UnusedInitPattern, plan.init[i].pattern.span,
                   fmt::format("init pattern `{}` has no effect: other patterns apply to everything that it matches",
                               plan.init[i].pattern.text),
                   "move it above the more general patterns, because the first match applies, or remove it");
  }
}

}  // namespace

InitTable apply_init(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                     const ShardingTable& shardings, Diagnostics& diagnostics) {
  InitTable table;
  table.params.resize(graph.params.size());
  table.buffers.resize(graph.buffers.size());
  const PatternMatches& patterns = matches.patterns;
  for (size_t i = 0; i < patterns.init_params.size(); ++i) table.params[i].entry = patterns.init_params[i];
  for (size_t i = 0; i < patterns.init_buffers.size(); ++i) table.buffers[i].entry = patterns.init_buffers[i];
  // A leader without an entry uses the entry of a follower, and followers copy the leader's result. Otherwise names of
  // one tensor could be initialized differently.
  for (const auto& [follower, leader] : shardings.followers) {
    if (table.params[leader].entry == kNone) table.params[leader].entry = table.params[follower].entry;
  }
  std::vector<bool> follows(graph.params.size());
  for (const auto& [follower, leader] : shardings.followers) follows[follower] = true;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    if (!follows[id]) choose(plan, graph, graph.params[id], table.params[id], table);
  }
  for (const auto& [follower, leader] : shardings.followers) table.params[follower] = table.params[leader];
  for (size_t i = 0; i < graph.buffers.size(); ++i) choose(plan, graph, graph.buffers[i], table.buffers[i], table);
  report_idle(plan, patterns, table, diagnostics);
  return table;
}

}  // namespace tpplan
