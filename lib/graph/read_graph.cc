#include "graph/read_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tpplan {
namespace {

constexpr size_t kMaxEntries = size_t{8} << 20;  // of one kind: a model of a thousand layers has some ten thousand

bool fault(GraphReader& reader, const JsonNode& node, std::string message) {
  if (!reader.failed) {
    report_message(reader.diagnostics, Code::TP2003, {reader.file, node.offset, 1}, std::move(message),
                   "write the graph again: python -m tpplan.export");
  }
  reader.failed = true;
  return false;
}

// A cursor over a small tree: the next child of an array.
struct Children {
  const JsonTree& tree;
  uint32_t at, end;
  Children(const JsonTree& t, uint32_t parent) : tree(t), at(parent + 1), end(t.nodes[parent].end) {}
  bool more() const { return at < end; }
  uint32_t next() {
    const uint32_t child = at;
    at = tree.nodes[child].end;
    return child;
  }
};

bool is_array(const JsonNode& node) { return node.kind == JsonKind::Array; }

bool read_id(GraphReader& reader, const JsonTree& tree, Children& children, uint32_t& id, std::string_view what) {
  if (!children.more()) return fault(reader, tree.nodes[0], fmt::format("an entry of the graph lacks its {}", what));
  const JsonNode& node = tree.nodes[children.next()];
  if (node.kind != JsonKind::Integer || node.integer < 0 || node.integer >= kNoId)
    return fault(reader, node, fmt::format("{} of the graph is {}, not an id", what, json_kind_name(node.kind)));
  id = static_cast<uint32_t>(node.integer);
  return true;
}

template <typename Entry>
bool has_room(GraphReader& reader, const std::vector<Entry>& entries, const JsonNode& node) {
  if (entries.size() < kMaxEntries) return true;
  if (!reader.failed)
    report_message(reader.diagnostics, Code::TP1007, {reader.file, node.offset, 1},
                   fmt::format("the graph has more than {} entries of one kind", kMaxEntries));
  reader.failed = true;
  return false;
}

double number_of(const JsonNode& node) {
  if (node.kind == JsonKind::Integer) return static_cast<double>(node.integer);
  double value = 0;
  std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  return value;
}

bool read_text_member(GraphReader& reader, const JsonTree& tree, std::string_view& text) {
  if (tree.nodes[0].kind == JsonKind::Null) return true;
  if (tree.nodes[0].kind != JsonKind::String)
    return fault(reader, tree.nodes[0],
                 fmt::format("`{}` is {}, not a string", tree.nodes[0].key, json_kind_name(tree.nodes[0].kind)));
  text = tree.nodes[0].text;
  return true;
}

bool read_count_member(GraphReader& reader, const JsonTree& tree, int64_t& count) {
  if (tree.nodes[0].kind == JsonKind::Null) return true;
  if (tree.nodes[0].kind != JsonKind::Integer || tree.nodes[0].integer < 0)
    return fault(reader, tree.nodes[0],
                 fmt::format("`{}` is {}, not a count", tree.nodes[0].key, json_kind_name(tree.nodes[0].kind)));
  count = tree.nodes[0].integer;
  return true;
}

bool read_string(GraphReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (node.kind != JsonKind::String) return fault(reader, node, "an entry of `strings` is no string");
  if (!has_room(reader, reader.graph.strings, node)) return false;
  reader.graph.strings.push_back(node.text);
  return true;
}

bool read_shape(GraphReader& reader, const JsonTree& tree) {
  OpGraph& graph = reader.graph;
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root)) return fault(reader, root, "an entry of `shapes` is no list of sizes");
  if (!has_room(reader, graph.shapes, root)) return false;
  GraphShape shape{.begin = static_cast<uint32_t>(graph.shape_sizes.size()), .ndim = 0};
  for (Children sizes(tree, 0); sizes.more();) {
    const JsonNode& size = tree.nodes[sizes.next()];
    if (size.kind != JsonKind::Integer || size.integer < 0)
      return fault(reader, size, "a size in `shapes` is no count");
    if (++shape.ndim > 64) return fault(reader, size, "a shape has more than 64 dims");
    graph.shape_sizes.push_back(size.integer);
  }
  // Products of sizes stay below 2^62, so that no sum or offset of them overflows.
  int64_t elements = 1;
  for (uint32_t i = 0; i < shape.ndim; ++i) {
    const int64_t size = std::max<int64_t>(1, graph.shape_sizes[shape.begin + i]);
    if (size > (int64_t{1} << 62) / elements) return fault(reader, root, "a shape has more than 2^62 elements");
    elements *= size;
  }
  graph.shapes.push_back(shape);
  return true;
}

