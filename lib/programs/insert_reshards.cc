#include "programs/insert_reshards.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "programs/attribute_text.h"

namespace tpplan::programs {
namespace {

bool is_equal_sharding(std::span<const AxesOfDim> a, std::span<const AxesOfDim> b) {
  return std::ranges::equal(a, b, {}, &AxesOfDim::axes, &AxesOfDim::axes);
}

// The tensors of one operation and their factors, while its layout is chosen.
struct LayoutChoice {
  Program& program;
  const FactorRules& rules;
  const FactorRule& rule;
  const ProgramOperation& operation;
  std::vector<FactorAxes>& slots;
};

const Factor& factor_of(const LayoutChoice& c, uint32_t factor) {
  return c.rules.factors[c.rule.first_factor + factor];
}

const AxisParts& axes_at(const LayoutChoice& c, uint32_t slot) { return parts_of(c.program.lists, c.slots[slot].axes); }

SlotRange tensor_slots(const LayoutChoice& c, uint32_t tensor) { return slots_of(c.rules, c.rule, tensor); }

int64_t tensor_elements(const LayoutChoice& c, uint32_t tensor) {
  return c.program.values[tensor_of(c.program, c.operation, tensor)].elements;
}

bool is_scalar(const LayoutChoice& c, uint32_t tensor) {
  return c.program.values[tensor_of(c.program, c.operation, tensor)].rank == 0;
}

int64_t tensor_shards(const LayoutChoice& c, uint32_t tensor) {
  int64_t shards = 1;
  for (uint32_t slot = tensor_slots(c, tensor).first; slot < tensor_slots(c, tensor).end; ++slot)
    shards *= shard_count(c.program.lists, c.slots[slot].axes) * shard_count(c.program.lists, c.slots[slot].overflow);
  return shards;
}

bool overlap(const AxisParts& a, const AxisParts& b) {
  return std::ranges::any_of(a, [&b](const AxisPart& part) { return overlaps(b, part); });
}

// The axes of each factor that all its tensors agree on; empty lists are none.
using FactorLists = std::vector<AxisParts>;

// Returns true if the operation can compute as its tensors are sharded. Sets `common` then.
bool is_compatible(const LayoutChoice& c, FactorLists& common) {
  common.assign(c.rule.factor_count, {});
  std::vector<bool> seen(c.rule.factor_count);
  for (uint32_t slot = 0; slot < c.rule.slot_count; ++slot) {
    const uint32_t factor = factor_at(c.rules, c.rule, slot);
    if (c.slots[slot].overflow != kNoAxes) return false;
    const AxisParts& axes = axes_at(c, slot);
    if (factor_of(c, factor).kind == FactorKind::Replicate) {
      if (!axes.empty()) return false;
    } else if (!seen[factor]) {
      common[factor] = axes;
      seen[factor] = true;
    } else if (axes != common[factor]) {
      return false;
    }
  }
  // One axis cannot shard two factors.
  AxisParts used;
  for (const AxisParts& axes : common) {
    if (overlap(axes, used)) return false;
    used.insert(used.end(), axes.begin(), axes.end());
  }
  return true;
}

// Cuts `axes` in front of the first one that overlaps with `others`.
bool truncate_overlap(AxisParts& axes, const AxisParts& others) {
  for (size_t i = 0; i < axes.size(); ++i) {
    std::optional<AxisPart> part = axes[i];
    for (const AxisPart& other : others) {
      if (part) part = prefix_without(*part, other);
    }
    if (part && *part == axes[i]) continue;
    if (part) axes[i] = *part;
    axes.resize(part ? i + 1 : i);
    return true;
  }
  return false;
}

// ---- two tensors: one of them keeps its sharding ----

bool permutes(const LayoutChoice& c, uint32_t tensor) {
  for (uint32_t slot = tensor_slots(c, tensor).first; slot < tensor_slots(c, tensor).end; ++slot) {
    if (factor_of(c, factor_at(c.rules, c.rule, slot)).kind == FactorKind::Permute && !axes_at(c, slot).empty())
      return true;
  }
  return false;
}

FactorLists keep_one(const LayoutChoice& c, uint32_t first, uint32_t second) {
  const auto preference = [&](uint32_t t) {
    return std::tuple(!permutes(c, t), tensor_elements(c, t), tensor_shards(c, t));
  };
  const uint32_t kept = preference(first) >= preference(second) ? first : second;
  const uint32_t other = kept == first ? second : first;
  FactorLists common(c.rule.factor_count);
  std::vector<bool> is_kept(c.rule.factor_count);
  AxisParts used;
  for (uint32_t slot = tensor_slots(c, kept).first; slot < tensor_slots(c, kept).end; ++slot) {
    const uint32_t factor = factor_at(c.rules, c.rule, slot);
    is_kept[factor] = true;
    common[factor] = axes_at(c, slot);
    used.insert(used.end(), common[factor].begin(), common[factor].end());
  }
  for (uint32_t slot = tensor_slots(c, other).first; slot < tensor_slots(c, other).end; ++slot) {
    const uint32_t factor = factor_at(c.rules, c.rule, slot);
    if (is_kept[factor]) continue;
    common[factor] = axes_at(c, slot);
    (void)truncate_overlap(common[factor], used);
  }
  return common;
}

// ---- more tensors: the most data keeps its axes ----

// A factor with axes that some tensor has for it.
struct Candidate {
  uint32_t factor = 0;
  AxisParts axes;
  int64_t elements = 0;  // of all tensors that have them
  int kind = 0;          // rank of the factor's kind
  int64_t largest = 0;   // local elements of the largest tensor with the factor
  int64_t shards = 1;    // beyond what the factor has already
};

int kind_rank(FactorKind kind) {
  switch (kind) {
    case FactorKind::Pass:
      return 3;
    case FactorKind::Reduce:
      return 2;
    case FactorKind::Permute:
      return 1;
    case FactorKind::Replicate:
      return 0;
  }
  return 0;
}

bool is_axes_before(const Program& program, const AxisParts& a, const AxisParts& b) {
  return std::ranges::lexicographical_compare(a, b, [&program](const AxisPart& x, const AxisPart& y) {
    return is_before(program.axis_names, program.axis_sizes, x, y);
  });
}

bool is_worse(const Program& program, const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) { return std::tuple(c.elements, c.kind, c.largest, c.shards, c.factor); };
  return key(a) != key(b) ? key(a) < key(b) : is_axes_before(program, a.axes, b.axes);
}

constexpr int64_t kMostCounted = int64_t{1} << 61;

std::vector<Candidate> list_candidates(const LayoutChoice& c) {
  std::vector<Candidate> list;
  for (uint32_t t = 0; t < c.rule.tensor_count; ++t) {
    const int64_t elements = tensor_elements(c, t);
    for (uint32_t slot = tensor_slots(c, t).first; slot < tensor_slots(c, t).end; ++slot) {
      const uint32_t factor = factor_at(c.rules, c.rule, slot);
      for (AxisParts axes = axes_at(c, slot); !axes.empty(); axes.pop_back()) {
        const auto found = std::ranges::find_if(
            list, [&](const Candidate& other) { return other.factor == factor && other.axes == axes; });
        if (found != list.end()) {
          found->elements = std::min(found->elements + elements, kMostCounted);
          found->largest = std::max(found->largest, elements);
        } else {
          list.push_back({factor, axes, elements, kind_rank(factor_of(c, factor).kind), elements, shard_count(axes)});
        }
      }
    }
  }
  return list;
}

// Returns for each factor the number of factors that are in front of it in some dim and not fully sharded.
std::vector<std::vector<uint32_t>> list_dependencies(const LayoutChoice& c) {
  std::vector<std::vector<uint32_t>> majors(c.rule.factor_count);
  const uint32_t* const ends = c.rules.dim_slots.data() + c.rule.first_dim;
  const uint32_t dims = c.rules.tensors[c.rule.first_tensor + c.rule.tensor_count];
  for (uint32_t dim = 0; dim < dims; ++dim) {
    for (uint32_t slot = ends[dim] + 1; slot < ends[dim + 1]; ++slot)
      majors[factor_at(c.rules, c.rule, slot)].push_back(factor_at(c.rules, c.rule, slot - 1));
  }
  return majors;
}

// Updates the local sizes of the tensors that candidates come from.
void update_local_sizes(const LayoutChoice& c, const FactorLists& common, std::vector<Candidate>& list) {
  for (Candidate& candidate : list) candidate.largest = 0;
  for (uint32_t t = 0; t < c.rule.tensor_count; ++t) {
    int64_t elements = tensor_elements(c, t);
    const SlotRange range = tensor_slots(c, t);
    for (uint32_t slot = range.first; slot < range.end; ++slot)
      elements /= shard_count(common[factor_at(c.rules, c.rule, slot)]);
    for (Candidate& candidate : list) {
      if (find_slot(c.rules, c.rule, range, candidate.factor) != kNoIndex)
        candidate.largest = std::max(candidate.largest, elements);
    }
  }
}

FactorLists keep_most(const LayoutChoice& c, const FactorPins& pins) {
  FactorLists common(c.rule.factor_count);
  std::vector<Candidate> list = list_candidates(c);
  for (uint32_t factor = 0; factor < pins.size(); ++factor) {
    if (!pins[factor]) continue;
    common[factor] = *pins[factor];
    std::erase_if(list, [&](Candidate& candidate) {
      if (candidate.factor == factor) return true;
      return truncate_overlap(candidate.axes, common[factor]) && candidate.axes.empty();
    });
  }
  std::vector<std::vector<uint32_t>> majors = list_dependencies(c);
  for (;;) {
    const Candidate* best = nullptr;
    for (const Candidate& candidate : list) {
      if (majors[candidate.factor].empty() && (best == nullptr || is_worse(c.program, *best, candidate)))
        best = &candidate;
    }
    if (best == nullptr) return common;
    const uint32_t factor = best->factor;
    const AxisParts axes = best->axes;
    common[factor] = axes;
    if (shard_count(axes) == factor_of(c, factor).size) {
      for (std::vector<uint32_t>& major : majors) std::erase(major, factor);
    }
    std::erase_if(list, [&](Candidate& candidate) {
      if (candidate.factor == factor) {
        if (!is_strict_prefix(axes, candidate.axes)) return true;
        candidate.shards = shard_count(candidate.axes) / shard_count(axes);
        return false;
      }
      if (truncate_overlap(candidate.axes, axes)) {
        if (candidate.axes == common[candidate.factor]) return true;
        candidate.shards = shard_count(candidate.axes) / shard_count(common[candidate.factor]);
      }
      return false;
    });
    update_local_sizes(c, common, list);
  }
}

AxisParts common_prefix(const AxisParts& a, const AxisParts& b) {
  AxisParts prefix;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) {
      prefix.push_back(a[i]);
      continue;
    }
    if (is_prefix(a[i], b[i])) prefix.push_back(a[i]);
    if (!is_prefix(a[i], b[i]) && is_prefix(b[i], a[i])) prefix.push_back(b[i]);
    break;
  }
  return prefix;
}

