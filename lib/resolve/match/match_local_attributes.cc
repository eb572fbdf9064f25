#include "resolve/match/match_local_attributes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>

#include "base/text.h"
#include "resolve/match/select_modules.h"

namespace tpplan {
namespace {

std::string missing_attribute_help(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string_view nearest = nearest_name(name, known);
  if (!nearest.empty()) return fmt::format("did you mean `{}`?", nearest);
  return known.empty() ? "list the module's numbers in `attributes` of the model file, or export the model again"
                       : fmt::format("the model file has {}", fmt::join(known, ", "));
}

// Adds the attributes of one entry to the module, or reports the first that it cannot divide.
void divide(const TpPlan& plan, const ModelGraph& graph, const LocalAttributes& entry, LocalModule& module,
            Diagnostics& diagnostics) {
  const MeshAxis& axis = plan.mesh.axes[plan.axis];
  const Module& owner = graph.modules[module.module];
  std::span<const std::pair<std::string_view, int64_t>> attributes;
  if (owner.attributes != kNone) attributes = graph.attributes[owner.attributes].integers;
  for (const ModulePattern& name : entry.names) {
    const auto known = std::ranges::find(attributes, name.text, &std::pair<std::string_view, int64_t>::first);
    std::string message, help;
    if (known == attributes.end()) {
      std::vector<std::string_view> names;
      for (const auto& attribute : attributes) names.push_back(attribute.first);
      message = fmt::format("module `{}` has no attribute `{}`", owner.path, name.text);
      help = missing_attribute_help(name.text, names);
    } else if (known->second % axis.size != 0) {
      message = fmt::format("`{}` of `{}` is {}, which `{}` = {} does not divide", name.text, owner.path, known->second,
                            axis.name, axis.size);
      help = fmt::format("use a size of `{}` that divides it, or replicate the layers that it counts", axis.name);
    } else if (std::ranges::find(module.divided, *known) == module.divided.end()) {
      module.divided.push_back(*known);
    }
    if (message.empty()) continue;
    Diagnostic* d =
        report(diagnostics, Code::NoLocalAttribute, name.span, fmt::format("{}/{}", entry.pattern.text, name.text));
    if (d == nullptr) continue;
    d->message = std::move(message);
    d->help = std::move(help);
  }
}

}  // namespace

std::vector<LocalModule> match_local_attributes(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics) {
  std::vector<LocalModule> modules;
  if (plan.local_attributes.empty()) return modules;
  if (graph.framework != Framework::Torch) {
    report_message(diagnostics, Code::NoLocalAttribute, plan.local_attributes.front().pattern.span,
                   "`local_attributes` are of torch modules; arrays of JAX and Keras have their global shape",
                   "remove `local_attributes`");
    return modules;
  }
  std::vector<ModulePattern> patterns;
  for (const LocalAttributes& entry : plan.local_attributes) patterns.push_back(entry.pattern);
  const std::vector<std::vector<ModuleId>> matches = outermost_matches(graph, patterns);
  PathHints hints{.graph = graph};
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (matches[i].empty()) report_dead_pattern(hints, patterns[i], "local_attributes pattern", diagnostics);
    for (const ModuleId id : matches[i]) {
      const auto at = std::ranges::lower_bound(modules, id, {}, &LocalModule::module);
      const bool is_new = at == modules.end() || at->module != id;
      LocalModule& module = is_new ? *modules.insert(at, {.module = id, .divided = {}}) : *at;
      divide(plan, graph, plan.local_attributes[i], module, diagnostics);
    }
  }
  std::erase_if(modules, [](const LocalModule& module) { return module.divided.empty(); });
  return modules;
}

}  // namespace tpplan
