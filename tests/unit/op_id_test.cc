// Names of operations. Strides of views and elementwise results equal those of torch.
#include "model/op_id.h"

#include <doctest/doctest.h>

#include <set>

#include "base/text.h"
#include "cost/strides.h"
#include "ops/factor_rules.h"
#include "ops/op_rules.h"

using namespace tpplan;

TEST_CASE("a name belongs to one operation") {
  std::set<std::string_view> names;
  for (size_t op = 1; op < kOpCount; ++op) {
    for (const std::string_view name : split(kOpNames[op], ' ')) {
      CHECK_MESSAGE(names.insert(name).second, name);
      CHECK(find_op(name) == static_cast<OpId>(op));
    }
  }
  CHECK(find_op("true_divide") == OpId::Div);
  CHECK(find_op("no_such_operation") == OpId::Unknown);
}

TEST_CASE("a row of operations has the columns that its rule reads") {
  for (size_t op = 1; op < kOpCount; ++op) {
    CAPTURE(kOpNames[op]);
    const OpRow& row = op_row(static_cast<OpId>(op));
    CHECK((row.rule == rule_factors) == !row.notation.empty());
    CHECK((row.rule == rule_fill) == (row.fill.size != FillSize::NoFill));
    const bool has_result = row.rule != nullptr && row.rule != rule_multihead;
    CHECK((!has_result || row.memory != ResultMemory::Unknown));
  }
}

TEST_CASE("a trailing underscore marks an operation as in place") {
  CHECK(is_in_place("index_add_"));
  CHECK(plain_op("index_add_") == "index_add");
  CHECK_FALSE(is_in_place("__setitem__"));
  CHECK(plain_op("__setitem__") == "__setitem__");
}

TEST_CASE("a view of transposed heads is no matrix and needs a copy") {
  const int64_t heads[] = {2, 8, 24, 16}, matrices[] = {16, 24, 16}, flat[] = {2, 24, 128};
  const int64_t in_front[] = {24 * 128, 16, 128, 1};  // [2, 24, 8, 16] with dims 1 and 2 swapped
  CHECK_FALSE(view_strides(heads, in_front, matrices).has_value());
  CHECK(view_strides(heads, dense_strides(heads), matrices).has_value());
  const int64_t behind[] = {2, 24, 8, 16};
  CHECK(view_strides(behind, dense_strides(behind), flat) == dense_strides(flat));
}

TEST_CASE("elementwise results have the memory order of their operands") {
  const int64_t shape[] = {2, 8, 24, 16}, table[] = {1, 1, 24, 16};
  const Strides in_front{24 * 128, 16, 128, 1}, dense = dense_strides(table);
  const StridedShape operands[] = {{shape, in_front}, {table, dense}};
  CHECK(elementwise_strides(operands, shape) == in_front);
}
