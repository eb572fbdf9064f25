// Attributes of recorded operations, as MLIR prints them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tpplan::programs {

// Reads "array<i64: 0, 1>", "array<i64>" and "[0, 1]". Returns false if the text has another form.
[[nodiscard]] bool read_integers(std::string_view text, std::vector<int64_t>& numbers);

// Reads "2 : i64". Returns false if the text has another form.
[[nodiscard]] bool read_integer(std::string_view text, int64_t& number);

// Returns "[0, 1]" or "2" of `name = [0, 1]` or `name = 2` in "#stablehlo.dot<name = [0, 1], ...>"; empty without it.
[[nodiscard]] std::string_view find_field(std::string_view text, std::string_view name);

// The three groups of "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>": of the input, the kernel and the
// output. `spatial` has the dims of 0, 1, ...; a missing letter is -1.
struct ConvDims {
  int64_t batch = -1, feature = -1, input = -1, output = -1;  // b, f, i, o
  std::vector<int64_t> spatial;
};
[[nodiscard]] bool read_conv_dims(std::string_view text, ConvDims (&groups)[3]);

}  // namespace tpplan::programs
