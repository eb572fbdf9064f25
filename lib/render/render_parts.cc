#include "render/render_parts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/sha256.h"
#include "base/text.h"

namespace tpplan {
namespace {

// The maximum number of bytes before and after a span that are part of its fingerprint, because a model can be one
// line.
constexpr size_t kFingerprintReach = 100;

const SourceFile* source_of(const Span& span, const Sources& sources) { return find_file(sources, span.file); }

// Returns the line and column of a span. @pre locate() has filled `sources`.
LineColumn line_column_of(const Span& span, const Sources& sources) {
  const std::vector<KnownPlace>& known = sources.known[span.file - 1u];
  const auto found = std::lower_bound(known.begin(), known.end(), span.offset,
                                      [](const KnownPlace& place, uint64_t offset) { return place.offset < offset; });
  if (found != known.end() && found->offset == span.offset) return found->place;
  return line_column(*source_of(span, sources), span.offset);
}

// Sets the line and column of each known offset in one pass. @pre `known` is sorted by offset.
void find_places(std::string_view text, std::vector<KnownPlace>& known) {
  LineColumn at;
  size_t from = 0;
  for (KnownPlace& place : known) {
    const std::string_view between = text.substr(from, std::min<size_t>(place.offset, text.size()) - from);
    const size_t line_end = between.rfind('\n');
    at.line += static_cast<size_t>(std::count(between.begin(), between.end(), '\n'));
    at.column = line_end == std::string_view::npos ? at.column + between.size() : between.size() - line_end;
    from += between.size();
    place.place = at;
  }
}

// Returns the part of a span that is on its first line.
std::string_view marked_text(std::string_view text, const Span& span) {
  const std::string_view marked = text.substr(std::min<size_t>(span.offset, text.size()), span.length);
  return marked.substr(0, marked.find_first_of("\r\n"));
}

// Returns the span with up to kFingerprintReach bytes of its line before and after it, without the indentation.
std::string_view surroundings(std::string_view text, const Span& span) {
  const size_t offset = std::min<size_t>(span.offset, text.size());
  const size_t from = offset > kFingerprintReach ? offset - kFingerprintReach : 0;
  const size_t line_end = text.substr(from, offset - from).rfind('\n');
  const size_t begin = line_end == std::string_view::npos ? from : from + line_end + 1;
  const std::string_view after = text.substr(offset, span.length + kFingerprintReach);
  const size_t end = offset + std::min(after.size(), after.find_first_of("\r\n"));
  const std::string_view line = text.substr(begin, end - begin);
  const size_t first = std::min(line.find_first_not_of(" \t"), line.size());
  return line.substr(first, line.find_last_not_of(" \t") + 1 - first);
}

// Returns the text that identifies a diagnostic. It contains neither the line number nor the message, because lines
// above it and wording can change. A diagnostic without a location is identified by its message.
std::string identity(const Diagnostic& d, const Sources& sources) {
  const SourceFile* file = source_of(d.span, sources);
  std::string key(kind_of(d.code).id);
  key += '\0';
  if (file == nullptr) return key + d.message;
  key += repository_path(file->name);
  key += '\0';
  key += marked_text(file->text, d.span);
  key += '\0';
  key += surroundings(file->text, d.span);
  return key;
}

}  // namespace

Sources sources_of(std::span<const SourceFile* const> files) {
  Sources sources;
  for (const SourceFile* file : files) {
    if (file->id == kNoFile) continue;
    if (sources.files.size() < file->id) sources.files.resize(file->id);
    sources.files[file->id - 1u] = file;
  }
  return sources;
}

const SourceFile* find_file(const Sources& sources, FileId id) {
  return id == kNoFile || id > sources.files.size() ? nullptr : sources.files[id - 1u];
}

const SourceFile* plan_of(const Sources& sources) {
  constexpr FileId kPlan = 2;  // compile.h: 1 is the model, others are files of options
  if (sources.files.empty()) return nullptr;
  const SourceFile* plan = find_file(sources, kPlan);
  return plan != nullptr ? plan : sources.files.back();
}

std::string check_name(const CheckedPlan& check) {
  return escape_for_terminal(
      fmt::format("{} {}{}{}", check.model, check.plan, check.mesh.empty() ? "" : " on ", check.mesh));
}

std::string check_result(const CheckedPlan& check) {
  return check.unchecked.empty() ? check.result : fmt::format("{}, {} not checked", check.result, check.unchecked);
}

std::string_view severity_name(Severity severity) { return severity == Severity::Error ? "error" : "warning"; }

DiagnosticCounts counts_of(const Diagnostics& diagnostics) {
  DiagnosticCounts counts;
  for (const Diagnostic& d : diagnostics.list)
    (d.severity == Severity::Error ? counts.errors : counts.warnings) += 1 + d.unlisted;
  return counts;
}

std::string to_text(const DiagnosticCounts& counts) {
  std::vector<std::string> parts;
  if (counts.errors > 0) parts.push_back(counted(counts.errors, "error"));
  if (counts.warnings > 0) parts.push_back(counted(counts.warnings, "warning"));
  return join(parts, ", ");
}

// One pass per file, because counting lines from the beginning for each diagnostic would be quadratic.
Sources locate(const Diagnostics& diagnostics, Sources sources) {
  sources.known.resize(sources.files.size());
  const auto add = [&sources](const Span& span) {
    if (source_of(span, sources) == nullptr) return;
    sources.known[span.file - 1u].push_back({span.offset, {}});
  };
  for (const Diagnostic& d : diagnostics.list) {
    add(d.span);
    for (const Note& note : d.notes) add(note.span);
  }
  for (size_t i = 0; i < sources.files.size(); ++i) {
    std::vector<KnownPlace>& known = sources.known[i];
    std::sort(known.begin(), known.end(), [](const KnownPlace& a, const KnownPlace& b) { return a.offset < b.offset; });
    if (!known.empty()) find_places(sources.files[i]->text, known);
  }
  return sources;
}

Place place_of(const Span& span, const Sources& sources) {
  const SourceFile* file = source_of(span, sources);
  if (file == nullptr) return {};
  const LineColumn begin = line_column_of(span, sources);
  const size_t length = marked_text(file->text, span).size();
  return {.file = file, .offset = span.offset, .line = begin.line, .columns = {begin.column, begin.column + length}};
}

Columns code_point_columns(const Place& place) {
  const std::string_view text = place.file->text;
  const size_t offset = std::min<size_t>(place.offset, text.size());
  const size_t before = count_code_points(text.substr(offset - (place.columns.begin - 1), place.columns.begin - 1));
  return {1 + before, 1 + before + count_code_points(text.substr(offset, place.columns.end - place.columns.begin))};
}

const SourceFile* file_about(const Span& span, const Sources& sources) {
  const SourceFile* file = source_of(span, sources);
  return file != nullptr ? file : plan_of(sources);
}

std::string place_text(const Span& span, const Sources& sources) {
  const SourceFile* file = source_of(span, sources);
  if (file == nullptr) return "tpplan";
  const LineColumn place = line_column_of(span, sources);
  return fmt::format("{}:{}:{}", escape_for_terminal(file->name), place.line, place.column);
}

std::vector<Remark> remarks_of(const Diagnostic& d, const Sources& sources) {
  std::vector<Remark> remarks;
  for (const Note& note : d.notes) {
    const bool placed = source_of(note.span, sources) != nullptr;
    remarks.push_back({"note", placed ? fmt::format("{} ({})", note.text, place_text(note.span, sources)) : note.text});
  }
  if (d.count > 1) {
    const std::string more = counted(d.count - 1, d.counted.empty() ? "place" : d.counted);
    remarks.push_back({"note", fmt::format("and {} more with the same cause", more)});
  }
  if (d.unlisted > 0) {
    remarks.push_back(
        {"note", fmt::format("not listed: {} of {}", counted(d.unlisted, "more diagnostic"), kind_of(d.code).id)});
  }
  if (!d.help.empty()) remarks.push_back({"help", d.help});
  return remarks;
}

std::string full_text(const Diagnostic& d, const Sources& sources, std::string_view separator) {
  std::string out = escape_for_terminal(d.label.empty() ? d.message : fmt::format("{} ({})", d.message, d.label));
  for (const Remark& remark : remarks_of(d, sources)) {
    out += fmt::format("{}{}: {}", separator, remark.kind, escape_for_terminal(remark.text));
  }
  return valid_utf8(out);
}

// Diagnostics with the same identity get an index, because consumers merge diagnostics with equal fingerprints.
std::vector<std::string> fingerprints(const Diagnostics& diagnostics, const Sources& sources) {
  std::vector<std::string> prints;
  TextMap<std::string, size_t> seen;
  for (const Diagnostic& d : diagnostics.list) {
    std::string key = identity(d, sources);
    const size_t number = ++seen[key];
    key += '\0';
    prints.push_back(sha256_hex(key + std::to_string(number)).substr(0, 32));
  }
  return prints;
}

std::string_view repository_path(std::string_view name) {
  while (name.starts_with("./") && name.size() > 2) name.remove_prefix(2);
  return name;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  for (size_t bad = find_invalid_utf8(text); bad != std::string_view::npos; bad = find_invalid_utf8(text)) {
    out += text.substr(0, bad);
    out += "\xef\xbf\xbd";
    text.remove_prefix(bad + 1);
  }
  return out += text;
}

}  // namespace tpplan
