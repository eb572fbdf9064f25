#include "programs/count_turns.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "programs/attribute_text.h"

namespace tpplan::programs {

std::vector<int64_t> count_turns(const Program& program, Diagnostics& diagnostics) {
  constexpr int64_t kMostTurns = int64_t{1} << 53;
  std::vector<int64_t> turns(program.blocks.size(), 1);
  // Blocks come before those in their operations.
  for (BlockIndex block = 1; block < program.blocks.size(); ++block) {
    const OperationIndex parent = program.blocks[block].parent;
    const ProgramOperation& operation = program.operations[parent];
    turns[block] = turns[operation.block];
    if (operation.kind != OperationClass::While) continue;
    int64_t most = 1;
    bool has_bound = false;
    for (OperationIndex id = program.blocks[operation.first_block].first; id != kNoIndex;
         id = program.operations[id].next) {
      const ProgramOperation& inner = program.operations[id];
      std::string_view text = attribute_of(program, inner, "value");
      int64_t number = 0;
      if (inner.name != "stablehlo.constant" || !text.starts_with("dense<")) continue;
      text.remove_prefix(6);
      if (!read_integer(text.substr(0, text.find('>')), number)) continue;
      most = has_bound ? std::max(most, number) : number;
      has_bound = true;
    }
    most = std::max<int64_t>(most, 0);
    if (most > 0 && turns[block] > kMostTurns / most) {
      report_message(diagnostics, Code::ResourceLimit, {program.file, operation.offset, 1},
                     fmt::format("a loop and those around it turn more than {} times", kMostTurns),
                     "check the constant that the loop's condition compares with");
      return turns;
    }
    turns[block] *= most;
  }
  return turns;
}

}  // namespace tpplan::programs