bool read_operand(GraphReader& reader, const JsonTree& tree, uint32_t at, SizeOperand& operand) {
  const JsonNode& node = tree.nodes[at];
  if (node.kind == JsonKind::Integer) {
    operand = {false, node.integer};
    return true;
  }
  if (is_array(node) && node.end == at + 2 && tree.nodes[at + 1].kind == JsonKind::Integer) {
    operand = {true, tree.nodes[at + 1].integer};
    return true;
  }
  return fault(reader, node, "an operand of a size is neither a number nor the number of an entry, as [3]");
}

constexpr std::pair<std::string_view, SizeOp> kSizeOps[] = {
    {"size", SizeOp::Size},         {"add", SizeOp::Add}, {"sub", SizeOp::Sub},    {"mul", SizeOp::Mul},
    {"floordiv", SizeOp::FloorDiv}, {"mod", SizeOp::Mod}, {"neg", SizeOp::Neg},    {"min", SizeOp::Min},
    {"max", SizeOp::Max},           {"pow", SizeOp::Pow}, {"abs", SizeOp::Abs},    {"truediv", SizeOp::TrueDiv},
    {"ceil", SizeOp::Ceil},         {"int", SizeOp::Int}, {"round", SizeOp::Round}};

bool read_size(GraphReader& reader, const JsonTree& tree) {
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root) || root.end < 3 || tree.nodes[1].kind != JsonKind::String)
    return fault(reader, root, "an entry of `sizes` is no [operation, operand, operand]");
  if (!has_room(reader, reader.graph.sizes, root)) return false;
  const auto row = std::find_if(std::begin(kSizeOps), std::end(kSizeOps),
                                [&](const auto& op) { return op.first == tree.nodes[1].text; });
  if (row == std::end(kSizeOps))
    return fault(reader, tree.nodes[1], fmt::format("unknown operation on sizes `{}`", tree.nodes[1].text));
  SizeEntry entry{.op = row->second, .a = {}, .b = {}, .traced = 0, .offset = static_cast<uint32_t>(root.offset)};
  Children operands(tree, 0);
  operands.next();
  if (!read_operand(reader, tree, operands.next(), entry.a)) return false;
  if (operands.more() && !read_operand(reader, tree, operands.next(), entry.b)) return false;
  reader.graph.sizes.push_back(entry);
  return true;
}

bool read_value(GraphReader& reader, const JsonTree& tree) {
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root)) return fault(reader, root, "an entry of `values` is no [shape, dtype, requires_grad]");
  if (!has_room(reader, reader.graph.values, root)) return false;
  Children parts(tree, 0);
  GraphValue value;
  uint32_t grad = 0;
  if (!read_id(reader, tree, parts, value.shape, "shape") || !read_id(reader, tree, parts, value.dtype, "dtype") ||
      !read_id(reader, tree, parts, grad, "requires_grad"))
    return false;
  value.requires_grad = grad != 0;
  reader.graph.values.push_back(value);
  return true;
}

bool read_leaf(GraphReader& reader, const JsonTree& tree) {
  constexpr std::string_view kKinds[] = {"input", "param", "buffer", "constant"};
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root)) return fault(reader, root, "an entry of `leaves` is no [value, kind, path]");
  if (!has_room(reader, reader.graph.leaves, root)) return false;
  Children parts(tree, 0);
  GraphLeaf leaf{.value = 0, .kind = LeafKind::Input, .path = 0, .offset = static_cast<uint32_t>(root.offset)};
  if (!read_id(reader, tree, parts, leaf.value, "value")) return false;
  if (!parts.more()) return fault(reader, root, "a leaf lacks its kind");
  const JsonNode& kind = tree.nodes[parts.next()];
  const auto found = std::find(std::begin(kKinds), std::end(kKinds), kind.text);
  if (kind.kind != JsonKind::String || found == std::end(kKinds))
    return fault(reader, kind, "the kind of a leaf is input, param, buffer or constant");
  leaf.kind = static_cast<LeafKind>(found - std::begin(kKinds));
  if (!read_id(reader, tree, parts, leaf.path, "path")) return false;
  reader.graph.leaves.push_back(leaf);
  return true;
}