// Returns for each factor the axes that all its tensors start with.
FactorLists common_prefixes(const LayoutChoice& c) {
  FactorLists common(c.rule.factor_count);
  std::vector<bool> seen(c.rule.factor_count);
  for (uint32_t slot = 0; slot < c.rule.slot_count; ++slot) {
    const uint32_t factor = factor_at(c.rules, c.rule, slot);
    common[factor] = seen[factor] ? common_prefix(common[factor], axes_at(c, slot)) : axes_at(c, slot);
    seen[factor] = true;
  }
  return common;
}

// True if each tensor that is not a scalar has the factor.
bool is_everywhere(const LayoutChoice& c, uint32_t factor) {
  for (uint32_t t = 0; t < c.rule.tensor_count; ++t) {
    if (!is_scalar(c, t) && find_slot(c.rules, c.rule, tensor_slots(c, t), factor) == kNoIndex) return false;
  }
  return true;
}

// Gives the axes of factors that must be replicated to batch factors with room for them.
void move_to_batch(const LayoutChoice& c, FactorLists& common, bool moves_axes) {
  for (uint32_t factor = 0; factor < c.rule.factor_count; ++factor) {
    if (factor_of(c, factor).kind != FactorKind::Replicate) continue;
    const AxisParts axes = std::exchange(common[factor], {});
    if (!moves_axes || !is_everywhere(c, factor)) continue;
    size_t next = 0;
    for (uint32_t batch = 0; batch < c.rule.factor_count && next < axes.size(); ++batch) {
      const Factor& f = factor_of(c, batch);
      if (f.kind != FactorKind::Pass || f.size == 0 || !is_everywhere(c, batch)) continue;
      const int64_t shards = shard_count(common[batch]);
      if (f.size % shards != 0) continue;
      for (int64_t room = f.size / shards; next < axes.size() && room % axes[next].size == 0; ++next) {
        room /= axes[next].size;
        append_part(common[batch], axes[next]);
      }
    }
  }
}

