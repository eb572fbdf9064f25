// Templates: traced graphs with sizes as expressions (lib/hf_configs/templates, written by
// tools/generate/write-templates), and their graphs at given sizes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "hf_configs/template_number.h"
#include "model/model_graph.h"
#include "text/json_tree.h"

namespace tpplan {

// Returns the text of lib/hf_configs/templates/NAME.json; nullptr if there is none (tools/cmake/embed.cmake).
[[nodiscard]] const char* embedded_template(std::string_view name);

// A file of templates: its fields by name. Texts point into `source` and `strings`.
struct TemplateFile {
  SourceFile source;
  std::map<std::string_view, JsonTree> members;
  std::deque<std::string> strings;
};

// Returns false if there is no such file.
[[nodiscard]] bool read_template(std::string_view name, TemplateFile& file);

// One graph of a family: the names of its head, layer and tail blocks.
struct TemplateGraph {
  std::string_view head, tail;
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> layers;  // by layer: its block and inputs
};

// Returns the field `graph` of a model file as JSON, with the parameters of `model`. Omits parameters that the model
// lacks (a bias) from arguments, and replaces the second name of a tied parameter by the first. Returns nullopt with
// the reason in `fault` if an expression has no value.
[[nodiscard]] std::optional<std::string> fill_template(const TemplateFile& file, const TemplateGraph& graph,
                                                       const TemplateFields& fields, const ModelGraph& model,
                                                       std::string& fault);

}  // namespace tpplan
