#include "exec/shards/save_shards.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/crc32c.h"
#include "exec/shards/byte_boxes.h"
#include "exec/shards/expert_names.h"
#include "exec/shards/new_folder.h"
#include "exec/shards/shard_files.h"
#include "exec/shards/shard_folder.h"
#include "exec/shards/stacked_experts.h"
#include "exec/shards/write_safetensors.h"
#include "sharding/tensor_size.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

// A box of a shard to be written into a file.
struct Part {
  const Shard* shard = nullptr;
  HeldBox held;
};

// Copies the box of `to`, which is within the part, in blocks through host memory. Calls put(offset, bytes, count) for
// each range that is contiguous in `to`.
template <typename Put>
void copy_out(const ShardStore& store, const Part& part, const HeldBox& to, uint64_t staging, Put put) {
  std::vector<char> block;
  for_each_contiguous_range(part.held, to, to.box, [&](uint64_t from, uint64_t where, uint64_t bytes) {
    const char* data = static_cast<const char*>(part.shard->data) + from;
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t count = store.device->is_host_memory ? bytes : std::min(bytes - done, staging);
      put(where + done, host_view(*store.device, data + done, count, block), count);
      done += count;
    }
    return true;
  });
}

// Combines adjacent ranges of a file into one write.
struct RunWriter {
  const OutputFile& file;
  uint64_t offset = 0;
  std::vector<char> bytes;
};

void flush(RunWriter& writer) {
  write_at(writer.file, writer.bytes.data(), writer.bytes.size(), writer.offset);
  writer.offset += writer.bytes.size();
  writer.bytes.clear();
}

void write_run(RunWriter& writer, const void* data, uint64_t count, uint64_t offset, uint64_t limit) {
  if (offset != writer.offset + writer.bytes.size()) {
    flush(writer);
    writer.offset = offset;
  }
  if (writer.bytes.size() + count > limit) flush(writer);
  if (count >= limit) {
    write_at(writer.file, data, count, offset);
    writer.offset = offset + count;
    return;
  }
  const char* begin = static_cast<const char*>(data);
  writer.bytes.insert(writer.bytes.end(), begin, begin + count);
}

uint64_t write_shard_file(const ShardStore& store, ShardFile& shard_file, const std::string& folder, uint64_t staging) {
  const OutputFile file = create_file((std::filesystem::path(folder) / shard_file.name).string());
  RunWriter writer{.file = file, .offset = shard_file.head.size()};
  for (size_t p = 0; p < shard_file.pieces.size(); ++p) {
    const FileBox& piece = shard_file.pieces[p];
    uint32_t sum = 0;  // checksum of the bytes so far, which arrive in file order
    copy_out(store, {&store.shards[piece.shard], piece.held}, packed(piece.held.box), staging,
             [&](uint64_t where, const void* data, uint64_t count) {
               sum = crc32c_part(data, count, sum);
               write_run(writer, data, count, piece.offset + where, staging);
             });
    write_checksum(shard_file, p, finish_crc32c(sum, elements_in(piece.held.box)));
  }
  flush(writer);
  write_at(file, shard_file.head.data(), shard_file.head.size(), 0);
  sync_file(file);
  return writer.offset;
}

// Full tensors to write, the same on every rank.
struct FullTensors {
  std::vector<WriteEntry> entries;
  std::deque<std::string> names;  // of matrices of experts
};

void add_tensor(FullTensors& tensors, std::string_view name, DType dtype, std::vector<int64_t> shape, size_t source,
                std::vector<uint64_t> begin) {
  tensors.entries.push_back({.name = name,
                             .dtype = dtype,
                             .shape = {shape.begin(), shape.end()},
                             .bytes = bytes_of(dtype, shape),
                             .saved_offsets = std::move(begin),
                             .source = source});
}

