#include "walk/dtensor/dtensor_strategies.h"

#include <algorithm>
#include <limits>

#include "walk/state/declared_placements.h"

namespace tpplan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Returns torch's estimate for a redistribution on one host, in microseconds.
double cost_of(const OperandSpec& face, const Placement& to, int64_t ranks) {
  if (face.at == to || face.at.kind == PlacementKind::Replicate) return 0;
  // torch 2.13 treats a strided shard as no shard here, so that its redistribution is free.
  if (face.at.kind == PlacementKind::StridedShard) return 0;
  if (to.kind == PlacementKind::Partial) return kNever;
  const bool cut = is_shard(face.at), stays_sharded = is_shard(to);
  double count = face.bytes;
  for (const int64_t size : face.shape) count *= static_cast<double>(size);
  const double n = static_cast<double>(ranks);
  // An all_to_all counts local bytes, an all_gather the bytes of its result. An all_reduce has twice the hops.
  const double bytes = cut && stays_sharded ? count / n : count;
  const double hops = (cut || stays_sharded ? 1 : 2) * (n - 1);
  const double latency = 6.6 + 0.6 * hops + (cut && stays_sharded ? 1 : 0);
  return latency + bytes / (1024.0 * 1024 * 1024) * hops / n / 87.7 * 1e6;
}

bool fits(const OperandSpec& face, const Placement& to, const StrategyRules& rules) {
  if (!is_shard(to)) return true;
  if (to.dim < 0 || static_cast<size_t>(to.dim) >= face.shape.size()) return false;
  const int64_t pieces = rules.ranks * (to.kind == PlacementKind::StridedShard ? to.split_factor : 1);
  return face.shape[static_cast<size_t>(to.dim)] >= pieces || (rules.takes_uneven && face.at == to);
}

// Returns the kinds of shards among the operands. Each of them is a strategy for each dim.
std::vector<Placement> cuts_of(std::span<const OperandSpec> faces) {
  std::vector<Placement> cuts;
  for (const OperandSpec& face : faces) {
    Placement cut = face.at;
    cut.dim = 0;
    if (is_shard(cut) && std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
  }
  return cuts;
}

Placement at_dim(Placement cut, int dim) {
  if (dim < 0) return {};
  cut.dim = dim;
  return cut;
}

Placement open_sum(ReduceOp op) { return {.kind = PlacementKind::Partial, .op = op}; }

}  // namespace

Strategy replicated_strategy(size_t operands) { return {.out = {}, .ins = std::vector<Placement>(operands)}; }

std::optional<Strategy> choose_strategy(std::span<const Strategy> ways, std::span<const OperandSpec> faces,
                                        const StrategyRules& rules) {
  const Strategy *as_is = nullptr, *free = nullptr, *cheapest = nullptr;
  double least = kNever;
  for (const Strategy& way : ways) {
    if (rules.in_place && (way.ins[0] != faces[0].at || way.out != faces[0].at)) continue;
    bool shardable = true, moves = false;
    double cost = 0;
    for (size_t i = 0; i < faces.size(); ++i) {
      shardable = shardable && fits(faces[i], way.ins[i], rules);
      moves = moves || faces[i].at != way.ins[i];
      cost += cost_of(faces[i], way.ins[i], rules.ranks);
    }
    if (!shardable) continue;
    if (cost == 0 && !moves) as_is = &way;
    if (cost == 0 && moves && free == nullptr) free = &way;
    if (cost < least) {
      least = cost;
      cheapest = &way;
    }
  }
  const Strategy* chosen = as_is != nullptr ? as_is : free != nullptr ? free : cheapest;
  return chosen == nullptr ? std::nullopt : std::optional(*chosen);
}

std::vector<Strategy> pointwise_strategies(std::span<const OperandSpec> faces, Linearity linearity, bool scalar) {
  size_t ndim = 0;
  for (const OperandSpec& face : faces) ndim = std::max(ndim, face.shape.size());
  std::vector<Strategy> ways{replicated_strategy(faces.size())};
  const std::vector<Placement> cuts = cuts_of(faces);
  const auto size_at = [&](const OperandSpec& face, size_t dim) {
    const size_t missing = ndim - face.shape.size();
    return dim < missing ? 1 : face.shape[dim - missing];
  };
  for (size_t dim = 0; dim < ndim; ++dim) {
    int64_t common = 1;
    for (const OperandSpec& face : faces) common = std::max(common, size_at(face, dim));
    for (const Placement& cut : cuts) {
      Strategy way{.out = at_dim(cut, static_cast<int>(dim)), .ins = {}};
      for (const OperandSpec& face : faces) {
        const bool broadcasts = size_at(face, dim) != common || dim < ndim - face.shape.size();
        way.ins.push_back(broadcasts ? Placement{} : at_dim(cut, static_cast<int>(dim - (ndim - face.shape.size()))));
      }
      ways.push_back(std::move(way));
    }
  }
  const bool unary = faces.size() == 1, binary = faces.size() == 2;
  const bool passes = linearity == Linearity::Linear ||
                      ((linearity == Linearity::Mul || linearity == Linearity::Div) && unary && scalar);
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg}) {
    const Placement open = open_sum(op);
    if (unary && passes) ways.push_back({open, {open}});
    if (binary && linearity == Linearity::Add) ways.push_back({open, {open, open}});
    if (binary && (linearity == Linearity::Mul || linearity == Linearity::Div)) ways.push_back({open, {open, {}}});
    if (binary && linearity == Linearity::Mul) ways.push_back({open, {{}, open}});
  }
  if (binary && linearity == Linearity::Add) {
    for (const ReduceOp op : {ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min})
      ways.push_back({open_sum(op), {open_sum(op), {}}});
    ways.push_back({open_sum(ReduceOp::Avg), {{}, open_sum(ReduceOp::Avg)}});
  }
  return ways;
}

std::vector<Strategy> matmul_strategies(std::span<const OperandSpec> faces, std::span<const MatmulDim> dims,
                                        bool bias) {
  std::vector<Strategy> ways{replicated_strategy(faces.size())};
  const std::vector<Placement> cuts = cuts_of(faces);
  int last = -1;
  for (const MatmulDim& dim : dims) last = std::max(last, dim.out);
  const auto add = [&](Placement out, Placement a, Placement b) {
    Strategy way{.out = out, .ins = {a, b}};
    if (bias) way.ins.push_back(is_shard(out) ? (out.dim == last ? at_dim(out, 0) : Placement{}) : out);
    ways.push_back(std::move(way));
  };
  for (const MatmulDim& dim : dims) {
    for (const Placement& cut : cuts)
      add(dim.out < 0 ? open_sum(ReduceOp::Sum) : at_dim(cut, dim.out), at_dim(cut, dim.a), at_dim(cut, dim.b));
  }
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg}) {
    add(open_sum(op), open_sum(op), {});
    add(open_sum(op), {}, open_sum(op));
  }
  return ways;
}

}  // namespace tpplan
