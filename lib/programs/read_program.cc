#include "programs/read_program.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "programs/operation_rules.h"
#include "programs/read_shardings.h"
#include "sharding/dtype.h"
#include "text/json_reader.h"

namespace tpplan::programs {

// A sharding of an argument or a result before the mesh is known.
struct WrittenSharding {
  bool is_given = false;
  uint64_t offset = 0;
  std::vector<WrittenDim> dims;
};

struct WrittenOperand {
  int64_t id = 0;
  uint64_t offset = 0;
};

struct ProgramReader {
  const SourceFile& file;
  Program& program;
  Diagnostics& diagnostics;
  size_t faults = 0;
  std::vector<WrittenOperand> operands;  // parallel to Program::operands
  std::vector<std::string_view> missing{"mesh", "args", "in_sh", "ops", "outs", "out_sh"};
  std::vector<WrittenSharding> argument_shardings, result_shardings;
  std::vector<ProgramValue> arguments;  // of the program; the first values
  std::vector<int64_t> argument_sizes;
  std::vector<WrittenOperand> outs;
  std::vector<bool> used_operations;
  std::vector<uint64_t> value_offsets, argument_offsets;
};

namespace {

constexpr size_t kMaxErrors = 20;
constexpr int64_t kMostIds = int64_t{1} << 22;       // of values, and of operations
constexpr int64_t kMostDevices = int64_t{1} << 31;   // product of the axes
constexpr uint32_t kMostDims = 64;                   // of one tensor
constexpr size_t kMostOperands = size_t{1} << 24;    // of the program
constexpr int64_t kMostElements = int64_t{1} << 52;  // of one tensor

void fault(ProgramReader& r, uint64_t offset, std::string message, std::string help = "record the program again") {
  ++r.faults;
  report_message(r.diagnostics, Code::InvalidProgram, {r.file.id, offset, 1}, std::move(message), std::move(help));
}

bool expect(ProgramReader& r, const JsonNode& node, JsonKind kind, std::string_view what) {
  if (node.kind == kind) return true;
  fault(r, node.offset, fmt::format("{} is {}, not {}", what, json_kind_name(node.kind), json_kind_name(kind)));
  return false;
}

bool expect_id(ProgramReader& r, const JsonNode& node, std::string_view what) {
  if (!expect(r, node, JsonKind::Integer, what)) return false;
  if (node.integer >= 0 && node.integer < kMostIds) return true;
  fault(r, node.offset, fmt::format("{} is {}, not from 0 to {}", what, node.integer, kMostIds - 1));
  return false;
}

// Returns the children of an array, of which there must be `count`.
bool expect_items(ProgramReader& r, const JsonTree& tree, uint32_t node, size_t count, std::string_view what,
                  std::vector<uint32_t>& items) {
  items.clear();
  if (!expect(r, tree.nodes[node], JsonKind::Array, what)) return false;
  for (uint32_t i = node + 1; i < tree.nodes[node].end && items.size() <= count; i = tree.nodes[i].end)
    items.push_back(i);
  if (items.size() == count) return true;
  fault(r, tree.nodes[node].offset, fmt::format("{} has {} items, not {}", what, items.size(), count));
  return false;
}

bool read_type(ProgramReader& r, const JsonNode& node, uint16_t& bits) {
  if (!expect(r, node, JsonKind::String, "a type")) return false;
  for (const DTypeRow& row : dtypes()) {
    if (row.mlir == node.text) {
      bits = row.bits;
      return true;
    }
  }
  fault(r, node.offset, fmt::format("the size of an element of type `{}` is unknown", node.text),
        "record a program with tensors of numbers");
  return false;
}

// Reads [value, type, shape]. Appends the shape to `sizes`.
bool read_value(ProgramReader& r, const JsonTree& tree, uint32_t at, std::vector<int64_t>& sizes, ProgramValue& value) {
  std::vector<uint32_t> items;
  if (!expect_items(r, tree, at, 3, "a value, [number, type, shape],", items)) return false;
  if (!expect_id(r, tree.nodes[items[0]], "the number of a value") || !read_type(r, tree.nodes[items[1]], value.bits) ||
      !expect(r, tree.nodes[items[2]], JsonKind::Array, "a shape"))
    return false;
  value.id = tree.nodes[items[0]].integer;
  value.first_dim = static_cast<uint32_t>(sizes.size());
  for (uint32_t i = items[2] + 1; i < tree.nodes[items[2]].end; i = tree.nodes[i].end) {
    const JsonNode& node = tree.nodes[i];
    if (!expect(r, node, JsonKind::Integer, "a size")) return false;
    if (node.integer < 0 || node.integer > kMostElements ||
        (node.integer > 0 && value.elements > kMostElements / node.integer)) {
      fault(r, node.offset,
            fmt::format("a tensor of this size has less than 0 or more than {} elements", kMostElements));
      return false;
    }
    value.elements *= node.integer;
    sizes.push_back(node.integer);
    if (++value.rank > kMostDims) {
      fault(r, node.offset, fmt::format("a tensor has more than {} dims", kMostDims));
      return false;
    }
  }
  return true;
}

// Reads a value and adds it to the program.
bool add_value(ProgramReader& r, const JsonTree& tree, uint32_t at, BlockIndex block, OperationIndex maker) {
  ProgramValue value{.maker = maker, .block = block};
  if (!read_value(r, tree, at, r.program.sizes, value)) return false;
  value.holder = static_cast<ValueIndex>(r.program.values.size());
  r.program.values.push_back(value);
  r.value_offsets.push_back(tree.nodes[at].offset);
  return true;
}

bool add_operand(ProgramReader& r, const JsonNode& node, OperationIndex user) {
  if (!expect_id(r, node, "an operand")) return false;
  if (r.program.operands.size() >= kMostOperands) {
    fault(r, node.offset, fmt::format("the program has more than {} operands", kMostOperands));
    return false;
  }
  r.program.operands.push_back({.user = user});
  r.operands.push_back({node.integer, node.offset});
  return true;
}

bool read_operation(ProgramReader& r, const JsonTree& tree, uint32_t at, BlockIndex block);

// Adds the operation that ends a block. The operands of the program's own are added later.
void add_return(ProgramReader& r, BlockIndex block, uint64_t offset) {
  const auto id = static_cast<OperationIndex>(r.program.operations.size());
  r.program.operations.push_back({.kind = OperationClass::Return,
                                  .name = "return",
                                  .offset = offset,
                                  .block = block,
                                  .first_operand = static_cast<uint32_t>(r.program.operands.size())});
  ProgramBlock& b = r.program.blocks[block];
  r.program.operations[id].previous = b.last;
  (b.last != kNoIndex ? r.program.operations[b.last].next : b.first) = id;
  b.last = id;
}

// Reads [args, ops, outs].
bool read_block(ProgramReader& r, const JsonTree& tree, uint32_t at, BlockIndex block) {
  std::vector<uint32_t> items;
  if (!expect_items(r, tree, at, 3, "a region, [args, ops, outs],", items)) return false;
  for (const uint32_t item : items) {
    if (!expect(r, tree.nodes[item], JsonKind::Array, "each of a region's args, ops and outs")) return false;
  }
  r.program.blocks[block].first_argument = static_cast<ValueIndex>(r.program.values.size());
  for (uint32_t i = items[0] + 1; i < tree.nodes[items[0]].end; i = tree.nodes[i].end) {
    if (!add_value(r, tree, i, block, kNoIndex)) return false;
    ++r.program.blocks[block].argument_count;
  }
  for (uint32_t i = items[1] + 1; i < tree.nodes[items[1]].end; i = tree.nodes[i].end) {
    if (!read_operation(r, tree, i, block)) return false;
  }
  add_return(r, block, tree.nodes[items[2]].offset);
  const OperationIndex id = r.program.blocks[block].last;
  for (uint32_t i = items[2] + 1; i < tree.nodes[items[2]].end; i = tree.nodes[i].end) {
    if (!add_operand(r, tree.nodes[i], id)) return false;
    ++r.program.operations[id].operand_count;
  }
  return true;
}

bool read_attributes(ProgramReader& r, const JsonTree& tree, uint32_t at, ProgramOperation& operation) {
  if (!expect(r, tree.nodes[at], JsonKind::Object, "the attributes")) return false;
  operation.first_attribute = static_cast<uint32_t>(r.program.attributes.size());
  for (uint32_t i = at + 1; i < tree.nodes[at].end; i = tree.nodes[i].end) {
    if (!expect(r, tree.nodes[i], JsonKind::String, "an attribute")) return false;
    r.program.attributes.push_back({tree.nodes[i].key, tree.nodes[i].text});
    ++operation.attribute_count;
  }
  return true;
}

// Reads [op, name, operands, results, attributes, location, regions].
bool read_operation(ProgramReader& r, const JsonTree& tree, uint32_t at, BlockIndex block) {
  std::vector<uint32_t> items;
  if (!expect_items(r, tree, at, 7, "an operation, [number, name, operands, results, attributes, location, regions],",
                    items))
    return false;
  const auto node = [&](size_t i) -> const JsonNode& { return tree.nodes[items[i]]; };
  if (!expect_id(r, node(0), "the number of an operation") || !expect(r, node(1), JsonKind::String, "a name") ||
      !expect(r, node(2), JsonKind::Array, "the operands") || !expect(r, node(3), JsonKind::Array, "the results") ||
      !expect(r, node(5), JsonKind::String, "a location") || !expect(r, node(6), JsonKind::Array, "the regions"))
    return false;
  const auto number = static_cast<size_t>(node(0).integer);
  if (number >= r.used_operations.size()) r.used_operations.resize(std::max(number + 1, 2 * r.used_operations.size()));
  if (r.used_operations[number]) {
    fault(r, node(0).offset, fmt::format("two operations have number {}", number));
    return false;
  }
  r.used_operations[number] = true;
  ProgramOperation operation{.row = find_operation_row(node(1).text),
                             .id = node(0).integer,
                             .name = node(1).text,
                             .location = node(5).text,
                             .offset = node(0).offset,
                             .block = block,
                             .first_operand = static_cast<uint32_t>(r.program.operands.size()),
                             .first_result = static_cast<ValueIndex>(r.program.values.size())};
  if (operation.row != nullptr) operation.kind = operation.row->kind;
  const auto id = static_cast<OperationIndex>(r.program.operations.size());
  for (uint32_t i = items[2] + 1; i < node(2).end; i = tree.nodes[i].end) {
    if (!add_operand(r, tree.nodes[i], id)) return false;
    ++operation.operand_count;
  }
  for (uint32_t i = items[3] + 1; i < node(3).end; i = tree.nodes[i].end) {
    if (!add_value(r, tree, i, block, id)) return false;
    ++operation.result_count;
  }
  if (!read_attributes(r, tree, items[4], operation)) return false;
  ProgramBlock& b = r.program.blocks[block];
  operation.previous = b.last;
  (b.last != kNoIndex ? r.program.operations[b.last].next : b.first) = id;
  b.last = id;
  operation.first_block = static_cast<uint32_t>(r.program.blocks.size());
  for (uint32_t i = items[6] + 1; i < node(6).end; i = tree.nodes[i].end) ++operation.block_count;
  r.program.blocks.resize(r.program.blocks.size() + operation.block_count, {.parent = id});
  r.program.operations.push_back(operation);
  BlockIndex inner = operation.first_block;
  for (uint32_t i = items[6] + 1; i < node(6).end; i = tree.nodes[i].end) {
    if (!read_block(r, tree, i, inner++)) return false;
  }
  return true;
}

void read_mesh(ProgramReader& r, const JsonTree& tree) {
  if (!expect(r, tree.nodes[0], JsonKind::Object, "`mesh`")) return;
  int64_t devices = 1;
  for (uint32_t i = 1; i < tree.nodes[0].end; i = tree.nodes[i].end) {
    const JsonNode& node = tree.nodes[i];
    if (!expect(r, node, JsonKind::Integer, "the size of an axis")) return;
    if (node.integer < 1 || node.integer > kMostDevices / devices)
      return fault(r, node.offset, fmt::format("the mesh has less than 1 or more than {} devices", kMostDevices));
    if (node.key.find(':') != std::string_view::npos || node.key.empty())
      return fault(r, node.key_offset, "the name of an axis is empty or contains a colon");
    devices *= node.integer;
    r.program.axis_names.emplace_back(node.key);
    r.program.axis_sizes.push_back(node.integer);
  }
}

// Reads in_sh or out_sh: null, or a list of axes for each dim. A list in a list stands for the sharding of one of
// several tensors; there is one.
bool read_shardings(ProgramReader& r, const JsonTree& tree, std::vector<WrittenSharding>& shardings) {
  if (!expect(r, tree.nodes[0], JsonKind::Array, "a list of shardings")) return false;
  for (uint32_t i = 1; i < tree.nodes[0].end; i = tree.nodes[i].end) {
    WrittenSharding& sharding = shardings.emplace_back();
    sharding.offset = tree.nodes[i].offset;
    if (tree.nodes[i].kind == JsonKind::Null) continue;
    sharding.is_given = true;
    std::vector<uint32_t> items;
    if (!expect_items(r, tree, i, 1, "a sharding, [dims],", items) ||
        !expect(r, tree.nodes[items[0]], JsonKind::Array, "the dims of a sharding"))
      return false;
    for (uint32_t d = items[0] + 1; d < tree.nodes[items[0]].end; d = tree.nodes[d].end) {
      WrittenDim& dim = sharding.dims.emplace_back();
      if (!expect(r, tree.nodes[d], JsonKind::Array, "a dim of a sharding")) return false;
      for (uint32_t a = d + 1; a < tree.nodes[d].end; a = tree.nodes[a].end) {
        if (!expect(r, tree.nodes[a], JsonKind::String, "an axis")) return false;
        if (tree.nodes[a].text == "?")
          dim.is_open = true;
        else
          dim.axes.push_back(tree.nodes[a].text);
      }
    }
  }
  return true;
}

// Numbers the dims of a block's operations and arguments; the values of the program's arguments come first.
void place_arguments(ProgramReader& r) {
  Program& p = r.program;
  const auto count = static_cast<uint32_t>(r.arguments.size());
  const auto shift = static_cast<uint32_t>(r.argument_sizes.size());
  for (ProgramValue& value : p.values) {
    value.first_dim += shift;
    value.holder += count;
  }
  for (ProgramOperation& operation : p.operations) operation.first_result += count;
  for (ProgramBlock& block : p.blocks) block.first_argument += count;
  for (uint32_t i = 0; i < count; ++i) r.arguments[i].holder = i;
  p.values.insert(p.values.begin(), r.arguments.begin(), r.arguments.end());
  p.sizes.insert(p.sizes.begin(), r.argument_sizes.begin(), r.argument_sizes.end());
  r.value_offsets.insert(r.value_offsets.begin(), r.argument_offsets.begin(), r.argument_offsets.end());
  p.blocks[0].first_argument = 0;
  p.blocks[0].argument_count = count;
  p.dims.resize(p.sizes.size());
}

// Values by their recorded number, while the program is walked in order.
struct KnownValues {
  std::vector<ValueIndex> ids;  // by number; kNoIndex before the value is made
};

bool define_value(ProgramReader& r, KnownValues& known, ValueIndex value) {
  const auto number = static_cast<size_t>(r.program.values[value].id);
  if (number >= known.ids.size()) known.ids.resize(std::max(number + 1, 2 * known.ids.size()), kNoIndex);
  if (known.ids[number] != kNoIndex) {
    fault(r, r.value_offsets[value], fmt::format("two values have number {}", number));
    return false;
  }
  known.ids[number] = value;
  return true;
}

bool is_inside(const Program& program, BlockIndex block, BlockIndex outer) {
  while (block != outer) {
    if (program.blocks[block].parent == kNoIndex) return false;
    block = program.operations[program.blocks[block].parent].block;
  }
  return true;
}

// Connects the operands of a block with the values, which must be made before. Stops after an error.
bool connect_block(ProgramReader& r, KnownValues& known, BlockIndex block) {
  Program& p = r.program;
  for (uint32_t i = 0; i < p.blocks[block].argument_count; ++i) {
    if (!define_value(r, known, p.blocks[block].first_argument + i)) return false;
  }
  int64_t order = 0;
  for (OperationIndex id = p.blocks[block].first; id != kNoIndex; id = p.operations[id].next) {
    ProgramOperation& operation = p.operations[id];
    operation.order = ++order << 32;
    for (uint32_t i = 0; i < operation.operand_count; ++i) {
      const WrittenOperand& written = r.operands[operation.first_operand + i];
      const auto number = static_cast<size_t>(written.id);
      const ValueIndex value = number < known.ids.size() ? known.ids[number] : kNoIndex;
      if (value == kNoIndex || !is_inside(p, block, p.values[value].block)) {
        fault(r, written.offset, fmt::format("value {} is used where it is not defined", written.id));
        return false;
      }
      add_use(p, operation.first_operand + i, value);
    }
    for (uint32_t i = 0; i < operation.block_count; ++i) {
      if (!connect_block(r, known, operation.first_block + i)) return false;
    }
    for (uint32_t i = 0; i < operation.result_count; ++i) {
      if (!define_value(r, known, operation.first_result + i)) return false;
    }
  }
  return true;
}

// Sets the sharding of a value to a written one.
bool set_sharding(ProgramReader& r, ValueIndex value, std::span<const WrittenDim> dims, uint64_t offset) {
  std::string error = resolve_sharding(r.program, value, dims);
  if (error.empty()) return true;
  fault(r, offset, std::move(error), "give each dim a list of axes of the mesh");
  return false;
}

// Reads the shardings of constraints: each is that of the result.
bool read_constraints(ProgramReader& r) {
  for (const ProgramOperation& operation : r.program.operations) {
    if (operation.kind != OperationClass::Constraint) continue;
    std::vector<WrittenDim> dims;
    std::string error = read_sharding_text(attribute_of(r.program, operation, "sharding"), dims);
    if (!error.empty()) {
      fault(r, operation.offset, std::move(error),
            "use constraints of the form `#sdy.sharding<@mesh, [{\"data\"}, {}, {?}]>`");
      return false;
    }
    if (!set_sharding(r, operation.first_result, dims, operation.offset)) return false;
  }
  return true;
}

// Applies in_sh and out_sh, whose lengths are those of args and outs.
bool apply_shardings(ProgramReader& r) {
  Program& p = r.program;
  const auto check = [&](std::string_view what, size_t shardings, std::string_view of, size_t count) {
    if (shardings == count) return true;
    fault(r, 0, fmt::format("`{}` has {} entries, but `{}` has {}", what, shardings, of, count));
    return false;
  };
  if (!check("in_sh", r.argument_shardings.size(), "args", r.arguments.size()) ||
      !check("out_sh", r.result_shardings.size(), "outs", r.outs.size()))
    return false;
  for (uint32_t i = 0; i < r.argument_shardings.size(); ++i) {
    const WrittenSharding& sharding = r.argument_shardings[i];
    if (sharding.is_given && !set_sharding(r, i, sharding.dims, sharding.offset)) return false;
  }
  const ProgramOperation& last = p.operations[p.blocks[0].last];
  for (uint32_t i = 0; i < r.result_shardings.size(); ++i) {
    const ValueIndex result = add_value_like(p, operand_of(p, last, i));
    p.results.push_back(result);
    const WrittenSharding& sharding = r.result_shardings[i];
    if (sharding.is_given && !set_sharding(r, result, sharding.dims, sharding.offset)) return false;
  }
  return true;
}

// Reads the value of a key of the document. Returns false to end the reading.
bool read_field(ProgramReader& r, std::string_view key, const JsonTree& tree) {
  if (key == "ops") {
    // An element has no key; a value that is not a list has one.
    if (tree.nodes[0].key.empty()) return read_operation(r, tree, 0, 0);
    return expect(r, tree.nodes[0], JsonKind::Array, "`ops`");
  }
  if (key == "mesh") {
    read_mesh(r, tree);
  } else if (key == "args") {
    if (!expect(r, tree.nodes[0], JsonKind::Array, "`args`")) return false;
    for (uint32_t i = 1; i < tree.nodes[0].end; i = tree.nodes[i].end) {
      ProgramValue value{.maker = kNoIndex};
      if (!read_value(r, tree, i, r.argument_sizes, value)) return false;
      r.arguments.push_back(value);
      r.argument_offsets.push_back(tree.nodes[i].offset);
    }
  } else if (key == "outs") {
    if (!expect(r, tree.nodes[0], JsonKind::Array, "`outs`")) return false;
    for (uint32_t i = 1; i < tree.nodes[0].end; i = tree.nodes[i].end) {
      if (!expect_id(r, tree.nodes[i], "a value of `outs`")) return false;
      r.outs.push_back({tree.nodes[i].integer, tree.nodes[i].offset});
    }
  } else {
    return read_shardings(r, tree, key == "in_sh" ? r.argument_shardings : r.result_shardings);
  }
  return r.faults == 0;
}

// Connects what was read.
void connect_program(ProgramReader& r) {
  Program& p = r.program;
  place_arguments(r);
  add_return(r, 0, 0);
  ProgramOperation& last = p.operations[p.blocks[0].last];
  last.first_operand = static_cast<uint32_t>(p.operands.size());
  last.operand_count = static_cast<uint32_t>(r.outs.size());
  for (const WrittenOperand& out : r.outs) {
    p.operands.push_back({.user = p.blocks[0].last});
    r.operands.push_back(out);
  }
  KnownValues known;
  if (!connect_block(r, known, 0)) return;
  for (const ProgramOperation& operation : p.operations) {
    if (operation.kind == OperationClass::Constraint && (operation.operand_count != 1 || operation.result_count != 1))
      return fault(r, operation.offset, "a constraint has not one operand and one result");
  }
  p.recorded_operations = p.operations.size();
  p.recorded_values = p.values.size();
}

}  // namespace

std::shared_ptr<ProgramReader> begin_program(const SourceFile& file, Program& program, Diagnostics& diagnostics) {
  program.file = file.id;
  program.blocks.push_back({});
  return std::make_shared<ProgramReader>(ProgramReader{.file = file, .program = program, .diagnostics = diagnostics});
}

bool read_program_field(ProgramReader& reader, std::string_view key, const JsonTree& tree) {
  return read_field(reader, key, tree) && reader.faults < kMaxErrors;
}

bool finish_program(ProgramReader& reader) {
  if (reader.faults == 0) connect_program(reader);
  return reader.faults == 0;
}

Program read_program(const SourceFile& file, Diagnostics& diagnostics) {
  Program program;
  const std::shared_ptr<ProgramReader> reader = begin_program(file, program, diagnostics);
  ProgramReader& r = *reader;
  const std::vector<std::string_view> known = r.missing;
  JsonVisitor visitor;
  visitor.member = [&](std::string_view key, Span span) {
    std::erase(r.missing, key);
    if (std::ranges::find(known, key) != known.end()) return key == "ops" ? JsonField::Elements : JsonField::Whole;
    const std::string_view nearest = nearest_name(key, known);
    fault(r, span.offset, fmt::format("a program has no key `{}`", key),
          nearest.empty() ? "remove it" : fmt::format("did you mean `{}`?", nearest));
    return JsonField::Skip;
  };
  visitor.value = [&](std::string_view key, const JsonTree& tree) { return read_program_field(r, key, tree); };
  visitor.kind_help = "record a JAX program: the file starts with `{`";
  const bool is_read = read_json(file, visitor, program.strings, diagnostics, {.tree_nodes = kMostProgramNodes});
  if (!is_read || r.faults > 0) return program;
  if (!r.missing.empty())
    fault(r, 0, fmt::format("key `{}` is missing", r.missing.front()));
  else if (finish_program(r) && read_constraints(r))
    (void)apply_shardings(r);
  return program;
}

}  // namespace tpplan::programs
