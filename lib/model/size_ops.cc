#include "model/size_ops.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace tpplan {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

// Divides and rounds towards minus infinity, as Python does. Returns false if there is no result.
bool floor_divide(int64_t a, int64_t b, int64_t& quotient) {
  if (b == 0 || (a == kLeast && b == -1)) return false;
  quotient = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) --quotient;
  return true;
}

// Computes a power with an exponent up to 64. Larger exponents overflow except for bases -1, 0 and 1; all are rejected
// to bound the loop.
bool raise_to(int64_t a, int64_t b, int64_t& result) {
  if (b < 0 || b > 64) return false;
  result = 1;
  for (int64_t i = 0; i < b; ++i) {
    if (__builtin_mul_overflow(result, a, &result)) return false;
  }
  return true;
}

// Returns the operand, for ceil, round and int. Operands are never fractions, because truediv then has no result.
bool keep(int64_t a, int64_t, int64_t& result) {
  result = a;
  return true;
}

struct SizeOpRow {
  SizeOp op;
  std::string_view name;
  size_t operands;
  bool (*apply)(int64_t a, int64_t b, int64_t& result);
};

// Rows in the order of SizeOp, which is their index. `size` has no arithmetic; prove_sizes reads it from the value.
constexpr SizeOpRow kSizeOps[] = {
    {SizeOp::Size, "size", 2, [](int64_t, int64_t, int64_t&) { return false; }},
    {SizeOp::Add, "add", 2, [](int64_t a, int64_t b, int64_t& c) { return !__builtin_add_overflow(a, b, &c); }},
    {SizeOp::Sub, "sub", 2, [](int64_t a, int64_t b, int64_t& c) { return !__builtin_sub_overflow(a, b, &c); }},
    {SizeOp::Mul, "mul", 2, [](int64_t a, int64_t b, int64_t& c) { return !__builtin_mul_overflow(a, b, &c); }},
    {SizeOp::FloorDiv, "floordiv", 2, floor_divide},
    {SizeOp::Mod, "mod", 2,
     [](int64_t a, int64_t b, int64_t& c) {
       if (int64_t quotient = 0; !floor_divide(a, b, quotient)) return false;
       c = a % b;
       if (c != 0 && (c < 0) != (b < 0)) c += b;
       return true;
     }},
    {SizeOp::Neg, "neg", 1, [](int64_t a, int64_t, int64_t& c) { return !__builtin_sub_overflow(int64_t{0}, a, &c); }},
    {SizeOp::Min, "min", 2, [](int64_t a, int64_t b, int64_t& c) { return c = std::min(a, b), true; }},
    {SizeOp::Max, "max", 2, [](int64_t a, int64_t b, int64_t& c) { return c = std::max(a, b), true; }},
    {SizeOp::Pow, "pow", 2, raise_to},
    {SizeOp::Abs, "abs", 1, [](int64_t a, int64_t, int64_t& c) { return a != kLeast && (c = a < 0 ? -a : a, true); }},
    // A fraction is not a valid size.
    {SizeOp::TrueDiv, "truediv", 2,
     [](int64_t a, int64_t b, int64_t& c) { return floor_divide(a, b, c) && a % b == 0; }},
    {SizeOp::Ceil, "ceil", 1, keep},
    {SizeOp::Round, "round", 1, keep},
    {SizeOp::Int, "int", 1, keep},
    // The global size; the walk has the local sizes (walk/state/node_args.cc).
    {SizeOp::Local, "local", 2, keep},
};

static_assert(std::size(kSizeOps) == static_cast<size_t>(SizeOp::Local) + 1);

constexpr bool are_rows_in_order() {
  for (size_t i = 0; i < std::size(kSizeOps); ++i) {
    if (static_cast<size_t>(kSizeOps[i].op) != i) return false;
  }
  return true;
}
static_assert(are_rows_in_order());

}  // namespace

std::optional<SizeOp> find_size_op(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kSizeOps), std::end(kSizeOps), [&](const SizeOpRow& r) { return r.name == name; });
  if (row == std::end(kSizeOps)) return std::nullopt;
  return row->op;
}

std::string_view to_text(SizeOp op) { return kSizeOps[static_cast<size_t>(op)].name; }

size_t operands_of(SizeOp op) { return kSizeOps[static_cast<size_t>(op)].operands; }

bool apply_size_op(SizeOp op, int64_t a, int64_t b, int64_t& result) {
  return kSizeOps[static_cast<size_t>(op)].apply(a, b, result);
}

}  // namespace tpplan
