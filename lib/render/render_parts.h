// What the formats are put together from: places, remarks, fingerprints, and texts that are safe to pass on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "render/render.h"

namespace tpplan {

[[nodiscard]] std::string_view severity_name(Severity severity);

[[nodiscard]] FindingCounts counts_of(const Diagnostics& diagnostics);
// "2 errors, 1 warning", or empty.
[[nodiscard]] std::string to_text(const FindingCounts& counts);

// The same sources with the places of all spans in `known`: one pass over each file, however many findings there are.
[[nodiscard]] Sources locate(const Diagnostics& diagnostics, Sources sources);

// A half-open run of columns, from 1.
struct Columns {
  size_t begin = 1, end = 1;
};

// Where a span stands, in bytes. One that crosses the end of its line ends there. `file` is nullptr for what has no
// place.
struct Place {
  const SourceFile* file = nullptr;
  uint64_t offset = 0;
  size_t line = 1;
  Columns columns;
};
[[nodiscard]] Place place_of(const Span& span, const Sources& sources);

// The columns of a place that has a file, counted in code points.
[[nodiscard]] Columns code_point_columns(const Place& place);

// The file that a finding is about: where it stands. Without a place the one that was opened last, which is the plan
// of a model and a plan, for formats that insist on a file. nullptr when there is neither.
[[nodiscard]] const SourceFile* file_about(const Span& span, const Sources& sources);

// "plan.yaml:6:25", or "tpplan" for what has no place.
[[nodiscard]] std::string place_text(const Span& span, const Sources& sources);

// What stands below the message: the notes with their places, how often the cause was seen, the help.
struct Remark {
  std::string_view kind;  // "note" or "help"
  std::string text;
};
[[nodiscard]] std::vector<Remark> remarks_of(const Diagnostic& diagnostic, const Sources& sources);

// All that a finding says, in one text: "message (label)", "note: text", "help: text", joined by `separator`. Names in
// it are escaped, so that none of them can start a line of its own.
[[nodiscard]] std::string whole_text(const Diagnostic& diagnostic, const Sources& sources, std::string_view separator);

// A name for each finding that stays the same when lines above it come and go: made of its code, its file, the text
// around it, and a number among those that agree in all that. 32 hexadecimal digits, no two alike.
[[nodiscard]] std::vector<std::string> fingerprints(const Diagnostics& diagnostics, const Sources& sources);

// The name of a file as repositories write paths: without `./` before it.
[[nodiscard]] std::string_view repository_path(std::string_view name);

// `text` with U+FFFD for every byte that is not UTF-8: file names may hold any bytes.
[[nodiscard]] std::string valid_utf8(std::string_view text);

}  // namespace tpplan
