// Prints the predictions of the rules of lib/ops: `tpplan_op_rules MODEL.json` reads lines `NODE RANKS LAYOUT...` and
// replies to each with a line of JSON. NODE is the index of a node. A layout is given for each of its tensors, in order
// of first use: R replicated, Z replicated and known to be zero, P partial, S0 sharded along dim 0 like torch.chunk, K0
// each half of dim 0 sharded separately. With `names` instead of a model it lists the names of all operations that have
// a rule, one per line.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/read_file.h"
#include "model/read_model.h"
#include "model/size_ops.h"
#include "ops/gradient.h"
#include "ops/op_rules.h"
#include "render/render.h"

namespace tpplan {
namespace {

using nlohmann::json;

ValueLayout layout_named(ValueLayoutTable& table, std::span<const int64_t> shape, const std::string& text) {
  const char kind = text.at(0);
  const int dim = text.size() > 1 ? std::stoi(text.substr(1)) : 0;
  Placement placement{};
  if (kind == 'P') placement.kind = PlacementKind::Partial;
  if (kind == 'S') placement = {.kind = PlacementKind::Shard, .dim = dim};
  if (kind == 'K') placement = {.kind = PlacementKind::StridedShard, .dim = dim, .split_factor = 2};
  ValueLayout layout = placed_layout(table, shape, {placement});
  layout.zero = kind == 'Z';
  return layout;
}

std::vector<int64_t> size_of(const OpGraph& graph, const ValueLayoutTable& table,
                             const std::vector<ValueLayoutId>& layouts, uint32_t id) {
  const SizeEntry& entry = graph.sizes[id];
  std::vector<int64_t> sizes(table.maps.ranks);
  const auto operand = [&](const SizeOperand& o, size_t rank) {
    return o.is_entry ? size_of(graph, table, layouts, static_cast<uint32_t>(o.number))[rank] : o.number;
  };
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    if (entry.op == SizeOp::Size)
      sizes[rank] = local_size(table, table.layouts[layouts[static_cast<size_t>(entry.a.number)]],
                               static_cast<size_t>(entry.b.number), rank);
    else if (!apply_size_op(entry.op, operand(entry.a, rank), operand(entry.b, rank), sizes[rank]))
      sizes[rank] = 0;
  }
  return sizes;
}

json describe(const ValueLayoutTable& table, const ValueLayout& layout) {
  json dims = json::array();
  for (const DimLayoutId id : layout.dims) {
    const DimLayout& map = table.maps.maps[id];
    json runs = json::array();
    for (size_t rank = 0; rank < table.maps.ranks && map.kind != DimLayoutKind::Any; ++rank) {
      json list = json::array();
      for (const Interval& run : rank_intervals(map, rank)) list.push_back({run.begin, run.end});
      runs.push_back(list);
    }
    dims.push_back({{"any", map.kind == DimLayoutKind::Any}, {"size", map.size}, {"local", map.local}, {"runs", runs}});
  }
  return {{"partial", layout.partial != 0}, {"zero", layout.zero}, {"dims", dims}};
}

json answer(const OpGraph& graph, const std::string& line) {
  std::istringstream words(line);
  size_t number = 0, ranks = 0;
  words >> number >> ranks;
  const GraphNode& node = graph.nodes.at(number);
  ValueLayoutTable table;
  reset_for_axes(table.maps, {ranks});
  std::vector<ValueLayoutId> layouts(graph.values.size());
  std::vector<ValueId> values;
  const uint32_t end = node.keywords_begin < node.keywords_end
                           ? graph.args[graph.keywords[node.keywords_end - 1].arg].end
                           : node.args_end;
  std::vector<uint32_t> sizes;
  for (uint32_t i = node.args_begin; i < end; ++i) {
    const GraphArg& arg = graph.args[i];
    if (arg.kind == ArgKind::Size) sizes.push_back(arg.id);
    if (arg.kind != ArgKind::Value || std::find(values.begin(), values.end(), arg.id) != values.end()) continue;
    values.push_back(arg.id);
    std::string text;
    words >> text;
    layouts[arg.id] = intern(table, layout_named(table, shape_of(graph, arg.id), text));
  }
  std::vector<SizeNumber> numbers(graph.sizes.size());
  std::vector<uint32_t> size_numbers(graph.sizes.size());
  for (const uint32_t id : sizes) {
    numbers[id] = {size_of(graph, table, layouts, id), 1};
    size_numbers[id] = id;
  }
  OpCall call{.graph = graph,
              .node = node,
              .table = table,
              .layouts = layouts,
              .numbers = numbers,
              .size_numbers = size_numbers,
              .name = {},
              .args = {}};
  const OpResult result = run_rule(call);
  json outs = json::array(), gradients = json::array();
  for (const ValueLayout& out : result.outs) {
    outs.push_back(describe(table, out));
    json row = json::array();
    for (const ValueId value : values) {
      bool opened = false;
      const GradState state = gradient_through(table, kComplete, table.layouts[layouts[value]], out, opened);
      row.push_back(state.partial != 0 ? "open" : "complete");
    }
    gradients.push_back(row);
  }
  return {{"crash", result.crash},
          {"wrong", result.wrong},
          {"unknown", result.unknown},
          {"outs", outs},
          {"gradients", gradients}};
}

}  // namespace
}  // namespace tpplan

int main(int argc, char** argv) {
  using namespace tpplan;
  if (argc != 2) return 2;
  if (std::string(argv[1]) == "names") {
    for (size_t op = 1; op < kOpCount; ++op) {
      if (op_row(static_cast<OpId>(op)).rule != nullptr) std::cout << kOpNames[op] << '\n';
    }
    return 0;
  }
  Diagnostics diagnostics;
  const SourceFile file = read_file(argv[1], uint64_t{1} << 30).file;
  const ModelGraph model = read_model(file, diagnostics);
  if (!model.operations.is_there) {
    finish_diagnostics(diagnostics);
    std::cerr << render_human(diagnostics, sources_of(file), {.color = false, .width = 120});
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(model.operations, line).dump() << '\n';
  return 0;
}
