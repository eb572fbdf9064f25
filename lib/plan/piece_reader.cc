#include "plan/piece_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

// Up to `end`, which may lie behind the text.
std::string take_until(PieceReader& in, size_t end) {
  std::string taken = in.file.text.substr(in.at, end - in.at);
  in.at += taken.size();
  return taken;
}

// Each is kept by itself, several times: as many as a plan may have values.
std::string take_comment(PieceReader& in) {
  constexpr size_t kMaxComments = YamlLimits{}.nodes;
  if (in.comments.size() == kMaxComments)
    refuse(in, fmt::format("the formatter keeps {} comments at most, and the file has more", kMaxComments),
           "the file is left as it is");
  return in.comments.emplace_back(take_line(in));
}

}  // namespace

void refuse(PieceReader& in, std::string message, std::string help) {
  const Span span{in.file.id, std::min(in.at, in.file.text.size()), 1};
  report_message(in.diagnostics, Code::TP1011, span, std::move(message), std::move(help));
  throw Refused{};
}

void refuse_unexpected(PieceReader& in) {
  const std::string_view line = line_at(in.file, in.at);
  const std::string_view rest = line.substr(std::min(column_of(in), line.size()), 20);
  refuse(in, fmt::format("the formatter does not know how to keep what stands here: `{}`", rest),
         "write it on one line, with quotes around texts and brackets around lists; the file is left as it is");
}

char peek(const PieceReader& in, size_t ahead) {
  return in.at + ahead < in.file.text.size() ? in.file.text[in.at + ahead] : '\0';
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0'; }

size_t column_of(const PieceReader& in) {
  const size_t line = in.at == 0 ? std::string::npos : in.file.text.rfind('\n', in.at - 1);
  return in.at - (line == std::string::npos ? 0 : line + 1);
}

std::string take_line(PieceReader& in) {
  std::string line = take_until(in, in.file.text.find('\n', in.at));
  line.erase(line.find_last_not_of(" \t\r") + 1);
  return line;
}

std::string take_word(PieceReader& in) { return take_until(in, in.file.text.find_first_of(" \t\r\n,[]{}", in.at)); }

// Two line breaks or more without a comment between them are one blank line, however many there were; `breaks` counts
// since the last token or comment.
Gap take_gap(PieceReader& in, std::string_view separators) {
  Gap gap;
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
        gap.beside_space = std::max<size_t>(space, 2);
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

void no_properties(PieceReader& in, const Gap& gap) {
  if (gap.properties.empty()) return;
  refuse(in, fmt::format("the formatter does not know what `{}` belongs to", gap.properties),
         "write it behind the colon, on the line of the key");
}

}  // namespace tpplan
