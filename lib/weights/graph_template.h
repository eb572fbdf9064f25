// Recorded graphs of operations, with sizes as expressions: what lib/weights/templates holds (written by
// tools/write-templates), and the graph that one of them makes at given sizes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "model/model_graph.h"
#include "syntax/json_tree.h"

namespace tpplan {

// The text of lib/weights/templates/NAME.json, nullptr where there is none (tools/cmake/embed.cmake).
[[nodiscard]] const char* embedded_template(std::string_view name);

// A file of templates: its members by name. Texts point into `source` and `strings`.
struct TemplateFile {
  SourceFile source;
  std::map<std::string_view, JsonTree> members;
  std::deque<std::string> strings;
};

// False where there is no such file.
[[nodiscard]] bool read_template(std::string_view name, TemplateFile& file);

// One graph of a family: head, layers and tail as names of blocks.
struct TemplateGraph {
  std::string_view head, tail;
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> layers;  // one each: its block, what it takes
};

// What expressions and marks of a template stand for.
struct TemplateFields {
  std::map<std::string_view, int64_t> sizes;             // "hidden_size"
  std::map<std::string_view, std::string_view> numbers;  // as they are written: "rms_norm_eps" 1e-06; "" is null
  std::map<std::string_view, std::string_view> lists;    // "long_factor": as an argument, ["t",1.5,2.0]
  std::string_view dtype, activation;                    // "bfloat16", "silu"
  int64_t batch = 0, sequence = 0;
};

// The member `graph` of a model file, as JSON: its parameters are those of `model`. A parameter that the model does not
// have (a bias) is no argument; the second name of a tied one stands for the first. Nothing, and `fault` says why,
// where an expression asks for what there is not.
[[nodiscard]] std::optional<std::string> fill_template(const TemplateFile& file, const TemplateGraph& graph,
                                                       const TemplateFields& fields, const ModelGraph& model,
                                                       std::string& fault);

}  // namespace tpplan
