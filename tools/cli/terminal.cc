#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>

#include "base/text.h"

namespace tpplan {
namespace {

std::atomic<int> g_lost_output = 0;  // ranks of one process print from their threads

// Stores the first error.
void note_lost_output(int error) {
  int none = 0;
  g_lost_output.compare_exchange_strong(none, error);
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_set(const char* name) { return !variable(name).empty() && variable(name) != "0"; }

bool wants_color(int descriptor, ColorChoice choice) {
  if (choice != ColorChoice::Auto) return choice == ColorChoice::Always;
  if (!variable("NO_COLOR").empty()) return false;
  if (is_set("FORCE_COLOR") || is_set("CLICOLOR_FORCE")) return true;
  return isatty(descriptor) != 0 && variable("TERM") != "dumb" && variable("CLICOLOR") != "0";
}

size_t terminal_width(int descriptor) {
  winsize size{};
  if (isatty(descriptor) != 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  return 80;
}

}  // namespace

RenderOptions render_options(int descriptor, ColorChoice choice) {
  return {.color = wants_color(descriptor, choice), .width = terminal_width(descriptor)};
}

bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (variable(name).empty()) continue;
    std::string value(variable(name));
    for (char& c : value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

int lost_output() { return g_lost_output; }

bool print_raw(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      if (descriptor == STDOUT_FILENO) note_lost_output(errno);
      return false;
    }
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

bool print(int descriptor, std::string_view text, EscapeOptions look) {
  return print_raw(descriptor, escape_lines(text, look));
}

bool print_diagnostics(int descriptor, const Diagnostics& diagnostics, const Sources& sources, ColorChoice choice) {
  const RenderOptions look = render_options(descriptor, choice);
  return print(descriptor, render_human(diagnostics, sources, look), {.color = look.color});
}

bool print_painted(std::string_view text, std::span<const LineColor> rows, ColorChoice choice) {
  const bool color = render_options(STDOUT_FILENO, choice).color;
  return print(STDOUT_FILENO, paint_lines(text, rows, color), {.color = color});
}

bool print_parts(PrintedAs as, const Producer& produce) {
  constexpr size_t kBufferSize = size_t{256} << 10;
  std::string buffer;
  // Text is escaped line by line, so it is flushed in full lines.
  const auto flush = [&](size_t bytes) {
    const std::string_view shown = std::string_view(buffer).substr(0, bytes);
    const bool good = as == PrintedAs::Raw ? print_raw(STDOUT_FILENO, shown)
                                           : print(STDOUT_FILENO, shown, {.color = as == PrintedAs::Painted});
    buffer.erase(0, bytes);
    return good;
  };
  const Sink sink = [&](std::string_view chunk) {
    buffer += chunk;
    return buffer.size() < kBufferSize || flush(as == PrintedAs::Raw ? buffer.size() : buffer.rfind('\n') + 1);
  };
  return produce(sink) && flush(buffer.size());
}

}  // namespace tpplan
