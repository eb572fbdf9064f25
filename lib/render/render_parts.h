// Parts that the formats share: locations, notes, fingerprints and sanitized text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"

namespace tpplan {

struct KnownPlace {
  uint64_t offset = 0;
  LineColumn place;
};

// The input files that spans refer to. `files[id - 1]` is the file with this id, or nullptr. locate() fills `known`,
// per file, with the locations of all spans in ascending order of offsets.
struct Sources {
  std::vector<const SourceFile*> files;
  std::vector<std::vector<KnownPlace>> known;
};

// Returns the sources of these files, indexed by id. A file that was never opened has the id kNoFile and is skipped.
[[nodiscard]] Sources sources_of(std::span<const SourceFile* const> files);
[[nodiscard]] inline Sources sources_of(const SourceFile& file) { return sources_of({{&file}}); }

// Returns the file with this id; nullptr for kNoFile and for a file that is not in `sources`.
[[nodiscard]] const SourceFile* find_file(const Sources& sources, FileId id);

// Returns the plan, which follows the model, else the last file; nullptr if there are no files.
[[nodiscard]] const SourceFile* plan_of(const Sources& sources);

// One check of several: a model and a plan, and the mesh if it replaces the mesh of the plan.
struct CheckedPlan {
  std::string model, plan, mesh;
  bool has_passed = true;
  std::string result;     // "passed", "1 error", ...
  std::string unchecked;  // the skipped checks; may be empty
};
// Returns a text such as "model.json plan.yaml on tp=2". Control characters are escaped.
[[nodiscard]] std::string check_name(const CheckedPlan& check);
// Returns the result and the skipped checks: "passed, without operations, gradients and collectives".
[[nodiscard]] std::string check_result(const CheckedPlan& check);

// The number of diagnostics of each severity.
struct DiagnosticCounts {
  size_t errors = 0, warnings = 0;
};

[[nodiscard]] std::string_view severity_name(Severity severity);

[[nodiscard]] DiagnosticCounts counts_of(const Diagnostics& diagnostics);
// Returns a text such as "2 errors, 1 warning"; empty if both counts are 0.
[[nodiscard]] std::string to_text(const DiagnosticCounts& counts);

// Returns `sources` with the locations of all spans in `known`.
[[nodiscard]] Sources locate(const Diagnostics& diagnostics, Sources sources);

// A half-open range of columns, counted from 1.
struct Columns {
  size_t begin = 1, end = 1;
};

// The location of a span; columns count bytes. A span of several lines is clipped at the end of its first line. `file`
// is nullptr if the span has no location.
struct Place {
  const SourceFile* file = nullptr;
  uint64_t offset = 0;
  size_t line = 1;
  Columns columns;
};
[[nodiscard]] Place place_of(const Span& span, const Sources& sources);

// Returns the columns of a place, counted in code points. @pre `place.file` is not nullptr.
[[nodiscard]] Columns code_point_columns(const Place& place);

// Returns the file of a span, for formats that require a file. A span without a location gets the last file, which is
// the plan when a model and a plan are checked. Returns nullptr without files.
[[nodiscard]] const SourceFile* file_about(const Span& span, const Sources& sources);

// Returns a text such as "plan.yaml:6:25", or "tpplan" for a span without a location.
[[nodiscard]] std::string place_text(const Span& span, const Sources& sources);

// A line below the message: a note with its location, a count of further diagnostics, or the help.
struct Remark {
  std::string_view kind;  // "note" or "help"
  std::string text;
};
[[nodiscard]] std::vector<Remark> remarks_of(const Diagnostic& diagnostic, const Sources& sources);

// Returns the full text of a diagnostic: "message (label)", "note: text" and "help: text", joined by `separator`.
// Control characters are escaped, so that a name cannot start a new line.
[[nodiscard]] std::string full_text(const Diagnostic& diagnostic, const Sources& sources, std::string_view separator);

// Returns a unique fingerprint of 32 hexadecimal digits for each diagnostic. It hashes the code, the file, the
// surrounding text of the line, and an index among diagnostics that agree in these. It does not depend on line numbers.
[[nodiscard]] std::vector<std::string> fingerprints(const Diagnostics& diagnostics, const Sources& sources);

// Returns a file name without a leading `./`, as repositories write paths.
[[nodiscard]] std::string_view repository_path(std::string_view name);

// Returns `text` with every byte that is not UTF-8 replaced by U+FFFD. File names can contain any bytes.
[[nodiscard]] std::string valid_utf8(std::string_view text);

}  // namespace tpplan
