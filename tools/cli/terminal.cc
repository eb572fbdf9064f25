#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>

namespace tpplan {
namespace {

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

bool print(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace tpplan