// ---- nodes ----

GraphArg& push_arg(GraphReader& reader, ArgKind kind) {
  GraphArg& arg = reader.graph.args.emplace_back();
  arg.kind = kind;
  arg.end = static_cast<uint32_t>(reader.graph.args.size());
  return arg;
}

uint32_t keep_text(GraphReader& reader, std::string_view text) {
  reader.graph.texts.push_back(text);
  return static_cast<uint32_t>(reader.graph.texts.size() - 1);
}

bool read_arg(GraphReader& reader, const JsonTree& tree, uint32_t at);

bool read_parts(GraphReader& reader, const JsonTree& tree, uint32_t at, ArgKind kind) {
  const size_t index = reader.graph.args.size();
  push_arg(reader, kind);
  Children parts(tree, at);
  parts.next();  // the tag
  while (parts.more()) {
    if (!read_arg(reader, tree, parts.next())) return false;
  }
  reader.graph.args[index].end = static_cast<uint32_t>(reader.graph.args.size());
  return true;
}

bool read_tagged(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& root = tree.nodes[at];
  const JsonNode& tag = tree.nodes[at + 1];
  const JsonNode* part = root.end > at + 2 ? &tree.nodes[at + 2] : nullptr;
  const bool is_text = part != nullptr && part->kind == JsonKind::String;
  const bool is_number = part != nullptr && (part->kind == JsonKind::Integer || part->kind == JsonKind::Number);
  if (tag.text == "t") return read_parts(reader, tree, at, ArgKind::Tuple);
  if (tag.text == "s") {
    const size_t index = reader.graph.args.size();
    if (!read_parts(reader, tree, at, ArgKind::Slice)) return false;
    size_t parts = 0;
    for (uint32_t i = static_cast<uint32_t>(index) + 1; i < reader.graph.args.size(); i = reader.graph.args[i].end)
      ++parts;
    return parts == 3 || fault(reader, root, "a slice has three parts");
  }
  if (tag.text == "x") return push_arg(reader, ArgKind::Ellipsis), true;
  if (tag.text == "e" && part != nullptr && part->kind == JsonKind::Integer && part->integer >= 0 &&
      part->integer < kNoId) {
    push_arg(reader, ArgKind::Size).id = static_cast<uint32_t>(part->integer);
    return true;
  }
  if (tag.text == "d" && is_text) return push_arg(reader, ArgKind::TypeName).id = keep_text(reader, part->text), true;
  if (tag.text == "f" && is_text) {
    GraphArg& arg = push_arg(reader, ArgKind::Float);
    arg.id = keep_text(reader, part->text);
    arg.number = part->text == "inf"    ? std::numeric_limits<double>::infinity()
                 : part->text == "-inf" ? -std::numeric_limits<double>::infinity()
                                        : std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (tag.text == "h" && (is_number || (part != nullptr && part->kind == JsonKind::Bool))) {
    push_arg(reader, ArgKind::Host).number = is_number ? number_of(*part) : part->is_true;
    return true;
  }
  if (tag.text == "o" && is_text) return push_arg(reader, ArgKind::Other).id = keep_text(reader, part->text), true;
  return fault(reader, root, fmt::format("`[\"{}\", ...]` is no argument", tag.text));
}

bool read_arg(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& node = tree.nodes[at];
  if (!has_room(reader, reader.graph.args, node)) return false;
  switch (node.kind) {
    case JsonKind::Null:
      push_arg(reader, ArgKind::None);
      return true;
    case JsonKind::Bool: {
      GraphArg& arg = push_arg(reader, ArgKind::Bool);
      arg.integer = node.is_true;
      arg.number = node.is_true;
      return true;
    }
    case JsonKind::Integer: {
      GraphArg& arg = push_arg(reader, ArgKind::Int);
      arg.integer = node.integer;
      arg.number = static_cast<double>(node.integer);
      return true;
    }
    case JsonKind::Number:
      push_arg(reader, ArgKind::Number).number = number_of(node);
      return true;
    case JsonKind::String:
      push_arg(reader, ArgKind::Text).id = keep_text(reader, node.text);
      return true;
    case JsonKind::Array:
      if (node.end == at + 2 && tree.nodes[at + 1].kind == JsonKind::Integer) {
        const int64_t id = tree.nodes[at + 1].integer;
        if (id < 0 || id >= kNoId) return fault(reader, node, "an argument is no id of a value");
        push_arg(reader, ArgKind::Value).id = static_cast<uint32_t>(id);
        return true;
      }
      if (node.end > at + 1 && tree.nodes[at + 1].kind == JsonKind::String) return read_tagged(reader, tree, at);
      [[fallthrough]];
    case JsonKind::Object:
      break;
  }
  return fault(reader, node, "an argument of the graph is of no known form");
}

// [steps that lead to the value, value before, value behind, position of the parameter that a keyword names]
bool read_crossing(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& root = tree.nodes[at];
  if (!is_array(root) || root.end < at + 2 || !is_array(tree.nodes[at + 1]))
    return fault(reader, root, "a value at a boundary is no [path, outside, inside]");
  Crossing crossing;
  for (Children steps(tree, at + 1); steps.more();) {
    const JsonNode& step = tree.nodes[steps.next()];
    if (crossing.depth++ > 0) continue;
    if (step.kind == JsonKind::String)
      crossing.key = step.text;
    else if (step.kind == JsonKind::Integer && step.integer >= 0 && step.integer < (1 << 30))
      crossing.position = static_cast<int32_t>(step.integer);
    else
      return fault(reader, step, "a step to a value at a boundary is neither a position nor a name");
  }
  Children parts(tree, at);
  parts.next();
  if (!read_id(reader, tree, parts, crossing.from, "value") || !read_id(reader, tree, parts, crossing.to, "value"))
    return false;
  if (parts.more()) {
    uint32_t parameter = 0;
    if (!read_id(reader, tree, parts, parameter, "position of a parameter")) return false;
    crossing.parameter = static_cast<int32_t>(std::min<uint32_t>(parameter, 1u << 30));
  }
  reader.graph.crossings.push_back(crossing);
  return true;
}

bool read_crossings(GraphReader& reader, const JsonTree& tree, Children& parts, GraphNode& node) {
  node.crossing_begin = static_cast<uint32_t>(reader.graph.crossings.size());
  if (!parts.more()) return fault(reader, tree.nodes[0], "a boundary lacks its values");
  const uint32_t list = parts.next();
  if (!is_array(tree.nodes[list])) return fault(reader, tree.nodes[list], "the values of a boundary are no list");
  for (Children values(tree, list); values.more();) {
    if (!has_room(reader, reader.graph.crossings, tree.nodes[0]) || !read_crossing(reader, tree, values.next()))
      return false;
  }
  node.crossing_end = static_cast<uint32_t>(reader.graph.crossings.size());
  return true;
}

bool read_boundary(GraphReader& reader, const JsonTree& tree, Children& parts, GraphNode& node) {
  if (!read_id(reader, tree, parts, node.name, "module")) return false;
  if (node.kind == NodeKind::Enter) {
    uint32_t no_grad = 0;
    if (!read_id(reader, tree, parts, node.positional, "number of positional arguments") ||
        !read_id(reader, tree, parts, no_grad, "no_grad"))
      return false;
    node.no_grad = no_grad != 0;
  }
  return read_crossings(reader, tree, parts, node);
}

bool read_op(GraphReader& reader, const JsonTree& tree, Children& parts, GraphNode& node) {
  OpGraph& graph = reader.graph;
  const auto list = [&](std::string_view what, uint32_t& at) {
    if (!parts.more()) return fault(reader, tree.nodes[0], fmt::format("an op lacks its {}", what));
    at = parts.next();
    return is_array(tree.nodes[at]) || fault(reader, tree.nodes[at], fmt::format("the {} of an op are no list", what));
  };
  uint32_t at = 0;
  if (!list("arguments", at)) return false;
  node.args_begin = static_cast<uint32_t>(graph.args.size());
  for (Children args(tree, at); args.more();) {
    if (!read_arg(reader, tree, args.next())) return false;
  }
  node.args_end = static_cast<uint32_t>(graph.args.size());
  if (!list("keywords", at)) return false;
  node.keywords_begin = static_cast<uint32_t>(graph.keywords.size());
  for (Children keywords(tree, at); keywords.more();) {
    GraphKeyword keyword;
    if (!read_id(reader, tree, keywords, keyword.name, "keyword")) return false;
    if (!keywords.more()) return fault(reader, tree.nodes[at], "a keyword lacks its argument");
    keyword.arg = static_cast<uint32_t>(graph.args.size());
    if (!read_arg(reader, tree, keywords.next())) return false;
    graph.keywords.push_back(keyword);
  }
  node.keywords_end = static_cast<uint32_t>(graph.keywords.size());
  if (!list("results", at)) return false;
  node.out_begin = static_cast<uint32_t>(graph.outs.size());
  for (Children outs(tree, at); outs.more();) {
    uint32_t id = 0;
    if (!read_id(reader, tree, outs, id, "result") || !has_room(reader, graph.outs, tree.nodes[0])) return false;
    graph.outs.push_back(id);
  }
  node.out_end = static_cast<uint32_t>(graph.outs.size());
  return true;
}

bool read_node(GraphReader& reader, const JsonTree& tree) {
  OpGraph& graph = reader.graph;
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root)) return fault(reader, root, "an entry of `nodes` is no list");
  if (!has_room(reader, graph.nodes, root)) return false;
  Children parts(tree, 0);
  GraphNode node;
  node.offset = static_cast<uint32_t>(root.offset);
  if (!read_id(reader, tree, parts, node.name, "operation")) return false;
  if (node.name >= graph.strings.size())
    return fault(reader, tree.nodes[1], "an operation is no entry of `strings`, which stands before `nodes`");
  const std::string_view op = graph.strings[node.name];
  if (op == "@enter" || op == "@exit") {
    node.kind = op == "@enter" ? NodeKind::Enter : NodeKind::Exit;
    if (!read_boundary(reader, tree, parts, node)) return false;
  } else if (!read_op(reader, tree, parts, node)) {
    return false;
  }
  graph.nodes.push_back(node);
  return true;
}

