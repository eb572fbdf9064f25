#include "render/render_github.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/text.h"
#include "render/render_parts.h"

namespace tpplan {
namespace {

// Annotations of one severity that GitHub shows of one step.
constexpr size_t kMaxAnnotations = 10;

struct GithubEscape {
  char character;
  std::string_view written;
};
// How actions/toolkit writes the message of a command, and the values before it.
constexpr GithubEscape kMessageEscapes[] = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}};
constexpr GithubEscape kPropertyEscapes[] = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}};

// Character by character, so that the `%` of an escape is not escaped again.
std::string escape(std::string_view text, std::span<const GithubEscape> escapes) {
  std::string out;
  for (const char c : text) {
    const auto known =
        std::find_if(escapes.begin(), escapes.end(), [c](const GithubEscape& e) { return e.character == c; });
    out += known == escapes.end() ? std::string_view(&c, 1) : known->written;
  }
  return out;
}

// The runner takes `##[` for a command wherever it stands in a line of text.
// `::` begins a command only at the beginning of a line, where these lines have their severity.
std::string plain_line(std::string text) {
  for (size_t at = text.find("##["); at != std::string::npos; at = text.find("##[", at)) text.insert(at + 1, 1, ' ');
  return text;
}

void append_annotation(std::string& out, const Diagnostic& d, const Sources& sources) {
  const Place place = place_of(d.span, sources);
  const DiagnosticKind& kind = kind_of(d.code);
  out += fmt::format("::{} ", severity_name(d.severity));
  if (place.file != nullptr) {
    const Columns columns = code_point_columns(place);
    const std::string file = escape(valid_utf8(repository_path(place.file->name)), kPropertyEscapes);
    out += fmt::format("file={},line={},col={},endColumn={},", file, place.line, columns.begin, columns.end);
  }
  out += fmt::format("title={}::{}\n", escape(fmt::format("{}: {}", kind.name, kind.title), kPropertyEscapes),
                     escape(whole_text(d, sources, "\n"), kMessageEscapes));
}

// What did not become an annotation.
void append_rest(std::string& out, const Diagnostics& rest, const Sources& sources) {
  std::map<std::string_view, size_t> codes;
  for (const Diagnostic& d : rest.list) ++codes[kind_of(d.code).name];
  std::vector<std::string> parts;
  for (const auto& [code, count] : codes) parts.push_back(fmt::format("{} x {}", code, count));
  const std::string counts = to_text(counts_of(rest));
  out += fmt::format("::notice title=tpplan::and {} more, in the log of this step: {}\n", counts, join(parts, ", "));
  out += fmt::format("::group::{} more\n", counts);
  for (const Diagnostic& d : rest.list) {
    const std::string head = fmt::format("{}[{}]", severity_name(d.severity), kind_of(d.code).name);
    const std::string place = valid_utf8(place_text(d.span, sources));
    out += plain_line(fmt::format("{} {}: {}\n", head, place, whole_text(d, sources, "; ")));
  }
  out += "::endgroup::\n";
}

}  // namespace

std::string render_github(const Diagnostics& diagnostics, const Sources& sources, std::string_view unchecked) {
  const Sources located = locate(diagnostics, sources);
  std::string out;
  if (diagnostics.list.empty()) {
    // A name may begin with `::`, which would be a command.
    const SourceFile* plan = sources.files.empty() ? nullptr : sources.files.back();
    out = plan == nullptr ? "no findings\n"
                          : plain_line(fmt::format("no findings in {}\n", escape_for_terminal(plan->name)));
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
  if (!unchecked.empty()) out += fmt::format("::notice title=tpplan::{}\n", escape(unchecked, kMessageEscapes));
  return out;
}

}  // namespace tpplan
