#include "model/size_ops.h"

#include <doctest/doctest.h>

#include <limits>

using namespace tpplan;

TEST_CASE("sizes divide as in Python, or have no result") {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  int64_t result = 0;
  CHECK((apply_size_op(SizeOp::FloorDiv, -7, 2, result) && result == -4));
  CHECK((apply_size_op(SizeOp::Mod, -7, 2, result) && result == 1));
  CHECK((apply_size_op(SizeOp::Mod, 7, -2, result) && result == -1));
  CHECK((apply_size_op(SizeOp::Mod, least, 3, result) && result == 1));
  CHECK((apply_size_op(SizeOp::TrueDiv, 8, 2, result) && result == 4));
  CHECK_FALSE(apply_size_op(SizeOp::TrueDiv, 7, 2, result));
  for (const SizeOp op : {SizeOp::FloorDiv, SizeOp::Mod, SizeOp::TrueDiv}) {
    CHECK_FALSE(apply_size_op(op, 1, 0, result));
    CHECK_FALSE(apply_size_op(op, least, -1, result));
  }
  CHECK_FALSE(apply_size_op(SizeOp::Abs, least, 0, result));
  CHECK_FALSE(apply_size_op(SizeOp::Pow, 2, 63, result));
  CHECK((apply_size_op(SizeOp::Pow, 2, 62, result) && result == int64_t{1} << 62));
  CHECK(find_size_op("truediv") == SizeOp::TrueDiv);
  CHECK(find_size_op("local") == SizeOp::Local);
  CHECK_FALSE(find_size_op("sqrt"));
}
