#include "resolve/heuristics/check_siblings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/keyed_hash.h"
#include "model/attention_names.h"
#include "model/mlp_names.h"
#include "model/module_kinds.h"
#include "model/name_subject.h"

namespace tpplan {
namespace {

// Leaf names of projections whose outputs are combined, so that all or none must be sharded.
struct SiblingNames {
  std::array<std::string_view, 3> leaves;  // the last may be empty
  bool heads = false;                      // q, k and v: a single kv head is replicated on purpose
};

// Returns the group whose first leaf is `leaf`.
std::optional<SiblingNames> siblings_of(std::string_view leaf) {
  const auto names = attention_names();
  const auto query = std::ranges::find(names, leaf, &AttentionName::leaf);
  if (query != names.end() && query->role == HeadRole::Query)
    return SiblingNames{{leaf, query->key, query->value}, true};
  const MlpName* gate = find_mlp_name({}, leaf);
  if (gate != nullptr && gate->role == MlpRole::Gate) return SiblingNames{{leaf, gate->up, {}}, false};
  return std::nullopt;
}

bool has_one_kv_head(const ModelGraph& graph, ModuleId parent) {
  const Module& module = graph.modules[parent];
  return module.attributes != kNone && graph.attributes[module.attributes].num_kv_heads == 1;
}

void report_different_siblings(const Neighbours& n, ModuleId sharded, ModuleId other) {
  const RuleId rule = n.rules[sharded];
  Diagnostic* d =
      report(n.diagnostics, Code::ProjectionsDiffer, n.plan.rules[rule].value_span, fmt::format("{}", rule));
  if (d == nullptr) return;
  d->counted = "module";
  name_subject(*d, n.graph.modules[sharded]);
  d->message = fmt::format("the output of `{}` is sharded, but the output of `{}` {}", n.graph.modules[sharded].path,
                           leaf_of(n.graph, n.graph.modules[other].path),
                           n.rules[other] == kNoRule ? "is replicated" : "has another layout");
  d->notes.push_back(
      {"the two outputs are combined: their local sizes must match", span_of(n.graph, n.graph.modules[other])});
  d->help = fmt::format("change the style of `{}` to that of `{}`", leaf_of(n.graph, n.graph.modules[other].path),
                        leaf_of(n.graph, n.graph.modules[sharded].path));
}

// Checks the group whose first projection is module `id`, so that each group is checked once.
void check_sibling_group(const Neighbours& n, ModuleId id, const SiblingNames& row) {
  const ModuleId parent = parent_of(n.graph, id);
  if (parent == kNone || (row.heads && has_one_kv_head(n.graph, parent))) return;
  std::array<ModuleId, 3> ids{id, kNone, kNone};
  for (size_t i = 1; i < ids.size(); ++i) {
    if (!row.leaves[i].empty()) ids[i] = find_sibling(n.graph, id, row.leaves[i]);
    if (ids[i] != kNone && n.graph.modules[ids[i]].kind != ModuleKind::Linear) ids[i] = kNone;
  }
  const auto sharded = std::find_if(ids.begin(), ids.end(),
                                    [&](ModuleId m) { return m != kNone && shard_use_of(n, m) == ShardUse::Outputs; });
  if (sharded == ids.end()) return;
  const auto other = std::find_if(ids.begin(), ids.end(),
                                  [&](ModuleId m) { return m != kNone && shard_use_of(n, m) != ShardUse::Outputs; });
  if (other != ids.end()) report_different_siblings(n, *sharded, *other);
}

}  // namespace

void check_siblings(const Neighbours& n) {
  constexpr size_t kMaxNames = 1024;                                     // most models have a dozen
  TextMap<std::string_view, std::optional<SiblingNames>> sibling_names;  // by leaf name
  for (ModuleId id = 0; id < n.graph.modules.size(); ++id) {
    const Module& module = n.graph.modules[id];
    if (module.kind != ModuleKind::Linear) continue;
    if (sibling_names.size() > kMaxNames) sibling_names.clear();
    const auto [known, is_new] = sibling_names.try_emplace(leaf_of(n.graph, module.path));
    if (is_new) known->second = siblings_of(known->first);
    if (known->second) check_sibling_group(n, id, *known->second);
  }
}

}  // namespace tpplan
