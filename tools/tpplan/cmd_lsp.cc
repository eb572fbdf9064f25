// The Language Server Protocol 3.17 over standard input and output, as far as plans have a use for it.
#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "diagnostics/text_edits.h"
#include "editor/frames.h"
#include "editor/hover.h"
#include "editor/message.h"
#include "editor_plans.h"
#include "plan/explain_style.h"
#include "render/render_parts.h"
#include "suggested_rules.h"

namespace tpplan {
namespace {

enum class ServerState : uint8_t { New, Running, ShutDown, Ended };

struct Server {
  EditorArguments arguments;
  ServerState state = ServerState::New;
  FrameBuffer input;
  std::map<std::string, OpenPlan, std::less<>> open;  // by URI
};

// ---- what is said ----

void send(const JsonWriter& json) { print_raw(STDOUT_FILENO, framed(json.out)); }

// A message that has begun: who writes its last member ends it.
JsonWriter begun() {
  JsonWriter json;
  begin_object(json);
  write_member(json, "jsonrpc", "2.0");
  return json;
}

void refuse(const EditorMessage& message, RpcError code, std::string_view why) {
  JsonWriter json = begun();
  write_key(json, "id");
  write_id(json, message.id);
  write_key(json, "error");
  begin_object(json);
  write_member(json, "code", static_cast<int>(code));
  write_member(json, "message", escape_for_terminal(why));
  end_object(json);
  end_object(json);
  send(json);
}

// Answers with what `write` makes of a writer: one value.
template <typename Write>
void answer(const EditorMessage& message, Write write) {
  JsonWriter json = begun();
  write_key(json, "id");
  write_id(json, message.id);
  write_key(json, "result");
  write(json);
  end_object(json);
  send(json);
}

void answer_null(const EditorMessage& message) {
  answer(message, [](JsonWriter& json) { write_value(json, nullptr); });
}

void write_position(JsonWriter& json, const EditorPosition& position) {
  begin_object(json);
  write_member(json, "line", position.line);
  write_member(json, "character", position.character);
  end_object(json);
}

void write_range(JsonWriter& json, const TextLines& lines, size_t begin, size_t end) {
  begin_object(json);
  write_key(json, "start");
  write_position(json, position_of(lines, begin));
  write_key(json, "end");
  write_position(json, position_of(lines, end));
  end_object(json);
}

// A span of the plan; what stands elsewhere is shown where the plan begins.
void write_span(JsonWriter& json, const TextLines& lines, const SourceFile& plan, const Span& span) {
  const bool is_here = span.file == plan.id;
  write_range(json, lines, is_here ? span.offset : 0, is_here ? span.offset + span.length : 0);
}

// ---- findings ----

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
    write_member(json, "uri", uri);
    write_key(json, "range");
    write_span(json, lines, plan, note.span);
    end_object(json);
    write_member(json, "message", valid_utf8(escape_for_terminal(note.text)));
    end_object(json);
  }
  end_array(json);
}

void write_diagnostic(JsonWriter& json, const EditorAnalysis& analysis, size_t index, const TextLines& lines,
                      const std::string& uri) {
  const Diagnostic& d = analysis.diagnostics.list[index];
  begin_object(json);
  write_key(json, "range");
  write_span(json, lines, analysis.plan, d.span);
  write_member(json, "severity", d.severity == Severity::Error ? 1 : 2);
  write_member(json, "code", kind_of(d.code).name);
  write_member(json, "source", "tpplan");
  write_member(json, "message", analysis.texts[index]);
  write_related(json, d, lines, analysis.plan, uri);
  end_object(json);
}

EditorAnalysis& analysis_of(Server& server, OpenPlan& open) {
  if (open.analysis == nullptr) open.analysis = analyse(open, server.arguments);
  return *open.analysis;
}

