#include "plan/rule_from_call.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>

#include "styles/style_table.h"

namespace tpplan {
namespace {

bool is_of_word(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Consumes the parentheses after a layout's name: `()`, `(1)`, `(dim=1)`. Returns false if they are not closed.
bool take_brackets(std::string_view& rest, std::string& dim) {
  const size_t end = rest.find(')');
  if (!rest.starts_with('(') || end == std::string_view::npos) return false;
  dim = std::string(rest.substr(1, end - 1));
  if (dim.starts_with("dim=")) dim.erase(0, 4);
  rest.remove_prefix(end + 1);
  return true;
}

// Converts a word of a call to YAML and consumes its arguments from `rest`; empty if a rule has no such word.
std::string take_word_of_call(std::string_view name, std::string_view& rest) {
  struct PythonWord {
    std::string_view python, yaml;
  };
  static constexpr PythonWord kPythonWords[] = {{"None", "null"}, {"True", "true"}, {"False", "false"}};
  std::string dim;
  if (name == "Replicate" || name == "Partial") return take_brackets(rest, dim) ? std::string(name) : std::string();
  if (name == "Shard") return take_brackets(rest, dim) ? fmt::format("Shard({})", dim) : std::string();
  const auto* word = std::find_if(std::begin(kPythonWords), std::end(kPythonWords),
                                  [&](const PythonWord& r) { return r.python == name; });
  if (word != std::end(kPythonWords)) return std::string(word->yaml);
  if (!rest.starts_with('=') || find_option(name) == 0) return {};
  rest.remove_prefix(1);
  return fmt::format("{}: ", name);
}

}  // namespace

std::string rule_from_call(std::string_view text, std::string_view style) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) return {};
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  if (rest.find_first_not_of(' ') == std::string_view::npos) return {};
  std::string rule = fmt::format("{{style: {}, ", style);
  while (!rest.empty()) {
    const char c = rest.front();
    if (is_of_word(c)) {
      const auto end = static_cast<size_t>(std::ranges::find_if_not(rest, is_of_word) - rest.begin());
      const std::string_view name = rest.substr(0, end);
      rest.remove_prefix(end);
      const std::string word = take_word_of_call(name, rest);
      if (word.empty()) return {};
      rule += word;
      continue;
    }
    rest.remove_prefix(1);
    if (c == ' ') continue;
    if (std::string_view("()[],").find(c) == std::string_view::npos) return {};
    if ((c == ')' || c == ']') && rule.ends_with(", ")) rule.resize(rule.size() - 2);  // Python's `(x,)`
    rule += c == ',' ? ", " : c == '(' || c == '[' ? "[" : "]";
  }
  return rule + "}";
}

std::string spec_from_call(std::string_view text) {
  if (text.ends_with(']')) return text.starts_with('[') ? std::string(text) : fmt::format("[{}", text);
  if (text.starts_with("NamedSharding(") && text.ends_with(')')) {
    text.remove_suffix(1);
    text.remove_prefix(std::min(text.find("P"), text.size()));
  }
  for (const std::string_view name : {"PartitionSpec", "P"}) {
    if (text.starts_with(name) && text.substr(name.size()).starts_with('(')) text.remove_prefix(name.size());
  }
  if (!text.starts_with('(') || !text.ends_with(')')) return {};
  std::string spec;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("None")) {
      spec += "null";
      i += 3;
    } else if (text[i] != '\'' && text[i] != '"') {
      spec += text[i] == '(' ? '[' : text[i] == ')' ? ']' : text[i];
    }
  }
  return spec;
}

}  // namespace tpplan
