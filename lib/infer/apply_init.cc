#include "infer/apply_init.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "match/nearest_path.h"
#include "match/pattern.h"

namespace tpplan {
namespace {

using enum ModuleKind;

struct Filler {
  const TpPlan& plan;
  const ModelGraph& graph;
  InitTable& table;
  PatternSetPtr patterns;              // nullptr: the plan has none
  std::vector<bool> matches, decides;  // of each entry
  std::string path;
  std::vector<int> hits, module_hits;
};

// What a kind of module's parameters are filled with. The first row that fits decides.
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

bool is_floating(DType dtype) {
  static constexpr std::string_view names[] = {"bfloat16", "float16", "float32", "float64"};
  return std::find(std::begin(names), std::end(names), dtypes()[dtype].name) != std::end(names);
}

const Distribution* default_of(const ModelGraph& graph, const Param& param) {
  if (param.is_buffer || !is_floating(param.dtype)) return nullptr;
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

// The entry of the plan that names the parameter or its module.
uint32_t entry_of(Filler& f, const Param& param) {
  if (f.patterns == nullptr) return kNone;
  assign_path(f.path, f.graph, param);
  find_matches(*f.patterns, f.path, f.hits);
  find_matches(*f.patterns, f.graph.modules[param.module].path, f.module_hits);
  f.hits.insert(f.hits.end(), f.module_hits.begin(), f.module_hits.end());
  if (f.hits.empty()) return kNone;
  for (const int hit : f.hits) f.matches[static_cast<size_t>(hit)] = true;
  return static_cast<uint32_t>(*std::min_element(f.hits.begin(), f.hits.end()));
}

ParamInit init_of(Filler& f, const Param& param) { return {.distribution = kNone, .entry = entry_of(f, param)}; }

void choose(Filler& f, const Param& param, ParamInit& init) {
  const Distribution* fallback = default_of(f.graph, param);
  if (init.entry != kNone) f.decides[init.entry] = true;
  if (init.entry != kNone)
    init.distribution = intern(f.table, f.plan.init[init.entry].distribution);
  else if (fallback != nullptr)
    init.distribution = intern(f.table, *fallback);
}

void report_idle(const Filler& f, Diagnostics& diagnostics) {
  PathHints hints{.graph = f.graph};
  for (size_t i = 0; i < f.decides.size(); ++i) {
    if (f.decides[i]) continue;
    const InitEntry& entry = f.plan.init[i];
    Diagnostic& d = report_message(
        diagnostics, Code::TP4011, entry.pattern.span,
        f.matches[i] ? fmt::format("init pattern `{}` decides nothing: all that it matches is decided by others",
                                   entry.pattern.text)
                     : fmt::format("init pattern `{}` matches no parameter or buffer", entry.pattern.text));
    d.help = f.matches[i] ? "the first pattern that matches decides: put it above the more general ones, or remove it"
                          : nearest_path_help(hints, entry.pattern.text, PathsOf::ModulesAndParameters);
  }
}

}  // namespace

InitTable apply_init(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& shardings,
                     Diagnostics& diagnostics) {
  InitTable table;
  Filler f{.plan = plan,
           .graph = graph,
           .table = table,
           .patterns = nullptr,
           .matches = {},
           .decides = {},
           .path = {},
           .hits = {},
           .module_hits = {}};
  if (!plan.init.empty()) {
    std::vector<std::string> expressions;
    for (const InitEntry& entry : plan.init) expressions.push_back(glob_to_regex(entry.pattern.text));
    f.patterns = compile_patterns(expressions, PatternAnchor::Whole, nullptr);
    f.matches.resize(plan.init.size());
    f.decides.resize(plan.init.size());
  }
  table.params.reserve(graph.params.size());
  for (const Param& param : graph.params) table.params.push_back(init_of(f, param));
  for (const auto& [follower, leader] : shardings.followers) {
    if (table.params[leader].entry == kNone) table.params[leader].entry = table.params[follower].entry;
  }
  std::vector<bool> follows(graph.params.size());
  for (const auto& [follower, leader] : shardings.followers) follows[follower] = true;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    if (!follows[id]) choose(f, graph.params[id], table.params[id]);
  }
  for (const auto& [follower, leader] : shardings.followers) table.params[follower] = table.params[leader];
  for (const Param& buffer : graph.buffers) {
    table.buffers.push_back(init_of(f, buffer));
    choose(f, buffer, table.buffers.back());
  }
  report_idle(f, diagnostics);
  return table;
}

}  // namespace tpplan
