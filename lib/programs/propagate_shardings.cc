#include "programs/propagate_shardings.h"

#include <algorithm>
#include <numeric>

#include "programs/project_factors.h"

namespace tpplan::programs {
namespace {

enum class Direction : uint8_t { None, Forward, Backward, Both };

Direction either(Direction a, Direction b) {
  return static_cast<Direction>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

enum class Round : uint8_t { SingleUse, Elementwise, PassFactors, AllFactors, Everything };
constexpr Round kRounds[] = {Round::SingleUse, Round::Elementwise, Round::PassFactors, Round::AllFactors,
                             Round::Everything};

// How an operation takes part in the first rounds.
enum class EarlyKind : uint8_t { No, Elementwise, Edge, Forward };

// Axes that spread along a factor, and where they come from.
struct Spread {
  uint32_t factor = 0;
  AxisListId axes = kNoAxes;
  int64_t shards = 1;
  int64_t source_size = 0;  // of the largest tensor that is sharded so
  uint32_t source = 0;
};

struct Propagator {
  Program& program;
  const FactorRules& rules;
  Round round = Round::SingleUse;
  std::vector<EarlyKind> early;         // by operation
  std::vector<bool> is_broadcast;       // by operation
  std::vector<bool> is_settled;         // nothing has changed since the operation ran in this or an earlier round ...
  std::vector<Direction> settled_at;    // ... with these directions of factors that pass, ...
  std::vector<Direction> settled_rest;  // ... and of other factors
  std::vector<OperationIndex> stack;    // operations to run, the next one last
  std::vector<bool> is_on_stack;
  OperationIndex current = kNoIndex;
  bool has_changed = false;
  // Reused memory of one run.
  std::vector<FactorAxes> slots;
  std::vector<AxisListId> axes;  // by factor
  std::vector<bool> may_expand;
  std::vector<Spread> spreads;
  std::vector<AxesOfDim> dims;
  AxisParts parts, other_parts;
};

// ---- what runs next ----

void wake(Propagator& s, OperationIndex id) {
  s.is_settled[id] = false;
  if (id == s.current || s.is_on_stack[id]) return;
  s.is_on_stack[id] = true;
  s.stack.push_back(id);
}

void wake_users(Propagator& s, ValueIndex value) {
  for (OperandIndex use = s.program.values[value].first_use; use != kNoIndex; use = s.program.operands[use].next) {
    const ProgramOperand& operand = s.program.operands[use];
    if (operand.edge != kNoIndex)
      wake(s, operand.edge);
    else if (s.program.operations[operand.user].kind != OperationClass::Return)
      wake(s, operand.user);
  }
}

// Wakes the operations that a new sharding of a value concerns.
void wake_around(Propagator& s, ValueIndex value) {
  const ValueIndex holder = s.program.values[value].holder;
  const OperationIndex maker = s.program.values[holder].maker;
  if (maker != kNoIndex && s.program.operations[maker].kind == OperationClass::Edge) {
    const ProgramOperation& edge = s.program.operations[maker];
    if (edge.first_target != kNoIndex) {
      wake_users(s, edge.first_target);
      wake_users(s, edge.target);
    }
  }
  if (maker != kNoIndex) wake(s, maker);
  wake_users(s, holder);
}

// True for operations that Shardy's pattern driver erases when it finds them without uses.
bool is_removable(const ProgramOperation& operation) {
  return operation.kind == OperationClass::Plain || operation.kind == OperationClass::Constant;
}

// Removes an operation without uses, and wakes those that may have no uses now. Until then it spreads shardings.
void remove_unused(Propagator& s, OperationIndex id) {
  remove_operation(s.program, id);
  s.has_changed = true;
  const ProgramOperation& operation = s.program.operations[id];
  for (uint32_t i = 0; i < operation.operand_count; ++i) {
    const ProgramValue& value = s.program.values[operand_of(s.program, operation, i)];
    if (value.maker == kNoIndex || count_uses(s.program, operand_of(s.program, operation, i), 2) > 1) continue;
    wake(s, value.maker);
  }
}

// ---- directions ----

bool has_single_uses(const Propagator& s, OperationIndex id) {
  const ProgramOperation& operation = s.program.operations[id];
  for (uint32_t i = 0; i < operation.operand_count; ++i) {
    const ValueIndex value = operand_of(s.program, operation, i);
    if (s.program.values[value].rank > 0 && count_uses(s.program, value, 2) != 1) return false;
  }
  return true;
}

// Returns the direction in which the operation as a whole spreads shardings.
Direction early_direction(const Propagator& s, OperationIndex id) {
  const EarlyKind kind = s.early[id];
  if (kind == EarlyKind::No) return Direction::None;
  if (kind == EarlyKind::Edge) return Direction::Both;
  // A value with several uses might take a sharding that suits one of them only.
  if (s.round == Round::SingleUse && !has_single_uses(s, id)) return Direction::None;
  return kind == EarlyKind::Forward ? Direction::Forward : Direction::Both;
}

// Returns the direction of a factor that passes, and of another one.
std::pair<Direction, Direction> directions_of(const Propagator& s, OperationIndex id) {
  const Direction early = early_direction(s, id);
  const Direction late = s.is_broadcast[id] && s.round < Round::Everything ? Direction::Backward : Direction::Both;
  return {s.round >= Round::PassFactors ? either(early, late) : early,
          s.round >= Round::AllFactors ? either(early, late) : early};
}

// ---- one operation ----

// Adds to `old` the axes of `more` that continue it. Returns false from then on if they contradict each other, or if
// `may_expand` is false.
bool merge_axes(AxisParts& old, const AxisParts& more, bool may_expand) {
  const size_t both = std::min(old.size(), more.size());
  for (size_t i = 0; i < both; ++i) {
    if (old[i] == more[i]) continue;
    if (is_prefix(more[i], old[i])) {
      if (i + 1 == more.size()) continue;
      old[i] = more[i];
      old.resize(i + 1);
      return false;
    }
    if (is_prefix(old[i], more[i])) {
      if (!may_expand || i + 1 < old.size()) {
        old.resize(i + 1);
        return false;
      }
      old[i] = more[i];
      continue;
    }
    old.resize(i);
    return false;
  }
  if (may_expand && more.size() > old.size())
    old.insert(old.end(), more.begin() + static_cast<ptrdiff_t>(old.size()), more.end());
  return may_expand;
}

void merge_slot(Propagator& s, uint32_t factor, AxisListId more, bool may_expand) {
  AxisListId& axes = s.axes[factor];
  if (!may_expand) s.may_expand[factor] = false;
  if (more == kNoAxes || more == axes) return;
  if (axes == kNoAxes) {
    if (s.may_expand[factor]) axes = more;
    return;
  }
  s.parts = parts_of(s.program.lists, axes);
  s.may_expand[factor] = merge_axes(s.parts, parts_of(s.program.lists, more), s.may_expand[factor]);
  axes = intern_axes(s.program.lists, s.parts);
}

// Finds the axes that spread along each factor: what operands and results have in common, and beyond.
void merge_factors(Propagator& s, const FactorRule& rule, uint32_t inputs, Direction pass, Direction rest) {
  s.axes.assign(rule.factor_count, kNoAxes);
  s.may_expand.assign(rule.factor_count, true);
  const auto direction = [&](uint32_t factor) {
    const Factor& f = s.rules.factors[rule.first_factor + factor];
    return f.is_blocked ? Direction::None : f.kind == FactorKind::Pass ? pass : rest;
  };
  const auto visit = [&](uint32_t first, uint32_t end, bool is_backward, bool is_source) {
    const uint32_t begin = slots_of(s.rules, rule, first).first, stop = slots_of(s.rules, rule, end - 1).end;
    for (uint32_t slot = begin; slot < stop; ++slot) {
      const uint32_t factor = factor_at(s.rules, rule, slot);
      const Direction d = direction(factor);
      if (d == Direction::None || (d == Direction::Backward) != is_backward) continue;
      merge_slot(s, factor, s.slots[slot].axes, is_source || d == Direction::Both);
    }
  };
  const uint32_t tensors = rule.tensor_count;
  if (inputs > 0) visit(0, inputs, false, true);
  if (tensors > inputs) visit(inputs, tensors, false, false);
  if (tensors > inputs) visit(inputs, tensors, true, true);
  if (inputs > 0) visit(0, inputs, true, false);
}

// Returns the product of the sizes of a tensor's factors.
int64_t source_size(const Propagator& s, const FactorRule& rule, SlotRange range) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t size = 1;
  for (uint32_t slot = range.first; slot < range.end; ++slot) {
    const int64_t factor = s.rules.factors[rule.first_factor + factor_at(s.rules, rule, slot)].size;
    if (factor > 1) size = size > kMost / factor ? kMost : size * factor;
  }
  return size;
}

// Lists the factors with axes to spread, those first whose axes take precedence.
void list_spreads(Propagator& s, const FactorRule& rule, bool is_elementwise) {
  s.spreads.clear();
  for (uint32_t factor = 0; factor < rule.factor_count; ++factor) {
    if (s.axes[factor] != kNoAxes)
      s.spreads.push_back(
          {.factor = factor, .axes = s.axes[factor], .shards = shard_count(s.program.lists, s.axes[factor])});
  }
  if (s.spreads.size() < 2) return;
  for (uint32_t t = 0; t < rule.tensor_count; ++t) {
    const SlotRange range = slots_of(s.rules, rule, t);
    const int64_t size = source_size(s, rule, range);
    for (Spread& spread : s.spreads) {
      const uint32_t slot = find_slot(s.rules, rule, range, spread.factor);
      if (slot == kNoIndex || size <= spread.source_size) continue;
      const AxisListId axes = s.slots[slot].axes;
      if (axes != spread.axes &&
          !is_strict_prefix(parts_of(s.program.lists, spread.axes), parts_of(s.program.lists, axes)))
        continue;
      spread.source_size = size;
      spread.source = t;
    }
  }
  std::ranges::sort(s.spreads, [&](const Spread& a, const Spread& b) {
    if (a.source_size != b.source_size) return a.source_size > b.source_size;
    if (is_elementwise && a.shards != b.shards) return a.shards > b.shards;
    return a.source != b.source ? a.source < b.source : a.factor < b.factor;
  });
}

// Returns how much of an axis a factor can take behind `shards`: all if it is the last of its dim, because that may be
// padded, otherwise what divides the rest of its size.
int64_t fitting_size(const FactorAxes& slot, int64_t size, int64_t shards, int64_t axis_size) {
  if (slot.is_closed || slot.overflow != kNoAxes) return 1;
  if (slot.is_minor) return axis_size;
  return size % shards == 0 ? std::gcd(size / shards, axis_size) : 1;
}

// Cuts `parts` to what a factor of a tensor can have: nothing new if it is closed or has overflow.
void truncate_within(const Propagator& s, const FactorAxes& slot, int64_t size, AxisParts& parts) {
  const AxisParts& old = parts_of(s.program.lists, slot.axes);
  int64_t shards = 1;
  for (size_t i = 0; i < parts.size(); shards *= parts[i++].size) {
    if (std::ranges::any_of(old, [&](const AxisPart& part) { return contains(part, parts[i]); })) continue;
    const int64_t fitting = fitting_size(slot, size, shards, parts[i].size);
    if (fitting == parts[i].size) continue;
    const bool keeps_prefix = fitting == 1 && !old.empty() && is_prefix(old.back(), parts[i]);
    if (keeps_prefix) parts[i] = old.back();
    if (fitting > 1) parts[i].size = fitting;
    parts.resize(keeps_prefix || fitting > 1 ? i + 1 : i);
    return;
  }
}

// Cuts `parts` in front of an axis that another factor of the tensor has.
void truncate_across(const Propagator& s, SlotRange tensor, uint32_t own, AxisParts& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    std::optional<AxisPart> part = parts[i];
    for (uint32_t slot = tensor.first; slot < tensor.end && part; ++slot) {
      if (slot == own) continue;
      for (const AxisListId list : {s.slots[slot].overflow, s.slots[slot].axes}) {
        for (const AxisPart& other : parts_of(s.program.lists, list)) {
          if (part) part = prefix_without(*part, other);
        }
      }
    }
    if (part && *part == parts[i]) continue;
    if (part) parts[i] = *part;
    parts.resize(part ? i + 1 : i);
    return;
  }
}

// Cuts `parts` to the axes of a result of an elementwise operation if they go beyond them: axes that the result cannot
// have do not spread from one operand to another.
void truncate_to_results(const Propagator& s, const FactorRule& rule, uint32_t inputs, uint32_t factor,
                         AxisParts& parts) {
  for (uint32_t t = inputs; t < rule.tensor_count; ++t) {
    const uint32_t slot = find_slot(s.rules, rule, slots_of(s.rules, rule, t), factor);
    if (slot == kNoIndex) continue;
    const AxisParts& axes = parts_of(s.program.lists, s.slots[slot].axes);
    if (is_strict_prefix(axes, parts)) parts = axes;
  }
}

// Gives one tensor what spreads to it. Returns true if its sharding has changed.
bool update_tensor(Propagator& s, const FactorRule& rule, uint32_t tensor, uint32_t inputs, bool is_elementwise,
                   ValueIndex value) {
  const SlotRange range = slots_of(s.rules, rule, tensor);
  bool is_updated = false;
  for (const Spread& spread : s.spreads) {
    const uint32_t slot = find_slot(s.rules, rule, range, spread.factor);
    if (slot == kNoIndex || s.slots[slot].axes == spread.axes) continue;
    s.parts = parts_of(s.program.lists, spread.axes);
    truncate_within(s, s.slots[slot], s.rules.factors[rule.first_factor + spread.factor].size, s.parts);
    const AxisParts& old = parts_of(s.program.lists, s.slots[slot].axes);
    if (!is_strict_prefix(old, s.parts)) continue;
    truncate_across(s, range, slot, s.parts);
    if (is_elementwise && tensor < inputs) truncate_to_results(s, rule, inputs, spread.factor, s.parts);
    if (!is_strict_prefix(old, s.parts)) continue;
    s.slots[slot].axes = intern_axes(s.program.lists, s.parts);
    is_updated = true;
  }
  if (!is_updated) return false;
  join_factors(s.program, s.rules, rule, tensor, s.slots, s.dims);
  ProgramValue& holder = s.program.values[s.program.values[value].holder];
  const std::span<AxesOfDim> dims = dims_of(s.program, value);
  const bool is_same = std::ranges::equal(dims, s.dims, {}, &AxesOfDim::axes, &AxesOfDim::axes);
  if (is_same) return false;  // the new axes would need strided shards
  std::ranges::copy(s.dims, dims.begin());
  holder.has_sharding = true;
  return true;
}

// Spreads shardings between the tensors of one operation.
void run_operation(Propagator& s, OperationIndex id) {
  const FactorRule& rule = s.rules.rules[id];
  if (!rule.exists) return;
  const auto [pass, rest] = directions_of(s, id);
  if (pass == Direction::None && rest == Direction::None) return;
  if (s.is_settled[id] && s.settled_at[id] == pass && s.settled_rest[id] == rest) return;
  s.is_settled[id] = true;
  s.settled_at[id] = pass;
  s.settled_rest[id] = rest;
  const ProgramOperation& operation = s.program.operations[id];
  bool is_sharded = false;
  for (uint32_t t = 0; t < rule.tensor_count && !is_sharded; ++t) {
    for (const AxesOfDim& dim : dims_of(s.program, tensor_of(s.program, operation, t)))
      is_sharded |= dim.axes != kNoAxes;
  }
  if (!is_sharded) return;
  project_factors(s.program, s.rules, id, s.slots);
  const uint32_t inputs = input_count(operation);
  const bool is_elementwise = s.early[id] == EarlyKind::Elementwise && operation.row->is_elementwise;
  merge_factors(s, rule, inputs, pass, rest);
  list_spreads(s, rule, is_elementwise);
  if (s.spreads.empty()) return;
  s.current = id;
  for (uint32_t i = 0; i < rule.tensor_count; ++i) {
    const uint32_t outputs = rule.tensor_count - inputs;
    const uint32_t t = i < outputs ? inputs + i : i - outputs;
    const ValueIndex value = tensor_of(s.program, operation, t);
    if (!update_tensor(s, rule, t, inputs, is_elementwise, value)) continue;
    wake_around(s, value);
    s.has_changed = true;
  }
  s.current = kNoIndex;
}

// ---- rounds ----

// Spreads shardings between a value that the program returns and the program's result.
void run_result(Propagator& s, ValueIndex value, ValueIndex result) {
  Program& p = s.program;
  const auto update = [&](ValueIndex target, ValueIndex source) {
    const std::span<AxesOfDim> dims = dims_of(p, target), from = dims_of(p, source);
    AxisParts used;
    for (const AxesOfDim& dim : dims) std::ranges::copy(parts_of(p.lists, dim.axes), std::back_inserter(used));
    bool is_changed = false;
    for (size_t d = 0; d < dims.size(); ++d) {
      const AxisParts old = parts_of(p.lists, dims[d].axes);
      AxisParts parts = parts_of(p.lists, from[d].axes);
      if (dims[d].is_closed || !is_strict_prefix(old, parts)) continue;
      for (size_t i = 0; i < parts.size(); ++i) {
        std::optional<AxisPart> part = parts[i];
        for (const AxisPart& other : used) {
          const bool is_own = std::ranges::any_of(old, [&](const AxisPart& own) { return own == other; });
          if (part && !is_own) part = prefix_without(*part, other);
        }
        if (part && *part == parts[i]) continue;
        if (part) parts[i] = *part;
        parts.resize(part ? i + 1 : i);
        break;
      }
      if (!is_strict_prefix(old, parts)) continue;
      dims[d].axes = intern_axes(p.lists, parts);
      std::ranges::copy(parts, std::back_inserter(used));
      is_changed = true;
    }
    if (is_changed) p.values[p.values[target].holder].has_sharding = true;
    return is_changed;
  };
  (void)update(result, value);
  if (update(value, result)) wake_around(s, value);
}

void run_results(Propagator& s) {
  const ProgramOperation& last = s.program.operations[s.program.blocks[0].last];
  for (uint32_t i = 0; i < last.operand_count; ++i) run_result(s, operand_of(s.program, last, i), s.program.results[i]);
}

void drain(Propagator& s) {
  while (!s.stack.empty()) {
    const OperationIndex id = s.stack.back();
    s.stack.pop_back();
    s.is_on_stack[id] = false;
    const ProgramOperation& operation = s.program.operations[id];
    if (operation.is_dead) continue;
    if (is_removable(operation) && !is_used(s.program, id))
      remove_unused(s, id);
    else
      run_operation(s, id);
  }
}

EarlyKind early_kind(const ProgramOperation& operation) {
  if (operation.kind == OperationClass::Edge) return EarlyKind::Edge;
  if (operation.row == nullptr) return EarlyKind::No;
  if (operation.row->is_elementwise || operation.name == "stablehlo.reshape" || operation.name == "stablehlo.transpose")
    return EarlyKind::Elementwise;
  if (operation.name == "stablehlo.dynamic_slice" || operation.name == "stablehlo.dynamic_update_slice")
    return EarlyKind::Forward;
  return EarlyKind::No;
}

}  // namespace

void propagate_shardings(Program& program, const FactorRules& rules) {
  const size_t count = program.operations.size();
  Propagator s{.program = program, .rules = rules};
  s.is_settled.resize(count);
  s.settled_at.resize(count);
  s.settled_rest.resize(count);
  s.is_on_stack.resize(count);
  s.is_broadcast.resize(count);
  s.early.resize(count);
  for (size_t id = 0; id < count; ++id) {
    s.early[id] = early_kind(program.operations[id]);
    s.is_broadcast[id] = program.operations[id].name == "stablehlo.broadcast_in_dim";
  }
  std::vector<OperationIndex> order = operations_in_order(program);
  std::ranges::reverse(order);
  for (const Round round : kRounds) {
    s.round = round;
    run_results(s);
    do {
      s.has_changed = false;
      s.stack = order;
      for (const OperationIndex id : order) s.is_on_stack[id] = true;
      drain(s);
    } while (s.has_changed);
    run_results(s);
  }
}

}  // namespace tpplan::programs
