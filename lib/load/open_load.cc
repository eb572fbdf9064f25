#include "load/open_load.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/read_file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "diagnostics/fault.h"
#include "manifest/read_manifest.h"
#include "render/render.h"
#include "shards/cast_elements.h"

namespace tpplan {
namespace {

void add_finding(tpplan_load& load, Findings& findings, const Fault& fault) {
  const int status = exit_status(fault);
  (status == 0 ? load.warnings : findings.text) += render_human(fault, "tpplan_load", {});
  findings.status = std::max(findings.status, status);
}

void add_findings(tpplan_load& load, Findings& findings, Diagnostics& diagnostics, const Sources& sources) {
  finish_diagnostics(diagnostics);
  (has_errors(diagnostics) ? findings.text : load.warnings) += render_human(diagnostics, sources, {});
  findings.status = std::max(findings.status, exit_status(diagnostics));
}

void read_text(tpplan_load& load, const char* path) {
  ReadResult result = read_file(path, kMaxManifestBytes);
  if (result.fault != ReadFault::None)
    throw Fault{.code = result.fault == ReadFault::TooLarge ? Code::TP1002 : Code::TP1001,
                .message = result.fault == ReadFault::TooLarge
                               ? fmt::format("the manifest is larger than {}", human_bytes(kMaxManifestBytes))
                               : fmt::format("cannot read the manifest: {}", result.reason),
                .place = path};
  load.file = std::move(result.file);
}

Rename rename_of(const tpplan_load_source& source) {
  if (source.rename == nullptr) return {};
  return [&source](std::string_view stored) -> std::optional<std::string> {
    const std::string given(stored);  // into which the name may point
    const char* name = source.rename(source.user, given.c_str());
    return name == nullptr ? std::nullopt : std::optional<std::string>(name);
  };
}

// Memory in other types than the manifest's: as a manifest would say that was compiled for them.
void take_dtype(tpplan_load& load, std::string_view dtype) {
  if (dtype == "manifest") return;
  DType wanted = 0;
  if (!find_dtype(dtype, wanted) || !is_model_type(wanted))
    throw Refusal{fmt::format("`{}` is no type of floating point of 16 bits or more", escape_for_terminal(dtype))};
  for (ParamLayout& layout : load.manifest.layouts) {
    if (!can_cast(layout.dtype, wanted)) continue;
    load.has_own_types |= layout.dtype != wanted;
    layout.dtype = wanted;
  }
}

bool is_empty_name(const char* name) { return name == nullptr || *name == '\0'; }

PlaceOptions options_of(const tpplan_load_source& source) {
  PlaceOptions options{.rename = rename_of(source), .fuse = {}, .cast = source.dtype != nullptr};
  if (source.fuse == nullptr && source.fuse_count != 0) throw Refusal{"no rules for fused tensors are given"};
  for (size_t i = 0; i < source.fuse_count; ++i) {
    const tpplan_load_fuse& rule = source.fuse[i];
    if (is_empty_name(rule.fused) || rule.parts == nullptr || rule.count < 2)
      throw Refusal{fmt::format("rule {} for fused tensors has no name, or fewer than two parts", i)};
    FuseRule& out = options.fuse.emplace_back(
        FuseRule{.fused = rule.fused, .parts = {}, .groups = std::max<uint64_t>(rule.groups, 1)});
    for (size_t p = 0; p < rule.count; ++p) {
      if (is_empty_name(rule.parts[p])) throw Refusal{fmt::format("a part of `{}` has no name", out.fused)};
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
    if (device == nullptr) throw Refusal{fmt::format("{}: {}", name, reason)};
    return *device;
  }
  throw Refusal{fmt::format("there is no device `{}`", escape_for_terminal(name))};
}

// Says of how many tensors the values change.
void warn_of_loss(tpplan_load& load) {
  size_t count = 0, first = 0;
  for (size_t t = 0; t < load.source.tensors.size(); ++t) {
    if (load.source.missing[t] || !loses_by_cast(load.source.tensors[t].dtype, load.store.shards[t].layout->dtype))
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
    throw Refusal{"the source is of another version of the library: `size` is not that of its struct"};
  if ((source.manifest == nullptr) == (source.text == nullptr))
    throw Refusal{"the manifest is given by its path or by its text"};
  if (source.manifest != nullptr) return read_text(load, source.manifest);
  load.file.name = "manifest";
  load.file.text.assign(source.text, source.length);
}

Findings open_text(tpplan_load& load, const tpplan_load_source& source) {
  const int rank = source.rank;
  Findings findings;
  Diagnostics diagnostics;
  load.manifest = read_manifest(load.file, diagnostics);
  load.sha256 = sha256_hex(load.file.text);
  add_findings(load, findings, diagnostics, sources_of(load.file));
  if (!findings.text.empty()) return findings;
  const int64_t ranks = device_count(load.manifest.mesh);
  if (rank < 0 || rank >= ranks)
    throw Refusal{fmt::format("rank {} of a mesh of {}: ranks are counted from 0", rank,
                              counted(static_cast<uint64_t>(ranks), "rank"))};
  const Device& device = find_device(source.device);
  load.device_number = source.device_number;
  if (source.dtype != nullptr) take_dtype(load, source.dtype);
  if (source.weights != nullptr) {
    const bool good = open_weights(source.weights, load.manifest, load.source, options_of(source));
    add_findings(load, findings, load.source.weights.diagnostics, sources_of(texts_of(load.source.weights)));
    for (const Fault& fault : load.source.findings) add_finding(load, findings, fault);
    if (!good || !findings.text.empty()) return findings;
  } else {
    check_packing(load.manifest);
    load.source.missing.resize(load.manifest.parameters.size() + load.manifest.buffers.size());
  }
  load.has_weights = source.weights != nullptr;
  load.store = describe_shards(load.manifest, rank);
  load.store.device = &device;
  load.first = first_of_tied(load.manifest);
  for (const Shard& shard : load.store.shards) {
    load.paths.emplace_back(shard.path);
    load.dtypes.emplace_back(tpplan::dtypes()[shard.layout->dtype].name);
  }
  if (load.has_weights) warn_of_loss(load);
  load.is_open = true;
  return findings;
}

}  // namespace tpplan
