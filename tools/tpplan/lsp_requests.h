// Questions of the editor about a place in a plan: what it means, what may stand there, what would mend it.
#pragma once

#include "editor/message.h"
#include "lsp_server.h"

namespace tpplan {

void answer_hover(Server& server, const EditorMessage& message);
void answer_completion(Server& server, const EditorMessage& message);
void answer_actions(Server& server, const EditorMessage& message);

}  // namespace tpplan
