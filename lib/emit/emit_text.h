// Shared by the export formats: JSON of names, sizes and specs, and one line for each parameter.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/write_file.h"
#include "manifest/manifest.h"
#include "text/json_writer.h"

namespace tpplan {

// Returns "[a, b, c]".
[[nodiscard]] std::string list_text(const std::vector<std::string>& items);

// Return the names and sizes of the mesh axes in order.
[[nodiscard]] std::string axis_names_text(const Mesh& mesh);
[[nodiscard]] std::string axis_sizes_text(const Mesh& mesh);

// has_uneven_shards: true if shards have different sizes. has_segments: true if a sharded dim has segments.
[[nodiscard]] bool has_uneven_shards(const ParamLayout& layout, const Mesh& mesh);
[[nodiscard]] bool has_segments(const ParamLayout& layout, const Mesh& mesh);

// Returns the spec without the minor axes of dims that have unequal shards.
[[nodiscard]] PartitionSpec even_spec(const ParamLayout& layout, const Mesh& mesh);

// True if `test` is true for the mesh coordinate and index of any shard of a dim; shards are numbered major to minor.
[[nodiscard]] bool any_shard(const DimAxes& axes, const Mesh& mesh,
                             const std::function<bool(const std::vector<int64_t>& coordinate, int64_t index)>& test);

// Write the begin of a document with the key `mesh`: {"mesh": {SIZES: [2, 4], NAMES: ["fsdp", "tp"]}, and its end after
// the object of parameters. end_document returns false if the sink fails.
void begin_document(JsonWriter& json, const Mesh& mesh, std::string_view sizes, std::string_view names);
[[nodiscard]] bool end_document(JsonWriter& json);

// Returns the text that `write` produces for each layout, called once for each.
[[nodiscard]] std::vector<std::string> layout_texts(const Manifest& manifest,
                                                    const std::function<void(JsonWriter&, const ParamLayout&)>& write);

// Writes a line for each parameter: its path as the key, and the output of `write` for its layout.
void write_params(JsonWriter& json, const Manifest& manifest,
                  const std::function<void(JsonWriter&, const ParamLayout&)>& write);

// Lines of a format other than JSON. write_params sends `head`, the output of `append_line` for each parameter's path
// and layout text, separated by ",\n", and `tail`. It calls `layout_text` once for each layout, and returns false as
// soon as the sink fails.
struct ParamLines {
  std::string head;
  std::function<std::string(const ParamLayout&)> layout_text;
  std::function<void(std::string& line, std::string_view path, const std::string& layout_text)> append_line;
  std::string tail;
};
[[nodiscard]] bool write_params(const Manifest& manifest, const Sink& sink, const ParamLines& lines);

}  // namespace tpplan
