#include "hf_configs/template_number.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cmath>

namespace tpplan {
namespace {

struct NumberReader {
  std::string_view rest;
  const TemplateFields& fields;
  std::string& fault;
};

bool parse(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Reads a number, or a field with one.
std::optional<int64_t> read_factor(NumberReader& r) {
  const std::string_view name = r.rest.substr(0, r.rest.find_first_of("*/+-"));
  r.rest.remove_prefix(name.size());
  if (int64_t number = 0; parse(name, number)) return number;
  if (const auto size = r.fields.sizes.find(name); size != r.fields.sizes.end()) return size->second;
  const auto field = r.fields.numbers.find(name);
  if (int64_t number = 0; field != r.fields.numbers.end() && parse(field->second, number)) return number;
  r.fault = fmt::format("`{}` is not a whole number, but the traced operations need one", name);
  return std::nullopt;
}

std::optional<int64_t> too_large(NumberReader& r) {
  r.fault = "a size would have more than 63 bits";
  return std::nullopt;
}

std::optional<int64_t> read_product(NumberReader& r) {
  auto product = read_factor(r);
  while (product && !r.rest.empty() && (r.rest[0] == '*' || r.rest[0] == '/')) {
    const bool divides = r.rest[0] == '/';
    r.rest.remove_prefix(1);
    const auto factor = read_factor(r);
    if (!factor) return factor;
    if (divides && (*factor == 0 || *product % *factor != 0)) {
      r.fault = fmt::format("{} is not divisible by {}, but was in the traced models", *product, *factor);
      return std::nullopt;
    }
    if (divides)
      *product /= *factor;
    else if (__builtin_mul_overflow(*product, *factor, &*product))
      return too_large(r);
  }
  return product;
}

std::optional<int64_t> read_sum(NumberReader& r) {
  auto sum = read_product(r);
  while (sum && !r.rest.empty()) {
    const bool minus = r.rest[0] == '-';
    r.rest.remove_prefix(1);
    const auto term = read_product(r);
    if (!term) return term;
    if (minus ? __builtin_sub_overflow(*sum, *term, &*sum) : __builtin_add_overflow(*sum, *term, &*sum))
      return too_large(r);
  }
  return sum;
}

std::optional<std::string> read_fraction(NumberReader& r) {
  const size_t power = r.rest.find("**");
  const std::string_view name = r.rest.substr(0, power);
  const auto size = r.fields.sizes.find(name);
  const auto field = r.fields.numbers.find(name);
  const std::string text = size != r.fields.sizes.end()      ? fmt::format("{}", size->second)
                           : field != r.fields.numbers.end() ? std::string(field->second)
                                                             : std::string();
  double number = 0, exponent = 1;
  const bool is_number = std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
  if (is_number && power == std::string_view::npos) return text;
  const std::string_view raised = is_number ? r.rest.substr(power + 2) : std::string_view{};
  if (is_number && std::from_chars(raised.data(), raised.data() + raised.size(), exponent).ec == std::errc() &&
      (number > 0 || exponent > 0))
    return float_text(std::pow(number, exponent));
  r.fault = fmt::format("`{}` is not a number that the traced operations support", name);
  return std::nullopt;
}

}  // namespace

std::string float_text(double number) {
  std::string text = fmt::format("{}", number);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::optional<std::string> template_number(std::string_view text, const TemplateFields& fields, std::string& fault) {
  NumberReader r{text.substr(1), fields, fault};
  if (const auto field = fields.numbers.find(r.rest); field != fields.numbers.end() && field->second.empty())
    return "null";
  if (text[0] == '~') return read_fraction(r);
  const auto sum = read_sum(r);
  if (!sum) return std::nullopt;
  return fmt::format("{}", *sum);
}

}  // namespace tpplan
