#include "walk/dtensor_products.h"

#include <algorithm>

#include "walk/causes.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

struct LinearClaims {
  Claim x, weight, bias, out;
};

LinearClaims linear_claims(const DtensorRun& run, size_t last) {
  LinearClaims c{claim_of(run, 0), claim_of(run, 1), whole_claim(run.walk), whole_claim(run.walk)};
  for (size_t axis = 0; axis < c.out.size(); ++axis) {
    if (is_shard(c.weight[axis]) && c.weight[axis].dim == 0) {
      c.x[axis] = {};
      c.out[axis] = shard_of(last);
    } else if (is_shard(c.weight[axis]) || (is_shard(c.x[axis]) && c.x[axis].dim == static_cast<int>(last))) {
      c.x[axis] = shard_of(last);
      c.weight[axis] = shard_of(1);
      c.out[axis].kind = PlacementKind::Partial;
    } else {
      if (c.x[axis].kind == PlacementKind::Partial) c.x[axis] = {};
      c.out[axis] = c.x[axis];
    }
    if (is_shard(c.out[axis]) && c.out[axis].dim == static_cast<int>(last)) c.bias[axis] = shard_of(0);
  }
  return c;
}

// The bias is added to one term of the open sum: it counts as nothing while the sum is judged.
void add_bias_once(DtensorRun& run) {
  Walk& walk = run.walk;
  const Spread added = layout_of(walk, run.slots[2]);
  std::vector<SpreadId> layouts = held_layouts(run);
  Spread none;  // of the sizes that the bias has
  none.dims = added.dims;
  none.zero = true;
  layouts[2] = intern(walk.table, none);
  run.result = run_on(run, layouts);
  if ((cut_axes(walk.table, added) & open_mask(run.claim)) != 0 && run.result.crash.empty())
    crash(run.result, Code::TP5102, "a piece of the bias is added to the whole result");
}

// torch takes no strided shards in products: it gathers the weight.
void gather_strided_weight(DtensorRun& run) {
  if (is_strided(claim_of(run, 1))) bring(run, 1, whole_claim(run.walk));
}

}  // namespace

void run_linear(DtensorRun& run) {
  const size_t last = layout_of(run.walk, run.slots[0]).dims.size() - 1;
  gather_strided_weight(run);
  const LinearClaims claims = linear_claims(run, last);
  const bool adds_bias = run.slots.size() > 2;
  bring(run, 0, claims.x);
  bring(run, 1, claims.weight);
  if (adds_bias) bring(run, 2, claims.bias);
  run.claim = claims.out;
  if (run.walk.crash != kNoId) return;
  if (adds_bias && open_mask(run.claim) != 0)
    add_bias_once(run);
  else
    run.result = run_on(run, held_layouts(run));
}

void run_embedding(DtensorRun& run) {
  Walk& walk = run.walk;
  gather_strided_weight(run);
  const Claim w = claim_of(run, 1);
  const auto cuts_rows = [](const Placement& p) { return is_shard(p) && p.dim == 0; };
  // torch 2.13, _embedding_ops.py: one mask for all axes (MaskBuffer has been materialized with conflicting data).
  if (std::count_if(w.begin(), w.end(), cuts_rows) > 1)
    return crash_at(walk, Code::TP5105, "torch looks nothing up in a table whose rows are cut over two axes", run.rule,
                    kNoRule, std::string(run.name));
  Claim looked_up = claim_of(run, 0);
  for (size_t axis = 0; axis < w.size(); ++axis) {
    if (w[axis].kind != PlacementKind::Replicate) looked_up[axis] = {};
  }
  bring(run, 0, looked_up);
  const Spread weight = layout_of(walk, run.slots[1]), ids = layout_of(walk, run.slots[0]);
  Spread out;
  out.dims = ids.dims;
  out.dims.push_back(weight.dims[1]);
  if (ids.partial != 0) make_wrong(run.result, Code::TP5108, "indices are a sum that is still open");
  for (size_t axis = 0; axis < w.size(); ++axis) {
    if (!cuts_rows(w[axis])) {
      run.claim[axis] = is_shard(w[axis]) ? shard_of(ids.dims.size()) : claim_of(run, 0)[axis];
      continue;
    }
    run.claim[axis].kind = PlacementKind::Partial;
    out.partial |= cut_axes(walk.table, weight) & axis_bit(axis);
    if ((cut_axes(walk.table, ids) & axis_bit(axis)) != 0)
      make_wrong(run.result, Code::TP5107, "a cut table is looked up by cut indices");
  }
  give(run.result, std::move(out));
}

}  // namespace tpplan
