#include "render/render_github.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/text.h"
#include "render/render_parts.h"

namespace tpplan {
namespace {

// The maximum number of annotations of one severity that GitHub shows for a step.
constexpr size_t kMaxAnnotations = 10;

struct GithubEscape {
  char character;
  std::string_view written;
};
// The escapes of actions/toolkit for the message and for the properties of a workflow command.
constexpr GithubEscape kMessageEscapes[] = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}};
constexpr GithubEscape kPropertyEscapes[] = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}};

// Returns the text with each character escaped once, so that the `%` of an escape is not escaped again.
std::string escape(std::string_view text, std::span<const GithubEscape> escapes) {
  std::string out;
  for (const char c : text) {
    const auto known =
        std::find_if(escapes.begin(), escapes.end(), [c](const GithubEscape& e) { return e.character == c; });
    out += known == escapes.end() ? std::string_view(&c, 1) : known->written;
  }
  return out;
}

// Returns a line of text without workflow commands. The runner treats `##[` anywhere in a line as a command. `::` is
// one only at the beginning of a line, which is the severity here.
std::string plain_line(std::string text) {
  for (size_t at = text.find("##["); at != std::string::npos; at = text.find("##[", at)) text.insert(at + 1, 1, ' ');
  return text;
}

// Returns a file name for `file=`. Line breaks stay, because the caller escapes them. Other control and invisible
// characters are written out, because a terminal or log would interpret them.
std::string property_path(std::string_view name) {
  std::string out;
  for (name = repository_path(name); !name.empty();) {
    const size_t line_end = std::min(name.find_first_of("\r\n"), name.size());
    out += escape_for_terminal(name.substr(0, line_end));
    out += name.substr(line_end, 1);
    name.remove_prefix(std::min(line_end + 1, name.size()));
  }
  return out;
}

void append_annotation(std::string& out, const Diagnostic& d, const Sources& sources) {
  const Place place = place_of(d.span, sources);
  const DiagnosticKind& kind = kind_of(d.code);
  out += fmt::format("::{} ", severity_name(d.severity));
  if (place.file != nullptr) {
    const Columns columns = code_point_columns(place);
    const std::string file = escape(property_path(place.file->name), kPropertyEscapes);
    out += fmt::format("file={},line={},col={},endColumn={},", file, place.line, columns.begin, columns.end);
  }
  out += fmt::format("title={}::{}\n", escape(fmt::format("{}: {}", kind.id, kind.title), kPropertyEscapes),
                     escape(full_text(d, sources, "\n"), kMessageEscapes));
}

// Appends a notice and a log group for the diagnostics beyond the limit of annotations.
void append_rest(std::string& out, const Diagnostics& rest, const Sources& sources) {
  std::map<std::string_view, size_t> codes;
  for (const Diagnostic& d : rest.list) ++codes[kind_of(d.code).id];
  std::vector<std::string> parts;
  for (const auto& [code, count] : codes) parts.push_back(fmt::format("{} x {}", code, count));
  const std::string counts = to_text(counts_of(rest));
  out += fmt::format("::notice title=tpplan::and {} more, in the log of this step: {}\n", counts, join(parts, ", "));
  out += fmt::format("::group::{} more\n", counts);
  for (const Diagnostic& d : rest.list) {
    const std::string head = fmt::format("{}[{}]", severity_name(d.severity), kind_of(d.code).id);
    const std::string place = valid_utf8(place_text(d.span, sources));
    out += plain_line(fmt::format("{} {}: {}\n", head, place, full_text(d, sources, "; ")));
  }
  out += "::endgroup::\n";
}

}  // namespace

std::string render_github(const Diagnostics& diagnostics, const Sources& sources, std::string_view unchecked,
                          std::span<const CheckedPlan> checks) {
  const Sources located = locate(diagnostics, sources);
  std::string out;
  if (diagnostics.list.empty() && checks.empty()) {
    const SourceFile* plan = plan_of(sources);
    out = plan == nullptr ? "no diagnostics\n"
                          : plain_line(fmt::format("no diagnostics in {}\n", escape_for_terminal(plan->name)));
  }
  Diagnostics rest;
  for (const Severity severity : {Severity::Error, Severity::Warning}) {
    size_t shown = 0;
    for (const Diagnostic& d : diagnostics.list) {
      if (d.severity != severity) continue;
      if (shown++ < kMaxAnnotations)
        append_annotation(out, d, located);
      else
        rest.list.push_back(d);
    }
  }
  if (!rest.list.empty()) append_rest(out, rest, located);
  for (const CheckedPlan& check : checks)
    out += plain_line(fmt::format("{}: {}\n", valid_utf8(check_name(check)), check_result(check)));
  if (!unchecked.empty()) out += fmt::format("::notice title=tpplan::{}\n", escape(unchecked, kMessageEscapes));
  return out;
}

}  // namespace tpplan
