// Each operation that the walk has a rule for has a row of what it does to memory; what tensors of other layouts keep.
#include "cost/op_effects.h"

#include <doctest/doctest.h>

#include <string>

#include "cost/strides.h"
#include "ops/op_rules.h"

using namespace tpplan;

TEST_CASE("every operation with a rule says what it keeps for the backward pass") {
  std::string missing;
  for (const std::string_view op : ruled_ops()) {
    if (find_effects(op) == nullptr) missing += std::string(op) + " ";
  }
  // Several operations in one, and other ones by its arguments: `check --costs` says that it is not counted.
  CHECK(missing == "multi_head_attention_forward ");
}

TEST_CASE("an operation in place is known by its name") {
  REQUIRE(find_effects("mul_") != nullptr);
  CHECK(find_effects("mul_") == find_effects("mul"));
  CHECK(writes_in_place("index_add_"));
  CHECK(writes_in_place("__setitem__"));
  CHECK_FALSE(writes_in_place("__getitem__"));
  CHECK(find_effects("no_such_operation") == nullptr);
}

TEST_CASE("a view of heads that were put in front is no matrix: it takes a copy") {
  const int64_t heads[] = {2, 8, 24, 16}, matrices[] = {16, 24, 16}, flat[] = {2, 24, 128};
  const int64_t in_front[] = {24 * 128, 16, 128, 1};  // [2, 24, 8, 16] with dims 1 and 2 swapped
  CHECK_FALSE(view_strides(heads, in_front, matrices).has_value());
  CHECK(view_strides(heads, dense_strides(heads), matrices).has_value());
  const int64_t behind[] = {2, 24, 8, 16};
  CHECK(view_strides(behind, dense_strides(behind), flat) == dense_strides(flat));
}

TEST_CASE("results of operations on elements lie as their operands do") {
  const int64_t shape[] = {2, 8, 24, 16}, table[] = {1, 1, 24, 16};
  const Strides in_front{24 * 128, 16, 128, 1}, dense = dense_strides(table);
  const Laid operands[] = {{shape, in_front}, {table, dense}};
  CHECK(elementwise_strides(operands, shape) == in_front);
}
