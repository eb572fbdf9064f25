#include "resolve/match/glob.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr size_t kNoEnd = std::string_view::npos;

// Returns the first character of a text; an invalid UTF-8 byte counts as a character.
std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<size_t>(1, utf8_length(text.substr(0, 4))));
}

// Returns the index of the `]` that closes the class opened at `open`, or npos if it is unclosed. A `]` directly after
// `[` or `[!` belongs to the class.
size_t closing_bracket(std::string_view glob, size_t open) {
  size_t i = open + 1;
  if (i < glob.size() && glob[i] == '!') ++i;
  if (i < glob.size() && glob[i] == ']') ++i;
  return glob.find(']', i);
}

// Parses the text of a class between its brackets. A descending range is empty.
GlobClass parse_class(std::string_view members) {
  GlobClass parsed{.ranges = {}, .negated = members.starts_with('!')};
  if (parsed.negated) members.remove_prefix(1);
  std::vector<char32_t> points;
  while (!members.empty()) {
    const std::string_view character = first_character(members);
    points.push_back(code_point(character));
    members.remove_prefix(character.size());
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const bool is_range = i + 2 < points.size() && points[i + 1] == U'-';
    if (!is_range || points[i] <= points[i + 2]) parsed.ranges.emplace_back(points[i], points[is_range ? i + 2 : i]);
    if (is_range) i += 2;
  }
  return parsed;
}

bool is_in_class(const GlobClass& one, std::string_view character) {
  const char32_t point = code_point(character);
  const bool found = std::any_of(one.ranges.begin(), one.ranges.end(),
                                 [point](const auto& range) { return range.first <= point && point <= range.second; });
  return found != one.negated;
}

// Returns the end of the token if it matches at `at`, else kNoEnd.
size_t end_of_token(const GlobToken& token, std::string_view text, size_t at) {
  for (size_t i = 0; i < token.texts.size(); ++i) {
    if (i > 0) {
      if (at >= text.size()) return kNoEnd;
      const std::string_view character = first_character(text.substr(at));
      if (!is_in_class(token.classes[i - 1], character)) return kNoEnd;
      at += character.size();
    }
    if (text.compare(at, token.texts[i].size(), token.texts[i]) != 0) return kNoEnd;
    at += token.texts[i].size();
  }
  return at;
}

// Returns the end of the token's first match at or after `at`, or kNoEnd. memmem needs linear time in both texts.
size_t find_token(const GlobToken& token, std::string_view text, size_t at) {
  const std::string& first = token.texts[0];
  while (at <= text.size()) {
    if (!first.empty()) {
      const void* found = first.size() == 1 ? std::memchr(text.data() + at, first[0], text.size() - at)
                                            : memmem(text.data() + at, text.size() - at, first.data(), first.size());
      if (found == nullptr) return kNoEnd;
      at = static_cast<size_t>(static_cast<const char*>(found) - text.data());
      if (token.classes.empty()) return at + first.size();
    }
    if (const size_t end = end_of_token(token, text, at); end != kNoEnd) return end;
    at += at < text.size() ? first_character(text.substr(at)).size() : 1;
  }
  return kNoEnd;
}

// True if the token matches at the end of `text`, starting at or after `from`. Compares backward, because the token's
// length is known in characters and not in bytes.
bool ends_with_token(const GlobToken& token, std::string_view text, size_t from) {
  size_t at = text.size();
  for (size_t i = token.texts.size(); i-- > 0;) {
    const std::string& literal = token.texts[i];
    if (at < from + literal.size() || text.compare(at - literal.size(), literal.size(), literal) != 0) return false;
    at -= literal.size();
    if (i == 0) return true;
    if (at <= from) return false;
    size_t begin = at - 1;
    while (begin > from && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0u) == 0x80u) --begin;
    if (first_character(text.substr(begin, at - begin)).size() != at - begin) begin = at - 1;
    if (!is_in_class(token.classes[i - 1], text.substr(begin, at - begin))) return false;
    at = begin;
  }
  return true;
}

}  // namespace

Glob parse_glob(std::string_view glob) {
  Glob parsed{.tokens = {GlobToken{}}};
  for (size_t i = 0; i < glob.size(); ++i) {
    GlobToken& token = parsed.tokens.back();
    const size_t end = glob[i] == '[' ? closing_bracket(glob, i) : std::string_view::npos;
    if (glob[i] == '*') {
      if (i == 0 || glob[i - 1] != '*' || parsed.tokens.size() == 1) parsed.tokens.emplace_back();
      continue;
    }
    if (glob[i] != '?' && end == std::string_view::npos) {
      token.texts.back() += glob[i];
      continue;
    }
    token.classes.push_back(glob[i] == '?' ? GlobClass{.ranges = {}, .negated = true}
                                           : parse_class(glob.substr(i + 1, end - i - 1)));
    token.texts.emplace_back();
    if (glob[i] == '[') i = end;
  }
  return parsed;
}

std::string glob_of_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '*' || c == '?' || c == '[')
      out.append({'[', c, ']'});
    else
      out += c;
  }
  return out;
}

std::string name_of_glob(std::string_view glob) {
  std::string out;
  for (size_t i = 0; i < glob.size(); ++i) {
    const bool is_class = glob[i] == '[' && i + 2 < glob.size() && glob[i + 2] == ']';
    out += glob[is_class ? i + 1 : i];
    i += is_class ? 2 : 0;
  }
  return out;
}

// The earliest match of a token leaves the longest rest for the following tokens, so no backtracking is needed.
bool matches_glob(const Glob& glob, std::string_view text) {
  if (!text.ends_with(glob.tokens.back().texts.back())) return false;  // rejects most paths cheaply
  size_t at = end_of_token(glob.tokens[0], text, 0);
  if (glob.tokens.size() == 1 || at == kNoEnd) return at == text.size();
  for (size_t i = 1; i + 1 < glob.tokens.size(); ++i) {
    at = find_token(glob.tokens[i], text, at);
    if (at == kNoEnd) return false;
  }
  return ends_with_token(glob.tokens.back(), text, at);
}

}  // namespace tpplan
