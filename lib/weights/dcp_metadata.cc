#include "weights/dcp_metadata.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/read_file.h"
#include "base/text.h"
#include "weights/read_pickle.h"

namespace tpplan {
namespace {

constexpr uint64_t kMaxMetadataBytes = uint64_t{256} * 1024 * 1024;
constexpr std::string_view kModel = "model";
constexpr std::string_view kTensor = "torch.distributed.checkpoint.metadata TensorStorageMetadata";
constexpr std::string_view kProperties = "torch.distributed.checkpoint.metadata TensorProperties";
constexpr std::string_view kSize = "torch Size";
constexpr std::string_view kRoot = "torch.distributed.checkpoint.metadata Metadata";

// The classes and functions that torch.distributed.checkpoint writes, except dtypes.
constexpr std::string_view kClasses[] = {
    kRoot,
    kTensor,
    kProperties,
    kSize,
    "torch.distributed.checkpoint.metadata BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata MetadataIndex",
    "torch.distributed.checkpoint.metadata StorageMeta",
    "torch.distributed.checkpoint.metadata _MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.filesystem _StorageInfo",
    "torch.serialization _get_layout",
    "pathlib PosixPath",
    "pathlib WindowsPath",
    "pathlib._local PosixPath",  // Python 3.13
    "pathlib._local WindowsPath",
};

struct MetadataReader {
  const Pickle& pickle;
  WeightFiles& files;
  WeightsHeader& header;
};

bool reject(WeightFiles& files, const WeightsHeader& header, std::string reason) {
  report_message(files.diagnostics, Code::InvalidDcpMetadata, {header.source.id, 0, 1}, std::move(reason),
                 "give the `.metadata` of a folder that torch.distributed.checkpoint wrote");
  return false;
}

std::vector<std::string_view> accepted_classes(std::deque<std::string>& dtype_classes) {
  std::vector<std::string_view> classes(std::begin(kClasses), std::end(kClasses));
  for (const DTypeRow& row : dtypes()) classes.push_back(dtype_classes.emplace_back(fmt::format("torch {}", row.name)));
  return classes;
}

// Reads a torch.Size: an object whose only argument is a tuple of sizes.
bool read_size(MetadataReader& reader, const PickleValue* size, WeightTensor& tensor) {
  if (size == nullptr || !is_of_class(reader.pickle, *size, kSize)) return false;
  const auto arguments = items_of(reader.pickle, reader.pickle.values[items_of(reader.pickle, *size)[1]]);
  if (arguments.size() != 1 || reader.pickle.values[arguments[0]].kind != PickleKind::Tuple) return false;
  tensor.sizes_begin = reader.header.sizes.size();
  for (const uint32_t at : items_of(reader.pickle, reader.pickle.values[arguments[0]])) {
    const PickleValue& value = reader.pickle.values[at];
    if (value.kind != PickleKind::Integer || value.integer < 0) return false;
    reader.header.sizes.push_back(static_cast<uint64_t>(value.integer));
    ++tensor.ndim;
  }
  return true;
}

// Reads the dtype of TensorProperties: the first item of its state.
bool read_type(const MetadataReader& reader, const PickleValue* properties, DType& dtype) {
  if (properties == nullptr || !is_of_class(reader.pickle, *properties, kProperties)) return false;
  const auto parts = items_of(reader.pickle, *properties);
  const auto state = parts.size() == 3 ? items_of(reader.pickle, reader.pickle.values[parts[2]]) : parts.first(0);
  if (state.empty() || reader.pickle.values[state[0]].kind != PickleKind::Class) return false;
  const std::string_view name = reader.pickle.values[state[0]].text;
  return name.starts_with("torch ") && find_dtype(name.substr(6), dtype);
}

// Returns the object that an entry belongs to, the first part of its path in the state dict. Empty if the path has one
// part: the entry is of no object.
std::string_view object_of(const MetadataReader& reader, const PickleValue* path) {
  if (path == nullptr || path->kind != PickleKind::Tuple || path->count < 2) return {};
  const PickleValue& first = reader.pickle.values[items_of(reader.pickle, *path)[0]];
  return first.kind == PickleKind::Text ? first.text : std::string_view();
}

// A tensor entry of the checkpoint, with its object.
struct Entry {
  std::string_view name, object;
  const PickleValue* value = nullptr;
};

std::vector<Entry> list_tensors(const MetadataReader& reader, const PickleValue& all, const PickleValue* paths) {
  std::map<std::string_view, const PickleValue*> path_of;
  const std::span<const uint32_t> given =
      paths == nullptr ? std::span<const uint32_t>() : items_of(reader.pickle, *paths);
  for (size_t i = 0; i + 1 < given.size(); i += 2)
    path_of.emplace(reader.pickle.values[given[i]].text, &reader.pickle.values[given[i + 1]]);
  std::vector<Entry> entries;
  const std::span<const uint32_t> items = items_of(reader.pickle, all);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const PickleValue &name = reader.pickle.values[items[i]], &value = reader.pickle.values[items[i + 1]];
    if (name.kind != PickleKind::Text || !is_of_class(reader.pickle, value, kTensor)) continue;
    const auto path = path_of.find(name.text);
    entries.push_back({name.text, object_of(reader, path == path_of.end() ? nullptr : path->second), &value});
  }
  return entries;
}

// Keeps the tensors of the model, without the name of their object. Returns false if several objects have tensors and
// none is named `model`.
bool select_model(std::vector<Entry>& entries, std::vector<std::string_view>& objects) {
  for (const Entry& entry : entries) {
    if (std::ranges::find(objects, entry.object) == objects.end()) objects.push_back(entry.object);
  }
  const bool has_model = std::ranges::find(objects, kModel) != objects.end();
  if (objects.size() > 1 && !has_model) return false;
  const std::string_view kept = has_model ? kModel : objects.front();
  std::erase_if(entries, [kept](const Entry& entry) { return entry.object != kept; });
  std::erase(objects, kept);
  for (Entry& entry : entries) {
    if (!kept.empty() && entry.name.starts_with(kept))
      entry.name.remove_prefix(std::min(entry.name.size(), kept.size() + 1));
  }
  return true;
}

bool read_tensors(MetadataReader& reader, std::string& omitted) {
  const PickleValue& root = reader.pickle.values[reader.pickle.root];
  const PickleValue* all = find_item(reader.pickle, root, "state_dict_metadata");
  if (!is_of_class(reader.pickle, root, kRoot) || all == nullptr || all->kind != PickleKind::Dict)
    return reject(reader.files, reader.header, "the pickle has no `state_dict_metadata`");
  std::vector<Entry> entries = list_tensors(reader, *all, find_item(reader.pickle, root, "planner_data"));
  if (entries.empty()) return reject(reader.files, reader.header, "the checkpoint has no tensors");
  std::vector<std::string_view> objects;
  if (!select_model(entries, objects))
    return reject(
        reader.files, reader.header,
        fmt::format("the checkpoint has the objects {}, but none with the name `model`", fmt::join(objects, ", ")));
  for (const Entry& entry : entries) {
    WeightTensor tensor{.name = entry.name};
    if (!read_size(reader, find_item(reader.pickle, *entry.value, "size"), tensor) ||
        !read_type(reader, find_item(reader.pickle, *entry.value, "properties"), tensor.dtype))
      return reject(reader.files, reader.header, fmt::format("`{}` has no size or no dtype", entry.name));
    reader.files.tensors.push_back({0, static_cast<uint32_t>(reader.header.tensors.size())});
    reader.header.tensors.push_back(tensor);
  }
  if (!objects.empty()) omitted = fmt::format("tensors of {} are left out", fmt::join(objects, " and "));
  return true;
}

}  // namespace

bool read_dcp_metadata(const std::string& path, WeightFiles& files, std::string& omitted) {
  WeightsHeader& header = files.headers.emplace_back();
  header.source.name = path;
  header.source.id = ++files.last_id;
  ReadResult result = read_file(path, kMaxMetadataBytes);
  if (result.fault != ReadError::None) {
    const bool is_large = result.fault == ReadError::TooLarge;
    report_message(files.diagnostics, is_large ? Code::FileTooLarge : Code::FileUnreadable, {header.source.id, 0, 1},
                   is_large ? fmt::format("the file exceeds {}", human_bytes(kMaxMetadataBytes))
                            : fmt::format("cannot read the file: {}", result.reason));
    return false;
  }
  // The source stays without text, because its bytes are not for people.
  const std::string& bytes = header.strings.emplace_back(std::move(result.file.text));
  std::deque<std::string> dtype_classes;
  Pickle pickle;
  const std::string fault = read_pickle(bytes, accepted_classes(dtype_classes), pickle);
  if (!fault.empty()) return reject(files, header, fmt::format("the pickle is rejected: {}", fault));
  MetadataReader reader{.pickle = pickle, .files = files, .header = header};
  return read_tensors(reader, omitted);
}

}  // namespace tpplan
