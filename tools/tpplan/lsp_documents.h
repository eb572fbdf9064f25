// Tracks the documents that are open in the editor, and reads positions in them from messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "editor/message.h"
#include "editor/positions.h"
#include "lsp_server.h"

namespace tpplan {

// Returns the open document of a request, or nullptr.
[[nodiscard]] OpenPlan* document_of(Server& server, const EditorMessage& message);

// Reads the position in the field `key`. Returns false if it is not a position.
[[nodiscard]] bool read_position(const JsonTree& tree, uint32_t parent, std::string_view key, EditorPosition& position);
// Reads the field `range` as byte offsets. Returns false if it is not a range.
[[nodiscard]] bool read_range(const JsonTree& tree, uint32_t parent, const TextLines& lines, size_t& begin,
                              size_t& end);

void did_open(Server& server, const EditorMessage& message);
// Applies the changes of a document. The server requests full texts, but a change with a range is applied, too.
void did_change(Server& server, const EditorMessage& message);
void did_close(Server& server, const EditorMessage& message);
// Discards all analyses, because models or settings may have changed.
void files_changed(Server& server);

}  // namespace tpplan
