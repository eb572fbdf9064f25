#include "hf_configs/graph_template.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "text/json_reader.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

constexpr uint32_t kNoValue = 0xffffffffu;  // of a parameter that the model lacks

// The ids of the values and sizes of a block in the graph.
struct Placed {
  std::vector<uint32_t> values;
  uint32_t first_size = 0;
};

// The values of the marks of the current block.
struct BlockMarks {
  const Placed* own = nullptr;
  const Placed* head = nullptr;
  uint32_t given = 0;            // "$c"
  std::vector<uint32_t> taken;   // "$i0"
  std::string layer;             // "#" of paths
  uint32_t first_activated = 0;  // "$a1" of an activation
  uint32_t activated = 0;        // "$a0"
};

// The texts of the tables that are being written.
struct Filling {
  const TemplateFile& file;
  const TemplateFields& fields;
  const ModelGraph& model;
  const JsonTree* activation = nullptr;
  uint32_t activation_at = 0;
  std::deque<std::string> names;
  std::map<std::string_view, uint32_t> strings;
  std::vector<std::string_view> string_list;
  std::map<std::vector<int64_t>, uint32_t> shapes;
  std::vector<std::vector<int64_t>> shape_list;
  std::map<std::string_view, std::string> numbers;  // values of expressions
  std::map<std::string, uint32_t> leaf_values;      // by path
  TextMap<std::string, std::string> first_names;    // by parameter: its name, or the first name of its tie
  JsonWriter values{.is_tight = true}, sizes{.is_tight = true}, leaves{.is_tight = true}, nodes{.is_tight = true},
      guards{.is_tight = true};
  uint32_t value_count = 0, size_count = 0;
  std::string fault;
};

uint32_t string_id(Filling& f, std::string_view text) {
  const auto known = f.strings.find(text);
  if (known != f.strings.end()) return known->second;
  const std::string_view kept = f.names.emplace_back(text);
  f.string_list.push_back(kept);
  return f.strings.emplace(kept, static_cast<uint32_t>(f.string_list.size() - 1)).first->second;
}

std::string filled_path(const BlockMarks& marks, std::string_view path) {
  std::string made(path);
  if (const size_t at = made.find('#'); at != std::string::npos) made.replace(at, 1, marks.layer);
  return made;
}

const std::string& number_text(Filling& f, std::string_view expression) {
  const auto known = f.numbers.find(expression);
  if (known != f.numbers.end()) return known->second;
  auto number = template_number(expression, f.fields, f.fault);
  return f.numbers.emplace(expression, number ? std::move(*number) : "0").first->second;
}

int64_t size_number(Filling& f, const JsonNode& node) {
  if (node.kind == JsonKind::Integer) return node.integer;
  int64_t number = 0;
  for (const char digit : number_text(f, node.text)) {
    if (digit < '0' || digit > '9') {
      if (f.fault.empty()) f.fault = fmt::format("a dim would have the size {}", number_text(f, node.text));
      return 0;
    }
    number = number * 10 + (digit - '0');
  }
  return number;
}

uint32_t ordinal(std::string_view text) {
  uint32_t number = 0;
  for (const char digit : text.substr(2)) number = number * 10 + static_cast<uint32_t>(digit - '0');
  return number;
}

// Returns the id of the value or size for a mark such as "$v3".
uint32_t marked(const BlockMarks& marks, std::string_view text) {
  switch (text[1]) {
    case 'v':
      return marks.own->values[ordinal(text)];
    case 'h':
      return marks.head->values[ordinal(text)];
    case 'i':
      return marks.taken[ordinal(text)];
    case 's':
      return marks.own->first_size + ordinal(text);
    case 'g':
      return marks.head->first_size + ordinal(text);
    case 'a':
      return ordinal(text) == 0 ? marks.activated : marks.first_activated + ordinal(text) - 1;
    default:
      return marks.given;
  }
}

std::string_view type_text(const Filling& f, std::string_view text) { return text == "$dtype" ? f.fields.dtype : text; }

bool is_missing(const BlockMarks& marks, const JsonTree& tree, uint32_t at) {
  return tree.nodes[at].kind == JsonKind::Array && tree.nodes[at].end == at + 2 &&
         tree.nodes[at + 1].kind == JsonKind::String && tree.nodes[at + 1].text.starts_with('$') &&
         marked(marks, tree.nodes[at + 1].text) == kNoValue;
}

std::string_view filled_list(Filling& f, std::string_view name) {
  const auto list = f.fields.lists.find(name);
  if (list != f.fields.lists.end()) return list->second;
  if (f.fault.empty()) f.fault = fmt::format("list `{}` does not exist", name);
  return "null";
}

