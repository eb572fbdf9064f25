// Renders diagnostics as human-readable text and as JSON. The formats of other programs have separate headers.
// formats.h lists all formats.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/fault.h"
#include "diagnostics/text_edits.h"
#include "render/render_parts.h"
#include "text/json_writer.h"

namespace tpplan {

struct RenderOptions {
  bool color = false;
  size_t width = 80;  // columns; source lines are clipped to it, notes and help are wrapped to it
};

// Returns the diagnostics as text. Each has the line `plan.yaml:6:25: error[TP5001]: message`, the source line with
// carets and the label, the notes and the help. Ends with a line break. Empty without diagnostics.
[[nodiscard]] std::string render_human(const Diagnostics& diagnostics, const Sources& sources,
                                       const RenderOptions& options);

// Returns an error of the executor in the same form: `manifest.json: error[TP8008]: message`, a note with rank and
// step, and the help. `place` is used if the error has no place.
[[nodiscard]] std::string render_human(const Fault& fault, std::string_view place, const RenderOptions& options);

// A field of the JSON document after the diagnostics.
struct DocumentField {
  std::string_view name;
  std::string json;
};

// Writes the edits of a file as a JSON array.
void write_edits(JsonWriter& json, const SourceFile& file, std::span<const TextEdit> edits);

// Returns a JSON document that conforms to schemas/diagnostics.schema.json.
[[nodiscard]] std::string render_json(const Diagnostics& diagnostics, const Sources& sources,
                                      std::span<const DocumentField> fields = {});

// Returns the document of render_json from rendered diagnostics: lines of render_jsonl without their line breaks.
[[nodiscard]] std::string render_document(std::span<const std::string> findings, const DiagnosticCounts& counts,
                                          std::span<const DocumentField> fields = {});

// Returns the diagnostics of render_json as JSON Lines, one diagnostic per line.
[[nodiscard]] std::string render_jsonl(const Diagnostics& diagnostics, const Sources& sources);

// Returns the line of an executor error. It points to the beginning of the error's file, or of `place` if the error has
// no file. It has no location if both are empty.
[[nodiscard]] std::string render_jsonl(const Fault& fault, std::string_view place);

// Returns a text such as "2 errors, 1 warning"; empty without diagnostics.
[[nodiscard]] std::string count_diagnostics(const Diagnostics& diagnostics);

}  // namespace tpplan
