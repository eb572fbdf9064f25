// Mutations that preserve the form of a document. libFuzzer's mutations change bytes, and rarely produce equal names,
// duplicate entries, or a list with one more size. These parse the input as a tree, change the tree, and write it
// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// The format of a target's input. libFuzzer's mutations handle input that cannot be parsed.
enum class InputForm : uint8_t {
  Json,
  Yaml,
  JsonOrYaml,   // either of them
  JsonAndYaml,  // a model and a plan, with a line `%%` between them
  Safetensors,  // eight bytes of length, a JSON header, data
};

// Scalars are stored as written: a number as its digits, a text (`is_text`) decoded.
struct TreeNode {
  enum class Kind : uint8_t { Scalar, List, Map } kind = Kind::Scalar;
  bool is_text = false;
  std::string key;  // of a field of a map; keys may repeat
  std::string text;
  std::vector<TreeNode> children;
};

// The signatures of libFuzzer's hooks, with the form before them. A result is at most `max_size` bytes.
[[nodiscard]] size_t mutate_input(InputForm form, uint8_t* data, size_t size, size_t max_size, unsigned seed);
[[nodiscard]] size_t cross_inputs(InputForm form, std::string_view one, std::string_view other, uint8_t* out,
                                  size_t max_size, unsigned seed);

}  // namespace tpplan

// Uses these mutations for a fuzz target.
#define TPPLAN_MUTATE_AS(form)                                                                                   \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {        \
    return tpplan::mutate_input(form, data, size, max_size, seed);                                               \
  }                                                                                                              \
  extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* one, size_t one_size, const uint8_t* other,         \
                                              size_t other_size, uint8_t* out, size_t max_size, unsigned seed) { \
    return tpplan::cross_inputs(form, {reinterpret_cast<const char*>(one), one_size},                            \
                                {reinterpret_cast<const char*>(other), other_size}, out, max_size, seed);        \
  }
