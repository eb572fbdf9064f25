#include "sharding/partition_spec.h"

#include <algorithm>
#include <iterator>

namespace tpplan {

bool is_replicated(const PartitionSpec& spec) {
  return std::all_of(spec.begin(), spec.end(), [](const DimAxes& axes) { return axes.empty(); });
}

bool uses_axis(const PartitionSpec& spec, AxisId axis) {
  return std::any_of(spec.begin(), spec.end(),
                     [axis](const DimAxes& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); });
}

PartitionSpec without_axis(PartitionSpec spec, AxisId axis) {
  for (DimAxes& axes : spec) std::erase(axes, axis);
  return spec;
}

std::span<const int64_t> segments_of(const Sharding& sharding, size_t dim) {
  for (const DimSegments& segments : sharding.segments) {
    if (segments.dim == dim) return segments.sizes;
  }
  return {};
}

int64_t shard_count(const DimAxes& axes, const Mesh& mesh) {
  int64_t count = 1;
  for (const AxisId axis : axes) count *= mesh.axes[axis].size;
  return count;
}

int64_t shard_count(const PartitionSpec& spec, const Mesh& mesh) {
  int64_t count = 1;
  for (const DimAxes& axes : spec) count *= shard_count(axes, mesh);
  return count;
}

namespace {

// Words that YAML takes for something else than text, in any of its versions.
constexpr std::string_view kYamlWords[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "none"};

bool is_plain(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_fine = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && is_letter(name[0]) && std::ranges::all_of(name, is_fine) &&
         std::ranges::find(kYamlWords, name) == std::end(kYamlWords);
}

}  // namespace

std::string axis_text(std::string_view name) {
  if (is_plain(name)) return std::string(name);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      text.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15u]);
    else
      text.append(c == '"' || c == '\\' ? "\\" : "").append(1, c);
  }
  return text + "\"";
}

std::string to_text(const DimAxes& axes, const Mesh& mesh) {
  if (axes.empty()) return "null";
  // An axis called `...` would be the ellipsis, were it not in a list.
  if (axes.size() == 1 && mesh.axes[axes[0]].name != "...") return axis_text(mesh.axes[axes[0]].name);
  std::string text = "[";
  for (const AxisId axis : axes) text.append(text.size() == 1 ? "" : ", ").append(axis_text(mesh.axes[axis].name));
  return text + "]";
}

std::string to_text(const PartitionSpec& spec, const Mesh& mesh) {
  std::string text = "[";
  for (const DimAxes& axes : spec) text.append(text.size() == 1 ? "" : ", ").append(to_text(axes, mesh));
  return text + "]";
}

}  // namespace tpplan
