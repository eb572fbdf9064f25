#include "weights/read_pickle.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

// A checkpoint of a model and its optimizer with 3000 tensors on 50 ranks has 4 million values, in 200 megabytes. A
// list counts as two.
constexpr size_t kMaxValues = size_t{4} << 20;
constexpr size_t kMaxTuple = 1024;

// Opcodes of protocol 2 to 5, with the names of Python's pickletools.
enum Opcode : uint8_t {
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kMark = '(',
  kEmptyTuple = ')',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kReduce = 'R',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
};

struct PickleReader {
  std::string_view bytes;
  std::span<const std::string_view> classes;
  Pickle& pickle;
  size_t at = 0;
  std::vector<uint32_t> stack, memo;
  std::vector<size_t> marks;  // sizes of the stack
  std::string fault{};
};

bool reject(PickleReader& reader, std::string reason) {
  if (reader.fault.empty()) reader.fault = std::move(reason);
  return false;
}

std::string_view take(PickleReader& reader, size_t count) {
  if (count > reader.bytes.size() - reader.at) {
    reject(reader, "it ends inside an opcode");
    count = 0;
  }
  const std::string_view part = reader.bytes.substr(reader.at, count);
  reader.at += count;
  return part;
}

// Returns a little-endian number of `count` bytes.
uint64_t take_number(PickleReader& reader, size_t count) {
  uint64_t number = 0;
  const std::string_view part = take(reader, count);
  for (size_t i = 0; i < part.size(); ++i) number |= uint64_t{static_cast<unsigned char>(part[i])} << (8 * i);
  return number;
}

// Returns a line without its end.
std::string_view take_line(PickleReader& reader) {
  const size_t end = reader.bytes.find('\n', reader.at);
  const std::string_view line = take(reader, end == std::string_view::npos ? std::string_view::npos : end - reader.at);
  take(reader, 1);
  return line;
}

bool push(PickleReader& reader, PickleValue value) {
  if (reader.pickle.values.size() + 2 * reader.pickle.lists.size() >= kMaxValues)
    return reject(reader, fmt::format("it has more than {} values", kMaxValues));
  reader.stack.push_back(static_cast<uint32_t>(reader.pickle.values.size()));
  reader.pickle.values.push_back(std::move(value));
  return true;
}

// Takes the last values from the stack, but no value below the last mark.
std::vector<uint32_t> pop(PickleReader& reader, size_t count) {
  const size_t floor = reader.marks.empty() ? 0 : reader.marks.back();
  if (count > reader.stack.size() - floor) {
    reject(reader, "an opcode lacks its operands");
    return std::vector<uint32_t>(count);
  }
  std::vector<uint32_t> taken(reader.stack.end() - static_cast<std::ptrdiff_t>(count), reader.stack.end());
  reader.stack.resize(reader.stack.size() - count);
  return taken;
}

// Takes the values after the last mark.
std::vector<uint32_t> pop_marked(PickleReader& reader) {
  if (reader.marks.empty()) {
    reject(reader, "an opcode lacks its mark");
    return {};
  }
  std::vector<uint32_t> taken = pop(reader, reader.stack.size() - reader.marks.back());
  reader.marks.pop_back();
  return taken;
}

bool push_class(PickleReader& reader, std::string_view module, std::string_view name) {
  std::string text = fmt::format("{} {}", module, name);
  if (std::ranges::find(reader.classes, text) == reader.classes.end())
    return reject(reader, fmt::format("it has the class `{}.{}`, which no checkpoint contains", module, name));
  return push(reader, {.text = reader.pickle.strings.emplace_back(std::move(text)), .kind = PickleKind::Class});
}

bool push_stack_class(PickleReader& reader) {
  const std::vector<uint32_t> names = pop(reader, 2);
  if (!reader.fault.empty()) return false;
  const PickleValue &module = reader.pickle.values[names[0]], &name = reader.pickle.values[names[1]];
  if (module.kind != PickleKind::Text || name.kind != PickleKind::Text)
    return reject(reader, "the name of a class is no text");
  return push_class(reader, module.text, name.text);
}

bool push_list(PickleReader& reader, PickleKind kind, std::vector<uint32_t> items) {
  reader.pickle.lists.push_back(std::move(items));
  return push(reader, {.first = static_cast<uint32_t>(reader.pickle.lists.size() - 1), .kind = kind});
}

