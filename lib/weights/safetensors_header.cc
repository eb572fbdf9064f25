#include "weights/safetensors_header.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/text.h"
#include "text/json_reader.h"

namespace tpplan {
namespace {

constexpr size_t kMaxErrors = 50;
constexpr uint64_t kLengthBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";

struct HeaderReader {
  WeightsHeader& header;
  Diagnostics& diagnostics;
  size_t faults = 0;
};

bool fault(HeaderReader& reader, Code code, Span span, std::string message, std::string help = {}) {
  ++reader.faults;
  report_message(reader.diagnostics, code, span, std::move(message), std::move(help));
  return false;
}

bool wrong_form(HeaderReader& reader, const JsonNode& node, std::string message, std::string help = {}) {
  return fault(reader, Code::InvalidTensorEntry, value_span(reader.header.source.id, node), std::move(message),
               std::move(help));
}

// Reads an unsigned 64-bit integer: JSON integers are at most 2^63 - 1, sizes in a header at most 2^64 - 1.
bool read_unsigned(const JsonNode& node, uint64_t& value) {
  if (node.kind == JsonKind::Integer && node.integer >= 0) {
    value = static_cast<uint64_t>(node.integer);
    return true;
  }
  if (node.kind != JsonKind::Number || node.text.empty()) return false;
  const auto [end, error] = std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  return error == std::errc{} && end == node.text.data() + node.text.size();
}

bool read_type(HeaderReader& reader, const JsonNode& node, WeightTensor& tensor) {
  if (node.kind != JsonKind::String)
    return wrong_form(reader, node, fmt::format("`dtype` is {}, not a string", json_kind_name(node.kind)));
  if (find_safetensors_dtype(node.text, tensor.dtype)) return true;
  std::vector<std::string_view> names;
  for (const DTypeRow& type : dtypes()) {
    if (!type.safetensors.empty()) names.push_back(type.safetensors);
  }
  const std::string_view nearest = nearest_name(node.text, names);
  return wrong_form(reader, node, fmt::format("unknown dtype `{}`", node.text),
                    nearest.empty() ? "use a dtype such as BF16, F32, F8_E4M3, I64, ..."
                                    : fmt::format("did you mean `{}`?", nearest));
}

bool read_shape(HeaderReader& reader, const JsonTree& tree, uint32_t at, WeightTensor& tensor) {
  const JsonNode& list = tree.nodes[at];
  if (list.kind != JsonKind::Array)
    return wrong_form(reader, list, fmt::format("`shape` is {}, not an array", json_kind_name(list.kind)));
  tensor.sizes_begin = reader.header.sizes.size();
  for (uint32_t i = at + 1; i < list.end; i = tree.nodes[i].end) {
    uint64_t size = 0;
    if (!read_unsigned(tree.nodes[i], size))
      return wrong_form(reader, tree.nodes[i], "a size is not a whole number from 0 to 2^64 - 1");
    reader.header.sizes.push_back(size);
    ++tensor.ndim;
  }
  return true;
}

bool read_offsets(HeaderReader& reader, const JsonTree& tree, uint32_t at, WeightTensor& tensor) {
  const JsonNode& list = tree.nodes[at];
  const bool pair = list.kind == JsonKind::Array && list.end == at + 3;
  if (!pair || !read_unsigned(tree.nodes[at + 1], tensor.begin) || !read_unsigned(tree.nodes[at + 2], tensor.end))
    return wrong_form(reader, list, "`data_offsets` is not a pair of whole numbers: [begin, end]");
  if (tensor.begin <= tensor.end) return true;
  return fault(reader, Code::TensorsDoNotFillFile, value_span(reader.header.source.id, list),
               fmt::format("tensor `{}` begins at {}, after its end {}", tensor.name, tensor.begin, tensor.end));
}

// Checks the bytes of dtype and shape, multiplied in the order of the reference, so that it overflows in the same
// cases.
bool check_size(HeaderReader& reader, const JsonNode& shape, const WeightTensor& tensor) {
  const DTypeRow& type = dtypes()[tensor.dtype];
  uint64_t bits = 1;
  bool fits = true;
  for (const uint64_t size : shape_of(reader.header, tensor)) fits = fits && !__builtin_mul_overflow(bits, size, &bits);
  fits = fits && !__builtin_mul_overflow(bits, uint64_t{type.bits}, &bits);
  const Span span = value_span(reader.header.source.id, shape);
  if (!fits)
    return fault(reader, Code::TensorsDoNotFillFile, span,
                 fmt::format("the sizes of `{}` multiply to more than 64 bits", tensor.name));
  if (bits % 8 != 0)
    return fault(reader, Code::TensorsDoNotFillFile, span,
                 fmt::format("the {} bits of `{}` do not fill whole bytes", bits, tensor.name));
  if (bits / 8 == tensor.end - tensor.begin) return true;
  return fault(reader, Code::TensorsDoNotFillFile, span,
               fmt::format("tensor `{}` has {} bytes by its dtype and shape, but {} by its offsets", tensor.name,
                           bits / 8, tensor.end - tensor.begin));
}

// Reads a tensor, or reports an error and omits it. check_layout does not run after an error, because the missing bytes
// are not a second one.
bool read_tensor(HeaderReader& reader, const JsonTree& tree) {
  const JsonNode& entry = tree.nodes[0];
  if (entry.kind != JsonKind::Object)
    return wrong_form(reader, entry,
                      fmt::format("tensor `{}` is {}, not an object", entry.key, json_kind_name(entry.kind)));
  WeightTensor tensor{.name = entry.key, .offset = entry.key_offset};
  uint32_t type = 0, shape = 0, offsets = 0;
  for (uint32_t i = 1; i < entry.end; i = tree.nodes[i].end) {
    const std::string_view key = tree.nodes[i].key;
    uint32_t* slot = key == "dtype" ? &type : key == "shape" ? &shape : key == "data_offsets" ? &offsets : nullptr;
    if (slot != nullptr) {
      *slot = i;
    } else if (Diagnostic* d = report(reader.diagnostics, Code::UnknownTensorKey,
                                      key_span(reader.header.source.id, tree.nodes[i]), key)) {
      d->message = fmt::format("unknown key `{}` of a tensor is ignored", key);
      d->counted = "tensor";
    }
  }
  for (const auto& [name, index] :
       {std::pair{"dtype", type}, std::pair{"shape", shape}, std::pair{"data_offsets", offsets}}) {
    if (index == 0)
      return fault(reader, Code::InvalidTensorEntry, key_span(reader.header.source.id, entry),
                   fmt::format("tensor `{}` has no `{}`", entry.key, name));
  }
  if (!read_type(reader, tree.nodes[type], tensor) || !read_shape(reader, tree, shape, tensor) ||
      !read_offsets(reader, tree, offsets, tensor))
    return false;
  if (!check_size(reader, tree.nodes[shape], tensor)) return false;
  reader.header.tensors.push_back(tensor);
  return true;
}

bool read_metadata(HeaderReader& reader, const JsonTree& tree) {
  const JsonNode& map = tree.nodes[0];
  if (map.kind == JsonKind::Null) return true;
  if (map.kind != JsonKind::Object)
    return wrong_form(reader, map, fmt::format("`{}` is {}, not an object", kMetadata, json_kind_name(map.kind)));
  for (uint32_t i = 1; i < map.end; i = tree.nodes[i].end) {
    if (tree.nodes[i].kind != JsonKind::String)
      return wrong_form(reader, tree.nodes[i],
                        fmt::format("`{}` in `{}` is {}, not a string", tree.nodes[i].key, kMetadata,
                                    json_kind_name(tree.nodes[i].kind)));
    reader.header.metadata.emplace_back(tree.nodes[i].key, tree.nodes[i].text);
  }
  return true;
}

// Checks that every byte after the header belongs to one tensor. Tensors are sorted by begin and then by end, so that
// an empty one comes before the one that begins at its offset, and one pass finds every gap and overlap.
bool check_layout(HeaderReader& reader) {
  const WeightsHeader& header = reader.header;
  std::vector<uint32_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return std::pair{header.tensors[i].begin, header.tensors[i].end}; });
  uint64_t filled = 0;
  std::string_view before;
  for (const uint32_t i : order) {
    const WeightTensor& tensor = header.tensors[i];
    const Span span{header.source.id, tensor.offset, static_cast<uint32_t>(tensor.name.size() + 2)};
    if (tensor.begin != filled) {
      const bool hole = tensor.begin > filled;
      return fault(
          reader, Code::TensorsDoNotFillFile, span,
          before.data() == nullptr
              ? fmt::format("no tensor begins at 0: the first one, `{}`, begins at {}", tensor.name, tensor.begin)
              : fmt::format("tensor `{}` begins at {}, `{}` before it ends at {}: {}", tensor.name, tensor.begin,
                            before, filled, hole ? "a gap" : "they overlap"));
    }
    filled = tensor.end;
    before = tensor.name;
  }
  const uint64_t there = header.file_bytes - header.data_begin;
  if (filled == there) return true;
  return fault(reader, Code::TensorsDoNotFillFile, {header.source.id, 0, 1},
               fmt::format("the tensors take {} bytes, but {} follow the header", filled, there),
               filled > there ? "copy the file again: it is truncated"
                              : "write the file again: it has bytes that belong to no tensor");
}

