#include "search/search_space.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "plan/read_plan.h"
#include "resolve/infer/check_coverage.h"
#include "suggest/unit_strategies.h"

namespace tpplan {
namespace {

constexpr std::string_view kReplicate = "replicate";

// How the model calls a module: the place of its hidden states among the arguments, and the number of results.
struct CallShape {
  bool is_there = false;
  int32_t position = -1;  // -1: the keyword argument `key`
  std::string_view key{};
  size_t results = 0;  // elements of the tuple that it returns; 0: a single value
};

bool is_activation(const OpGraph& graph, const Crossing& crossing) {
  const GraphValue& value = graph.values[crossing.to];
  return value.requires_grad && graph.shapes[value.shape].ndim == 3;
}

CallShape call_shape(const OpGraph& graph, std::string_view path) {
  CallShape call;
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == NodeKind::Op || graph.strings[node.name] != path) continue;
    const std::span<const Crossing> crossings = crossings_of(graph, node);
    if (node.kind == NodeKind::Enter) {
      const auto hidden =
          std::ranges::find_if(crossings, [&](const Crossing& c) { return c.depth == 1 && is_activation(graph, c); });
      if (hidden == crossings.end()) return call;
      call.position = hidden->position;
      call.key = hidden->key;
      continue;
    }
    const bool is_tuple = node.args_begin < node.args_end && graph.args[node.args_begin].kind == ArgKind::Tuple;
    for (uint32_t arg = node.args_begin + 1; is_tuple && arg < graph.args[node.args_begin].end; ++arg) {
      ++call.results;
      if (graph.args[arg].end > arg) arg = graph.args[arg].end - 1;
    }
    call.is_there = true;
    return call;
  }
  return call;
}

std::string list_at(std::string_view layout, size_t at, size_t count) {
  std::vector<std::string> items(std::max(count, at + 1), "null");
  items[at] = layout;
  return items.size() == 1 ? items[0] : fmt::format("[{}]", join(items, ", "));
}

// Returns the option for the layout of a boundary, as the model calls the module.
std::string boundary_option(std::string_view word, std::string_view layout, const CallShape& call) {
  if (word == "local") return fmt::format("{}: {}", option_name(kUseLocalInput), layout);
  if (word == "out") return "output_layouts: " + list_at(layout, 0, call.results);
  if (word == "give") return "desired_output_layouts: " + list_at(layout, 0, call.results);
  const std::string_view desired = word == "want" ? "desired_" : "";
  if (call.position < 0) return fmt::format("{}input_kwarg_layouts: {{{}: {}}}", desired, call.key, layout);
  return fmt::format("{}input_layouts: {}", desired, list_at(layout, static_cast<size_t>(call.position), 0));
}

