#include "programs/read_shardings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "programs/attribute_text.h"

namespace tpplan::programs {
namespace {

// Text that is read from the left.
struct Cursor {
  std::string_view rest;
};

bool take(Cursor& at, std::string_view word) {
  while (at.rest.starts_with(' ')) at.rest.remove_prefix(1);
  if (!at.rest.starts_with(word)) return false;
  at.rest.remove_prefix(word.size());
  return true;
}

bool take_number(Cursor& at, int64_t& number) {
  size_t digits = 0;
  while (digits < at.rest.size() && at.rest[digits] >= '0' && at.rest[digits] <= '9') ++digits;
  if (digits == 0 || digits > 18 || !read_integer(at.rest.substr(0, digits), number)) return false;
  at.rest.remove_prefix(digits);
  return true;
}

// Reads `"model"` or `"model":(1)2`.
bool take_axis(Cursor& at, WrittenDim& dim) {
  if (!take(at, "\"")) return false;
  const size_t quote = at.rest.find('"');
  if (quote == std::string_view::npos) return false;
  dim.axes.push_back(at.rest.substr(0, quote));
  at.rest.remove_prefix(quote + 1);
  auto& [before, size] = dim.parts.emplace_back(0, 0);
  if (!at.rest.starts_with(":(")) return true;
  at.rest.remove_prefix(2);
  return take_number(at, before) && take(at, ")") && take_number(at, size);
}

// Reads `{"data", ?}`.
bool take_dim(Cursor& at, WrittenDim& dim) {
  if (!take(at, "{")) return false;
  while (!take(at, "}")) {
    if (take(at, "?"))
      dim.is_open = true;
    else if (!take_axis(at, dim))
      return false;
    (void)take(at, ",");
  }
  return true;
}

// Reads "model" or "model:1:2".
bool find_axis(const Program& program, std::string_view text, std::pair<int64_t, int64_t> written, AxisPart& part) {
  std::string_view name = text;
  auto [before, size] = written;
  if (before == 0) {
    const size_t colon = text.find(':');
    name = text.substr(0, colon);
    if (colon != std::string_view::npos) {
      const std::string_view rest = text.substr(colon + 1);
      const size_t second = rest.find(':');
      if (second == std::string_view::npos || !read_integer(rest.substr(0, second), before) ||
          !read_integer(rest.substr(second + 1), size))
        return false;
    }
  }
  const auto found = std::ranges::find(program.axis_names, name);
  if (found == program.axis_names.end()) return false;
  part.axis = static_cast<uint32_t>(found - program.axis_names.begin());
  const int64_t whole = program.axis_sizes[part.axis];
  if (before == 0 && size == 0) before = 1, size = whole;
  if (before < 1 || size < 1 || before > whole || size > whole || whole % before != 0 || whole / before % size != 0)
    return false;
  part.before = before;
  part.size = size;
  return true;
}

}  // namespace

std::string read_sharding_text(std::string_view text, std::vector<WrittenDim>& dims) {
  Cursor at{text};
  const std::string error = fmt::format("`{}` is not a sharding that propagation supports", text);
  if (!take(at, "#sdy.sharding<@")) return error;
  const size_t comma = at.rest.find(',');
  if (comma == std::string_view::npos) return error;
  at.rest.remove_prefix(comma + 1);
  if (!take(at, "[")) return error;
  while (!take(at, "]")) {
    if (!take_dim(at, dims.emplace_back())) return error;
    (void)take(at, ",");
  }
  return at.rest == ">" ? std::string() : error;
}

std::string resolve_sharding(Program& program, ValueIndex value, std::span<const WrittenDim> dims) {
  ProgramValue& v = program.values[value];
  if (dims.size() != v.rank) return fmt::format("a sharding has {} dims, but its tensor {}", dims.size(), v.rank);
  AxisParts used;
  for (uint32_t d = 0; d < v.rank; ++d) {
    const WrittenDim& dim = dims[d];
    AxisParts parts;
    for (size_t a = 0; a < dim.axes.size(); ++a) {
      AxisPart part;
      const auto written = dim.parts.empty() ? std::pair<int64_t, int64_t>{0, 0} : dim.parts[a];
      if (!find_axis(program, dim.axes[a], written, part))
        return fmt::format("`{}` is not an axis of the mesh or a part of one", dim.axes[a]);
      if (part.size == 1) continue;
      if (overlaps(used, part)) return fmt::format("a sharding has axis `{}` twice", program.axis_names[part.axis]);
      used.push_back(part);
      append_part(parts, part);
    }
    program.dims[v.first_dim + d] = {intern_axes(program.lists, parts), !dim.is_open};
  }
  v.has_sharding = true;
  return {};
}

}  // namespace tpplan::programs
