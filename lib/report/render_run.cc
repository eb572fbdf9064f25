#include "report/render_run.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "topology/read_run.h"

namespace tpplan {
namespace {

bool is_given(const Run& run, std::string_view key) { return std::ranges::find(run.given, key) != run.given.end(); }

// Returns " TITLE" and the words with line breaks before the terminal's width.
std::string wrapped(std::string_view title, const std::vector<std::string>& words, size_t width) {
  if (words.empty()) return {};
  std::string out, line = fmt::format(" {}", title);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (line.size() + 1 + word.size() > width) {
      out += line + '\n';
      line = "  ";
    }
    line += ' ' + word;
  }
  return out + line + '\n';
}

}  // namespace

std::string render_run(const Run& run, const TerminalStyle& look) {
  std::vector<std::string> given, others;
  for (const std::string_view key : run_keys())
    (is_given(run, key) ? given : others).push_back(fmt::format("{} {}", key, run_value(run, key)));
  return paint("run", kBold, look.color) + '\n' + wrapped("given:", given, look.width) +
         wrapped("defaults:", others, look.width);
}

void write_run(JsonWriter& json, const Run& run) {
  begin_object(json);
  for (const std::string_view key : run_keys()) {
    const std::string value = run_value(run, key);
    int64_t count = 0;
    if (parse_decimal(value, count))
      write_field(json, key, count);
    else if (value == "true" || value == "false")
      write_field(json, key, value == "true");
    else
      write_field(json, key, value);
  }
  write_key(json, "given");
  write_array(json, run.given);
  end_object(json);
}

}  // namespace tpplan
