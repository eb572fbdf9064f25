// What the language server says of a plan that is open: the findings of its text as it stands.
#pragma once

#include <cstddef>
#include <string>

#include "editor/positions.h"
#include "lsp_server.h"
#include "render/render_parts.h"

namespace tpplan {

// What the text comes to, made anew where it, or a file beside it, has changed.
[[nodiscard]] EditorAnalysis& analysis_of(Server& server, OpenPlan& open);

// The finding of that number, as an object.
void write_diagnostic(JsonWriter& json, const EditorAnalysis& analysis, size_t index, const TextLines& lines,
                      const std::string& uri);

void publish_findings(Server& server, OpenPlan& open);

}  // namespace tpplan