bool read_guard(GraphReader& reader, const JsonTree& tree) {
  constexpr std::pair<std::string_view, GuardOp> kOps[] = {{"lt", GuardOp::Lt}, {"le", GuardOp::Le},
                                                           {"gt", GuardOp::Gt}, {"ge", GuardOp::Ge},
                                                           {"eq", GuardOp::Eq}, {"ne", GuardOp::Ne}};
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root) || root.end < 2) return fault(reader, root, "an entry of `guards` is no list");
  if (!has_room(reader, reader.graph.guards, root)) return false;
  const auto row =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& op) { return op.first == tree.nodes[1].text; });
  if (row == std::end(kOps)) return fault(reader, tree.nodes[1], "unknown comparison of sizes");
  GraphGuard guard{.op = row->second, .a = {}, .b = {}, .held = true, .offset = static_cast<uint32_t>(root.offset)};
  Children parts(tree, 0);
  parts.next();
  for (SizeOperand* operand : {&guard.a, &guard.b}) {
    if (!parts.more()) return fault(reader, root, "a comparison of sizes lacks an operand");
    if (!read_operand(reader, tree, parts.next(), *operand)) return false;
  }
  if (!parts.more() || tree.nodes[parts.at].kind != JsonKind::Bool)
    return fault(reader, root, "a comparison of sizes lacks its result");
  guard.held = tree.nodes[parts.at].is_true;
  reader.graph.guards.push_back(guard);
  return true;
}

