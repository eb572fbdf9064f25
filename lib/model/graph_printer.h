// The state of the printer of the graph notation, and the names and types of its values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/write_file.h"
#include "model/graph_layout.h"
#include "model/model_graph.h"
#include "model/value_names.h"

namespace tpplan {

// The form of an input, parameter, buffer or constant: its path, its path with a declaration, or a name.
enum class LeafForm : uint8_t { None, Path, DeclaredPath, Named };

// The graph is printed in two identical passes. The first pass, without names, collects the uses of each value.
struct GraphPrinter {
  const ModelGraph& model;
  const OpGraph& graph;
  const GraphLayout& layout;
  const Sink& sink;
  ValueUses& uses;
  std::vector<Tick>& frame_ends;                  // by frame
  std::vector<uint32_t>& first_use;               // by leaf: index of a statement; kNoId: unused
  const std::vector<uint32_t>& leaf_of;           // by value; kNoId: none
  const std::vector<LeafForm>& forms;             // by leaf
  ValueNames* names = nullptr;                    // nullptr in the first pass
  std::vector<std::vector<ValueId>> nonlocals{};  // by frame: values used outside without being returned
  std::vector<std::vector<uint32_t>> declared{};  // by statement: leaves to declare above it
  std::vector<uint32_t> size_numbers{};           // by size entry: n of its name `sn`; 0: no name
  Tick tick = 0;
  uint32_t statement = 0;
  uint32_t depth = 0;  // of `frame`
  uint32_t frame = 0;
  std::string out{};
  bool has_failed = false;
};

[[nodiscard]] bool is_counting(const GraphPrinter& p);  // true in the first pass
[[nodiscard]] NameScope scope_of(const GraphPrinter& p, uint32_t frame);

// Ends the line and sends the text to the sink when it is long.
void end_graph_line(GraphPrinter& p, std::string_view line);

// Returns `float32[2, 8]`, and `grad` or `no_grad` if requires_grad differs from the default.
[[nodiscard]] std::string graph_type_text(const GraphPrinter& p, const GraphValue& value, bool may_have_grad);

// Returns the current name of a value.
[[nodiscard]] std::string graph_name_of(const GraphPrinter& p, ValueId value);

// Appends the name of a value, or notes its use in the first pass.
void append_graph_value(GraphPrinter& p, std::string& line, ValueId value);

// Returns the last part of a path that is not a number: `layers` of `model.layers.0`.
[[nodiscard]] std::string_view last_name_of_path(std::string_view path);

// True if the value is used after the end of the frame.
[[nodiscard]] bool is_used_outside(const GraphPrinter& p, ValueId value, uint32_t frame);

// Binds a name to a result of an operation and appends it to the line.
void bind_graph_result(GraphPrinter& p, std::string& line, ValueId value, std::string_view op);

}  // namespace tpplan
