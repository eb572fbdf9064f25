#include "model/graph_tokens.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "model/graph_words.h"

namespace tpplan {
namespace {

// Longer signs first: the first match is used.
constexpr std::string_view kTokenSigns[] = {"...", "->", "//", "**", "<=", ">=", "==", "!=", "(", ")", "[", "]",
                                            ",",   ":",  "=",  "+",  "-",  "*",  "/",  "%",  "<", ">", "@", "."};

std::string_view find_sign_at(std::string_view text) {
  const auto* const sign = std::find_if(std::begin(kTokenSigns), std::end(kTokenSigns),
                                        [text](std::string_view s) { return text.starts_with(s); });
  return sign == std::end(kTokenSigns) ? std::string_view{} : *sign;
}

// True if the last token ends an operand, so that a minus after it subtracts.
bool ends_operand(const std::vector<GraphToken>& tokens) {
  if (tokens.empty()) return false;
  const GraphToken& last = tokens.back();
  if (last.kind == GraphTokenKind::Word && (last.text == "assert" || last.text == "not")) return false;
  return last.kind != GraphTokenKind::Sign || last.text == ")" || last.text == "]";
}

void append_point(std::string& out, uint32_t point) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80u | (point >> shift & 0x3fu)); };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xc0u | point >> 6);
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xe0u | point >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0u | point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::optional<uint32_t> hex_number(std::string_view digits, uint32_t most) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  const bool is_integer = !digits.empty() && error == std::errc() && end == digits.data() + digits.size();
  return is_integer && number <= most ? std::optional(number) : std::nullopt;
}

// Decodes the escape at the beginning of `text` into `out`. Returns its length; 0 if it is invalid.
size_t read_escape(std::string_view text, std::string& out) {
  constexpr std::pair<char, char> kLetters[] = {{'\\', '\\'}, {'\'', '\''}, {'`', '`'},
                                                {'n', '\n'},  {'t', '\t'},  {'r', '\r'}};
  if (text.size() < 2) return 0;
  for (const auto& [letter, character] : kLetters) {
    if (text[1] != letter) continue;
    out += character;
    return 2;
  }
  if (text[1] == 'x') {
    const std::optional<uint32_t> point = text.size() < 4 ? std::nullopt : hex_number(text.substr(2, 2), 0x7f);
    if (!point) return 0;
    append_point(out, *point);
    return 4;
  }
  const size_t end = text.substr(0, 10).find('}');
  if (!text.starts_with("\\u{") || end == std::string_view::npos) return 0;
  const std::optional<uint32_t> point = hex_number(text.substr(3, end - 3), 0x10ffff);
  if (!point || (*point >= 0xd800 && *point < 0xe000)) return 0;
  append_point(out, *point);
  return end + 1;
}

struct Splitter {
  const GraphLine& line;
  std::deque<std::string>& strings;
  GraphLineTokens& result;
  size_t at = 0;
};

bool add_token(Splitter& s, GraphTokenKind kind, std::string_view text, size_t length) {
  s.result.tokens.push_back({.kind = kind,
                             .text = text,
                             .offset = s.line.offset + (s.line.is_escaped ? 0 : s.at),
                             .length = static_cast<uint32_t>(s.line.is_escaped ? 1 : std::max<size_t>(1, length))});
  s.at += length;
  return true;
}

bool reject(Splitter& s, size_t at, std::string error, std::string help) {
  s.at = at;
  add_token(s, GraphTokenKind::End, {}, 0);
  s.result.error = std::move(error);
  s.result.help = std::move(help);
  return false;
}

bool read_quoted(Splitter& s) {
  const std::string_view text = s.line.text;
  const char quote = text[s.at];
  std::string decoded;
  bool has_escapes = false;
  size_t at = s.at + 1;
  while (at < text.size() && text[at] != quote) {
    if (text[at] != '\\') {
      decoded += text[at++];
      continue;
    }
    const size_t length = read_escape(text.substr(at), decoded);
    if (length == 0)
      return reject(s, at, "invalid escape", R"(valid escapes are \\, \', \`, \n, \t, \r, \x1f and \u{200b})");
    has_escapes = true;
    at += length;
  }
  if (at == text.size()) return reject(s, s.at, "the quote is not closed", fmt::format("close it with {}", quote));
  const std::string_view raw = text.substr(s.at + 1, at - s.at - 1);
  return add_token(s, quote == '\'' ? GraphTokenKind::Text : GraphTokenKind::Name,
                   has_escapes ? std::string_view(s.strings.emplace_back(std::move(decoded))) : raw, at + 1 - s.at);
}

bool read_token(Splitter& s) {
  const std::string_view rest = s.line.text.substr(s.at);
  if (rest[0] == '\'' || rest[0] == '`') return read_quoted(s);
  const size_t minus = rest[0] == '-' && !ends_operand(s.result.tokens) ? 1 : 0;
  const size_t word = word_length(rest), number = number_length(rest.substr(minus));
  const bool is_infinite = minus == 1 && word_length(rest.substr(1)) == 3 && rest.substr(1, 3) == "inf";
  if (is_infinite) return add_token(s, GraphTokenKind::Word, rest.substr(0, 4), 4);
  if (number > 0 && number >= word)
    return add_token(s, GraphTokenKind::Number, rest.substr(0, minus + number), minus + number);
  if (word > 0) return add_token(s, GraphTokenKind::Word, rest.substr(0, word), word);
  const std::string_view sign = find_sign_at(rest);
  if (sign.empty())
    return reject(s, s.at, "unexpected character", "write a path with such characters between backquotes");
  return add_token(s, GraphTokenKind::Sign, sign, sign.size());
}

}  // namespace

void read_tokens(const GraphLine& line, std::deque<std::string>& strings, GraphLineTokens& result) {
  result.tokens.clear();
  result.error.clear();
  Splitter s{.line = line, .strings = strings, .result = result};
  result.indent = std::min(line.text.find_first_not_of(' '), line.text.size());
  for (s.at = result.indent; s.at < line.text.size() && line.text[s.at] != '#';) {
    if (line.text[s.at] == ' ')
      ++s.at;
    else if (!read_token(s))
      return;
  }
  add_token(s, GraphTokenKind::End, {}, 0);
}

}  // namespace tpplan