bool read_output(GraphReader& reader, const JsonTree& tree) {
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const JsonNode& node = tree.nodes[i];
    if (node.kind == JsonKind::Integer && node.integer >= 0 && node.integer < kNoId)
      reader.graph.outputs.push_back(static_cast<ValueId>(node.integer));
    else if (!is_array(node) && node.kind != JsonKind::Null)
      return fault(reader, node, "`output` is no value");
  }
  return true;
}

bool read_rules(GraphReader& reader, const JsonTree& tree) {
  if (tree.nodes[0].kind != JsonKind::Object) return fault(reader, tree.nodes[0], "`rules` is no object");
  for (Children rules(tree, 0); rules.more();) {
    const JsonNode& rule = tree.nodes[rules.next()];
    if (rule.kind != JsonKind::String) return fault(reader, rule, "a rule of an operation is no string");
    reader.graph.rules.emplace_back(rule.key, rule.text);
  }
  return true;
}

struct MemberRow {
  std::string_view key;
  JsonMember mode;
  bool (*read)(GraphReader&, const JsonTree&);
};

constexpr MemberRow kMembers[] = {
    {"mode", JsonMember::Whole, [](GraphReader& r, const JsonTree& t) { return read_text_member(r, t, r.graph.mode); }},
    {"attention", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_text_member(r, t, r.graph.attention); }},
    {"experts", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_text_member(r, t, r.graph.experts); }},
    {"dtype", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_text_member(r, t, r.graph.dtype); }},
    {"batch", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_count_member(r, t, r.graph.batch); }},
    {"sequence", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_count_member(r, t, r.graph.sequence); }},
    {"strings", JsonMember::Elements, read_string},
    {"shapes", JsonMember::Elements, read_shape},
    {"sizes", JsonMember::Elements, read_size},
    {"values", JsonMember::Elements, read_value},
    {"leaves", JsonMember::Elements, read_leaf},
    {"nodes", JsonMember::Elements, read_node},
    {"guards", JsonMember::Elements, read_guard},
    {"output", JsonMember::Whole, read_output},
    {"rules", JsonMember::Whole, read_rules},
};

