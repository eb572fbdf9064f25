#include "resolve/dialects/match_paths.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <unordered_map>

#include "resolve/match/key_hits.h"
#include "resolve/match/pattern.h"
#include "resolve/match/rule_scopes.h"
#include "resolve/match/select_modules.h"

namespace tpplan {
namespace {

// How exactly a key names a parameter; the lower rank takes precedence. An exact key in a block still matches many
// modules, so it ranks below an exact full path.
enum Rank : uint8_t {
  ExactParam,
  ExactModule,
  BlockExactParam,
  BlockExactModule,
  ParamPattern,
  ModulePatternRank,
  kRanks
};

struct ScopeMatcher {
  bool is_block = false;
  std::vector<RuleId> exact;     // sorted by key text
  std::vector<RuleId> patterns;  // by index into `set`
  PatternSetPtr set;
  std::vector<int> hits;  // matches of the last path, a member only to reuse its memory
};

// Rules that match a path, by rank.
using Candidates = std::array<std::vector<RuleId>, kRanks>;

ScopeMatcher make_matcher(const TpPlan& plan, const RuleScope& scope, bool is_block, Diagnostics& diagnostics) {
  ScopeMatcher matcher{.is_block = is_block, .exact = {}, .patterns = {}, .set = {}, .hits = {}};
  const bool globs = plan.dialect->keys == KeySyntax::Glob;
  std::vector<std::string> expressions;
  for (const RuleId id : scope.rules) {
    const std::string& key = plan.rules[id].key;
    if (globs && !is_glob(key)) {
      matcher.exact.push_back(id);
      continue;
    }
    matcher.patterns.push_back(id);
    expressions.push_back(key);
  }
  std::vector<std::string> faults;
  matcher.set = globs ? compile_globs(expressions) : compile_patterns(expressions, PatternAnchor::Whole, &faults);
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i].empty()) continue;
    report_message(diagnostics, Code::InvalidPattern, plan.rules[matcher.patterns[i]].key_span,
                   fmt::format("pattern cannot be compiled: {}", faults[i]),
                   regex_help(plan.rules[matcher.patterns[i]].key, faults[i],
                              "remove lookaround and backreferences, which RE2 does not support"));
  }
  std::stable_sort(matcher.exact.begin(), matcher.exact.end(),
                   [&](RuleId a, RuleId b) { return plan.rules[a].key < plan.rules[b].key; });
  return matcher;
}

// Adds the rules of a scope whose keys match `relative` to `found`: exact keys at `exact_rank`, or the block's rank for
// it; patterns at `pattern_rank`.
void collect(ScopeMatcher& matcher, const TpPlan& plan, std::string_view relative, Rank exact_rank, Rank pattern_rank,
             Candidates& found) {
  const auto less = [&](RuleId id, std::string_view text) { return plan.rules[id].key < text; };
  for (auto at = std::lower_bound(matcher.exact.begin(), matcher.exact.end(), relative, less);
       at != matcher.exact.end() && plan.rules[*at].key == relative; ++at) {
    found[matcher.is_block ? exact_rank + 2 : exact_rank].push_back(*at);
  }
  find_matches(*matcher.set, relative, matcher.hits);
  for (const int hit : matcher.hits) found[pattern_rank].push_back(matcher.patterns[static_cast<size_t>(hit)]);
}

// The rules that match each module, or each parameter, in scope order: those of id i are rules[begins[i]] up to
// rules[begins[i + 1]].
struct RulesById {
  std::vector<uint32_t> begins;
  std::vector<RuleId> rules;
};

template <typename Id>
RulesById rules_by_id(size_t count, std::span<const RuleId> order, std::span<const NamedPaths* const> named,
                      std::vector<Id> NamedPaths::*ids) {
  RulesById by;
  by.begins.assign(count + 2, 0);
  for (const RuleId rule : order) {
    for (const Id id : named[rule]->*ids) ++by.begins[id + 2];
  }
  for (size_t i = 2; i < by.begins.size(); ++i) by.begins[i] += by.begins[i - 1];
  by.rules.resize(by.begins.back());
  for (const RuleId rule : order) {
    for (const Id id : named[rule]->*ids) by.rules[by.begins[id + 1]++] = rule;
  }
  return by;
}

// Matches from the KeyHits cache, which replace those of ScopeMatcher.
struct FoundNames {
  RulesById modules, params;
  std::vector<bool> is_exact;  // by rule
};