void publish(Server& server, OpenPlan& open) {
  open.is_told = true;
  JsonWriter json = begun();
  write_member(json, "method", "textDocument/publishDiagnostics");
  write_key(json, "params");
  begin_object(json);
  write_member(json, "uri", open.uri);
  write_member(json, "version", open.version);
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
      write_member(json, "severity", 3);
      write_member(json, "source", "tpplan");
      write_member(json, "message", valid_utf8(escape_for_terminal(analysis.no_model)));
      end_object(json);
    }
  }
  end_array(json);
  end_object(json);
  end_object(json);
  send(json);
}

// ---- documents ----

// The open document that a request is about, or nullptr.
OpenPlan* document_of(Server& server, const EditorMessage& message) {
  if (message.params.nodes.empty() || message.params.nodes[0].kind != JsonKind::Object) return nullptr;
  const uint32_t document = find_member(message.params, 0, "textDocument");
  const auto found = document == 0 ? server.open.end() : server.open.find(text_member(message.params, document, "uri"));
  return found == server.open.end() ? nullptr : &found->second;
}

void changed(OpenPlan& open) {
  open.analysis.reset();
  open.is_told = false;
}

void did_open(Server& server, const EditorMessage& message) {
  if (message.params.nodes.empty() || message.params.nodes[0].kind != JsonKind::Object) return;
  const uint32_t document = find_member(message.params, 0, "textDocument");
  const std::string uri(document == 0 ? "" : text_member(message.params, document, "uri"));
  if (uri.empty()) return;
  OpenPlan& open = server.open[uri];
  open = {.uri = uri,
          .path = path_of_uri(uri),
          .text = std::string(text_member(message.params, document, "text")),
          .version = number_member(message.params, document, "version", 0),
          .analysis = nullptr};
}

bool read_position(const JsonTree& tree, uint32_t parent, std::string_view key, EditorPosition& position) {
  const uint32_t at = find_member(tree, parent, key);
  const int64_t line = at == 0 ? -1 : number_member(tree, at, "line", -1);
  const int64_t character = at == 0 ? -1 : number_member(tree, at, "character", -1);
  position = {static_cast<size_t>(line), static_cast<size_t>(character)};
  return line >= 0 && character >= 0;
}

// The bytes of a member that is a range.
bool read_range(const JsonTree& tree, uint32_t parent, const TextLines& lines, size_t& begin, size_t& end) {
  const uint32_t range = find_member(tree, parent, "range");
  EditorPosition from, to;
  if (range == 0 || tree.nodes[range].kind != JsonKind::Object || !read_position(tree, range, "start", from) ||
      !read_position(tree, range, "end", to))
    return false;
  begin = offset_of(lines, from);
  end = std::max(begin, offset_of(lines, to));
  return true;
}

// Whole texts, as this server asks for; what an editor sends of a part is put there.
void did_change(Server& server, const EditorMessage& message) {
  OpenPlan* open = document_of(server, message);
  if (open == nullptr) return;
  const JsonTree& params = message.params;
  open->version = number_member(params, find_member(params, 0, "textDocument"), "version", open->version);
  const uint32_t changes = find_member(params, 0, "contentChanges");
  if (changes == 0 || params.nodes[changes].kind != JsonKind::Array) return;
  for (uint32_t at = changes + 1; at < params.nodes[changes].end; at = params.nodes[at].end) {
    if (params.nodes[at].kind != JsonKind::Object || find_member(params, at, "text") == 0) continue;
    size_t begin = 0, end = open->text.size();
    std::ignore = read_range(params, at, lines_of(open->text), begin, end);
    open->text.replace(begin, end - begin, text_member(params, at, "text"));
  }
  changed(*open);
}

// Models and settings may be other ones now.
void files_changed(Server& server) {
  for (auto& [uri, open] : server.open) changed(open);
}

void did_close(Server& server, const EditorMessage& message) {
  OpenPlan* open = document_of(server, message);
  if (open == nullptr) return;
  JsonWriter json = begun();
  write_member(json, "method", "textDocument/publishDiagnostics");
  write_key(json, "params");
  begin_object(json);
  write_member(json, "uri", open->uri);
  write_key(json, "diagnostics");
  write_array(json, std::vector<int>{});
  end_object(json);
  end_object(json);
  send(json);
  server.open.erase(server.open.find(open->uri));
}