struct Stranger {
  std::string_view start, message, help;
};

// Files that people pass as a safetensors file. They are recognised before the length is read, because the first bytes
// of a text would be an enormous length, which explains nothing.
constexpr std::string_view kPickle =
    "the file is a pickle, not a safetensors file: torch.save writes one, and torch's distributed checkpoint (DCP) has "
    "one named `.metadata`";
constexpr std::string_view kConvert =
    "save the state as safetensors, for a DCP folder after `python -m torch.distributed.checkpoint.format_utils "
    "dcp_to_torch FOLDER model.pt`";
constexpr Stranger kStrangers[] = {
    {"\x80\x02", kPickle, kConvert},
    {"\x80\x03", kPickle, kConvert},
    {"\x80\x04", kPickle, kConvert},
    {"\x80\x05", kPickle, kConvert},
    {"version https://git-lfs", "the file is a Git LFS pointer, not the weights", "fetch them: git lfs pull"},
    {"version https://hawser", "the file is a Git LFS pointer, not the weights", "fetch them: git lfs pull"},
    {"<!DOCTYPE", "the file is an HTML page, not the weights", "download the file again: the server sent a page"},
    {"<!doctype", "the file is an HTML page, not the weights", "download the file again: the server sent a page"},
    {"<html", "the file is an HTML page, not the weights", "download the file again: the server sent a page"},
    {"PK\x03\x04", "the file is a zip archive of torch.save, not a safetensors file",
     "convert it: safetensors.torch.save_file"},
    {"GGUF", "the file is a GGUF file, not a safetensors file", "give the safetensors file that it was made from"},
};

