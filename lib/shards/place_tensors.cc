#include "shards/place_tensors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>
#include <filesystem>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "sharding/tensor_size.h"
#include "shards/byte_boxes.h"
#include "shards/shard_store.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFindings = 100;
constexpr size_t kNamed = 3;  // extra tensors that a warning names

using StoredIndex = TextMap<std::string_view, std::vector<WeightPlace>>;

// Notes a finding; false, as what could not be done.
bool note(WeightSource& source, Code code, std::string place, std::string message, std::string help = {}) {
  source.findings.push_back(
      {.code = code, .message = std::move(message), .help = std::move(help), .place = std::move(place)});
  return false;
}

bool has_errors(const WeightSource& source) {
  return std::ranges::any_of(source.findings, [](const Fault& fault) { return exit_status(fault) != 0; });
}

// A tensor of the manifest on its way to its place.
struct Wanted {
  const ParamLayout& layout;
  std::vector<uint64_t> sizes;  // of its shape, without a sign
  std::string called;           // "`w` (stored as `v`)"
};

// Where a stored piece begins in its tensor: at 0 of every dim, but for folders of shards, whose files say it.
bool find_begin(const WeightPlace& place, const Wanted& wanted, WeightSource& source, std::vector<uint64_t>& begin) {
  begin.assign(wanted.sizes.size(), 0);
  if (!source.is_folder_of_shards) return true;
  const WeightsHeader& header = source.weights.headers[place.file];
  const auto saved = source.offsets[place.file].find(std::string(header.tensors[place.tensor].name));
  if (saved == source.offsets[place.file].end() || saved->second.size() != begin.size())
    return note(source, Code::TP8023, header.source.name,
                fmt::format("{} has no saved_offsets of {} in {}", wanted.called, counted(begin.size(), "dim"),
                            kShardingInfoKey));
  begin = saved->second;
  return true;
}

// A whole tensor has the manifest's shape; a piece ends inside of it. Offsets come from a file: their sums may
// overflow.
bool fits(std::span<const uint64_t> begin, std::span<const uint64_t> shape, std::span<const uint64_t> sizes,
          bool is_piece) {
  if (shape.size() != sizes.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    uint64_t end = 0;
    if (__builtin_add_overflow(begin[d], shape[d], &end)) return false;
    if (is_piece ? end > sizes[d] : end != sizes[d]) return false;
  }
  return true;
}

// Checks one stored piece and adds it to the tensor's.
bool place_piece(const WeightPlace& place, const Wanted& wanted, WeightSource& source, SourceTensor& tensor) {
  const WeightsHeader& header = source.weights.headers[place.file];
  const WeightTensor& stored = header.tensors[place.tensor];
  const std::span<const uint64_t> shape = shape_of(header, stored);
  const ParamLayout& layout = wanted.layout;
  if (stored.dtype != layout.dtype)
    return note(source, Code::TP8023, header.source.name,
                fmt::format("{} is {} there and {} in the manifest: nothing is cast", wanted.called,
                            dtypes()[stored.dtype].name, dtypes()[layout.dtype].name));
  std::vector<uint64_t> begin;
  if (!find_begin(place, wanted, source, begin)) return false;
  if (!fits(begin, shape, wanted.sizes, source.is_folder_of_shards))
    return note(source, Code::TP8023, header.source.name,
                fmt::format("{} has shape {}{} there and {} in the manifest", wanted.called, shape_text(shape),
                            source.is_folder_of_shards ? fmt::format(" at {}", shape_text(begin)) : "",
                            shape_text(wanted.sizes)),
                "these are another model's weights, or the manifest is another model's");
  std::vector<std::vector<Interval>> runs;
  for (size_t d = 0; d < shape.size(); ++d)
    runs.push_back({{static_cast<int64_t>(begin[d]), static_cast<int64_t>(begin[d] + shape[d])}});
  const std::vector<HeldBox> held = held_boxes(layout.shape, layout.dtype, runs);
  if (!held.empty()) tensor.pieces.push_back({place.file, header.data_begin + stored.begin, held[0].box});
  return true;
}