// Replaces `@word(layout)` in the rule of a way.
std::string spell_rule(std::string_view rule, const CallShape& call) {
  std::string text;
  while (true) {
    const size_t at = rule.find('@');
    text += rule.substr(0, at);
    if (at == std::string_view::npos) return text;
    const size_t open = rule.find('(', at);
    size_t close = open;
    for (int depth = 0;; ++close) {
      depth += rule[close] == '(' ? 1 : rule[close] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    text += boundary_option(rule.substr(at + 1, open - at - 1), rule.substr(open + 1, close - open - 1), call);
    rule.remove_prefix(close + 1);
  }
}

// Reads the value of a rule as a plan file does; nullopt if it is wrong.
std::optional<PlanRule> read_rule(const std::string& text) {
  const SourceFile file{.name = "rule",
                        .text = fmt::format("format: {}\nmesh: {{tp: 2}}\ntp_plan:\n  \"m\": {}\n", kPlanFormat, text)};
  Diagnostics diagnostics;
  TpPlan plan = read_plan(file, {}, diagnostics);
  if (has_errors(diagnostics) || plan.rules.size() != 1) return std::nullopt;
  PlanRule rule = std::move(plan.rules.front());
  rule.key_span = rule.value_span = {};
  rule.line = 0;
  return rule;
}

struct SpaceBuilder {
  const ModelGraph& graph;
  SearchSpace space;
  ModuleId first_layer = kNone;
  std::map<std::string, std::optional<PlanRule>> known;  // by text
};

const std::optional<PlanRule>& rule_of(SpaceBuilder& b, const std::string& text) {
  const auto [at, is_new] = b.known.try_emplace(text);
  if (is_new) at->second = read_rule(text);
  return at->second;
}

bool add_rule(SpaceBuilder& b, SpaceWay& way, const DraftKey& key, const std::string& text) {
  const std::optional<PlanRule>& rule = rule_of(b, text);
  if (!rule) return false;
  way.rules.push_back({key, *rule});
  return true;
}

// Returns the module of a unit: the scope, or of experts the block around them.
DraftKey module_key(const DraftUnit& unit) {
  DraftKey key = unit.scope;
  if (unit.kind != UnitKind::Experts) return key;
  const size_t dot = key.name.rfind('.');
  key.name = dot == std::string::npos ? std::string() : key.name.substr(0, dot);
  return key;
}

std::string first_path(const SpaceBuilder& b, const DraftKey& key) {
  if (key.block.empty()) return key.name;
  return fmt::format("{}.{}", b.graph.modules[b.first_layer].path, key.name);
}

bool has_role(const DraftUnit& unit, DraftRole role) {
  return std::ranges::find(unit.layers, role, &DraftLayer::role) != unit.layers.end();
}

// Adds a rule for every member of the unit: that of `style_of`, or `replicate` for large ones.
template <typename StyleOf>
bool add_members(SpaceBuilder& b, const DraftUnit& unit, SpaceWay& way, StyleOf style_of_member) {
  bool is_good = true;
  for (const DraftLayer& member : unit.layers) {
    std::string text(style_of_member(member));
    if (text.empty() && member.elements > kLargeParameter) text = kReplicate;
    if (!text.empty()) is_good = add_rule(b, way, member.key, text) && is_good;
  }
  return is_good;
}

bool same_rules(const SpaceWay& a, const SpaceWay& b) {
  return a.state == b.state && std::ranges::equal(a.rules, b.rules, [](const SpaceRule& x, const SpaceRule& y) {
           return x.key == y.key && x.rule.style == y.rule.style && x.rule.options == y.rule.options;
         });
}

void add_way(SpaceUnit& unit, SpaceWay way) {
  if (std::ranges::none_of(unit.ways, [&](const SpaceWay& other) { return same_rules(way, other); }))
    unit.ways.push_back(std::move(way));
}

// Returns the unit with only the layers of this role: table and head of tied vocabularies have ways of their own.
DraftUnit only(const DraftUnit& unit, DraftRole role) {
  DraftUnit part = unit;
  std::erase_if(part.layers, [&](const DraftLayer& member) { return member.role != role; });
  return part;
}

void add_search_way(SpaceBuilder& b, const DraftUnit& unit, const SearchWay& row, const std::vector<DraftKey>& norms,
                    SpaceUnit& into) {
  SpaceWay way{
      .state = row.state, .comment = std::string(row.comment), .rules = {}, .parallel_loss = row.parallel_loss};
  CallShape call;
  for (const WayRule& rule : row.rules) {
    if (rule.place == WayPlace::Unit) {
      call = call_shape(b.graph.operations, first_path(b, module_key(unit)));
      if (!call.is_there || !add_rule(b, way, module_key(unit), spell_rule(rule.rule, call))) return;
    } else if (rule.place == WayPlace::Norms) {
      for (const DraftKey& norm : norms) {
        if (!add_rule(b, way, norm, std::string(rule.rule))) return;
      }
    }
  }
  const bool is_good = add_members(b, unit, way, [&](const DraftLayer& member) -> std::string_view {
    for (const WayRule& rule : row.rules) {
      if (rule.place == WayPlace::Layer && rule.role == member.role) return rule.rule;
    }
    return {};
  });
  if (!is_good) return;
  for (const WayRule& rule : row.rules) {
    if (rule.place != WayPlace::Weight) continue;
    for (const DraftLayer& member : unit.layers) {
      if (member.role != rule.role) continue;
      DraftKey key = member.key;
      key.name += ".weight";
      if (!add_rule(b, way, key, std::string(rule.rule))) return;
    }
  }
  add_way(into, std::move(way));
}

SpaceUnit make_unit(SpaceBuilder& b, const DraftUnit& unit, UnitKind kind, const std::vector<DraftKey>& norms) {
  SpaceUnit made{.kind = kind, .ways = {}};
  SpaceWay whole{.state = ResidualState::Replicated, .comment = "Replicated.", .rules = {}};
  if (add_members(b, unit, whole, [](const DraftLayer&) { return std::string_view{}; })) add_way(made, whole);
  const bool is_end = kind == UnitKind::Vocabulary || kind == UnitKind::Head;
  for (const UnitStrategy& row : unit_strategies()) {
    if (is_end || !applies_to_unit(row, unit)) continue;
    SpaceWay way{.state = ResidualState::Replicated, .comment = std::string(row.comment), .rules = {}};
    if (add_members(b, unit, way, [&](const DraftLayer& m) { return style_of(row, m.role); }))
      add_way(made, std::move(way));
  }
  for (const SearchWay& row : search_ways()) {
    if (row.kind == kind) add_search_way(b, unit, row, norms, made);
  }
  return made;
}

// Finds the list of layers: the one block of all repeated units. Returns why there is none.
std::string find_stack(SpaceBuilder& b, const std::vector<DraftUnit>& units) {
  std::set<std::string> blocks;
  for (const DraftUnit& unit : units) {
    if (!unit.scope.block.empty()) blocks.insert(unit.scope.block);
  }
  if (blocks.size() != 1 || !blocks.begin()->ends_with(".*") || std::ranges::count(*blocks.begin(), '*') != 1)
    return fmt::format("its layers are not one numbered list, but {}",
                       blocks.empty() ? "none" : join(std::vector<std::string>(blocks.begin(), blocks.end()), ", "));
  b.space.stack = blocks.begin()->substr(0, blocks.begin()->size() - 2);
  b.first_layer = find_module(b.graph, b.space.stack + ".0");
  while (find_module(b.graph, fmt::format("{}.{}", b.space.stack, b.space.layers)) != kNone) ++b.space.layers;
  return b.first_layer == kNone ? "its layers are not numbered from 0" : "";
}

// The norms of a layer that belong to no unit, and those behind the stack.
void find_norms(const SpaceBuilder& b, const std::vector<DraftUnit>& units, std::vector<DraftKey>& inside,
                std::vector<DraftKey>& behind) {
  std::set<ModuleId> taken;
  for (const DraftUnit& unit : units) {
    if (unit.kind == UnitKind::Whole) continue;
    for (const DraftLayer& member : unit.layers) taken.insert(member.modules.begin(), member.modules.end());
  }
  const std::string layer = std::string(b.graph.modules[b.first_layer].path) + ".";
  for (ModuleId id = 0; id < b.graph.modules.size(); ++id) {
    const Module& module = b.graph.modules[id];
    if (module.kind != ModuleKind::Norm || taken.contains(id)) continue;
    if (module.path.starts_with(layer))
      inside.push_back({b.space.stack + ".*", std::string(module.path.substr(layer.size()))});
    else if (id > b.first_layer && !module.path.starts_with(b.space.stack + "."))
      behind.push_back({{}, std::string(module.path)});
  }
}

void find_end_modules(SpaceBuilder& b) {
  for (ModuleId id = 0; id < b.graph.modules.size(); ++id) {
    const Module& module = b.graph.modules[id];
    if (module.param_count == 0 || module.path.starts_with(b.space.stack + ".")) continue;
    (id < b.first_layer ? b.space.first_modules : b.space.last_modules).emplace_back(module.path);
  }
}

void combine_layer_ways(SearchSpace& space) {
  for (const ResidualState state : {ResidualState::Replicated, ResidualState::BySequence}) {
    std::vector<LayerWay> ways{{.state = state, .ways = {}}};
    for (const SpaceUnit& unit : space.units) {
      std::vector<LayerWay> longer;
      for (const LayerWay& before : ways) {
        for (uint16_t way = 0; way < unit.ways.size(); ++way) {
          if (unit.ways[way].state != state) continue;
          longer.push_back(before);
          longer.back().ways.push_back(way);
        }
      }
      ways = std::move(longer);
    }
    space.layer_ways.insert(space.layer_ways.end(), ways.begin(), ways.end());
  }
}

}  // namespace

