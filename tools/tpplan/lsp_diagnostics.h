// The diagnostics of open plans in the language server.
#pragma once

#include <cstddef>
#include <string>

#include "editor/positions.h"
#include "lsp_server.h"
#include "render/render_parts.h"

namespace tpplan {

// Returns the analysis of the text. Computes it again after a change of the text or of other files.
[[nodiscard]] EditorAnalysis& analysis_of(Server& server, OpenPlan& open);

// Writes the diagnostic with this index as a JSON object.
void write_diagnostic(JsonWriter& json, const EditorAnalysis& analysis, size_t index, const TextLines& lines,
                      const std::string& uri);

void publish_diagnostics(Server& server, OpenPlan& open);

}  // namespace tpplan