// Checks a stored tensor (all its pieces) against what the manifest says, and notes where it stands.
bool place_tensor(const std::vector<WeightPlace>& places, const ParamLayout& layout, std::string_view path,
                  WeightSource& source, SourceTensor& tensor) {
  const WeightsHeader& first = source.weights.headers[places[0].file];
  tensor.name = first.tensors[places[0].tensor].name;
  const std::string stored_as =
      tensor.name == path ? "" : fmt::format(" (stored as `{}`)", escape_for_terminal(tensor.name));
  const Wanted wanted{.layout = layout,
                      .sizes = {layout.shape.begin(), layout.shape.end()},
                      .called = fmt::format("`{}`{}", escape_for_terminal(path), stored_as)};
  for (const WeightPlace& place : places) {
    if (!place_piece(place, wanted, source, tensor)) return false;
  }
  std::vector<Box> boxes;
  for (const SourcePiece& piece : tensor.pieces) boxes.push_back(piece.box);
  const std::string gap = tiling_fault(byte_sizes(layout.shape, layout.dtype), boxes);
  return gap.empty() || note(source, Code::TP8024, fs::path(first.source.name).parent_path().string(),
                             fmt::format("{}: the folder's pieces do not make it up: {}", wanted.called, gap),
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

// Where each name stands, as the manifest calls it. Two names become one only by mistake.
StoredIndex index_stored(const std::string& path, WeightSource& source, const Rename& rename,
                         std::deque<std::string>& renamed) {
  StoredIndex stored;
  const auto name_of = [&](const WeightPlace& place) {
    return source.weights.headers[place.file].tensors[place.tensor].name;
  };
  for (const WeightPlace& place : source.weights.tensors) {
    std::string_view name = name_of(place);
    if (rename) {
      std::optional<std::string> called = rename(name);
      if (!called) continue;
      name = renamed.emplace_back(std::move(*called));
    }
    std::vector<WeightPlace>& places = stored[name];
    if (!places.empty() && name_of(places[0]) != name_of(place) && source.findings.size() < kMaxFindings)
      note(source, Code::TP8023, path,
           fmt::format("`{}` and `{}` of the weights are both renamed to `{}`", escape_for_terminal(name_of(places[0])),
                       escape_for_terminal(name_of(place)), escape_for_terminal(name)));
    places.push_back(place);
  }
  return stored;
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

bool is_never_saved(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('.') + 1);
  return name == "inv_freq" || name == "original_inv_freq";
}

Fault missing_buffers(const std::string& path, size_t count) {
  return {.code = Code::TP8025,
          .message = fmt::format("the weights lack {} of the manifest, left out: models make such anew",
                                 counted(count, "buffer")),
          .place = path};
}

bool place_tensors(const std::string& path, const Manifest& manifest, WeightSource& source, const Rename& rename) {
  std::deque<std::string> renamed;  // that the index points into
  const StoredIndex stored = index_stored(path, source, rename, renamed);
  const size_t parameters = manifest.parameters.size(), tensors = parameters + manifest.buffers.size();
  std::vector<std::span<const uint32_t>> group_of(tensors);
  for (const std::vector<uint32_t>& group : manifest.tied) {
    for (const uint32_t member : group) group_of[member] = group;
  }
  source.tensors.resize(tensors);
  source.missing.resize(tensors);
  size_t lacking = 0;
  for (size_t i = 0; i < tensors && source.findings.size() < kMaxFindings; ++i) {
    const std::string_view name = path_of(manifest, tensor_of(manifest, i));
    const std::vector<WeightPlace>* places = find_stored(stored, manifest, i, group_of[i]);
    if (places != nullptr) {
      place_tensor(*places, layout_of(manifest, tensor_of(manifest, i)), name, source, source.tensors[i]);
    } else if (i >= parameters) {
      source.missing[i] = true;
      lacking += !is_never_saved(name);
    } else {
      note(source, Code::TP8022, path,
           fmt::format("parameter `{}` of the manifest is not in the weights", escape_for_terminal(name)));
    }
  }
  if (lacking != 0) source.findings.push_back(missing_buffers(path, lacking));
  warn_of_extra(stored, manifest, tensors, path, source);
  return !has_errors(source);
}

}  // namespace tpplan
