#include "render/render.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "render/render_parts.h"

namespace tpplan {
namespace {

constexpr std::string_view kReset = "\x1b[0m", kBold = "\x1b[1m", kRed = "\x1b[1;31m", kYellow = "\x1b[1;33m",
                           kBlue = "\x1b[1;34m", kGreen = "\x1b[1;32m";

std::string paint(std::string_view text, std::string_view color, bool enabled) {
  return enabled ? fmt::format("{}{}{}", color, text, kReset) : std::string(text);
}

// The part of a long line around the span: what lies outside becomes "...". Tabs become single spaces, so that the
// carets stand where they point.
struct Window {
  std::string text;
  size_t caret_column;
  size_t caret_length;
};

Window window_of(std::string_view line, size_t begin, size_t length, size_t width) {
  begin = std::min(begin, line.size());
  length = std::min(std::max<size_t>(length, 1), line.size() - begin);
  size_t from = 0, to = line.size();
  if (line.size() > width) {
    length = std::min(length, width / 2);
    from = begin > width / 3 ? begin - width / 3 : 0;
    to = std::min(line.size(), from + width);
    while (from > 0 && (line[from] & 0xc0) == 0x80) --from;
    while (to < line.size() && (line[to] & 0xc0) == 0x80) ++to;
  }
  const auto shown = [&](std::string_view part) {
    std::string text(part);
    std::replace(text.begin(), text.end(), '\t', ' ');
    return escape_for_terminal(text);
  };
  const std::string lead = (from > 0 ? "..." : "") + shown(line.substr(from, begin - from));
  const std::string marked = shown(line.substr(begin, length));
  const std::string rest = shown(line.substr(begin + length, to > begin + length ? to - begin - length : 0));
  return {lead + marked + rest + (to < line.size() ? "..." : ""), count_code_points(lead),
          std::max<size_t>(1, count_code_points(marked))};
}

void render_excerpt(std::string& out, const Diagnostic& d, const Sources& sources, const RenderOptions& options) {
  const Place place = place_of(d.span, sources);
  if (place.file == nullptr || place.file->text.empty() || d.span.length == 0) return;  // nothing to show
  const std::string number = std::to_string(place.line);
  const size_t room = options.width > number.size() + 8 ? options.width - number.size() - 8 : 20;
  const Window window = window_of(line_at(*place.file, d.span.offset), place.columns.begin - 1, d.span.length, room);
  const std::string margin(number.size(), ' ');
  const std::string_view color = d.severity == Severity::Error ? kRed : kYellow;
  const std::string bar = paint("|", kBlue, options.color);
  out += fmt::format("{} {}\n", margin, bar);
  out += fmt::format("{} {} {}\n", paint(number, kBlue, options.color), bar, window.text);
  const std::string label = d.label.empty() ? "" : " " + escape_for_terminal(d.label);
  out += fmt::format("{} {} {}{}\n", margin, bar, std::string(window.caret_column, ' '),
                     paint(std::string(window.caret_length, '^') + label, color, options.color));
}

// `  = note: text`, wrapped at spaces to the width with the text of each line below the first.
void render_remark(std::string& out, const Remark& remark, const RenderOptions& options) {
  const std::string indent(remark.kind.size() + 6, ' ');
  const std::string_view color = remark.kind == "help" ? kGreen : kBold;
  out += fmt::format("  {} {}: ", paint("=", kBlue, options.color), paint(remark.kind, color, options.color));
  size_t column = indent.size();
  bool first = true;
  for (const std::string_view word : split(remark.text, ' ')) {
    const std::string shown = escape_for_terminal(word);
    const size_t length = count_code_points(shown);
    if (!first && column + 1 + length > options.width) {
      out += "\n" + indent;
      column = indent.size();
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += shown;
    column += length;
    first = false;
  }
  out += '\n';
}

void render_one(std::string& out, const Diagnostic& d, const Sources& sources, const RenderOptions& options) {
  const std::string_view color = d.severity == Severity::Error ? kRed : kYellow;
  const std::string head = fmt::format("{}[{}]", severity_name(d.severity), kind_of(d.code).name);
  out += fmt::format("{}: {}: {}\n", paint(place_text(d.span, sources), kBold, options.color),
                     paint(head, color, options.color), paint(escape_for_terminal(d.message), kBold, options.color));
  render_excerpt(out, d, sources, options);
  for (const Remark& remark : remarks_of(d, sources)) render_remark(out, remark, options);
}

void append_place(std::string& out, const Span& span, const Sources& sources) {
  const Place place = place_of(span, sources);
  if (place.file == nullptr) {
    out += "null";
    return;
  }
  out += "{\"file\": ";
  append_json_text(out, place.file->name);
  out += fmt::format(", \"line\": {}, \"column\": {}, \"end_column\": {}}}", place.line, place.columns.begin,
                     place.columns.end);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += fmt::format(", \"{}\": ", name);
  append_json_text(out, value);
}

// One finding as a JSON object on one line.
void append_finding(std::string& out, const Diagnostic& d, const Sources& sources) {
  out += fmt::format("{{\"code\": \"{}\"", kind_of(d.code).name);
  append_field(out, "severity", severity_name(d.severity));
  append_field(out, "title", kind_of(d.code).title);
  append_field(out, "message", d.message);
  if (!d.label.empty()) append_field(out, "label", d.label);
  out += ", \"place\": ";
  append_place(out, d.span, sources);
  out += fmt::format(", \"count\": {}", d.count);
  if (d.unlisted > 0) out += fmt::format(", \"unlisted\": {}", d.unlisted);
  out += ", \"notes\": [";
  for (const Note& note : d.notes) {
    out += &note == d.notes.data() ? "{\"text\": " : ", {\"text\": ";
    append_json_text(out, note.text);
    out += ", \"place\": ";
    append_place(out, note.span, sources);
    out += "}";
  }
  out += "]";
  if (!d.help.empty()) append_field(out, "help", d.help);
  out += "}";
}

}  // namespace

std::string render_human(const Diagnostics& diagnostics, const Sources& sources, const RenderOptions& options) {
  const Sources located = locate(diagnostics, sources);
  std::string out;
  for (const Diagnostic& d : diagnostics.list) render_one(out, d, located, options);
  return out;
}

std::string render_json(const Diagnostics& diagnostics, const Sources& sources) {
  const Sources located = locate(diagnostics, sources);
  const FindingCounts counts = counts_of(diagnostics);
  std::string out = fmt::format("{{\"format\": \"tpplan.diagnostics/1\", \"errors\": {}, \"warnings\": {}, ",
                                counts.errors, counts.warnings);
  out += "\"diagnostics\": [";
  for (const Diagnostic& d : diagnostics.list) {
    out += &d == diagnostics.list.data() ? "\n " : ",\n ";
    append_finding(out, d, located);
  }
  return out + (diagnostics.list.empty() ? "]}\n" : "\n]}\n");
}

std::string render_jsonl(const Diagnostics& diagnostics, const Sources& sources) {
  const Sources located = locate(diagnostics, sources);
  std::string out;
  for (const Diagnostic& d : diagnostics.list) {
    append_finding(out, d, located);
    out += '\n';
  }
  return out;
}

std::string count_findings(const Diagnostics& diagnostics) { return to_text(counts_of(diagnostics)); }

}  // namespace tpplan
