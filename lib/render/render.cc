#include "render/render.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "diagnostics/text_edits.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

// The visible part of a long line around the span; "..." replaces the rest. A tab becomes one space, so that the carets
// line up.
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

// Appends the source line with carets and the label. Appends nothing for a diagnostic of a complete file, which has no
// length, or of a file that could not be read.
void render_excerpt(std::string& out, const Diagnostic& d, const Sources& sources, const RenderOptions& options) {
  const Place place = place_of(d.span, sources);
  if (place.file == nullptr || place.file->text.empty() || d.span.length == 0) return;
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

// Appends `  = note: text`, wrapped to the width. Further lines are indented to the text of the first.
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
  const std::string head = fmt::format("{}[{}]", severity_name(d.severity), kind_of(d.code).id);
  out += fmt::format("{}: {}: {}\n", paint(place_text(d.span, sources), kBold, options.color),
                     paint(head, color, options.color), paint(escape_for_terminal(d.message), kBold, options.color));
  render_excerpt(out, d, sources, options);
  for (const Remark& remark : remarks_of(d, sources)) render_remark(out, remark, options);
}

void write_place(JsonWriter& json, const Span& span, const Sources& sources) {
  const Place place = place_of(span, sources);
  if (place.file == nullptr) return write_value(json, nullptr);
  begin_object(json);
  write_field(json, "file", place.file->name);
  write_field(json, "line", place.line);
  write_field(json, "column", place.columns.begin);
  write_field(json, "end_column", place.columns.end);
  end_object(json);
}

// Writes the edits that apply the help, as byte offsets of their file.
void write_fixes(JsonWriter& json, const Diagnostic& d, const Sources& sources) {
  const SourceFile* file = d.edits.empty() ? nullptr : find_file(sources, d.edits[0].span.file);
  if (file == nullptr) return;
  const std::vector<TextEdit> edits = text_edits(*file, d);
  if (edits.empty()) return;
  write_key(json, "fixes");
  begin_array(json);
  begin_object(json);
  write_field(json, "applicability", kind_of(d.code).has_exact_fix ? "sure" : "likely");
  write_key(json, "edits");
  write_edits(json, *file, edits);
  end_object(json);
  end_array(json);
}

// Writes one diagnostic as a JSON object on one line.
void write_diagnostic(JsonWriter& json, const Diagnostic& d, const Sources& sources) {
  begin_object(json);
  write_field(json, "code", kind_of(d.code).id);
  write_field(json, "name", kind_of(d.code).name);
  write_field(json, "severity", severity_name(d.severity));
  write_field(json, "title", kind_of(d.code).title);
  write_field(json, "message", d.message);
  if (!d.label.empty()) write_field(json, "label", d.label);
  write_key(json, "place");
  write_place(json, d.span, sources);
  write_field(json, "count", d.count);
  if (d.unlisted > 0) write_field(json, "unlisted", d.unlisted);
  write_key(json, "notes");
  write_array(json, d.notes, [&](const Note& note) {
    begin_object(json);
    write_field(json, "text", note.text);
    write_key(json, "place");
    write_place(json, note.span, sources);
    end_object(json);
  });
  if (!d.help.empty()) write_field(json, "help", d.help);
  if (!d.module.empty()) write_field(json, "module", d.module);
  if (!d.parameter.empty()) write_field(json, "parameter", d.parameter);
  if (d.fails != FirstFailure::None) write_field(json, "fails", to_text(d.fails));
  write_fixes(json, d, sources);
  end_object(json);
}

std::string failed_at(const Fault& fault) { return fmt::format("rank {} failed at {}", fault.rank, fault.step); }

}  // namespace

void write_edits(JsonWriter& json, const SourceFile& file, std::span<const TextEdit> edits) {
  write_array(json, edits, [&](const TextEdit& edit) {
    const LineColumn begin = line_column(file, edit.offset), end = line_column(file, edit.offset + edit.length);
    begin_object(json);
    write_field(json, "file", file.name);
    write_field(json, "line", begin.line);
    write_field(json, "column", begin.column);
    write_field(json, "end_line", end.line);
    write_field(json, "end_column", end.column);
    write_field(json, "text", edit.text);
    end_object(json);
  });
}

std::string render_human(const Diagnostics& diagnostics, const Sources& sources, const RenderOptions& options) {
  const Sources located = locate(diagnostics, sources);
  std::string out;
  for (const Diagnostic& d : diagnostics.list) render_one(out, d, located, options);
  return out;
}

std::string render_human(const Fault& fault, std::string_view place, const RenderOptions& options) {
  const DiagnosticKind& kind = kind_of(fault.code);
  const std::string shown = escape_for_terminal(fault.place.empty() ? place : fault.place);
  const std::string head = fmt::format("{}[{}]", severity_name(kind.severity), kind.id);
  std::string out = fmt::format("{}: {}: {}\n", paint(shown, kBold, options.color),
                                paint(head, kind.severity == Severity::Error ? kRed : kYellow, options.color),
                                paint(escape_for_terminal(fault.message), kBold, options.color));
  if (!fault.step.empty()) render_remark(out, {"note", failed_at(fault)}, options);
  if (!fault.help.empty()) render_remark(out, {"help", fault.help}, options);
  return out;
}

std::string render_json(const Diagnostics& diagnostics, const Sources& sources, std::span<const DocumentField> fields) {
  const Sources located = locate(diagnostics, sources);
  std::vector<std::string> findings;
  for (const Diagnostic& d : diagnostics.list)
    findings.push_back(json_of([&](JsonWriter& json) { write_diagnostic(json, d, located); }));
  return render_document(findings, counts_of(diagnostics), fields);
}

std::string render_document(std::span<const std::string> findings, const DiagnosticCounts& counts,
                            std::span<const DocumentField> fields) {
  JsonWriter json;
  begin_object(json);
  write_field(json, "format", "tpplan.diagnostics/1");
  write_field(json, "errors", counts.errors);
  write_field(json, "warnings", counts.warnings);
  write_key(json, "diagnostics");
  begin_array(json);
  for (const std::string& finding : findings) {
    next_line(json, 1);
    write_json(json, finding);
  }
  if (!findings.empty()) next_line(json, 0);
  end_array(json);
  for (const DocumentField& member : fields) {
    next_line(json, 1);
    write_key(json, member.name);
    write_json(json, member.json);
  }
  end_object(json);
  return json.out + '\n';
}

std::string render_jsonl(const Diagnostics& diagnostics, const Sources& sources) {
  const Sources located = locate(diagnostics, sources);
  std::string out;
  for (const Diagnostic& d : diagnostics.list) {
    out += json_of([&](JsonWriter& json) { write_diagnostic(json, d, located); }) + '\n';
  }
  return out;
}

std::string render_jsonl(const Fault& fault, std::string_view place) {
  const SourceFile file{.name = fault.place.empty() ? std::string(place) : fault.place, .text = {}};
  const Span start{.file = file.name.empty() ? kNoFile : file.id};
  Diagnostics diagnostics;
  Diagnostic& finding = report_message(diagnostics, fault.code, start, fault.message, fault.help);
  if (!fault.step.empty()) finding.notes.push_back({failed_at(fault), {}});
  return render_jsonl(diagnostics, sources_of(file));
}

std::string count_diagnostics(const Diagnostics& diagnostics) { return to_text(counts_of(diagnostics)); }

}  // namespace tpplan
