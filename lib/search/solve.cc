#include "search/solve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tpplan {
namespace {

constexpr size_t kStates = 2, kLists = 4;  // states of the residual; the same with and without a sharded layer
constexpr double kEqualTimes = 1e-12;      // relative difference of times that are the same but for rounding
constexpr int64_t kFar = INT64_MAX / 8;
constexpr size_t kFirstLabels = 200, kMostLabels = 1500;  // of a state: to find a good solution, and the best one

// The layers so far, as the last step of a chain.
struct Label {
  double seconds = 0;
  MemorySum memory;
  uint32_t before = 0;  // into the pool
  uint32_t layer = 0;   // into MeshCosts::layers
  bool has_sharded = false;
};

// The figures of figures_of(), and those that add up over the layers.
constexpr size_t kOwn = 0, kSaved = 1, kForward = 2, kBackward = 3, kLeft = 4, kOptimizer = 5;
constexpr size_t kAdded[] = {kOwn, kSaved, kLeft, kOptimizer};

struct Solving {
  const MeshCosts& costs;
  const SolveLimits& limits;
  std::vector<uint32_t> ways, end_ways;  // that are not beaten
  std::vector<Label> pool;
  double lost = std::numeric_limits<double>::infinity();  // the best objective of labels that were dropped for room
  MemoryFigures least{}, most{};                          // that a layer adds
  MemoryFigures least_room{};  // as `room`, with the largest ends and peaks: labels with less never meet the limit
  double least_seconds = 0;    // of a layer
  double least_end = 0;        // of the ends
  int64_t limit = kFar;
  MemoryFigures room{};                  // by figure: what layers can have at most
  std::array<double, 6> price{};         // seconds for each byte of a figure, of the bound below
  std::array<double, 6> priced_least{};  // least seconds of a layer with its bytes at this price
};

bool no_slower(double a, double b) { return a <= b + kEqualTimes * std::abs(b); }

bool needs_time(const Solving& s) { return s.limits.objective != Objective::Memory; }

bool all_at_most(const LayerMemories& a, const LayerMemories& b) {
  return is_at_most(a[0], b[0]) && is_at_most(a[1], b[1]) && is_at_most(a[2], b[2]);
}

// True if `b` is never needed beside `a`.
bool beats(const LayerCost& a, const LayerCost& b) {
  if (a.state != b.state || (b.choice.sharded && !a.choice.sharded) || !no_slower(a.seconds, b.seconds) ||
      !all_at_most(a.memory, b.memory))
    return false;
  if (!b.can_switch) return true;
  return a.can_switch && no_slower(a.seconds + a.switch_seconds, b.seconds + b.switch_seconds) &&
         all_at_most(a.switch_memory, b.switch_memory);
}

bool beats(const EndCost& a, const EndCost& b) {
  return a.first == b.first && a.last == b.last && (b.needs_sharded || !a.needs_sharded) &&
         no_slower(a.seconds, b.seconds) && is_at_most(a.memory, b.memory);
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

LayerPlace place_of(const Solving& s, size_t at) {
  return at == 0 ? LayerPlace::First : at + 1 == s.limits.layers ? LayerPlace::Last : LayerPlace::Middle;
}

const LayerMemory& memory_at(const LayerCost& layer, LayerPlace place, bool switches) {
  return (switches ? layer.switch_memory : layer.memory)[static_cast<size_t>(place)];
}

// Returns what a layer adds to the figures that add up.
MemoryFigures added_by(const LayerMemory& layer) {
  MemorySum sum;
  add_layer(sum, layer);
  return figures_of(sum);
}

// Returns, by figure, the memory outside of layers when the figure decides.
MemoryFigures outside_of(const EndMemory& ends) {
  const int64_t begin = ends.before.end, behind = begin + ends.loss.end;
  return {ends.own + ends.before.peak,
          ends.own + begin + ends.loss.peak,
          ends.own + begin,
          ends.own + behind,
          ends.own + behind + ends.after.peak,
          ends.own + behind + ends.after.end + ends.optimizer.peak};
}

// Calls `take` with each memory of each way that is needed.
template <typename Take>
void for_each_memory(const Solving& s, Take take) {
  for (const uint32_t way : s.ways) {
    const LayerCost& layer = s.costs.layers[way];
    for (const LayerMemory& memory : layer.memory) take(layer.seconds, memory);
    if (!layer.can_switch) continue;
    for (const LayerMemory& memory : layer.switch_memory) take(layer.seconds + layer.switch_seconds, memory);
  }
}

// Returns the largest price of a byte at which one way is worth another.
double steepest_price(const Solving& s, size_t figure) {
  std::vector<std::pair<double, int64_t>> points;
  for_each_memory(
      s, [&](double seconds, const LayerMemory& memory) { points.emplace_back(seconds, added_by(memory)[figure]); });
  double price = 0;
  for (const auto& [fast, large] : points) {
    for (const auto& [slow, small] : points) {
      if (slow > fast && small < large) price = std::max(price, (slow - fast) / static_cast<double>(large - small));
    }
  }
  return price;
}

// Bounds for the layers that follow. With a price of bytes, the seconds of layers are at least those of the cheapest
// layer with its bytes, less the price of the room: a Lagrangian bound, right for every price.
void prepare_bounds(Solving& s) {
  s.least.fill(kFar);
  s.most.fill(-kFar);
  int64_t peak = 0;  // of a layer, at most
  s.least_seconds = std::numeric_limits<double>::infinity();
  s.least_end = std::numeric_limits<double>::infinity();
  for_each_memory(s, [&](double seconds, const LayerMemory& memory) {
    const MemoryFigures added = added_by(memory);
    for (const size_t f : kAdded) {
      s.least[f] = std::min(s.least[f], added[f]);
      s.most[f] = std::max(s.most[f], added[f]);
    }
    peak = std::max({peak, memory.forward.peak, memory.backward.peak + memory.forward.end});
    s.least_seconds = std::min(s.least_seconds, seconds);
  });
  MemoryFigures outside, most_outside;
  outside.fill(kFar);
  most_outside.fill(-kFar);
  for (const uint32_t end : s.end_ways) {
    const MemoryFigures own = outside_of(s.costs.ends[end].memory);
    for (size_t f = 0; f < own.size(); ++f) {
      outside[f] = std::min(outside[f], own[f]);
      most_outside[f] = std::max(most_outside[f], own[f]);
    }
    s.least_end = std::min(s.least_end, s.costs.ends[end].seconds);
  }
  s.priced_least.fill(s.least_seconds);
  s.limit = static_cast<int64_t>(std::min<uint64_t>(s.limits.memory.value_or(kFar), kFar));
  for (size_t f = 0; f < s.room.size(); ++f) s.room[f] = s.limit - outside[f];
  s.most[kForward] = s.most[kOwn];
  s.most[kBackward] = s.most[kLeft];
  for (size_t f = 0; f < s.room.size(); ++f) s.least_room[f] = s.limit - most_outside[f];
  const int64_t highest = std::max({most_outside[kSaved], most_outside[kForward], most_outside[kBackward]});
  s.least_room[kSaved] =
      s.limit - highest - peak - static_cast<int64_t>(s.limits.layers) * std::max<int64_t>(0, s.most[kLeft]);
  // The backward pass of the last layer begins when everything is saved.
  int64_t least_peak = kFar;
  for_each_memory(s,
                  [&](double, const LayerMemory& memory) { least_peak = std::min(least_peak, memory.backward.peak); });
  s.room[kSaved] = std::min(s.room[kSaved], s.room[kBackward] - least_peak);
  if (!s.limits.memory || !needs_time(s)) return;
  const auto count = static_cast<double>(s.limits.layers);
  for (const size_t f : kAdded) {
    const auto least_at = [&](double price) {
      double least = std::numeric_limits<double>::infinity();
      for_each_memory(s, [&](double seconds, const LayerMemory& memory) {
        least = std::min(least, seconds + price * static_cast<double>(added_by(memory)[f]));
      });
      return least;
    };
    const auto bound_at = [&](double price) {
      return count * least_at(price) - price * static_cast<double>(s.room[f]);
    };
    double low = 0, high = steepest_price(s, f);
    for (int step = 0; step < 60; ++step) {  // the bound is concave
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      (bound_at(a) < bound_at(b) ? low : high) = bound_at(a) < bound_at(b) ? a : b;
    }
    s.price[f] = (low + high) / 2;
    s.priced_least[f] = least_at(s.price[f]);
  }
}

// True if `found` is better: by the objective, then by the other figure.
bool is_better(const Solving& s, const Solution& a, const Solution& b) {
  if (!needs_time(s)) return a.memory < b.memory || (a.memory == b.memory && !no_slower(b.seconds, a.seconds));
  if (!no_slower(b.seconds, a.seconds)) return true;
  return no_slower(a.seconds, b.seconds) && a.memory < b.memory;
}

// What a label can lead to at best, if `left` layers follow.
struct Outlook {
  bool fits = true;
  double seconds = 0;
  int64_t memory = 0;
};

Outlook outlook_of(const Solving& s, const Label& label, size_t left) {
  const MemoryFigures figures = figures_of(label.memory);
  const auto count = static_cast<int64_t>(left);
  // What adds to a figure that is a maximum is what adds to the sum below it.
  constexpr size_t kBelow[] = {kOwn, kSaved, kOwn, kLeft, kLeft, kOptimizer};
  int64_t over = INT64_MIN;
  for (size_t f = 0; f < figures.size(); ++f)
    over = std::max(over, figures[f] + count * s.least[kBelow[f]] - s.room[f]);
  double seconds = static_cast<double>(left) * s.least_seconds;
  if (s.limits.memory && needs_time(s)) {
    for (const size_t f : kAdded)
      seconds = std::max(seconds, static_cast<double>(left) * s.priced_least[f] -
                                      s.price[f] * static_cast<double>(s.room[f] - figures[f]));
  }
  return {!s.limits.memory || over <= 0, label.seconds + seconds + s.least_end, over + s.limit};
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
  for (size_t f = 0; f < figures.size(); ++f) {
    const int64_t most = figures[f] + static_cast<int64_t>(left) * std::max<int64_t>(0, s.most[f]);
    if (most <= s.least_room[f]) figures[f] = -kFar;
  }
  return figures;
}

// Leaves out the ways with which no sequence is better than `best`: one such layer and otherwise the cheapest ones cost
// more.
void drop_costly(Solving& s, const std::optional<Solution>& best) {
  if (!best || !needs_time(s) || !s.limits.memory) return;
  const auto others = static_cast<double>(s.limits.layers - 1);
  std::erase_if(s.ways, [&](uint32_t way) {
    const LayerCost& layer = s.costs.layers[way];
    double bound = std::numeric_limits<double>::infinity();  // of the cheapest place and change of state
    const auto take = [&](double seconds, const LayerMemory& memory) {
      double own = others * s.least_seconds + seconds;
      for (const size_t f : kAdded)
        own = std::max(own, others * s.priced_least[f] + seconds +
                                s.price[f] * static_cast<double>(added_by(memory)[f] - s.room[f]));
      bound = std::min(bound, own);
    };
    for (const LayerMemory& memory : layer.memory) take(layer.seconds, memory);
    if (layer.can_switch) {
      for (const LayerMemory& memory : layer.switch_memory) take(layer.seconds + layer.switch_seconds, memory);
    }
    return no_slower(best->seconds, bound + s.least_end);
  });
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
void keep_best(Solving& s, std::vector<Label>& labels, size_t left, size_t most) {
  if (labels.size() <= most) return;
  const auto bound_of = [&](const Label& label) {
    const Outlook outlook = outlook_of(s, label, left);
    return needs_time(s) ? outlook.seconds : static_cast<double>(outlook.memory);
  };
  std::ranges::stable_sort(labels, {}, bound_of);
  s.lost = std::min(s.lost, bound_of(labels[most]));
  labels.resize(most);
}

// Finds the best sequence that begins in a state. With fewer labels than it needs it finds a good one.
void run_from(Solving& s, ResidualState first, size_t most_labels, std::optional<Solution>& best) {
  std::vector<uint32_t> ends;
  for (const uint32_t end : s.end_ways) {
    if (s.costs.ends[end].first == first) ends.push_back(end);
  }
  if (ends.empty()) return;
  std::array<std::vector<Label>, kLists> now;
  now[static_cast<size_t>(first)].push_back({});
  s.pool.clear();
  for (size_t at = 0; at < s.limits.layers; ++at) {
    std::array<std::vector<Label>, kLists> next;
    for (size_t list = 0; list < kLists; ++list) {
      const size_t state = list % kStates;
      for (const Label& label : now[list]) {
        const auto id = static_cast<uint32_t>(s.pool.size());
        s.pool.push_back(label);
        for (const uint32_t way : s.ways) {
          const LayerCost& layer = s.costs.layers[way];
          if (static_cast<size_t>(layer.state) != state) continue;
          for (const bool switches : {false, true}) {
            if (switches && !layer.can_switch) continue;
            Label longer{.seconds = label.seconds + layer.seconds + (switches ? layer.switch_seconds : 0),
                         .memory = label.memory,
                         .before = id,
                         .layer = way,
                         .has_sharded = label.has_sharded || layer.choice.sharded};
            add_layer(longer.memory, memory_at(layer, place_of(s, at), switches));
            if (can_win(s, outlook_of(s, longer, s.limits.layers - at - 1), best))
              next[(switches ? 1 - state : state) + (longer.has_sharded ? kStates : 0)].push_back(longer);
          }
        }
      }
    }
    for (std::vector<Label>& labels : next) {
      keep_best(s, labels, s.limits.layers - at - 1, 8 * most_labels);
      drop_beaten(s, labels, s.limits.layers - at - 1);
      keep_best(s, labels, s.limits.layers - at - 1, most_labels);
    }
    now = std::move(next);
  }
  for (size_t list = 0; list < kLists; ++list) {
    for (const Label& label : now[list]) {
      for (const uint32_t end : ends) {
        const EndCost& cost = s.costs.ends[end];
        if (static_cast<size_t>(cost.last) != list % kStates || (cost.needs_sharded && !label.has_sharded)) continue;
        Solution found{.seconds = label.seconds + cost.seconds,
                       .memory = peak_of(label.memory, cost.memory),
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
    const LayerPlace place = at == 0 ? LayerPlace::First : at + 1 == count ? LayerPlace::Last : LayerPlace::Middle;
    add_layer(memory, memory_at(layer, place, switches));
  }
  sum.seconds += ends.seconds;
  sum.memory = peak_of(memory, ends.memory);
  return sum;
}

std::optional<Solution> solve_mesh(const MeshCosts& costs, const SolveLimits& limits) {
  Solving s{
      .costs = costs, .limits = limits, .ways = unbeaten(costs.layers), .end_ways = unbeaten(costs.ends), .pool = {}};
  if (s.ways.empty() || s.end_ways.empty()) return std::nullopt;
  prepare_bounds(s);
  std::optional<Solution> best;
  try_few_kinds(s, limits.most_kinds == 1 ? 1 : 2, best);
  if (limits.most_kinds > 0 && limits.most_kinds < 3) return best;
  for (const size_t most_labels : {kFirstLabels, kMostLabels}) {
    for (size_t before = 0; before != s.ways.size() && !s.ways.empty();) {
      before = s.ways.size();
      drop_costly(s, best);
      if (!s.ways.empty()) prepare_bounds(s);
    }
    s.lost = std::numeric_limits<double>::infinity();
    run_from(s, ResidualState::Replicated, most_labels, best);
    run_from(s, ResidualState::BySequence, most_labels, best);
  }
  if (best) best->bound = std::min(objective_of(*best, limits.objective), s.lost);
  return best;
}

}  // namespace tpplan
