#include "render/render_gitlab.h"

#include "render/render_parts.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

// Returns one of GitLab's severities: info, minor, major, critical, blocker (docs.gitlab.com, Code Quality report
// format).
std::string_view gitlab_severity(Severity severity) { return severity == Severity::Error ? "major" : "minor"; }

void write_issue(JsonWriter& json, const Diagnostic& d, const Sources& sources, std::string_view fingerprint) {
  const SourceFile* file = file_about(d.span, sources);
  begin_object(json);
  write_field(json, "description", full_text(d, sources, "; "));
  write_field(json, "check_name", kind_of(d.code).id);
  write_field(json, "fingerprint", fingerprint);
  write_field(json, "severity", gitlab_severity(d.severity));
  write_key(json, "location");
  begin_object(json);
  write_field(json, "path", file == nullptr ? "tpplan" : repository_path(file->name));
  write_key(json, "lines");
  begin_object(json);
  write_field(json, "begin", place_of(d.span, sources).line);
  end_object(json);
  end_object(json);
  end_object(json);
}

}  // namespace

std::string render_gitlab(const Diagnostics& diagnostics, const Sources& sources) {
  const Sources located = locate(diagnostics, sources);
  const std::vector<std::string> prints = fingerprints(diagnostics, sources);
  JsonWriter json;
  begin_array(json);
  for (size_t i = 0; i < diagnostics.list.size(); ++i) {
    next_line(json, 1);
    write_issue(json, diagnostics.list[i], located, prints[i]);
  }
  if (!diagnostics.list.empty()) next_line(json, 0);
  end_array(json);
  return json.out + '\n';
}

}  // namespace tpplan
