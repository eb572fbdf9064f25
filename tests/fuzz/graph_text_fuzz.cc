// Any bytes as the lines of a graph in text notation, for a fixed model. A graph that the reader and prove_graph accept
// is printed and read back as the same graph.
#include <algorithm>
#include <string_view>
#include <vector>

#include "../graph/print_and_read.h"
#include "fuzz_input.h"
#include "model/prove_graph.h"
#include "model/read_graph_text.h"
#include "model/read_model.h"

namespace {

constexpr std::string_view kModel = R"({"format": "tpplan.model/1", "name": "M", "framework": "torch", "modules": [
 {"path": "", "type": "M", "parameters": {"scale": {"shape": [8], "dtype": "float32"}}},
 {"path": "a", "type": "Linear", "parameters": {"weight": {"shape": [8, 4], "dtype": "float32"}},
  "buffers": {"mask": {"shape": [8], "dtype": "bool"}}},
 {"path": "b", "type": "Linear", "parameters": {"weight": {"shape": [4, 8], "dtype": "float32"}}}]})";

std::vector<tpplan::GraphLine> split_lines(std::string_view text) {
  std::vector<tpplan::GraphLine> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back({text.substr(at, end - at), at, false});
    at = end + 1;
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  Diagnostics diagnostics;
  const SourceFile model_file = fuzz_file("model.json", kModel);  // the model has views into it
  ModelGraph model = read_model(model_file, diagnostics);
  require(!has_errors(diagnostics), "the fixed model has no errors");
  const SourceFile file = fuzz_file("graph.txt", data, size);
  const bool is_read = read_graph_text(split_lines(file.text), model, diagnostics);
  require(is_read != has_errors(diagnostics), "a rejected graph has an error, an accepted one has none");
  model.operations.is_there =
      is_read && !model.operations.nodes.empty() && prove_graph(model.operations, model, diagnostics);
  show(diagnostics, sources_of(file));
  if (model.operations.is_there) require(broken_law(model).empty(), "a printed graph is read back as the same graph");
  return 0;
}
