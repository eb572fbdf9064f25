#include "exec/load/open_load.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/read_file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "diagnostics/fault.h"
#include "exec/shards/cast_elements.h"
#include "exec/shards/open_weights.h"
#include "manifest/read_manifest.h"
#include "manifest/shardings_digest.h"
#include "render/render.h"

namespace tpplan {
namespace {

void add_error(tpplan_load& load, LoadErrors& findings, const Fault& fault) {
  const int status = exit_status(fault);
  (status == 0 ? load.warnings : findings.text) += render_human(fault, "tpplan_load", {});
  findings.status = std::max(findings.status, status);
}

void add_diagnostics(tpplan_load& load, LoadErrors& findings, Diagnostics& diagnostics, const Sources& sources) {
  finish_diagnostics(diagnostics);
  (has_errors(diagnostics) ? findings.text : load.warnings) += render_human(diagnostics, sources, {});
  findings.status = std::max(findings.status, exit_status(diagnostics));
}

void read_text(tpplan_load& load, const char* path) {
  ReadResult result = read_file(path, kMaxManifestBytes);
  if (result.fault != ReadError::None)
    throw Fault{.code = result.fault == ReadError::TooLarge ? Code::FileTooLarge : Code::FileUnreadable,
                .message = result.fault == ReadError::TooLarge
                               ? fmt::format("the manifest is larger than {}", human_bytes(kMaxManifestBytes))
                               : fmt::format("cannot read the manifest: {}", result.reason),
                .place = path};
  load.file = std::move(result.file);
}

Rename rename_of(const tpplan_load_source& source) {
  if (source.rename == nullptr) return {};
  return [&source](std::string_view stored) -> std::optional<std::string> {
    const std::string given(stored);  // `stored` may be a view into the text of the weights
    if (given.find('\0') != std::string::npos)
      throw RequestError{fmt::format("the weights have a tensor `{}`: `rename` does not support names with a zero byte",
                                     escape_for_terminal(given)),
                         TPPLAN_LOAD_WRONG};
    const char* name = source.rename(source.user, given.c_str());
    return name == nullptr ? std::nullopt : std::optional<std::string>(name);
  };
}

// Casts the floating-point tensors of the manifest to `dtype`, as if it had been compiled for it; "manifest" changes
// nothing. Throws a RequestError for a dtype that is not floating point or has fewer than 16 bits.
void take_dtype(tpplan_load& load, std::string_view dtype) {
  if (dtype == "manifest") return;
  DType wanted = 0;
  if (!find_dtype(dtype, wanted) || !is_compute_dtype(wanted))
    throw RequestError{
        fmt::format("`{}` is not a floating-point dtype of at least 16 bits", escape_for_terminal(dtype))};
  for (ParamLayout& layout : load.manifest.layouts) {
    if (!can_cast(layout.dtype, wanted)) continue;
    load.has_other_dtypes |= layout.dtype != wanted;
    layout.dtype = wanted;
  }
}

bool is_empty_name(const char* name) { return name == nullptr || *name == '\0'; }

PlaceOptions options_of(const tpplan_load_source& source) {
  PlaceOptions options{.rename = rename_of(source), .fuse = {}, .cast = source.dtype != nullptr};
  if (source.fuse == nullptr && source.fuse_count != 0) throw RequestError{"`fuse` is NULL, but `fuse_count` is not 0"};
  for (size_t i = 0; i < source.fuse_count; ++i) {
    const tpplan_load_fuse& rule = source.fuse[i];
    if (is_empty_name(rule.fused) || rule.parts == nullptr || rule.count < 2)
      throw RequestError{fmt::format("rule {} for fused tensors has no name, or fewer than two parts", i)};
    FuseRule& out = options.fuse.emplace_back(
        FuseRule{.fused = rule.fused, .parts = {}, .groups = std::max<uint64_t>(rule.groups, 1)});
    for (size_t p = 0; p < rule.count; ++p) {
      if (is_empty_name(rule.parts[p])) throw RequestError{fmt::format("a part of `{}` has no name", out.fused)};
      out.parts.emplace_back(rule.parts[p]);
    }
  }
  return options;
}

const Device& find_device(const char* name) {
  if (name == nullptr) return cpu_device();
  for (const DeviceRow& row : device_rows()) {
    if (row.name != name) continue;
    std::string reason;
    const Device* device = row.find(reason);
    if (device == nullptr) throw RequestError{fmt::format("{}: {}", name, reason)};
    return *device;
  }
  throw RequestError{fmt::format("there is no device `{}`", escape_for_terminal(name))};
}

// Adds a warning with the number of tensors that lose precision by a cast.
void warn_of_loss(tpplan_load& load) {
  size_t count = 0, first = 0;
  for (size_t t = 0; t < load.source.tensors.size(); ++t) {
    if (load.source.missing[t] || !is_lossy_cast(load.source.tensors[t].dtype, load.store.shards[t].layout->dtype))
      continue;
    if (count++ == 0) first = t;
  }
  if (count == 0) return;
  const Shard& shard = load.store.shards[first];
  load.warnings +=
      fmt::format("tpplan_load: warning: {} {} precision by a cast: `{}` is {} in the weights, {} in memory\n",
                  counted(count, "tensor"), count == 1 ? "loses" : "lose", escape_for_terminal(shard.path),
                  dtypes()[load.source.tensors[first].dtype].name, dtypes()[shard.layout->dtype].name);
}

}  // namespace

void read_source(tpplan_load& load, const tpplan_load_source& source) {
  if (source.size != sizeof source)
    throw RequestError{"the source is from another version of the library: `size` is not sizeof(tpplan_load_source)"};
  if ((source.manifest == nullptr) == (source.text == nullptr))
    throw RequestError{"exactly one of `manifest` (its path) and `text` must be set"};
  if (source.manifest != nullptr) return read_text(load, source.manifest);
  load.file.name = "manifest";
  load.file.text.assign(source.text, source.length);
}

LoadErrors open_manifest_and_weights(tpplan_load& load, const tpplan_load_source& source) {
  const int rank = source.rank;
  LoadErrors findings;
  Diagnostics diagnostics;
  load.manifest = read_manifest(load.file, diagnostics);
  load.shardings_sha256 = shardings_sha256(load.manifest);
  add_diagnostics(load, findings, diagnostics, sources_of(load.file));
  if (!findings.text.empty()) return findings;
  const int64_t ranks = device_count(load.manifest.mesh);
  if (rank < 0 || rank >= ranks)
    throw RequestError{fmt::format("rank {} is not in a mesh of {}: ranks start at 0", rank,
                                   counted(static_cast<uint64_t>(ranks), "rank"))};
  const Device& device = find_device(source.device);
  load.device_number = source.device_number;
  if (source.dtype != nullptr) take_dtype(load, source.dtype);
  if (source.weights != nullptr) {
    const bool good = open_weights(source.weights, load.manifest, load.source, options_of(source));
    add_diagnostics(load, findings, load.source.weights.diagnostics, sources_of(source_files_of(load.source.weights)));
    for (const Fault& fault : load.source.findings) add_error(load, findings, fault);
    if (!good || !findings.text.empty()) return findings;
  } else {
    check_packing(load.manifest);
    load.source.missing.resize(tensor_count(load.manifest));
  }
  load.has_weights = source.weights != nullptr;
  load.store = describe_shards(load.manifest, rank);
  load.store.device = &device;
  load.first = first_tied_params(load.manifest);
  for (const Shard& shard : load.store.shards) {
    if (shard.path.find('\0') != std::string_view::npos)
      throw RequestError{fmt::format("the manifest has a tensor `{}`: C does not support names with a zero byte",
                                     escape_for_terminal(shard.path)),
                         TPPLAN_LOAD_WRONG};
    load.paths.emplace_back(shard.path);
    load.dtypes.emplace_back(tpplan::dtypes()[shard.layout->dtype].name);
  }
  if (load.has_weights) warn_of_loss(load);
  load.is_open = true;
  return findings;
}

}  // namespace tpplan
