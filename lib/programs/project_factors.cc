#include "programs/project_factors.h"

#include <numeric>

namespace tpplan::programs {
namespace {

// Axes of a dim that are not yet given to a factor.
struct AxisQueue {
  const AxisParts& parts;
  size_t next = 0;
  AxisPart current{};  // the rest of parts[next]
  [[nodiscard]] bool is_empty() const { return next == parts.size(); }
};

void pop(AxisQueue& queue) {
  if (++queue.next < queue.parts.size()) queue.current = queue.parts[queue.next];
}

AxisListId take_rest(Program& program, AxisQueue& queue) {
  AxisParts rest;
  for (; !queue.is_empty(); pop(queue)) append_part(rest, queue.current);
  return intern_axes(program.lists, rest);
}

// Projects a dim with several factors onto its slots.
void project_dim(Program& program, const Factor* factors, const uint32_t* dim_factors, const AxesOfDim& dim,
                 std::span<FactorAxes> slots) {
  const AxisParts parts = parts_of(program.lists, dim.axes);  // a copy: interning moves the lists
  AxisQueue queue{.parts = parts};
  if (!queue.is_empty()) queue.current = parts[0];
  bool has_overflow = false;
  for (size_t i = 0; i < slots.size(); ++i) {
    FactorAxes& slot = slots[i];
    slot = {.is_closed = dim.is_closed, .is_minor = i + 1 == slots.size()};
    if (has_overflow) {
      slot.is_closed = true;
      continue;
    }
    if (slot.is_minor) {
      slot.axes = take_rest(program, queue);
      continue;
    }
    int64_t left = factors[dim_factors[i]].size;
    AxisParts taken;
    while (!queue.is_empty()) {
      const int64_t common = std::gcd(left, queue.current.size);
      if (common <= 1) break;
      left /= common;
      if (queue.current.size > common) {
        taken.push_back({queue.current.axis, queue.current.before, common});
        queue.current.before *= common;
        queue.current.size /= common;
      } else {
        taken.push_back(queue.current);
        pop(queue);
      }
    }
    slot.axes = intern_axes(program.lists, taken);
    if (left > 1 && !queue.is_empty()) {
      has_overflow = true;
      slot.overflow = take_rest(program, queue);
    }
  }
}

// Appends axes; only the first may continue the last axis of the dim.
void append_axes(AxisParts& dim, const AxisParts& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i == 0)
      append_part(dim, axes[i]);
    else
      dim.push_back(axes[i]);
  }
}

}  // namespace

void project_tensor(Program& program, const FactorRules& rules, const FactorRule& rule, uint32_t tensor,
                    std::span<const AxesOfDim> dims, std::vector<FactorAxes>& slots) {
  const uint32_t* const ends = rules.dim_slots.data() + rule.first_dim + rules.tensors[rule.first_tensor + tensor];
  for (uint32_t d = 0; d < dims.size(); ++d) {
    const uint32_t first = ends[d], end = ends[d + 1];
    if (end == first + 1) {
      slots[first] = {.axes = dims[d].axes, .is_closed = dims[d].is_closed};
    } else {
      project_dim(program, rules.factors.data() + rule.first_factor, rules.slots.data() + rule.first_slot + first,
                  dims[d], std::span(slots).subspan(first, end - first));
    }
  }
}

void project_factors(Program& program, const FactorRules& rules, OperationIndex id, std::vector<FactorAxes>& slots) {
  const ProgramOperation& operation = program.operations[id];
  const FactorRule& rule = rules.rules[id];
  slots.resize(rule.slot_count);
  for (uint32_t t = 0; t < rule.tensor_count; ++t)
    project_tensor(program, rules, rule, t, dims_of(program, tensor_of(program, operation, t)), slots);
}

void join_factors(Program& program, const FactorRules& rules, const FactorRule& rule, uint32_t tensor,
                  const std::vector<FactorAxes>& slots, std::vector<AxesOfDim>& dims) {
  const uint32_t* const ends = rules.dim_slots.data() + rule.first_dim;
  const uint32_t* const tensors = rules.tensors.data() + rule.first_tensor;
  dims.clear();
  for (uint32_t d = tensors[tensor]; d < tensors[tensor + 1]; ++d) {
    const uint32_t first = ends[d], end = ends[d + 1];
    if (end == first + 1 && slots[first].overflow == kNoAxes) {
      dims.push_back({slots[first].axes, slots[first].is_closed});
      continue;
    }
    bool is_closed = false;
    AxisParts joined;
    for (uint32_t slot = first; slot < end; ++slot) {
      is_closed |= slots[slot].is_closed;
      append_axes(joined, parts_of(program.lists, slots[slot].axes));
      if (slots[slot].overflow != kNoAxes) {
        append_axes(joined, parts_of(program.lists, slots[slot].overflow));
        break;
      }
      if (shard_count(program.lists, slots[slot].axes) <
          rules.factors[rule.first_factor + factor_at(rules, rule, slot)].size)
        break;
    }
    dims.push_back({intern_axes(program.lists, joined), is_closed});
  }
}

}  // namespace tpplan::programs
