// The state of the reader of the graph notation: the current line, and the values that its names are bound to.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/keyed_hash.h"
#include "diagnostics/diagnostics.h"
#include "model/graph_tokens.h"
#include "model/model_graph.h"

namespace tpplan {

// A binding of a name; `depth` counts the enclosing modules.
struct BoundName {
  size_t depth = 0;
  ValueId value = 0;
};

// A module whose end has not been read yet.
struct OpenFrame {
  StringId path = 0;
  size_t indent = 0;       // of its `with`
  size_t body_indent = 0;  // of its lines; 0 before the first
  bool has_returned = false;
  bool no_grad = false;
  uint32_t offset = 0;                  // of its first `return`, or of its `with`
  std::vector<std::string_view> names;  // bound in it
  std::vector<Crossing> results;
  TextMap<std::string_view, ValueId> nonlocals, returned;  // to bind in the enclosing module
};

struct TextReader {
  ModelGraph& model;
  OpGraph& graph;
  Diagnostics& diagnostics;
  GraphLineTokens line{};
  size_t at = 0;  // the next token
  bool failed = false;

  TextMap<std::string_view, StringId> string_ids{};
  std::map<std::vector<int64_t>, uint32_t> shape_ids{};
  std::map<std::tuple<SizeOp, bool, int64_t, bool, int64_t>, uint32_t> size_ids{};
  TextMap<std::string_view, std::vector<BoundName>> values{};
  TextMap<std::string_view, ValueId> leaves{};  // by path
  TextMap<std::string_view, SizeOperand> sizes{};
  std::vector<OpenFrame> frames{};
};

// ---- tokens ----

[[nodiscard]] const GraphToken& next_token(const TextReader& reader);
[[nodiscard]] const GraphToken& token_after(const TextReader& reader, size_t count = 1);
[[nodiscard]] bool is_sign(const GraphToken& token, std::string_view sign);
[[nodiscard]] bool is_word(const GraphToken& token, std::string_view word);
// True if the token is an integer of 64 bits, without a point or exponent.
[[nodiscard]] bool is_integer(const GraphToken& token, int64_t& number);
// Skips the sign and returns true if it is the next token.
[[nodiscard]] bool take_sign(TextReader& reader, std::string_view sign);
[[nodiscard]] bool expect_sign(TextReader& reader, std::string_view sign, std::string_view where);

// Returns the offset in the file of the first token of the line.
[[nodiscard]] uint32_t statement_offset(const TextReader& reader);

// Reports TP2016 at `token`, unless an error of this graph was reported before. Returns false.
[[nodiscard]] bool text_error(TextReader& reader, const GraphToken& token, std::string message, std::string help);

// Returns false and reports an error if the graph has `kMaxGraphEntries` entries of a kind.
[[nodiscard]] bool has_text_capacity(TextReader& reader, size_t count);

// ---- names ----

[[nodiscard]] StringId intern_string(TextReader& reader, std::string_view text);
[[nodiscard]] uint32_t intern_shape(TextReader& reader, const std::vector<int64_t>& shape);
[[nodiscard]] ValueId add_value(TextReader& reader, std::span<const int64_t> shape, std::string_view dtype,
                                bool requires_grad);

// Appends to OpGraph::leaves; an input or constant may have no path.
[[nodiscard]] bool add_text_leaf(TextReader& reader, LeafKind kind, std::string_view path, ValueId value,
                                 uint32_t offset);

// Binds a name in the innermost module.
void bind_value(TextReader& reader, std::string_view name, ValueId value);

// Finds the value of a name: a value that a line above bound, or a parameter or buffer by its path.
[[nodiscard]] bool find_value(TextReader& reader, const GraphToken& token, std::string_view name, ValueId& value);

// ---- arguments ----

// Reads an argument and appends it to OpGraph::args, followed by its parts.
[[nodiscard]] bool read_text_arg(TextReader& reader);

// Reads an index up to `]` and appends it as a tuple; slices are written `begin:end:step`. @pre `[` was read.
[[nodiscard]] bool read_text_index(TextReader& reader);

// Reads a size: a number, `x.shape[1]`, the name of a size, or an operation on sizes.
[[nodiscard]] bool read_text_size(TextReader& reader, SizeOperand& size);

}  // namespace tpplan
