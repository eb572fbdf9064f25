#include "weights/weight_files.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/path_status.h"
#include "base/read_file.h"
#include "base/string_index.h"
#include "text/json_reader.h"
#include "weights/weight_formats.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIndexErrors = 50;
constexpr size_t kMaxShards = 10000;

// One entry of a weight_map. Its texts point into the text of the index or the reader's strings.
struct Mapped {
  std::string_view name;
  uint32_t shard = 0;
  uint64_t offset = 0;
};

struct IndexReader {
  WeightFiles& files;
  bool has_map = false;
  std::vector<Mapped> map;
  std::vector<std::string_view> shards;
  std::vector<Span> shard_spans;  // of the first mention of each
  StringIndex shard_index;
  std::deque<std::string> strings;
};

bool fault(Diagnostics& diagnostics, Code code, Span span, std::string message, std::string help = {}) {
  report_message(diagnostics, code, span, std::move(message), std::move(help));
  return false;
}

// Checks that a name is plain, so that it cannot leave the directory (resolve_shard checks links), and has no zero
// byte, which would truncate the path.
bool check_shard_name(IndexReader& reader, const JsonNode& node) {
  const std::string_view name = node.text;
  const bool leaves = name.empty() || name == "." || name == ".." ||
                      name.find_first_of(std::string_view("/\\\0", 3)) != std::string_view::npos;
  return !leaves || fault(reader.files.diagnostics, Code::InvalidWeightIndex, value_span(reader.files.index.id, node),
                          fmt::format("`{}` is not a plain file name", name),
                          "name files in the folder of the index: model-00001-of-00002.safetensors");
}

// Numbers shards by their first mention in the map, which is the order in which they are opened.
void read_map(IndexReader& reader, const JsonTree& tree) {
  const JsonNode& map = tree.nodes[0];
  reader.has_map = true;
  if (map.kind != JsonKind::Object) {
    fault(reader.files.diagnostics, Code::InvalidWeightIndex, value_span(reader.files.index.id, map),
          fmt::format("`weight_map` is {}, not an object", json_kind_name(map.kind)));
    return;
  }
  const auto name_of = [&](uint32_t i) { return reader.shards[i]; };
  for (uint32_t i = 1; i < map.end; i = tree.nodes[i].end) {
    const JsonNode& node = tree.nodes[i];
    const Span span = value_span(reader.files.index.id, node);
    if (node.kind != JsonKind::String) {
      fault(reader.files.diagnostics, Code::InvalidWeightIndex, span,
            fmt::format("the file of `{}` is {}, not a string", node.key, json_kind_name(node.kind)));
      return;
    }
    uint32_t shard = find(reader.shard_index, node.text, name_of);
    if (shard == kNotFound) {
      if (!check_shard_name(reader, node)) return;
      if (reader.shards.size() == kMaxShards) {
        fault(reader.files.diagnostics, Code::NestingTooDeep, span,
              fmt::format("the index names more than {} shards", kMaxShards));
        return;
      }
      shard = static_cast<uint32_t>(reader.shards.size());
      reader.shards.push_back(node.text);
      reader.shard_spans.push_back(span);
      insert(reader.shard_index, node.text, shard, name_of);
    }
    reader.map.push_back({node.key, shard, node.key_offset});
  }
}