// ---- requests about a place ----

// What a place in the plan means, as Markdown; empty where nobody knows.
std::string hover_text(const EditorAnalysis& analysis, size_t offset) {
  if (analysis.session != nullptr) {
    const Compilation& c = analysis.session->compilation;
    const RuleId rule = c.reached >= Phase::Matches ? rule_at(c.plan, offset) : kNoRule;
    const ShardingTable* shardings = c.reached >= Phase::Shardings ? &c.judgement.shardings : nullptr;
    if (rule != kNoRule) return rule_hover(c.plan, c.graph, c.judgement.matches, shardings, rule);
  }
  const std::string_view word = word_at(analysis.plan.text, offset);
  const DiagnosticKind* kind = find_kind(word);
  if (const char* page = kind == nullptr ? nullptr : embedded_page(kind->name); page != nullptr) return page;
  const std::optional<std::string> style = word.empty() ? std::nullopt : explain_style(word);
  return style ? fmt::format("```\n{}```\n", *style) : std::string();
}

// The document and the byte that a request is about; nullptr after an answer.
OpenPlan* place_of(Server& server, const EditorMessage& message, size_t& offset) {
  OpenPlan* open = document_of(server, message);
  EditorPosition position;
  if (open == nullptr || !is_plan_document(*open, server.arguments)) {
    answer_null(message);
    return nullptr;
  }
  if (!read_position(message.params, 0, "position", position)) {
    refuse(message, RpcError::InvalidParams, "`position` is no place");
    return nullptr;
  }
  offset = offset_of(lines_of(open->text), position);
  return open;
}

void hover(Server& server, const EditorMessage& message) {
  size_t offset = 0;
  OpenPlan* open = place_of(server, message, offset);
  if (open == nullptr) return;
  const std::string text = hover_text(analysis_of(server, *open), offset);
  if (text.empty()) return answer_null(message);
  answer(message, [&text](JsonWriter& json) {
    begin_object(json);
    write_key(json, "contents");
    begin_object(json);
    write_member(json, "kind", "markdown");
    write_member(json, "value", text);
    end_object(json);
    end_object(json);
  });
}

void write_completion(JsonWriter& json, const CompletionItem& item, const TextLines& lines, size_t begin, size_t end) {
  constexpr int kValue = 12, kReference = 18;
  begin_object(json);
  write_member(json, "label", item.label);
  write_member(json, "kind", item.kind == CompletionItem::Kind::Style ? kValue : kReference);
  write_member(json, "detail", item.detail);
  write_member(json, "filterText", item.filter);
  write_key(json, "documentation");
  begin_object(json);
  write_member(json, "kind", "markdown");
  write_member(json, "value", item.documentation);
  end_object(json);
  write_key(json, "textEdit");
  begin_object(json);
  write_key(json, "range");
  write_range(json, lines, begin, end);
  write_member(json, "newText", item.text);
  end_object(json);
  end_object(json);
}

void complete(Server& server, const EditorMessage& message) {
  size_t offset = 0;
  OpenPlan* open = place_of(server, message, offset);
  if (open == nullptr) return;
  EditorAnalysis& analysis = analysis_of(server, *open);
  const TextLines lines = lines_of(open->text);
  const char sign = analysis.session == nullptr ? '.' : separator(analysis.session->compilation.graph.framework);
  const Completion completion = complete_plan(lines, offset, paths_of(analysis), sign);
  answer(message, [&](JsonWriter& json) {
    begin_object(json);
    write_member(json, "isIncomplete", completion.is_incomplete);
    write_key(json, "items");
    write_array(json, completion.items,
                [&](const CompletionItem& item) { write_completion(json, item, lines, completion.begin, offset); });
    end_object(json);
  });
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
    write_member(json, "newText", edit.text);
    end_object(json);
  });
  end_object(json);
  end_object(json);
}

