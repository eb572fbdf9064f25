#include "shards/open_weights.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "base/text.h"
#include "sharding/tensor_size.h"
#include "shards/shard_store.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFindings = 100;
constexpr size_t kNamed = 3;  // extra tensors that a warning names

using StoredIndex = std::unordered_map<std::string_view, std::vector<WeightPlace>>;

// Notes a finding; false, as what could not be done.
bool note(WeightSource& source, Code code, std::string place, std::string message, std::string help = {}) {
  source.findings.push_back(
      {.code = code, .message = std::move(message), .help = std::move(help), .place = std::move(place)});
  return false;
}

bool has_errors(const WeightSource& source) {
  return std::ranges::any_of(source.findings, [](const Fault& fault) { return exit_status(fault) != 0; });
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
  if (error) return note(source, Code::TP8020, folder, fmt::format("cannot read the folder: {}", error.message()));
  std::ranges::sort(shards);
  std::ranges::sort(indexes);
  if (indexes.size() > 1)
    return note(source, Code::TP8020, folder,
                fmt::format("the folder holds {} indexes, among them {} and {}", indexes.size(),
                            escape_for_terminal(indexes[0]), escape_for_terminal(indexes[1])),
                "name one of them");
  if (indexes.size() == 1)
    path = (fs::path(folder) / indexes[0]).string();
  else if (shards.size() == 1)
    path = (fs::path(folder) / shards[0]).string();
  else if (shards.empty())
    return note(source, Code::TP8020, folder, "the folder holds no safetensors file and no index",
                "give a folder that `tpplan-exec save` or torch wrote, or one with model.safetensors");
  return true;
}

bool open_file(const std::string& path, const SafetensorsHeader& header, WeightSource& source) {
  SourceFileHandle& file = source.files.emplace_back();
  file.path = header.source.name;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return note(source, Code::TP1001, file.path, fmt::format("cannot read the file: {}", std::strerror(errno)));
  file.fd = std::shared_ptr<int>(new int(fd), [](int* open_fd) {
    close(*open_fd);
    delete open_fd;
  });
  if (fstat(fd, &file.identity) != 0) return note(source, Code::TP1001, file.path, std::strerror(errno));
  // What is open now must be what the header was read from.
  std::string again(header.source.text.size(), '\0');
  const uint64_t start = header.data_begin - again.size();
  const bool same =
      static_cast<uint64_t>(file.identity.st_size) == header.file_bytes && S_ISREG(file.identity.st_mode) &&
      pread(fd, again.data(), again.size(), static_cast<off_t>(start)) == static_cast<ssize_t>(again.size()) &&
      again == header.source.text;
  return same || note(source, Code::TP8028, file.path, "the file changed while it was opened");
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
    if (!read_shard_headers(path, shards, source.weights, source.offsets)) return false;
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
    const std::string& in_file = header.source.name;
    if (stored.dtype != layout.dtype)
      return note(source, Code::TP8023, in_file,
                  fmt::format("{} is {} there and {} in the manifest: nothing is cast", called,
                              dtypes()[stored.dtype].safetensors, dtypes()[layout.dtype].name));
    std::vector<uint64_t> begin(wanted.size());
    if (source.is_folder_of_shards) {
      const auto saved = source.offsets[place.file].find(std::string(stored.name));
      if (saved == source.offsets[place.file].end() || saved->second.size() != begin.size())
        return note(
            source, Code::TP8023, in_file,
            fmt::format("{} has no saved_offsets of {} in {}", called, counted(begin.size(), "dim"), kShardingInfoKey));
      begin = saved->second;
    }
    bool fits = shape.size() == wanted.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      uint64_t end = 0;
      fits = !__builtin_add_overflow(begin[d], shape[d], &end) &&
             (source.is_folder_of_shards ? end <= wanted[d] : end == wanted[d]);
    }
    if (!fits)
      return note(
          source, Code::TP8023, in_file,
          fmt::format("{} has shape {}{} there and {} in the manifest", called, shape_text(shape),
                      source.is_folder_of_shards ? fmt::format(" at {}", shape_text(begin)) : "", shape_text(wanted)),
          "these are another model's weights, or the manifest is another model's");
    std::vector<std::vector<Interval>> runs;
    for (size_t d = 0; d < shape.size(); ++d)
      runs.push_back({{static_cast<int64_t>(begin[d]), static_cast<int64_t>(begin[d] + shape[d])}});
    const std::vector<HeldBox> held = held_boxes(layout.shape, layout.dtype, runs);
    if (held.empty()) continue;
    boxes.push_back(held[0].box);
    tensor.pieces.push_back({place.file, header.data_begin + stored.begin, held[0].box});
  }
  const std::string gap = tiling_fault(sizes, boxes);
  return gap.empty() || note(source, Code::TP8024, fs::path(first.source.name).parent_path().string(),
                             fmt::format("{}: the folder's pieces do not make it up: {}", called, gap),
                             "copy the folder again, or save it again");
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

