#include "model/print_model.h"

#include <spdlog/fmt/fmt.h>

#include "model/module_kinds.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

void dump_param(std::string& out, const ModelGraph& graph, const Module& module, const Param& param) {
  out += fmt::format("  {} {} {} {}", param.is_buffer ? "buffer" : "parameter", param.name,
                     shape_text(shape_of(graph, param)), dtypes()[param.dtype].name);
  const auto dims = param.is_buffer ? std::span<const std::string_view>{} : dims_of(graph, module, param);
  if (!dims.empty()) out += fmt::format(" ({})", fmt::join(dims, ", "));
  if (param.extras != kNone) {
    for (const DimSegments& segments : graph.extras[param.extras].segments) {
      out += fmt::format(" segments {}: {}", segments.dim, shape_text(segments.sizes));
    }
    for (const auto& [dim, granule] : graph.extras[param.extras].granularity)
      out += fmt::format(" granularity {}: {}", dim, granule);
  }
  out += '\n';
}

}  // namespace

std::string dump(const ModelGraph& graph) {
  std::string out;
  size_t buffer = 0;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    out += fmt::format("module {} {} ({})\n", module.path.empty() ? "<root>" : module.path,
                       type_of(graph, module).empty() ? "(not listed)" : type_of(graph, module), to_text(module.kind));
    for (const Param& param : params_of(graph, module)) dump_param(out, graph, module, param);
    for (; buffer < graph.buffers.size() && graph.buffers[buffer].module == id; ++buffer) {
      dump_param(out, graph, module, graph.buffers[buffer]);
    }
  }
  for (const Tie& tie : graph.ties) {
    out += "tied";
    for (const ParamId param : tie.params) out += " " + path_of(graph, graph.params[param]);
    out += '\n';
  }
  return out;
}

}  // namespace tpplan
