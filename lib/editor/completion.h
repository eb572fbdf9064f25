// Completes a plan in an editor. An unfinished plan may be invalid YAML, so lines and their indentation determine the
// context.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "editor/positions.h"
#include "model/model_graph.h"

namespace tpplan {

// A path pattern for rules, with stars for numbers, and the modules or parameters that it matches.
struct CompletionPath {
  std::string stars;   // "model.layers.*.self_attn.q_proj"
  std::string ranged;  // "model.layers.{0..31}.self_attn.q_proj"
  std::string_view type;
  std::string shape;  // of the first parameter; empty for modules
  uint64_t count = 0;
  bool is_block = false;  // a repeated module with parameters in its submodules
};

// Returns modules with direct parameters, their parameters, and repeated blocks, each once, in file order. The types
// point into the graph.
[[nodiscard]] std::vector<CompletionPath> completion_paths(const ModelGraph& graph);

struct CompletionItem {
  enum class Kind : uint8_t { Style, Path } kind = Kind::Path;
  std::string label, detail;
  std::string text;           // the inserted text
  std::string documentation;  // Markdown
  std::string filter;         // compared with the typed text
};

struct Completion {
  size_t begin = 0;  // an item replaces the bytes from here to the cursor
  std::vector<CompletionItem> items;
  bool is_incomplete = false;  // more items exist
};

// Returns the completions at a byte of the plan. @pre `items` are the completion_paths of the model, empty if no model
// is known; `offset` is in the text.
[[nodiscard]] Completion complete_plan(const TextLines& lines, size_t offset, const std::vector<CompletionPath>& items,
                                       char separator);

}  // namespace tpplan
