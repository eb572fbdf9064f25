#include "lsp_requests.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "diagnostics/text_edits.h"
#include "editor/completion.h"
#include "editor/hover.h"
#include "editor/positions.h"
#include "embedded.h"
#include "lsp_answers.h"
#include "lsp_diagnostics.h"
#include "lsp_documents.h"
#include "styles/explain_style.h"
#include "suggested_rules.h"

namespace tpplan {
namespace {

// Returns the explanation of a position in the plan as Markdown; empty if there is none.
std::string hover_text(const EditorAnalysis& analysis, size_t offset) {
  if (analysis.session != nullptr) {
    const Compilation& c = analysis.session->compilation;
    const RuleId rule = c.reached >= Phase::Matches ? rule_at(c.plan, offset) : kNoRule;
    const ShardingTable* shardings = c.reached >= Phase::Shardings ? &c.plan_result.shardings : nullptr;
    if (rule != kNoRule) return rule_hover(c.plan, c.graph, c.plan_result.matches, shardings, rule);
  }
  const std::string_view word = word_at(analysis.plan.text, offset);
  const DiagnosticKind* kind = find_kind(word);
  if (const char* page = kind == nullptr ? nullptr : embedded_page(kind->id); page != nullptr) return page;
  const std::optional<std::string> style = word.empty() ? std::nullopt : explain_style(word);
  return style ? fmt::format("```\n{}```\n", *style) : std::string();
}

// Returns the document of a request and sets `offset` to its position. Returns nullptr after it has sent a response.
OpenPlan* place_of(Server& server, const EditorMessage& message, size_t& offset) {
  OpenPlan* open = document_of(server, message);
  EditorPosition position;
  if (open == nullptr || !is_plan_document(*open, server.arguments)) {
    answer_null(message);
    return nullptr;
  }
  if (!read_position(message.params, 0, "position", position)) {
    reject_request(message, RpcError::InvalidParams, "`position` is not a valid position");
    return nullptr;
  }
  offset = offset_of(lines_of(open->text), position);
  return open;
}

void write_completion(JsonWriter& json, const CompletionItem& item, const TextLines& lines, size_t begin, size_t end) {
  constexpr int kValue = 12, kReference = 18;
  begin_object(json);
  write_field(json, "label", item.label);
  write_field(json, "kind", item.kind == CompletionItem::Kind::Style ? kValue : kReference);
  write_field(json, "detail", item.detail);
  write_field(json, "filterText", item.filter);
  write_key(json, "documentation");
  begin_object(json);
  write_field(json, "kind", "markdown");
  write_field(json, "value", item.documentation);
  end_object(json);
  write_key(json, "textEdit");
  begin_object(json);
  write_key(json, "range");
  write_range(json, lines, begin, end);
  write_field(json, "newText", item.text);
  end_object(json);
  end_object(json);
}

void write_edits(JsonWriter& json, const std::string& uri, const TextLines& lines, const std::vector<TextEdit>& edits) {
  write_key(json, "edit");
  begin_object(json);
  write_key(json, "changes");
  begin_object(json);
  write_key(json, uri);
  write_array(json, edits, [&](const TextEdit& edit) {
    begin_object(json);
    write_key(json, "range");
    write_range(json, lines, edit.offset, edit.offset + edit.length);
    write_field(json, "newText", edit.text);
    end_object(json);
  });
  end_object(json);
  end_object(json);
}

// Writes the edits of diagnostics in the range as code actions. If a diagnostic is about missing rules, also writes
// suggested rules.
void write_actions(JsonWriter& json, const EditorAnalysis& analysis, const std::string& uri, size_t begin, size_t end) {
  const TextLines lines = lines_of(analysis.plan.text);
  bool wants_rules = false;
  begin_array(json);
  for (size_t i = 0; i < analysis.diagnostics.list.size(); ++i) {
    const Diagnostic& d = analysis.diagnostics.list[i];
    if (d.span.file != analysis.plan.id || d.span.offset > end || d.span.offset + d.span.length < begin) continue;
    wants_rules |= kind_of(d.code).is_coverage;
    const std::vector<TextEdit> edits = text_edits(analysis.plan, d);
    if (edits.empty()) continue;
    begin_object(json);
    write_field(json, "title", valid_utf8(escape_for_terminal(d.help.empty() ? d.message : d.help)));
    write_field(json, "kind", "quickfix");
    write_field(json, "isPreferred", kind_of(d.code).has_exact_fix);
    write_key(json, "diagnostics");
    begin_array(json);
    write_diagnostic(json, analysis, i, lines, uri);
    end_array(json);
    write_edits(json, uri, lines, edits);
    end_object(json);
  }
  if (wants_rules && analysis.session != nullptr && analysis.session->compilation.reached > Phase::Plan) {
    const RuleSuggestion suggestion = suggest_for_session(*analysis.session, {});
    if (!suggestion.rules.empty()) {
      begin_object(json);
      write_field(json, "title",
                  fmt::format("add {} for layers without one", counted(suggestion.rules.size(), "rule")));
      write_field(json, "kind", "quickfix");
      write_edits(json, uri, lines, suggestion.edits);
      end_object(json);
    }
  }
  end_array(json);
}

}  // namespace

void answer_hover(Server& server, const EditorMessage& message) {
  size_t offset = 0;
  OpenPlan* open = place_of(server, message, offset);
  if (open == nullptr) return;
  const std::string text = hover_text(analysis_of(server, *open), offset);
  if (text.empty()) return answer_null(message);
  answer_request(message, [&text](JsonWriter& json) {
    begin_object(json);
    write_key(json, "contents");
    begin_object(json);
    write_field(json, "kind", "markdown");
    write_field(json, "value", text);
    end_object(json);
    end_object(json);
  });
}

void answer_completion(Server& server, const EditorMessage& message) {
  size_t offset = 0;
  OpenPlan* open = place_of(server, message, offset);
  if (open == nullptr) return;
  EditorAnalysis& analysis = analysis_of(server, *open);
  const TextLines lines = lines_of(open->text);
  const char sign = analysis.session == nullptr ? '.' : separator(analysis.session->compilation.graph.framework);
  const Completion completion = complete_plan(lines, offset, paths_of(analysis), sign);
  answer_request(message, [&](JsonWriter& json) {
    begin_object(json);
    write_field(json, "isIncomplete", completion.is_incomplete);
    write_key(json, "items");
    write_array(json, completion.items,
                [&](const CompletionItem& item) { write_completion(json, item, lines, completion.begin, offset); });
    end_object(json);
  });
}

void answer_actions(Server& server, const EditorMessage& message) {
  OpenPlan* open = document_of(server, message);
  if (open == nullptr || !is_plan_document(*open, server.arguments)) return answer_null(message);
  size_t begin = 0, end = 0;
  if (!read_range(message.params, 0, lines_of(open->text), begin, end))
    return reject_request(message, RpcError::InvalidParams, "`range` is not a valid range");
  const EditorAnalysis& analysis = analysis_of(server, *open);
  answer_request(message, [&](JsonWriter& json) { write_actions(json, analysis, open->uri, begin, end); });
}

}  // namespace tpplan
