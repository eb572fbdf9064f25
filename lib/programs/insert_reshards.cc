#include "programs/insert_reshards.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace tpplan::programs {

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
