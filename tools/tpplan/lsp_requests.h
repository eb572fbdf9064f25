// Answers the requests of the editor about a position in a plan: hover, completion and code actions.
#pragma once

#include "editor/message.h"
#include "lsp_server.h"

namespace tpplan {

void answer_hover(Server& server, const EditorMessage& message);
void answer_completion(Server& server, const EditorMessage& message);
void answer_actions(Server& server, const EditorMessage& message);

}  // namespace tpplan
