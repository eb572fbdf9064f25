// What the emitters share: JSON of names, sizes and specs, and one line a parameter.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/write_file.h"
#include "manifest/manifest.h"
#include "syntax/json_writer.h"

namespace tpplan {

// [a, b, c]
[[nodiscard]] std::string list_text(const std::vector<std::string>& items);

// Names and sizes of the mesh axes, in order.
[[nodiscard]] std::string axis_names_text(const Mesh& mesh);
[[nodiscard]] std::string axis_sizes_text(const Mesh& mesh);

// True when ranks hold pieces of different sizes, and when a dim is cut segment by segment.
[[nodiscard]] bool has_uneven_pieces(const ParamLayout& layout, const Mesh& mesh);
[[nodiscard]] bool has_segments(const ParamLayout& layout, const Mesh& mesh);

// The spec without the axes, minor ones first, that keep a dim from being cut into equal pieces.
[[nodiscard]] PartitionSpec even_spec(const ParamLayout& layout, const Mesh& mesh);

// True when `test` is for the mesh coordinate and the number of any piece that the axes cut a dim into; pieces are
// numbered major to minor.
[[nodiscard]] bool any_piece(const DimAxes& axes, const Mesh& mesh,
                             const std::function<bool(const std::vector<int64_t>& coordinate, int64_t index)>& test);

// The beginning of a document whose first member is `mesh`: {"mesh": {SIZES: [2, 4], NAMES: ["fsdp", "tp"]}; and its
// end behind the object that holds the parameters. False when the sink refused.
void write_head(JsonWriter& json, const Mesh& mesh, std::string_view sizes, std::string_view names);
[[nodiscard]] bool write_tail(JsonWriter& json);

// What `write` makes of each layout: it is asked once for each, however many parameters have it.
[[nodiscard]] std::vector<std::string> layout_texts(const Manifest& manifest,
                                                    const std::function<void(JsonWriter&, const ParamLayout&)>& write);

// Each parameter's path as a key on a line of its own, with what `write` makes of its layout.
void write_params(JsonWriter& json, const Manifest& manifest,
                  const std::function<void(JsonWriter&, const ParamLayout&)>& write);

// For what is no JSON. Sends `head`, for each parameter what `append_line` makes of its path and its layout's text,
// separated by ",\n", and `tail`. `layout_text` is asked once for each layout. False as soon as the sink refuses.
struct ParamLines {
  std::string head;
  std::function<std::string(const ParamLayout&)> layout_text;
  std::function<void(std::string& line, std::string_view path, const std::string& layout_text)> append_line;
  std::string tail;
};
[[nodiscard]] bool write_params(const Manifest& manifest, const Sink& sink, const ParamLines& lines);

}  // namespace tpplan
