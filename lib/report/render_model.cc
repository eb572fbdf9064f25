#include "report/render_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.h"
#include "report/html_text.h"
#include "report/model_columns.h"
#include "report/render_shards.h"

namespace tpplan {
namespace {

// Sizes in pixels: the width of a wide and of a narrow page, the height of the picture, the smallest drawn tensor, the
// width of a character, the padding of a label.
constexpr double kWide = 1000, kNarrow = 340, kHeight = 288, kLeast = 1.0, kCharacter = 6.1, kInset = 12;
constexpr double kLeastLabel = 12.5;     // a row of text
constexpr double kLeastLayer = 3;        // distance of lines
constexpr size_t kMaxModelTiles = 2000;  // tensors drawn in the picture
constexpr size_t kColors = 5;            // one for each of the shardings with the most bytes, then one for all others

// Returns the sharding as text: "dim 0 over fsdp × tp, dim 1 over x"; empty if the tensor is fully replicated.
std::string sharded_over(const Manifest& manifest, const PartitionSpec& spec) {
  std::vector<std::string> sharded_dims;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    std::vector<std::string> names;
    for (const AxisId axis : spec[dim]) {
      if (manifest.mesh.axes[axis].size > 1) names.push_back(manifest.mesh.axes[axis].name);
    }
    if (!names.empty()) sharded_dims.push_back(fmt::format("dim {} over {}", dim, join(names, " × ")));
  }
  return join(sharded_dims, ", ");
}

struct Color {
  std::string style, sharding;
  uint64_t bytes = 0;
};

struct Picture {
  std::vector<Color> colors;                // by descending bytes, fully replicated last
  std::vector<size_t> color_of;             // of each group, an index into `colors`
  uint64_t bytes = 0;                       // of all tensors
  uint64_t omitted = 0, omitted_bytes = 0;  // of tensors that are not drawn
  size_t tiles = 0;
};

void choose_colors(const Manifest& manifest, std::span<const ShardGroup> groups, std::span<const ModelColumn> columns,
                   Picture& picture) {
  std::vector<uint64_t> bytes_of(groups.size());
  for (const ModelColumn& column : columns) {
    for (const ModelCell& cell : column.cells) bytes_of[cell.group] += cell.bytes * column.count;
  }
  std::map<std::string, uint64_t> bytes;
  for (size_t g = 0; g < groups.size(); ++g)
    bytes[sharded_over(manifest, manifest.layouts[groups[g].layout].sharding.spec)] += bytes_of[g];
  for (const auto& [sharding, sum] : bytes) picture.colors.push_back({.style = "", .sharding = sharding, .bytes = sum});
  std::stable_sort(picture.colors.begin(), picture.colors.end(), [](const Color& a, const Color& b) {
    return std::pair(a.sharding.empty(), b.bytes) < std::pair(b.sharding.empty(), a.bytes);
  });
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i < picture.colors.size(); ++i) {
    Color& color = picture.colors[i];
    color.style = color.sharding.empty() ? "whole" : fmt::format("k{}", std::min(i, kColors));
    known.emplace(color.sharding, i);
  }
  for (const ShardGroup& group : groups)
    picture.color_of.push_back(known.at(sharded_over(manifest, manifest.layouts[group.layout].sharding.spec)));
}

// Returns the first text that fits into `pixels`; empty if none fits. @pre `texts` are sorted from long to short.
std::string fitting(std::span<const std::string> texts, double pixels) {
  for (const std::string& text : texts) {
    if (static_cast<double>(text.size()) * kCharacter + kInset <= pixels) return text;
  }
  return "";
}

// Returns a text truncated to `pixels`: "embed_t…"; empty if fewer than five characters fit or the text is not ASCII.
std::string shorten_to(std::string text, double pixels) {
  const double characters = (pixels - kInset) / kCharacter - 1;
  if (characters < 5 || !std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; })) return "";
  text.resize(std::min(text.size(), static_cast<size_t>(characters)));
  return text + "…";
}

// Returns the path and its suffixes, each with one leading part less: "model.layers.{0..31}", "layers.{0..31}",
// "{0..31}".
std::vector<std::string> shorter_paths(std::string path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    out.push_back(path);
    const size_t end = path.substr(0, path.find('{')).find_first_of("./");
    if (end == std::string::npos) break;
    path = path.substr(end + 1);
  }
  return out;
}

// Returns a label. If it does not fit on a narrow page, only a wide page shows it.
std::string label_html(const std::string& text, double y, double share, std::string_view style) {
  if (text.empty()) return "";
  const bool fits_narrow = static_cast<double>(text.size()) * kCharacter + kInset <= share * kNarrow;
  return fmt::format("<text class=\"{}{}\" x=\"6\" y=\"{:.1f}\">{}</text>", style, fits_narrow ? "" : " wide", y,
                     html(text));
}