FactorLists choose_common(const LayoutChoice& c, const FactorPins& pins, bool moves_axes) {
  std::vector<uint32_t> tensors;
  bool has_replicated = false;
  for (uint32_t t = 0; t < c.rule.tensor_count; ++t) {
    if (!is_scalar(c, t)) tensors.push_back(t);
  }
  for (uint32_t factor = 0; factor < c.rule.factor_count; ++factor)
    has_replicated |= factor_of(c, factor).kind == FactorKind::Replicate;
  if (pins.empty() && tensors.size() == 2 && !has_replicated && !c.rule.has_compound_dims)
    return keep_one(c, tensors[0], tensors[1]);
  FactorLists common = keep_most(c, pins);
  move_to_batch(c, common, moves_axes);
  return common;
}

// ---- reshapes whose axes do not divide their factors ----

// Distributes axes over the factors of one tensor, each axis to the first factor with a common divisor.
void distribute_axes(const LayoutChoice& c, SlotRange tensor, const AxisParts& axes) {
  std::vector<AxisParts> taken(tensor.end - tensor.first);
  std::vector<int64_t> left;
  for (uint32_t slot = tensor.first; slot < tensor.end; ++slot) {
    left.push_back(factor_of(c, factor_at(c.rules, c.rule, slot)).size);
    c.slots[slot].overflow = kNoAxes;
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisPart axis = axes[i];
    bool is_used = true;
    while (axis.size > 1 && is_used) {
      is_used = false;
      for (size_t f = 0; f < left.size() && axis.size > 1; ++f) {
        const int64_t common = std::gcd(left[f], axis.size);
        if (left[f] <= 1 || common <= 1) continue;
        is_used = true;
        append_part(taken[f], {axis.axis, axis.before, common});
        axis = {axis.axis, axis.before * common, axis.size / common};
        left[f] /= common;
      }
    }
    if (axis.size == 1) continue;
    AxisParts rest{axis};
    for (++i; i < axes.size(); ++i) append_part(rest, axes[i]);
    c.slots[tensor.end - 1].overflow = intern_axes(c.program.lists, rest);
  }
  for (uint32_t slot = tensor.first; slot < tensor.end; ++slot)
    c.slots[slot].axes = intern_axes(c.program.lists, taken[slot - tensor.first]);
}

