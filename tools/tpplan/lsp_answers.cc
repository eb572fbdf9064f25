#include "lsp_answers.h"

#include <unistd.h>

#include "base/text.h"
#include "commands.h"
#include "editor/frames.h"

namespace tpplan {
namespace {

void write_position(JsonWriter& json, const EditorPosition& position) {
  begin_object(json);
  write_field(json, "line", position.line);
  write_field(json, "character", position.character);
  end_object(json);
}

}  // namespace

void send_message(const JsonWriter& json) { print_raw(STDOUT_FILENO, add_frame_header(json.out)); }

JsonWriter begin_message() {
  JsonWriter json;
  begin_object(json);
  write_field(json, "jsonrpc", "2.0");
  return json;
}

void reject_request(const EditorMessage& message, RpcError code, std::string_view why) {
  JsonWriter json = begin_message();
  write_key(json, "id");
  write_id(json, message.id);
  write_key(json, "error");
  begin_object(json);
  write_field(json, "code", static_cast<int>(code));
  write_field(json, "message", escape_for_terminal(why));
  end_object(json);
  end_object(json);
  send_message(json);
}

JsonWriter begin_answer(const EditorMessage& message) {
  JsonWriter json = begin_message();
  write_key(json, "id");
  write_id(json, message.id);
  write_key(json, "result");
  return json;
}

void answer_null(const EditorMessage& message) {
  answer_request(message, [](JsonWriter& json) { write_value(json, nullptr); });
}

void write_range(JsonWriter& json, const TextLines& lines, size_t begin, size_t end) {
  begin_object(json);
  write_key(json, "start");
  write_position(json, position_of(lines, begin));
  write_key(json, "end");
  write_position(json, position_of(lines, end));
  end_object(json);
}

void write_span(JsonWriter& json, const TextLines& lines, const SourceFile& plan, const Span& span) {
  const bool is_here = span.file == plan.id;
  write_range(json, lines, is_here ? span.offset : 0, is_here ? span.offset + span.length : 0);
}

}  // namespace tpplan
