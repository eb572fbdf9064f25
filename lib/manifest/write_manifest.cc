#include "manifest/write_manifest.h"

#include <functional>
#include <utility>

#include "manifest/manifest_json.h"
#include "manifest/text_digest.h"

namespace tpplan {
namespace {

// Writes the fields of a parameter after its path.
void write_layout(JsonWriter& json, const ParamLayout& layout, const Mesh& mesh) {
  write_key(json, "shape");
  write_array(json, layout.shape);
  write_field(json, "dtype", dtypes()[layout.dtype].name);
  write_key(json, "spec");
  write_spec(json, layout.sharding.spec, mesh);
  write_key(json, "placements");
  write_placements(json, layout.placements);
  if (!layout.sharding.segments.empty()) {
    write_key(json, "segments");
    write_segments(json, layout.sharding.segments);
  }
  write_key(json, "local_shape");
  if (layout.local_shapes.size() == 1) {
    write_array(json, layout.local_shapes[0]);
  } else {
    write_value(json, nullptr);
    write_key(json, "local_shapes");
    write_shapes(json, layout.local_shapes);
  }
  if (!is_replicated(layout.sharding.spec)) {
    write_key(json, "offsets");
    write_offsets(json, offsets_of(layout.shape, layout.sharding, mesh));
  }
  write_key(json, "style");
  write_optional(json, layout.style);
  write_key(json, "rule");
  if (layout.rule == kNoManifestRule)
    write_value(json, nullptr);
  else
    write_value(json, layout.rule);
  write_field(json, "reason", layout.reason);
  write_field(json, "replicas", layout.replicas);
  if (layout.norm_divisor != 0) write_field(json, "norm_weight", norm_weight_text(layout));
  write_key(json, "grad_reduce");
  write_grad_reduce(json, layout.grad_reduce, mesh);
  if (!layout.steps.empty()) {
    write_key(json, "steps");
    write_param_steps(json, layout, mesh);
  }
  if (!layout.kind.empty()) write_field(json, "kind", layout.kind);
  if (!layout.dims.empty()) {
    write_key(json, "dims");
    write_array(json, layout.dims);
  }
  write_key(json, "init");
  if (layout.init == kNoInit)
    write_value(json, nullptr);
  else
    write_value(json, layout.init);
}

// Writes the fields of a module after its path.
void write_layout(JsonWriter& json, const ModuleLayout& module, const Mesh& mesh) {
  write_field(json, "style", module.style);
  write_field(json, "rule", module.rule);
  write_key(json, "inputs");
  write_values(json, module.inputs, mesh);
  write_key(json, "outputs");
  write_values(json, module.outputs, mesh);
}

void write_rule(JsonWriter& json, const ManifestRule& rule, const Mesh& mesh) {
  begin_object(json);
  if (rule.in_block) write_field(json, "block", rule.block);
  write_field(json, "key", rule.key);
  write_field(json, "line", rule.line);
  write_field(json, "matches", rule.matches);
  write_field(json, "modules", rule.modules);
  write_sent_dtypes(json, rule.forward_dtype, rule.backward_dtype);
  if (rule.sums != kNoAxis) write_field(json, "sums", mesh.axes[rule.sums].name);
  write_rule_facts(json, rule, mesh);
  end_object(json);
}

void write_inputs(JsonWriter& json, const Manifest& m) {
  begin_object(json);
  write_key(json, "model");
  begin_object(json);
  write_field(json, "name", m.model_name);
  write_field(json, "sha256", m.model_sha256);
  end_object(json);
  write_key(json, "plan");
  begin_object(json);
  write_field(json, "sha256", m.plan_sha256);
  end_object(json);
  end_object(json);
}

void write_init(JsonWriter& json, const std::vector<Distribution>& distributions) {
  begin_object(json);
  write_field(json, "algorithm", kInitAlgorithm);
  write_key(json, "distributions");
  write_array(json, distributions, [&](const Distribution& d) { write_distribution(json, d); });
  end_object(json);
}

void write_totals(JsonWriter& json, const ManifestTotals& t) {
  begin_object(json);
  write_field(json, "parameters", t.parameters);
  write_field(json, "elements", t.elements);
  write_field(json, "bytes", t.bytes);
  write_key(json, "bytes_per_rank");
  if (t.bytes_per_rank.empty())
    write_value(json, nullptr);
  else
    write_array(json, t.bytes_per_rank);
  write_field(json, "max_bytes_per_rank", t.max_bytes_per_rank);
  write_field(json, "ideal_bytes_per_rank", t.ideal_bytes_per_rank);
  write_field(json, "replicated_bytes_per_rank", t.replicated_bytes_per_rank);
  end_object(json);
}

// Writes a key of the manifest object on a new line.
void write_top_key(JsonWriter& json, std::string_view key) {
  next_line(json, 1);
  write_key(json, key);
}

// Writes an array with one item per line.
template <typename Range, typename Write>
void write_lines(JsonWriter& json, std::string_view key, const Range& items, Write write) {
  write_top_key(json, key);
  begin_array(json);
  for (const auto& item : items) {
    next_line(json, 2);
    write(item);
  }
  if (!items.empty()) next_line(json, 1);
  end_array(json);
}

// The fields of a layout as text, because a million parameters have a dozen layouts.
struct LayoutText {
  std::string text;
  std::string tight;  // without blanks
};

template <typename Layout>
std::vector<LayoutText> layout_texts(const std::vector<Layout>& layouts, const Mesh& mesh) {
  std::vector<LayoutText> texts;
  for (const Layout& layout : layouts) {
    JsonWriter json, tight{.is_tight = true};
    write_layout(json, layout, mesh);
    write_layout(tight, layout, mesh);
    texts.push_back({std::move(json.out), std::move(tight.out)});
  }
  return texts;
}

// Writes an entry: the path, as JSON text, and the fields of its layout. The path comes first, because the reader
// recognizes a layout by the text after it (find_layout).
void write_row(JsonWriter& json, std::string_view path, std::string_view layout) {
  begin_object(json);
  write_key(json, "path");
  write_json(json, path);
  write_json(json, layout);
  end_object(json);
}

struct ManifestOutput {
  const Sink& sink;    // of the file
  TextDigest& digest;  // of the text so far
  JsonWriter& json;    // its sink adds the text to the digest and sends it to `sink`
};

// Writes one row per line. The digest receives a second text without blanks, because removing them from the first costs
// more than writing a row twice.
template <typename Row>
void write_rows(const ManifestOutput& output, std::string_view key, const std::vector<Row>& rows,
                const std::function<std::string_view(uint32_t)>& path_of_row, const std::vector<LayoutText>& layouts) {
  JsonWriter& json = output.json;
  write_top_key(json, key);
  begin_array(json);
  flush_json(json);
  const Sink digest_sink = [&output](std::string_view text) {
    add(output.digest.hash, text);
    return true;
  };
  JsonWriter tight{.sink = &digest_sink, .is_tight = true};
  const Sink* const digested_sink = std::exchange(json.sink, &output.sink);
  std::string path;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const LayoutText& layout = layouts[rows[i].layout];
    path.clear();
    append_json_string(path, path_of_row(i));
    next_line(json, 2);
    write_row(json, path, layout.text);
    write_row(tight, path, layout.tight);
  }
  flush_json(json);
  flush_json(tight);
  json.sink = digested_sink;
  if (!rows.empty()) next_line(json, 1);
  end_array(json);
}

void write_collective(JsonWriter& json, const CollectiveCall& call, const Mesh& mesh) {
  begin_object(json);
  write_field(json, "phase", call.backward ? "backward" : "forward");
  write_field(json, "kind", to_text(call.kind));
  write_field(json, "axis", mesh.axes[call.axis].name);
  write_field(json, "module", call.module);
  write_key(json, "shape");
  write_array(json, call.shape);
  write_field(json, "dtype", call.dtype);
  write_field(json, "bytes", call.bytes);
  if (call.hidden) write_field(json, "hidden", true);
  if (!call.operation.empty()) write_field(json, "operation", call.operation);
  end_object(json);
}

}  // namespace

