#include "programs/attribute_text.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace tpplan::programs {
namespace {

std::string_view trim_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool read_unsigned(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

bool read_integers(std::string_view text, std::vector<int64_t>& numbers) {
  numbers.clear();
  text = trim_blanks(text);
  if (text.starts_with("array<") && text.ends_with('>')) {
    text = text.substr(6, text.size() - 7);
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) return true;  // "array<i64>"
    text.remove_prefix(colon + 1);
  } else if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
  } else {
    return false;
  }
  if (trim_blanks(text).empty()) return true;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    if (!read_unsigned(trim_blanks(text.substr(begin, comma - begin)), numbers.emplace_back())) return false;
    begin = comma + 1;
  }
  return true;
}

bool read_integer(std::string_view text, int64_t& number) {
  return read_unsigned(trim_blanks(text.substr(0, text.find(':'))), number);
}

std::string_view find_field(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    std::string_view rest = text.substr(at + name.size());
    const bool is_word = at > 0 && (text[at - 1] == '<' || text[at - 1] == ' ') && rest.starts_with(" = ");
    if (!is_word) continue;
    rest.remove_prefix(3);
    const size_t end = rest.starts_with('[') ? rest.find(']') + 1 : rest.find_first_of(",>");
    return trim_blanks(rest.substr(0, end));
  }
  return {};
}

bool read_conv_dims(std::string_view text, ConvDims (&groups)[3]) {
  size_t at = 0;
  for (ConvDims& group : groups) {
    const size_t begin = text.find('[', at), end = text.find(']', at);
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return false;
    std::string_view items = text.substr(begin + 1, end - begin - 1);
    std::vector<std::pair<int64_t, int64_t>> spatial;  // number, dim
    for (int64_t dim = 0; !items.empty(); ++dim) {
      const size_t comma = std::min(items.find(','), items.size());
      const std::string_view item = trim_blanks(items.substr(0, comma));
      items.remove_prefix(std::min(comma + 1, items.size()));
      int64_t number = 0;
      if (read_unsigned(item, number))
        spatial.emplace_back(number, dim);
      else if (item == "b" || item == "f" || item == "i" || item == "o")
        (item == "b" ? group.batch : item == "f" ? group.feature : item == "i" ? group.input : group.output) = dim;
      else
        return false;
    }
    std::ranges::sort(spatial);
    for (const auto& [number, dim] : spatial) group.spatial.push_back(dim);
    at = end + 1;
  }
  return true;
}

}  // namespace tpplan::programs
