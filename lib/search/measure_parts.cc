#include "search/measure_parts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace tpplan {
namespace {

struct Probing {
  Prober& prober;
  const SearchMesh& mesh;
  bool has_fsdp = true;
  SearchMesh judged_on;   // the mesh of a group
  bool is_bound = false;  // of least_figures
  MeasuredParts found;
};

// Judges a choice. One that differs from the last one in `remat` only needs no other check.
JudgedStep judge_choice(Prober& prober, Appraiser& appraiser, const PlanChoice& choice) {
  PlanChoice plain = choice;
  for (LayerChoice& layer : plain.layers) layer.remat = false;
  if (prober.checked_plan == nullptr || plain != prober.checked_choice) {
    prober.checked_plan = std::make_unique<TpPlan>(plan_of(*prober.space, plain, PlanAxes::All).plan);
    prober.checked = check_choice(appraiser, *prober.checked_plan);
    prober.checked_choice = std::move(plain);
  }
  return judge_step(appraiser, plan_of(*prober.space, choice, PlanAxes::All).plan, prober.checked);
}

std::optional<StepFigures> probe(Probing& p, Appraiser& appraiser, PlanChoice choice) {
  choice.mesh = p.judged_on;
  const auto [at, is_new] = p.prober.judged.try_emplace(choice);
  if (is_new) at->second = judge_choice(p.prober, appraiser, choice);
  StepFigures figures = (p.is_bound ? least_figures : figures_on)(appraiser, at->second, whole_mesh(p.mesh));
  if (figures.is_right) return figures;
  if (p.found.why.empty()) p.found.why = figures.why;
  return std::nullopt;
}

// Returns by parameter whether FSDP shards it on a mesh, with all layers sharded.
std::vector<bool> sharded_by_fsdp(const Prober& prober, const SearchMesh& mesh) {
  const PlanChoice choice{.mesh = mesh, .layers = std::vector<LayerChoice>(prober.few_layers)};
  const TpPlan plan = plan_of(*prober.space, choice, PlanAxes::All).plan;
  Diagnostics ignored;
  const CheckResult result = check_plan(*prober.few.checker, plan, ignored, Phase::Shardings);
  std::vector<bool> sharded;
  for (ParamId id = 0; id < result.shardings.params.size(); ++id)
    sharded.push_back(uses_axis(sharding_of(result.shardings, id).spec, plan.fsdp->axis));
  return sharded;
}

// Returns the mesh on which the plans of a mesh are judged.
SearchMesh judging_mesh(Prober& prober, const SearchMesh& mesh, bool has_fsdp) {
  MeshGroup own{.mesh = mesh, .has_fsdp = has_fsdp, .sharded = {}};
  if (has_fsdp) own.sharded = sharded_by_fsdp(prober, mesh);
  for (const MeshGroup& group : prober.groups) {
    const bool is_alike =
        has_fsdp ? group.sharded == own.sharded : (group.mesh.dp * group.mesh.fsdp > 1) == (mesh.dp * mesh.fsdp > 1);
    if (group.has_fsdp == has_fsdp && is_alike) return group.mesh;
  }
  prober.groups.push_back(own);
  return mesh;
}

// What adds up over the layers of a step.
struct Sums {
  double seconds = 0;
  int64_t own = 0, optimizer = 0;
};

Sums sums_of(const StepFigures& figures) {
  return {figures.seconds, figures.profile.ends.own, figures.profile.ends.optimizer};
}

Sums operator-(const Sums& a, const Sums& b) {
  return {a.seconds - b.seconds, a.own - b.own, a.optimizer - b.optimizer};
}
Sums operator+(const Sums& a, const Sums& b) {
  return {a.seconds + b.seconds, a.own + b.own, a.optimizer + b.optimizer};
}
Sums operator*(int64_t n, const Sums& a) { return {static_cast<double>(n) * a.seconds, n * a.own, n * a.optimizer}; }
Sums operator/(const Sums& a, int64_t n) { return {a.seconds / static_cast<double>(n), a.own / n, a.optimizer / n}; }

// A state of the residual with the layer that others are compared with. If the model is not cut, the sums of this layer
// count as 0, and those of the ends are larger by as much.
struct Base {
  bool is_there = false;
  uint16_t table = 0, head = 0;
  LayerChoice layer;
  Sums all;   // of a model of few layers that are like `layer`
  Sums each;  // of one layer
  // Of a model of few layers like `layer`, without remat and with it.
  std::array<StepProfile, 2> profiles;
};

PlanChoice uniform(const Probing& p, const Base& base, const LayerChoice& layer) {
  return {.mesh = p.mesh,
          .table = base.table,
          .head = base.head,
          .first_sharded = p.has_fsdp,
          .last_sharded = p.has_fsdp,
          .layers = std::vector<LayerChoice>(p.prober.few_layers, layer)};
}

LayerChoice with_remat(LayerChoice layer) {
  layer.remat = true;
  return layer;
}

// Finds a plan without findings whose residual has this state.
Base make_base(Probing& p, ResidualState state) {
  const SearchSpace& space = *p.prober.space;
  Base base;
  const auto is_of_state = [state](const auto& way) { return way.state == state; };
  for (uint16_t t = 0; t < space.table.ways.size() && !base.is_there; ++t) {
    for (uint16_t h = 0; h < space.head.ways.size() && !base.is_there; ++h) {
      for (uint16_t way = 0; way < space.layer_ways.size() && !base.is_there; ++way) {
        if (!is_of_state(space.table.ways[t]) || !is_of_state(space.head.ways[h]) ||
            !is_of_state(space.layer_ways[way]))
          continue;
        base.table = t;
        base.head = h;
        base.layer = {.way = way, .sharded = p.has_fsdp};
        const auto all = probe(p, p.prober.few, uniform(p, base, base.layer));
        if (!all) continue;
        base.is_there = true;
        base.all = sums_of(*all);
        base.profiles = {all->profile, all->profile};
      }
    }
  }
  if (base.is_there && !p.prober.few.inputs->infer) {
    if (const auto all = probe(p, p.prober.few, uniform(p, base, with_remat(base.layer))))
      base.profiles[1] = all->profile;
  }
  if (!base.is_there || p.prober.fewer.graph == nullptr) return base;
  PlanChoice shorter = uniform(p, base, base.layer);
  shorter.layers.pop_back();
  const auto less = probe(p, p.prober.fewer, shorter);
  if (less) base.each = base.all - sums_of(*less);
  base.is_there = less.has_value();
  return base;
}

struct Measuring {
  Probing& p;
  std::array<Base, 2> bases;
  int64_t count = 0;  // layers of a probe
};

const Base& base_of(const Measuring& m, ResidualState state) { return m.bases[static_cast<size_t>(state)]; }

ResidualState other(ResidualState state) {
  return state == ResidualState::Replicated ? ResidualState::BySequence : ResidualState::Replicated;
}

// Without a shorter model the sums of a layer are known up to a constant, which is the same for both states: two plans
// with one layer more of a state differ by what the states do.
void relate_bases(Measuring& m) {
  Base &whole = m.bases[0], &cut = m.bases[1];
  if (!whole.is_there || !cut.is_there || m.p.prober.fewer.graph != nullptr || m.count < 3) return;
  PlanChoice choice = uniform(m.p, whole, whole.layer);
  choice.layers.back() = cut.layer;
  choice.head = cut.head;
  const auto one = probe(m.p, m.p.prober.few, choice);
  choice.layers[choice.layers.size() - 2] = cut.layer;
  const auto two = probe(m.p, m.p.prober.few, choice);
  if (one && two) cut.each = whole.each + (sums_of(*two) - sums_of(*one));
}

// Returns what is outside of layers in a plan like the base.
Sums outside(const Measuring& m, const Base& base) { return base.all - m.count * base.each; }

LayerMemory memory_of_layer(const StepProfile& profile, size_t at, const Sums& sums) {
  LayerMemory memory = profile.layers[at];
  memory.own = sums.own;
  memory.optimizer = sums.optimizer;
  return memory;
}

// What the first layer of a step keeps besides: of the table's result, which its backward pass frees.
int64_t kept_by_first(const StepProfile& profile) {
  return profile.layers.size() < 3 ? 0 : profile.layers[0].saved - profile.layers[1].saved;
}

// Moves what the first layer keeps to the ends, which know the table.
void leave_to_ends(LayerMemory& first, int64_t kept) {
  first.forward -= kept;
  first.saved -= kept;
  first.reduce += kept;
  first.freed += kept;
}

void take_from_first(EndMemory& ends, int64_t kept) {
  ends.begin += kept;
  ends.after -= kept;
  ends.root -= kept;
  ends.after_end -= kept;
}

// The layer behind a change of the state keeps `kept` more than elsewhere, which its backward pass frees.
void take_from_next(LayerMemory& layer, int64_t kept) {
  layer.saved += kept;
  layer.regather -= kept;
  layer.backward -= kept;
  layer.reduce -= kept;
  layer.freed -= kept;
}

void measure_layer(Measuring& m, const LayerChoice& choice) {
  const ResidualState state = m.p.prober.space->layer_ways[choice.way].state;
  const Base& base = base_of(m, state);
  if (!base.is_there) return;
  const auto all = probe(m.p, m.p.prober.few, uniform(m.p, base, choice));
  if (!all) return;
  const Sums each = base.each + (sums_of(*all) - base.all) / m.count;
  LayerCost cost{.choice = choice, .state = state, .seconds = each.seconds};
  const size_t last = m.p.prober.few_layers - 1;
  cost.memory = {memory_of_layer(all->profile, 0, each), memory_of_layer(all->profile, std::min<size_t>(1, last), each),
                 memory_of_layer(all->profile, last, each)};
  leave_to_ends(cost.memory[0], kept_by_first(base.profiles[choice.remat ? 1 : 0]));
  m.p.found.costs.layers.push_back(cost);
}

// Returns the memory of the layer before a change of the state with what is different in the layer behind it.
LayerMemory with_next(LayerMemory memory, const LayerMemory& next, const LayerMemory& elsewhere) {
  take_from_next(memory, next.saved - elsewhere.saved);
  memory.next_backward = std::max<int64_t>(0, next.backward - elsewhere.backward);
  return memory;
}

// Returns what the first layer keeps besides with a table.
int64_t kept_with_table(Measuring& m, const Base& base, uint16_t table, bool remat) {
  PlanChoice choice = uniform(m.p, base, remat ? with_remat(base.layer) : base.layer);
  choice.table = table;
  const auto all = probe(m.p, m.p.prober.few, choice);
  return all ? kept_by_first(all->profile) : 0;
}

// Measures a layer with a change of the state behind it. What the ends of the other state have besides belongs to the
// change: a sequence that returns to the first state has both changes.
void measure_switch(Measuring& m, LayerCost& cost) {
  const Base &from = base_of(m, cost.state), &to = base_of(m, other(cost.state));
  if (!from.is_there || !to.is_there || m.count < 3) return;
  PlanChoice choice = uniform(m.p, from, cost.choice);
  choice.layers.back() = to.layer;
  choice.head = to.head;
  const auto all = probe(m.p, m.p.prober.few, choice);
  if (!all) return;
  const Sums own{cost.seconds, cost.memory[1].own, cost.memory[1].optimizer};
  const Sums change = sums_of(*all) - outside(m, from) - (m.count - 1) * own - to.each;
  cost.can_switch = true;
  cost.switch_seconds = change.seconds;
  const LayerMemory memory = memory_of_layer(all->profile, m.p.prober.few_layers - 2, own + change);
  for (const bool remat : {false, true}) {
    choice.layers.back() = remat ? with_remat(to.layer) : to.layer;
    const auto with = remat && m.p.prober.few.inputs->infer ? std::nullopt : probe(m.p, m.p.prober.few, choice);
    const LayerMemory& elsewhere = to.profiles[remat ? 1 : 0].layers.back();
    cost.switch_memory[remat ? 1 : 0] = with ? with_next(memory, with->profile.layers.back(), elsewhere) : memory;
  }
}

void measure_end(Measuring& m, const PlanChoice& wanted) {
  const SearchSpace& space = *m.p.prober.space;
  const SpaceWay &first = space.table.ways[wanted.table], &last = space.head.ways[wanted.head];
  const Base &from = base_of(m, first.state), &to = base_of(m, last.state);
  if (!from.is_there || !to.is_there) return;
  PlanChoice choice = wanted;
  choice.layers.assign(m.p.prober.few_layers, from.layer);
  choice.layers.back() = to.layer;
  const auto all = probe(m.p, m.p.prober.few, choice);
  if (!all) return;
  Sums sums = sums_of(*all) - (m.count - 1) * from.each - to.each;
  if (first.state != last.state) {
    const auto cost = std::ranges::find(m.p.found.costs.layers, from.layer, &LayerCost::choice);
    if (cost == m.p.found.costs.layers.end() || !cost->can_switch) return;
    const LayerMemory &with = cost->switch_memory[0], &without = cost->memory[1];
    sums = sums - Sums{cost->switch_seconds, with.own - without.own, with.optimizer - without.optimizer};
  }
  EndMemory memory = all->profile.ends;
  memory.own = sums.own;
  memory.optimizer = sums.optimizer;
  std::array<EndMemory, 2> memories = {memory, memory};
  for (const bool remat : {false, true}) {
    if (!remat || !m.p.prober.few.inputs->infer)
      take_from_first(memories[remat ? 1 : 0], kept_with_table(m, from, wanted.table, remat));
  }
  m.p.found.costs.ends.push_back({.table = wanted.table,
                                  .head = wanted.head,
                                  .first_sharded = wanted.first_sharded,
                                  .last_sharded = wanted.last_sharded,
                                  .first = first.state,
                                  .last = last.state,
                                  .needs_sharded = m.p.has_fsdp && !wanted.first_sharded && !wanted.last_sharded,
                                  .seconds = sums.seconds,
                                  .memory = memories});
}

void measure_ends(Measuring& m) {
  const SearchSpace& space = *m.p.prober.space;
  const bool is_infer = m.p.prober.few.inputs->infer;
  for (uint16_t table = 0; table < space.table.ways.size(); ++table) {
    for (uint16_t head = 0; head < space.head.ways.size(); ++head) {
      if (m.p.mesh.tp == 1 && table + head > 0) continue;
      if (is_infer && space.head.ways[head].parallel_loss) continue;
      for (const bool first_sharded : {true, false}) {
        for (const bool last_sharded : {true, false}) {
          if (!m.p.has_fsdp && (first_sharded || last_sharded)) continue;
          if (space.is_tied && first_sharded != last_sharded) continue;
          measure_end(m, {.mesh = m.p.mesh,
                          .table = table,
                          .head = head,
                          .first_sharded = first_sharded,
                          .last_sharded = last_sharded,
                          .layers = {}});
        }
      }
    }
  }
}

void add_to(LayerCost& layer, const Sums& sums) {
  layer.switch_seconds += sums.seconds;
  for (LayerMemory& memory : layer.switch_memory) {
    memory.own += sums.own;
    memory.optimizer += sums.optimizer;
  }
}

// Of two changes of the state one can cost less than nothing, because the ends of the other state cost less. The
// solver's bounds take every layer's change as possible, so this moves the difference of the two changes to the ends: a
// sequence that ends in another state than its first has one change more in that direction.
void balance_switches(MeshCosts& costs) {
  std::array<std::optional<Sums>, 2> least;  // that a change adds, by the state before it
  for (const LayerCost& layer : costs.layers) {
    std::optional<Sums>& own = least[static_cast<size_t>(layer.state)];
    if (!layer.can_switch || (own && own->seconds <= layer.switch_seconds)) continue;
    own = {layer.switch_seconds, layer.switch_memory[0].own - layer.memory[1].own,
           layer.switch_memory[0].optimizer - layer.memory[1].optimizer};
  }
  const Sums nothing, to_sequence = least[0].value_or(nothing), to_whole = least[1].value_or(nothing);
  const Sums moved = least[0] && least[1] ? (to_whole - to_sequence) / 2 : to_whole - to_sequence;
  for (LayerCost& layer : costs.layers)
    add_to(layer, layer.state == ResidualState::Replicated ? moved : nothing - moved);
  for (EndCost& end : costs.ends) {
    if (end.first == end.last) continue;
    const Sums change = end.first == ResidualState::Replicated ? nothing - moved : moved;
    end.seconds += change.seconds;
    for (EndMemory& memory : end.memory) {
      memory.own += change.own;
      memory.optimizer += change.optimizer;
    }
  }
}

Probing begin_probing(Prober& prober, const SearchMesh& mesh, bool has_fsdp) {
  return {.prober = prober,
          .mesh = mesh,
          .has_fsdp = has_fsdp,
          .judged_on = judging_mesh(prober, mesh, has_fsdp),
          .found = {}};
}

Measuring begin_measuring(Probing& p) {
  Measuring m{.p = p, .bases = {}, .count = static_cast<int64_t>(p.prober.few_layers)};
  for (const ResidualState state : {ResidualState::Replicated, ResidualState::BySequence}) {
    const bool is_possible = state == ResidualState::Replicated ||
                             (p.mesh.tp > 1 && p.prober.few.graph->operations.sequence % p.mesh.tp == 0);
    if (is_possible) m.bases[static_cast<size_t>(state)] = make_base(p, state);
  }
  relate_bases(m);
  return m;
}

// Without tensor parallelism a layer has one way.
size_t ways_on(const Probing& p) { return p.mesh.tp == 1 ? 1 : p.prober.space->layer_ways.size(); }

}  // namespace

