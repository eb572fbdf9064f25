#include "lsp_diagnostics.h"

#include <algorithm>

#include "base/text.h"
#include "editor/positions.h"
#include "lsp_answers.h"

namespace tpplan {
namespace {

void write_related(JsonWriter& json, const Diagnostic& d, const TextLines& lines, const SourceFile& plan,
                   const std::string& uri) {
  const auto is_here = [&plan](const Note& note) { return note.span.file == plan.id; };
  if (std::ranges::none_of(d.notes, is_here)) return;
  write_key(json, "relatedInformation");
  begin_array(json);
  for (const Note& note : d.notes) {
    if (!is_here(note)) continue;
    begin_object(json);
    write_key(json, "location");
    begin_object(json);
    write_field(json, "uri", uri);
    write_key(json, "range");
    write_span(json, lines, plan, note.span);
    end_object(json);
    write_field(json, "message", valid_utf8(escape_for_terminal(note.text)));
    end_object(json);
  }
  end_array(json);
}

}  // namespace

void write_diagnostic(JsonWriter& json, const EditorAnalysis& analysis, size_t index, const TextLines& lines,
                      const std::string& uri) {
  const Diagnostic& d = analysis.diagnostics.list[index];
  begin_object(json);
  write_key(json, "range");
  write_span(json, lines, analysis.plan, d.span);
  write_field(json, "severity", d.severity == Severity::Error ? 1 : 2);
  write_field(json, "code", kind_of(d.code).id);
  write_field(json, "source", "tpplan");
  write_field(json, "message", analysis.texts[index]);
  write_related(json, d, lines, analysis.plan, uri);
  end_object(json);
}

EditorAnalysis& analysis_of(Server& server, OpenPlan& open) {
  if (open.analysis == nullptr) open.analysis = analyse(open, server.arguments);
  return *open.analysis;
}

void publish_diagnostics(Server& server, OpenPlan& open) {
  open.is_notified = true;
  JsonWriter json = begin_message();
  write_field(json, "method", "textDocument/publishDiagnostics");
  write_key(json, "params");
  begin_object(json);
  write_field(json, "uri", open.uri);
  write_field(json, "version", open.version);
  write_key(json, "diagnostics");
  begin_array(json);
  if (is_plan_document(open, server.arguments)) {
    const EditorAnalysis& analysis = analysis_of(server, open);
    const TextLines lines = lines_of(analysis.plan.text);
    for (size_t i = 0; i < analysis.diagnostics.list.size(); ++i) write_diagnostic(json, analysis, i, lines, open.uri);
    if (!analysis.no_model.empty()) {
      begin_object(json);
      write_key(json, "range");
      write_range(json, lines, 0, 0);
      write_field(json, "severity", 3);
      write_field(json, "source", "tpplan");
      write_field(json, "message", valid_utf8(escape_for_terminal(analysis.no_model)));
      end_object(json);
    }
  }
  end_array(json);
  end_object(json);
  end_object(json);
  send_message(json);
}

}  // namespace tpplan
