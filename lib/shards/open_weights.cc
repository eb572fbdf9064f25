#include "shards/open_weights.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <unordered_map>

#include "base/text.h"
#include "shards/shard_store.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFaults = 100;
constexpr size_t kNamed = 3;  // extra tensors that a warning names

using StoredIndex = std::unordered_map<std::string_view, std::vector<WeightPlace>>;

bool fail(WeightSource& source, int status, std::string message) {
  source.status = std::max(source.status, status);
  source.faults.push_back(std::move(message));
  return false;
}

// The file or index that stands for a folder; empty: the folder's files are shards. False when it holds nothing of the
// kind.
bool choose_in_folder(const std::string& folder, WeightSource& source, std::string& path,
                      std::vector<std::string>& shards) {
  std::error_code error;
  for (const std::string_view name : {"model.safetensors.index.json", "model.safetensors"}) {
    if (fs::exists(fs::path(folder) / name, error)) {
      path = (fs::path(folder) / name).string();
      return true;
    }
  }
  std::vector<std::string> indexes;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors")) shards.push_back(name);
    if (name.ends_with(".safetensors.index.json")) indexes.push_back(name);
  }
  if (error)
    return fail(source, 2, fmt::format("{}: cannot read the folder: {}", escape_for_terminal(folder), error.message()));
  std::ranges::sort(shards);
  std::ranges::sort(indexes);
  if (indexes.size() > 1)
    return fail(source, 2,
                fmt::format("{}: holds {} indexes, among them {} and {}; name one of them", escape_for_terminal(folder),
                            indexes.size(), escape_for_terminal(indexes[0]), escape_for_terminal(indexes[1])));
  if (indexes.size() == 1)
    path = (fs::path(folder) / indexes[0]).string();
  else if (shards.size() == 1)
    path = (fs::path(folder) / shards[0]).string();
  else if (shards.empty())
    return fail(source, 2, fmt::format("{}: holds no safetensors file and no index", escape_for_terminal(folder)));
  return true;
}

bool open_file(const std::string& path, const SafetensorsHeader& header, WeightSource& source) {
  SourceFileHandle& file = source.files.emplace_back();
  file.path = header.source.name;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return fail(source, 2,
                fmt::format("{}: cannot read the file: {}", escape_for_terminal(file.path), std::strerror(errno)));
  file.fd = std::shared_ptr<int>(new int(fd), [](int* open_fd) {
    close(*open_fd);
    delete open_fd;
  });
  if (fstat(fd, &file.identity) != 0)
    return fail(source, 2, fmt::format("{}: {}", escape_for_terminal(file.path), std::strerror(errno)));
  // What is open now must be what the header was read from.
  std::string again(header.source.text.size(), '\0');
  const uint64_t start = header.data_begin - again.size();
  const bool same =
      static_cast<uint64_t>(file.identity.st_size) == header.file_bytes && S_ISREG(file.identity.st_mode) &&
      pread(fd, again.data(), again.size(), static_cast<off_t>(start)) == static_cast<ssize_t>(again.size()) &&
      again == header.source.text;
  return same ||
         fail(source, 2, fmt::format("{}: the file changed while it was opened", escape_for_terminal(file.path)));
}

// Headers and open files of `path`.
bool open_files(const std::string& path, WeightSource& source) {
  std::error_code error;
  std::string chosen = path;
  std::vector<std::string> shards;
  if (fs::is_directory(path, error)) {
    chosen.clear();
    if (!choose_in_folder(path, source, chosen, shards)) return false;
  }
  source.is_folder_of_shards = chosen.empty() && !shards.empty();
  if (source.is_folder_of_shards) {
    std::string fault;
    if (!read_shard_headers(path, shards, source.weights, source.offsets, fault))
      return fault.empty() ? false : fail(source, 2, fault);
  } else if (!read_weight_files(chosen, source.weights)) {
    return false;
  }
  bool good = true;
  for (const SafetensorsHeader& header : source.weights.headers) {
    // The reader names the files of an index as the index does; their folder is the index's.
    good = open_file(header.source.name, header, source) && good;
  }
  return good;
}

