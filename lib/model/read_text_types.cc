#include "model/read_text_types.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/graph_words.h"
#include "sharding/dtype.h"

namespace tpplan {

bool read_text_path(TextReader& reader, std::string_view& path, std::string_view what) {
  const GraphToken token = next_token(reader);
  const bool is_number = token.kind == GraphTokenKind::Number && !token.text.starts_with('-');
  if (token.kind != GraphTokenKind::Word && token.kind != GraphTokenKind::Name && !is_number)
    return text_error(reader, token, fmt::format("expected {}", what),
                      "write a name with other characters between backquotes");
  path = token.text;
  ++reader.at;
  return true;
}

bool read_text_name(TextReader& reader, std::string_view& name) {
  const GraphToken token = next_token(reader);
  if (token.kind != GraphTokenKind::Word || !is_identifier(token.text))
    return text_error(reader, token, "expected a name for a value", "use letters, digits and underscores");
  if (is_reserved_word(token.text) && token.text != "_")
    return text_error(reader, token, fmt::format("`{}` is a reserved word", token.text), "choose another name");
  if (reader.sizes.contains(token.text))
    return text_error(reader, token, fmt::format("`{}` is the name of a size", token.text), "choose another name");
  name = token.text;
  ++reader.at;
  return true;
}

namespace {

bool read_dims(TextReader& reader, std::vector<int64_t>& shape) {
  int64_t elements = 1;
  while (!is_sign(next_token(reader), "]")) {
    const GraphToken token = next_token(reader);
    int64_t size = 0;
    if (!is_integer(token, size) || size < 0)
      return text_error(reader, token, "expected a size of a shape", "write a count, such as 16");
    if (shape.size() == kMaxDims)
      return text_error(reader, token, fmt::format("shape has more than {} dims", kMaxDims), "remove dims");
    // A size of 0 counts as 1, so that it does not hide an overflow of the others.
    const int64_t factor = std::max<int64_t>(1, size);
    if (factor > (int64_t{1} << 62) / elements)
      return text_error(reader, token, "shape has more than 2^62 elements", "write smaller sizes");
    elements *= factor;
    shape.push_back(size);
    ++reader.at;
    if (!take_sign(reader, ",")) break;
  }
  return expect_sign(reader, "]", "a shape");
}

}  // namespace

bool read_text_type(TextReader& reader, bool may_have_grad, TextType& type) {
  std::string_view dtype;
  if (!read_text_path(reader, dtype, "a dtype") || !expect_sign(reader, "[", "a dtype") ||
      !read_dims(reader, type.shape))
    return false;
  type.dtype = dtype;
  type.requires_grad = may_have_grad && has_gradients(dtype);
  for (const std::string_view word : {"grad", "no_grad"}) {
    if (!is_word(next_token(reader), word)) continue;
    type.requires_grad = word == "grad";
    ++reader.at;
  }
  return true;
}

ValueId add_text_value(TextReader& reader, const TextType& type) {
  return add_value(reader, type.shape, type.dtype, type.requires_grad);
}

bool read_text_count(TextReader& reader, int64_t& count) {
  const GraphToken token = next_token(reader);
  if (!is_integer(token, count) || count < 0)
    return text_error(reader, token, "expected a count", "write an integer of at least 0");
  ++reader.at;
  return true;
}

}  // namespace tpplan
