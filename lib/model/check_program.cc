#include "model/check_program.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "programs/recorded_program.h"

namespace tpplan {
namespace {

bool fault(const ModelGraph& graph, std::string message, Diagnostics& diagnostics) {
  report_message(diagnostics, Code::InvalidProgram, {graph.file, 0, 1}, std::move(message), "export the model again");
  return false;
}

}  // namespace

bool check_program(const ModelGraph& graph, Diagnostics& diagnostics) {
  const programs::RecordedProgram& recorded = *graph.program;
  const auto shape_in_program = [&](size_t value) {
    return programs::shape_of(recorded.program, static_cast<programs::ValueIndex>(value));
  };
  for (size_t i = 0; i < recorded.arguments.size(); ++i) {
    const programs::ProgramArgument& argument = recorded.arguments[i];
    const bool is_param = argument.kind == programs::ArgumentKind::Param;
    if (!is_param && argument.kind != programs::ArgumentKind::Buffer) continue;
    const ParamId id = is_param ? find_param(graph, argument.path) : find_buffer(graph, argument.path);
    if (id == kNone)
      return fault(graph, fmt::format("argument `{}` of the program is not in the model", argument.path), diagnostics);
    const Param& param = is_param ? graph.params[id] : graph.buffers[id];
    if (!std::ranges::equal(shape_of(graph, param), shape_in_program(i)))
      return fault(graph,
                   fmt::format("argument `{}` of the program has another shape than in the model", argument.path),
                   diagnostics);
  }
  const programs::ProgramOperation& last = recorded.program.operations[recorded.program.blocks[0].last];
  for (size_t i = 0; i < recorded.results.size(); ++i) {
    if (recorded.results[i].empty()) continue;
    const ParamId id = find_param(graph, recorded.results[i]);
    const programs::ValueIndex result = programs::operand_of(recorded.program, last, static_cast<uint32_t>(i));
    if (id == kNone || !std::ranges::equal(shape_of(graph, graph.params[id]), shape_in_program(result)))
      return fault(graph,
                   fmt::format("`{}` of `gradients` is not a parameter of the model with the result's shape",
                               recorded.results[i]),
                   diagnostics);
  }
  return true;
}

}  // namespace tpplan