// What a finding in the range proposes, and rules where it is about what no rule covers.
void write_actions(JsonWriter& json, const EditorAnalysis& analysis, const std::string& uri, size_t begin, size_t end) {
  const TextLines lines = lines_of(analysis.plan.text);
  bool wants_rules = false;
  begin_array(json);
  for (size_t i = 0; i < analysis.diagnostics.list.size(); ++i) {
    const Diagnostic& d = analysis.diagnostics.list[i];
    if (d.span.file != analysis.plan.id || d.span.offset > end || d.span.offset + d.span.length < begin) continue;
    wants_rules |= d.code == Code::TP4006 || d.code == Code::TP4007;
    const std::vector<TextEdit> edits = text_edits(analysis.plan, d);
    if (edits.empty()) continue;
    begin_object(json);
    write_member(json, "title", valid_utf8(escape_for_terminal(d.help.empty() ? d.message : d.help)));
    write_member(json, "kind", "quickfix");
    write_member(json, "isPreferred", is_sure(d.code));
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
      write_member(json, "title",
                   fmt::format("write {} for what no rule covers", counted(suggestion.rules.size(), "rule")));
      write_member(json, "kind", "quickfix");
      write_edits(json, uri, lines, suggestion.edits);
      end_object(json);
    }
  }
  end_array(json);
}

void act(Server& server, const EditorMessage& message) {
  OpenPlan* open = document_of(server, message);
  if (open == nullptr || !is_plan_document(*open, server.arguments)) return answer_null(message);
  size_t begin = 0, end = 0;
  if (!read_range(message.params, 0, lines_of(open->text), begin, end))
    return refuse(message, RpcError::InvalidParams, "`range` is no range");
  const EditorAnalysis& analysis = analysis_of(server, *open);
  answer(message, [&](JsonWriter& json) { write_actions(json, analysis, open->uri, begin, end); });
}

// ---- from the first message to the last ----

// The model that the editor's settings name, from the folder that is open in it.
void read_options(Server& server, const JsonTree& params) {
  if (params.nodes.empty() || params.nodes[0].kind != JsonKind::Object) return;
  const uint32_t options = find_member(params, 0, "initializationOptions");
  const std::string_view model = options == 0 ? std::string_view() : text_member(params, options, "model");
  if (model.empty()) return;
  const std::filesystem::path root = path_of_uri(text_member(params, 0, "rootUri"));
  server.arguments.model = (root / model).string();
}

void initialize(Server& server, const EditorMessage& message) {
  read_options(server, message.params);
  server.state = ServerState::Running;
  static constexpr int kWholeTexts = 1;
  answer(message, [](JsonWriter& json) {
    begin_object(json);
    write_key(json, "capabilities");
    begin_object(json);
    write_member(json, "positionEncoding", "utf-16");
    write_key(json, "textDocumentSync");
    begin_object(json);
    write_member(json, "openClose", true);
    write_member(json, "change", kWholeTexts);
    write_member(json, "save", true);
    end_object(json);
    write_member(json, "hoverProvider", true);
    write_key(json, "completionProvider");
    begin_object(json);
    write_key(json, "triggerCharacters");
    write_array(json, std::vector<std::string_view>{"\"", "'", ".", " "});
    end_object(json);
    write_key(json, "codeActionProvider");
    begin_object(json);
    write_key(json, "codeActionKinds");
    write_array(json, std::vector<std::string_view>{"quickfix"});
    end_object(json);
    end_object(json);
    write_key(json, "serverInfo");
    begin_object(json);
    write_member(json, "name", "tpplan");
    write_member(json, "version", TPPLAN_VERSION);
    end_object(json);
    end_object(json);
  });
}

void shut_down(Server& server, const EditorMessage& message) {
  server.state = ServerState::ShutDown;
  server.open.clear();
  answer_null(message);
}