bool has_overflow(const LayoutChoice& c) {
  return std::ranges::any_of(c.slots, [](const FactorAxes& slot) { return slot.overflow != kNoAxes; });
}

// Projects the shardings that the slots stand for again: parts that would need strided shards are lost.
void legalize(const LayoutChoice& c, uint32_t tensor) {
  std::vector<AxesOfDim> dims;
  join_factors(c.program, c.rules, c.rule, tensor, c.slots, dims);
  project_tensor(c.program, c.rules, c.rule, tensor, dims, c.slots);
}

FactorLists choose_for_reshape(const LayoutChoice& c) {
  const uint32_t preferred = tensor_shards(c, 0) >= tensor_shards(c, 1) ? 0 : 1;
  AxisParts axes;
  for (uint32_t factor = 0; factor < c.rule.factor_count; ++factor) {
    const uint32_t slot = find_slot(c.rules, c.rule, tensor_slots(c, preferred), factor);
    if (slot == kNoIndex) continue;
    for (const AxisListId list : {c.slots[slot].axes, c.slots[slot].overflow}) {
      const AxisParts& parts = parts_of(c.program.lists, list);
      axes.insert(axes.end(), parts.begin(), parts.end());
    }
  }
  for (const uint32_t t : {0U, 1U}) {
    distribute_axes(c, tensor_slots(c, t), axes);
    legalize(c, t);
  }
  return common_prefixes(c);
}

