// The words of the graph notation, which its printer (print_graph.h) and its reader (read_graph_text.h) share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/model_graph.h"
#include "model/op_graph.h"

namespace tpplan {

// The deepest nesting of modules. Each level indents by two columns.
inline constexpr size_t kMaxFrames = 512;

// Returns the sign of a binary operation on sizes; empty for functions such as `min(a, b)`.
[[nodiscard]] std::string_view sign_of(SizeOp op);
[[nodiscard]] std::optional<SizeOp> find_sign(std::string_view sign);

[[nodiscard]] std::string_view sign_of(GuardOp op);
[[nodiscard]] std::optional<GuardOp> find_guard_sign(std::string_view sign);

// True for statements, constants and dtypes, which cannot be names of values.
[[nodiscard]] bool is_reserved_word(std::string_view name);

// True if `name` consists of letters, digits and underscores and does not start with a digit.
[[nodiscard]] bool is_identifier(std::string_view name);

// True for an identifier that is not reserved.
[[nodiscard]] bool is_value_name(std::string_view name);

// True for `s1`, `s2` and so on, the names that print_graph gives to sizes.
[[nodiscard]] bool is_size_name(std::string_view name);

// Returns the length of the word at the beginning of `text` in bytes, 0 if there is none. A word consists of names with
// single dots or slashes between them.
[[nodiscard]] size_t word_length(std::string_view text);

// Returns the length of the unsigned number at the beginning of `text` in bytes, 0 if there is none.
[[nodiscard]] size_t number_length(std::string_view text);

// Returns `text` between `quote`s, with the escapes that read_graph_text decodes.
[[nodiscard]] std::string quoted_text(std::string_view text, char quote);

// Returns a path or name, between backquotes if needed. operand_text also quotes numbers and reserved words, because
// the reader would not read them as a name.
[[nodiscard]] std::string path_text(std::string_view path);
[[nodiscard]] std::string operand_text(std::string_view path);

// True for floating-point and complex dtypes.
[[nodiscard]] bool has_gradients(std::string_view dtype);

// True if a parameter or buffer of the graph has the shape, dtype and requires_grad of the model, so that its path
// identifies it completely.
[[nodiscard]] bool is_as_in_model(const ModelGraph& model, LeafKind kind, std::string_view path,
                                  std::span<const int64_t> shape, std::string_view dtype, bool requires_grad);

}  // namespace tpplan
