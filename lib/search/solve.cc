#include "search/solve.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/bound_sequences.h"

namespace tpplan {
namespace {

// Labels are in lists by the state of the residual, whether a layer is sharded, and what the next layer has to be.
constexpr size_t kSharded = 2, kNextLayers = 3, kLists = kStates * kSharded * kNextLayers;
constexpr size_t kFirstLabels = 200, kMostLabels = 1500;  // of a state: to find a good solution, and the best one

bool all_at_most(const LayerMemories& a, const LayerMemories& b) {
  return is_at_most(a[0], b[0]) && is_at_most(a[1], b[1]) && is_at_most(a[2], b[2]);
}

// True if `b` is never needed beside `a`. The ends, and the layer before a change of the state, count by whether a
// layer is recomputed, so layers are compared with others like them.
bool beats(const LayerCost& a, const LayerCost& b) {
  if (a.state != b.state || b.choice.sharded != a.choice.sharded || a.choice.remat != b.choice.remat ||
      !no_slower(a.seconds, b.seconds) || !all_at_most(a.memory, b.memory))
    return false;
  if (!b.can_switch) return true;
  return a.can_switch && no_slower(a.seconds + a.switch_seconds, b.seconds + b.switch_seconds) &&
         is_at_most(a.switch_memory[0], b.switch_memory[0]) && is_at_most(a.switch_memory[1], b.switch_memory[1]);
}

bool beats(const EndCost& a, const EndCost& b) {
  return a.first == b.first && a.last == b.last && (b.needs_sharded || !a.needs_sharded) &&
         no_slower(a.seconds, b.seconds) && is_at_most(a.memory[0], b.memory[0]) &&
         is_at_most(a.memory[1], b.memory[1]);
}

// Returns the parts that are not beaten; of equal ones the first.
template <typename Part>
std::vector<uint32_t> unbeaten(const std::vector<Part>& parts) {
  std::vector<uint32_t> kept;
  for (uint32_t b = 0; b < parts.size(); ++b) {
    bool is_needed = true;
    for (uint32_t a = 0; a < parts.size() && is_needed; ++a)
      is_needed = a == b || !beats(parts[a], parts[b]) || (beats(parts[b], parts[a]) && b < a);
    if (is_needed) kept.push_back(b);
  }
  return kept;
}

// True if `found` is better: by the objective, then by the other figure.
bool is_better(const Solving& s, const Solution& a, const Solution& b) {
  if (!needs_time(s)) return a.memory < b.memory || (a.memory == b.memory && !no_slower(b.seconds, a.seconds));
  if (!no_slower(b.seconds, a.seconds)) return true;
  return no_slower(a.seconds, b.seconds) && a.memory < b.memory;
}

// True if the label can lead to a solution that is better than `best`.
bool can_win(const Solving& s, const Outlook& outlook, const std::optional<Solution>& best) {
  if (!outlook.fits || !best) return outlook.fits;
  if (!needs_time(s)) return outlook.memory < static_cast<int64_t>(best->memory);
  return !no_slower(best->seconds, outlook.seconds);
}

// Returns the figures that can still meet the limit, and a small number for the others.
MemoryFigures figures_that_count(const Solving& s, const Label& label, size_t left) {
  MemoryFigures figures = figures_of(label.memory);
  if (!needs_time(s)) return figures;
  bool is_free = true;  // no figure can meet the limit
  for (size_t f = 0; f < kLimitedFigures; ++f) {
    const int64_t most = figures[f] + static_cast<int64_t>(left) * std::max<int64_t>(0, s.most[f]);
    if (most <= s.least_room[f])
      figures[f] = -kFar;
    else
      is_free = false;
  }
  if (is_free) std::fill(figures.begin() + kLimitedFigures, figures.end(), -kFar);
  return figures;
}

// Drops labels that are never needed beside another one, if `left` layers follow.
void drop_beaten(const Solving& s, std::vector<Label>& labels, size_t left_layers) {
  std::vector<std::pair<MemoryFigures, uint32_t>> rows;
  for (uint32_t i = 0; i < labels.size(); ++i) rows.emplace_back(figures_that_count(s, labels[i], left_layers), i);
  std::ranges::sort(rows, [&](const auto& a, const auto& b) {
    if (needs_time(s) && labels[a.second].seconds != labels[b.second].seconds)
      return labels[a.second].seconds < labels[b.second].seconds;
    return a < b;
  });
  std::vector<std::pair<MemoryFigures, uint32_t>> kept;
  for (const auto& row : rows) {
    const bool is_beaten =
        std::ranges::any_of(kept, [&](const auto& other) { return is_at_most(other.first, row.first); });
    if (!is_beaten) kept.push_back(row);
  }
  std::vector<Label> left;
  left.reserve(kept.size());
  for (const auto& row : kept) left.push_back(labels[row.second]);
  labels = std::move(left);
}

// Keeps the labels with the best outlook.
void keep_best(Solving& s, std::vector<Label>& labels, ResidualState state, size_t left, size_t most) {
  if (labels.size() <= most) return;
  const auto bound_of = [&](const Label& label) {
    const Outlook outlook = outlook_of(s, label, state, left);
    return needs_time(s) ? outlook.seconds : static_cast<double>(outlook.memory);
  };
  std::ranges::stable_sort(labels, {}, bound_of);
  s.lost = std::min(s.lost, bound_of(labels[most]));
  labels.resize(most);
}

// Returns the figures of two layers in the middle of a sequence, behind a layer with a buffer.
MemoryFigures figures_of_pair(const LayerCost& a, const LayerCost& b, int64_t buffer) {
  MemorySum sum{.output = buffer, .last_output = buffer, .next_backward = buffer, .has_sharded = true};
  add_layer(sum, memory_at(a, LayerPlace::Middle));
  add_layer(sum, memory_at(b, LayerPlace::Middle));
  return figures_of(sum);
}

// True if a sequence with layer `a` and then `b` is not needed, because it is no better than with `b` and then `a`,
// whatever is around them: peaks are linear in the buffer of the layer before. Only sequences in which layers with
// larger peaks come later are left out, so that some order of all layers stays.
bool is_later(const LayerCost& a, const LayerCost& b) {
  constexpr int64_t kLargeBuffer = int64_t{1} << 50;
  const LayerMemory &one = a.memory[1], &two = b.memory[1];
  if (one.output != two.output || one.reduced != two.reduced || one.is_sharded != two.is_sharded) return false;
  const int64_t peak_a = backward_peak(one), peak_b = backward_peak(two);
  const bool swaps = peak_a < peak_b || (peak_a == peak_b && b.choice < a.choice);
  return swaps && is_at_most(figures_of_pair(b, a, 0), figures_of_pair(a, b, 0)) &&
         is_at_most(figures_of_pair(b, a, kLargeBuffer), figures_of_pair(a, b, kLargeBuffer));
}

// Adds the labels of a label with one layer more.
void extend(Solving& s, size_t at, const Label& label, size_t list, const std::optional<Solution>& best,
            std::array<std::vector<Label>, kLists>& next_lists) {
  const size_t state = list % kStates, left = s.limits.layers - at - 1;
  const auto wanted = static_cast<NextLayer>(list / kStates / kSharded);
  const auto id = static_cast<uint32_t>(s.pool.size());
  s.pool.push_back(label);
  for (const uint32_t way : s.ways) {
    const LayerCost& layer = s.costs.layers[way];
    const LayerPlace place = place_of(s, at);
    if (static_cast<size_t>(layer.state) != state || is_excluded(s, layer, place)) continue;
    if (wanted != kAnyLayer && layer.choice.remat != (wanted == kRematLayer)) continue;
    const LayerCost& before = s.costs.layers[label.layer];
    const bool are_middle = at > 1 && left > 0 && before.state == layer.state && wanted == kAnyLayer;
    const bool is_out_of_order = are_middle && is_later(before, layer);
    for (const NextLayer next : {kAnyLayer, kPlainLayer, kRematLayer}) {
      const bool switches = next != kAnyLayer;
      if (switches ? !layer.can_switch || (left == 0 && next == kRematLayer) : is_out_of_order) continue;
      Label longer{.seconds = label.seconds + layer.seconds + (switches ? layer.switch_seconds : 0),
                   .memory = label.memory,
                   .before = id,
                   .layer = way,
                   .has_sharded = label.has_sharded || layer.choice.sharded};
      add_layer(longer.memory, memory_at(layer, place, next));
      const size_t after = switches ? 1 - state : state;
      if (can_win(s, outlook_of(s, longer, ResidualState(after), left), best))
        next_lists[after + kStates * ((longer.has_sharded ? 1 : 0) + kSharded * next)].push_back(longer);
    }
  }
}

// Finds the best sequence. With fewer labels than it needs it finds a good one.
void find_sequence(Solving& s, size_t most_labels, std::optional<Solution>& best) {
  std::vector<uint32_t> ends;
  for (const uint32_t end : s.end_ways) {
    if (s.costs.ends[end].first == s.first) ends.push_back(end);
  }
  if (ends.empty()) return;
  std::array<std::vector<Label>, kLists> now;
  now[static_cast<size_t>(s.first)].push_back({});
  s.pool.clear();
  for (size_t at = 0; at < s.limits.layers; ++at) {
    std::array<std::vector<Label>, kLists> next;
    for (size_t list = 0; list < kLists; ++list) {
      for (const Label& label : now[list]) extend(s, at, label, list, best, next);
    }
    const size_t left = s.limits.layers - at - 1;
    for (size_t list = 0; list < kLists; ++list) {
      const auto state = ResidualState(list % kStates);
      keep_best(s, next[list], state, left, 8 * most_labels);
      drop_beaten(s, next[list], left);
      keep_best(s, next[list], state, left, most_labels);
    }
    now = std::move(next);
  }
  for (size_t list = 0; list < kLists; ++list) {
    for (const Label& label : now[list]) {
      for (const uint32_t end : ends) {
        const EndCost& cost = s.costs.ends[end];
        if (static_cast<size_t>(cost.last) != list % kStates || (cost.needs_sharded && !label.has_sharded)) continue;
        Solution found{.seconds = label.seconds + cost.seconds,
                       .memory = peak_of(label.memory, memory_of(s, cost)),
                       .end = end,
                       .layers = {}};
        if (s.limits.memory && found.memory > *s.limits.memory) continue;
        if (best && !is_better(s, found, *best)) continue;
        found.layers.resize(s.limits.layers);
        const Label* step = &label;
        for (size_t back = s.limits.layers; back-- > 0; step = &s.pool[step->before]) found.layers[back] = step->layer;
        best = std::move(found);
      }
    }
  }
}

void take(const Solving& s, Solution found, std::optional<Solution>& best) {
  const bool fits = !s.limits.memory || found.memory <= *s.limits.memory;
  if (fits && (!best || is_better(s, found, *best))) best = std::move(found);
}

// Tries sequences of at most `kinds` kinds (1 or 2): the first layers of one kind, the others of another.
void try_few_kinds(const Solving& s, size_t kinds, std::optional<Solution>& best) {
  const size_t count = s.limits.layers;
  for (const uint32_t end : s.end_ways) {
    const EndCost& ends = s.costs.ends[end];
    for (const uint32_t a : s.ways) {
      const LayerCost& first = s.costs.layers[a];
      if (first.state != ends.first) continue;
      for (const uint32_t b : s.ways) {
        const LayerCost& second = s.costs.layers[b];
        if (a != b && kinds == 1) continue;
        if (second.state != first.state && !first.can_switch) continue;
        if (second.state != ends.last && !second.can_switch) continue;
        if (ends.needs_sharded && !first.choice.sharded && !second.choice.sharded) continue;
        for (size_t from = a == b ? count : 1; from < (a == b ? count + 1 : count); ++from) {
          if (best && needs_time(s)) {
            const double seconds = static_cast<double>(from) * first.seconds +
                                   static_cast<double>(count - from) * second.seconds + ends.seconds +
                                   (second.state != first.state ? first.switch_seconds : 0) +
                                   (second.state != ends.last ? second.switch_seconds : 0);
            if (!no_slower(seconds, best->seconds)) continue;
          }
          std::vector<uint32_t> layers(count, b);
          std::fill_n(layers.begin(), from, a);
          take(s, sum_of(s.costs, end, std::move(layers)), best);
        }
      }
    }
  }
}

}  // namespace

double objective_of(const Solution& solution, Objective objective) {
  return objective == Objective::Memory ? static_cast<double>(solution.memory) : solution.seconds;
}

std::vector<uint32_t> unbeaten_layers(const MeshCosts& costs) { return unbeaten(costs.layers); }

Solution sum_of(const MeshCosts& costs, uint32_t end, std::vector<uint32_t> layers) {
  const EndCost& ends = costs.ends[end];
  Solution sum{.seconds = 0, .memory = 0, .end = end, .layers = std::move(layers)};
  MemorySum memory;
  const size_t count = sum.layers.size();
  for (size_t at = 0; at < count; ++at) {
    const LayerCost& layer = costs.layers[sum.layers[at]];
    const ResidualState after = at + 1 < count ? costs.layers[sum.layers[at + 1]].state : ends.last;
    const bool switches = after != layer.state;
    sum.seconds += layer.seconds + (switches ? layer.switch_seconds : 0);
    const bool next_remat = at + 1 < count && costs.layers[sum.layers[at + 1]].choice.remat;
    const NextLayer next = !switches ? kAnyLayer : next_remat ? kRematLayer : kPlainLayer;
    const LayerPlace place = at == 0 ? LayerPlace::First : at + 1 == count ? LayerPlace::Last : LayerPlace::Middle;
    add_layer(memory, memory_at(layer, place, next));
  }
  sum.seconds += ends.seconds;
  sum.memory = peak_of(memory, ends.memory[costs.layers[sum.layers.front()].choice.remat ? 1 : 0]);
  return sum;
}

std::optional<Solution> solve_mesh(const MeshCosts& costs, const SolveLimits& limits) {
  Solving s{
      .costs = costs, .limits = limits, .ways = unbeaten(costs.layers), .end_ways = unbeaten(costs.ends), .pool = {}};
  if (s.ways.empty() || s.end_ways.empty()) return std::nullopt;
  std::optional<Solution> best;
  try_few_kinds(s, limits.most_kinds == 1 ? 1 : 2, best);
  if (limits.most_kinds > 0 && limits.most_kinds < 3) return best;
  const std::vector<uint32_t> all_ways = s.ways;
  for (const size_t most_labels : {kFirstLabels, kMostLabels}) {
    s.lost = std::numeric_limits<double>::infinity();
    for (const ResidualState first : {ResidualState::Replicated, ResidualState::BySequence}) {
      for (const bool first_remat : {false, true}) {
        s.first = first;
        s.first_remat = first_remat;
        s.ways = all_ways;
        for (size_t before = 0; before != s.ways.size() && !s.ways.empty();) {
          before = s.ways.size();
          prepare_bounds(s);
          drop_costly(s, best);
        }
        if (!s.ways.empty()) find_sequence(s, most_labels, best);
      }
    }
    if (std::isinf(s.lost)) break;
  }
  if (best) best->bound = std::min(objective_of(*best, limits.objective), s.lost);
  return best;
}

}  // namespace tpplan
