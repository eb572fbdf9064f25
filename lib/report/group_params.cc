#include "report/group_params.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cost/measure_manifest.h"

namespace tpplan {

// The key has only the fields that determine the shards. Layouts can also differ in rules and reasons.
std::vector<ShardGroup> group_by_sharding(const Manifest& manifest) {
  using Segments = std::vector<std::pair<size_t, std::vector<int64_t>>>;
  std::map<std::tuple<std::vector<int64_t>, DType, PartitionSpec, Segments>, size_t> known;
  std::vector<ShardGroup> groups;
  std::vector<size_t> group_of;
  for (uint32_t i = 0; i < manifest.layouts.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    Segments segments;
    for (const DimSegments& entry : layout.sharding.segments) segments.emplace_back(entry.dim, entry.sizes);
    const auto [entry, is_new] =
        known.emplace(std::tuple(layout.shape, layout.dtype, layout.sharding.spec, std::move(segments)), groups.size());
    if (is_new) groups.push_back({.layout = i, .params = {}, .bytes = 0});
    group_of.push_back(entry->second);
  }
  for (uint32_t i = 0; i < manifest.parameters.size(); ++i)
    groups[group_of[manifest.parameters[i].layout]].params.push_back(i);
  std::erase_if(groups,
                [](const ShardGroup& group) { return group.params.empty(); });  // only buffers have these layouts
  for (ShardGroup& group : groups) {
    if (__builtin_mul_overflow(global_bytes(manifest.layouts[group.layout]), group.params.size(), &group.bytes))
      group.bytes = ~uint64_t{0};
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const ShardGroup& a, const ShardGroup& b) { return a.bytes > b.bytes; });
  return groups;
}

std::vector<RuleBlock> group_by_rule(const Manifest& manifest) {
  std::vector<RuleNode> nodes(manifest.rules.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) nodes[i].rule = i;
  RuleBlock without{.in_block = false, .block = "", .nodes = {}};
  std::map<std::string, size_t> reasons;
  for (uint32_t i = 0; i < manifest.parameters.size(); ++i) {
    const ParamLayout& layout = layout_of(manifest, manifest.parameters[i]);
    if (layout.rule < nodes.size()) {
      nodes[layout.rule].params.push_back(i);
      continue;
    }
    const auto [entry, is_new] = reasons.emplace(layout.reason, without.nodes.size());
    if (is_new)
      without.nodes.push_back({.rule = kNoManifestRule, .reason = layout.reason, .params = {}, .modules = {}});
    without.nodes[entry->second].params.push_back(i);
  }
  for (uint32_t i = 0; i < manifest.modules.size(); ++i) {
    const uint32_t rule = layout_of(manifest, manifest.modules[i]).rule;
    if (rule < nodes.size()) nodes[rule].modules.push_back(i);
  }
  std::vector<RuleBlock> blocks;
  std::map<std::pair<bool, std::string>, size_t> known;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const ManifestRule& rule = manifest.rules[i];
    const auto [entry, is_new] = known.emplace(std::pair(rule.in_block, rule.block), blocks.size());
    if (is_new) blocks.push_back({.in_block = rule.in_block, .block = rule.block, .nodes = {}});
    blocks[entry->second].nodes.push_back(std::move(nodes[i]));
  }
  if (!without.nodes.empty()) blocks.push_back(std::move(without));
  return blocks;
}

}  // namespace tpplan
