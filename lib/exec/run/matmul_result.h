// The result of one module's matmul on one rank.
#pragma once

#include <cstdint>
#include <string>

namespace tpplan {

// NoMemory and Packed: the matmul was not run, which is no error. The others are errors of the manifest.
enum class MatmulError : uint8_t { None, NoMemory, Packed, InputLayout, OutputLayout, GradientLayout };
[[nodiscard]] inline bool is_wrong(MatmulError fault) { return fault > MatmulError::Packed; }

// The result of one matmul on one rank: the elements that it holds, and how many differ from the unsharded matmul.
struct MatmulResult {
  MatmulError fault = MatmulError::None;  // the same on every rank; if it is set, nothing was computed
  std::string reason;
  uint64_t elements = 0, wrong = 0;                // y
  uint64_t input_elements = 0, input_wrong = 0;    // gradient of x; none for an embedding
  uint64_t weight_elements = 0, weight_wrong = 0;  // gradient of the weight, after its grad_reduce
  double seconds = 0;                              // of the three matmuls
};

}  // namespace tpplan
