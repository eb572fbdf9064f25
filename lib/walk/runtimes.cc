#include "walk/runtimes.h"

#include <algorithm>
#include <iterator>

#include "walk/boundary/torch_boundaries.h"
#include "walk/boundary/tpplan_boundaries.h"
#include "walk/boundary/transformers_boundaries.h"
#include "walk/local/shard_map_run.h"
#include "walk/state/param_layouts.h"

namespace tpplan {
namespace {

constexpr RuntimeRow kRuntimes[] = {
    {.runtime = PlanRuntime::Transformers,
     .name = "transformers",
     .one_axis = true,
     .param_layout = param_layout,
     .enter = enter_transformers_module,
     .exit = exit_transformers_module},
    {.runtime = PlanRuntime::Torch,
     .name = "torch",
     .one_axis = true,
     .unties = true,
     .prepare = prepare_torch_run,
     .param_layout = torch_param_layout,
     .enter = enter_torch_module,
     .exit = exit_torch_module},
    {.runtime = PlanRuntime::Tpplan,
     .name = "tpplan",
     .shows_params = true,
     .has_data_axes = true,
     .writes_views = true,
     .prepare = prepare_tpplan_run,
     .param_layout = param_layout,
     .enter = enter_tpplan_module,
     .exit = exit_tpplan_module,
     .show_operands = replace_tpplan_operands},
    {.runtime = PlanRuntime::ShardMap,
     .name = "shard_map",
     .all_axes = true,
     .param_layout = shard_map_param_layout,
     .enter = cross_shard_map_module,
     .exit = cross_shard_map_module,
     .run_op = run_shard_map_op},
};

static_assert(std::size(kRuntimes) == static_cast<size_t>(PlanRuntime::ShardMap) + 1);

}  // namespace

std::span<const RuntimeRow> runtimes() { return kRuntimes; }

const RuntimeRow& runtime_row(PlanRuntime runtime) {
  return *std::find_if(std::begin(kRuntimes), std::end(kRuntimes),
                       [runtime](const RuntimeRow& r) { return r.runtime == runtime; });
}

}  // namespace tpplan
