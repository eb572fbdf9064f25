// The rows of all operations.
#include "ops/factor_rules.h"
#include "ops/op_rules.h"
#include "ops/size_rules.h"

namespace tpplan {

const OpRow& op_row(OpId op) {
  using enum Contraction;
  using enum Linearity;
  using enum DimEffect;
  using enum FillSize;
  using enum DtypeRule;
  using enum DtensorSupport;
  static constexpr OpArray<OpRow> kRows = {{
      {.names = ""},
#define TPPLAN_OP(id_, names_, rule_, memory_, saves_, ...) \
  {.names = names_, .rule = rule_, .memory = ResultMemory::memory_, .saves = saves_, __VA_ARGS__},
#include "model/operations.def"
#undef TPPLAN_OP
  }};
  return kRows[index_of(op)];
}

}  // namespace tpplan
