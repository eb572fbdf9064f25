#include "programs/xla_mode.h"

#include <algorithm>
#include <set>

#include "programs/attribute_text.h"

namespace tpplan::programs {
namespace {

// The bytes of one rank's shard of a tensor, of which a factor is replicated.
int64_t bytes_without(Program& program, const FactorRules& rules, const FactorRule& rule,
                      const ProgramOperation& operation, uint32_t tensor, uint32_t factor,
                      std::vector<FactorAxes> slots) {
  const uint32_t slot = find_slot(rules, rule, slots_of(rules, rule, tensor), factor);
  if (slot != kNoIndex) slots[slot].axes = kNoAxes;
  std::vector<AxesOfDim> dims;
  join_factors(program, rules, rule, tensor, slots, dims);
  return shard_bytes(program, tensor_of(program, operation, tensor), axes_of_dims(program, dims));
}

// True if a tensor shards another factor over some of these axes.
bool uses_axes(const Program& program, const FactorRules& rules, const FactorRule& rule,
               const std::vector<FactorAxes>& slots, uint32_t tensor, AxisListId axes) {
  const SlotRange range = slots_of(rules, rule, tensor);
  for (uint32_t slot = range.first; slot < range.end; ++slot) {
    for (const AxisPart& part : parts_of(program.lists, axes)) {
      if (overlaps(parts_of(program.lists, slots[slot].axes), part)) return true;
    }
  }
  return false;
}

FactorPins pin_product(Program& program, const FactorRules& rules, OperationIndex id) {
  const ProgramOperation& operation = program.operations[id];
  const FactorRule& rule = rules.rules[id];
  if (operation.name != "stablehlo.dot_general") return {};
  std::vector<FactorAxes> slots;
  project_factors(program, rules, id, slots);
  FactorPins pins(rule.factor_count);
  bool is_pinned = false;
  const auto axes = [&](uint32_t tensor, uint32_t factor) -> std::optional<AxisListId> {
    const uint32_t slot = find_slot(rules, rule, slots_of(rules, rule, tensor), factor);
    return slot == kNoIndex ? std::nullopt : std::optional(slots[slot].axes);
  };
  const auto pin = [&](uint32_t factor, AxisListId list) {
    pins[factor] = parts_of(program.lists, list);
    is_pinned = true;
  };
  for (uint32_t factor = 0; factor < rule.factor_count; ++factor) {
    const auto lhs = axes(0, factor), rhs = axes(1, factor), result = axes(2, factor);
    if (rules.factors[rule.first_factor + factor].kind == FactorKind::Reduce && lhs && rhs) {
      if (*lhs == *rhs) {
        if (*lhs != kNoAxes) pin(factor, *lhs);
      } else if (*lhs == kNoAxes || *rhs == kNoAxes) {
        const uint32_t sharded = *lhs == kNoAxes ? 1 : 0;
        const int64_t gathered = bytes_without(program, rules, rule, operation, sharded, factor, slots);
        const int64_t summed = bytes_without(program, rules, rule, operation, 2, factor, slots);
        if (gathered < 2 * summed) pin(factor, kNoAxes);
      }
    } else if (result && lhs && rhs) {
      const bool moves_rhs = *lhs == *result && uses_axes(program, rules, rule, slots, 1, *result);
      const bool moves_lhs = *rhs == *result && uses_axes(program, rules, rule, slots, 0, *result);
      if (*result != kNoAxes && (moves_lhs || moves_rhs)) pin(factor, *result);
    } else if (result && lhs.has_value() != rhs.has_value()) {
      const uint32_t side = lhs ? 0 : 1;
      const AxisListId operand = lhs ? *lhs : *rhs;
      if (operand == kNoAxes || *result != kNoAxes || uses_axes(program, rules, rule, slots, 2, operand)) continue;
      const int64_t before = bytes_without(program, rules, rule, operation, side, factor, slots);
      const int64_t after = bytes_without(program, rules, rule, operation, 2, factor, slots);
      pin(factor, before < after ? kNoAxes : operand);
    }
  }
  return is_pinned ? pins : FactorPins();
}

// How the dims of a slice or a pad read their input: element i of the result is element (first + i * step) / every of
// the input, if that divides.
struct Reading {
  std::vector<int64_t> first, step, every;
};

bool read_indices(const Program& program, const ProgramOperation& operation, Reading& reading) {
  const auto read = [&](std::string_view name, std::vector<int64_t>& numbers) {
    return read_integers(attribute_of(program, operation, name), numbers) &&
           numbers.size() == program.values[operation.first_result].rank;
  };
  const size_t rank = program.values[operation.first_result].rank;
  if (operation.name == "stablehlo.slice") {
    reading.every.assign(rank, 1);
    return read("start_indices", reading.first) && read("strides", reading.step);
  }
  if (operation.name != "stablehlo.pad" || !read("edge_padding_low", reading.first) ||
      !read("interior_padding", reading.every))
    return false;
  reading.step.assign(rank, 1);
  for (int64_t& first : reading.first) first = first == INT64_MIN ? INT64_MAX : -first;
  for (int64_t& every : reading.every) every = every == INT64_MAX ? 0 : every + 1;
  return true;
}

// True if the products of sizes and steps stay within 64 bits.
bool is_in_range(int64_t in, int64_t out, int64_t first, int64_t step, int64_t every) {
  constexpr int64_t kMost = int64_t{1} << 60;
  return first > -kMost && first < kMost && step > 0 && step < kMost / std::max<int64_t>(out, 1) && every > 0 &&
         every < kMost / std::max<int64_t>(in, 1);
}

// Returns the number of distances between a rank and those that own the elements of its shard.
int64_t count_distances(int64_t in, int64_t out, int64_t shards, int64_t first, int64_t step, int64_t every) {
  constexpr int64_t kMost = 1024;  // ranks and owners that are looked at
  const int64_t in_shard = (in + shards - 1) / shards, out_shard = (out + shards - 1) / shards;
  std::set<int64_t> distances;
  for (int64_t rank = 0; rank < std::min(shards, kMost); ++rank) {
    const int64_t begin = rank * out_shard, end = std::min(out, begin + out_shard);
    if (begin >= end) continue;
    // The elements of a shard are in a row, and so are their owners.
    const int64_t lowest = std::max<int64_t>(first + begin * step, 0);
    const int64_t highest = std::min(first + (end - 1) * step, (in - 1) * every);
    if (lowest > highest) continue;
    const int64_t owner = (lowest + every - 1) / every / in_shard, last = highest / every / in_shard;
    for (int64_t other = owner; other <= std::min(last, owner + kMost); ++other) {
      if (other != rank) distances.insert(other - rank);
    }
  }
  return static_cast<int64_t>(distances.size());
}

void add_permutes(Program& program, const FactorRules& rules, OperationIndex id, const OperationLayout& layout,
                  int64_t times, std::vector<ProgramCollective>& list) {
  const ProgramOperation& operation = program.operations[id];
  Reading reading;
  if (!read_indices(program, operation, reading)) return;
  const FactorRule& rule = rules.rules[id];
  const std::span<const int64_t> in = shape_of(program, operand_of(program, operation, 0)),
                                 out = shape_of(program, operation.first_result);
  std::vector<AxesOfDim> dims;
  join_factors(program, rules, rule, operation.operand_count, layout.slots, dims);
  const int64_t bytes = shard_bytes(program, operation.first_result, axes_of_dims(program, dims));
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const int64_t shards = shard_count(program.lists, dims[dim].axes);
    if (shards == 1 || in[dim] == 0 ||
        !is_in_range(in[dim], out[dim], reading.first[dim], reading.step[dim], reading.every[dim]))
      continue;
    const int64_t count =
        count_distances(in[dim], out[dim], shards, reading.first[dim], reading.step[dim], reading.every[dim]);
    for (int64_t i = 0; i < count; ++i)
      list.push_back({.kind = ReshardKind::CollectivePermute,
                      .axes = parts_of(program.lists, dims[dim].axes),
                      .bytes = bytes,
                      .operation = id,
                      .times = times});
  }
}

}  // namespace

const ReshardRules kXlaRules{.pin = pin_product, .add = add_permutes, .moves_axes = false, .shares_reshards = true};

}  // namespace tpplan::programs
