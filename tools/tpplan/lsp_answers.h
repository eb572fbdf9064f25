// Messages of the language server, to its standard output, and the forms that they share: answers, refusals, places.
#pragma once

#include <string_view>

#include "editor/message.h"
#include "editor/positions.h"
#include "render/render_parts.h"

namespace tpplan {

void send_message(const JsonWriter& json);

// A message that has begun: who writes its last member ends it.
[[nodiscard]] JsonWriter begin_message();

void refuse_request(const EditorMessage& message, RpcError code, std::string_view why);

// An answer that has begun: its result, one value, comes next.
[[nodiscard]] JsonWriter begin_answer(const EditorMessage& message);

// Answers with what `write` makes of a writer: one value.
template <typename Write>
void answer_request(const EditorMessage& message, Write write) {
  JsonWriter json = begin_answer(message);
  write(json);
  end_object(json);
  send_message(json);
}

void answer_null(const EditorMessage& message);

// Bytes of a text, as the protocol counts them.
void write_range(JsonWriter& json, const TextLines& lines, size_t begin, size_t end);

// A span of the plan; what stands elsewhere is shown where the plan begins.
void write_span(JsonWriter& json, const TextLines& lines, const SourceFile& plan, const Span& span);

}  // namespace tpplan
