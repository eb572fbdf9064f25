#include "search/bound_sequences.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

namespace tpplan {
namespace {

constexpr size_t kAdded[] = {kOwn, kSaved, kLeft, kOptimizer};  // figures that add up over the layers

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

// Calls `take` with the memory of a way at a place, also with a change of the state behind it.
template <typename Take>
void for_each_memory(const LayerCost& layer, LayerPlace place, Take take) {
  take(layer.seconds, memory_at(layer, place), false);
  if (!layer.can_switch) return;
  for (const NextLayer next : {kPlainLayer, kRematLayer})
    take(layer.seconds + layer.switch_seconds, memory_at(layer, place, next), true);
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

}  // namespace

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

}  // namespace tpplan
