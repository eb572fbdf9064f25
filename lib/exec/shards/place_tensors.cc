#include "exec/shards/place_tensors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "exec/shards/box_sums.h"
#include "exec/shards/byte_boxes.h"
#include "exec/shards/cast_elements.h"
#include "exec/shards/expert_names.h"
#include "exec/shards/shard_store.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxListed = 100;
constexpr size_t kNamed = 3;  // extra tensors that a warning names

using StoredIndex = TextMap<std::string_view, std::vector<WeightPlace>>;

// Adds a finding. Returns false, so that callers can return its result.
bool note(WeightSource& source, Code code, std::string place, std::string message, std::string help = {}) {
  source.findings.push_back(
      {.code = code, .message = std::move(message), .help = std::move(help), .place = std::move(place)});
  return false;
}

bool has_errors(const WeightSource& source) {
  return std::ranges::any_of(source.findings, [](const Fault& fault) { return exit_status(fault) != 0; });
}

// A tensor of the manifest, to be found in the weights.
struct Wanted {
  const ParamLayout& layout;
  std::vector<uint64_t> sizes;  // its shape as unsigned sizes
  std::string called;           // "`w` (stored as `v`)"
  bool cast = false;
};

// Maps the interval [from, from + count) of a dim of a stored tensor to [to, to + count) of the manifest's tensor.
struct MappedRun {
  uint64_t from = 0, to = 0, count = 0;
};

// A stored tensor that provides all or part of a manifest tensor: the `runs` of its dim `dim`, whose global size is
// `size`. Without runs it provides everything.
struct StoredPart {
  const std::vector<WeightPlace>* places = nullptr;
  size_t dim = 0;
  uint64_t size = 0;
  std::vector<MappedRun> runs;
  std::vector<uint64_t> begin, shape;  // the box of the parameter that a matrix of one expert fills; empty: others
};

// Finds the index in its tensor at which a stored box begins: 0 in every dim or, in a folder of shards, the
// saved_offsets of the file. Returns false, with an error noted, if these are missing.
bool find_begin(const WeightPlace& place, const std::string& called, WeightSource& source,
                std::vector<uint64_t>& begin) {
  const WeightsHeader& header = source.weights.headers[place.file];
  const WeightTensor& stored = header.tensors[place.tensor];
  begin.assign(shape_of(header, stored).size(), 0);
  if (!source.is_folder_of_shards) return true;
  const auto saved = source.offsets[place.file].find(std::string(stored.name));
  if (saved == source.offsets[place.file].end() || saved->second.size() != begin.size())
    return note(
        source, Code::TensorMismatch, header.source.name,
        fmt::format("{} has no saved_offsets of {} in {}", called, counted(begin.size(), "dim"), kShardingInfoKey));
  begin = saved->second;
  return true;
}

// True if the box has the shape of the tensor, or, for a shard, ends inside the tensor. Offsets come from a file, so
// their sums may overflow.
bool fits(std::span<const uint64_t> begin, std::span<const uint64_t> shape, std::span<const uint64_t> sizes,
          bool is_part) {
  if (shape.size() != sizes.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    uint64_t end = 0;
    if (__builtin_add_overflow(begin[d], shape[d], &end)) return false;
    if (is_part ? end > sizes[d] : end != sizes[d]) return false;
  }
  return true;
}

void add_box(const WeightPlace& place, const std::vector<Intervals>& runs, const Wanted& wanted, WeightSource& source,
             SourceTensor& tensor) {
  const WeightsHeader& header = source.weights.headers[place.file];
  const std::vector<HeldBox> held = held_boxes(wanted.layout.shape, tensor.dtype, runs);
  if (!held.empty())
    tensor.pieces.push_back(
        {.file = place.file, .offset = header.data_begin + header.tensors[place.tensor].begin, .box = held[0].box});
}

