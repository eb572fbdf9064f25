#include "render/render_sarif.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "render/render_parts.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

constexpr std::string_view kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// Returns a file name as a URI reference (RFC 3986): relative, or absolute with the scheme `file`.
std::string uri_of(std::string_view name) {
  name = repository_path(name);
  std::string out = name.starts_with('/') ? "file://" : "";
  for (const char c : name) {
    const bool plain = is_alphanumeric(c) || std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// Returns the paragraph below the heading of a page, on one line.
std::string first_paragraph(std::string_view page) {
  const size_t heading_end = std::min(page.find("\n\n"), page.size());
  const size_t begin = std::min(page.find_first_not_of('\n', heading_end), page.size());
  std::string text(page.substr(begin, page.find("\n\n", begin) - begin));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Escapes `[text](target)`, which SARIF reads as a link. Messages contain no links, but a name can look like one.
std::string without_links(std::string text) {
  for (size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 3)) text.insert(at, 1, '\\');
  return text;
}

// Writes {"text": ...}, SARIF's form of every text.
void write_text(JsonWriter& json, std::string_view key, std::string_view text) {
  write_key(json, key);
  begin_object(json);
  write_field(json, "text", text);
  end_object(json);
}

void write_rule(JsonWriter& json, const DiagnosticKind& kind, PageOfCode page_of_code) {
  begin_object(json);
  write_field(json, "id", kind.id);
  write_field(json, "name", kind.name);
  write_text(json, "shortDescription", kind.title);
  write_key(json, "defaultConfiguration");
  begin_object(json);
  write_field(json, "level", severity_name(kind.severity));
  end_object(json);
  if (const char* page = page_of_code(kind.id); page != nullptr) {
    write_text(json, "fullDescription", first_paragraph(page));
    write_key(json, "help");
    begin_object(json);
    write_field(json, "text", fmt::format("See `tpplan explain {}`.", kind.id));
    write_field(json, "markdown", page);
    end_object(json);
  }
  end_object(json);
}

// Returns the codes that occur, in ascending order. `ruleIndex` of a result is an index into this list.
std::vector<Code> codes_of(const Diagnostics& diagnostics) {
  std::vector<Code> codes;
  for (const Diagnostic& d : diagnostics.list) codes.push_back(d.code);
  std::ranges::sort(codes);
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  return codes;
}

void write_driver(JsonWriter& json, const std::vector<Code>& codes, std::string_view tool, PageOfCode page) {
  const size_t space = tool.rfind(' ');
  begin_object(json);
  write_field(json, "name", tool.substr(0, space));
  write_field(json, "version", tool.substr(space + 1));
  write_key(json, "rules");
  begin_array(json);
  for (const Code code : codes) {
    next_line(json, 2);
    write_rule(json, kind_of(code), page);
  }
  if (!codes.empty()) next_line(json, 1);
  end_array(json);
  end_object(json);
}

void write_physical_location(JsonWriter& json, const SourceFile& file, const Place& place) {
  write_key(json, "physicalLocation");
  begin_object(json);
  write_key(json, "artifactLocation");
  begin_object(json);
  write_field(json, "uri", uri_of(file.name));
  end_object(json);
  if (place.file != nullptr) {
    const Columns columns = code_point_columns(place);
    write_key(json, "region");
    begin_object(json);
    write_field(json, "startLine", place.line);
    write_field(json, "startColumn", columns.begin);
    write_field(json, "endColumn", columns.end);
    end_object(json);
  }
  end_object(json);
}

// Writes the location of a result. A diagnostic without a location points to the plan file.
void write_locations(JsonWriter& json, const Diagnostic& d, const Sources& sources) {
  const SourceFile* file = file_about(d.span, sources);
  write_key(json, "locations");
  begin_array(json);
  if (file != nullptr) {
    begin_object(json);
    write_physical_location(json, *file, place_of(d.span, sources));
    if (!d.label.empty()) write_text(json, "message", without_links(escape_for_terminal(d.label)));
    end_object(json);
  }
  end_array(json);
}

// Writes the locations of the notes that have one.
void write_related_locations(JsonWriter& json, const Diagnostic& d, const Sources& sources) {
  size_t id = 0;
  write_key(json, "relatedLocations");
  begin_array(json);
  for (const Note& note : d.notes) {
    const Place place = place_of(note.span, sources);
    if (place.file == nullptr) continue;
    begin_object(json);
    write_field(json, "id", ++id);
    write_physical_location(json, *place.file, place);
    write_text(json, "message", without_links(escape_for_terminal(note.text)));
    end_object(json);
  }
  end_array(json);
}

void write_result(JsonWriter& json, const Diagnostic& d, size_t rule, const Sources& sources,
                  std::string_view fingerprint) {
  begin_object(json);
  write_field(json, "ruleId", kind_of(d.code).id);
  write_field(json, "ruleIndex", rule);
  write_field(json, "level", severity_name(d.severity));
  write_text(json, "message", without_links(full_text(d, sources, "\n")));
  write_locations(json, d, sources);
  write_related_locations(json, d, sources);
  write_field(json, "occurrenceCount", d.count);
  write_key(json, "partialFingerprints");
  begin_object(json);
  write_field(json, "tpplan/v1", fingerprint);
  end_object(json);
  end_object(json);
}

void write_results(JsonWriter& json, const Diagnostics& diagnostics, const std::vector<Code>& codes,
                   const Sources& sources) {
  const std::vector<std::string> prints = fingerprints(diagnostics, sources);
  begin_array(json);
  for (size_t i = 0; i < diagnostics.list.size(); ++i) {
    next_line(json, 2);
    const auto rule = std::ranges::lower_bound(codes, diagnostics.list[i].code) - codes.begin();
    write_result(json, diagnostics.list[i], static_cast<size_t>(rule), sources, prints[i]);
  }
  next_line(json, 1);
  end_array(json);
}

// Writes whether the inputs could be checked, the exit code, and the skipped checks.
void write_invocation(JsonWriter& json, const Diagnostics& diagnostics, std::string_view unchecked) {
  const int status = exit_status(diagnostics);
  begin_object(json);
  write_field(json, "executionSuccessful", status <= 1);
  write_field(json, "exitCode", status);
  if (!unchecked.empty()) {
    write_key(json, "toolExecutionNotifications");
    begin_array(json);
    begin_object(json);
    write_field(json, "level", "note");
    write_text(json, "message", without_links(std::string(unchecked)));
    end_object(json);
    end_array(json);
  }
  end_object(json);
}

}  // namespace

std::string render_sarif(const Diagnostics& diagnostics, const Sources& sources, std::string_view tool, PageOfCode page,
                         std::string_view unchecked) {
  const std::vector<Code> codes = codes_of(diagnostics);
  JsonWriter json;
  begin_object(json);
  write_field(json, "$schema", kSchema);
  write_field(json, "version", "2.1.0");
  write_key(json, "runs");
  begin_array(json);
  begin_object(json);
  next_line(json, 1);
  write_key(json, "tool");
  begin_object(json);
  write_key(json, "driver");
  write_driver(json, codes, tool, page);
  end_object(json);
  next_line(json, 1);
  write_field(json, "columnKind", "unicodeCodePoints");
  next_line(json, 1);
  write_key(json, "invocations");
  begin_array(json);
  write_invocation(json, diagnostics, unchecked);
  end_array(json);
  next_line(json, 1);
  write_key(json, "results");
  write_results(json, diagnostics, codes, locate(diagnostics, sources));
  end_object(json);
  end_array(json);
  end_object(json);
  return json.out + '\n';
}

}  // namespace tpplan
