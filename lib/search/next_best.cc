#include "search/next_best.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "cost/peak_memory.h"

namespace tpplan {
namespace {

struct Comparing {
  const SearchSpace& space;
  const MeshCosts& costs;
  const Solution& plan;
  const SolveLimits& limits;
  std::vector<UnitChoice> units;
};

// Another strategy of a unit, as a sequence of parts.
struct Candidate {
  std::string strategy;
  uint32_t end = 0;
  std::vector<uint32_t> layers;
};

// Returns the strategy without the name of its unit: "each rank has some of the heads".
std::string strategy_text(const SpaceWay& way) {
  std::string_view text = way.comment;
  if (const size_t colon = text.find(": "); colon != std::string_view::npos) text.remove_prefix(colon + 2);
  if (text.ends_with('.')) text.remove_suffix(1);
  std::string lower(text.empty() ? "replicated" : text);
  lower.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(lower.front())));
  return lower;
}

const LayerCost& cost_at(const Comparing& c, size_t layer) { return c.costs.layers[c.plan.layers[layer]]; }

bool is_possible(const MeshCosts& costs, const Candidate& candidate) {
  const EndCost& ends = costs.ends[candidate.end];
  const auto state_of = [&](size_t at) { return costs.layers[candidate.layers[at]].state; };
  if (state_of(0) != ends.first) return false;
  bool has_sharded = false;
  for (size_t at = 0; at < candidate.layers.size(); ++at) {
    const LayerCost& layer = costs.layers[candidate.layers[at]];
    has_sharded = has_sharded || layer.choice.sharded;
    const ResidualState after = at + 1 < candidate.layers.size() ? state_of(at + 1) : ends.last;
    if (after != layer.state && !layer.can_switch) return false;
  }
  return has_sharded || !ends.needs_sharded;
}

// True if `a` has the smaller objective, or the same one and less of the other figure.
bool is_better(const Comparing& c, const PricedStrategy& a, const PricedStrategy& b) {
  return c.limits.objective == Objective::Memory ? std::tie(a.memory, a.seconds) < std::tie(b.memory, b.seconds)
                                                 : std::tie(a.seconds, a.memory) < std::tie(b.seconds, b.memory);
}

// Prices the candidates, and adds the unit if one of them has costs.
void add_unit(Comparing& c, UnitChoice unit, std::vector<Candidate> candidates) {
  const PricedStrategy own{.strategy = {}, .seconds = c.plan.seconds, .memory = reserved_bytes_for(c.plan.memory)};
  for (Candidate& candidate : candidates) {
    if (!is_possible(c.costs, candidate)) continue;
    const Solution sum = sum_of(c.costs, candidate.end, std::move(candidate.layers));
    PricedStrategy priced{
        .strategy = std::move(candidate.strategy), .seconds = sum.seconds, .memory = reserved_bytes_for(sum.memory)};
    const bool fits = !c.limits.memory || sum.memory <= *c.limits.memory;
    if (!fits && !is_better(c, priced, own)) continue;
    std::optional<PricedStrategy>& best = fits ? unit.next : unit.over;
    if (!best || is_better(c, priced, *best)) best = std::move(priced);
  }
  if (unit.next || unit.over) c.units.push_back(std::move(unit));
}

void compare_ends(Comparing& c, PlanUnit which, uint16_t EndCost::*way, const SpaceUnit& unit) {
  const EndCost& own = c.costs.ends[c.plan.end];
  std::vector<Candidate> candidates;
  for (uint32_t id = 0; id < c.costs.ends.size(); ++id) {
    const EndCost& other = c.costs.ends[id];
    if (other.*way == own.*way || (way != &EndCost::table && other.table != own.table) ||
        (way != &EndCost::head && other.head != own.head) || other.first_sharded != own.first_sharded ||
        other.last_sharded != own.last_sharded)
      continue;
    candidates.push_back({strategy_text(unit.ways[other.*way]), id, c.plan.layers});
  }
  add_unit(c, {.unit = which, .layers = {}, .strategy = strategy_text(unit.ways[own.*way]), .next = {}, .over = {}},
           std::move(candidates));
}

// Returns the plan with another choice for some layers; without layers if one of these choices has no costs.
Candidate with_layers(const Comparing& c, std::string strategy, const std::vector<size_t>& layers,
                      const std::function<void(LayerChoice&)>& change) {
  Candidate candidate{std::move(strategy), c.plan.end, c.plan.layers};
  for (const size_t at : layers) {
    LayerChoice choice = cost_at(c, at).choice;
    change(choice);
    const auto found = std::ranges::find(c.costs.layers, choice, &LayerCost::choice);
    if (found == c.costs.layers.end()) return {};
    candidate.layers[at] = static_cast<uint32_t>(found - c.costs.layers.begin());
  }
  return candidate;
}

std::vector<size_t> layers_where(const Comparing& c, const std::function<bool(const LayerChoice&)>& is_wanted) {
  std::vector<size_t> layers;
  for (size_t at = 0; at < c.plan.layers.size(); ++at) {
    if (is_wanted(cost_at(c, at).choice)) layers.push_back(at);
  }
  return layers;
}

