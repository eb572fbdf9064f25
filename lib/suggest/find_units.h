// Units of a model, each of which a draft plan shards with one strategy: an attention, an MLP, the vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_graph.h"
#include "suggest/draft_roles.h"

namespace tpplan {

enum class UnitKind : uint8_t { Vocabulary, Head, Table, Attention, Mlp, Experts, Single, Whole };

// A key of a plan and its block, as globs: "model.layers.*" and "self_attn.q_proj". `block` is empty if the path has no
// star.
struct DraftKey {
  std::string block, name;
  bool operator==(const DraftKey&) const = default;
};

// A layer, with its modules in all repeated blocks.
struct DraftLayer {
  DraftKey key;
  DraftRole role = DraftRole::None;
  ModuleId module = kNone;        // first of `modules`
  std::vector<ModuleId> modules;  // one per block
  std::string_view param;         // parameter that the key names; empty: the key names the module
  uint64_t elements = 0;          // of its largest tensor
  size_t ndim = 0, heads_at = 0;  // rank and head dim of a tensor with a dim of heads; ndim 0: no such dim
};

struct DraftUnit {
  UnitKind kind = UnitKind::Whole;
  DraftKey scope;
  std::vector<DraftLayer> layers;
  bool is_unseen = false;  // the model has operations, and none of them uses the unit
};

// Returns the units in the model's order, except that vocabularies and output heads are first. Every layer with a role
// is in exactly one unit. Layers without a role are in a unit only if a tensor has more than `large` elements.
[[nodiscard]] std::vector<DraftUnit> find_units(const ModelGraph& graph, uint64_t large);

}  // namespace tpplan
