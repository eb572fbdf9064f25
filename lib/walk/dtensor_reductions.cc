#include "walk/dtensor_reductions.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>

#include "walk/causes.h"
#include "walk/node_args.h"
#include "walk/record_call.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

struct ReductionRow {
  std::string_view name;
  ReduceOp op;
  bool of_all = false;  // only where it is given no dim
};

constexpr ReductionRow kReductions[] = {
    {"sum", ReduceOp::Sum},       {"mean", ReduceOp::Avg},
    {"amax", ReduceOp::Max},      {"amin", ReduceOp::Min},
    {"max", ReduceOp::Max, true}, {"min", ReduceOp::Min, true},
    {"norm", ReduceOp::Norm},     {"linalg_vector_norm", ReduceOp::Norm},
};

const ReductionRow* find_reduction(std::string_view name) {
  const auto* row = std::find_if(std::begin(kReductions), std::end(kReductions),
                                 [name](const ReductionRow& r) { return r.name == name; });
  return row == std::end(kReductions) ? nullptr : row;
}

// Where a reduction of this kind goes on over an open sum, and over pieces.
bool goes_on(const DtensorRun& run, const Placement& at, ReduceOp op, const std::vector<bool>& along, int64_t ranks) {
  if (at.kind == PlacementKind::Partial) return at.op == op;
  if (op != ReduceOp::Avg) return true;
  const std::vector<int64_t> shape = claimed_shape(run, 0);
  for (size_t dim = 0; dim < along.size(); ++dim) {
    const bool uneven = is_shard(at) && at.dim == static_cast<int>(dim) && shape[dim] % ranks != 0;
    if (along[dim] && uneven) return false;
  }
  return true;
}

// How many dims at the end `normalized_shape` names.
size_t normalised_dims(DtensorRun& run) {
  OpCall call = call_of(run.walk, run.node);
  begin_call(call);
  return std::max<size_t>(1, numbers_at(call, 1, "normalized_shape").size());
}

}  // namespace

bool is_open_reduction(const DtensorRun& run) {
  const ReductionRow* row = find_reduction(run.name);
  if (row == nullptr || run.slots.size() != 1) return false;
  return !row->of_all || run.node.out_end - run.node.out_begin == 1;
}

void run_reduction(DtensorRun& run) {
  Walk& walk = run.walk;
  const ReductionRow& row = *find_reduction(run.name);
  OpCall call = call_of(walk, run.node);
  begin_call(call);
  const std::vector<bool> along = dims_along(call);
  const bool keeps = shape_of(walk.graph, walk.graph.outs[run.node.out_begin]).size() == along.size();
  Claim in = claim_of(run, 0);
  run.claim = in;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    const auto ranks = static_cast<int64_t>(walk.table.maps.axes[axis]);
    Placement& at = in[axis];
    const bool is_along = is_shard(at) && along[static_cast<size_t>(at.dim)];
    if (!goes_on(run, at, row.op, along, ranks) && (is_along || at.kind == PlacementKind::Partial)) at = {};
    Placement& out = run.claim[axis] = at;
    if (!is_shard(at)) continue;
    if (is_along)
      out = {.kind = PlacementKind::Partial, .op = row.op};
    else if (!keeps)
      out.dim -= static_cast<int>(std::count(along.begin(), along.begin() + at.dim, true));
  }
  bring(run, 0, in);
  if (walk.crash == kNoId) settle(run);
}

void run_layer_norm(DtensorRun& run) {
  Walk& walk = run.walk;
  const size_t normalised_ = normalised_dims(run);
  std::vector<std::optional<Way>> ways;
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    const std::vector<Face> faces = faces_of(run, axis);
    std::vector<Way> all{whole_way(faces.size())};
    for (size_t dim = 0; dim + normalised_ < faces[0].shape.size(); ++dim) {
      Placement cut = is_shard(faces[0].at) ? faces[0].at : shard_of(dim);
      cut.dim = static_cast<int>(dim);
      Way way = whole_way(faces.size());
      way.out = way.ins[0] = cut;
      all.push_back(std::move(way));
    }
    ways.push_back(choose_way(all, faces, {.ranks = static_cast<int64_t>(walk.table.maps.axes[axis])}));
  }
  if (bring_all(run, ways)) settle(run);
}

void run_rms_norm(DtensorRun& run) {
  Walk& walk = run.walk;
  const size_t first = claimed_shape(run, 0).size() - normalised_dims(run);
  run.claim = claim_of(run, 0);
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    const Placement& at = run.claim[axis];
    if (is_shard(at) && static_cast<size_t>(at.dim) >= first)
      return crash_at(walk, Code::TP5105,
                      fmt::format("{} over dim {}, which is cut: its mean is left open, and torch adds eps in place",
                                  run.name, at.dim),
                      run.rule, kNoRule, std::string(run.name));
    if (at.kind == PlacementKind::Partial) {  // of its square
      record_call(walk, false, CollectiveKind::AllReduce, axis, module_at(walk), claimed_shape(run, 0),
                  dtype_of(walk, run.slots[0]), true);
      if (!run.exact) bring(run, 0, whole_claim(walk));
    }
  }
  settle(run);
}

void run_normalize(DtensorRun& run) {
  Walk& walk = run.walk;
  OpCall call = call_of(walk, run.node);
  begin_call(call);
  const std::vector<bool> along = dims_along(call);
  run.claim = claim_of(run, 0);
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    const Placement& at = run.claim[axis];
    const bool is_along = is_shard(at) && along[static_cast<size_t>(at.dim)];
    if (!is_along && at.kind != PlacementKind::Partial) continue;
    if (!run.exact) {
      Claim whole = run.claim;
      whole[axis] = {};
      bring(run, 0, whole);
      run.claim = whole;
      continue;
    }
    std::vector<int64_t> shape = local_shape(walk.table, layout_of(walk, run.slots[0]), 0);
    for (size_t dim = 0; dim < along.size() && is_along; ++dim) shape[dim] = along[dim] ? 1 : shape[dim];
    record_call(walk, false, CollectiveKind::AllReduce, axis, module_at(walk), std::move(shape),
                dtype_of(walk, run.slots[0]), true);
  }
  if (walk.crash == kNoId) settle(run);
}

}  // namespace tpplan
