// Where output goes, and how it may look there.
#pragma once

#include <string>
#include <string_view>

#include "base/write_file.h"
#include "render/render.h"

namespace tpplan {

enum class ColorChoice { Auto, Always, Never };

// How diagnostics and tables look on one of the standard streams. Auto colours a terminal unless NO_COLOR is set (to
// anything but nothing, no-color.org), TERM is dumb, or CLICOLOR is 0; FORCE_COLOR and CLICOLOR_FORCE colour a pipe
// too.
[[nodiscard]] RenderOptions render_options(int descriptor, ColorChoice choice);

// True when the locale's characters are UTF-8: LC_ALL, else LC_CTYPE, else LANG.
[[nodiscard]] bool is_utf8_locale();

// Writes all of it; false when the stream takes no more (a closed pipe, a full disk), which is noted for standard
// output.
bool print(int descriptor, std::string_view text);

// The same on standard output with what `produce` sends, piece by piece.
[[nodiscard]] bool print_pieces(const Producer& produce);

// The reason why standard output took no more, 0 while it takes everything.
[[nodiscard]] int lost_output();

}  // namespace tpplan
