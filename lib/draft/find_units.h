// The parts of a model that a first plan cuts as one: an attention, an MLP, the vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draft/draft_roles.h"
#include "model/model_graph.h"

namespace tpplan {

enum class UnitKind : uint8_t { Vocabulary, Head, Table, Attention, Mlp, Experts, Alone, Whole };

// Where a key stands in a plan: "model.layers.*" and "self_attn.q_proj". Without a star `block` is empty.
struct DraftKey {
  std::string block, name;
  bool operator==(const DraftKey&) const = default;
};

// A layer, of all blocks that have it.
struct DraftMember {
  DraftKey key;
  DraftRole role = DraftRole::None;
  ModuleId module = kNone;        // the first
  std::vector<ModuleId> modules;  // all
  std::string_view param;         // the key is that of this parameter of theirs; empty: the module's
  uint64_t elements = 0;          // of its largest tensor
  size_t ndim = 0, heads_at = 0;  // of a tensor with a dim of heads: which; ndim 0: none is known
};

struct DraftUnit {
  UnitKind kind = UnitKind::Whole;
  DraftKey scope;
  std::vector<DraftMember> members;
  bool is_unseen = false;  // there are operations, and none of them uses it
};

// Every layer that has a role is in one unit. In the model's order, vocabularies and heads first. What has no role and
// no tensor of more than `large` elements is in none.
[[nodiscard]] std::vector<DraftUnit> find_units(const ModelGraph& graph, uint64_t large);

}  // namespace tpplan
