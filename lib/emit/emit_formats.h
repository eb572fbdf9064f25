// Manifest -> the sharding files of other programs: the table of formats, and what each of them cannot say.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/write_file.h"
#include "diagnostics/diagnostics.h"
#include "manifest/manifest.h"

namespace tpplan {

// Something that a format cannot say of a parameter. `what` ends the sentence "FORMAT cannot say that ..." and has the
// parameter's path in the place of `{}`; `instead` is a sentence about what a lossy export has in its stead.
struct LossRow {
  bool (*is_lost)(const ParamLayout& layout, const Mesh& mesh);
  std::string_view what;
  std::string_view instead;
};

// One row a format. `write` sends all that the format can say of the manifest's parameters to the sink; buffers stand
// on every rank whole and are left out.
struct EmitFormat {
  std::string_view name;
  bool (*write)(const Manifest& manifest, const Sink& sink);
  bool (*write_python)(const Manifest& manifest, const Sink& sink);  // nullptr: the format has no Python form
  std::span<const LossRow> losses;
  int64_t max_ranks;  // formats that list every rank for every parameter end here
  std::string_view description;
};

[[nodiscard]] std::span<const EmitFormat> emit_formats();

// nullptr when there is no format of that name.
[[nodiscard]] const EmitFormat* find_emit_format(std::string_view name);

// Reports what an export to `format` would lose: one TP7003 a kind of loss, with the first parameter and a count. They
// are warnings when the loss is wanted (`lossy`), otherwise errors. `file` is what the manifest was read from.
void check_losses(const Manifest& manifest, const SourceFile& file, const EmitFormat& format, bool lossy,
                  Diagnostics& diagnostics);

}  // namespace tpplan