double least_layer_seconds(Prober& prober, const SearchMesh& mesh, bool has_fsdp) {
  if (prober.fewer.graph == nullptr) return 0;
  Probing p = begin_probing(prober, mesh, has_fsdp);
  p.is_bound = true;
  Measuring m = begin_measuring(p);
  for (uint16_t way = 0; way < ways_on(p); ++way) measure_layer(m, {.way = way, .remat = false, .sharded = has_fsdp});
  double least = std::numeric_limits<double>::infinity();
  for (const LayerCost& layer : p.found.costs.layers) least = std::min(least, layer.seconds);
  return least;
}

MeasuredParts measure_parts(Prober& prober, const SearchMesh& mesh, bool has_fsdp) {
  Probing p = begin_probing(prober, mesh, has_fsdp);
  Measuring m = begin_measuring(p);
  const bool is_infer = prober.few.inputs->infer;
  for (uint16_t way = 0; way < ways_on(p); ++way) {
    for (const bool sharded : {true, false}) {
      for (const bool remat : {false, true}) {
        if ((remat && is_infer) || (sharded && !has_fsdp)) continue;
        measure_layer(m, {.way = way, .remat = remat, .sharded = sharded});
      }
    }
  }
  // A change of the state costs the same behind every way, so that a beaten way needs none.
  for (const uint32_t way : unbeaten_layers(p.found.costs)) measure_switch(m, p.found.costs.layers[way]);
  for (const Base& base : m.bases) {
    const auto cost = std::ranges::find(p.found.costs.layers, base.layer, &LayerCost::choice);
    if (base.is_there && cost != p.found.costs.layers.end() && !cost->can_switch) measure_switch(m, *cost);
  }
  measure_ends(m);
  balance_switches(p.found.costs);
  return std::move(p.found);
}

}  // namespace tpplan