FoundNames find_names(const TpPlan& plan, const ModelGraph& graph, const KeyHits& hits,
                      std::span<const NamedPaths* const> named, Diagnostics& diagnostics) {
  PathHints hints{.graph = graph};
  for (const ModulePattern& block : plan.blocks) {
    if (modules_of_block(hits, block).empty()) report_dead_pattern(hints, block, "block", diagnostics);
  }
  std::vector<RuleId> order(plan.rules.size());
  for (RuleId id = 0; id < order.size(); ++id) order[id] = id;
  const auto scope_of = [&](RuleId id) { return plan.rules[id].block == kNoRule ? 0 : plan.rules[id].block + 1; };
  std::stable_sort(order.begin(), order.end(), [&](RuleId a, RuleId b) { return scope_of(a) < scope_of(b); });
  FoundNames found{.modules = rules_by_id(graph.modules.size(), order, named, &NamedPaths::modules),
                   .params = rules_by_id(graph.params.size(), order, named, &NamedPaths::params),
                   .is_exact = {}};
  for (const PlanRule& rule : plan.rules) found.is_exact.push_back(!is_glob(rule.key));
  return found;
}

void collect(const FoundNames& names, const RulesById& by, uint32_t id, const TpPlan& plan, Rank exact_rank,
             Rank pattern_rank, Candidates& found) {
  for (uint32_t i = by.begins[id]; i < by.begins[id + 1]; ++i) {
    const RuleId rule = by.rules[i];
    const size_t exact = plan.rules[rule].block == kNoRule ? exact_rank : exact_rank + 2;
    found[names.is_exact[rule] ? exact : size_t{pattern_rank}].push_back(rule);
  }
}

bool shards_parameters(const PlanRule& rule) { return rule.style == nullptr || rule.style->touches_parameters; }

// Two equally exact rules for a parameter, with the first such path and their count. Thousands of parameters may share
// a pair, and plans may have millions of pairs. Only the first pairs are listed (kMaxListedPerCode), and the last of
// them counts the others.
struct Clash {
  RuleId first, second;
  bool agree;
  std::string path;
  uint64_t times = 0;
};
struct Clashes {
  std::vector<Clash> list;
  std::unordered_map<uint64_t, size_t> index;  // by the two rule ids
  size_t listed[2] = {};                       // by `agree`
  size_t others[2] = {};                       // by `agree`: index of the clash that counts further pairs
};

void note_clash(Clashes& clashes, RuleId first, RuleId second, bool agree, std::string_view path) {
  const uint64_t pair = uint64_t{first} << 32 | second;
  const auto known = clashes.index.find(pair);
  if (known != clashes.index.end()) {
    ++clashes.list[known->second].times;
  } else if (clashes.listed[agree] > kMaxListedPerCode) {
    ++clashes.list[clashes.others[agree]].times;
  } else {
    clashes.index.emplace(pair, clashes.list.size());
    clashes.others[agree] = clashes.list.size();
    ++clashes.listed[agree];
    clashes.list.push_back({first, second, agree, std::string(path), 1});
  }
}

// Returns the rule with the most exact rank, and records clashes within that rank. Within a rank the first rule of the
// plan applies, so later phases have a unique result.
ParamMatch resolve(const TpPlan& plan, const Candidates& found, std::string_view path, MatchTable& table,
                   Clashes& clashes) {
  for (size_t rank = 0; rank < kRanks; ++rank) {
    RuleId winner = kNoRule;
    for (const RuleId id : found[rank]) {
      if (shards_parameters(plan.rules[id])) winner = std::min(winner, id);
    }
    if (winner == kNoRule) continue;
    for (const RuleId id : found[rank]) {
      if (id == winner || !shards_parameters(plan.rules[id])) continue;
      const bool agree = has_same_effect(plan.rules[winner], plan.rules[id]);
      table.rules[id].clashes = true;
      note_clash(clashes, winner, id, agree, path);
    }
    return {.rule = winner, .by_module = rank == ExactModule || rank == BlockExactModule || rank == ModulePatternRank};
  }
  return {};
}

void append(Candidates& to, const Candidates& from) {
  for (size_t rank = 0; rank < kRanks; ++rank) to[rank].insert(to[rank].end(), from[rank].begin(), from[rank].end());
}

bool has_several(const Candidates& candidates) {
  return std::any_of(candidates.begin(), candidates.end(), [](const auto& rank) { return rank.size() > 1; });
}

void clear(Candidates& candidates) {
  for (auto& rank : candidates) rank.clear();
}