// Returns the path of a shard with links resolved; empty after reporting an error.
std::string resolve_shard(IndexReader& reader, const fs::path& folder, std::string_view name, Span span) {
  std::error_code error;
  const fs::path home = fs::canonical(folder, error);
  const fs::path file = error ? fs::path{} : fs::canonical(home / name, error);
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  if (error) {
    if (is_absence_error(error.value())) {
      Diagnostics& diagnostics = reader.files.diagnostics;
      Diagnostic* d = report(diagnostics, Code::IndexMismatch, span, "missing shards");
      if (d == nullptr) {
        constexpr size_t kNamed = 4;
        const auto first = std::ranges::find(diagnostics.list, Code::IndexMismatch, &Diagnostic::code);
        if (first->notes.size() < kNamed) first->notes.push_back({fmt::format("`{}` is missing, too", name), span});
        return {};
      }
      d->message = fmt::format("shard `{}` is missing: {}", name, error.message());
      d->help = "put all shards next to the index";
      d->counted = "shard";
    } else {
      fault(reader.files.diagnostics, Code::FileUnreadable, span,
            fmt::format("cannot look for shard `{}`: {}", name, error.message()));
    }
    return {};
  }
  // The cache of huggingface_hub: snapshots/COMMIT holds links to ../../blobs.
  const bool cached =
      home.parent_path().filename() == "snapshots" && is_within(file, home.parent_path().parent_path() / "blobs");
  if (is_within(file, home) || cached) return file.string();
  fault(reader.files.diagnostics, Code::InvalidWeightIndex, span,
        fmt::format("shard `{}` is a link that leads outside the folder of the index", name),
        "put the file itself there");
  return {};
}

// Checks that each name is in the shard that the index states, and in no other. Names are hashed and all headers are
// scanned once: linear in the number of tensors.
void join_tensors(IndexReader& reader) {
  WeightFiles& files = reader.files;
  std::vector<uint32_t> at(reader.map.size(), kNotFound);
  StringIndex index;
  const auto name_of = [&](uint32_t i) { return reader.map[i].name; };
  for (uint32_t i = 0; i < reader.map.size(); ++i) insert(index, reader.map[i].name, i, name_of);
  std::vector<uint32_t> stray(files.headers.size(), kNotFound);  // by shard: the first tensor that the index lacks
  std::vector<uint32_t> strays(files.headers.size());
  const auto too_many_errors = [&] { return reader.files.diagnostics.list.size() >= kMaxIndexErrors; };
  for (uint32_t f = 0; f < files.headers.size() && !too_many_errors(); ++f) {
    const WeightsHeader& header = files.headers[f];
    for (uint32_t t = 0; t < header.tensors.size() && !too_many_errors(); ++t) {
      const uint32_t i = find(index, header.tensors[t].name, name_of);
      if (i == kNotFound) {
        if (stray[f] == kNotFound) stray[f] = t;
        ++strays[f];
      } else if (reader.map[i].shard == f) {
        at[i] = t;
      } else {
        fault(reader.files.diagnostics, Code::IndexMismatch,
              {reader.files.index.id, reader.map[i].offset, static_cast<uint32_t>(reader.map[i].name.size() + 2)},
              fmt::format("tensor `{}` is in `{}`, but the index names `{}`", reader.map[i].name, reader.shards[f],
                          reader.shards[reader.map[i].shard]));
      }
    }
  }
  for (uint32_t i = 0; i < reader.map.size() && !too_many_errors(); ++i) {
    const Mapped& mapped = reader.map[i];
    if (at[i] != kNotFound)
      files.tensors.push_back({mapped.shard, at[i]});
    else
      fault(reader.files.diagnostics, Code::IndexMismatch,
            {reader.files.index.id, mapped.offset, static_cast<uint32_t>(mapped.name.size() + 2)},
            fmt::format("tensor `{}` is not in `{}`", mapped.name, reader.shards[mapped.shard]),
            "give an index and shards of the same checkpoint");
  }
  for (uint32_t f = 0; f < files.headers.size(); ++f) {
    if (strays[f] == 0) continue;
    Diagnostic& d = report_message(reader.files.diagnostics, Code::UnindexedTensors, reader.shard_spans[f],
                                   fmt::format("`{}` holds `{}`, which the index does not name: it is skipped",
                                               reader.shards[f], files.headers[f].tensors[stray[f]].name));
    d.count = strays[f];
    d.counted = "tensor";
  }
}

