// A point of the search space, and its plan.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/write_plan.h"
#include "search/search_space.h"

namespace tpplan {

struct SearchMesh {
  int64_t dp = 1, fsdp = 1, tp = 1;
  auto operator<=>(const SearchMesh&) const = default;
};

struct LayerChoice {
  uint16_t way = 0;  // into SearchSpace::layer_ways
  bool remat = false;
  bool sharded = true;  // by FSDP
  auto operator<=>(const LayerChoice&) const = default;
};

struct PlanChoice {
  SearchMesh mesh;
  uint16_t table = 0, head = 0;
  bool first_sharded = true, last_sharded = true;  // by FSDP: what is before and after the stack
  std::vector<LayerChoice> layers;                 // can be fewer than the model has: of a cut model
  auto operator<=>(const PlanChoice&) const = default;
};

struct ChosenPlan {
  TpPlan plan;
  PlanComments comments;
};

// Which axes the mesh of a plan has: those of more than one rank ({tp: 1} if there is none), or all three.
enum class PlanAxes : uint8_t { Needed, All };

// Sentences that follow the comments of a plan.
struct PlanNotes {
  std::string table, head, fsdp, remat;
  std::map<std::pair<uint16_t, size_t>, std::string> units;  // by way of the layers and unit
};

// Returns the plan of a choice.
[[nodiscard]] ChosenPlan plan_of(const SearchSpace& space, const PlanChoice& choice, PlanAxes axes = PlanAxes::Needed,
                                 const PlanNotes& notes = {});

// Returns the mesh with all three axes.
[[nodiscard]] Mesh whole_mesh(const SearchMesh& mesh);

// Returns the fewest globs for these layers of `stack`, in order: "model.layers.[0-9]", "model.layers.1[0-5]";
// "model.layers.*" if they are all of `count`.
[[nodiscard]] std::vector<std::string> layer_globs(const std::string& stack, const std::vector<size_t>& layers,
                                                   size_t count);

}  // namespace tpplan
