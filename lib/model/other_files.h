// Files of other kinds that people give as a model.
#pragma once

#include <string_view>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"

namespace tpplan {

// When the file is one of those that are known: takes what was said of it back and says what it is (TP2001), and how a
// model is made of it. Reads no more than its beginning.
[[nodiscard]] bool report_other_file(const SourceFile& file, Diagnostics& diagnostics);

// As which format `tpplan import` makes a model of a file that begins so: "config", "safetensors". Empty for models,
// and for what it does not read.
[[nodiscard]] std::string_view import_format_of(std::string_view text);

}  // namespace tpplan