// Writes fields in the order that the reader needs (kFields of read_manifest.cc): mesh and rules before the
// parameters, ties after them, then the totals. The digest of all preceding text is last.
bool write_manifest(const Manifest& manifest, const ManifestPaths& paths, const Sink& sink) {
  TextDigest digest;
  const Sink digested_sink = [&](std::string_view text) {
    add(digest, text);
    return sink(text);
  };
  JsonWriter json{.sink = &digested_sink};
  const ManifestOutput output{.sink = sink, .digest = digest, .json = json};
  const std::vector<LayoutText> layouts = layout_texts(manifest.layouts, manifest.mesh);
  begin_object(json);
  write_top_key(json, "format");
  write_value(json, kManifestFormat);
  write_top_key(json, "tool");
  write_value(json, kToolVersion);
  write_top_key(json, "inputs");
  write_inputs(json, manifest);
  write_top_key(json, "mesh");
  write_mesh(json, manifest.mesh);
  write_top_key(json, "uneven");
  write_value(json, to_text(manifest.uneven));
  write_lines(json, "rules", manifest.rules, [&](const ManifestRule& rule) { write_rule(json, rule, manifest.mesh); });
  write_rows(output, "parameters", manifest.parameters, paths.parameter, layouts);
  write_rows(output, "modules", manifest.modules, paths.module, layout_texts(manifest.module_layouts, manifest.mesh));
  write_rows(output, "buffers", manifest.buffers, paths.buffer, layouts);
  write_lines(json, "tied", manifest.tied, [&](const std::vector<uint32_t>& tie) {
    write_array(json, tie, [&](uint32_t p) { write_value(json, paths.parameter(p)); });
  });
  if (manifest.has_collectives) {
    write_lines(json, "collectives", manifest.collectives,
                [&](const CollectiveCall& call) { write_collective(json, call, manifest.mesh); });
    write_top_key(json, "step");
    write_step(json, manifest.step, manifest.mesh);
    if (manifest.costs.is_there) {
      write_top_key(json, "costs");
      write_step_costs(json, manifest.costs);
    }
  }
  write_top_key(json, "data");
  write_data(json, manifest.data, manifest.mesh);
  write_top_key(json, "loss");
  write_loss(json, manifest.loss, manifest.mesh);
  write_top_key(json, "fsdp");
  write_fsdp(json, manifest.fsdp, manifest.mesh);
  write_top_key(json, "remat");
  write_array(json, manifest.remat);
  if (manifest.local_attributes) {
    write_top_key(json, "local_attributes");
    write_local_attributes(json, manifest.local_attributes, manifest.mesh);
  }
  write_top_key(json, "init");
  write_init(json, manifest.distributions);
  write_top_key(json, "totals");
  write_totals(json, manifest.totals);
  // Adds the text that is not sent yet. The digest does not cover the text after this point.
  add(digest, json.out);
  json.sink = &sink;
  write_top_key(json, "digest");
  write_value(json, to_text(digest));
  next_line(json, 0);
  end_object(json);
  return finish_json(json);
}

std::string param_json(const Manifest& manifest, const ManifestParam& param) {
  return json_of([&](JsonWriter& json) {
    begin_object(json);
    write_field(json, "path", path_of(manifest, param));
    write_layout(json, layout_of(manifest, param), manifest.mesh);
    end_object(json);
  });
}

}  // namespace tpplan
