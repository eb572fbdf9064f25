#include "render/render_gitlab.h"

#include <spdlog/fmt/fmt.h>

#include "render/render_parts.h"

namespace tpplan {
namespace {

std::string_view gitlab_severity(Severity severity) { return severity == Severity::Error ? "major" : "minor"; }

void append_issue(std::string& out, const Diagnostic& d, const Sources& sources, std::string_view fingerprint) {
  const SourceFile* file = file_about(d.span, sources);
  out += "{\"description\": ";
  append_json_text(out, whole_text(d, sources, "; "));
  out += fmt::format(", \"check_name\": \"{}\", \"fingerprint\": \"{}\", \"severity\": \"{}\"", kind_of(d.code).name,
                     fingerprint, gitlab_severity(d.severity));
  out += ", \"location\": {\"path\": ";
  append_json_text(out, file == nullptr ? "tpplan" : repository_path(file->name));
  out += fmt::format(", \"lines\": {{\"begin\": {}}}}}}}", place_of(d.span, sources).line);
}

}  // namespace

std::string render_gitlab(const Diagnostics& diagnostics, const Sources& sources) {
  const Sources located = locate(diagnostics, sources);
  const std::vector<std::string> prints = fingerprints(diagnostics, sources);
  std::string out = "[";
  for (size_t i = 0; i < diagnostics.list.size(); ++i) {
    out += i == 0 ? "\n " : ",\n ";
    append_issue(out, diagnostics.list[i], located, prints[i]);
  }
  return out + (diagnostics.list.empty() ? "]\n" : "\n]\n");
}

}  // namespace tpplan