std::optional<SearchSpace> make_search_space(const ModelGraph& graph, std::string& why) {
  if (graph.framework != Framework::Torch || !graph.operations.is_there) {
    why =
        "it has no operations of PyTorch: record them with `python -m tpplan.export` or `tpplan import --from config`";
    return std::nullopt;
  }
  SpaceBuilder b{.graph = graph, .space = {}, .known = {}};
  const std::vector<DraftUnit> units = find_units(graph, kLargeParameter);
  why = find_stack(b, units);
  if (!why.empty()) return std::nullopt;
  std::vector<DraftKey> inside, behind;
  find_norms(b, units, inside, behind);
  SpaceWay norms;
  for (const DraftKey& key : inside) std::ignore = add_rule(b, norms, key, std::string(kSequenceParallel));
  b.space.norms = std::move(norms.rules);
  SpaceWay fixed;
  for (const DraftUnit& unit : units) {
    const bool is_inside = !unit.scope.block.empty();
    if (unit.kind == UnitKind::Vocabulary && b.space.table.ways.empty()) {
      b.space.table = make_unit(b, only(unit, DraftRole::Tokens), UnitKind::Vocabulary, {});
      if (!has_role(unit, DraftRole::Head)) continue;
      b.space.is_tied = true;
      b.space.head = make_unit(b, only(unit, DraftRole::Head), UnitKind::Head, behind);
    } else if (unit.kind == UnitKind::Head && b.space.head.ways.empty()) {
      b.space.head = make_unit(b, unit, UnitKind::Head, behind);
    } else if (is_inside && unit.kind != UnitKind::Whole) {
      b.space.units.push_back(make_unit(b, unit, unit.kind, {}));
    } else {
      std::ignore = add_members(b, unit, fixed, [](const DraftLayer&) { return std::string_view{}; });
    }
  }
  b.space.fixed = std::move(fixed.rules);
  if (b.space.table.ways.empty()) b.space.table.ways.emplace_back();
  if (b.space.head.ways.empty()) b.space.head.ways.emplace_back();
  find_end_modules(b);
  combine_layer_ways(b.space);
  b.space.to_sequence = *read_rule(
      "{style: prepare_module_output, output_layouts: Replicate, desired_output_layouts: Shard(1), use_local_output: "
      "false}");
  b.space.to_whole =
      *read_rule("{style: prepare_module_output, output_layouts: Shard(1), desired_output_layouts: Replicate}");
  return std::move(b.space);
}

}  // namespace tpplan