std::string cell_html(const Manifest& manifest, const ShardGroup& group, const ModelColumn& column,
                      const ModelCell& cell, const Color& color, double y, double height, double share,
                      std::string& labels) {
  const std::string spec = to_text(manifest.layouts[group.layout].sharding.spec, manifest.mesh);
  std::vector<std::string> texts = shorter_paths(cell.path);
  if (!texts.empty()) texts.insert(texts.begin(), cell.path + "  " + spec);
  if (height >= kLeastLabel)
    labels += label_html(fitting(texts, share * kWide), y + height / 2 + 4, share,
                         color.sharding.empty() ? "on-whole" : "on");
  const uint64_t tensors = cell.count * column.count;
  return fmt::format(
      "<svg y=\"{:.2f}\" width=\"100%\" height=\"{:.2f}\"><rect class=\"{}\" width=\"100%\" "
      "height=\"100%\"/><title>{}{}{}: {} of {} in all, {}, {}</title></svg>",
      y, height, color.style, html(column.path), cell.path.empty() ? "" : column.between, html(cell.path),
      grouped(tensors, "tensor"), human_bytes(cell.bytes * column.count), html(spec),
      color.sharding.empty() ? "replicated" : html(color.sharding));
}

// Returns the lines between the layers of a column; empty if the layers are too narrow.
std::string layers_html(const ModelColumn& column, double share) {
  std::string out;
  if (column.count < 2 || share * kWide / static_cast<double>(column.count) < kLeastLayer) return out;
  for (uint64_t i = 1; i < column.count; ++i) {
    const double x = 100.0 * static_cast<double>(i) / static_cast<double>(column.count);
    out += fmt::format("<line x1=\"{0:.3f}%\" x2=\"{0:.3f}%\" y1=\"0\" y2=\"{1:.0f}\"/>", x, kHeight);
  }
  return out;
}

std::string column_html(const Manifest& manifest, std::span<const ShardGroup> groups, const ModelColumn& column,
                        double begin, double share, Picture& picture) {
  std::string out = fmt::format("<svg x=\"{:.4f}%\" width=\"{:.4f}%\" height=\"100%\">", 100 * begin, 100 * share);
  std::string labels;  // drawn over the lines between layers
  double y = 0;
  for (const ModelCell& cell : column.cells) {
    const double height = kHeight * static_cast<double>(cell.bytes) / static_cast<double>(column.bytes);
    if (height < kLeast || picture.tiles >= kMaxModelTiles) {
      picture.omitted += cell.count * column.count;
      picture.omitted_bytes += cell.bytes * column.count;
    } else {
      ++picture.tiles;
      const std::string drawn = cell_html(manifest, groups[cell.group], column, cell,
                                          picture.colors[picture.color_of[cell.group]], y, height, share, labels);
      out += cell.group < kMaxShardGroups ? fmt::format("<a href=\"#shards-{}\">{}</a>", cell.group, drawn) : drawn;
    }
    y += height;
  }
  out += layers_html(column, share) + labels;
  const std::vector<std::string> names = shorter_paths(column.path);
  std::string name = fitting(names, share * kWide);
  if (name.empty() && !names.empty()) name = shorten_to(names.back(), share * kWide);
  return out + label_html(name, kHeight + 17, share, "under") + "</svg>\n";
}

std::string legend_html(const Picture& picture) {
  std::string out = "<ul class=\"legend\">\n";
  for (const Color& color : picture.colors)
    out += fmt::format(
        "<li><svg aria-hidden=\"true\"><rect class=\"{}\" width=\"100%\" height=\"100%\"/></svg><span>{}, "
        "{}</span></li>\n",
        color.style, color.sharding.empty() ? "replicated" : html(color.sharding), bytes_html(color.bytes));
  return out + "</ul>\n";
}

}  // namespace

std::string model_html(const Manifest& manifest, std::span<const ShardGroup> groups) {
  const std::vector<ModelColumn> columns = model_columns(manifest, groups);
  Picture picture;
  for (const ModelColumn& column : columns) picture.bytes += column.bytes * column.count;
  std::string out = "<section id=\"model\">\n<h2>The model</h2>\n";
  if (picture.bytes == 0) return out + "<p>It has no parameters with elements.</p>\n</section>\n";
  choose_colors(manifest, groups, columns, picture);
  out +=
      "<p>From the first layer to the last: the width of a layer and the height of a tensor are in proportion to their "
      "bytes. Adjacent tensors with the same sharding are grouped. Each box links to its shards.</p>\n<figure>\n";
  out += fmt::format("<svg class=\"model\" width=\"100%\" height=\"{:.0f}\">\n", kHeight + 24);
  double begin = 0;
  for (const ModelColumn& column : columns) {
    const double share =
        static_cast<double>(column.bytes) * static_cast<double>(column.count) / static_cast<double>(picture.bytes);
    if (share * kWide < kLeast) {
      picture.omitted += column.tensors * column.count;
      picture.omitted_bytes += column.bytes * column.count;
    } else {
      out += column_html(manifest, groups, column, begin, share, picture);
    }
    begin += share;
  }
  out += "</svg>\n" + legend_html(picture);
  if (picture.omitted > 0)
    out += fmt::format("<p class=\"more\">{} of {} together {} too small to be drawn.</p>\n",
                       grouped(picture.omitted, "tensor"), bytes_html(picture.omitted_bytes),
                       picture.omitted == 1 ? "is" : "are");
  return out + "</figure>\n</section>\n";
}

}  // namespace tpplan
