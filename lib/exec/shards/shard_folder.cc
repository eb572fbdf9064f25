#include "exec/shards/shard_folder.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "base/long_calls.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/write_file.h"
#include "diagnostics/fault.h"
#include "manifest/manifest_json.h"
#include "text/json_reader.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

constexpr std::string_view kNoteFormat = "tpplan.shards/1";
constexpr uint64_t kMaxNoteBytes = uint64_t{64} << 10;

Fault unusable_shards(std::string message, const std::string& place, std::string help = {}) {
  return {.code = Code::InvalidShardFolder, .message = std::move(message), .help = std::move(help), .place = place};
}

std::string first_diagnostic(const Diagnostics& diagnostics) {
  return diagnostics.list.empty() ? "invalid content" : diagnostics.list.front().message;
}

// Parses {"NAME": {"saved_offsets": [0, 16]}}. Returns the error; empty on success.
std::string read_offsets(std::string_view text, SavedOffsets& offsets) {
  const SourceFile file{.name = std::string(kShardingInfoKey), .text = std::string(text)};
  std::deque<std::string> strings;
  Diagnostics diagnostics;
  std::string fault;
  const auto read_one = [&](std::string_view key, const JsonTree& tree) {
    const uint32_t at = tree.nodes[0].kind == JsonKind::Object ? find_json_field(tree, 0, "saved_offsets") : 0;
    if (at == 0 || tree.nodes[at].kind != JsonKind::Array) {
      fault = fmt::format("`{}` has no saved_offsets", escape_for_terminal(key));
      return false;
    }
    std::vector<uint64_t>& begin = offsets[std::string(key)];
    for (uint32_t i = at + 1; i < tree.nodes[at].end; i = tree.nodes[i].end) {
      if (tree.nodes[i].kind != JsonKind::Integer || tree.nodes[i].integer < 0) {
        fault = fmt::format("an offset of `{}` is not an integer of at least 0", escape_for_terminal(key));
        return false;
      }
      begin.push_back(static_cast<uint64_t>(tree.nodes[i].integer));
    }
    return true;
  };
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonField::Whole; }, .value = read_one};
  const bool read = read_json(file, visitor, strings, diagnostics);
  if (fault.empty() && (!read || has_errors(diagnostics))) fault = first_diagnostic(diagnostics);
  return fault;
}

}  // namespace

std::string shard_path(const std::string& folder, const std::string& name) {
  namespace fs = std::filesystem;
  const std::string path = (fs::path(folder) / name).string();
  std::error_code error;
  begin_call("a path lookup", path);
  const bool is_link = fs::is_symlink(path, error);
  const fs::path home = is_link ? fs::canonical(folder, error) : fs::path();
  const fs::path target = is_link && !error ? fs::canonical(path, error) : fs::path();
  end_call();
  if (!is_link) return path;
  if (error)
    throw unusable_shards(fmt::format("the symbolic link is broken: {}", error.message()), path,
                          "replace the link with the file");
  if (target.parent_path() != home)
    throw unusable_shards("the symbolic link points outside its folder", path, "replace the link with the file");
  return target.string();
}

bool read_shard_headers(const std::string& folder, std::span<const std::string> names, WeightFiles& files,
                        std::vector<SavedOffsets>& offsets) {
  namespace fs = std::filesystem;
  if (names.size() > kMaxShardFiles)
    throw unusable_shards(fmt::format("the folder has {} files, more than {}", names.size(), kMaxShardFiles), folder);
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    if (!add_weight_file(files, shard_path(folder, name), path, AfterHeader::StayOpen)) return false;
    const WeightsHeader& header = files.headers.back();
    const auto info =
        std::ranges::find(header.metadata, kShardingInfoKey, [](const auto& entry) { return entry.first; });
    if (info == header.metadata.end())
      throw unusable_shards(fmt::format("the folder has {} files, but this one does not list its shards ({})",
                                        names.size(), kShardingInfoKey),
                            path, "pass the index of the checkpoint");
    const std::string unread = read_offsets(info->second, offsets.emplace_back());
    if (!unread.empty()) throw unusable_shards(fmt::format("cannot parse its {}: {}", kShardingInfoKey, unread), path);
    const uint32_t index = static_cast<uint32_t>(files.headers.size() - 1);
    for (uint32_t t = 0; t < header.tensors.size(); ++t) files.tensors.push_back({index, t});
  }
  return true;
}

std::string shard_file_name(int rank, size_t part, size_t parts) {
  return fmt::format("shard-{:05}-model-{:05}-of-{:05}.safetensors", rank + 1, part + 1, parts);
}

void write_note(const std::string& folder, std::string_view shardings_sha256, const Mesh& mesh) {
  JsonWriter json;
  begin_object(json);
  write_field(json, "format", kNoteFormat);
  next_line(json, 1);
  write_field(json, "shardings_sha256", shardings_sha256);
  next_line(json, 1);
  write_key(json, "mesh");
  write_mesh(json, mesh);
  end_object(json);
  json.out += '\n';
  const std::string path = (std::filesystem::path(folder) / kFolderNote).string();
  const std::string fault = write_output(path, [&](const Sink& sink) { return sink(json.out); });
  if (!fault.empty()) throw Fault{.code = Code::OutputNotWritten, .message = fault, .place = path};
}

std::string read_note(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / kFolderNote).string();
  std::error_code error;
  if (!make_registered_call("stat", path, kNoOffset, [&] { return std::filesystem::exists(path, error); })) return "";
  const ReadResult result = read_file(path, kMaxNoteBytes);
  if (result.fault != ReadError::None)
    throw unusable_shards(fmt::format("cannot read the file: {}", result.reason), path);
  std::deque<std::string> strings;
  Diagnostics diagnostics;
  std::string format, shardings_sha256;
  const auto read_one = [&](std::string_view key, const JsonTree& tree) {
    if (tree.nodes[0].kind != JsonKind::String) return true;
    if (key == "format") format = tree.nodes[0].text;
    if (key == "shardings_sha256") shardings_sha256 = tree.nodes[0].text;
    return true;
  };
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonField::Whole; }, .value = read_one};
  if (!read_json(result.file, visitor, strings, diagnostics))
    throw unusable_shards(first_diagnostic(diagnostics), path);
  if (format != kNoteFormat || shardings_sha256.size() != 64)
    throw unusable_shards(fmt::format("the file does not have the format {}", kNoteFormat), path);
  return shardings_sha256;
}

}  // namespace tpplan