// Compares the stated length with the file size before it allocates memory.
bool read_header_text(const InputFile& file, WeightsHeader& header, Diagnostics& diagnostics, uint64_t max_bytes) {
  constexpr uint64_t kHeadBytes = 32;
  const Span start{header.source.id, 0, 1};
  const auto reject = [&](Code code, std::string message, std::string help = {}) {
    report_message(diagnostics, code, start, std::move(message), std::move(help));
    return false;
  };
  header.file_bytes = size_of(file);
  const ReadResult head = read_part(file, 0, kHeadBytes);
  if (head.fault != ReadError::None)
    return reject(Code::FileUnreadable, fmt::format("cannot read the file: {}", head.reason));
  const std::string_view text = head.file.text;
  for (const Stranger& stranger : kStrangers) {
    if (text.starts_with(stranger.start))
      return reject(Code::InvalidSafetensors, std::string(stranger.message), std::string(stranger.help));
  }
  if (text.size() < kLengthBytes)
    return reject(
        Code::InvalidSafetensors,
        fmt::format("{} are too few: a safetensors file starts with 8 bytes that hold the length of its header",
                    counted(text.size(), "byte")));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  if (length > kMaxHeaderBytes)
    return reject(Code::InvalidSafetensors,
                  fmt::format("the first 8 bytes declare a header of {} bytes, more than the format's {}", length,
                              kMaxHeaderBytes),
                  "give another file: this one is damaged or not safetensors");
  if (length > header.file_bytes - kLengthBytes)
    return reject(
        Code::InvalidSafetensors,
        fmt::format("the header has {} bytes, but {} are in the file", length, header.file_bytes - kLengthBytes),
        "copy the file again: it is truncated");
  if (length > max_bytes)
    return reject(Code::FileTooLarge,
                  fmt::format("the headers of all files together exceed {}", human_bytes(kMaxHeaderBytesTogether)));
  ReadResult part = read_part(file, kLengthBytes, length);
  if (part.fault != ReadError::None)
    return reject(Code::FileUnreadable, fmt::format("cannot read the file: {}", part.reason));
  header.source.text = std::move(part.file.text);
  header.data_begin = kLengthBytes + length;
  if (header.source.text.size() != length)
    return reject(Code::InvalidSafetensors, "the file became shorter while it was read");
  return header.source.text.starts_with('{') || reject(Code::InvalidSafetensors, "the header does not begin with `{`");
}

}  // namespace

bool read_safetensors_header(const InputFile& file, WeightsHeader& header, Diagnostics& diagnostics,
                             uint64_t max_bytes) {
  if (!read_header_text(file, header, diagnostics, max_bytes)) return false;
  HeaderReader reader{.header = header, .diagnostics = diagnostics};
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonField::Whole; },
                            .value =
                                [&](std::string_view key, const JsonTree& tree) {
                                  if (key == kMetadata)
                                    read_metadata(reader, tree);
                                  else
                                    read_tensor(reader, tree);
                                  return reader.faults < kMaxErrors;
                                }};
  const JsonLimits limits{.token_bytes = kMaxHeaderText,
                          .bare_bytes = kMaxHeaderBytes};  // headers are padded with spaces
  if (!read_json(header.source, visitor, header.strings, diagnostics, limits)) return false;
  return reader.faults == 0 && check_layout(reader);
}

}  // namespace tpplan
