#include "render/render_sarif.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "render/render_parts.h"

namespace tpplan {
namespace {

constexpr std::string_view kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// The name of a file as a URI reference (RFC 3986): relative as it was given, or absolute with the scheme `file`.
std::string uri_of(std::string_view name) {
  name = repository_path(name);
  std::string out = name.starts_with('/') ? "file://" : "";
  for (const char c : name) {
    const bool plain = is_alphanumeric(c) || std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// "rule matches nothing" as the identifier RuleMatchesNothing.
std::string rule_name(std::string_view title) {
  std::string out;
  bool starts_word = true;
  for (const char c : title) {
    if (is_alphanumeric(c)) out += starts_word ? static_cast<char>(std::toupper(c)) : c;
    starts_word = !is_alphanumeric(c);
  }
  return out;
}

// The paragraph below the heading of a page, on one line.
std::string first_paragraph(std::string_view page) {
  const size_t heading_end = std::min(page.find("\n\n"), page.size());
  const size_t begin = std::min(page.find_first_not_of('\n', heading_end), page.size());
  std::string text(page.substr(begin, page.find("\n\n", begin) - begin));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// SARIF reads `[text](target)` in a message as a link. Nothing that is reported means one, and a name could.
std::string without_links(std::string text) {
  for (size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 3)) text.insert(at, 1, '\\');
  return text;
}

void append_text(std::string& out, std::string_view name, std::string_view text) {
  out += fmt::format("\"{}\": {{\"text\": ", name);
  append_json_text(out, text);
  out += "}";
}

void append_rule(std::string& out, const DiagnosticKind& kind, PageOfCode page_of_code) {
  out += fmt::format("{{\"id\": \"{}\", \"name\": \"{}\", ", kind.name, rule_name(kind.title));
  append_text(out, "shortDescription", kind.title);
  out += fmt::format(", \"defaultConfiguration\": {{\"level\": \"{}\"}}", severity_name(kind.severity));
  const char* page = page_of_code(kind.name);
  if (page != nullptr) {
    out += ", ";
    append_text(out, "fullDescription", first_paragraph(page));
    out += fmt::format(", \"help\": {{\"text\": \"`tpplan explain {}` says more.\", \"markdown\": ", kind.name);
    append_json_text(out, page);
    out += "}";
  }
  out += "}";
}

void append_rules(std::string& out, PageOfCode page) {
  for (const DiagnosticKind& kind : diagnostic_kinds()) {
    out += kind.code == diagnostic_kinds().front().code ? "\n  " : ",\n  ";
    append_rule(out, kind, page);
  }
}

void append_physical_location(std::string& out, const SourceFile& file, const Place& place) {
  out += fmt::format("\"physicalLocation\": {{\"artifactLocation\": {{\"uri\": \"{}\"}}", uri_of(file.name));
  if (place.file != nullptr) {
    const Columns columns = code_point_columns(place);
    out += fmt::format(", \"region\": {{\"startLine\": {}, \"startColumn\": {}, \"endColumn\": {}}}", place.line,
                       columns.begin, columns.end);
  }
  out += "}";
}

// Where the result is; a finding without a place is about the plan as a whole.
void append_locations(std::string& out, const Diagnostic& d, const Sources& sources) {
  const SourceFile* file = file_about(d.span, sources);
  out += ", \"locations\": [";
  if (file != nullptr) {
    out += "{";
    append_physical_location(out, *file, place_of(d.span, sources));
    if (!d.label.empty()) {
      out += ", ";
      append_text(out, "message", without_links(escape_for_terminal(d.label)));
    }
    out += "}";
  }
  out += "]";
}

// The notes that point somewhere.
void append_related_locations(std::string& out, const Diagnostic& d, const Sources& sources) {
  size_t id = 0;
  out += ", \"relatedLocations\": [";
  for (const Note& note : d.notes) {
    const Place place = place_of(note.span, sources);
    if (place.file == nullptr) continue;
    out += fmt::format("{}{{\"id\": {}, ", id == 0 ? "" : ", ", id + 1);
    append_physical_location(out, *place.file, place);
    out += ", ";
    append_text(out, "message", without_links(escape_for_terminal(note.text)));
    out += "}";
    ++id;
  }
  out += "]";
}

void append_result(std::string& out, const Diagnostic& d, const Sources& sources, std::string_view fingerprint) {
  out += fmt::format("{{\"ruleId\": \"{}\", \"ruleIndex\": {}, \"level\": \"{}\", ", kind_of(d.code).name,
                     static_cast<size_t>(d.code), severity_name(d.severity));
  append_text(out, "message", without_links(whole_text(d, sources, "\n")));
  append_locations(out, d, sources);
  append_related_locations(out, d, sources);
  out += fmt::format(", \"occurrenceCount\": {}, \"partialFingerprints\": {{\"tpplan/v1\": \"{}\"}}}}", d.count,
                     fingerprint);
}

void append_results(std::string& out, const Diagnostics& diagnostics, const Sources& sources) {
  const std::vector<std::string> prints = fingerprints(diagnostics, sources);
  for (size_t i = 0; i < diagnostics.list.size(); ++i) {
    out += i == 0 ? "\n  " : ",\n  ";
    append_result(out, diagnostics.list[i], sources, prints[i]);
  }
}

// How the run went: whether the inputs could be judged at all.
void append_invocation(std::string& out, const Diagnostics& diagnostics) {
  const int status = exit_status(diagnostics);
  out += fmt::format("{{\"executionSuccessful\": {}, \"exitCode\": {}}}", status <= 1, status);
}

}  // namespace

std::string render_sarif(const Diagnostics& diagnostics, const Sources& sources, std::string_view tool,
                         PageOfCode page) {
  const size_t space = tool.rfind(' ');
  std::string out = fmt::format("{{\"$schema\": \"{}\", \"version\": \"2.1.0\", \"runs\": [{{\n", kSchema);
  out += fmt::format(" \"tool\": {{\"driver\": {{\"name\": \"{}\", \"version\": \"{}\", \"rules\": [",
                     tool.substr(0, space), tool.substr(space + 1));
  append_rules(out, page);
  out += "\n ]}},\n \"columnKind\": \"unicodeCodePoints\",\n \"invocations\": [";
  append_invocation(out, diagnostics);
  out += "],\n \"results\": [";
  append_results(out, diagnostics, locate(diagnostics, sources));
  return out + "\n ]}]}\n";
}

}  // namespace tpplan
