#include "exec/run/norm_gradients.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/text.h"

namespace tpplan {
namespace {

// Returns an axis that shards the module's input but not the parameter, and over which its gradient is never reduced.
AxisId partial_axis(const ModuleLayout& module, const ParamLayout& param) {
  for (const ManifestValue& input : module.inputs) {
    for (size_t axis = 0; input.to && axis < input.to->size(); ++axis) {
      const auto id = static_cast<AxisId>(axis);
      if (is_shard((*input.to)[axis]) && !uses_axis(param.sharding.spec, id) &&
          std::ranges::count(param.grad_reduce, id, &GradReduce::axis) == 0)
        return id;
    }
  }
  return kNoAxis;
}

}  // namespace

std::optional<Fault> find_unreduced_norm(const Manifest& manifest) {
  TextMap<std::string_view, const ModuleLayout*> modules;
  for (const ManifestModule& module : manifest.modules)
    modules.try_emplace(path_of(manifest, module), &layout_of(manifest, module));
  for (const ManifestParam& param : manifest.parameters) {
    if (layout_of(manifest, param).kind != "norm") continue;
    const std::string_view path = path_of(manifest, param);
    const auto module = modules.find(path.substr(0, std::min(path.find_last_of("./"), path.size())));
    if (module == modules.end() || module->second->rule != layout_of(manifest, param).rule) continue;
    const AxisId axis = partial_axis(*module->second, layout_of(manifest, param));
    if (axis == kNoAxis) continue;
    return Fault{.code = Code::ResultsDiffer,
                 .message = fmt::format("the gradient of `{}` is never reduced over {}: its module's input is sharded "
                                        "there, the weight is replicated, and its `grad_reduce` has no sum",
                                        escape_for_terminal(path), axis_name(manifest.mesh, axis)),
                 .help = "use a style that reduces the gradient for its module, such as sequence_parallel"};
  }
  return std::nullopt;
}

}  // namespace tpplan
