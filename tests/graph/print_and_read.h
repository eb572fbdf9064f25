// The law of printing and reading: a printed graph is read back as the same graph, and printed as the same text.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/print_graph.h"
#include "model/prove_graph.h"
#include "model/read_graph_text.h"
#include "same_graph.h"

namespace tpplan {

inline std::string printed_graph(const ModelGraph& model) {
  std::string text;
  std::ignore = print_graph(model, append_to(text));
  return text;
}

// Returns an empty string if the law holds, else the difference. @pre the model has a graph that prove_graph accepted.
inline std::string broken_law(const ModelGraph& model) {
  const std::string text = printed_graph(model);
  std::vector<GraphLine> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back({std::string_view(text).substr(at, end - at), at, false});
    at = end + 1;
  }
  ModelGraph copy = model;
  copy.operations = {};
  Diagnostics diagnostics;
  if (!read_graph_text(lines, copy, diagnostics) || !prove_graph(copy.operations, copy, diagnostics)) {
    const Diagnostic& d = diagnostics.list.front();
    const std::string rest = text.substr(d.span.offset);
    return "cannot be read back: " + d.message + ", at `" + rest.substr(0, rest.find('\n')) + "`";
  }
  copy.operations.is_there = true;
  const std::string difference = graph_difference(model.operations, copy.operations);
  if (!difference.empty()) return "is read back as another graph: " + difference;
  return printed_graph(copy) == text ? "" : "is printed as another text";
}

}  // namespace tpplan