std::string shape_text(std::span<const uint64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Checks a stored tensor (all its pieces) against what the manifest says, and notes where it stands.
bool place_tensor(const std::vector<WeightPlace>& places, const ParamLayout& layout, std::string_view path,
                  WeightSource& source, SourceTensor& tensor) {
  const SafetensorsHeader& first = source.weights.headers[places[0].file];
  tensor.name = first.tensors[places[0].tensor].name;
  std::vector<Box> boxes;
  const std::vector<uint64_t> sizes = byte_sizes(layout.shape, layout.dtype);
  const std::vector<uint64_t> wanted(layout.shape.begin(), layout.shape.end());
  const std::string called =
      fmt::format("`{}`{}", escape_for_terminal(path),
                  tensor.name == path ? "" : fmt::format(" (stored as `{}`)", escape_for_terminal(tensor.name)));
  for (const WeightPlace& place : places) {
    const SafetensorsHeader& header = source.weights.headers[place.file];
    const WeightTensor& stored = header.tensors[place.tensor];
    const std::span<const uint64_t> shape = shape_of(header, stored);
    const WeightTypeRow& type = weight_types()[stored.type];
    const std::string in_file = escape_for_terminal(header.source.name);
    if (type.dtype != dtypes()[layout.dtype].name)
      return fail(source, 1,
                  fmt::format("{}: {} is {} there and {} in the manifest: nothing is cast", in_file, called, type.name,
                              dtypes()[layout.dtype].name));
    std::vector<uint64_t> begin(wanted.size());
    if (source.is_folder_of_shards) {
      const auto saved = source.offsets[place.file].find(std::string(stored.name));
      if (saved == source.offsets[place.file].end() || saved->second.size() != begin.size())
        return fail(source, 1,
                    fmt::format("{}: {} has no saved_offsets of {} in {}", in_file, called,
                                counted(begin.size(), "dim"), kShardingInfoKey));
      begin = saved->second;
    }
    bool fits = shape.size() == wanted.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      uint64_t end = 0;
      fits = !__builtin_add_overflow(begin[d], shape[d], &end) &&
             (source.is_folder_of_shards ? end <= wanted[d] : end == wanted[d]);
    }
    if (!fits)
      return fail(
          source, 1,
          fmt::format("{}: {} has shape {}{} there and {} in the manifest", in_file, called, shape_text(shape),
                      source.is_folder_of_shards ? fmt::format(" at {}", shape_text(begin)) : "", shape_text(wanted)));
    std::vector<std::vector<Interval>> runs;
    for (size_t d = 0; d < shape.size(); ++d)
      runs.push_back({{static_cast<int64_t>(begin[d]), static_cast<int64_t>(begin[d] + shape[d])}});
    const std::vector<HeldBox> held = held_boxes(layout.shape, layout.dtype, runs);
    if (held.empty()) continue;
    boxes.push_back(held[0].box);
    tensor.pieces.push_back({place.file, header.data_begin + stored.begin, held[0].box});
  }
  const std::string gap = tiling_fault(sizes, boxes);
  return gap.empty() || fail(source, 1, fmt::format("{}: the folder's pieces do not make it up: {}", called, gap));
}

// Where a manifest tensor stands: under its own name, else one of its group that is stored.
const std::vector<WeightPlace>* find_stored(const StoredIndex& stored, const Manifest& manifest, size_t index,
                                            std::span<const uint32_t> group) {
  const auto found = stored.find(path_of(manifest, tensor_of(manifest, index)));
  if (found != stored.end()) return &found->second;
  for (const uint32_t member : group) {
    const auto tied = stored.find(path_of(manifest, manifest.parameters[member]));
    if (tied != stored.end()) return &tied->second;
  }
  return nullptr;
}