// Removes parameter patterns that also match the module's path, because they count as module keys. `module_keys` are
// the pattern rules of the module, ascending.
void drop_module_keys(Candidates& found, const std::vector<RuleId>& module_keys) {
  std::erase_if(found[ParamPattern],
                [&](RuleId id) { return std::binary_search(module_keys.begin(), module_keys.end(), id); });
}

// Adds a boundary for each prepare_* rule of the module, and for the most exact style that acts on the module. A style
// acts if it applies to one of the module's parameters, or if it counts modules.
void add_boundaries(const TpPlan& plan, const ModelGraph& graph, ModuleId id, const Candidates& by_module,
                    MatchTable& table) {
  RuleId winner = kNoRule;
  for (const auto& rank : by_module) {
    for (const RuleId rule : rank) {
      const StyleRow* style = plan.rules[rule].style;
      if (style == nullptr) continue;
      if (!style->touches_parameters) {
        ++table.rules[rule].modules;
        table.boundaries.push_back({id, rule});
        continue;
      }
      const Module& module = graph.modules[id];
      const auto params = std::span(table.params).subspan(module.first_param, module.param_count);
      const bool acts = style->counts_modules || std::any_of(params.begin(), params.end(),
                                                             [rule](const ParamMatch& p) { return p.rule == rule; });
      if (style->counts_modules) ++table.rules[rule].modules;
      if (winner == kNoRule && acts) winner = rule;
    }
  }
  if (winner != kNoRule) table.boundaries.push_back({id, winner});
}

}  // namespace

void match_paths(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics,
                 KeyHits* hits) {
  std::optional<FoundNames> names;
  if (hits != nullptr && plan.dialect->keys == KeySyntax::Glob) {
    if (const auto named = matches_by_rule(*hits, plan, graph))
      names = find_names(plan, graph, *hits, *named, diagnostics);
  }
  const RuleScopes scopes = names ? RuleScopes{} : rule_scopes(plan, graph, diagnostics);
  std::vector<ScopeMatcher> matchers(scopes.list.size());
  for (size_t i = 0; i < matchers.size(); ++i) {
    if (!scopes.list[i].rules.empty()) matchers[i] = make_matcher(plan, scopes.list[i], i > 0, diagnostics);
  }
  const bool any_module_rule = std::any_of(plan.rules.begin(), plan.rules.end(), [](const PlanRule& rule) {
    return rule.style != nullptr && rule.style->counts_modules;
  });
  Candidates by_module, found;
  std::vector<RuleId> module_keys;
  Clashes clashes;
  std::vector<ParamId> counted_for(plan.rules.size(), kNone);  // by rule: last counted parameter
  std::vector<EnclosingScope> enclosing;
  std::string path;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (module.param_count == 0 && !any_module_rule) continue;
    if (!names) enclosing_scopes(graph, scopes, id, enclosing);
    clear(by_module);
    if (names) collect(*names, names->modules, id, plan, ExactModule, ModulePatternRank, by_module);
    for (const EnclosingScope at : enclosing) {
      collect(matchers[at.scope], plan, relative_path(graph, at, module.path), ExactModule, ModulePatternRank,
              by_module);
    }
    module_keys = by_module[ModulePatternRank];
    std::sort(module_keys.begin(), module_keys.end());
    for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
      clear(found);
      if (names) collect(*names, names->params, param, plan, ExactParam, ParamPattern, found);
      if (!names) assign_path(path, graph, graph.params[param]);
      for (const EnclosingScope at : enclosing)
        collect(matchers[at.scope], plan, relative_path(graph, at, path), ExactParam, ParamPattern, found);
      drop_module_keys(found, module_keys);
      append(found, by_module);
      if (names && has_several(found)) assign_path(path, graph, graph.params[param]);
      table.params[param] = resolve(plan, found, path, table, clashes);
      if (table.params[param].rule != kNoRule) ++table.rules[table.params[param].rule].governed;
      // A rule that matches the module and the parameter is counted once.
      for (const auto& rank : found) {
        for (const RuleId rule : rank) {
          if (counted_for[rule] == param || !shards_parameters(plan.rules[rule])) continue;
          counted_for[rule] = param;
          ++table.rules[rule].parameters;
        }
      }
    }
    add_boundaries(plan, graph, id, by_module, table);
  }
  for (const Clash& clash : clashes.list)
    report_equal_rules(plan, clash.first, clash.second, clash.path, clash.agree, diagnostics, clash.times);
}

}  // namespace tpplan