bool push_tuple(PickleReader& reader, const std::vector<uint32_t>& items) {
  if (items.size() > kMaxTuple) return reject(reader, fmt::format("a tuple has more than {} items", kMaxTuple));
  const auto first = static_cast<uint32_t>(reader.pickle.items.size());
  reader.pickle.items.insert(reader.pickle.items.end(), items.begin(), items.end());
  return push(reader, {.first = first, .count = static_cast<uint16_t>(items.size()), .kind = PickleKind::Tuple});
}

// A call of a class, which is not executed: an object with its class and arguments.
bool push_object(PickleReader& reader) {
  std::vector<uint32_t> parts = pop(reader, 2);
  if (!reader.fault.empty()) return false;
  if (reader.pickle.values[parts[0]].kind != PickleKind::Class ||
      reader.pickle.values[parts[1]].kind != PickleKind::Tuple)
    return reject(reader, "it calls something that is no class");
  return push_list(reader, PickleKind::Object, std::move(parts));
}

// Appends values to the list, dict or object below them.
bool extend(PickleReader& reader, const std::vector<uint32_t>& added, PickleKind kind) {
  if (!reader.fault.empty() || reader.stack.empty()) return reject(reader, "an opcode lacks its operands");
  const PickleValue& value = reader.pickle.values[reader.stack.back()];
  const bool fits = kind != PickleKind::Dict || added.size() % 2 == 0;
  if (value.kind != kind || !fits) return reject(reader, "an opcode has operands of another kind");
  std::vector<uint32_t>& items = reader.pickle.lists[value.first];
  if (kind == PickleKind::Object && items.size() != 2) return reject(reader, "an object has two states");
  items.insert(items.end(), added.begin(), added.end());
  return true;
}

bool get(PickleReader& reader, uint64_t at) {
  if (at >= reader.memo.size()) return reject(reader, "it refers to a value that it does not have");
  reader.stack.push_back(reader.memo[at]);
  return true;
}

// Python numbers memoized values in order, so that each put is the next one.
bool put(PickleReader& reader, uint64_t at) {
  if (reader.stack.empty() || at != reader.memo.size()) return reject(reader, "it memoizes values out of order");
  reader.memo.push_back(reader.stack.back());
  return true;
}

bool push_integer(PickleReader& reader, int64_t number, PickleKind kind = PickleKind::Integer) {
  return push(reader, {.integer = number, .kind = kind});
}

// A long of at most 8 bytes in two's complement.
bool push_long(PickleReader& reader) {
  const uint64_t count = take_number(reader, 1);
  if (count > 8) return reject(reader, "a number has more than 64 bits");
  uint64_t number = take_number(reader, count);
  if (count > 0 && count < 8 && (number >> (8 * count - 1)) != 0) number |= ~uint64_t{0} << (8 * count);
  return push_integer(reader, static_cast<int64_t>(number));
}

bool push_text(PickleReader& reader, uint64_t length) {
  return push(reader, {.text = take(reader, length), .kind = PickleKind::Text});
}