// Checks dtype and shape of one stored tensor or shard, and adds the boxes that the manifest tensor uses of it.
bool place_box(const WeightPlace& place, const StoredPart& part, const Wanted& wanted, WeightSource& source,
               SourceTensor& tensor) {
  const WeightsHeader& header = source.weights.headers[place.file];
  const WeightTensor& stored = header.tensors[place.tensor];
  const bool is_expert = !part.shape.empty();
  const std::span<const uint64_t> shape = is_expert ? std::span(part.shape) : shape_of(header, stored);
  const ParamLayout& layout = wanted.layout;
  if (tensor.pieces.empty()) tensor.dtype = stored.dtype;
  if (stored.dtype != (tensor.pieces.empty() ? layout.dtype : tensor.dtype) &&
      !(wanted.cast && tensor.dtype == stored.dtype && can_cast(stored.dtype, layout.dtype)))
    return note(
        source, Code::TensorMismatch, header.source.name,
        fmt::format("{} is {} in the weights and {} in the manifest: {}", wanted.called, dtypes()[stored.dtype].name,
                    dtypes()[layout.dtype].name, wanted.cast ? "this cast is not supported" : "dtypes are not cast"));
  std::vector<uint64_t> begin, sizes = wanted.sizes;
  if (is_expert)
    begin = part.begin;
  else if (!find_begin(place, wanted.called, source, begin))
    return false;
  if (!part.runs.empty()) sizes[part.dim] = part.size;
  if (!fits(begin, shape, sizes, source.is_folder_of_shards || is_expert))
    return note(source, Code::TensorMismatch, header.source.name,
                fmt::format("{} has shape {}{} in the weights and {} in the manifest", wanted.called, shape_text(shape),
                            source.is_folder_of_shards || is_expert ? fmt::format(" at {}", shape_text(begin)) : "",
                            shape_text(sizes)),
                "use the weights and the manifest of the same model");
  std::vector<Intervals> runs;
  for (size_t d = 0; d < shape.size(); ++d)
    runs.push_back({{static_cast<int64_t>(begin[d]), static_cast<int64_t>(begin[d] + shape[d])}});
  const size_t before = tensor.pieces.size();
  if (part.runs.empty()) {
    add_box(place, runs, wanted, source, tensor);
    const std::vector<uint32_t>& sums = source.sums[place.file];
    if (!sums.empty() && tensor.pieces.size() > before) tensor.pieces.back().sum = sums[place.tensor];
    return true;
  }
  const uint64_t bytes = part.dim + 1 == shape.size() ? dtypes()[stored.dtype].bits / 8 : 1;
  const std::vector<int64_t> block(shape.begin(), shape.end());
  for (const MappedRun& run : part.runs) {
    const uint64_t low = std::max(begin[part.dim], run.from),
                   high = std::min(begin[part.dim] + shape[part.dim], run.from + run.count);
    if (low >= high) continue;
    runs[part.dim] = {{static_cast<int64_t>(low - run.from + run.to), static_cast<int64_t>(high - run.from + run.to)}};
    const size_t now = tensor.pieces.size();
    add_box(place, runs, wanted, source, tensor);
    if (tensor.pieces.size() == now) continue;
    tensor.pieces.back().sizes = byte_sizes(block, stored.dtype);
    tensor.pieces.back().at.assign(shape.size(), 0);
    tensor.pieces.back().at[part.dim] = (low - begin[part.dim]) * bytes;
  }
  return true;
}

// Finds the boxes of a manifest tensor in its stored parts. Checks their dtypes and shapes, and that they tile the
// tensor.
bool place_tensor(const std::vector<StoredPart>& parts, const ParamLayout& layout, std::string_view path, bool cast,
                  WeightSource& source, SourceTensor& tensor) {
  const auto name_of = [&](const StoredPart& part) {
    return source.weights.headers[part.places->front().file].tensors[part.places->front().tensor].name;
  };
  tensor.name = name_of(parts[0]);
  tensor.dtype = layout.dtype;
  for (const StoredPart& part : parts) {
    const std::string stored_as =
        name_of(part) == path ? "" : fmt::format(" (stored as `{}`)", escape_for_terminal(name_of(part)));
    const Wanted wanted{.layout = layout,
                        .sizes = {layout.shape.begin(), layout.shape.end()},
                        .called = fmt::format("`{}`{}", escape_for_terminal(path), stored_as),
                        .cast = cast};
    for (const WeightPlace& place : *part.places) {
      if (!place_box(place, part, wanted, source, tensor)) return false;
    }
  }
  std::vector<Box> boxes;
  for (const StoredBox& piece : tensor.pieces) boxes.push_back(piece.box);
  const std::string gap = tiling_error(byte_sizes(layout.shape, tensor.dtype), boxes);
  const std::string first = source.weights.headers[parts[0].places->front().file].source.name;
  return gap.empty() ||
         note(source, Code::IncompleteTensor, fs::path(first).parent_path().string(),
              fmt::format("`{}`: the shards in the folder do not tile it: {}", escape_for_terminal(path), gap),
              "copy the folder again, or save it again");
}

// Returns the places of a stored tensor; nullptr if there is none of this name.
const std::vector<WeightPlace>* find_places(const StoredIndex& stored, std::string_view name) {
  const auto found = stored.find(name);
  return found == stored.end() ? nullptr : &found->second;
}

