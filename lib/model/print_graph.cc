#include "model/print_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/graph_words.h"
#include "model/print_graph_args.h"
#include "model/print_graph_leaves.h"
#include "model/print_graph_modules.h"

namespace tpplan {
namespace {

// True for a call of __getitem__ with a value and a tuple, which is printed as `x[1:, None]`.
bool is_indexing(const OpGraph& graph, const GraphNode& node) {
  if (graph.strings[node.name] != "__getitem__" || node.keywords_begin != node.keywords_end) return false;
  const uint32_t value = node.args_begin, index = value + 1;
  return index < node.args_end && graph.args[value].kind == ArgKind::Value &&
         graph.args[index].kind == ArgKind::Tuple && graph.args[index].end == node.args_end;
}

bool has_graded_arg(const GraphPrinter& p, const GraphNode& node) {
  const auto is_graded = [&](const GraphArg& arg) {
    return arg.kind == ArgKind::Value && p.graph.values[arg.id].requires_grad;
  };
  const uint32_t end = node.keywords_begin == node.keywords_end
                           ? node.args_end
                           : p.graph.args[p.graph.keywords[node.keywords_end - 1].arg].end;
  return std::any_of(p.graph.args.begin() + node.args_begin, p.graph.args.begin() + end, is_graded);
}

bool is_no_grad(const GraphPrinter& p) { return p.frame != 0 && p.graph.nodes[p.layout.frames[p.frame].enter].no_grad; }

std::string call_text(GraphPrinter& p, const GraphNode& node) {
  const OpGraph& graph = p.graph;
  std::string line;
  if (is_indexing(graph, node)) {
    append_graph_value(p, line, graph.args[node.args_begin].id);
    line += '[';
    append_graph_index(p, line, node.args_begin + 1);
    return line += ']';
  }
  const std::string_view op = graph.strings[node.name];
  const bool begins_line = node.out_begin == node.out_end;
  line = begins_line ? operand_text(op) : path_text(op);
  line += '(';
  for (uint32_t at = node.args_begin; at < node.args_end;) {
    if (at > node.args_begin) line += ", ";
    at = append_graph_arg(p, line, at);
  }
  for (uint32_t k = node.keywords_begin; k < node.keywords_end; ++k) {
    if (k > node.keywords_begin || node.args_begin < node.args_end) line += ", ";
    line += path_text(graph.strings[graph.keywords[k].name]);
    line += '=';
    std::ignore = append_graph_arg(p, line, graph.keywords[k].arg);
  }
  return line += ')';
}

void print_graph_op(GraphPrinter& p, const GraphNode& node) {
  const OpGraph& graph = p.graph;
  const std::string call = call_text(p, node);
  ++p.tick;
  const bool is_graded = has_graded_arg(p, node) && !is_no_grad(p);
  std::string names, types;
  for (uint32_t out = node.out_begin; out < node.out_end; ++out) {
    const std::string_view separator = out > node.out_begin ? ", " : "";
    names += separator;
    types += separator;
    bind_graph_result(p, names, graph.outs[out], graph.strings[node.name]);
    ++p.tick;
    types += graph_type_text(p, graph.values[graph.outs[out]], is_graded);
  }
  end_graph_line(p, names.empty() ? call : fmt::format("{} = {} -> {}", names, call, types));
}

void print_output(GraphPrinter& p) {
  begin_graph_statement(p);
  if (p.graph.outputs.empty()) return;
  std::string line = "output ";
  for (const ValueId value : p.graph.outputs) {
    if (!line.ends_with(' ')) line += ", ";
    append_graph_value(p, line, value);
  }
  end_graph_line(p, line);
}

void print_all(GraphPrinter& p) {
  size_t size = 0, guard = 0;
  for (uint32_t i = 0; i < p.graph.nodes.size(); ++i) {
    print_graph_sizes(p, i, size, guard);
    const GraphNode& node = p.graph.nodes[i];
    begin_graph_statement(p);
    if (node.kind == NodeKind::Op)
      print_graph_op(p, node);
    else if (node.kind == NodeKind::Enter)
      print_graph_enter(p, node, i);
    else
      print_graph_exit(p, node);
  }
  print_graph_sizes(p, static_cast<uint32_t>(p.graph.nodes.size()), size, guard);
  print_output(p);
}

std::vector<uint32_t> leaves_by_value(const OpGraph& graph) {
  std::vector<uint32_t> leaf_of(graph.values.size(), kNoId);
  for (uint32_t i = 0; i < graph.leaves.size(); ++i) leaf_of[graph.leaves[i].value] = i;
  return leaf_of;
}

// Chooses the form of each leaf. A path identifies one value, so leaves with the same path get names.
std::vector<LeafForm> leaf_forms(const ModelGraph& model, const OpGraph& graph) {
  TextMap<std::string_view, uint32_t> counts;
  const auto has_path = [](const GraphLeaf& leaf) {
    return leaf.kind == LeafKind::Param || leaf.kind == LeafKind::Buffer;
  };
  for (const GraphLeaf& leaf : graph.leaves) {
    if (has_path(leaf)) ++counts[graph.strings[leaf.path]];
  }
  std::vector<LeafForm> forms;
  for (const GraphLeaf& leaf : graph.leaves) {
    const std::string_view path = graph.strings[leaf.path];
    const GraphValue& value = graph.values[leaf.value];
    const bool is_one = has_path(leaf) && counts[path] == 1;
    const bool is_known = is_one && is_as_in_model(model, leaf.kind, path, shape_of(graph, leaf.value),
                                                   graph.strings[value.dtype], value.requires_grad);
    forms.push_back(!is_one ? LeafForm::Named : is_known ? LeafForm::Path : LeafForm::DeclaredPath);
  }
  return forms;
}

// Returns, by statement, the leaves to declare above it: inputs and unused leaves above the first statement, other
// leaves above their first use.
std::vector<std::vector<uint32_t>> declared_leaves(const OpGraph& graph, std::vector<LeafForm>& forms,
                                                   const std::vector<uint32_t>& first_use, uint32_t statements) {
  std::vector<std::vector<uint32_t>> declared(statements);
  for (uint32_t i = 0; i < graph.leaves.size(); ++i) {
    const bool is_used = first_use[i] != kNoId;
    if (!is_used && forms[i] == LeafForm::Path) forms[i] = LeafForm::DeclaredPath;
    if (forms[i] == LeafForm::Path) continue;
    declared[graph.leaves[i].kind == LeafKind::Input || !is_used ? 0 : first_use[i]].push_back(i);
  }
  return declared;
}

// Returns, by frame, the values that are used after its end. A value is in each frame up to the one of its last use.
std::vector<std::vector<ValueId>> nonlocal_values(const GraphPrinter& p) {
  std::vector<std::vector<ValueId>> nonlocals(p.layout.frames.size());
  for (ValueId value = 0; value < p.graph.values.size(); ++value) {
    uint32_t frame = p.layout.frame_of[value];
    for (; frame != kNoId && is_used_outside(p, value, frame); frame = p.layout.frames[frame].parent)
      nonlocals[frame].push_back(value);
  }
  return nonlocals;
}

}  // namespace

bool print_graph(const ModelGraph& model, const Sink& sink) {
  const OpGraph& graph = model.operations;
  if (!graph.is_there) return sink("# the model has no operations\n");
  const GraphLayout layout = lay_out_graph(graph);
  const std::vector<uint32_t> leaf_of = leaves_by_value(graph);
  std::vector<LeafForm> forms = leaf_forms(model, graph);
  ValueUses uses;
  std::vector<Tick> frame_ends(layout.frames.size(), kNoTick);
  std::vector<uint32_t> first_use(graph.leaves.size(), kNoId);
  GraphPrinter counter{.model = model,
                       .graph = graph,
                       .layout = layout,
                       .sink = sink,
                       .uses = uses,
                       .frame_ends = frame_ends,
                       .first_use = first_use,
                       .leaf_of = leaf_of,
                       .forms = forms,
                       .tick = 1};
  print_all(counter);
  sort_uses(uses, graph.values.size());
  ValueNames names{.uses = uses};
  names.names.assign(graph.values.size(), nullptr);
  GraphPrinter p = counter;
  p.names = &names;
  p.tick = 1;
  p.statement = 0;
  p.nonlocals = nonlocal_values(counter);
  p.declared = declared_leaves(graph, forms, first_use, counter.statement);
  for (size_t i = 0; i < graph.leaves.size(); ++i) {
    const std::string_view path = graph.strings[graph.leaves[i].path];
    if (forms[i] != LeafForm::Named && is_identifier(path)) names.reserved.emplace(path);
  }
  p.size_numbers.assign(graph.sizes.size(), 0);
  for (size_t i = 0; i < layout.size_lines.size(); ++i)
    p.size_numbers[layout.size_lines[i].second] = static_cast<uint32_t>(i + 1);
  print_graph_settings(p);
  print_all(p);
  return !p.has_failed && sink(p.out);
}

}  // namespace tpplan