struct MethodRow {
  std::string_view name;
  void (*run)(Server& server, const EditorMessage& message);
};
constexpr MethodRow kRequests[] = {{"shutdown", shut_down},
                                   {"textDocument/hover", hover},
                                   {"textDocument/completion", complete},
                                   {"textDocument/codeAction", act}};
constexpr MethodRow kNotifications[] = {
    {"textDocument/didOpen", did_open},
    {"textDocument/didChange", did_change},
    {"textDocument/didClose", did_close},
    {"textDocument/didSave", [](Server& server, const EditorMessage&) { files_changed(server); }},
    {"workspace/didChangeWatchedFiles", [](Server& server, const EditorMessage&) { files_changed(server); }}};

template <typename Rows>
auto find_method(const Rows& rows, std::string_view name) {
  const auto* found = std::ranges::find(rows, name, &MethodRow::name);
  return found == std::end(rows) ? nullptr : found;
}

void take_request(Server& server, const EditorMessage& message) {
  if (server.state == ServerState::New && message.method == "initialize") return initialize(server, message);
  if (server.state == ServerState::New)
    return refuse(message, RpcError::ServerNotInitialized, "`initialize` comes first");
  if (server.state == ServerState::ShutDown) return refuse(message, RpcError::InvalidRequest, "`exit` comes next");
  if (message.method == "initialize") return refuse(message, RpcError::InvalidRequest, "`initialize` comes once");
  const MethodRow* row = find_method(kRequests, message.method);
  if (row == nullptr)
    return refuse(message, RpcError::MethodNotFound, fmt::format("there is no method `{}`", message.method));
  row->run(server, message);
}

// The exit status where this message is the last one.
std::optional<int> take_message(Server& server, std::string body) {
  EditorMessage message{.file = {.name = "message", .text = std::move(body)}};
  if (!read_message(message)) {
    refuse(message, message.fault, message.why);
    return std::nullopt;
  }
  const bool is_request = !message.id.nodes.empty();
  if (message.method == "exit") return server.state == ServerState::ShutDown ? kExitFine : kExitContent;
  if (message.method.empty()) {  // an answer is left unread: this server asks nothing
    if (message.file.text.find("\"result\"") == std::string::npos &&
        message.file.text.find("\"error\"") == std::string::npos)
      refuse(message, RpcError::InvalidRequest, "a message without `method`");
  } else if (is_request) {
    take_request(server, message);
  } else if (server.state == ServerState::Running) {
    const MethodRow* row = find_method(kNotifications, message.method);
    if (row != nullptr) row->run(server, message);
  }
  return std::nullopt;
}

bool has_input() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&input, 1, 0) > 0;
}

// Of texts that changed, once nothing more has come: who types is not told of every letter.
void publish_changed(Server& server) {
  for (auto& [uri, open] : server.open) {
    if (!open.is_told) publish(server, open);
  }
}

// False at the end of the input.
bool read_input(Server& server) {
  char bytes[size_t{64} << 10];
  ssize_t got = 0;
  do {
    got = read(STDIN_FILENO, bytes, sizeof bytes);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  add_bytes(server.input, {bytes, static_cast<size_t>(got)});
  return true;
}

}  // namespace

int cmd_lsp(const EditorArguments& arguments) {
  Server server{.arguments = arguments};
  std::string body;
  for (;;) {
    while (take_frame(server.input, body)) {
      if (const std::optional<int> status = take_message(server, std::move(body))) return *status;
      if (lost_output() != 0) return kExitUsage;
    }
    if (!server.input.fault.empty()) return usage_error(fmt::format("lsp: {}", server.input.fault));
    if (!has_input()) publish_changed(server);
    if (!read_input(server))
      return server.input.at < server.input.bytes.size() || server.input.awaited
                 ? usage_error("lsp: the input ends within a message")
             : server.state == ServerState::ShutDown ? kExitFine
                                                     : kExitContent;
  }
}

}  // namespace tpplan