// Returns where a manifest tensor is stored: under its name, else under the name of a tied tensor; nullptr if neither
// exists.
const std::vector<WeightPlace>* find_stored(const StoredIndex& stored, const Manifest& manifest, size_t index,
                                            std::span<const uint32_t> group) {
  const std::vector<WeightPlace>* places = find_places(stored, path_of(manifest, tensor_of(manifest, index)));
  for (size_t i = 0; places == nullptr && i < group.size(); ++i)
    places = find_places(stored, path_of(manifest, manifest.parameters[group[i]]));
  return places;
}

// The input of find_parts for all tensors.
struct Fusing {
  const Manifest& manifest;
  const StoredIndex& stored;
  WeightSource& source;
  TextMap<std::string_view, uint32_t> numbers;  // parameters of the manifest by path
  std::vector<std::string> used;                // stored names that were used by a rule
};

// Returns the path with its component `name` replaced by `other`, the last one if it occurs several times; empty if it
// does not occur. Components are separated by a dot, or by a slash in Keras.
std::string with_name(std::string_view path, std::string_view name, std::string_view other) {
  const auto ends = [&](size_t at) { return at == path.size() || path[at] == '.' || path[at] == '/'; };
  for (size_t at = name.empty() ? std::string_view::npos : path.rfind(name); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : path.rfind(name, at - 1)) {
    if ((at == 0 || ends(at - 1)) && ends(at + name.size()))
      return std::string(path.substr(0, at)) + std::string(other) + std::string(path.substr(at + name.size()));
  }
  return {};
}

// Returns the global shape of a stored tensor; for one that is stored as shards, the largest end in each dim. Empty if
// a file does not have the offsets of its shards.
std::vector<uint64_t> stored_shape(const std::vector<WeightPlace>& places, WeightSource& source) {
  std::vector<uint64_t> whole, begin;
  for (const WeightPlace& place : places) {
    const WeightsHeader& header = source.weights.headers[place.file];
    const WeightTensor& tensor = header.tensors[place.tensor];
    const std::span<const uint64_t> shape = shape_of(header, tensor);
    if (!find_begin(place, fmt::format("`{}`", escape_for_terminal(tensor.name)), source, begin)) return {};
    if (whole.empty()) whole.resize(shape.size());
    if (whole.size() != shape.size()) return {};
    for (size_t d = 0; d < whole.size(); ++d) whole[d] = std::max(whole[d], begin[d] + shape[d]);
  }
  return whole;
}

// Returns the only dim in which the shapes of the parts differ from `fused`, if their sizes there add up to `fused`;
// else nullopt.
std::optional<size_t> fused_dim(std::span<const uint64_t> fused, std::span<const std::vector<uint64_t>> parts) {
  std::optional<size_t> dim;
  std::vector<uint64_t> sums(fused.size());
  for (const std::vector<uint64_t>& part : parts) {
    if (part.size() != fused.size()) return {};
    for (size_t d = 0; d < fused.size(); ++d) sums[d] += part[d];
  }
  for (size_t d = 0; d < fused.size(); ++d) {
    const bool equals_fused = std::ranges::all_of(parts, [&](const auto& part) { return part[d] == fused[d]; });
    if (equals_fused) continue;
    if (dim || sums[d] != fused[d]) return {};
    dim = d;
  }
  return dim;
}

// Returns the intervals of part `number` in the fused dim, which has parts of these sizes in each of `groups` groups.
// With `to_fused` they map from the part to the fused tensor, else from the fused tensor to the part.
std::vector<MappedRun> runs_of_part(std::span<const uint64_t> sizes, size_t number, uint64_t groups, bool to_fused) {
  std::vector<MappedRun> runs;
  uint64_t at = 0;
  for (uint64_t group = 0; group < groups; ++group) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const uint64_t count = sizes[i] / groups, own = group * count;
      if (i == number) runs.push_back(to_fused ? MappedRun{own, at, count} : MappedRun{at, own, count});
      at += count;
    }
  }
  return runs;
}

std::vector<StoredPart> wrong_parts(Fusing& fusing, const FuseRule& rule, std::string_view path,
                                    std::string_view reason) {
  note(fusing.source, Code::TensorMismatch, "",
       fmt::format("`{}` does not match the rule for fused `{}`: {}", escape_for_terminal(path),
                   escape_for_terminal(rule.fused), reason),
       "list the parts in their order, and set `groups` if heads of a group are adjacent");
  return {};
}

