#include "programs/argument_behind.h"

namespace tpplan::programs {

ValueIndex argument_behind(const Program& p, ValueIndex value) {
  for (int steps = 0; steps < 16; ++steps) {
    const ProgramValue& v = p.values[value];
    if (v.maker == kNoIndex) {
      const ProgramBlock& block = p.blocks[v.block];
      if (block.parent == kNoIndex) return value;
      const uint32_t index = value - block.first_argument;
      const ProgramOperation& loop = p.operations[block.parent];
      if (loop.kind != OperationClass::While || index >= loop.operand_count) return kNoIndex;
      value = operand_of(p, loop, index);
      continue;
    }
    const ProgramOperation& maker = p.operations[v.maker];
    const bool is_barrier = maker.kind == OperationClass::Barrier && maker.operand_count == maker.result_count;
    const bool is_slice = maker.name == "stablehlo.dynamic_slice" && maker.operand_count > 0;
    if (!is_barrier && !is_slice && (maker.operand_count != 1 || maker.result_count != 1)) return kNoIndex;
    value = operand_of(p, maker, is_barrier ? value - maker.first_result : 0);
  }
  return kNoIndex;
}

}  // namespace tpplan::programs
