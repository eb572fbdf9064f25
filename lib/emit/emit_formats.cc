#include "emit/emit_formats.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "emit/emit_jax.h"
#include "emit/emit_keras.h"
#include "emit/emit_onnx.h"
#include "emit/emit_orbax.h"
#include "emit/emit_shardy.h"
#include "emit/emit_text.h"
#include "emit/emit_torch.h"

namespace tpplan {
namespace {

constexpr int64_t kAnyRanks = std::numeric_limits<int64_t>::max();

// Alphabetical.
constexpr EmitFormat kFormats[] = {
    {"jax", write_jax, nullptr, kJaxLimits, kAnyRanks, "entries of jax.sharding.PartitionSpec, JSON"},
    {"keras", write_keras, nullptr, kKerasLimits, kAnyRanks, "keys and axes of keras.distribution.LayoutMap, JSON"},
    {"onnx", write_onnx, nullptr, kOnnxLimits, kMaxOnnxRanks, "ONNX multi-device messages, protobuf JSON"},
    {"orbax", write_orbax, nullptr, kJaxLimits, kAnyRanks, "the `_sharding` file of an Orbax checkpoint, JSON"},
    {"shardy", write_shardy, nullptr, kShardyLimits, kAnyRanks, "sdy.mesh and sdy.sharding, MLIR text"},
    {"torch", write_torch, write_torch_python, kTorchLimits, kAnyRanks, "placements of DTensor, JSON or Python"},
};

std::string sentence(const FormatLimit& row, std::string_view path) {
  std::string text(row.what);
  const size_t placeholder = text.find("{}");
  return text.replace(placeholder, 2, fmt::format("`{}`", path));
}

// Finds the span of a parameter in a manifest in the form of write_manifest.
Span param_span(const SourceFile& file, std::string_view path) {
  const std::string key = json_text("path") + ": ", name = json_text(path);
  const size_t at = file.text.find(key + name);
  if (at == std::string::npos) return {file.id, 0, 0};
  return {file.id, at + key.size(), static_cast<uint32_t>(name.size())};
}

// Tests each layout once, because thousands of parameters can share one, and some tests visit all shards.
void check_limit(const Manifest& manifest, const SourceFile& file, const EmitFormat& format, const FormatLimit& row,
                 bool lossy, Diagnostics& diagnostics) {
  std::vector<bool> lost;
  for (const ParamLayout& layout : manifest.layouts) lost.push_back(row.exceeds_limit(layout, manifest.mesh));
  const auto exceeds_limit = [&](const ManifestParam& param) { return lost[param.layout]; };
  const auto first = std::find_if(manifest.parameters.begin(), manifest.parameters.end(), exceeds_limit);
  if (first == manifest.parameters.end()) return;
  const std::string_view path = path_of(manifest, *first);
  Diagnostic& d = report_message(diagnostics, Code::LossyExport, param_span(file, path),
                                 fmt::format("{} cannot express that {}", format.name, sentence(row, path)));
  d.count = static_cast<uint64_t>(std::count_if(first, manifest.parameters.end(), exceeds_limit));
  d.counted = "parameter";
  d.severity = lossy ? Severity::Warning : Severity::Error;
  if (lossy)
    d.notes.push_back({std::string(row.instead), {}});
  else
    d.help = fmt::format("pass --lossy to accept this: {}", row.instead);
}

}  // namespace

std::span<const EmitFormat> emit_formats() { return kFormats; }

const EmitFormat* find_emit_format(std::string_view name) {
  const auto row =
      std::find_if(std::begin(kFormats), std::end(kFormats), [name](const EmitFormat& f) { return f.name == name; });
  return row == std::end(kFormats) ? nullptr : row;
}

void check_format_limits(const Manifest& manifest, const SourceFile& file, const EmitFormat& format, bool lossy,
                         Diagnostics& diagnostics) {
  if (device_count(manifest.mesh) > format.max_ranks) {
    report_message(diagnostics, Code::ResourceLimit, {file.id, 0, 0},
                   fmt::format("{} lists every rank for every parameter, but {} ranks exceed the limit of {}",
                               format.name, device_count(manifest.mesh), format.max_ranks));
  }
  for (const FormatLimit& row : format.limits) check_limit(manifest, file, format, row, lossy, diagnostics);
}

}  // namespace tpplan