// Returns the stored parts that make up a manifest tensor by the rule. Empty if the rule does not apply, a stored
// tensor that it needs is missing, or sizes do not fit; the last case is noted as an error.
std::vector<StoredPart> find_parts(Fusing& fusing, const FuseRule& rule, std::string_view path,
                                   const ParamLayout& layout) {
  const std::vector<uint64_t> own(layout.shape.begin(), layout.shape.end());
  const auto divides = [&](std::span<const uint64_t> sizes) {
    return std::ranges::all_of(sizes, [&](uint64_t size) { return size % rule.groups == 0; });
  };
  const auto column = [](std::span<const std::vector<uint64_t>> shapes, size_t dim) {
    std::vector<uint64_t> sizes;
    for (const std::vector<uint64_t>& shape : shapes) sizes.push_back(shape[dim]);
    return sizes;
  };
  if (!with_name(path, rule.fused, rule.fused).empty()) {  // the manifest has the fused one
    std::vector<StoredPart> parts;
    std::vector<std::string> names;
    std::vector<std::vector<uint64_t>> shapes;
    for (const std::string& part : rule.parts) {
      names.push_back(with_name(path, rule.fused, part));
      const std::vector<WeightPlace>* places = find_places(fusing.stored, names.back());
      if (places == nullptr) return {};
      parts.push_back({.places = places, .runs = {}});
      shapes.push_back(stored_shape(*places, fusing.source));
    }
    const std::optional<size_t> dim = fused_dim(own, shapes);
    if (!dim) return wrong_parts(fusing, rule, path, fmt::format("its parts do not add up to {}", shape_text(own)));
    const std::vector<uint64_t> sizes = column(shapes, *dim);
    if (!divides(sizes)) return wrong_parts(fusing, rule, path, "`groups` does not divide its parts");
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].dim = *dim;
      parts[i].size = sizes[i];
      parts[i].runs = runs_of_part(sizes, i, rule.groups, true);
    }
    fusing.used.insert(fusing.used.end(), names.begin(), names.end());
    return parts;
  }
  for (size_t k = 0; k < rule.parts.size(); ++k) {
    const std::string name = with_name(path, rule.parts[k], rule.fused);
    const std::vector<WeightPlace>* places = name.empty() ? nullptr : find_places(fusing.stored, name);
    if (places == nullptr) continue;
    std::vector<std::vector<uint64_t>> shapes;
    for (const std::string& part : rule.parts) {
      const auto number = fusing.numbers.find(with_name(path, rule.parts[k], part));
      if (number == fusing.numbers.end())
        return wrong_parts(fusing, rule, path, fmt::format("the manifest has no `{}` next to it", part));
      const std::vector<int64_t>& shape = layout_of(fusing.manifest, fusing.manifest.parameters[number->second]).shape;
      shapes.emplace_back(shape.begin(), shape.end());
    }
    const std::vector<uint64_t> whole = stored_shape(*places, fusing.source);
    const std::optional<size_t> dim = fused_dim(whole, shapes);
    if (!dim)
      return wrong_parts(fusing, rule, path,
                         fmt::format("the parts do not add up to the stored shape {}", shape_text(whole)));
    const std::vector<uint64_t> sizes = column(shapes, *dim);
    if (!divides(sizes)) return wrong_parts(fusing, rule, path, "`groups` does not divide its parts");
    fusing.used.push_back(name);
    return {{.places = places, .dim = *dim, .size = whole[*dim], .runs = runs_of_part(sizes, k, rule.groups, false)}};
  }
  return {};
}

// Returns the stored matrices of experts that a parameter of stacked experts consists of; empty if it is none, or if
// they are not stored. Reports an expert without matrices.
std::vector<StoredPart> find_experts(Fusing& fusing, std::string_view path, const ParamLayout& layout) {
  if (layout.shape.size() != 3) return {};
  for (const ExpertRow& row : expert_rows()) {
    if (row.stacked != path.substr(path.rfind('.') + 1) ||
        find_places(fusing.stored, expert_name(path, 0, row.parts[0])) == nullptr)
      continue;
    std::vector<StoredPart> parts;
    for (uint64_t expert = 0; expert < static_cast<uint64_t>(layout.shape[0]); ++expert) {
      uint64_t at = 0;
      for (const std::string_view leaf : row.parts) {
        if (leaf.empty()) continue;
        const std::string name = expert_name(path, expert, leaf);
        const std::vector<WeightPlace>* places = find_places(fusing.stored, name);
        const std::vector<uint64_t> matrix =
            places == nullptr ? std::vector<uint64_t>{} : stored_shape(*places, fusing.source);
        if (matrix.size() != 2) {
          note(fusing.source, Code::MissingParameter, "",
               fmt::format("`{}` stacks the experts of the weights, which have no matrix `{}`",
                           escape_for_terminal(path), escape_for_terminal(name)));
          return {};
        }
        parts.push_back({.places = places, .runs = {}, .begin = {expert, at, 0}, .shape = {1, matrix[0], matrix[1]}});
        at += matrix[0];
        fusing.used.push_back(name);
      }
    }
    return parts;
  }
  return {};
}

