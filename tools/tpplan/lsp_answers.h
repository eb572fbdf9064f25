// Writes the messages of the language server to standard output: responses, errors, ranges.
#pragma once

#include <string_view>

#include "editor/message.h"
#include "editor/positions.h"
#include "render/render_parts.h"

namespace tpplan {

void send_message(const JsonWriter& json);

// Begins a message. The caller writes its fields and ends the object.
[[nodiscard]] JsonWriter begin_message();

void reject_request(const EditorMessage& message, RpcError code, std::string_view why);

// Begins a response. The caller writes its result as one value and ends the object.
[[nodiscard]] JsonWriter begin_answer(const EditorMessage& message);

// Sends a response. `write` writes its result as one value.
template <typename Write>
void answer_request(const EditorMessage& message, Write write) {
  JsonWriter json = begin_answer(message);
  write(json);
  end_object(json);
  send_message(json);
}

void answer_null(const EditorMessage& message);

// Writes a range of bytes as a range of the protocol.
void write_range(JsonWriter& json, const TextLines& lines, size_t begin, size_t end);

// Writes a span of the plan as a range. A span of another file becomes the beginning of the plan.
void write_span(JsonWriter& json, const TextLines& lines, const SourceFile& plan, const Span& span);

}  // namespace tpplan
