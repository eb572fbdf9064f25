#include "number_options.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>

#include "base/text.h"

namespace tpplan {
namespace {

// Parses the full text as a number. Returns false for signs, spaces and numbers out of range.
template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Lets `read` check the text and normalise it for CLI11. `read` returns an error, or an empty text.
template <typename Read>
void take(CLI::Option* option, Read read) {
  option->transform(CLI::Validator([read](std::string& text) { return read(text); }, ""));
}

bool read_bytes(const std::string& text, uint64_t& bytes) {
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) ++digits;
  std::string unit = text.substr(digits);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (unit.size() > 1 && unit.ends_with('B')) unit.resize(unit.size() - (unit.ends_with("IB") ? 2 : 1));
  constexpr std::string_view kUnits = "KMGT";
  const size_t place = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  if (!unit.empty() && unit != "B" && place == std::string_view::npos) return false;
  const unsigned shift = place == std::string_view::npos ? 0 : static_cast<unsigned>(place + 1) * 10;
  if (!read_number(std::string_view(text).substr(0, digits), bytes) || bytes > UINT64_MAX >> shift) return false;
  bytes <<= shift;
  return true;
}

}  // namespace

void add_integer_range(CLI::Option* option, uint64_t low, uint64_t high) {
  take(option, [=](std::string& text) -> std::string {
    uint64_t value = 0;
    if (!read_number(text, value) || value < low || value > high)
      return fmt::format("{} is not an integer from {} to {}", escape_for_terminal(text), low, high);
    text = std::to_string(value);
    return "";
  });
}

void take_number(CLI::Option* option, double low, double high) {
  take(option, [=](std::string& text) -> std::string {
    double value = 0;
    if (!read_number(text, value) || !(value >= low && value <= high))
      return fmt::format("{} is not a number from {} to {}", escape_for_terminal(text), low, high);
    return "";
  });
}

void take_bytes(CLI::Option* option, uint64_t low) {
  take(option, [=](std::string& text) -> std::string {
    uint64_t bytes = 0;
    if (!read_bytes(text, bytes) || bytes < low)
      return fmt::format("{} is not a size of at least {}, such as 256MB", escape_for_terminal(text), human_bytes(low));
    text = std::to_string(bytes);
    return "";
  });
}

}  // namespace tpplan
