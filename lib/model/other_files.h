// Detects files of other kinds that users pass as a model.
#pragma once

#include <string_view>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"

namespace tpplan {

// Recognizes known file kinds by their first bytes. Replaces all diagnostics of the file by TP2001, which names the
// kind and how to convert it to a model. Returns false for unknown kinds.
[[nodiscard]] bool report_other_file(const SourceFile& file, Diagnostics& diagnostics);

// Returns the `tpplan import` format of a file with this text: "config" or "safetensors". Empty for model files and for
// files that it cannot import.
[[nodiscard]] std::string_view import_format_of(std::string_view text);

}  // namespace tpplan
