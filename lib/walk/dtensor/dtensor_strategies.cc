#include "walk/dtensor/dtensor_strategies.h"

#include <algorithm>
#include <limits>

#include "walk/state/declared_placements.h"

namespace tpplan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Returns torch's estimate for a redistribution on one host, in microseconds.
double cost_of(const OperandSpec& spec_of_operand, const Placement& to, int64_t ranks) {
  if (spec_of_operand.at == to || spec_of_operand.at.kind == PlacementKind::Replicate) return 0;
  // torch 2.13 treats a strided shard as no shard here, so that its redistribution is free.
  if (spec_of_operand.at.kind == PlacementKind::StridedShard) return 0;
  if (to.kind == PlacementKind::Partial) return kNever;
  const bool was_sharded = is_shard(spec_of_operand.at), stays_sharded = is_shard(to);
  double count = spec_of_operand.bytes;
  for (const int64_t size : spec_of_operand.shape) count *= static_cast<double>(size);
  const double n = static_cast<double>(ranks);
  // An all_to_all counts local bytes, an all_gather the bytes of its result. An all_reduce has twice the hops.
  const double bytes = was_sharded && stays_sharded ? count / n : count;
  const double hops = (was_sharded || stays_sharded ? 1 : 2) * (n - 1);
  const double latency = 6.6 + 0.6 * hops + (was_sharded && stays_sharded ? 1 : 0);
  return latency + bytes / (1024.0 * 1024 * 1024) * hops / n / 87.7 * 1e6;
}

bool fits(const OperandSpec& spec_of_operand, const Placement& to, const StrategyRules& rules) {
  if (!is_shard(to)) return true;
  if (to.dim < 0 || static_cast<size_t>(to.dim) >= spec_of_operand.shape.size()) return false;
  const int64_t shards = rules.ranks * (to.kind == PlacementKind::StridedShard ? to.split_factor : 1);
  return spec_of_operand.shape[static_cast<size_t>(to.dim)] >= shards ||
         (rules.takes_uneven && spec_of_operand.at == to);
}

// Returns the kinds of shards among the operands. Each of them is a strategy for each dim.
std::vector<Placement> shards_of(std::span<const OperandSpec> specs) {
  std::vector<Placement> shards;
  for (const OperandSpec& spec_of_operand : specs) {
    Placement shard = spec_of_operand.at;
    shard.dim = 0;
    if (is_shard(shard) && std::find(shards.begin(), shards.end(), shard) == shards.end()) shards.push_back(shard);
  }
  return shards;
}

Placement at_dim(Placement shard, int dim) {
  if (dim < 0) return {};
  shard.dim = dim;
  return shard;
}

Placement partial_sum(ReduceOp op) { return {.kind = PlacementKind::Partial, .op = op}; }

}  // namespace

Strategy replicated_strategy(size_t operands) { return {.out = {}, .ins = std::vector<Placement>(operands)}; }

std::optional<Strategy> choose_strategy(std::span<const Strategy> strategies, std::span<const OperandSpec> specs,
                                        const StrategyRules& rules) {
  const Strategy *as_is = nullptr, *free = nullptr, *cheapest = nullptr;
  double least = kNever;
  for (const Strategy& strategy : strategies) {
    if (rules.in_place && (strategy.ins[0] != specs[0].at || strategy.out != specs[0].at)) continue;
    bool shardable = true, moves = false;
    double cost = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
      shardable = shardable && fits(specs[i], strategy.ins[i], rules);
      moves = moves || specs[i].at != strategy.ins[i];
      cost += cost_of(specs[i], strategy.ins[i], rules.ranks);
    }
    if (!shardable) continue;
    if (cost == 0 && !moves) as_is = &strategy;
    if (cost == 0 && moves && free == nullptr) free = &strategy;
    if (cost < least) {
      least = cost;
      cheapest = &strategy;
    }
  }
  const Strategy* chosen = as_is != nullptr ? as_is : free != nullptr ? free : cheapest;
  return chosen == nullptr ? std::nullopt : std::optional(*chosen);
}

std::vector<Strategy> pointwise_strategies(std::span<const OperandSpec> specs, Linearity linearity, bool scalar) {
  size_t ndim = 0;
  for (const OperandSpec& spec_of_operand : specs) ndim = std::max(ndim, spec_of_operand.shape.size());
  std::vector<Strategy> strategies{replicated_strategy(specs.size())};
  const std::vector<Placement> shards = shards_of(specs);
  const auto size_at = [&](const OperandSpec& spec_of_operand, size_t dim) {
    const size_t missing = ndim - spec_of_operand.shape.size();
    return dim < missing ? 1 : spec_of_operand.shape[dim - missing];
  };
  for (size_t dim = 0; dim < ndim; ++dim) {
    int64_t common = 1;
    for (const OperandSpec& spec_of_operand : specs) common = std::max(common, size_at(spec_of_operand, dim));
    for (const Placement& shard : shards) {
      Strategy strategy{.out = at_dim(shard, static_cast<int>(dim)), .ins = {}};
      for (const OperandSpec& spec_of_operand : specs) {
        const bool broadcasts = size_at(spec_of_operand, dim) != common || dim < ndim - spec_of_operand.shape.size();
        strategy.ins.push_back(
            broadcasts ? Placement{} : at_dim(shard, static_cast<int>(dim - (ndim - spec_of_operand.shape.size()))));
      }
      strategies.push_back(std::move(strategy));
    }
  }
  const bool unary = specs.size() == 1, binary = specs.size() == 2;
  const bool passes = linearity == Linearity::Linear ||
                      ((linearity == Linearity::Mul || linearity == Linearity::Div) && unary && scalar);
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg}) {
    const Placement partial = partial_sum(op);
    if (unary && passes) strategies.push_back({partial, {partial}});
    if (binary && linearity == Linearity::Add) strategies.push_back({partial, {partial, partial}});
    if (binary && (linearity == Linearity::Mul || linearity == Linearity::Div))
      strategies.push_back({partial, {partial, {}}});
    if (binary && linearity == Linearity::Mul) strategies.push_back({partial, {{}, partial}});
  }
  if (binary && linearity == Linearity::Add) {
    for (const ReduceOp op : {ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min})
      strategies.push_back({partial_sum(op), {partial_sum(op), {}}});
    strategies.push_back({partial_sum(ReduceOp::Avg), {{}, partial_sum(ReduceOp::Avg)}});
  }
  return strategies;
}

std::vector<Strategy> matmul_strategies(std::span<const OperandSpec> specs, std::span<const MatmulDim> dims,
                                        bool bias) {
  std::vector<Strategy> strategies{replicated_strategy(specs.size())};
  const std::vector<Placement> shards = shards_of(specs);
  int last = -1;
  for (const MatmulDim& dim : dims) last = std::max(last, dim.out);
  const auto add = [&](Placement out, Placement a, Placement b) {
    Strategy strategy{.out = out, .ins = {a, b}};
    if (bias) strategy.ins.push_back(is_shard(out) ? (out.dim == last ? at_dim(out, 0) : Placement{}) : out);
    strategies.push_back(std::move(strategy));
  };
  for (const MatmulDim& dim : dims) {
    for (const Placement& shard : shards)
      add(dim.out < 0 ? partial_sum(ReduceOp::Sum) : at_dim(shard, dim.out), at_dim(shard, dim.a),
          at_dim(shard, dim.b));
  }
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg}) {
    add(partial_sum(op), partial_sum(op), {});
    add(partial_sum(op), {}, partial_sum(op));
  }
  return strategies;
}

}  // namespace tpplan
