#include "sharding/partition_spec.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace tpplan {

bool is_replicated(const PartitionSpec& spec) {
  return std::all_of(spec.begin(), spec.end(), [](const DimAxes& axes) { return axes.empty(); });
}

bool is_fully_replicated(const PartitionSpec& spec, const Mesh& mesh) { return shard_count(spec, mesh) == 1; }

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

// Words that some version of YAML reads as another type than string.
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
  // The escapes for a terminal are also YAML escapes in double quotes.
  std::string text = "\"";
  for (size_t from = 0; from < name.size();) {
    const size_t next = std::min(name.find_first_of("\"\\", from), name.size());
    text += escape_for_terminal(name.substr(from, next - from));
    if (next < name.size()) text.append("\\").append(1, name[next]);
    from = next + 1;
  }
  return text + "\"";
}

std::string to_text(const DimAxes& axes, const Mesh& mesh) {
  if (axes.empty()) return "null";
  // An axis with the name `...` needs a list: alone it would be the ellipsis.
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
