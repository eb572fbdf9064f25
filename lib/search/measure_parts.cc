#include "search/measure_parts.h"

#include <algorithm>
#include <array>
#include <optional>

namespace tpplan {
namespace {

// The figures of a step that are sums over its parts, and the largest transient.
struct Sums {
  double seconds = 0;
  int64_t held = 0;
  uint64_t transient = 0;
};

struct Probing {
  Prober& prober;
  const SearchMesh& mesh;
  MeasuredParts found;
};

std::optional<Sums> probe(Probing& p, Appraiser& appraiser, const PlanChoice& choice) {
  ++p.prober.probes;
  const StepFigures figures = appraise(appraiser, plan_of(*p.prober.space, choice).plan);
  if (!figures.is_right) {
    if (p.found.why.empty()) p.found.why = figures.why;
    ++p.found.left_out;
    return std::nullopt;
  }
  return Sums{figures.seconds, static_cast<int64_t>(figures.memory - figures.transient), figures.transient};
}

// A state of the residual with what other plans are compared with.
struct Base {
  bool is_there = false;
  uint16_t table = 0, head = 0;
  LayerChoice layer;
  Sums all;    // of a model of few layers that are like `layer`
  Sums layer_sums;  // of one layer
};

PlanChoice uniform(const Probing& p, const Base& base, const LayerChoice& layer) {
  return {.mesh = p.mesh,
          .table = base.table,
          .head = base.head,
          .layers = std::vector<LayerChoice>(p.prober.few_layers, layer)};
}

std::optional<uint16_t> first_of(const SpaceUnit& unit, ResidualState state) {
  for (uint16_t way = 0; way < unit.ways.size(); ++way) {
    if (unit.ways[way].state == state) return way;
  }
  return std::nullopt;
}

Base make_base(Probing& p, ResidualState state) {
  const SearchSpace& space = *p.prober.space;
  Base base;
  const auto table = first_of(space.table, state), head = first_of(space.head, state);
  if (!table || !head) return base;
  for (uint16_t t = *table; t < space.table.ways.size() && !base.is_there; ++t) {
    if (space.table.ways[t].state != state) continue;
    for (uint16_t h = *head; h < space.head.ways.size() && !base.is_there; ++h) {
      if (space.head.ways[h].state != state) continue;
      for (uint16_t way = 0; way < space.layer_ways.size() && !base.is_there; ++way) {
        if (space.layer_ways[way].state != state) continue;
        base.table = t;
        base.head = h;
        base.layer = {.way = way};
        const auto all = probe(p, p.prober.few, uniform(p, base, base.layer));
        if (!all) continue;
        base.is_there = true;
        base.all = *all;
      }
    }
  }
  if (!base.is_there || p.prober.fewer.graph == nullptr) return base;
  PlanChoice shorter = uniform(p, base, base.layer);
  shorter.layers.pop_back();
  const auto less = probe(p, p.prober.fewer, shorter);
  if (less) base.layer_sums = {base.all.seconds - less->seconds, base.all.held - less->held, 0};
  base.is_there = less.has_value();
  return base;
}

// What measured plans share.
struct Measuring {
  Probing& p;
  std::array<Base, 2> bases;
  int64_t count = 0;  // layers of a probe
};

const Base& base_of(const Measuring& m, ResidualState state) { return m.bases[static_cast<size_t>(state)]; }

ResidualState other(ResidualState state) {
  return state == ResidualState::Replicated ? ResidualState::BySequence : ResidualState::Replicated;
}

// Returns what is outside of layers in a plan whose layers are all like the base: the gauge puts all of it on the table.
Sums outside(const Measuring& m, const Base& base) {
  return {base.all.seconds - static_cast<double>(m.count) * base.layer_sums.seconds,
          base.all.held - m.count * base.layer_sums.held, base.all.transient};
}

void measure_layer(Measuring& m, const LayerChoice& choice) {
  const SearchSpace& space = *m.p.prober.space;
  const ResidualState state = space.layer_ways[choice.way].state;
  const Base& base = base_of(m, state);
  if (!base.is_there) return;
  const auto all = probe(m.p, m.p.prober.few, uniform(m.p, base, choice));
  if (!all) return;
  const auto count = static_cast<double>(m.count);
  LayerCost cost{.choice = choice, .state = state};
  cost.seconds = base.layer_sums.seconds + (all->seconds - base.all.seconds) / count;
  cost.memory = {base.layer_sums.held + (all->held - base.all.held) / m.count, all->transient};
  m.p.found.costs.layers.push_back(cost);
}

// Measures a layer with a change of the state behind it: the last layer of the probe has the other state.
void measure_switch(Measuring& m, LayerCost& cost) {
  const Base &from = base_of(m, cost.state), &to = base_of(m, other(cost.state));
  if (!from.is_there || !to.is_there || m.count < 2) return;
  PlanChoice choice = uniform(m.p, from, cost.choice);
  choice.layers.back() = to.layer;
  choice.head = to.head;
  const auto all = probe(m.p, m.p.prober.few, choice);
  if (!all) return;
  const Sums ends = outside(m, from);  // the head of `to` has no cost in this gauge
  cost.can_switch = true;
  cost.switch_seconds = all->seconds - ends.seconds - static_cast<double>(m.count - 1) * cost.seconds - to.layer_sums.seconds;
  cost.switch_memory = {all->held - ends.held - (m.count - 1) * cost.memory.held - to.layer_sums.held + cost.memory.held,
                        all->transient};
}

struct EndChange {
  Sums change;  // against the base
  uint16_t way = 0;
  bool sharded = true;
};

void measure_ends(Measuring& m) {
  const SearchSpace& space = *m.p.prober.space;
  const bool has_fsdp = m.p.mesh.fsdp > 1, is_infer = m.p.prober.few.inputs->infer;
  for (uint16_t table = 0; table < space.table.ways.size(); ++table) {
    for (uint16_t head = 0; head < space.head.ways.size(); ++head) {
      const SpaceWay &first = space.table.ways[table], &last = space.head.ways[head];
      if (m.p.mesh.tp == 1 && table + head > 0) continue;
      if (is_infer && last.parallel_loss) continue;
      const Base &from = base_of(m, first.state), &to = base_of(m, last.state);
      if (!from.is_there || !to.is_there) continue;
      for (const bool first_sharded : {true, false}) {
        for (const bool last_sharded : {true, false}) {
          if (!has_fsdp && !(first_sharded && last_sharded)) continue;
          if (space.is_tied && first_sharded != last_sharded) continue;
          PlanChoice choice = uniform(m.p, from, from.layer);
          choice.layers.back() = to.layer;
          choice.table = table;
          choice.head = head;
          choice.first_sharded = first_sharded;
          choice.last_sharded = last_sharded;
          const auto all = probe(m.p, m.p.prober.few, choice);
          if (!all) continue;
          double switch_seconds = 0;
          int64_t switch_held = 0;
          if (first.state != last.state) {
            const auto cost = std::ranges::find(m.p.found.costs.layers, from.layer, &LayerCost::choice);
            if (cost == m.p.found.costs.layers.end() || !cost->can_switch) continue;
            switch_seconds = cost->switch_seconds;
            switch_held = cost->switch_memory.held - cost->memory.held;
          }
          EndCost cost{.table = table, .head = head, .first_sharded = first_sharded, .last_sharded = last_sharded};
          cost.first = first.state;
          cost.last = last.state;
          cost.seconds = all->seconds - static_cast<double>(m.count - 1) * from.layer_sums.seconds - to.layer_sums.seconds - switch_seconds;
          cost.memory = {all->held - (m.count - 1) * from.layer_sums.held - to.layer_sums.held - switch_held, all->transient};
          m.p.found.costs.ends.push_back(cost);
        }
      }
    }
  }
}

}  // namespace

MeasuredParts measure_parts(Prober& prober, const SearchMesh& mesh) {
  Probing p{.prober = prober, .mesh = mesh, .found = {}};
  const SearchSpace& space = *prober.space;
  Measuring m{.p = p, .bases = {}, .count = static_cast<int64_t>(prober.few_layers)};
  const bool is_infer = prober.few.inputs->infer;
  for (const ResidualState state : {ResidualState::Replicated, ResidualState::BySequence}) {
    const bool is_possible =
        state == ResidualState::Replicated || (mesh.tp > 1 && prober.few.graph->operations.sequence % mesh.tp == 0);
    if (is_possible) m.bases[static_cast<size_t>(state)] = make_base(p, state);
  }
  for (uint16_t way = 0; way < space.layer_ways.size(); ++way) {
    if (mesh.tp == 1 && way > 0) break;
    for (const bool remat : {false, true}) {
      for (const bool sharded : {true, false}) {
        if ((remat && is_infer) || (!sharded && mesh.fsdp == 1)) continue;
        measure_layer(m, {.way = way, .remat = remat, .sharded = sharded});
      }
    }
  }
  for (LayerCost& cost : p.found.costs.layers) measure_switch(m, cost);
  measure_ends(m);
  return std::move(p.found);
}

}  // namespace tpplan