AxisParts reduced_axes(const LayoutChoice& c, const FactorLists& common) {
  AxisParts axes;
  for (uint32_t factor = 0; factor < c.rule.factor_count; ++factor) {
    if (factor_of(c, factor).kind == FactorKind::Reduce)
      axes.insert(axes.end(), common[factor].begin(), common[factor].end());
  }
  std::ranges::sort(axes);
  AxisParts merged;
  for (const AxisPart& axis : axes) append_part(merged, axis);
  return merged;
}

}  // namespace

bool relay_product(Program& program, const FactorRules& rules, OperationIndex id, std::vector<FactorAxes>& slots) {
  const LayoutChoice c{program, rules, rules.rules[id], program.operations[id], slots};
  uint32_t conflict = kNoIndex;
  AxisListId wanted = kNoAxes;
  AxisParts reduced, seen;
  for (uint32_t factor = 0; factor < c.rule.factor_count; ++factor) {
    const uint32_t lhs = find_slot(rules, c.rule, tensor_slots(c, 0), factor);
    const uint32_t rhs = find_slot(rules, c.rule, tensor_slots(c, 1), factor);
    const uint32_t result = find_slot(rules, c.rule, tensor_slots(c, 2), factor);
    if (lhs == kNoIndex && rhs == kNoIndex) return false;
    const AxisListId axes = slots[lhs != kNoIndex ? lhs : rhs].axes;
    int64_t elements = 0;
    if (lhs != kNoIndex && rhs != kNoIndex) {
      if (slots[lhs].axes != slots[rhs].axes) return false;
      elements = std::max(tensor_elements(c, 0), tensor_elements(c, 1));
      if (factor_of(c, factor).kind == FactorKind::Reduce) {
        const AxisParts& parts = parts_of(program.lists, axes);
        reduced.insert(reduced.end(), parts.begin(), parts.end());
        continue;
      }
    } else {
      elements = tensor_elements(c, lhs != kNoIndex ? 0 : 1);
      for (const AxisPart& axis : parts_of(program.lists, axes)) {
        if (overlaps(seen, axis)) return false;
        seen.push_back(axis);
      }
    }
    if (result == kNoIndex || slots[result].axes == axes) continue;
    if (axes == kNoAxes || conflict != kNoIndex || tensor_elements(c, 2) > elements) return false;
    conflict = result;
    wanted = axes;
  }
  if (conflict == kNoIndex) return false;
  const AxisParts& old = axes_at(c, conflict);
  if (old.empty() || old != reduced) return false;
  slots[conflict].axes = wanted;
  return true;
}

std::vector<RelaidResult> relay_products(Program& program, const FactorRules& rules) {
  std::vector<RelaidResult> relaid;
  std::vector<FactorAxes> slots;
  for (const OperationIndex id : operations_in_order(program)) {
    const ProgramOperation& operation = program.operations[id];
    if (!rules.rules[id].exists || operation.name != "stablehlo.dot_general") continue;
    project_factors(program, rules, id, slots);
    if (!relay_product(program, rules, id, slots)) continue;
    RelaidResult& product = relaid.emplace_back(RelaidResult{.operation = id});
    join_factors(program, rules, rules.rules[id], 2, slots, product.dims);
  }
  return relaid;
}