// Compares the strategies of each unit of the layers of a way. The residual's state stays.
void compare_layers(Comparing& c, uint16_t way) {
  const LayerWay& own = c.space.layer_ways[way];
  UnitChoice unit{.unit = PlanUnit::Layer,
                  .way = way,
                  .layers = layers_where(c, [&](const LayerChoice& choice) { return choice.way == way; }),
                  .strategy = {},
                  .next = {},
                  .over = {}};
  for (unit.index = 0; unit.index < own.ways.size(); ++unit.index) {
    const std::vector<SpaceWay>& strategies = c.space.units[unit.index].ways;
    unit.strategy = strategy_text(strategies[own.ways[unit.index]]);
    std::vector<Candidate> candidates;
    for (uint16_t id = 0; id < c.space.layer_ways.size(); ++id) {
      LayerWay other = c.space.layer_ways[id];
      const uint16_t changed = std::exchange(other.ways[unit.index], own.ways[unit.index]);
      if (id == way || other.state != own.state || other.ways != own.ways) continue;
      Candidate candidate = with_layers(c, strategy_text(strategies[changed]), unit.layers,
                                        [&](LayerChoice& choice) { choice.way = id; });
      if (!candidate.layers.empty()) candidates.push_back(std::move(candidate));
    }
    add_unit(c, unit, std::move(candidates));
  }
}

std::string ends_sharding_text(const EndCost& ends) {
  const std::string_view where = ends.first_sharded  ? ends.last_sharded ? "before and after" : "only before"
                                 : ends.last_sharded ? "only after"
                                                     : "neither before nor after";
  return fmt::format("FSDP shards the parameters {} the layers", where);
}

// Compares FSDP of what is outside of layers.
void compare_ends_sharding(Comparing& c) {
  const EndCost& own = c.costs.ends[c.plan.end];
  std::vector<Candidate> candidates;
  for (uint32_t id = 0; id < c.costs.ends.size(); ++id) {
    const EndCost& other = c.costs.ends[id];
    if (id != c.plan.end && other.table == own.table && other.head == own.head)
      candidates.push_back({ends_sharding_text(other), id, c.plan.layers});
  }
  add_unit(c, {.unit = PlanUnit::Fsdp, .layers = {}, .strategy = ends_sharding_text(own), .next = {}, .over = {}},
           std::move(candidates));
}

// Compares the two values of `flag` for the layers that have one of them.
void compare_flag(Comparing& c, PlanUnit which, bool LayerChoice::*flag, std::string_view set, std::string_view unset) {
  for (const bool value : {true, false}) {
    UnitChoice unit{.unit = which,
                    .layers = layers_where(c, [&](const LayerChoice& choice) { return choice.*flag == value; }),
                    .strategy = std::string(value ? set : unset),
                    .next = {},
                    .over = {}};
    if (unit.layers.empty()) continue;
    std::vector<Candidate> candidates = {with_layers(c, std::string(value ? unset : set), unit.layers,
                                                     [&](LayerChoice& choice) { choice.*flag = !value; })};
    if (!candidates.front().layers.empty()) add_unit(c, std::move(unit), std::move(candidates));
  }
}

}  // namespace

std::vector<UnitChoice> compare_units(const SearchSpace& space, const MeshCosts& costs, const Solution& plan,
                                      const SolveLimits& limits) {
  Comparing c{.space = space, .costs = costs, .plan = plan, .limits = limits, .units = {}};
  compare_ends(c, PlanUnit::Table, &EndCost::table, space.table);
  compare_ends(c, PlanUnit::Head, &EndCost::head, space.head);
  std::set<uint16_t> known;
  for (size_t at = 0; at < plan.layers.size(); ++at) {
    const uint16_t way = cost_at(c, at).choice.way;
    if (known.insert(way).second) compare_layers(c, way);
  }
  compare_flag(c, PlanUnit::Fsdp, &LayerChoice::sharded, "sharded by FSDP", "not sharded by FSDP");
  compare_ends_sharding(c);
  compare_flag(c, PlanUnit::Remat, &LayerChoice::remat, "recomputed in the backward pass",
               "activations saved for backward");
  return std::move(c.units);
}

std::string_view unit_name(const SearchSpace& space, const UnitChoice& unit) {
  switch (unit.unit) {
    case PlanUnit::Table:
      return "embedding";
    case PlanUnit::Head:
      return "head";
    case PlanUnit::Fsdp:
      return "fsdp";
    case PlanUnit::Remat:
      return "remat";
    case PlanUnit::Layer:
      break;
  }
  switch (space.units[unit.index].kind) {
    case UnitKind::Attention:
      return "attention";
    case UnitKind::Mlp:
      return "mlp";
    case UnitKind::Experts:
      return "experts";
    case UnitKind::Vocabulary:
    case UnitKind::Head:
    case UnitKind::Table:
    case UnitKind::Single:
    case UnitKind::Whole:
      break;
  }
  return "linear";
}

}  // namespace tpplan