// Writes an argument or operand, recursively, with numbers in place of marks and expressions.
void write_filled(Filling& f, JsonWriter& json, const BlockMarks& marks, const JsonTree& tree, uint32_t at) {
  const JsonNode& node = tree.nodes[at];
  switch (node.kind) {
    case JsonKind::Null:
    case JsonKind::Object:
      return write_value(json, nullptr);
    case JsonKind::Bool:
      return write_value(json, node.is_true);
    case JsonKind::Integer:
      return write_value(json, node.integer);
    case JsonKind::Number:
      return write_json(json, node.text);
    case JsonKind::String:
      if (node.text == "$dtype") return write_value(json, f.fields.dtype);
      if (node.text.starts_with('*')) return write_json(json, filled_list(f, node.text.substr(1)));
      if (node.text.starts_with('$')) return write_value(json, marked(marks, node.text));
      if (node.text.starts_with('=') || node.text.starts_with('~')) return write_json(json, number_text(f, node.text));
      return write_value(json, node.text);
    case JsonKind::Array:
      if (is_missing(marks, tree, at)) return write_value(json, nullptr);
      begin_array(json);
      for (uint32_t child = at + 1; child < node.end; child = tree.nodes[child].end)
        write_filled(f, json, marks, tree, child);
      end_array(json);
  }
}

// Returns the children of an array.
std::vector<uint32_t> parts_of(const JsonTree& tree, uint32_t at) {
  std::vector<uint32_t> parts;
  for (uint32_t child = at + 1; child < tree.nodes[at].end; child = tree.nodes[child].end) parts.push_back(child);
  return parts;
}

uint32_t add_value(Filling& f, const std::vector<int64_t>& shape, std::string_view dtype, int64_t grad) {
  const auto [entry, is_new] = f.shapes.try_emplace(shape, static_cast<uint32_t>(f.shape_list.size()));
  if (is_new) f.shape_list.push_back(shape);
  begin_array(f.values);
  write_value(f.values, entry->second);
  write_value(f.values, string_id(f, dtype));
  write_value(f.values, grad);
  end_array(f.values);
  return f.value_count++;
}

// Finds the leaves of the block that already exist or that the model lacks; kNoValue - 1 marks those to create.
void place_leaves(Filling& f, Placed& placed, const BlockMarks& marks, const JsonTree& tree, uint32_t leaves,
                  std::vector<std::pair<uint32_t, std::string>>& made) {
  for (const uint32_t leaf : parts_of(tree, leaves)) {
    const auto parts = parts_of(tree, leaf);
    const uint32_t own = ordinal(tree.nodes[parts[0]].text);
    std::string path = filled_path(marks, tree.nodes[parts[2]].text);
    if (tree.nodes[parts[1]].text == "param") {
      const auto first = f.first_names.find(path);
      const bool is_there = first != f.first_names.end();
      if (is_there) path = first->second;
      const auto known = f.leaf_values.find(path);
      if (!is_there || known != f.leaf_values.end()) {
        placed.values[own] = is_there ? known->second : kNoValue;
        continue;
      }
    }
    made.emplace_back(own, std::move(path));
  }
}

void write_leaf(Filling& f, uint32_t value, std::string_view kind, const std::string& path) {
  f.leaf_values.emplace(path, value);
  begin_array(f.leaves);
  write_value(f.leaves, value);
  write_value(f.leaves, kind);
  write_value(f.leaves, string_id(f, path));
  end_array(f.leaves);
}

void write_op(Filling& f, const BlockMarks& marks, const JsonTree& tree, std::span<const uint32_t> parts) {
  write_filled(f, f.nodes, marks, tree, parts[1]);
  begin_array(f.nodes);
  const auto keywords = parts_of(tree, parts[2]);
  for (size_t i = 0; i + 1 < keywords.size(); i += 2) {
    const JsonNode& argument = tree.nodes[keywords[i + 1]];
    if (argument.text.starts_with('=') && number_text(f, argument.text) == "null") continue;  // omitted, as None
    write_value(f.nodes, string_id(f, tree.nodes[keywords[i]].text));
    write_filled(f, f.nodes, marks, tree, keywords[i + 1]);
  }
  end_array(f.nodes);
  write_filled(f, f.nodes, marks, tree, parts[3]);
}

void write_boundary(Filling& f, const BlockMarks& marks, const JsonTree& tree, std::span<const uint32_t> parts) {
  write_value(f.nodes, string_id(f, filled_path(marks, tree.nodes[parts[1]].text)));
  for (const uint32_t part : parts.subspan(2)) write_filled(f, f.nodes, marks, tree, part);
}

