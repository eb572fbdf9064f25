// Diagnostics as text for people and as JSON for programs: the same findings in each. The formats of other programs
// have headers of their own; formats.h lists them all.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "diagnostics/fault.h"
#include "diagnostics/text_edits.h"
#include "syntax/json_writer.h"

namespace tpplan {

struct KnownPlace {
  uint64_t offset = 0;
  LineColumn place;
};

// The inputs that spans point into, by id: file 1 stands first, nullptr where there is none. `known` is filled while
// rendering: the places that findings name, by offset.
struct Sources {
  std::vector<const SourceFile*> files;
  std::vector<std::vector<KnownPlace>> known;
};

// These files, each at its id. One that was never opened has kNoFile, and is left out.
[[nodiscard]] Sources sources_of(std::span<const SourceFile* const> files);
[[nodiscard]] inline Sources sources_of(const SourceFile& file) { return sources_of({{&file}}); }

// nullptr for kNoFile, and for a file that is not of these sources.
[[nodiscard]] const SourceFile* find_file(const Sources& sources, FileId id);

struct RenderOptions {
  bool color = false;
  size_t width = 80;  // columns; source lines are shown through a window of this width, notes and help wrapped to it
};

// How many findings there are of each severity.
struct FindingCounts {
  size_t errors = 0, warnings = 0;
};

// For each diagnostic: `plan.yaml:6:25: error[TP5001]: message`, then the source line with carets and the label, notes
// and the help line. Ends with a line break; empty without diagnostics.
[[nodiscard]] std::string render_human(const Diagnostics& diagnostics, const Sources& sources,
                                       const RenderOptions& options);

// A fault of the executor in the same form: `manifest.json: error[TP8008]: message`, a note of rank and step, the help
// line. `place` stands where the fault names none.
[[nodiscard]] std::string render_human(const Fault& fault, std::string_view place, const RenderOptions& options);

// A member of the document behind the findings.
struct DocumentMember {
  std::string_view name;
  std::string json;
};

// Edits of a file, as the array that the document has of them.
void write_edits(JsonWriter& json, const SourceFile& file, std::span<const TextEdit> edits);

// One document of schemas/diagnostics.schema.json.
[[nodiscard]] std::string render_json(const Diagnostics& diagnostics, const Sources& sources,
                                      std::span<const DocumentMember> members = {});

// The same document of findings that are written already, each of them a line of render_jsonl without its end.
[[nodiscard]] std::string render_document(std::span<const std::string> findings, const FindingCounts& counts,
                                          std::span<const DocumentMember> members = {});

// JSON Lines: the findings of that document, each on a line of its own.
[[nodiscard]] std::string render_jsonl(const Diagnostics& diagnostics, const Sources& sources);

// The line of a fault. Its place is the beginning of the file that it names, else of `place`; without either there is
// none.
[[nodiscard]] std::string render_jsonl(const Fault& fault, std::string_view place);

// "2 errors, 1 warning", or empty.
[[nodiscard]] std::string count_findings(const Diagnostics& diagnostics);

}  // namespace tpplan