std::vector<RelaidResult> relay_concatenations(Program& program, const FactorRules& rules) {
  std::vector<RelaidResult> relaid;
  for (const OperationIndex id : operations_in_order(program)) {
    const ProgramOperation& operation = program.operations[id];
    if (!rules.rules[id].exists || operation.name != "stablehlo.concatenate") continue;
    bool differs = false;
    for (uint32_t i = 0; i < operation.operand_count; ++i)
      differs |= !is_equal_sharding(dims_of(program, operand_of(program, operation, i)),
                                    dims_of(program, operation.first_result));
    if (!differs) continue;
    const OperationLayout layout = choose_layout(program, rules, id);
    if (!layout.is_changed) continue;
    RelaidResult& result = relaid.emplace_back(RelaidResult{.operation = id});
    join_factors(program, rules, rules.rules[id], operation.operand_count, layout.slots, result.dims);
  }
  return relaid;
}

OperationLayout choose_layout(Program& program, const FactorRules& rules, OperationIndex id, const FactorPins& pins,
                              bool moves_axes) {
  OperationLayout layout;
  const FactorRule& rule = rules.rules[id];
  project_factors(program, rules, id, layout.slots);
  const LayoutChoice c{program, rules, rule, program.operations[id], layout.slots};
  FactorLists common;
  if (!is_compatible(c, common)) {
    const bool is_reshape = program.operations[id].name == "stablehlo.reshape" && has_overflow(c);
    common = is_reshape ? choose_for_reshape(c) : choose_common(c, pins, moves_axes);
    layout.is_changed = true;
    for (uint32_t slot = 0; slot < rule.slot_count; ++slot) {
      layout.slots[slot].axes = intern_axes(program.lists, common[factor_at(rules, rule, slot)]);
      layout.slots[slot].overflow = kNoAxes;
    }
  }
  layout.reduced = reduced_axes(c, common);
  return layout;
}

std::vector<int64_t> count_turns(const Program& program, Diagnostics& diagnostics) {
  constexpr int64_t kMostTurns = int64_t{1} << 53;
  std::vector<int64_t> turns(program.blocks.size(), 1);
  // Blocks come before those in their operations.
  for (BlockIndex block = 1; block < program.blocks.size(); ++block) {
    const OperationIndex parent = program.blocks[block].parent;
    const ProgramOperation& operation = program.operations[parent];
    turns[block] = turns[operation.block];
    if (operation.kind != OperationClass::While) continue;
    int64_t most = 1;
    bool has_bound = false;
    for (OperationIndex id = program.blocks[operation.first_block].first; id != kNoIndex;
         id = program.operations[id].next) {
      const ProgramOperation& inner = program.operations[id];
      std::string_view text = attribute_of(program, inner, "value");
      int64_t number = 0;
      if (inner.name != "stablehlo.constant" || !text.starts_with("dense<")) continue;
      text.remove_prefix(6);
      if (!read_integer(text.substr(0, text.find('>')), number)) continue;
      most = has_bound ? std::max(most, number) : number;
      has_bound = true;
    }
    most = std::max<int64_t>(most, 0);
    if (most > 0 && turns[block] > kMostTurns / most) {
      report_message(diagnostics, Code::ResourceLimit, {program.file, operation.offset, 1},
                     fmt::format("a loop and those around it turn more than {} times", kMostTurns),
                     "check the constant that the loop's condition compares with");
      return turns;
    }
    turns[block] *= most;
  }
  return turns;
}

std::vector<AxisParts> axes_of_dims(const Program& program, std::span<const AxesOfDim> dims) {
  std::vector<AxisParts> axes;
  for (const AxesOfDim& dim : dims) axes.push_back(parts_of(program.lists, dim.axes));
  return axes;
}

int64_t shard_bytes(const Program& program, ValueIndex value, const std::vector<AxisParts>& dims) {
  const std::span<const int64_t> shape = shape_of(program, value);
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t shards = shard_count(dims[i]);
    elements *= (shape[i] + shards - 1) / shards;
  }
  return (elements * program.values[value].bits + 7) / 8;
}