void write_node(Filling& f, const BlockMarks& marks, const JsonTree& tree, uint32_t at) {
  const auto parts = parts_of(tree, at);
  const std::string_view name = tree.nodes[parts[0]].text;
  begin_array(f.nodes);
  write_value(f.nodes, string_id(f, name));
  if (name.starts_with('@'))
    write_boundary(f, marks, tree, parts);
  else
    write_op(f, marks, tree, parts);
  end_array(f.nodes);
}

// Writes the module of an activation: its boundary and its operations.
void write_activation(Filling& f, BlockMarks marks, const JsonTree& tree, uint32_t at,
                      const std::vector<int64_t>& shape) {
  const auto parts = parts_of(tree, at);
  const std::string path = filled_path(marks, tree.nodes[parts[1]].text);
  const uint32_t before = marked(marks, tree.nodes[parts[2]].text), behind = marked(marks, tree.nodes[parts[3]].text);
  const auto boundary = [&](std::string_view name, uint32_t from, uint32_t to, bool enters) {
    begin_array(f.nodes);
    write_value(f.nodes, string_id(f, name));
    write_value(f.nodes, string_id(f, path));
    if (enters) {
      write_value(f.nodes, 1);
      write_value(f.nodes, 0);
    }
    begin_array(f.nodes);
    begin_array(f.nodes);
    begin_array(f.nodes);
    if (enters) write_value(f.nodes, 0);
    end_array(f.nodes);
    write_value(f.nodes, from);
    write_value(f.nodes, to);
    end_array(f.nodes);
    end_array(f.nodes);
    end_array(f.nodes);
  };
  const JsonTree& made = *f.activation;
  uint32_t last = 0;
  bool is_first = true;
  for (const uint32_t value : parts_of(made, find_json_field(made, f.activation_at, "values"))) {
    const auto described = parts_of(made, value);
    last = add_value(f, shape, type_text(f, made.nodes[described[0]].text), made.nodes[described[1]].integer);
    if (is_first) marks.activated = last;
    is_first = false;
  }
  marks.first_activated = marks.activated + 1;
  boundary("@enter", before, marks.activated, true);
  for (const uint32_t node : parts_of(made, find_json_field(made, f.activation_at, "nodes")))
    write_node(f, marks, made, node);
  boundary("@exit", last, behind, false);
}

void place_values(Filling& f, Placed& placed, const BlockMarks& marks, const JsonTree& tree, uint32_t block,
                  std::vector<std::vector<int64_t>>& shapes) {
  const auto values = parts_of(tree, find_json_field(tree, block, "values"));
  const uint32_t leaves = find_json_field(tree, block, "leaves");
  constexpr uint32_t kToMake = kNoValue - 1;
  placed.values.assign(values.size(), kToMake);
  std::vector<std::pair<uint32_t, std::string>> made;
  place_leaves(f, placed, marks, tree, leaves, made);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto parts = parts_of(tree, values[i]);
    std::vector<int64_t>& shape = shapes.emplace_back();
    for (const uint32_t size : parts_of(tree, parts[0])) shape.push_back(size_number(f, tree.nodes[size]));
    if (placed.values[i] == kToMake)
      placed.values[i] = add_value(f, shape, type_text(f, tree.nodes[parts[1]].text), tree.nodes[parts[2]].integer);
  }
  size_t next = 0;
  for (const uint32_t leaf : parts_of(tree, leaves)) {
    const auto parts = parts_of(tree, leaf);
    if (next == made.size() || made[next].first != ordinal(tree.nodes[parts[0]].text)) continue;
    write_leaf(f, placed.values[made[next].first], tree.nodes[parts[1]].text, made[next].second);
    ++next;
  }
}

Placed place_block(Filling& f, std::string_view name, BlockMarks& marks) {
  const JsonTree& tree = f.file.members.at("blocks");
  const uint32_t block = find_json_field(tree, 0, name);
  Placed placed{.values = {}, .first_size = f.size_count};
  marks.own = &placed;
  if (marks.head == nullptr) marks.head = &placed;
  std::vector<std::vector<int64_t>> shapes;
  place_values(f, placed, marks, tree, block, shapes);
  for (const uint32_t size : parts_of(tree, find_json_field(tree, block, "sizes"))) {
    write_filled(f, f.sizes, marks, tree, size);
    ++f.size_count;
  }
  for (const uint32_t node : parts_of(tree, find_json_field(tree, block, "nodes"))) {
    const auto parts = parts_of(tree, node);
    if (tree.nodes[parts[0]].text == "@activation")
      write_activation(f, marks, tree, node, shapes[ordinal(tree.nodes[parts[3]].text)]);
    else
      write_node(f, marks, tree, node);
  }
  for (const uint32_t guard : parts_of(tree, find_json_field(tree, block, "guards")))
    write_filled(f, f.guards, marks, tree, guard);
  return placed;
}

