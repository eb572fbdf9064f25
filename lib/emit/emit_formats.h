// The table of export formats, with the facts about a parameter that each cannot express.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "diagnostics/diagnostics.h"
#include "emit/format_limit.h"

namespace tpplan {

// A format. `write` sends everything that the format can express about the manifest's parameters to the sink. Buffers
// are replicated and omitted.
struct EmitFormat {
  std::string_view name;
  bool (*write)(const Manifest& manifest, const Sink& sink);
  bool (*write_python)(const Manifest& manifest, const Sink& sink);  // nullptr: the format has no Python form
  std::span<const FormatLimit> limits;
  int64_t max_ranks;  // limit of formats that list every rank for every parameter
  std::string_view description;
};

[[nodiscard]] std::span<const EmitFormat> emit_formats();

// Returns nullptr if there is no format of that name.
[[nodiscard]] const EmitFormat* find_emit_format(std::string_view name);

// Reports what an export to `format` loses: one TP7003 for each limit that a parameter exceeds, with the first
// parameter and a count; as warnings if `lossy`, otherwise as errors. `file`: the manifest file.
void check_format_limits(const Manifest& manifest, const SourceFile& file, const EmitFormat& format, bool lossy,
                         Diagnostics& diagnostics);

}  // namespace tpplan
