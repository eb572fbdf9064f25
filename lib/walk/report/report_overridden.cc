#include "walk/report/report_overridden.h"

#include <spdlog/fmt/fmt.h>

#include <string>

#include "model/name_subject.h"
#include "walk/state/walk_memory.h"
#include "walk/state/walk_state.h"

namespace tpplan {

void report_overridden_layouts(Walk& walk) {
  for (const BoundarySlot& boundary : walk.memory.boundary_slots) {
    if (!boundary.overridden) continue;
    const WalkedValue& value = boundary.value;
    const auto& [declared, actual] = *boundary.overridden;
    if (walk.out.placements != nullptr) walk.out.placements->push_back({.value = value, .actual = actual});
    const PlanRule& rule = walk.in.plan.rules[value.rule];
    Diagnostic* d = report(walk.out.diagnostics, Code::DeclaredLayoutOverridden, rule.value_span,
                           fmt::format("{}/{}/{}/{}", value.rule, value.is_output, value.arg, value.kwarg));
    if (d == nullptr) continue;
    const Module& module = walk.in.model.modules[value.module];
    const std::string name = value.kwarg.empty()
                                 ? fmt::format("{} {}", value.is_output ? "output" : "argument", value.arg)
                                 : fmt::format("argument `{}`", value.kwarg);
    name_subject(*d, module);
    d->counted = "layer";
    d->message = fmt::format(
        "the rule declares {} of `{}` as {}, but it is a DTensor with {}: the DTensor keeps its "
        "placement, and the declared layout has no effect",
        name, module.path, to_text(declared), to_text(actual));
    d->help = fmt::format("declare {}", to_text(actual));
  }
}

}  // namespace tpplan
