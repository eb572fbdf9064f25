// The space of `tpplan search` for a model: its units, each with the ways in which it can be sharded, as rules of a
// plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "search/search_ways.h"
#include "suggest/find_units.h"

namespace tpplan {

// A rule of a way; its axis is set by plan_of. `key.block` is empty for layers outside the stack.
struct SpaceRule {
  DraftKey key;
  PlanRule rule;
};

struct SpaceWay {
  ResidualState state = ResidualState::Replicated;
  std::string comment;
  std::vector<SpaceRule> rules;
  bool parallel_loss = false;
};

// A unit of every layer, or the table of tokens or the head.
struct SpaceUnit {
  UnitKind kind = UnitKind::Whole;
  std::vector<SpaceWay> ways;
};

// One way for each unit of a layer, all of one state.
struct LayerWay {
  ResidualState state = ResidualState::Replicated;
  std::vector<uint16_t> ways;  // by SearchSpace::units
};

struct SearchSpace {
  std::string stack;             // path of the list of layers: "model.layers"
  size_t layers = 0;             // number of layers of the model
  std::vector<SpaceUnit> units;  // of a layer, in the model's order
  SpaceUnit table, head;         // the token table and the output head; each has one empty way if the model has none
  bool is_tied = false;          // table and head are one tensor
  std::vector<SpaceRule> fixed;  // replicated layers
  std::vector<SpaceRule> norms;  // the norms of layers where the residual is sharded over the sequence
  std::vector<LayerWay> layer_ways;
  std::vector<std::string> first_modules, last_modules;  // with parameters, before and after the stack: FSDP shards
                                                         // either all of them or none
  PlanRule to_sequence, to_whole;                        // of a layer after which the state changes
};

// Returns the space, or nullopt and why the model has none: its layers are not one numbered list, or it has no
// operations.
// @pre the operations of the model are proven
[[nodiscard]] std::optional<SearchSpace> make_search_space(const ModelGraph& graph, std::string& why);

}  // namespace tpplan
