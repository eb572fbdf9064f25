#include "resolve/heuristics/neighbours.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>

#include "model/module_kinds.h"

namespace tpplan {
namespace {

// True for a shard of features. Without operations the rank of a value is unknown, so a negative dim is assumed to be
// the features, and a non-negative one the sequence (shards_sequence).
bool is_last_shard(const Placement& placement) { return placement.kind == PlacementKind::Shard && placement.dim < 0; }

// Returns the layout that a rule specifies for the first value, or the style's default.
Placement first_or(const std::optional<std::vector<Layout>>& layouts, const Placement& standard) {
  return layouts && !layouts->empty() && layouts->front() ? *layouts->front() : standard;
}

bool expects_shards(const PlanRule& rule) {
  const StyleRow& style = *rule.style;
  if (style.shard_dim != kDimIn) return false;
  if (!style.input.used) return style.packed_segments > 1;
  return is_last_shard(first_or(rule.options.input_layouts, style.input.from));
}

}  // namespace

bool stays_sharded(const PlanRule& rule) {
  const StyleRow& style = *rule.style;
  if (style.shard_dim != kDimOut) return false;
  if (!style.output.used) return style.packed_segments > 1;  // outputs are not redistributed
  return is_last_shard(first_or(rule.options.output_layouts, style.output.to));
}

ShardUse shard_use_of(const Neighbours& n, ModuleId module) {
  if (n.rules[module] == kNoRule || n.graph.modules[module].kind != ModuleKind::Linear) return ShardUse::None;
  const PlanRule& rule = n.plan.rules[n.rules[module]];
  return stays_sharded(rule) ? ShardUse::Outputs : expects_shards(rule) ? ShardUse::Expects : ShardUse::None;
}

bool is_repeated_block(const ModelGraph& graph, ModuleId id) {
  const Module& module = graph.modules[id];
  const std::string_view leaf = leaf_of(graph, module.path);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(leaf.data(), leaf.data() + leaf.size(), number);
  if (error != std::errc() || end != leaf.data() + leaf.size()) return false;
  const auto like = [&](uint32_t other) {
    const ModuleId found = find_sibling(graph, id, std::to_string(other));
    return found != kNone && graph.modules[found].type == module.type;
  };
  return like(number + 1) || (number > 0 && like(number - 1));
}

std::string replicate_help(const TpPlan& plan, std::string_view style, std::string_view option) {
  if (find_style(style, plan.dialect->styles) != nullptr) return fmt::format("use {}", style);
  return fmt::format("write `{}: Replicate`", option);
}

}  // namespace tpplan