uint32_t given_by(const Filling& f, std::string_view block, const Placed& placed) {
  const JsonTree& tree = f.file.members.at("blocks");
  return placed.values[ordinal(tree.nodes[find_json_field(tree, find_json_field(tree, 0, block), "gives")].text)];
}

void find_first_names(Filling& f) {
  for (const Param& param : f.model.params) f.first_names.emplace(path_of(f.model, param), path_of(f.model, param));
  for (const Tie& tie : f.model.ties) {
    const std::string first = path_of(f.model, f.model.params[tie.params[0]]);
    for (const ParamId param : tie.params) f.first_names[path_of(f.model, f.model.params[param])] = first;
  }
}

std::string finished(Filling& f, uint32_t output) {
  JsonWriter json{.is_tight = true};
  const auto member = [&json](std::string_view key) {
    next_line(json, 2);
    write_key(json, key);
  };
  const auto text = [&](std::string_view key, std::string_view value) {
    member(key);
    write_value(json, value);
  };
  const auto number = [&](std::string_view key, int64_t value) {
    member(key);
    write_value(json, value);
  };
  begin_object(json);
  text("mode", "eval");
  text("dtype", f.fields.dtype);
  number("batch", f.fields.batch);
  number("sequence", f.fields.sequence);
  member("strings");
  write_array(json, f.string_list);
  member("shapes");
  write_array(json, f.shape_list, [&json](const std::vector<int64_t>& shape) { write_array(json, shape); });
  for (const auto& [key, table] : {std::pair<std::string_view, JsonWriter*>{"sizes", &f.sizes},
                                   {"values", &f.values},
                                   {"leaves", &f.leaves},
                                   {"nodes", &f.nodes},
                                   {"guards", &f.guards}}) {
    end_array(*table);
    member(key);
    write_json(json, table->out);
  }
  number("output", output);
  next_line(json, 1);
  end_object(json);
  return std::move(json.out);
}

}  // namespace

bool read_template(std::string_view name, TemplateFile& file) {
  const char* text = embedded_template(name);
  if (text == nullptr) return false;
  file.source.name = name;
  file.source.text = text;
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonField::Whole; },
                            .value =
                                [&file](std::string_view key, const JsonTree& tree) {
                                  file.members.emplace(key, tree);
                                  return true;
                                }};
  Diagnostics none;
  return read_json(file.source, visitor, file.strings, none);
}

std::optional<std::string> fill_template(const TemplateFile& file, const TemplateGraph& graph,
                                         const TemplateFields& fields, const ModelGraph& model, std::string& fault) {
  TemplateFile activations;
  Filling f{.file = file, .fields = fields, .model = model};
  if (!read_template("activations", activations)) return std::nullopt;
  const JsonTree& known = activations.members.at("activations");
  for (const uint32_t row : parts_of(known, 0)) {
    if (known.nodes[find_json_field(known, row, "name")].text != fields.activation) continue;
    f.activation = &known;
    f.activation_at = row;
  }
  if (f.activation == nullptr) {
    fault = fmt::format("the activation `{}` is not traced", fields.activation);
    return std::nullopt;
  }
  find_first_names(f);
  for (JsonWriter* table : {&f.values, &f.sizes, &f.leaves, &f.nodes, &f.guards}) begin_array(*table);
  BlockMarks marks;
  const Placed head = place_block(f, graph.head, marks);
  marks.head = &head;
  marks.given = given_by(f, graph.head, head);
  for (size_t i = 0; i < graph.layers.size() && f.fault.empty(); ++i) {
    const auto& [block, taken] = graph.layers[i];
    marks.layer = fmt::format("{}", i);
    marks.taken.clear();
    for (const std::string_view mark : taken) marks.taken.push_back(head.values[ordinal(mark)]);
    const Placed placed = place_block(f, block, marks);
    marks.given = given_by(f, block, placed);
  }
  const Placed tail = place_block(f, graph.tail, marks);
  const JsonTree& blocks = file.members.at("blocks");
  const uint32_t output = find_json_field(blocks, find_json_field(blocks, 0, graph.tail), "output");
  if (!f.fault.empty()) {
    fault = f.fault;
    return std::nullopt;
  }
  marks.own = &tail;
  return finished(f, marked(marks, blocks.nodes[output].text));
}

}  // namespace tpplan