void warn_of_extra(const StoredIndex& stored, const Manifest& manifest, size_t tensors, WeightSource& source) {
  StoredIndex unused = stored;
  for (size_t i = 0; i < tensors; ++i) unused.erase(path_of(manifest, tensor_of(manifest, i)));
  if (unused.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, places] : unused) names.push_back(escape_for_terminal(name));
  std::ranges::sort(names);
  const size_t more = names.size() - std::min(names.size(), kNamed);
  names.resize(names.size() - more);
  source.warnings.push_back(fmt::format("the weights hold {} that the manifest lacks, left unread: {}{}",
                                        counted(unused.size(), "tensor"), join(names, ", "),
                                        more == 0 ? "" : fmt::format(" and {} more", more)));
}

}  // namespace

bool open_weights(const std::string& path, const Manifest& manifest, WeightSource& source) {
  if (std::string fault = packing_fault(manifest); !fault.empty()) return fail(source, 1, std::move(fault));
  if (!open_files(path, source)) {
    if (source.status == 0) source.status = 2;
    return false;
  }
  StoredIndex stored;
  for (const WeightPlace& place : source.weights.tensors)
    stored[source.weights.headers[place.file].tensors[place.tensor].name].push_back(place);
  const size_t parameters = manifest.parameters.size(), tensors = parameters + manifest.buffers.size();
  std::vector<std::span<const uint32_t>> group_of(tensors);
  for (const std::vector<uint32_t>& group : manifest.tied) {
    for (const uint32_t member : group) group_of[member] = group;
  }
  source.tensors.resize(tensors);
  source.missing.resize(tensors);
  size_t missing_buffers = 0;
  for (size_t i = 0; i < tensors && source.faults.size() < kMaxFaults; ++i) {
    const std::string_view name = path_of(manifest, tensor_of(manifest, i));
    const std::vector<WeightPlace>* places = find_stored(stored, manifest, i, group_of[i]);
    if (places != nullptr) {
      place_tensor(*places, layout_of(manifest, tensor_of(manifest, i)), name, source, source.tensors[i]);
    } else if (i >= parameters) {
      source.missing[i] = true;
      ++missing_buffers;
    } else {
      fail(source, 1,
           fmt::format("parameter `{}` of the manifest is not in {}", escape_for_terminal(name),
                       escape_for_terminal(path)));
    }
  }
  if (missing_buffers != 0)
    source.warnings.push_back(fmt::format("the weights lack {} of the manifest, left out: models make such anew",
                                          counted(missing_buffers, "buffer")));
  warn_of_extra(stored, manifest, tensors, source);
  return source.faults.empty();
}

std::string changed_file(const WeightSource& source) {
  for (const SourceFileHandle& file : source.files) {
    struct stat now {};
    const bool same = fstat(*file.fd, &now) == 0 && now.st_size == file.identity.st_size &&
                      now.st_mtim.tv_sec == file.identity.st_mtim.tv_sec &&
                      now.st_mtim.tv_nsec == file.identity.st_mtim.tv_nsec;
    if (!same)
      return fmt::format("{} changed while it was read; load it again when nobody writes it",
                         escape_for_terminal(file.path));
  }
  return "";
}

void read_exactly(const SourceFileHandle& file, uint64_t offset, void* to, uint64_t bytes, std::string_view tensor) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = pread(*file.fd, static_cast<char*>(to) + done, std::min<uint64_t>(bytes - done, 1u << 30),
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw std::runtime_error(fmt::format("{}: cannot read `{}` at byte {}: {}", escape_for_terminal(file.path),
                                           escape_for_terminal(tensor), offset + done, std::strerror(errno)));
    if (got == 0) {
      struct stat now {};  // this read may begin behind the end
      const uint64_t end = fstat(*file.fd, &now) == 0 ? static_cast<uint64_t>(now.st_size) : offset + done;
      throw std::runtime_error(fmt::format("{}: truncated while it was read: `{}` goes to byte {}, the file ends at {}",
                                           escape_for_terminal(file.path), escape_for_terminal(tensor), offset + bytes,
                                           end));
    }
    done += static_cast<uint64_t>(got);
  }
}

}  // namespace tpplan
