#include "text/yaml_words.h"

#include <algorithm>

namespace tpplan {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kFlow = ",[]{}";

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// Returns the position after the closing quote, or npos if the line has none.
size_t quote_end(std::string_view line, size_t at) {
  const char quote = line[at];
  for (size_t i = at + 1; i < line.size(); ++i) {
    if (quote == '"' && line[i] == '\\')
      ++i;
    else if (quote == '\'' && line[i] == quote && i + 1 < line.size() && line[i + 1] == quote)
      ++i;
    else if (line[i] == quote)
      return i + 1;
  }
  return std::string_view::npos;
}

bool ends_key(std::string_view line, size_t colon, size_t depth) {
  return colon + 1 == line.size() || is_one_of(line[colon + 1], kBlanks) ||
         (depth > 0 && is_one_of(line[colon + 1], kFlow));
}

size_t plain_end(std::string_view line, size_t at, size_t depth) {
  size_t end = at;
  for (size_t i = at; i < line.size(); ++i) {
    if (line[i] == ':' && ends_key(line, i, depth)) break;
    if (line[i] == '#' && i > at && is_one_of(line[i - 1], kBlanks)) break;
    if (depth > 0 && is_one_of(line[i], kFlow)) break;
    if (!is_one_of(line[i], kBlanks)) end = i + 1;
  }
  return std::max(end, at + 1);
}

}  // namespace

YamlLine read_yaml_line(std::string_view text, size_t begin, size_t number, size_t depth) {
  YamlLine result{.begin = begin, .end = std::min(text.find('\n', begin), text.size()), .number = number, .words = {}};
  if (result.end > begin && text[result.end - 1] == '\r') --result.end;
  const std::string_view line = text.substr(begin, result.end - begin);
  size_t at = std::min(line.find_first_not_of(kBlanks), line.size());
  result.indent = at;
  result.has_tab = line.substr(0, at).find('\t') != std::string_view::npos;
  const auto add = [&](YamlWordKind kind, size_t end) {
    result.words.push_back({kind, begin + at, begin + end});
    at = end;
  };
  while (at < line.size()) {
    const char c = line[at];
    const bool after_quoted = !result.words.empty() && result.words.back().kind == YamlWordKind::Quoted;
    if (is_one_of(c, kBlanks)) {
      ++at;
    } else if (c == '#' && (at == 0 || is_one_of(line[at - 1], kBlanks))) {
      break;
    } else if (c == '"' || c == '\'') {
      const size_t end = quote_end(line, at);
      add(end == std::string_view::npos ? YamlWordKind::OpenQuote : YamlWordKind::Quoted, std::min(end, line.size()));
    } else if (c == ':' && (after_quoted || ends_key(line, at, depth))) {
      const bool glued = depth == 0 && !ends_key(line, at, depth);
      add(glued ? YamlWordKind::GluedColon : YamlWordKind::Colon, at + 1);
    } else if (c == '[' || c == '{') {
      ++depth;
      add(YamlWordKind::Open, at + 1);
    } else if (c == ']' || c == '}') {
      depth -= depth > 0;
      add(YamlWordKind::Close, at + 1);
    } else if (c == ',' && depth > 0) {
      add(YamlWordKind::Comma, at + 1);
    } else if (c == '-' && depth == 0 && result.words.empty() && at + 1 < line.size() &&
               is_one_of(line[at + 1], kBlanks)) {
      add(YamlWordKind::Dash, at + 1);
    } else {
      add(YamlWordKind::Plain, plain_end(line, at, depth));
    }
  }
  return result;
}

}  // namespace tpplan
