#include "resolve/match/key_hits.h"

#include "resolve/match/glob.h"
#include "resolve/match/pattern.h"
#include "resolve/match/rule_scopes.h"
#include "resolve/match/select_modules.h"

namespace tpplan {
namespace {

const std::vector<ModuleId>& find_block(KeyHits& hits, const ModelGraph& graph, const ModulePattern& block) {
  const auto known = hits.blocks.find(block.text);
  if (known != hits.blocks.end()) return known->second;
  std::vector<ModuleId> modules = std::move(outermost_matches(graph, {&block, 1})[0]);
  hits.numbers += modules.size() + block.text.size();
  return hits.blocks.emplace(block.text, std::move(modules)).first->second;
}

// Returns, by module, the nearest of `bases` that contains it or is it; kNone if there is none.
std::vector<ModuleId> bases_of(const ModelGraph& graph, std::span<const ModuleId> bases) {
  std::vector<ModuleId> base_of(graph.modules.size(), kNone);
  for (const ModuleId base : bases) base_of[base] = base;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    for (ModuleId at = id; at != kNone && base_of[id] == kNone; at = parent_of(graph, at)) base_of[id] = base_of[at];
  }
  return base_of;
}

// Returns what a key matches relative to `bases`, the modules of a block; nullptr: in the whole model.
NamedPaths find_named(const ModelGraph& graph, const std::string& key, const std::vector<ModuleId>* bases) {
  const bool is_pattern = is_glob(key);
  const Glob glob = parse_glob(key);
  const std::vector<ModuleId> base_of = bases == nullptr ? std::vector<ModuleId>{} : bases_of(graph, *bases);
  NamedPaths named;
  std::string path;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    if (bases != nullptr && base_of[id] == kNone) continue;
    const EnclosingScope scope{.base = bases == nullptr ? kNone : base_of[id]};
    const auto matches = [&](std::string_view full_path) {
      const std::string_view text = relative_path(graph, scope, full_path);
      return is_pattern ? matches_glob(glob, text) : text == key;
    };
    const Module& module = graph.modules[id];
    if (matches(module.path)) named.modules.push_back(id);
    for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
      assign_path(path, graph, graph.params[param]);
      if (matches(path)) named.params.push_back(param);
    }
  }
  return named;
}

}  // namespace

std::optional<std::vector<const NamedPaths*>> matches_by_rule(KeyHits& hits, const TpPlan& plan,
                                                              const ModelGraph& graph) {
  const bool is_first_plan = hits.model != &graph;
  if (is_first_plan || hits.numbers > hits.most) hits = {.most = hits.most, .model = &graph, .blocks = {}, .keys = {}};
  if (is_first_plan) return std::nullopt;
  std::vector<const std::vector<ModuleId>*> blocks;
  for (const ModulePattern& block : plan.blocks) blocks.push_back(&find_block(hits, graph, block));
  std::vector<const NamedPaths*> named;
  named.reserve(plan.rules.size());
  std::string name;
  for (const PlanRule& rule : plan.rules) {
    const bool in_block = rule.block != kNoRule;
    const std::string_view block = in_block ? std::string_view(plan.blocks[rule.block].text) : std::string_view{};
    const size_t after_block = in_block ? block.size() + 1 : 0;
    name.assign(reinterpret_cast<const char*>(&after_block), sizeof after_block);
    name.append(block).append(rule.key);
    auto known = hits.keys.find(name);
    if (known == hits.keys.end()) {
      NamedPaths found = find_named(graph, rule.key, rule.block == kNoRule ? nullptr : blocks[rule.block]);
      hits.numbers += found.modules.size() + found.params.size() + name.size();
      known = hits.keys.emplace(name, std::move(found)).first;
      if (hits.numbers > hits.most) return std::nullopt;
    }
    named.push_back(&known->second);
  }
  return named;
}

std::span<const ModuleId> modules_of_block(const KeyHits& hits, const ModulePattern& block) {
  return hits.blocks.at(block.text);
}

}  // namespace tpplan
