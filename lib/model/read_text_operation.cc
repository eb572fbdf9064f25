#include "model/read_text_operation.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/op_id.h"
#include "model/read_text_types.h"

namespace tpplan {
namespace {

uint32_t arg_count(const TextReader& reader) { return static_cast<uint32_t>(reader.graph.args.size()); }

bool is_no_grad(const TextReader& reader) { return !reader.frames.empty() && reader.frames.back().no_grad; }

struct OpResults {
  std::vector<std::string_view> names;
  std::vector<TextType> types;
};

bool has_graded_arg(const TextReader& reader, uint32_t begin) {
  const std::vector<GraphArg>& args = reader.graph.args;
  return std::any_of(args.begin() + begin, args.end(), [&](const GraphArg& arg) {
    return arg.kind == ArgKind::Value && reader.graph.values[arg.id].requires_grad;
  });
}

// Reads positional arguments, then keywords, and appends both to OpGraph::args.
bool read_op_args(TextReader& reader, GraphNode& node) {
  OpGraph& graph = reader.graph;
  node.args_begin = arg_count(reader);
  node.args_end = node.args_begin;
  node.keywords_begin = static_cast<uint32_t>(graph.keywords.size());
  while (!is_sign(next_token(reader), ")")) {
    const GraphToken token = next_token(reader);
    const bool is_keyword = is_sign(token_after(reader), "=");
    if (is_keyword) {
      std::string_view name;
      if (!read_text_path(reader, name, "a keyword")) return false;
      ++reader.at;
      graph.keywords.push_back({.name = intern_string(reader, name), .arg = arg_count(reader)});
    } else if (graph.keywords.size() > node.keywords_begin) {
      return text_error(reader, token, "positional argument follows a keyword", "write keywords last");
    }
    if (!read_text_arg(reader)) return false;
    if (!is_keyword) node.args_end = arg_count(reader);
    if (!take_sign(reader, ",")) break;
  }
  node.keywords_end = static_cast<uint32_t>(graph.keywords.size());
  return expect_sign(reader, ")", "the arguments of an operation");
}

void set_operation(TextReader& reader, GraphNode& node, std::string_view op) {
  node.name = intern_string(reader, op);
  node.op = find_op(plain_op(op));
  node.in_place = is_in_place(op);
}

// Reads `x[1:, None]` as a call of __getitem__.
bool read_indexing(TextReader& reader, GraphNode& node) {
  const GraphToken token = next_token(reader);
  ValueId value = 0;
  if (!find_value(reader, token, token.text, value)) return false;
  reader.at += 2;
  set_operation(reader, node, "__getitem__");
  node.args_begin = arg_count(reader);
  if (!has_text_capacity(reader, reader.graph.args.size())) return false;
  reader.graph.args.push_back({.kind = ArgKind::Value, .end = node.args_begin + 1, .id = value});
  if (!read_text_index(reader)) return false;
  node.args_end = arg_count(reader);
  node.keywords_begin = node.keywords_end = static_cast<uint32_t>(reader.graph.keywords.size());
  return true;
}

bool read_results(TextReader& reader, const GraphNode& node, OpResults& results) {
  const bool is_graded = has_graded_arg(reader, node.args_begin) && !is_no_grad(reader);
  const GraphToken arrow = next_token(reader);
  if (results.names.empty() && !is_sign(arrow, "->")) return true;
  if (!expect_sign(reader, "->", "an operation with results")) return false;
  do {
    if (!read_text_type(reader, is_graded, results.types.emplace_back())) return false;
  } while (take_sign(reader, ","));
  return results.types.size() == results.names.size() ||
         text_error(reader, arrow,
                    fmt::format("{} results have names, but {} have types", results.names.size(), results.types.size()),
                    "write a type for each name, and the name `_` for an unused result");
}

}  // namespace

bool read_text_operation(TextReader& reader) {
  OpGraph& graph = reader.graph;
  if (!has_text_capacity(reader, graph.nodes.size())) return false;
  OpResults results;
  const auto is_name_ahead = [&] {
    return next_token(reader).kind == GraphTokenKind::Word &&
           (is_sign(token_after(reader), ",") || is_sign(token_after(reader), "="));
  };
  while (is_name_ahead()) {
    if (!read_text_name(reader, results.names.emplace_back())) return false;
    if (!take_sign(reader, ",")) break;
  }
  if (!results.names.empty() && !expect_sign(reader, "=", "the names of results")) return false;
  GraphNode node{.kind = NodeKind::Op, .offset = statement_offset(reader)};
  if (is_sign(token_after(reader), "[")) {
    if (!read_indexing(reader, node)) return false;
  } else {
    std::string_view op;
    if (!read_text_path(reader, op, "an operation")) return false;
    if (op == "@enter" || op == "@exit")
      return text_error(reader, reader.line.tokens.front(), fmt::format("`{}` is not an operation", op),
                        "write `with` to enter a module");
    set_operation(reader, node, op);
    if (!expect_sign(reader, "(", fmt::format("`{}`", op)) || !read_op_args(reader, node)) return false;
  }
  if (!read_results(reader, node, results)) return false;
  if (!has_text_capacity(reader, graph.outs.size() + results.names.size()) ||
      !has_text_capacity(reader, graph.values.size() + results.names.size()))
    return false;
  node.out_begin = static_cast<uint32_t>(graph.outs.size());
  for (size_t i = 0; i < results.names.size(); ++i) {
    const ValueId value = add_text_value(reader, results.types[i]);
    graph.outs.push_back(value);
    bind_value(reader, results.names[i], value);
  }
  node.out_end = static_cast<uint32_t>(graph.outs.size());
  graph.nodes.push_back(node);
  return true;
}

}  // namespace tpplan