namespace {

// A value, a block in which it is brought to a layout, and the layout.
using SharedReshard = std::tuple<ValueIndex, BlockIndex, std::vector<AxisListId>>;

struct Inserter {
  Program& program;
  const std::vector<int64_t>& turns;
  const ReshardRules& choices;
  std::vector<ProgramCollective> list;
  std::set<SharedReshard> shared;
  FactorRules rules;               // a copy, because reshards of slices change the rules of concatenations
  std::vector<bool> is_resharded;  // values whose users use a reshard
};

void add_reshard(Inserter& s, ValueIndex value, std::span<const AxesOfDim> from, std::span<const AxesOfDim> to,
                 OperationIndex operation, BlockIndex block) {
  if (is_equal_sharding(from, to)) return;
  if (s.choices.shares_reshards) {
    std::vector<AxisListId> layout;
    for (const AxesOfDim& dim : to) layout.push_back(dim.axes);
    if (!s.shared.emplace(value, block, std::move(layout)).second) return;
  }
  const MeshAxes mesh{s.program.axis_names, s.program.axis_sizes};
  const std::vector<ReshardStep> steps =
      reshard_steps(mesh, shape_of(s.program, value), axes_of_dims(s.program, from), axes_of_dims(s.program, to));
  for (const ReshardStep& step : steps) {
    const bool is_gather = step.kind == ReshardKind::AllGather;
    s.list.push_back({.kind = step.kind,
                      .axes = step.axes,
                      .bytes = shard_bytes(s.program, value, is_gather ? step.after : step.before),
                      .operation = operation,
                      .times = s.turns[block]});
  }
}

// Returns the operations on which a result of the program depends. Constraints without users are not among them.
std::vector<bool> find_needed(const Program& program) {
  std::vector<bool> is_needed(program.operations.size());
  std::vector<OperationIndex> open;
  const auto need = [&](OperationIndex id) {
    if (id == kNoIndex || is_needed[id]) return;
    is_needed[id] = true;
    open.push_back(id);
  };
  need(program.blocks[0].last);
  while (!open.empty()) {
    const OperationIndex id = open.back();
    open.pop_back();
    const ProgramOperation& operation = program.operations[id];
    need(operation.owner);
    need(program.blocks[operation.block].parent);
    for (uint32_t i = 0; i < operation.operand_count; ++i) {
      const ProgramValue& value = program.values[operand_of(program, operation, i)];
      need(value.maker != kNoIndex ? value.maker : program.blocks[value.block].parent);
    }
    for (uint32_t i = 0; i < operation.block_count; ++i) need(program.blocks[operation.first_block + i].last);
    // All results of a loop or branch are computed, also those that nobody uses.
    const bool has_edges = operation.kind == OperationClass::While || operation.kind == OperationClass::Case;
    for (uint32_t i = 0; has_edges && i < operation.result_count; ++i)
      need(program.values[operation.first_result + i].maker);
  }
  return is_needed;
}

// The dim of a concatenation needs no replication if all operands are slices: not if a reshard follows a slice.
void update_concatenation(Inserter& s, OperationIndex id) {
  const ProgramOperation& operation = s.program.operations[id];
  const FactorRule& rule = s.rules.rules[id];
  for (uint32_t i = 0; i < operation.operand_count; ++i) {
    if (!s.is_resharded[operand_of(s.program, operation, i)]) continue;
    for (uint32_t factor = 0; factor < rule.factor_count; ++factor) {
      Factor& f = s.rules.factors[rule.first_factor + factor];
      if (f.kind == FactorKind::Permute) f.kind = FactorKind::Replicate;
    }
  }
}

// Adds what one operation with a rule needs: reshards of its operands, sums and reshards of its results.
void add_operation(Inserter& s, OperationIndex id, const RelaidResult* relaid) {
  Program& p = s.program;
  if (p.operations[id].name == "stablehlo.concatenate") update_concatenation(s, id);
  const FactorRules& rules = s.rules;
  const ProgramOperation& operation = p.operations[id];
  const FactorRule& rule = rules.rules[id];
  // A relaid product computes as its operands are sharded; its users see the reshard behind it.
  std::vector<AxesOfDim> seen;
  if (relaid != nullptr) {
    const std::span<AxesOfDim> result = dims_of(p, operation.first_result);
    seen.assign(result.begin(), result.end());
    std::ranges::copy(relaid->dims, result.begin());
  }
  const FactorPins pins = s.choices.pin != nullptr ? s.choices.pin(p, rules, id) : FactorPins();
  const OperationLayout layout = choose_layout(p, rules, id, pins, s.choices.moves_axes);
  const uint32_t inputs = operation.operand_count;
  std::vector<AxesOfDim> dims;
  if (layout.is_changed) {
    for (uint32_t t = 0; t < inputs; ++t) {
      join_factors(p, rules, rule, t, layout.slots, dims);
      const ValueIndex value = tensor_of(p, operation, t);
      add_reshard(s, value, dims_of(p, value), dims, id, operation.block);
    }
  }
  if (s.choices.add != nullptr) s.choices.add(p, rules, id, layout, s.turns[operation.block], s.list);
  for (uint32_t t = inputs; t < rule.tensor_count; ++t) {
    const ValueIndex value = tensor_of(p, operation, t);
    const std::span<const AxesOfDim> result = dims_of(std::as_const(p), value);
    dims.assign(result.begin(), result.end());
    if (layout.is_changed) join_factors(p, rules, rule, t, layout.slots, dims);
    if (!layout.reduced.empty())
      s.list.push_back({.kind = ReshardKind::AllReduce,
                        .axes = layout.reduced,
                        .bytes = shard_bytes(p, value, axes_of_dims(p, dims)),
                        .operation = id,
                        .times = s.turns[operation.block]});
    s.is_resharded[value] = !is_equal_sharding(dims, result);
    add_reshard(s, value, dims, result, id, operation.block);
  }
  if (relaid == nullptr) return;
  add_reshard(s, operation.first_result, dims_of(p, operation.first_result), seen, id, operation.block);
  std::ranges::copy(seen, dims_of(p, operation.first_result).begin());
}

}  // namespace

