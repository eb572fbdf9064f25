// What may stand at a place in a plan that is being written, which may be no YAML yet: lines and their indentation say
// where it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "editor/positions.h"
#include "model/model_graph.h"

namespace tpplan {

// A path as rules name it, numbers as stars, and what it stands for.
struct PathItem {
  std::string stars;   // "model.layers.*.self_attn.q_proj"
  std::string ranged;  // "model.layers.{0..31}.self_attn.q_proj"
  std::string_view type;
  std::string shape;  // of the first of them; empty: a module
  uint64_t count = 0;
  bool is_block = false;  // has parameters below it, in modules whose paths go on
};

// Modules with parameters of their own, the parameters, and repeated blocks, each once, in file order. The types point
// into the graph.
[[nodiscard]] std::vector<PathItem> path_items(const ModelGraph& graph);

struct CompletionItem {
  enum class Kind : uint8_t { Style, Path } kind = Kind::Path;
  std::string label, detail;
  std::string text;           // what stands there then
  std::string documentation;  // Markdown
  std::string filter;         // what is typed is compared with this
};

struct Completion {
  size_t begin = 0;  // the bytes from here to the cursor are replaced
  std::vector<CompletionItem> items;
  bool is_incomplete = false;  // there are more
};

// @pre `items` are those of `graph`, empty where no model is known; `offset` is in the text.
[[nodiscard]] Completion complete_plan(const TextLines& lines, size_t offset, const std::vector<PathItem>& items,
                                       char separator);

}  // namespace tpplan
