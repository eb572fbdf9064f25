#include "search/measure_parts.h"

#include <algorithm>
#include <array>
#include <optional>

namespace tpplan {
namespace {

struct Probing {
  Prober& prober;
  const SearchMesh& mesh;
  bool has_fsdp = true;
  MeasuredParts found;
};

std::optional<StepFigures> probe(Probing& p, Appraiser& appraiser, const PlanChoice& choice) {
  ++p.prober.probes;
  StepFigures figures = appraise(appraiser, plan_of(*p.prober.space, choice).plan);
  if (figures.is_right) return figures;
  if (p.found.why.empty()) p.found.why = figures.why;
  ++p.found.omitted;
  return std::nullopt;
}

// What adds up over the layers of a step.
struct Sums {
  double seconds = 0;
  int64_t own = 0, optimizer = 0;
};

Sums sums_of(const StepFigures& figures) {
  return {figures.seconds, figures.profile.begin, figures.profile.optimizer.peak};
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
};

PlanChoice uniform(const Probing& p, const Base& base, const LayerChoice& layer) {
  return {.mesh = p.mesh,
          .table = base.table,
          .head = base.head,
          .first_sharded = p.has_fsdp,
          .last_sharded = p.has_fsdp,
          .layers = std::vector<LayerChoice>(p.prober.few_layers, layer)};
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
      }
    }
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
  return {
      .own = sums.own, .forward = profile.forward[at], .backward = profile.backward[at], .optimizer = sums.optimizer};
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
  m.p.found.costs.layers.push_back(cost);
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
  cost.switch_memory = {memory, memory, memory};
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
    const LayerMemory &with = cost->switch_memory[1], &without = cost->memory[1];
    sums = sums - Sums{cost->switch_seconds, with.own - without.own, with.optimizer - without.optimizer};
  }
  const StepProfile& profile = all->profile;
  m.p.found.costs.ends.push_back({.table = wanted.table,
                                  .head = wanted.head,
                                  .first_sharded = wanted.first_sharded,
                                  .last_sharded = wanted.last_sharded,
                                  .first = first.state,
                                  .last = last.state,
                                  .needs_sharded = m.p.has_fsdp && !wanted.first_sharded && !wanted.last_sharded,
                                  .seconds = sums.seconds,
                                  .memory = {.own = sums.own,
                                             .before = profile.before,
                                             .loss = profile.loss,
                                             .after = profile.after,
                                             .optimizer = {sums.optimizer, profile.optimizer.end}}});
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

}  // namespace

MeasuredParts measure_parts(Prober& prober, const SearchMesh& mesh, bool has_fsdp) {
  Probing p{.prober = prober, .mesh = mesh, .has_fsdp = has_fsdp, .found = {}};
  Measuring m{.p = p, .bases = {}, .count = static_cast<int64_t>(prober.few_layers)};
  const bool is_infer = prober.few.inputs->infer;
  for (const ResidualState state : {ResidualState::Replicated, ResidualState::BySequence}) {
    const bool is_possible =
        state == ResidualState::Replicated || (mesh.tp > 1 && prober.few.graph->operations.sequence % mesh.tp == 0);
    if (is_possible) m.bases[static_cast<size_t>(state)] = make_base(p, state);
  }
  relate_bases(m);
  for (uint16_t way = 0; way < prober.space->layer_ways.size(); ++way) {
    if (mesh.tp == 1 && way > 0) break;
    for (const bool remat : {false, true}) {
      for (const bool sharded : {true, false}) {
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
  return std::move(p.found);
}

}  // namespace tpplan
