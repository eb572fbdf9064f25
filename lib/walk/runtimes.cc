#include "walk/runtimes.h"

#include <algorithm>
#include <iterator>

namespace tpplan {
namespace {

constexpr RuntimeRow kRuntimes[] = {
    {.runtime = PlanRuntime::Transformers,
     .one_axis = true,
     .enter = enter_transformers_module,
     .exit = exit_transformers_module},
    {.runtime = PlanRuntime::Tpplan,
     .shows_params = true,
     .prepare = prepare_tpplan_run,
     .enter = enter_tpplan_module,
     .exit = exit_tpplan_module,
     .show_operands = show_tpplan_operands},
};

}  // namespace

const RuntimeRow* find_runtime(PlanRuntime runtime) {
  const auto* row = std::find_if(std::begin(kRuntimes), std::end(kRuntimes),
                                 [runtime](const RuntimeRow& r) { return r.runtime == runtime; });
  return row == std::end(kRuntimes) ? nullptr : row;
}

}  // namespace tpplan
