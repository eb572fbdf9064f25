#include "sharding/partition_spec.h"

#include <algorithm>

namespace tpplan {

bool is_replicated(const PartitionSpec& spec) {
  return std::all_of(spec.begin(), spec.end(), [](const DimAxes& axes) { return axes.empty(); });
}

bool uses_axis(const PartitionSpec& spec, AxisId axis) {
  return std::any_of(spec.begin(), spec.end(),
                     [axis](const DimAxes& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); });
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

std::string to_text(const PartitionSpec& spec, const Mesh& mesh) {
  const auto quoted = [&](AxisId axis) { return "'" + mesh.axes[axis].name + "'"; };
  std::string text = "P(";
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    if (dim > 0) text += ", ";
    if (spec[dim].empty()) {
      text += "None";
    } else if (spec[dim].size() == 1) {
      text += quoted(spec[dim][0]);
    } else {
      text += "(";
      for (size_t i = 0; i < spec[dim].size(); ++i) text += (i > 0 ? ", " : "") + quoted(spec[dim][i]);
      text += ")";
    }
  }
  return text + ")";
}

namespace {

void skip_spaces(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
}

bool take(std::string_view& text, std::string_view token) {
  skip_spaces(text);
  if (!text.starts_with(token)) return false;
  text.remove_prefix(token.size());
  return true;
}

bool take_axis(std::string_view& text, const Mesh& mesh, DimAxes& axes) {
  if (!take(text, "'")) return false;
  const size_t end = text.find('\'');
  if (end == std::string_view::npos) return false;
  const AxisId axis = find_axis(mesh, text.substr(0, end));
  text.remove_prefix(end + 1);
  axes.push_back(axis);
  return axis != kNoAxis;
}

bool take_dim(std::string_view& text, const Mesh& mesh, DimAxes& axes) {
  if (take(text, "None")) return true;
  if (!take(text, "(")) return take_axis(text, mesh, axes);
  do {
    if (!take_axis(text, mesh, axes)) return false;
  } while (take(text, ","));
  return take(text, ")");
}

}  // namespace

bool parse_spec(std::string_view text, const Mesh& mesh, PartitionSpec& spec) {
  spec.clear();
  if (!take(text, "P(")) return false;
  if (!take(text, ")")) {
    do {
      if (!take_dim(text, mesh, spec.emplace_back())) return false;
    } while (take(text, ","));
    if (!take(text, ")")) return false;
  }
  skip_spaces(text);
  return text.empty();
}

}  // namespace tpplan
