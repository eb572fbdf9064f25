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

// Pixels: of the page where it is wide and on a phone, of the picture, of what is still drawn, of a character of a
// label.
constexpr double kWide = 1000, kNarrow = 340, kHeight = 288, kLeast = 1.0, kCharacter = 6.1, kInset = 12;
constexpr double kLeastLabel = 12.5;      // a row of text
constexpr double kLeastLayer = 3;         // between lines
constexpr size_t kMaxModelPieces = 2000;  // of the picture
constexpr size_t kColors = 5;             // one each for the cuts with the most bytes, one for all others

// "dim 0 over fsdp × tp, dim 1 over x": what cuts a tensor in more than one piece; empty: it is whole on every rank.
std::string cut_over(const Manifest& manifest, const PartitionSpec& spec) {
  std::vector<std::string> cuts;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    std::vector<std::string> names;
    for (const AxisId axis : spec[dim]) {
      if (manifest.mesh.axes[axis].size > 1) names.push_back(manifest.mesh.axes[axis].name);
    }
    if (!names.empty()) cuts.push_back(fmt::format("dim {} over {}", dim, join(names, " × ")));
  }
  return join(cuts, ", ");
}

struct Color {
  std::string style, cut;
  uint64_t bytes = 0;
};

struct Picture {
  std::vector<Color> colors;                  // those that occur, the most bytes first, `whole` last
  std::vector<size_t> color_of;               // of each group, into colors
  uint64_t bytes = 0;                         // of all
  uint64_t left_out = 0, left_out_bytes = 0;  // tensors that are too small
  size_t pieces = 0;
};

void choose_colors(const Manifest& manifest, std::span<const ShardGroup> groups, std::span<const ModelColumn> columns,
                   Picture& picture) {
  std::vector<uint64_t> bytes_of(groups.size());
  for (const ModelColumn& column : columns) {
    for (const ModelCell& cell : column.cells) bytes_of[cell.group] += cell.bytes * column.count;
  }
  std::map<std::string, uint64_t> bytes;
  for (size_t g = 0; g < groups.size(); ++g)
    bytes[cut_over(manifest, manifest.layouts[groups[g].layout].sharding.spec)] += bytes_of[g];
  for (const auto& [cut, sum] : bytes) picture.colors.push_back({.style = "", .cut = cut, .bytes = sum});
  std::stable_sort(picture.colors.begin(), picture.colors.end(), [](const Color& a, const Color& b) {
    return std::pair(a.cut.empty(), b.bytes) < std::pair(b.cut.empty(), a.bytes);
  });
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i < picture.colors.size(); ++i) {
    Color& color = picture.colors[i];
    color.style = color.cut.empty() ? "whole" : fmt::format("k{}", std::min(i, kColors));
    known.emplace(color.cut, i);
  }
  for (const ShardGroup& group : groups)
    picture.color_of.push_back(known.at(cut_over(manifest, manifest.layouts[group.layout].sharding.spec)));
}

// The longest of the texts that fits into so many pixels; empty: none does.
std::string fitting(std::span<const std::string> texts, double pixels) {
  for (const std::string& text : texts) {
    if (static_cast<double>(text.size()) * kCharacter + kInset <= pixels) return text;
  }
  return "";
}

// As much of the text's beginning as fits, from five characters on: "embed_t…".
std::string cut_short(std::string text, double pixels) {
  const double room = (pixels - kInset) / kCharacter - 1;
  if (room < 5 || !std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; })) return "";
  text.resize(std::min(text.size(), static_cast<size_t>(room)));
  return text + "…";
}

// "model.layers.{0..31}", "layers.{0..31}", "{0..31}": a path with fewer and fewer of its first parts.
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

// A label that only a wide page shows where it does not fit on a narrow one.
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
    labels +=
        label_html(fitting(texts, share * kWide), y + height / 2 + 4, share, color.cut.empty() ? "on-whole" : "on");
  const uint64_t tensors = cell.count * column.count;
  return fmt::format(
      "<svg y=\"{:.2f}\" width=\"100%\" height=\"{:.2f}\"><rect class=\"{}\" width=\"100%\" "
      "height=\"100%\"/><title>{}{}{}: {} of {} in all, {}, {}</title></svg>",
      y, height, color.style, html(column.path), cell.path.empty() ? "" : column.between, html(cell.path),
      grouped(tensors, "tensor"), human_bytes(cell.bytes * column.count), html(spec),
      color.cut.empty() ? "whole on every rank" : html(color.cut));
}

// Lines between the layers of a column, where they can be told apart.
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
  std::string labels;  // above the lines between layers
  double y = 0;
  for (const ModelCell& cell : column.cells) {
    const double height = kHeight * static_cast<double>(cell.bytes) / static_cast<double>(column.bytes);
    if (height < kLeast || picture.pieces >= kMaxModelPieces) {
      picture.left_out += cell.count * column.count;
      picture.left_out_bytes += cell.bytes * column.count;
    } else {
      ++picture.pieces;
      const std::string drawn = cell_html(manifest, groups[cell.group], column, cell,
                                          picture.colors[picture.color_of[cell.group]], y, height, share, labels);
      out += cell.group < kMaxShardGroups ? fmt::format("<a href=\"#shards-{}\">{}</a>", cell.group, drawn) : drawn;
    }
    y += height;
  }
  out += layers_html(column, share) + labels;
  const std::vector<std::string> names = shorter_paths(column.path);
  std::string name = fitting(names, share * kWide);
  if (name.empty() && !names.empty()) name = cut_short(names.back(), share * kWide);
  return out + label_html(name, kHeight + 17, share, "under") + "</svg>\n";
}

std::string legend_html(const Picture& picture) {
  std::string out = "<ul class=\"legend\">\n";
  for (const Color& color : picture.colors)
    out += fmt::format(
        "<li><svg aria-hidden=\"true\"><rect class=\"{}\" width=\"100%\" height=\"100%\"/></svg><span>{}, "
        "{}</span></li>\n",
        color.style, color.cut.empty() ? "whole on every rank" : html(color.cut), bytes_html(color.bytes));
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
      "<p>From the first layer to the last, each as wide as its bytes and each tensor as high as its part of them. "
      "Neighbours that are cut alike stand together. A piece leads to its shards.</p>\n<figure>\n";
  out += fmt::format("<svg class=\"model\" width=\"100%\" height=\"{:.0f}\">\n", kHeight + 24);
  double begin = 0;
  for (const ModelColumn& column : columns) {
    const double share =
        static_cast<double>(column.bytes) * static_cast<double>(column.count) / static_cast<double>(picture.bytes);
    if (share * kWide < kLeast) {
      picture.left_out += column.tensors * column.count;
      picture.left_out_bytes += column.bytes * column.count;
    } else {
      out += column_html(manifest, groups, column, begin, share, picture);
    }
    begin += share;
  }
  out += "</svg>\n" + legend_html(picture);
  if (picture.left_out > 0)
    out += fmt::format("<p class=\"more\">{} of {} together {} too small to be drawn.</p>\n",
                       grouped(picture.left_out, "tensor"), bytes_html(picture.left_out_bytes),
                       picture.left_out == 1 ? "is" : "are");
  return out + "</figure>\n</section>\n";
}

}  // namespace tpplan