// Returns the places of every stored tensor by its name in the manifest (after `rename`). Notes an error if two stored
// names are renamed to one.
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
    if (!places.empty() && name_of(places[0]) != name_of(place) && source.findings.size() < kMaxListed)
      note(source, Code::TensorMismatch, path,
           fmt::format("`{}` and `{}` of the weights are both renamed to `{}`", escape_for_terminal(name_of(places[0])),
                       escape_for_terminal(name_of(place)), escape_for_terminal(name)));
    places.push_back(place);
  }
  return stored;
}

void warn_of_extra(const StoredIndex& stored, const Manifest& manifest, size_t tensors,
                   std::span<const std::string> fused, const std::string& path, WeightSource& source) {
  StoredIndex unused = stored;
  for (size_t i = 0; i < tensors; ++i) unused.erase(path_of(manifest, tensor_of(manifest, i)));
  for (const std::string& name : fused) unused.erase(name);
  if (unused.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, places] : unused) names.push_back(escape_for_terminal(name));
  std::ranges::sort(names);
  const size_t more = names.size() - std::min(names.size(), kNamed);
  names.resize(names.size() - more);
  note(source, Code::UnknownTensors, path,
       fmt::format("the weights have {} that the manifest lacks, skipped: {}{}", counted(unused.size(), "tensor"),
                   join(names, ", "), more == 0 ? "" : fmt::format(" and {} more", more)));
}

}  // namespace

bool is_never_saved(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('.') + 1);
  return name == "inv_freq" || name == "original_inv_freq";
}

Fault missing_buffers(const std::string& path, size_t count) {
  return {.code = Code::MissingBuffers,
          .message = fmt::format("the weights lack {} of the manifest, skipped because models recreate them",
                                 counted(count, "buffer")),
          .place = path};
}

bool place_tensors(const std::string& path, const Manifest& manifest, WeightSource& source,
                   const PlaceOptions& options) {
  std::deque<std::string> renamed;  // owns the new names; `stored` has views of them
  const StoredIndex stored = index_stored(path, source, options.rename, renamed);
  Fusing fusing{.manifest = manifest, .stored = stored, .source = source, .numbers = {}, .used = {}};
  if (!options.fuse.empty()) {
    for (size_t i = 0; i < manifest.parameters.size(); ++i)
      fusing.numbers[path_of(manifest, tensor_of(manifest, i))] = static_cast<uint32_t>(i);
  }
  const size_t parameters = manifest.parameters.size(), tensors = parameters + manifest.buffers.size();
  std::vector<std::span<const uint32_t>> group_of(tensors);
  for (const std::vector<uint32_t>& group : manifest.tied) {
    for (const uint32_t member : group) group_of[member] = group;
  }
  source.tensors.resize(tensors);
  source.missing.resize(tensors);
  source.sums.clear();
  for (const WeightsHeader& header : source.weights.headers) source.sums.push_back(read_sums(header));
  size_t lacking = 0;
  for (size_t i = 0; i < tensors && source.findings.size() < kMaxListed; ++i) {
    const std::string_view name = path_of(manifest, tensor_of(manifest, i));
    const std::vector<WeightPlace>* places = find_stored(stored, manifest, i, group_of[i]);
    const ParamLayout& layout = layout_of(manifest, tensor_of(manifest, i));
    std::vector<StoredPart> parts;
    if (places != nullptr) parts = {StoredPart{.places = places, .runs = {}}};
    for (size_t r = 0; parts.empty() && r < options.fuse.size(); ++r)
      parts = find_parts(fusing, options.fuse[r], name, layout);
    if (parts.empty() && !source.is_folder_of_shards) parts = find_experts(fusing, name, layout);
    if (!parts.empty()) {
      place_tensor(parts, layout, name, options.cast, source, source.tensors[i]);
    } else if (i >= parameters) {
      source.missing[i] = true;
      lacking += !is_never_saved(name);
    } else {
      note(source, Code::MissingParameter, path,
           fmt::format("parameter `{}` of the manifest is not in the weights", escape_for_terminal(name)));
    }
  }
  if (lacking != 0) source.findings.push_back(missing_buffers(path, lacking));
  warn_of_extra(stored, manifest, tensors, fusing.used, path, source);
  return !has_errors(source);
}

}  // namespace tpplan
