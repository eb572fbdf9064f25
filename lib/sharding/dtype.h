// Element types by their torch names; JAX and Keras use the same names for the types that they have. Every property of
// a type is a column of this table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tpplan {

// Index into dtypes().
using DType = uint8_t;

enum class DTypeKind : uint8_t { Float, Signed, Unsigned, Bool, Complex, Quantised };

// Eight bits of floating point that have a mantissa: sign, exponent, mantissa. `largest` is the code of the largest
// finite number (OCP 8-bit Floating Point Specification 1.0; ml_dtypes 0.5 for the others).
struct Float8Format {
  uint8_t mantissa_bits = 0;  // 0: the type has no such format
  int8_t bias = 0;
  uint8_t largest = 0;
};

struct DTypeRow {
  std::string_view name;
  uint8_t bits = 0;  // of one stored element
  DTypeKind kind{};
  std::string_view safetensors{};  // as a safetensors header writes it; empty: the format lacks it
  std::string_view mlir{};         // MLIR's element type; where it has none, the integer that is stored
  Float8Format float8{};
};

[[nodiscard]] std::span<const DTypeRow> dtypes();

// Returns false if no dtype has that name.
[[nodiscard]] bool find_dtype(std::string_view name, DType& dtype);

// Returns the dtype of a name; the first row if the table lacks the name.
[[nodiscard]] DType dtype_of(std::string_view name);

// Finds a dtype by its name in safetensors headers. Returns false if there is none.
[[nodiscard]] bool find_safetensors_dtype(std::string_view name, DType& dtype);

// True for dtypes that an optimizer can train: floating point and complex.
[[nodiscard]] inline bool is_trainable(DType dtype) {
  const DTypeKind kind = dtypes()[dtype].kind;
  return kind == DTypeKind::Float || kind == DTypeKind::Complex;
}

// True for dtypes that models compute in: floating point of at least 16 bits.
[[nodiscard]] inline bool is_compute_dtype(DType dtype) {
  return dtypes()[dtype].kind == DTypeKind::Float && dtypes()[dtype].bits >= 16;
}

// Returns the separator and "forward in bfloat16, backward in float32": the dtypes in which values and gradients are
// sent. Omits what is nullopt.
[[nodiscard]] std::string sent_dtypes_text(std::optional<DType> forward, std::optional<DType> backward,
                                           std::string_view separator);

inline constexpr uint64_t kTooManyBytes = 0xffffffffffffffffu;

// The limit of a total over tensors: the largest int64_t, which readers of a manifest use.
inline constexpr uint64_t kMostInTotal = 0x7fffffffffffffffu;

// Returns the bytes of `elements` values of this dtype, rounded up; kTooManyBytes if they exceed 64 bits.
[[nodiscard]] uint64_t byte_size(DType dtype, uint64_t elements);

}  // namespace tpplan
