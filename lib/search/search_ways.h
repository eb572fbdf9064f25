// The ways in which `tpplan search` shards a unit of a model, by the state of the residual around it. The ways of
// `tpplan init` (suggest/unit_strategies.h) keep the residual replicated and belong to the space, too.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "suggest/find_units.h"

namespace tpplan {

// The residual between units: a plain tensor that every rank of the axis has, or a DTensor that is sharded over the
// sequence, Shard(1).
enum class ResidualState : uint8_t { Replicated, BySequence };

// What a rule of a way names.
enum class WayPlace : uint8_t {
  Layer,   // a layer of the unit, by its role
  Unit,    // the module of the unit: the attention, the MLP, the block around the experts
  Weight,  // the parameter `weight` of a layer, by its role
  Norms    // the norms of a transformer layer outside its units; of a head: the final norm
};

// `rule` is as in a plan, where `@in(L)`, `@want(L)`, `@out(L)` and `@give(L)` are the options of the boundary of the
// unit with the layout L: input_layouts or input_kwarg_layouts, as the model calls it, their desired ones,
// output_layouts and desired_output_layouts. `@local(true)`: the unit takes local tensors.
struct WayRule {
  WayPlace place = WayPlace::Layer;
  DraftRole role = DraftRole::None;
  std::string_view rule;
};

struct SearchWay {
  UnitKind kind = UnitKind::Whole;
  ResidualState state = ResidualState::Replicated;
  std::string_view comment;
  std::span<const WayRule> rules;
  bool parallel_loss = false;  // the logits stay sharded, and the loss is computed on shards
};

// Of UnitKind::Vocabulary: the table of tokens; of UnitKind::Head: the output head. Large layers of a unit without a
// rule are replicated.
[[nodiscard]] std::span<const SearchWay> search_ways();

}  // namespace tpplan
