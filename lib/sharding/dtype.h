// Element types by their torch names; JAX's and Keras' names are the same where both have the type. What anybody needs
// to know of a type is a column here.
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

// False when there is no dtype of that name.
[[nodiscard]] bool find_dtype(std::string_view name, DType& dtype);

// The dtype of a name that the table holds; of any other one the first row.
[[nodiscard]] DType dtype_of(std::string_view name);

// The same by the name that a safetensors header writes.
[[nodiscard]] bool find_safetensors_dtype(std::string_view name, DType& dtype);

// True for types that an optimizer trains: all of floating point, complex ones too.
[[nodiscard]] inline bool is_trained(DType dtype) {
  const DTypeKind kind = dtypes()[dtype].kind;
  return kind == DTypeKind::Float || kind == DTypeKind::Complex;
}

// True for the types that models are built in, and compute in: floating point of 16 bits and more.
[[nodiscard]] inline bool is_model_type(DType dtype) {
  return dtypes()[dtype].kind == DTypeKind::Float && dtypes()[dtype].bits >= 16;
}

// ", forward in bfloat16, backward in float32" where values and gradients are sent in these types, behind this
// separator.
[[nodiscard]] std::string sent_dtypes_text(std::optional<DType> forward, std::optional<DType> backward,
                                           std::string_view separator);

inline constexpr uint64_t kTooManyBytes = 0xffffffffffffffffu;

// The most that a sum over tensors may be: what int64_t holds, and readers of a manifest with it.
inline constexpr uint64_t kMostInTotal = 0x7fffffffffffffffu;

// Bytes that `elements` of this type take, rounded up to whole bytes; kTooManyBytes where 64 bits do not hold them.
[[nodiscard]] uint64_t byte_size(DType dtype, uint64_t elements);

}  // namespace tpplan
