// Output to terminals and files, with its colours.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/paint_lines.h"
#include "base/text.h"
#include "base/write_file.h"
#include "render/render.h"

namespace tpplan {

enum class ColorChoice { Auto, Always, Never };

// Returns the options for diagnostics and tables on a standard stream. Auto uses colours on a terminal unless NO_COLOR
// is set and nonempty (no-color.org), TERM is dumb, or CLICOLOR is 0. FORCE_COLOR and CLICOLOR_FORCE enable them on a
// pipe.
[[nodiscard]] RenderOptions render_options(int descriptor, ColorChoice choice);

// True if the character set of the locale is UTF-8: LC_ALL, else LC_CTYPE, else LANG.
[[nodiscard]] bool is_utf8_locale();

// Writes human-readable text, escaped by escape_lines, so that names need not be trusted. Returns false if the stream
// failed (a closed pipe, a full disk), and remembers that for standard output.
bool print(int descriptor, std::string_view text, EscapeOptions look = {});

// Writes diagnostics in human-readable form.
bool print_diagnostics(int descriptor, const Diagnostics& diagnostics, const Sources& sources, ColorChoice choice);

// Writes machine-readable text unchanged: JSON, scripts, formats with their own escapes.
bool print_raw(int descriptor, std::string_view text);

// Writes human-readable text to standard output, with its lines coloured by `rows` if colours are enabled.
[[nodiscard]] bool print_painted(std::string_view text, std::span<const LineColor> rows, ColorChoice choice);

// Writes the chunks of `produce` to standard output: human-readable text, with codes of paint() for Painted, or
// machine-readable text.
enum class PrintedAs { Text, Painted, Raw };
[[nodiscard]] bool print_parts(PrintedAs as, const Producer& produce);

// Returns the errno of the first failure of standard output; 0 if there was none.
[[nodiscard]] int lost_output();

}  // namespace tpplan
