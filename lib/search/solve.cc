#include "search/solve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace tpplan {
namespace {

// Labels are in lists by the state of the residual, whether a layer is sharded, and what the next layer has to be.
constexpr size_t kStates = 2, kSharded = 2, kNextLayers = 3, kLists = kStates * kSharded * kNextLayers;
enum NextLayer : uint8_t { kAnyLayer, kPlainLayer, kRematLayer };  // behind a change of the state
constexpr double kEqualTimes = 1e-12;  // relative difference of times that are the same but for rounding
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

constexpr size_t kAdded[] = {kOwn, kSaved, kLeft, kOptimizer};  // figures that add up over the layers

// A lower bound of the seconds of a sequence, from a price of the bytes of one figure: the layers and ends that follow
// cost at least `ahead`, and those before at least `behind`, with their bytes at this price, and the limit is worth
// `price` x bytes (a Lagrangian bound, right for every price). Rows are numbers of layers, columns states of the
// residual.
struct PricedBound {
  size_t figure = 0;
  double price = 0;  // seconds for each byte; 0: the bound is of the seconds alone
  std::vector<std::array<double, kStates>> ahead, behind;
};

struct Solving {
  const MeshCosts& costs;
  const SolveLimits& limits;
  std::vector<uint32_t> ways, end_ways;  // that are not beaten
  // Sequences that begin in this state, with a first layer that is recomputed or not.
  ResidualState first = ResidualState::Replicated;
  bool first_remat = false;
  std::vector<Label> pool;
  double lost = std::numeric_limits<double>::infinity();  // the best objective of labels that were dropped for room
  MemoryFigures least{}, last_least{}, most{};            // that a layer behind the first one adds; the last one
  MemoryFigures least_room{};  // as `room`, with the largest ends and peaks: labels with less never meet the limit
  int64_t limit = kFar;
  MemoryFigures room{};             // by figure: what layers can have at most
  int64_t least_last_peak = 0;      // of the backward pass of a layer
  std::vector<PricedBound> bounds;  // for these sequences
};

bool no_slower(double a, double b) { return a <= b + kEqualTimes * std::abs(b); }

bool needs_time(const Solving& s) { return s.limits.objective != Objective::Memory; }

bool all_at_most(const LayerMemories& a, const LayerMemories& b) {
  return is_at_most(a[0], b[0]) && is_at_most(a[1], b[1]) && is_at_most(a[2], b[2]);
}

// True if `b` is never needed beside `a`.
bool beats(const LayerCost& a, const LayerCost& b) {
  if (a.state != b.state || b.choice.sharded != a.choice.sharded || !no_slower(a.seconds, b.seconds) ||
      !all_at_most(a.memory, b.memory))
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

LayerPlace place_of(const Solving& s, size_t at) {
  return at == 0 ? LayerPlace::First : at + 1 == s.limits.layers ? LayerPlace::Last : LayerPlace::Middle;
}

const LayerMemory& memory_at(const LayerCost& layer, LayerPlace place, NextLayer next = kAnyLayer) {
  return next == kAnyLayer ? layer.memory[static_cast<size_t>(place)]
                           : layer.switch_memory[next == kRematLayer ? 1 : 0];
}

// Returns what a layer adds to the figures that add up.
MemoryFigures added_by(const LayerMemory& layer) {
  MemorySum sum;
  add_layer(sum, layer);
  return figures_of(sum);
}

// Returns, by figure, the memory outside of layers when the figure decides.
MemoryFigures outside_of(const EndMemory& ends) {
  const int64_t begin = ends.own + ends.begin, behind = begin + ends.loss_end;
  const int64_t loss = std::max({ends.tail, ends.loss, ends.prefetch});
  return {ends.own + ends.before,
          begin + loss,
          begin,
          begin + ends.output,
          behind,
          behind,
          behind + std::max(ends.after, ends.root),
          behind + ends.after_end + ends.optimizer,
          0,
          0,
          0,
          0};
}

// Returns the peak of a layer's backward pass, with the least that its neighbors can have.
int64_t backward_peak(const LayerMemory& layer) {
  return std::max({layer.output + layer.regather, layer.backward, layer.reduced + layer.reduce});
}

// Calls `take` with the memory of a way at a place, also with a change of the state behind it.
template <typename Take>
void for_each_memory(const LayerCost& layer, LayerPlace place, Take take) {
  take(layer.seconds, memory_at(layer, place), false);
  if (!layer.can_switch) return;
  for (const NextLayer next : {kPlainLayer, kRematLayer})
    take(layer.seconds + layer.switch_seconds, memory_at(layer, place, next), true);
}

const EndMemory& memory_of(const Solving& s, const EndCost& end) { return end.memory[s.first_remat ? 1 : 0]; }

// True if a layer cannot be at a place, because sequences begin with another kind of layer.
bool is_excluded(const Solving& s, const LayerCost& layer, LayerPlace place) {
  return place == LayerPlace::First && (layer.state != s.first || layer.choice.remat != s.first_remat);
}

constexpr LayerPlace kPlaces[] = {LayerPlace::First, LayerPlace::Middle, LayerPlace::Last};

// Finds what layers behind the first one add at least and at most, and what of the limit is left for them.
void find_ranges(Solving& s) {
  s.least.fill(kFar);
  s.last_least.fill(kFar);
  s.most.fill(-kFar);
  int64_t peak = 0, buffers = 0;  // of a layer, at most
  s.least_last_peak = kFar;
  for (const LayerPlace place : kPlaces) {
    const bool is_last = place == LayerPlace::Last || s.limits.layers == 1;
    for (const uint32_t way : s.ways) {
      for_each_memory(s.costs.layers[way], place, [&](double, const LayerMemory& memory, bool) {
        const MemoryFigures added = added_by(memory);
        for (const size_t f : kAdded) {
          if (place == LayerPlace::First) continue;
          MemoryFigures& least = place == LayerPlace::Last ? s.last_least : s.least;
          least[f] = std::min(least[f], added[f]);
          s.most[f] = std::max(s.most[f], added[f]);
        }
        peak = std::max(
            {peak, memory.gather, memory.forward, memory.saved + backward_peak(memory) + memory.next_backward});
        buffers = std::max(buffers, memory.output + memory.reduced);
        if (is_last) s.least_last_peak = std::min(s.least_last_peak, backward_peak(memory));
      });
    }
  }
  MemoryFigures outside, most_outside;
  outside.fill(kFar);
  most_outside.fill(-kFar);
  for (const uint32_t end : s.end_ways) {
    const MemoryFigures own = outside_of(memory_of(s, s.costs.ends[end]));
    for (size_t f = 0; f < own.size(); ++f) {
      outside[f] = std::min(outside[f], own[f]);
      most_outside[f] = std::max(most_outside[f], own[f]);
    }
  }
  s.limit = static_cast<int64_t>(std::min<uint64_t>(s.limits.memory.value_or(kFar), kFar));
  for (size_t f = 0; f < s.room.size(); ++f) s.room[f] = s.limit - outside[f];
  s.most[kForward] = s.most[kForwardOpen] = s.most[kOwn];
  s.most[kBackward] = s.most[kBackwardOpen] = s.most[kLeft];
  // A buffer of the root or of two neighbors can come to every figure.
  for (const uint32_t end : s.end_ways) buffers = std::max(buffers, memory_of(s, s.costs.ends[end]).output);
  for (size_t f = 0; f < s.room.size(); ++f) s.least_room[f] = s.limit - most_outside[f] - 2 * buffers;
  const int64_t highest = std::max({most_outside[kSaved], most_outside[kForward], most_outside[kBackward]});
  s.least_room[kSaved] = s.limit - highest - peak - 3 * buffers -
                         static_cast<int64_t>(s.limits.layers) * std::max<int64_t>(0, s.most[kLeft]);
  s.room[kSaved] = std::min(s.room[kSaved], s.room[kBackward] - s.least_last_peak);
}

// Priced seconds of the cheapest layer, by the states before and after it.
using PricedSteps = std::array<std::array<double, kStates>, kStates>;

PricedSteps priced_steps(const Solving& s, LayerPlace place, size_t figure, double price) {
  PricedSteps steps;
  for (auto& row : steps) row.fill(std::numeric_limits<double>::infinity());
  for (const uint32_t way : s.ways) {
    const auto from = static_cast<size_t>(s.costs.layers[way].state);
    if (is_excluded(s, s.costs.layers[way], place)) continue;
    for_each_memory(s.costs.layers[way], place, [&](double seconds, const LayerMemory& memory, bool switches) {
      double& least = steps[from][switches ? 1 - from : from];
      least = std::min(least, seconds + price * static_cast<double>(added_by(memory)[figure]));
    });
  }
  return steps;
}

std::array<PricedSteps, 3> priced_steps(const Solving& s, const PricedBound& bound) {
  std::array<PricedSteps, 3> steps;
  for (const LayerPlace place : kPlaces)
    steps[static_cast<size_t>(place)] = priced_steps(s, place, bound.figure, bound.price);
  return steps;
}

// Priced seconds of the cheapest ends, by the state after the last layer, less the price of the limit.
std::array<double, kStates> priced_ends(const Solving& s, size_t figure, double price) {
  std::array<double, kStates> ends;
  ends.fill(std::numeric_limits<double>::infinity());
  for (const uint32_t id : s.end_ways) {
    const EndCost& end = s.costs.ends[id];
    if (end.first != s.first) continue;
    const MemoryFigures own = outside_of(memory_of(s, end));
    // The backward pass of the last layer begins when everything is saved.
    const int64_t outside = figure == kSaved ? std::max(own[kSaved], own[kBackward] + s.least_last_peak) : own[figure];
    double& least = ends[static_cast<size_t>(end.last)];
    least = std::min(least, end.seconds + price * static_cast<double>(outside - s.limit));
  }
  return ends;
}

// Fills `ahead`, and returns the bound of a whole sequence.
double look_ahead(const Solving& s, PricedBound& bound) {
  const auto by_place = priced_steps(s, bound);
  bound.ahead.assign(s.limits.layers + 1, priced_ends(s, bound.figure, bound.price));
  for (size_t left = 1; left <= s.limits.layers; ++left) {
    const PricedSteps& steps = by_place[static_cast<size_t>(place_of(s, s.limits.layers - left))];
    for (size_t from = 0; from < kStates; ++from)
      bound.ahead[left][from] =
          std::min(steps[from][0] + bound.ahead[left - 1][0], steps[from][1] + bound.ahead[left - 1][1]);
  }
  return bound.ahead.back()[static_cast<size_t>(s.first)];
}

void look_behind(const Solving& s, PricedBound& bound) {
  const auto by_place = priced_steps(s, bound);
  bound.behind.assign(s.limits.layers,
                      {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()});
  bound.behind[0][static_cast<size_t>(s.first)] = 0;
  for (size_t at = 1; at < bound.behind.size(); ++at) {
    const PricedSteps& steps = by_place[static_cast<size_t>(place_of(s, at - 1))];
    for (size_t to = 0; to < kStates; ++to)
      bound.behind[at][to] = std::min(bound.behind[at - 1][0] + steps[0][to], bound.behind[at - 1][1] + steps[1][to]);
  }
}

// Returns the largest price of a byte at which one way is worth another.
double steepest_price(const Solving& s, size_t figure) {
  std::vector<std::pair<double, int64_t>> points;
  for (const uint32_t way : s.ways) {
    for_each_memory(s.costs.layers[way], LayerPlace::Middle, [&](double seconds, const LayerMemory& memory, bool) {
      points.emplace_back(seconds, added_by(memory)[figure]);
    });
  }
  double price = 0;
  for (const auto& [fast, large] : points) {
    for (const auto& [slow, small] : points) {
      if (slow > fast && small < large) price = std::max(price, (slow - fast) / static_cast<double>(large - small));
    }
  }
  return price;
}

// Makes the bounds of sequences: of the seconds alone, and at the best price of each figure.
void prepare_bounds(Solving& s) {
  find_ranges(s);
  s.bounds.assign(1, {});
  std::ignore = look_ahead(s, s.bounds[0]);
  if (s.limits.memory && needs_time(s)) {
    for (const size_t f : kAdded) {
      PricedBound bound{.figure = f, .price = 0, .ahead = {}, .behind = {}};
      const auto bound_at = [&](double price) {
        bound.price = price;
        return look_ahead(s, bound);
      };
      double low = 0, high = steepest_price(s, f);
      for (int step = 0; step < 40; ++step) {  // the bound is concave
        const double a = low + (high - low) / 3, b = high - (high - low) / 3;
        (bound_at(a) < bound_at(b) ? low : high) = bound_at(a) < bound_at(b) ? a : b;
      }
      std::ignore = bound_at((low + high) / 2);
      s.bounds.push_back(std::move(bound));
    }
  }
  for (PricedBound& bound : s.bounds) look_behind(s, bound);
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

Outlook outlook_of(const Solving& s, const Label& label, ResidualState state, size_t left) {
  const MemoryFigures figures = figures_of(label.memory);
  const int64_t middle = std::max<int64_t>(0, static_cast<int64_t>(left) - 1), last = left > 0 ? 1 : 0;
  // What adds to a figure that is a maximum is what adds to the sum below it.
  constexpr size_t kBelow[] = {kOwn, kSaved, kOwn, kOwn, kLeft, kLeft, kLeft, kOptimizer};
  static_assert(std::size(kBelow) == kLimitedFigures);
  int64_t over = INT64_MIN;
  for (size_t f = 0; f < kLimitedFigures; ++f)
    over = std::max(over, figures[f] + middle * s.least[kBelow[f]] + last * s.last_least[kBelow[f]] - s.room[f]);
  double seconds = 0;
  for (const PricedBound& bound : s.bounds)
    seconds = std::max(seconds, bound.ahead[left][static_cast<size_t>(state)] +
                                    bound.price * static_cast<double>(figures[bound.figure]));
  return {!s.limits.memory || over <= 0, label.seconds + seconds, over + s.limit};
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

// Leaves out the ways with which no sequence is better than `best`.
void drop_costly(Solving& s, const std::optional<Solution>& best) {
  if (!best || !needs_time(s)) return;
  const auto least_with = [&](const PricedBound& bound, const LayerCost& layer) {
    double least = std::numeric_limits<double>::infinity();
    const auto from = static_cast<size_t>(layer.state);
    for (size_t at = 0; at < s.limits.layers; ++at) {
      if (is_excluded(s, layer, place_of(s, at))) continue;
      for_each_memory(layer, place_of(s, at), [&](double seconds, const LayerMemory& memory, bool switches) {
        const double own = seconds + bound.price * static_cast<double>(added_by(memory)[bound.figure]);
        least = std::min(
            least, bound.behind[at][from] + own + bound.ahead[s.limits.layers - at - 1][switches ? 1 - from : from]);
      });
    }
    return least;
  };
  std::erase_if(s.ways, [&](uint32_t way) {
    return std::ranges::any_of(s.bounds, [&](const PricedBound& bound) {
      return no_slower(best->seconds, least_with(bound, s.costs.layers[way]));
    });
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