std::vector<ProgramCollective> insert_reshards(Program& program, const FactorRules& rules,
                                               const std::vector<RelaidResult>& relaid,
                                               const std::vector<int64_t>& turns, const ReshardRules& choices) {
  Inserter s{.program = program, .turns = turns, .choices = choices, .rules = rules};
  s.is_resharded.resize(program.values.size());
  const std::vector<bool> is_needed = find_needed(program);
  auto next_relaid = relaid.begin();
  for (const OperationIndex id : operations_in_order(program)) {
    const ProgramOperation& operation = program.operations[id];
    const bool is_relaid = next_relaid != relaid.end() && next_relaid->operation == id;
    const RelaidResult* const result = is_relaid ? &*next_relaid++ : nullptr;
    if (!is_needed[id]) continue;
    if (operation.kind == OperationClass::Edge) {
      for (uint32_t i = 0; i < operation.source_count; ++i) {
        const ValueIndex source = program.operands[program.sources[operation.first_source + i]].value;
        add_reshard(s, source, dims_of(program, source), dims_of(program, operation.first_result), id,
                    program.values[source].block);
      }
    } else if (operation.kind == OperationClass::Constraint) {
      const ValueIndex source = operand_of(program, operation, 0);
      add_reshard(s, source, dims_of(program, source), dims_of(program, operation.first_result), id, operation.block);
    } else if (rules.rules[id].exists) {
      add_operation(s, id, result);
    }
  }
  const ProgramOperation& last = program.operations[program.blocks[0].last];
  for (uint32_t i = 0; i < last.operand_count; ++i) {
    const ValueIndex value = operand_of(program, last, i);
    add_reshard(s, value, dims_of(program, value), dims_of(program, program.results[i]), kNoIndex, 0);
  }
  return std::move(s.list);
}

}  // namespace tpplan::programs
