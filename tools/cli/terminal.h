// Where output goes, and how it may look there.
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

// How diagnostics and tables look on one of the standard streams. Auto colours a terminal unless NO_COLOR is set (to
// anything but nothing, no-color.org), TERM is dumb, or CLICOLOR is 0; FORCE_COLOR and CLICOLOR_FORCE colour a pipe
// too.
[[nodiscard]] RenderOptions render_options(int descriptor, ColorChoice choice);

// True when the locale's characters are UTF-8: LC_ALL, else LC_CTYPE, else LANG.
[[nodiscard]] bool is_utf8_locale();

// Writes text for people, line by line through escape_lines: names in it need not be trusted. False when the stream
// takes no more (a closed pipe, a full disk), which is noted for standard output.
bool print(int descriptor, std::string_view text, LineLook look = {});

// Findings for people, as they may look there.
bool print_findings(int descriptor, const Diagnostics& diagnostics, const Sources& sources, ColorChoice choice);

// Writes what a program reads (JSON, scripts, formats that escape by rules of their own) as it is.
bool print_raw(int descriptor, std::string_view text);

// Writes text for people on standard output, its lines painted by `rows` where it may be coloured.
[[nodiscard]] bool print_painted(std::string_view text, std::span<const LinePaint> rows, ColorChoice choice);

// What `produce` sends to standard output, piece by piece: text for people, that may hold codes of paint(), or what a
// program reads.
enum class PrintedAs { Text, Painted, Raw };
[[nodiscard]] bool print_pieces(PrintedAs as, const Producer& produce);

// The reason why standard output took no more, 0 while it takes everything.
[[nodiscard]] int lost_output();

}  // namespace tpplan
