#include "hf_configs/orient_matrices.h"

#include <algorithm>
#include <map>

#include "hf_configs/graph_parts.h"
#include "model/module_kinds.h"

namespace tpplan {
namespace {

constexpr std::string_view kReturnsHidden = "c_proj";
constexpr std::string_view kNames[] = {"c_attn", "c_fc", kReturnsHidden};

enum class Orientation : uint8_t { Unknown, OutIn, InOut, Contradictory };

const Param* matrix_of(const ModelGraph& graph, const Module& module) {
  for (const Param& param : params_of(graph, module)) {
    if (param.name == "weight" && param.ndim == 2) return &param;
  }
  return nullptr;
}

// Returns the width of the largest embedding, else the most frequent size of norms; 0 if there are none.
int64_t hidden_size(const ModelGraph& graph) {
  int64_t rows = 0, width = 0;
  std::map<int64_t, size_t> norms;
  for (const Module& module : graph.modules) {
    for (const Param& param : params_of(graph, module)) {
      const auto shape = shape_of(graph, param);
      if (module.kind == ModuleKind::Norm && shape.size() == 1) ++norms[shape[0]];
      if (module.kind != ModuleKind::Embedding || shape.size() != 2 || shape[0] <= rows) continue;
      rows = shape[0];
      width = shape[1];
    }
  }
  if (width > 0) return width;
  const auto most = std::ranges::max_element(norms, {}, [](const auto& entry) { return entry.second; });
  return most == norms.end() ? 0 : most->first;
}

Orientation orientation_of(std::string_view leaf, std::span<const int64_t> shape, int64_t hidden) {
  if (hidden == 0 || (shape[0] == hidden) == (shape[1] == hidden)) return Orientation::Unknown;
  return (shape[0] == hidden) == (leaf == kReturnsHidden) ? Orientation::OutIn : Orientation::InOut;
}

}  // namespace

bool may_be_conv1d(std::string_view leaf) { return std::ranges::find(kNames, leaf) != std::end(kNames); }

void orient_matrices(ModelGraph& graph) {
  const int64_t hidden = hidden_size(graph);
  std::vector<ModuleId> found;
  Orientation common = Orientation::Unknown;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    const std::string_view leaf = leaf_of(graph, module.path);
    const Param* matrix = module.kind == ModuleKind::Other && may_be_conv1d(leaf) ? matrix_of(graph, module) : nullptr;
    if (matrix == nullptr) continue;
    found.push_back(id);
    const Orientation here = orientation_of(leaf, shape_of(graph, *matrix), hidden);
    if (here != Orientation::Unknown)
      common = common == Orientation::Unknown || common == here ? here : Orientation::Contradictory;
  }
  if (common == Orientation::Unknown || common == Orientation::Contradictory) return;
  const uint32_t conv1d = common == Orientation::InOut ? intern_type(graph, "Conv1D") : 0;
  for (const ModuleId id : found) {
    set_kind(graph.modules[id], ModuleKind::Linear);
    if (common == Orientation::InOut) graph.modules[id].type = conv1d;
  }
}

}  // namespace tpplan
