#include "plan/syntax_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

// Consumes text up to `end`, which can be after its end.
std::string take_until(SyntaxReader& in, size_t end) {
  std::string taken = in.file.text.substr(in.at, end - in.at);
  in.at += taken.size();
  return taken;
}

// Consumes a comment. Their number is limited, because each is stored several times.
std::string take_comment(SyntaxReader& in) {
  constexpr size_t kMaxComments = YamlLimits{}.nodes;
  if (in.comments.size() == kMaxComments)
    reject(in, fmt::format("the file has more than {} comments, the limit of the formatter", kMaxComments),
           "remove comments; the file is unchanged");
  return in.comments.emplace_back(take_line(in));
}

}  // namespace

void reject(SyntaxReader& in, std::string message, std::string help) {
  const Span span{in.file.id, std::min(in.at, in.file.text.size()), 1};
  report_message(in.diagnostics, Code::UnsupportedYaml, span, std::move(message), std::move(help));
  throw RejectedSyntax{};
}

void reject_unexpected(SyntaxReader& in) {
  const std::string_view line = line_at(in.file, in.at);
  const std::string_view rest = line.substr(std::min(column_of(in), line.size()), 20);
  reject(in, fmt::format("the formatter does not support this syntax: `{}`", rest),
         "write it on one line, with quotes around texts and brackets around lists; the file is unchanged");
}

char peek(const SyntaxReader& in, size_t ahead) {
  return in.at + ahead < in.file.text.size() ? in.file.text[in.at + ahead] : '\0';
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0'; }

size_t column_of(const SyntaxReader& in) {
  const size_t line = in.at == 0 ? std::string::npos : in.file.text.rfind('\n', in.at - 1);
  return in.at - (line == std::string::npos ? 0 : line + 1);
}

std::string take_line(SyntaxReader& in) {
  std::string line = take_until(in, in.file.text.find('\n', in.at));
  line.erase(line.find_last_not_of(" \t\r") + 1);
  return line;
}

std::string take_word(SyntaxReader& in) { return take_until(in, in.file.text.find_first_of(" \t\r\n,[]{}", in.at)); }

// Two or more line breaks without a comment in between are one blank line; `breaks` counts since the last token or
// comment.
Trivia take_trivia(SyntaxReader& in, std::string_view separators) {
  Trivia gap;
  size_t breaks = 0, token_end = in.at;
  bool is_first_line = in.at > 0;
  const auto blank = [&] {
    if (breaks >= 2 && (gap.lines.empty() || !gap.lines.back().text.empty())) gap.lines.push_back({});
  };
  for (char c = peek(in); in.at < in.file.text.size(); c = peek(in)) {
    if (c == '\n') {
      ++breaks;
      is_first_line = false;
      ++in.at;
    } else if (is_blank(c)) {
      ++in.at;
    } else if (c == '#') {
      const size_t column = column_of(in), space = in.at - token_end;
      if (is_first_line) {
        gap.space_before_comment = std::max<size_t>(space, 2);
        gap.beside = take_comment(in);
      } else {
        blank();
        gap.lines.push_back({take_comment(in), column});
      }
      breaks = 0;
    } else if (c == '&' || c == '!') {
      gap.properties += (gap.properties.empty() ? "" : " ") + take_word(in);
      token_end = in.at;
      breaks = 0;
    } else if (separators.find(c) != std::string_view::npos) {
      token_end = ++in.at;
      breaks = 0;
    } else {
      break;
    }
  }
  blank();
  return gap;
}

void reject_properties(SyntaxReader& in, const Trivia& gap) {
  if (gap.properties.empty()) return;
  reject(in, fmt::format("the formatter cannot tell what `{}` belongs to", gap.properties),
         "write it after the colon, on the line of the key");
}

}  // namespace tpplan