bool run_opcode(PickleReader& reader, uint8_t code) {
  switch (code) {
    case kProto: {
      const uint64_t protocol = take_number(reader, 1);
      return (protocol >= 2 && protocol <= 5) || reject(reader, fmt::format("protocol {} is not 2 to 5", protocol));
    }
    case kFrame:
      return take_number(reader, 8) <= reader.bytes.size() || reject(reader, "a frame ends after the file");
    case kNone:
      return push(reader, {});
    case kNewTrue:
      return push_integer(reader, 1, PickleKind::Bool);
    case kNewFalse:
      return push_integer(reader, 0, PickleKind::Bool);
    case kBinInt:
      return push_integer(reader, static_cast<int32_t>(take_number(reader, 4)));
    case kBinInt1:
      return push_integer(reader, static_cast<int64_t>(take_number(reader, 1)));
    case kBinInt2:
      return push_integer(reader, static_cast<int64_t>(take_number(reader, 2)));
    case kLong1:
      return push_long(reader);
    case kShortBinUnicode:
      return push_text(reader, take_number(reader, 1));
    case kBinUnicode:
      return push_text(reader, take_number(reader, 4));
    case kEmptyTuple:
      return push_tuple(reader, {});
    case kTuple1:
      return push_tuple(reader, pop(reader, 1));
    case kTuple2:
      return push_tuple(reader, pop(reader, 2));
    case kTuple3:
      return push_tuple(reader, pop(reader, 3));
    case kTuple:
      return push_tuple(reader, pop_marked(reader));
    case kEmptyList:
      return push_list(reader, PickleKind::List, {});
    case kEmptyDict:
      return push_list(reader, PickleKind::Dict, {});
    case kAppend:
      return extend(reader, pop(reader, 1), PickleKind::List);
    case kAppends:
      return extend(reader, pop_marked(reader), PickleKind::List);
    case kSetItem:
      return extend(reader, pop(reader, 2), PickleKind::Dict);
    case kSetItems:
      return extend(reader, pop_marked(reader), PickleKind::Dict);
    case kBuild:
      return extend(reader, pop(reader, 1), PickleKind::Object);
    case kMark:
      reader.marks.push_back(reader.stack.size());
      return true;
    case kNewObj:
    case kReduce:
      return push_object(reader);
    case kStackGlobal:
      return push_stack_class(reader);
    case kGlobal: {
      const std::string_view module = take_line(reader);
      return push_class(reader, module, take_line(reader));
    }
    case kMemoize:
      return put(reader, reader.memo.size());
    case kBinPut:
      return put(reader, take_number(reader, 1));
    case kLongBinPut:
      return put(reader, take_number(reader, 4));
    case kBinGet:
      return get(reader, take_number(reader, 1));
    case kLongBinGet:
      return get(reader, take_number(reader, 4));
    default:
      return reject(reader, fmt::format("it has the opcode 0x{:02x}, which no checkpoint contains", code));
  }
}

}  // namespace

std::string read_pickle(std::string_view bytes, std::span<const std::string_view> classes, Pickle& pickle) {
  PickleReader reader{.bytes = bytes, .classes = classes, .pickle = pickle, .stack = {}, .memo = {}, .marks = {}};
  size_t opcode = 0;
  while (reader.fault.empty()) {
    opcode = reader.at;
    if (opcode == bytes.size()) return "it ends without the opcode STOP";
    const auto code = static_cast<uint8_t>(bytes[reader.at++]);
    if (opcode == 0 && code != kProto) return "it does not begin with the opcode PROTO";
    if (code == kStop) break;
    run_opcode(reader, code);
  }
  if (reader.fault.empty() && (reader.stack.size() != 1 || !reader.marks.empty()))
    reject(reader, "it is no single value");
  if (!reader.fault.empty()) return fmt::format("{} (at byte {})", reader.fault, opcode);
  pickle.root = reader.stack.back();
  return {};
}

std::span<const uint32_t> items_of(const Pickle& pickle, const PickleValue& value) {
  if (value.kind == PickleKind::Tuple) return std::span(pickle.items).subspan(value.first, value.count);
  const bool grows =
      value.kind == PickleKind::List || value.kind == PickleKind::Dict || value.kind == PickleKind::Object;
  return grows ? std::span<const uint32_t>(pickle.lists[value.first]) : std::span<const uint32_t>();
}

const PickleValue* find_item(const Pickle& pickle, const PickleValue& value, std::string_view key) {
  if (value.kind == PickleKind::Object) {
    const std::span<const uint32_t> parts = items_of(pickle, value);
    return parts.size() == 3 && pickle.values[parts[2]].kind == PickleKind::Dict
               ? find_item(pickle, pickle.values[parts[2]], key)
               : nullptr;
  }
  if (value.kind != PickleKind::Dict) return nullptr;
  const std::span<const uint32_t> items = items_of(pickle, value);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const PickleValue& name = pickle.values[items[i]];
    if (name.kind == PickleKind::Text && name.text == key) return &pickle.values[items[i + 1]];
  }
  return nullptr;
}

bool is_of_class(const Pickle& pickle, const PickleValue& value, std::string_view name) {
  return value.kind == PickleKind::Object && pickle.values[items_of(pickle, value)[0]].text == name;
}

}  // namespace tpplan