void warn_of_extra(const StoredIndex& stored, const Manifest& manifest, size_t tensors, const std::string& path,
                   WeightSource& source) {
  StoredIndex unused = stored;
  for (size_t i = 0; i < tensors; ++i) unused.erase(path_of(manifest, tensor_of(manifest, i)));
  if (unused.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, places] : unused) names.push_back(escape_for_terminal(name));
  std::ranges::sort(names);
  const size_t more = names.size() - std::min(names.size(), kNamed);
  names.resize(names.size() - more);
  note(source, Code::TP8026, path,
       fmt::format("the weights hold {} that the manifest lacks, left unread: {}{}", counted(unused.size(), "tensor"),
                   join(names, ", "), more == 0 ? "" : fmt::format(" and {} more", more)));
}

}  // namespace

bool open_weights(const std::string& path, const Manifest& manifest, WeightSource& source) {
  try {
    check_packing(manifest);
    if (!open_files(path, source)) return false;
  } catch (const Fault& fault) {
    source.findings.push_back(fault);
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
  for (size_t i = 0; i < tensors && source.findings.size() < kMaxFindings; ++i) {
    const std::string_view name = path_of(manifest, tensor_of(manifest, i));
    const std::vector<WeightPlace>* places = find_stored(stored, manifest, i, group_of[i]);
    if (places != nullptr) {
      place_tensor(*places, layout_of(manifest, tensor_of(manifest, i)), name, source, source.tensors[i]);
    } else if (i >= parameters) {
      source.missing[i] = true;
      ++missing_buffers;
    } else {
      note(source, Code::TP8022, path,
           fmt::format("parameter `{}` of the manifest is not in the weights", escape_for_terminal(name)));
    }
  }
  if (missing_buffers != 0)
    note(source, Code::TP8025, path,
         fmt::format("the weights lack {} of the manifest, left out: models make such anew",
                     counted(missing_buffers, "buffer")));
  warn_of_extra(stored, manifest, tensors, path, source);
  return !has_errors(source);
}

void check_unchanged(const WeightSource& source) {
  for (const SourceFileHandle& file : source.files) {
    struct stat now {};
    const bool same = fstat(*file.fd, &now) == 0 && now.st_size == file.identity.st_size &&
                      now.st_mtim.tv_sec == file.identity.st_mtim.tv_sec &&
                      now.st_mtim.tv_nsec == file.identity.st_mtim.tv_nsec;
    if (same) continue;
    throw Fault{.code = Code::TP8028,
                .message = "it changed while it was read",
                .help = "read it again when nobody writes it",
                .place = file.path};
  }
}

void read_exactly(const SourceFileHandle& file, uint64_t offset, void* to, uint64_t bytes, std::string_view tensor) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = pread(*file.fd, static_cast<char*>(to) + done, std::min<uint64_t>(bytes - done, 1u << 30),
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Fault{.code = Code::TP8029,
                  .message = fmt::format("cannot read `{}` at byte {}: {}", escape_for_terminal(tensor), offset + done,
                                         std::strerror(errno)),
                  .place = file.path};
    if (got == 0) {
      struct stat now {};  // this read may begin behind the end
      const uint64_t end = fstat(*file.fd, &now) == 0 ? static_cast<uint64_t>(now.st_size) : offset + done;
      throw Fault{.code = Code::TP8028,
                  .message = fmt::format("truncated while it was read: `{}` goes to byte {}, the file ends at {}",
                                         escape_for_terminal(tensor), offset + bytes, end),
                  .help = "copy it again",
                  .place = file.path};
    }
    done += static_cast<uint64_t>(got);
  }
}

}  // namespace tpplan
