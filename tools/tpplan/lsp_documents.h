// The texts that the editor has open, as its messages bring them, and places in them that a message names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "editor/message.h"
#include "editor/positions.h"
#include "lsp_server.h"

namespace tpplan {

// The open document that a request is about, or nullptr.
[[nodiscard]] OpenPlan* document_of(Server& server, const EditorMessage& message);

// False where the member is no place.
[[nodiscard]] bool read_position(const JsonTree& tree, uint32_t parent, std::string_view key, EditorPosition& position);
// The bytes of a member that is a range.
[[nodiscard]] bool read_range(const JsonTree& tree, uint32_t parent, const TextLines& lines, size_t& begin,
                              size_t& end);

void did_open(Server& server, const EditorMessage& message);
// Whole texts, as this server asks for; what an editor sends of a part is put there.
void did_change(Server& server, const EditorMessage& message);
void did_close(Server& server, const EditorMessage& message);
// Models and settings may be other ones now.
void files_changed(Server& server);

}  // namespace tpplan
