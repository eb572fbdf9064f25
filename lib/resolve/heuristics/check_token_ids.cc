#include "resolve/heuristics/check_token_ids.h"

#include <spdlog/fmt/fmt.h>

#include "model/name_subject.h"

namespace tpplan {

void check_token_ids(const HeuristicInput& in) {
  for (const ModuleBoundary& at : in.boundaries->modules) {
    const Module& module = in.graph.modules[at.module];
    const BoundaryLayout& boundary = in.boundaries->layouts[at.layout];
    if (module.kind != ModuleKind::Embedding || boundary.inputs.empty() || boundary.inputs[0].forward.empty() ||
        has_walk_error(in, boundary.rule))
      continue;
    const PlanRule& rule = in.plan.rules[boundary.rule];
    Diagnostic* d = report(in.diagnostics, Code::TokenIdsGathered, rule.value_span, fmt::format("{}", boundary.rule));
    if (d == nullptr) continue;
    name_subject(*d, module);
    d->message = fmt::format("the token ids that `{}` receives are all-gathered over `{}`", module.path,
                             axis_name(in.plan.mesh, rule.axis));
    d->counted = "module";
    d->notes.push_back({"RowwiseParallel assumes a Shard(-1) input by default: 8 ids become 8 x ranks ids", {}});
    d->help = "write `{style: rowwise, input_layouts: Replicate}`";
  }
}

}  // namespace tpplan
