#include "walk/walk_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "walk/backward/backward.h"
#include "walk/backward/check_walk_loss.h"
#include "walk/layers/model_tables.h"
#include "walk/plan_walk.h"
#include "walk/report/example.h"
#include "walk/report/report_cause.h"
#include "walk/report/report_overridden.h"
#include "walk/state/boundary_slots.h"
#include "walk/state/slots.h"
#include "walk/state/trace_step.h"
#include "walk/state/walk_memory.h"
#include "walk/state/walk_state.h"
#include "walk/walk_forward.h"

namespace tpplan {
namespace {

void check_output(Walk& walk) {
  for (const ValueId output : walk.in.graph.outputs) {
    const SlotId slot = walk.memory.slot_of[output];
    const ValueLayout& layout = layout_of(walk, slot);
    if (layout.wrong) {
      if (walk.memory.slots[slot].cause != kNoId)
        report_cause(walk, walk.out.causes[walk.memory.slots[slot].cause], FirstFailure::Output);
      return;
    }
    if (!layout.is_dtensor && walk.in.loss && output == loss_input(walk)) continue;  // check_walk_loss checks it
    ValueLayout expected;
    if (layout.is_dtensor) {
      expected = placed_layout(walk.memory.table, shape_of(walk, slot), layout.declared);
      if (expected.dims == layout.dims && expected.partial == layout.partial) continue;
    } else if (layout.partial == 0 && is_all_replicated(walk.memory.table, layout)) {
      continue;
    }
    report_cause(walk,
                 {.code = Code::OutputNotReplicated,
                  .reason = fmt::format("the model's result is {} on every rank: {}",
                                        layout.partial != 0 ? "a partial sum that is never reduced" : "only a shard",
                                        layout_text(walk.memory.table, layout)),
                  .op = {},
                  .module = kNone,
                  .rule = walk.memory.slots[slot].origin,
                  .layouts = {},
                  .example = walk.out.examples != nullptr ? result_example(walk, layout) : Example{}},
                 FirstFailure::Output);
    return;
  }
}

bool output_is_right(const Walk& walk, bool loss_is_right) {
  return std::all_of(walk.in.graph.outputs.begin(), walk.in.graph.outputs.end(), [&](ValueId output) {
    const ValueLayout& layout = layout_of(walk, walk.memory.slot_of[output]);
    if (!layout.wrong && walk.in.loss && output == loss_input(walk)) return loss_is_right;
    return !layout.wrong &&
           (layout.is_dtensor || (layout.partial == 0 && is_all_replicated(walk.memory.table, layout)));
  });
}

void walk_axes(Walk& walk, Forecast& forecast) {
  begin_walk(walk);
  if (walk.in.runtime.prepare != nullptr && !walk.in.runtime.prepare(walk)) {
    forecast.limit = ForecastLimit::Broken;
    return;
  }
  walk_forward(walk);
  if (walk.out.crash != kNoId) {
    report_cause(walk, walk.out.causes[walk.out.crash], FirstFailure::Forward);
    forecast.limit = walk.out.causes[walk.out.crash].unknown ? ForecastLimit::Undescribed : ForecastLimit::Broken;
    forecast.broken_at = walk.out.causes[walk.out.crash].module;
    forecast.calls.clear();
    return;
  }
  finish_trace(walk);
  report_overridden_layouts(walk);
  check_output(walk);
  bool loss_is_right = true;
  if (walk.in.loss && !layout_of(walk, walk.memory.slot_of[loss_input(walk)]).wrong)
    loss_is_right = check_walk_loss(walk, !walk.in.infer);
  if (!walk.in.infer) {
    walk_backward(walk, output_is_right(walk, loss_is_right));
    list_walked_gradients(walk);
  }
  forecast.repeated += walk.out.repeated;
  forecast.repeated_backward += walk.out.repeated_backward;
  if (forecast.limit != ForecastLimit::None) return;
  forecast.calls.insert(forecast.calls.end(), std::move_iterator(walk.out.calls.begin()),
                        std::move_iterator(walk.out.calls.end()));
}

// Clears a trace but keeps its memory.
StepTrace begin_trace(StepTrace used) {
  used.is_there = false;
  used.values.clear();
  used.shapes.clear();
  used.sizes.clear();
  used.ops.clear();
  used.slots.clear();
  used.outputs.clear();
  used.repeats.clear();
  return used;
}

}  // namespace

Forecast walk_graph(const ResolvedPlan& resolved, const ModelTables& tables, WalkMemory& memory,
                    const WalkOptions& options, Diagnostics& diagnostics) {
  const ModelGraph& model = resolved.model;
  Forecast forecast{.infer = options.infer};
  if (!model.operations.is_there) {
    forecast.limit = model.framework == Framework::Torch ? ForecastLimit::NoGraph : ForecastLimit::Global;
    return forecast;
  }
  WalkPlan plan = plan_walk(resolved, tables, options);
  forecast.limit = plan.limit;
  if (plan.limit != ForecastLimit::None) return forecast;
  forecast.unlisted = std::move(plan.unlisted);
  if (options.trace) forecast.trace = begin_trace(std::move(memory.spare_trace));
  Diagnostics unused;
  for (const WalkInput& input : plan.walks) {
    WalkOutput output{.diagnostics = plan.is_unsharded ? unused : diagnostics,
                      .listing = options.listing ? &forecast.listing : nullptr,
                      .examples = options.examples ? &forecast.examples : nullptr,
                      .trace = plan.is_traced ? &forecast.trace : nullptr,
                      .gradients = plan.is_unsharded ? nullptr : options.gradients,
                      .placements = plan.is_unsharded ? nullptr : options.placements};
    Walk walk{.in = input, .memory = memory, .out = output};
    walk_axes(walk, forecast);
  }
  if (plan.is_unsharded) forecast.limit = ForecastLimit::None;
  if (tables.is_shard_map && forecast.limit == ForecastLimit::None && !options.infer)
    forecast.limit = ForecastLimit::Forward;
  return forecast;
}

}  // namespace tpplan
