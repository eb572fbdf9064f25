#include "search/solve.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>

namespace tpplan {
namespace {

constexpr size_t kStates = 2;
constexpr double kSame = 1e-12;  // relative difference below which times are the same: sums have rounding errors

// The layers so far, as the last step of a chain.
struct Label {
  double seconds = 0;
  MemorySum memory;
  uint32_t before = 0;  // into the pool
  uint32_t layer = 0;   // into MeshCosts::layers
  bool switches = false;
};

struct Solving {
  const MeshCosts& costs;
  const SolveLimits& limits;
  std::vector<uint32_t> ways;  // that are not dominated
  std::vector<Label> pool;
  double least_seconds = 0;  // of a layer
  int64_t least_held = 0;
};

bool no_slower(double a, double b) { return a <= b * (1 + kSame); }

bool needs_time(const Solving& s) { return s.limits.objective != Objective::Memory; }

// True if `b` is never needed beside `a`.
bool beats(const LayerCost& a, const LayerCost& b) {
  if (a.state != b.state || !no_slower(a.seconds, b.seconds) || !is_at_most(a.memory, b.memory)) return false;
  if (!b.can_switch) return true;
  return a.can_switch && no_slower(a.seconds + a.switch_seconds, b.seconds + b.switch_seconds) &&
         is_at_most(a.switch_memory, b.switch_memory);
}

void drop_beaten(Solving& s) {
  for (uint32_t b = 0; b < s.costs.layers.size(); ++b) {
    const auto is_better = [&](uint32_t a) {
      return a != b && beats(s.costs.layers[a], s.costs.layers[b]) &&
             !(beats(s.costs.layers[b], s.costs.layers[a]) && b < a);
    };
    const auto others = s.costs.layers.size();
    bool is_needed = true;
    for (uint32_t a = 0; a < others && is_needed; ++a) is_needed = !is_better(a);
    if (is_needed) s.ways.push_back(b);
  }
}

// Drops labels that are never needed beside another one.
void drop_beaten(const Solving& s, std::vector<Label>& labels) {
  std::ranges::stable_sort(labels, [](const Label& a, const Label& b) {
    return std::pair(a.seconds, a.memory.held) < std::pair(b.seconds, b.memory.held);
  });
  std::vector<Label> kept;
  for (const Label& label : labels) {
    const bool is_beaten = std::ranges::any_of(kept, [&](const Label& other) {
      return (no_slower(other.seconds, label.seconds) || !needs_time(s)) && is_at_most(other.memory, label.memory);
    });
    if (is_beaten) continue;
    // The order is by time up to rounding, so a later label can also beat an earlier one if time does not count.
    if (!needs_time(s)) std::erase_if(kept, [&](const Label& other) { return is_at_most(label.memory, other.memory); });
    kept.push_back(label);
  }
  labels = std::move(kept);
}

// Compares the objective, then the other figure.
bool is_better(const Solving& s, const Solution& a, const Solution& b) {
  if (!needs_time(s)) return std::pair(a.memory, a.seconds) < std::pair(b.memory, b.seconds);
  if (!no_slower(b.seconds, a.seconds)) return true;
  return no_slower(a.seconds, b.seconds) && a.memory < b.memory;
}

// True if the label can still lead to a better solution than `best`.
bool can_win(const Solving& s, const Label& label, size_t left, const std::vector<uint32_t>& ends,
             const std::optional<Solution>& best) {
  double seconds = std::numeric_limits<double>::infinity();
  uint64_t memory = std::numeric_limits<uint64_t>::max();
  MemorySum sum = label.memory;
  sum.held += static_cast<int64_t>(left) * s.least_held;
  for (const uint32_t end : ends) {
    seconds = std::min(seconds, s.costs.ends[end].seconds);
    memory = std::min(memory, peak_of(sum, s.costs.ends[end].memory));
  }
  seconds += label.seconds + static_cast<double>(left) * s.least_seconds;
  if (s.limits.memory && memory > *s.limits.memory) return false;
  if (!best) return true;
  return needs_time(s) ? no_slower(seconds, best->seconds) : memory <= best->memory;
}

// Finds the best sequence that begins in a state.
void run_from(Solving& s, ResidualState first, std::optional<Solution>& best) {
  std::vector<uint32_t> ends;
  for (uint32_t end = 0; end < s.costs.ends.size(); ++end) {
    if (s.costs.ends[end].first == first) ends.push_back(end);
  }
  if (ends.empty()) return;
  std::array<std::vector<Label>, kStates> now;
  now[static_cast<size_t>(first)].push_back({});
  s.pool.assign(1, {});
  for (size_t at = 0; at < s.limits.layers; ++at) {
    std::array<std::vector<Label>, kStates> next;
    for (size_t state = 0; state < kStates; ++state) {
      for (Label& label : now[state]) {
        uint32_t id = 0;
        if (at > 0) {
          id = static_cast<uint32_t>(s.pool.size());
          s.pool.push_back(label);
        }
        for (const uint32_t way : s.ways) {
          const LayerCost& layer = s.costs.layers[way];
          if (static_cast<size_t>(layer.state) != state) continue;
          for (const bool switches : {false, true}) {
            if (switches && !layer.can_switch) continue;
            Label longer{.seconds = label.seconds + layer.seconds + (switches ? layer.switch_seconds : 0),
                         .memory = label.memory,
                         .before = id,
                         .layer = way,
                         .switches = switches};
            add_layer(longer.memory, switches ? layer.switch_memory : layer.memory);
            if (can_win(s, longer, s.limits.layers - at - 1, ends, best))
              next[switches ? 1 - state : state].push_back(longer);
          }
        }
      }
    }
    for (std::vector<Label>& labels : next) drop_beaten(s, labels);
    now = std::move(next);
  }
  for (size_t state = 0; state < kStates; ++state) {
    for (const Label& label : now[state]) {
      for (const uint32_t end : ends) {
        const EndCost& cost = s.costs.ends[end];
        if (static_cast<size_t>(cost.last) != state) continue;
        Solution found{.seconds = label.seconds + cost.seconds, .memory = peak_of(label.memory, cost.memory), .end = end, .layers = {}};
        if (s.limits.memory && found.memory > *s.limits.memory) continue;
        if (best && !is_better(s, found, *best)) continue;
        found.layers.resize(s.limits.layers);
        const Label* step = &label;
        for (size_t at = s.limits.layers; at-- > 0; step = &s.pool[step->before]) found.layers[at] = step->layer;
        best = std::move(found);
      }
    }
  }
}

bool fits(const Solving& s, const Solution& found) { return !s.limits.memory || found.memory <= *s.limits.memory; }

void take(const Solving& s, Solution found, std::optional<Solution>& best) {
  if (fits(s, found) && (!best || is_better(s, found, *best))) best = std::move(found);
}

// Tries sequences of at most `kinds` kinds (1 or 2): the first ones of a kind, then the others.
void try_few_kinds(const Solving& s, size_t kinds, std::optional<Solution>& best) {
  const size_t count = s.limits.layers;
  for (uint32_t end = 0; end < s.costs.ends.size(); ++end) {
    const EndCost& ends = s.costs.ends[end];
    for (const uint32_t a : s.ways) {
      if (s.costs.layers[a].state != ends.first) continue;
      for (const uint32_t b : s.ways) {
        if (s.costs.layers[b].state != s.costs.layers[a].state && !s.costs.layers[a].can_switch) continue;
        if (s.costs.layers[b].state != ends.last && !s.costs.layers[b].can_switch) continue;
        if (kinds == 1 && a != b) continue;
        for (size_t first = a == b ? count : 1; first < (a == b ? count + 1 : count); ++first) {
          std::vector<uint32_t> layers(count, b);
          std::fill_n(layers.begin(), first, a);
          take(s, sum_of(s.costs, end, std::move(layers)), best);
        }
      }
    }
  }
}

}  // namespace

Solution sum_of(const MeshCosts& costs, uint32_t end, std::vector<uint32_t> layers) {
  const EndCost& ends = costs.ends[end];
  Solution sum{.seconds = 0, .memory = 0, .end = end, .layers = std::move(layers)};
  MemorySum memory;
  for (size_t at = 0; at < sum.layers.size(); ++at) {
    const LayerCost& layer = costs.layers[sum.layers[at]];
    const ResidualState after = at + 1 < sum.layers.size() ? costs.layers[sum.layers[at + 1]].state : ends.last;
    const bool switches = after != layer.state;
    sum.seconds += layer.seconds + (switches ? layer.switch_seconds : 0);
    add_layer(memory, switches ? layer.switch_memory : layer.memory);
  }
  sum.seconds += ends.seconds;
  sum.memory = peak_of(memory, ends.memory);
  return sum;
}

std::optional<Solution> solve_mesh(const MeshCosts& costs, const SolveLimits& limits) {
  Solving s{.costs = costs, .limits = limits, .ways = {}, .pool = {}};
  drop_beaten(s);
  if (s.ways.empty() || costs.ends.empty()) return std::nullopt;
  s.least_seconds = std::numeric_limits<double>::infinity();
  s.least_held = std::numeric_limits<int64_t>::max();
  for (const uint32_t way : s.ways) {
    s.least_seconds = std::min(s.least_seconds, costs.layers[way].seconds);
    s.least_held = std::min(s.least_held, costs.layers[way].memory.held);
  }
  std::optional<Solution> best;
  try_few_kinds(s, limits.most_kinds == 1 ? 1 : 2, best);
  if (limits.most_kinds > 0 && limits.most_kinds < 3) return best;
  run_from(s, ResidualState::Replicated, best);
  run_from(s, ResidualState::BySequence, best);
  return best;
}

}  // namespace tpplan