// Adds the matrices of the experts that the tensor stacks. Their `saved_offsets` is their first element in it.
void add_experts(FullTensors& tensors, const ExpertRow& row, const Shard& shard, size_t source) {
  const std::vector<int64_t>& shape = shard.layout->shape;
  const int64_t rows = shape[1] / (row.parts[1].empty() ? 1 : 2);
  for (int64_t expert = 0; expert < shape[0]; ++expert) {
    for (size_t part = 0; part < row.parts.size() && !row.parts[part].empty(); ++part) {
      const std::string& name =
          tensors.names.emplace_back(expert_name(shard.path, static_cast<uint64_t>(expert), row.parts[part]));
      const auto first_row = static_cast<uint64_t>(rows) * part;
      add_tensor(tensors, name, shard.layout->dtype, {rows, shape[2]}, source,
                 {static_cast<uint64_t>(expert), first_row, 0});
    }
  }
}

FullTensors list_full_tensors(const ShardStore& store, const SaveOptions& options) {
  FullTensors tensors;
  const std::vector<const ExpertRow*> experts = stacked_experts(store, options.expert_naming);
  for (size_t i = 0; i < store.shards.size(); ++i) {
    if (i < options.omitted.size() && options.omitted[i]) continue;
    const ParamLayout& layout = *store.shards[i].layout;
    if (experts[i] != nullptr)
      add_experts(tensors, *experts[i], store.shards[i], i);
    else
      add_tensor(tensors, store.shards[i].path, layout.dtype, layout.shape, i, {});
  }
  return tensors;
}

// A file of full tensors.
struct ConsolidatedFile {
  std::string name, head;
  std::vector<WriteEntry> entries;
};

ConsolidatedFile lay_out_consolidated(std::vector<WriteEntry> entries) {
  ConsolidatedFile file{.name = {}, .head = {}, .entries = std::move(entries)};
  file.head = lay_out_entries(file.entries, false);
  return file;
}

void write_head(const OutputFile& file, const ConsolidatedFile& whole) {
  write_at(file, whole.head.data(), whole.head.size(), 0);
}

// Returns the part of a held box that belongs to the entry, and its place there: the entry is the full tensor, or the
// matrix of one expert of it.
HeldBox place_in_entry(const WriteEntry& entry, const Shard& shard, const Box& held) {
  const std::vector<uint64_t> sizes = byte_sizes(shard.layout->shape, shard.layout->dtype);
  if (entry.saved_offsets.empty()) return within(held, sizes);
  const std::vector<uint64_t>& begin = entry.saved_offsets;
  const Box matrix{begin, {begin[0] + 1, begin[1] + entry.shape[0], sizes[2]}};
  HeldBox place{.box = intersection(held, matrix), .at = {}, .sizes = {1, entry.shape[0], sizes[2]}};
  for (size_t dim = 0; dim < begin.size(); ++dim)
    place.at.push_back(is_empty(place.box) ? 0 : place.box.begin[dim] - begin[dim]);
  return place;
}

// Writes the elements of the file's tensors of which this rank is the first holder. Returns their bytes.
uint64_t write_local_part(const ShardStore& store, const ConsolidatedFile& whole, const std::string& path,
                          uint64_t staging) {
  const OutputFile file = open_for_writing(path);
  RunWriter writer{.file = file};
  uint64_t bytes = 0;
  for (const WriteEntry& entry : whole.entries) {
    const Shard& shard = store.shards[entry.source];
    for (const HeldBox& held : written_boxes(store, shard)) {
      const HeldBox to = place_in_entry(entry, shard, held.box);
      copy_out(store, {&shard, held}, to, staging, [&](uint64_t where, const void* data, uint64_t count) {
        write_run(writer, data, count, entry.offset + where, staging);
      });
      bytes += elements_in(to.box);
    }
  }
  flush(writer);
  sync_file(file);
  return bytes;
}

std::vector<ConsolidatedFile> list_consolidated_files(const FullTensors& tensors, const SaveOptions& options) {
  std::vector<std::vector<WriteEntry>> parts(1);
  uint64_t bytes = 0;
  for (const WriteEntry& entry : tensors.entries) {
    if (!parts.back().empty() && entry.bytes > options.max_file_bytes - std::min(bytes, options.max_file_bytes)) {
      parts.emplace_back();
      bytes = 0;
    }
    bytes += entry.bytes;
    parts.back().push_back(entry);
  }
  std::vector<ConsolidatedFile> files;
  for (std::vector<WriteEntry>& part : parts) {
    files.push_back(lay_out_consolidated(std::move(part)));
    files.back().name = fmt::format("model-{:05}-of-{:05}.safetensors", files.size(), parts.size());
  }
  return files;
}

