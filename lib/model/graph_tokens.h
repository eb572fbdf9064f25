// The tokens of one line of the graph notation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// A line of the model file. `offset` is the offset of its first byte. If the line contains JSON escapes, the offsets of
// its tokens are unknown.
struct GraphLine {
  std::string_view text;
  uint64_t offset = 0;
  bool is_escaped = false;
};

// Word: names between dots or slashes. Name: text between backquotes. Text: text between single quotes.
enum class GraphTokenKind : uint8_t { End, Word, Name, Text, Number, Sign };

struct GraphToken {
  GraphTokenKind kind = GraphTokenKind::End;
  std::string_view text;  // without quotes and escapes
  uint64_t offset = 0;    // in the file
  uint32_t length = 1;
};

struct GraphLineTokens {
  size_t indent = 0;
  std::vector<GraphToken> tokens;  // the last one is End
  std::string error, help;         // about the last token; empty if the line is valid
};

// Splits a line into tokens without its comment. Decoded text is stored in `strings`.
void read_tokens(const GraphLine& line, std::deque<std::string>& strings, GraphLineTokens& result);

}  // namespace tpplan
