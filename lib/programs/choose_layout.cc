#include "programs/choose_layout.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace tpplan::programs {

namespace {

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

}  // namespace tpplan::programs
