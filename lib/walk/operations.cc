// Operations on the way: what was seen before is looked up, plain values pass, everything else asks the rules.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "graph/size_ops.h"
#include "walk/dtensor_ops.h"
#include "walk/list_operations.h"
#include "walk/walk_state.h"

namespace tpplan {

SlotId new_slot(Walk& walk, Slot slot) {
  walk.slots.push_back(slot);
  return static_cast<SlotId>(walk.slots.size() - 1);
}

void bind(Walk& walk, ValueId value, SlotId slot) {
  walk.slot_of[value] = slot;
  walk.layout_of[value] = walk.slots[slot].layout;
}

bool records_gradients(const Walk& walk) { return !walk.infer && (walk.frames.empty() || !walk.frames.back().no_grad); }

ModuleId module_at(const Walk& walk) { return walk.frames.empty() ? kNone : walk.frames.back().module; }

uint32_t number_id(Walk& walk, SizeNumber number) {
  const auto [entry, is_new] =
      walk.number_index.try_emplace({std::move(number.local), number.axes}, static_cast<uint32_t>(walk.numbers.size()));
  if (is_new) walk.numbers.push_back({entry->first.first, entry->first.second});
  return entry->second;
}

namespace {

// What a size comes to on each rank, with what is known already in `known`. Of a DTensor it is the size that it claims,
// or what the rank holds of it (`local`).
uint32_t size_number(Walk& walk, std::vector<uint32_t>& known, uint32_t id, bool local) {
  if (known[id] != kNoId) return known[id];
  const SizeEntry& entry = walk.graph.sizes[id];
  SizeNumber number{std::vector<int64_t>(walk.ranks), 0};
  if (entry.op == SizeOp::Size) {
    const Spread& layout = walk.table.layouts[walk.layout_of[static_cast<size_t>(entry.a.number)]];
    const auto dim = static_cast<size_t>(entry.b.number);
    const bool claimed = !local && layout.is_dtensor && dim < layout.claimed_shape.size();
    if (!claimed) number.axes = walk.table.maps.maps[layout.dims[dim]].axes;
    for (size_t rank = 0; rank < walk.ranks; ++rank)
      number.local[rank] = claimed ? layout.claimed_shape[dim] : local_size(walk.table, layout, dim, rank);
  } else {
    const auto operand = [&](const SizeOperand& o) {
      if (!o.is_entry) return SizeNumber{std::vector<int64_t>(walk.ranks, o.number), 0};
      return walk.numbers[size_number(walk, known, static_cast<uint32_t>(o.number), local)];
    };
    const SizeNumber a = operand(entry.a), b = operand(entry.b);
    number.axes = a.axes | b.axes;
    for (size_t rank = 0; rank < walk.ranks; ++rank) {
      if (!apply_size_op(entry.op, a.local[rank], b.local[rank], number.local[rank])) number.local[rank] = 0;
    }
  }
  const bool as_recorded =
      std::all_of(number.local.begin(), number.local.end(), [&](int64_t n) { return n == entry.traced; });
  if (as_recorded) number.axes = 0;
  return known[id] = number_id(walk, std::move(number));
}

// Calls f(index into args) for every argument of the node, those in tuples and keywords too.
template <typename F>
void each_arg(const Walk& walk, const GraphNode& node, F f) {
  const uint32_t end = node.keywords_begin < node.keywords_end
                           ? walk.graph.args[walk.graph.keywords[node.keywords_end - 1].arg].end
                           : node.args_end;
  for (uint32_t i = node.args_begin; i < end; ++i) f(walk.graph.args[i]);
}

// What ranks hold of the operands: "[2, 16, 128] (dim 2: 0..63 | 64..127) and `lm_head.weight` [64, 128] (whole)".
std::string operand_texts(const Walk& walk, const GraphNode& node) {
  std::vector<std::string> texts;
  for (const ValueId value : values_in(walk, node)) {
    const Spread& layout = walk.table.layouts[walk.layout_of[value]];
    const auto param = std::find(walk.value_of_param.begin(), walk.value_of_param.end(), value);
    const std::string name =
        param == walk.value_of_param.end()
            ? std::string()
            : fmt::format(
                  "`{}` ",
                  path_of(walk.model, walk.model.params[static_cast<size_t>(param - walk.value_of_param.begin())]));
    texts.push_back(fmt::format("{}{} ({}{})", name, shape_text(shape_of(walk.graph, value)),
                                layout_text(walk.table, layout), layout.is_dtensor ? ", a DTensor" : ""));
  }
  return fmt::format("operands: {}", fmt::join(texts, " and "));
}

// The rules that the operands' layouts come from: the first one, and another.
std::pair<RuleId, RuleId> origins(const Walk& walk, const GraphNode& node) {
  std::pair<RuleId, RuleId> found{kNoRule, kNoRule};
  for (const ValueId value : values_in(walk, node)) {
    const SlotId slot = walk.slot_of[value];
    const Spread& layout = layout_of(walk, slot);
    const bool plain = layout.partial == 0 && !layout.is_dtensor && is_all_whole(walk.table, layout);
    const RuleId rule = plain ? kNoRule : walk.slots[slot].origin;
    if (rule == kNoRule || rule == found.first) continue;
    if (found.first == kNoRule)
      found.first = rule;
    else if (found.second == kNoRule)
      found.second = rule;
  }
  return found;
}

bool keeps_no_values(std::string_view name) { return name.ends_with("_like") || name.starts_with("new_"); }

MemoEntry remember(Walk& walk, OpResult& result) {
  MemoEntry entry;
  for (Spread& out : result.outs) {
    out.wrong = false;
    out.is_dtensor = false;
    out.claim = {};
    out.claimed_shape.clear();
    entry.outs.push_back(intern(walk.table, out));
  }
  entry.segments = std::move(result.segments);
  entry.segments_are_arguments = result.segments_are_arguments;
  entry.is_write = result.is_write;
  entry.unknown = result.unknown;
  entry.crash = std::move(result.crash);
  entry.wrong = std::move(result.wrong);
  entry.code = result.code;
  return entry;
}

}  // namespace

std::string_view dtype_of(const Walk& walk, SlotId slot) {
  return walk.graph.strings[walk.graph.values[walk.slots[slot].value].dtype];
}

std::vector<ValueId> values_in(const Walk& walk, const GraphNode& node) {
  std::vector<ValueId> values;
  each_arg(walk, node, [&](const GraphArg& arg) {
    if (arg.kind == ArgKind::Value) values.push_back(arg.id);
  });
  return values;
}

OpCall call_of(Walk& walk, const GraphNode& node) {
  return {.graph = walk.graph,
          .node = node,
          .table = walk.table,
          .layouts = walk.layout_of,
          .numbers = walk.numbers,
          .size_numbers = walk.size_numbers,
          .name = {},
          .args = {}};
}

std::vector<uint32_t> local_size_numbers(Walk& walk, const GraphNode& node) {
  std::vector<uint32_t> known;
  each_arg(walk, node, [&](const GraphArg& arg) {
    if (arg.kind != ArgKind::Size) return;
    known.resize(walk.graph.sizes.size(), kNoId);
    size_number(walk, known, arg.id, true);
  });
  return known;
}

// Gives the results their slots, and the tape its entry.
void finish_op(Walk& walk, const GraphNode& node, uint32_t index, const MemoEntry& entry,
               std::span<const TapeSlot> ins) {
  const auto [rule, partner] = origins(walk, node);
  const std::string op(walk.graph.strings[node.name]);
  const auto said_of_op = [&op](const std::string& reason) {
    return reason.find(op) != std::string::npos ? reason : fmt::format("{}: {}", op, reason);
  };
  if (!entry.crash.empty()) {
    crash_at(walk, entry.code, said_of_op(entry.crash), rule, partner, op);
    if (walk.crash != kNoId) walk.causes[walk.crash].layouts = operand_texts(walk, node);
    return;
  }
  uint32_t cause = kNoId;
  bool any_gradient = false;
  for (const TapeSlot& in : ins) {
    const Slot& slot = walk.slots[in.slot];
    if (walk.table.layouts[in.layout].wrong && cause == kNoId) cause = slot.cause;
    any_gradient = any_gradient || slot.requires_grad;
  }
  if (keeps_no_values(op)) cause = kNoId;
  if (entry.is_write && !ins.empty() && records_gradients(walk) && any_gradient) {
    const Slot& target = walk.slots[ins[0].slot];
    if (walk.table.layouts[ins[0].layout].local_view && target.requires_grad)
      return crash_at(walk, Code::TP5106,
                      fmt::format("{} writes into what to_local() returned, a view that must not be written to while "
                                  "gradients are recorded",
                                  op),
                      target.origin, kNoRule, op);
  }
  if (cause == kNoId && (!entry.wrong.empty() || entry.unknown)) {
    cause = add_cause(
        walk,
        {.code = entry.unknown ? Code::TP5114 : entry.code,
         .reason =
             entry.unknown
                 ? fmt::format("{} meets a value that is not whole on every rank, and no rule says what it makes of it",
                               op)
                 : said_of_op(entry.wrong),
         .op = op,
         .module = module_at(walk),
         .rule = rule,
         .partner = partner,
         .layouts = operand_texts(walk, node),
         .unknown = entry.unknown});
  }
  // Nothing certain can be said of what follows.
  if (cause != kNoId && entry.unknown && walk.causes[cause].unknown) {
    walk.crash = cause;
    return;
  }
  const bool records = any_gradient && records_gradients(walk);
  TapeEntry tape{.kind = TapeKind::Op, .node = index, .module = module_at(walk), .rule = rule};
  tape.segments_are_arguments = entry.segments_are_arguments;
  bool on_tape = false;
  std::vector<TapeSlot> outs;
  for (uint32_t i = node.out_begin; i < node.out_end; ++i) {
    const ValueId value = walk.graph.outs[i];
    Slot slot{.layout = entry.outs[i - node.out_begin],
              .value = value,
              .requires_grad = records && walk.graph.values[value].requires_grad,
              .origin = rule,
              .cause = cause};
    if (cause != kNoId) {
      Spread layout = walk.table.layouts[slot.layout];
      layout.wrong = true;
      slot.layout = intern(walk.table, layout);
    }
    const SlotId id = new_slot(walk, slot);
    bind(walk, value, id);
    on_tape = on_tape || slot.requires_grad;
    outs.push_back({id, slot.layout});
  }
  list_operation(walk, node);
  if (!on_tape) return;
  tape.in_begin = static_cast<uint32_t>(walk.tape_slots.size());
  walk.tape_slots.insert(walk.tape_slots.end(), ins.begin(), ins.end());
  tape.in_end = tape.out_begin = static_cast<uint32_t>(walk.tape_slots.size());
  walk.tape_slots.insert(walk.tape_slots.end(), outs.begin(), outs.end());
  tape.out_end = static_cast<uint32_t>(walk.tape_slots.size());
  tape.segments_begin = static_cast<uint32_t>(walk.segments.size());
  walk.segments.insert(walk.segments.end(), entry.segments.begin(), entry.segments.end());
  tape.segments_end = static_cast<uint32_t>(walk.segments.size());
  walk.tape.push_back(tape);
}

namespace {

void run_shown(Walk& walk, const GraphNode& node, uint32_t index) {
  bool plain = true, dtensors = false;
  std::string key;
  const auto put = [&key](uint32_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(node.signature);
  std::vector<TapeSlot> ins;
  each_arg(walk, node, [&](const GraphArg& arg) {
    if (arg.kind == ArgKind::Value) {
      const SpreadId layout = walk.layout_of[arg.id];
      plain = plain && walk.table.is_plain[layout];
      dtensors = dtensors || walk.table.layouts[layout].is_dtensor;
      put(layout);
      put(walk.graph.values[arg.id].shape);
      ins.push_back({walk.slot_of[arg.id], layout});
    } else if (arg.kind == ArgKind::Size) {
      const uint32_t number = size_number(walk, walk.size_numbers, arg.id, false);
      plain = plain && number == walk.traced_numbers[arg.id];
      put(number);
    }
  });
  if (dtensors) return run_on_dtensors(walk, node, index);
  auto found = walk.memo.find(key);
  if (found == walk.memo.end()) {
    OpCall call = call_of(walk, node);
    OpResult result = run_rule(call);
    // What nothing was cut of is as recorded, whatever the op is.
    const bool fill = find_rule(call.name) == rule_fill;
    if (plain && !fill) {
      const bool segments_stay = result.crash.empty() && result.wrong.empty();
      const std::vector<Segment> segments = segments_stay ? result.segments : std::vector<Segment>{};
      result = {.outs = {},
                .crash = {},
                .wrong = {},
                .segments = segments,
                .segments_are_arguments = result.segments_are_arguments};
      for (uint32_t i = node.out_begin; i < node.out_end; ++i)
        result.outs.push_back(walk.table.layouts[walk.whole_of_shape[walk.graph.values[walk.graph.outs[i]].shape]]);
    } else if (result.unknown) {
      // Zeros and views of whole values differ in nothing that an op could see.
      bool whole = true;
      for (const TapeSlot& in : ins) {
        const Spread& layout = walk.table.layouts[in.layout];
        whole = whole && layout.partial == 0 && is_all_whole(walk.table, layout);
      }
      result.unknown = !whole;
    }
    found = walk.memo.emplace(std::move(key), remember(walk, result)).first;
  }
  finish_op(walk, node, index, found->second, ins);
}

}  // namespace

void run_node(Walk& walk, const GraphNode& node, uint32_t index) {
  Shown shown;
  if (walk.runtime.show_operands != nullptr) walk.runtime.show_operands(walk, node, shown);
  if (walk.crash == kNoId) run_shown(walk, node, index);
  for (auto before = shown.rbegin(); before != shown.rend(); ++before) {
    // What the operation wrote in place is another value.
    bind(walk, before->first, before->second);
  }
}

}  // namespace tpplan
