#include "infer/check_alike.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <optional>

#include "model/attention_names.h"
#include "model/mlp_names.h"
#include "model/module_kinds.h"

namespace tpplan {
namespace {

// Leaves of layers whose outputs meet in one product, so that all are cut, or none.
struct ProductLeaves {
  std::array<std::string_view, 3> leaves;  // the last may be empty
  bool heads = false;                      // q, k and v: a single kv head stays whole on purpose
};

// Those whose first is `leaf`.
std::optional<ProductLeaves> product_of(std::string_view leaf) {
  const auto names = attention_names();
  const auto query = std::ranges::find(names, leaf, &AttentionName::leaf);
  if (query != names.end() && query->role == HeadRole::Query)
    return ProductLeaves{{leaf, query->key, query->value}, true};
  const MlpName* gate = find_mlp_name({}, leaf);
  if (gate != nullptr && gate->role == MlpRole::Gate) return ProductLeaves{{leaf, gate->up, {}}, false};
  return std::nullopt;
}

bool has_one_kv_head(const ModelGraph& graph, ModuleId parent) {
  const Module& module = graph.modules[parent];
  return module.attributes != kNone && graph.attributes[module.attributes].num_kv_heads == 1;
}

void report_unlike(const Neighbours& n, ModuleId cut, ModuleId other) {
  const RuleId rule = n.rules[cut];
  Diagnostic* d = report(n.diagnostics, Code::TP5152, n.plan.rules[rule].value_span, fmt::format("{}", rule));
  if (d == nullptr) return;
  d->counted = "module";
  d->message = fmt::format("each rank has a piece of the output of `{}`, and of `{}`, which it meets, {}",
                           n.graph.modules[cut].path, leaf_of(n.graph, n.graph.modules[other].path),
                           n.rules[other] == kNoRule ? "the whole" : "another part");
  d->notes.push_back({"the two are cut in different ways", span_of(n.graph, n.graph.modules[other])});
  d->help = fmt::format("give `{}` the style of `{}`", leaf_of(n.graph, n.graph.modules[other].path),
                        leaf_of(n.graph, n.graph.modules[cut].path));
}

// Asked at the first leaf, so that each product is looked at once.
void check_product(const Neighbours& n, ModuleId id, const ProductLeaves& row) {
  const ModuleId parent = parent_of(n.graph, id);
  if (parent == kNone || (row.heads && has_one_kv_head(n.graph, parent))) return;
  const std::string_view path = n.graph.modules[id].path;
  const std::string before(path.substr(0, path.size() - row.leaves[0].size()));
  std::array<ModuleId, 3> ids{id, kNone, kNone};
  for (size_t i = 1; i < ids.size(); ++i) {
    if (!row.leaves[i].empty()) ids[i] = find_module(n.graph, before + std::string(row.leaves[i]));
    if (ids[i] != kNone && n.graph.modules[ids[i]].kind != ModuleKind::Linear) ids[i] = kNone;
  }
  const auto cut =
      std::find_if(ids.begin(), ids.end(), [&](ModuleId m) { return m != kNone && pieces_of(n, m) == Pieces::Leaves; });
  if (cut == ids.end()) return;
  const auto other =
      std::find_if(ids.begin(), ids.end(), [&](ModuleId m) { return m != kNone && pieces_of(n, m) != Pieces::Leaves; });
  if (other != ids.end()) report_unlike(n, *cut, *other);
}

}  // namespace

void check_alike(const Neighbours& n, ModuleId module) {
  if (const auto row = product_of(leaf_of(n.graph, n.graph.modules[module].path))) check_product(n, module, *row);
}

}  // namespace tpplan
