#include "lsp_documents.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "lsp_answers.h"

namespace tpplan {
namespace {

void forget_analysis(OpenPlan& open) {
  open.analysis.reset();
  open.is_notified = false;
}

}  // namespace

OpenPlan* document_of(Server& server, const EditorMessage& message) {
  if (message.params.nodes.empty() || message.params.nodes[0].kind != JsonKind::Object) return nullptr;
  const uint32_t document = find_json_field(message.params, 0, "textDocument");
  const auto found =
      document == 0 ? server.open.end() : server.open.find(string_field(message.params, document, "uri"));
  return found == server.open.end() ? nullptr : &found->second;
}

void did_open(Server& server, const EditorMessage& message) {
  if (message.params.nodes.empty() || message.params.nodes[0].kind != JsonKind::Object) return;
  const uint32_t document = find_json_field(message.params, 0, "textDocument");
  const std::string uri(document == 0 ? "" : string_field(message.params, document, "uri"));
  if (uri.empty()) return;
  OpenPlan& open = server.open[uri];
  open = {.uri = uri,
          .path = path_of_uri(uri),
          .text = std::string(string_field(message.params, document, "text")),
          .version = number_field(message.params, document, "version", 0),
          .analysis = nullptr};
}

bool read_position(const JsonTree& tree, uint32_t parent, std::string_view key, EditorPosition& position) {
  const uint32_t at = find_json_field(tree, parent, key);
  const int64_t line = at == 0 ? -1 : number_field(tree, at, "line", -1);
  const int64_t character = at == 0 ? -1 : number_field(tree, at, "character", -1);
  position = {static_cast<size_t>(line), static_cast<size_t>(character)};
  return line >= 0 && character >= 0;
}

bool read_range(const JsonTree& tree, uint32_t parent, const TextLines& lines, size_t& begin, size_t& end) {
  const uint32_t range = find_json_field(tree, parent, "range");
  EditorPosition from, to;
  if (range == 0 || tree.nodes[range].kind != JsonKind::Object || !read_position(tree, range, "start", from) ||
      !read_position(tree, range, "end", to))
    return false;
  begin = offset_of(lines, from);
  end = std::max(begin, offset_of(lines, to));
  return true;
}

void did_change(Server& server, const EditorMessage& message) {
  OpenPlan* open = document_of(server, message);
  if (open == nullptr) return;
  const JsonTree& params = message.params;
  open->version = number_field(params, find_json_field(params, 0, "textDocument"), "version", open->version);
  const uint32_t changes = find_json_field(params, 0, "contentChanges");
  if (changes == 0 || params.nodes[changes].kind != JsonKind::Array) return;
  for (uint32_t at = changes + 1; at < params.nodes[changes].end; at = params.nodes[at].end) {
    if (params.nodes[at].kind != JsonKind::Object || find_json_field(params, at, "text") == 0) continue;
    size_t begin = 0, end = open->text.size();
    std::ignore = read_range(params, at, lines_of(open->text), begin, end);
    open->text.replace(begin, end - begin, string_field(params, at, "text"));
  }
  forget_analysis(*open);
}

void files_changed(Server& server) {
  for (auto& [uri, open] : server.open) forget_analysis(open);
}

void did_close(Server& server, const EditorMessage& message) {
  OpenPlan* open = document_of(server, message);
  if (open == nullptr) return;
  JsonWriter json = begin_message();
  write_field(json, "method", "textDocument/publishDiagnostics");
  write_key(json, "params");
  begin_object(json);
  write_field(json, "uri", open->uri);
  write_key(json, "diagnostics");
  write_array(json, std::vector<int>{});
  end_object(json);
  end_object(json);
  send_message(json);
  server.open.erase(server.open.find(open->uri));
}

}  // namespace tpplan