std::string index_text(const std::vector<ConsolidatedFile>& files) {
  uint64_t bytes = 0;
  std::map<std::string_view, std::string_view> file_of;
  for (const ConsolidatedFile& file : files) {
    for (const WriteEntry& entry : file.entries) {
      bytes += entry.bytes;
      file_of[entry.name] = file.name;
    }
  }
  JsonWriter json;
  begin_object(json);
  next_line(json, 2);
  write_key(json, "metadata");
  begin_object(json);
  write_field(json, "total_size", bytes);
  end_object(json);
  next_line(json, 2);
  write_key(json, "weight_map");
  begin_object(json);
  for (const auto& [name, file] : file_of) {
    next_line(json, 4);
    write_field(json, name, file);
  }
  next_line(json, 2);
  end_object(json);
  next_line(json, 0);
  end_object(json);
  return json.out + '\n';
}

// Writes one safetensors file with full tensors. All ranks call it; each writes the elements of which it is the first
// holder. Replaces a file at options.path after all ranks have succeeded. Returns the bytes that this rank wrote.
uint64_t save_consolidated(Comm& comm, const ShardStore& store, const SaveOptions& options) {
  uint64_t bytes = 0;
  const FullTensors tensors = list_full_tensors(store, options);
  const ConsolidatedFile file = lay_out_consolidated(tensors.entries);
  FolderSteps steps;
  steps.prepare = [&](const std::string& path) { write_head(open_for_writing(path), file); };
  steps.write = [&](const std::string& path) { bytes = write_local_part(store, file, path, options.staging); };
  write_file_together(comm, options.path, steps);
  return bytes;
}

// Writes full tensors as several files and an index in a new folder, with Hugging Face's names:
// model-00001-of-00002.safetensors, model.safetensors.index.json. All ranks call it. Tensors are in the order of the
// manifest. A file has at most `max_file_bytes` of tensors, or one larger tensor. Returns the bytes that this rank
// wrote.
uint64_t save_indexed(Comm& comm, const ShardStore& store, const SaveOptions& options) {
  uint64_t bytes = 0;
  const FullTensors tensors = list_full_tensors(store, options);
  const std::vector<ConsolidatedFile> files = list_consolidated_files(tensors, options);
  const auto path_of_file = [](const std::string& folder, const std::string& name) {
    return (std::filesystem::path(folder) / name).string();
  };
  FolderSteps steps;
  steps.prepare = [&](const std::string& folder) {
    for (const ConsolidatedFile& file : files) write_head(create_file(path_of_file(folder, file.name)), file);
    const OutputFile index = create_file(path_of_file(folder, "model.safetensors.index.json"));
    const std::string text = index_text(files);
    write_at(index, text.data(), text.size(), 0);
    sync_file(index);
  };
  steps.write = [&](const std::string& folder) {
    for (const ConsolidatedFile& file : files)
      bytes += write_local_part(store, file, path_of_file(folder, file.name), options.staging);
  };
  write_folder(comm, options.path, steps);
  return bytes;
}

}  // namespace

uint64_t write_rank_files(const ShardStore& store, const std::string& folder, const std::vector<bool>& omitted,
                          uint64_t staging) {
  uint64_t bytes = 0;
  for (ShardFile& file : list_shard_files(store, omitted)) bytes += write_shard_file(store, file, folder, staging);
  return bytes;
}

uint64_t save_shards(Comm& comm, const ShardStore& store, const SaveOptions& options) {
  uint64_t bytes = 0;
  FolderSteps steps;
  steps.write = [&](const std::string& folder) {
    bytes += write_rank_files(store, folder, options.omitted, options.staging);
  };
  steps.finish = [&](const std::string& folder) { write_note(folder, options.shardings_sha256, store.manifest->mesh); };
  write_folder(comm, options.path, steps);
  return bytes;
}

uint64_t save_unsharded(Comm& comm, const ShardStore& store, const SaveOptions& options) {
  return options.max_file_bytes == 0 ? save_consolidated(comm, store, options) : save_indexed(comm, store, options);
}

}  // namespace tpplan
