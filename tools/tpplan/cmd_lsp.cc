// A language server for plans: the Language Server Protocol 3.17 over standard input and output.
#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "base/version.h"
#include "lsp_answers.h"
#include "lsp_diagnostics.h"
#include "lsp_documents.h"
#include "lsp_requests.h"
#include "lsp_server.h"

namespace tpplan {
namespace {

// Reads the model from the editor's settings. Its path is relative to the folder that the editor has open.
void read_options(Server& server, const JsonTree& params) {
  if (params.nodes.empty() || params.nodes[0].kind != JsonKind::Object) return;
  const uint32_t options = find_json_field(params, 0, "initializationOptions");
  const std::string_view model = options == 0 ? std::string_view() : string_field(params, options, "model");
  if (model.empty()) return;
  const std::filesystem::path root = path_of_uri(string_field(params, 0, "rootUri"));
  server.arguments.model = (root / model).string();
}

void initialize(Server& server, const EditorMessage& message) {
  read_options(server, message.params);
  server.state = ServerState::Running;
  static constexpr int kReplicatedTexts = 1;
  answer_request(message, [](JsonWriter& json) {
    begin_object(json);
    write_key(json, "capabilities");
    begin_object(json);
    write_field(json, "positionEncoding", "utf-16");
    write_key(json, "textDocumentSync");
    begin_object(json);
    write_field(json, "openClose", true);
    write_field(json, "change", kReplicatedTexts);
    write_field(json, "save", true);
    end_object(json);
    write_field(json, "hoverProvider", true);
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
    write_field(json, "name", "tpplan");
    write_field(json, "version", TPPLAN_VERSION);
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
                                   {"textDocument/hover", answer_hover},
                                   {"textDocument/completion", answer_completion},
                                   {"textDocument/codeAction", answer_actions}};
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
    return reject_request(message, RpcError::ServerNotInitialized, "`initialize` must be the first request");
  if (server.state == ServerState::ShutDown)
    return reject_request(message, RpcError::InvalidRequest, "only `exit` may follow `shutdown`");
  if (message.method == "initialize")
    return reject_request(message, RpcError::InvalidRequest, "`initialize` was already sent");
  const MethodRow* row = find_method(kRequests, message.method);
  if (row == nullptr)
    return reject_request(message, RpcError::MethodNotFound, fmt::format("there is no method `{}`", message.method));
  row->run(server, message);
}

// Handles a message. Returns the exit status if it is the last one.
std::optional<int> take_message(Server& server, std::string body) {
  EditorMessage message{.file = {.name = "message", .text = std::move(body)}};
  if (!read_message(message)) {
    reject_request(message, message.fault, message.why);
    return std::nullopt;
  }
  const bool is_request = !message.id.nodes.empty();
  if (message.method == "exit") return server.state == ServerState::ShutDown ? kExitFine : kExitContent;
  if (message.method.empty()) {  // responses are ignored, because this server sends no requests
    if (message.file.text.find("\"result\"") == std::string::npos &&
        message.file.text.find("\"error\"") == std::string::npos)
      reject_request(message, RpcError::InvalidRequest, "the message has no `method`");
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

// Publishes the diagnostics of changed texts. The caller waits until no input is pending, so that not every typed
// letter causes a check.
void publish_changed(Server& server) {
  for (auto& [uri, open] : server.open) {
    if (!open.is_notified) publish_diagnostics(server, open);
  }
}

// Reads available input. Returns false at its end.
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
                 ? usage_error("lsp: the input ends inside a message")
             : server.state == ServerState::ShutDown ? kExitFine
                                                     : kExitContent;
  }
}

}  // namespace tpplan