const MemberRow* find_row(std::string_view key) {
  const auto* row =
      std::find_if(std::begin(kMembers), std::end(kMembers), [key](const MemberRow& r) { return r.key == key; });
  return row == std::end(kMembers) ? nullptr : row;
}

}  // namespace

JsonVisitor graph_visitor(GraphReader& reader) {
  return {.member =
              [&reader](std::string_view key, Span span) {
                const MemberRow* row = find_row(key);
                if (row != nullptr) return row->mode;
                report_message(reader.diagnostics, Code::TP2004, span,
                               fmt::format("unknown key `{}` in the graph", key));
                return JsonMember::Skip;
              },
          .value =
              [&reader](std::string_view key, const JsonTree& tree) {
                const MemberRow* row = find_row(key);
                const JsonNode& root = tree.nodes[0];
                if (row->mode == JsonMember::Elements && !root.key.empty())
                  return fault(reader, root, fmt::format("`{}` is {}, not a list", key, json_kind_name(root.kind)));
                return row->read(reader, tree);
              }};
}

bool apply_size_op(SizeOp op, int64_t a, int64_t b, int64_t& result) {
  switch (op) {
    case SizeOp::Size:
      return false;
    case SizeOp::Add:
      return !__builtin_add_overflow(a, b, &result);
    case SizeOp::Sub:
      return !__builtin_sub_overflow(a, b, &result);
    case SizeOp::Mul:
      return !__builtin_mul_overflow(a, b, &result);
    case SizeOp::FloorDiv:
    case SizeOp::Mod: {
      if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1)) return false;
      int64_t quotient = a / b;
      if (a % b != 0 && (a < 0) != (b < 0)) --quotient;
      result = op == SizeOp::FloorDiv ? quotient : a - quotient * b;
      return true;
    }
    case SizeOp::TrueDiv:
    case SizeOp::Int:
    case SizeOp::Round:
      if (op == SizeOp::TrueDiv && (b == 0 || a % b != 0)) return false;
      result = op == SizeOp::TrueDiv ? a / b : a;
      return true;
    case SizeOp::Ceil:
      result = a;
      return true;
    case SizeOp::Neg:
      return !__builtin_sub_overflow(int64_t{0}, a, &result);
    case SizeOp::Min:
      result = std::min(a, b);
      return true;
    case SizeOp::Max:
      result = std::max(a, b);
      return true;
    case SizeOp::Abs:
      if (a == std::numeric_limits<int64_t>::min()) return false;
      result = a < 0 ? -a : a;
      return true;
    case SizeOp::Pow: {
      if (b < 0 || b > 64) return false;
      result = 1;
      for (int64_t i = 0; i < b; ++i) {
        if (__builtin_mul_overflow(result, a, &result)) return false;
      }
      return true;
    }
  }
  return false;
}

}  // namespace tpplan