bool read_index_map(IndexReader& reader) {
  const JsonVisitor visitor{
      .member = [](std::string_view key, Span) { return key == "weight_map" ? JsonField::Whole : JsonField::Skip; },
      .value =
          [&](std::string_view, const JsonTree& tree) {
            read_map(reader, tree);
            return true;
          },
      .kind_help = "write an index of weights: {\"weight_map\": {TENSOR: FILE, ...}}"};
  if (!read_json(reader.files.index, visitor, reader.strings, reader.files.diagnostics)) return false;
  if (has_errors(reader.files.diagnostics)) return false;
  if (!reader.has_map)
    return fault(reader.files.diagnostics, Code::InvalidWeightIndex, {reader.files.index.id, 0, 1},
                 "the index has no `weight_map`", "give the model.safetensors.index.json of a checkpoint");
  return !reader.map.empty() || fault(reader.files.diagnostics, Code::InvalidWeightIndex, {reader.files.index.id, 0, 1},
                                      "the `weight_map` names no tensors");
}

// Resolves all names before it opens the first shard, so that one run reports every missing shard.
bool read_index(const std::string& path, WeightFiles& files, AfterHeader after) {
  IndexReader reader{.files = files};
  ReadResult result = read_file(path, kMaxIndexBytes);
  files.index = std::move(result.file);
  files.index.id = ++files.last_id;
  if (result.fault == ReadError::TooLarge)
    return fault(reader.files.diagnostics, Code::FileTooLarge, {reader.files.index.id, 0, 0},
                 "the index is larger than 32 MiB");
  if (result.fault != ReadError::None)
    return fault(reader.files.diagnostics, Code::FileUnreadable, {reader.files.index.id, 0, 0},
                 fmt::format("cannot read the file: {}", result.reason));
  if (!read_index_map(reader)) return false;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  std::vector<std::string> resolved;
  for (size_t i = 0; i < reader.shards.size(); ++i)
    resolved.push_back(resolve_shard(reader, folder, reader.shards[i], reader.shard_spans[i]));
  if (has_errors(reader.files.diagnostics)) return false;
  for (size_t i = 0; i < resolved.size(); ++i) {
    const fs::path name = folder == "." ? fs::path(reader.shards[i]) : folder / reader.shards[i];
    if (!add_weight_file(files, resolved[i], name.string(), after)) return false;
  }
  join_tensors(reader);
  return !has_errors(reader.files.diagnostics);
}

bool read_one(const std::string& path, WeightFiles& files, AfterHeader after) {
  if (!add_weight_file(files, path, path, after)) return false;
  for (uint32_t t = 0; t < files.headers.front().tensors.size(); ++t) files.tensors.push_back({0, t});
  return true;
}

}  // namespace

// All headers share the budget `left`, because there can be thousands, each as long as the format permits.
bool add_weight_file(WeightFiles& files, const std::string& path, const std::string& name, AfterHeader after) {
  InputFile& file = files.files.emplace_back();
  WeightsHeader& header = files.headers.emplace_back();
  Diagnostics& diagnostics = files.diagnostics;
  header.source.id = ++files.last_id;
  file.name = header.source.name = name == "-" ? "<stdin>" : name;
  const Span start{header.source.id, 0, 1};
  if (path == "-")
    return fault(diagnostics, Code::FileUnreadable, start,
                 "weights cannot be read from standard input: their size is unknown", "name a file");
  const std::string reason = open_input(path, file);
  if (!reason.empty())
    return fault(
        diagnostics, Code::FileUnreadable, start, fmt::format("cannot read the file: {}", reason),
        name.find("://") == std::string::npos
            ? ""
            : "copy the files here first, or mount them (mountpoint-s3, rclone): nothing is read over a network");
  if (!weight_format_of(name).read_header(file, header, diagnostics, files.left)) return false;
  files.left -= header.source.text.size();
  if (after == AfterHeader::Close) file.fd.reset();
  return true;
}

std::vector<const SourceFile*> source_files_of(const WeightFiles& files) {
  std::vector<const SourceFile*> texts{&files.index};
  for (const WeightsHeader& header : files.headers) texts.push_back(&header.source);
  return texts;
}

bool read_weight_files(const std::string& path, WeightFiles& files, AfterHeader after) {
  return path.ends_with(".json") ? read_index(path, files, after) : read_one(path, files, after);
}

}  // namespace tpplan
