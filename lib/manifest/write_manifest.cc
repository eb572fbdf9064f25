#include "manifest/write_manifest.h"

#include "manifest/manifest_json.h"
#include "manifest/text_digest.h"

namespace tpplan {
namespace {

// The members of a parameter behind its path.
void write_layout(JsonWriter& json, const ParamLayout& layout, const Mesh& mesh) {
  write_key(json, "shape");
  write_array(json, layout.shape);
  write_member(json, "dtype", dtypes()[layout.dtype].name);
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
  write_member(json, "reason", layout.reason);
  write_member(json, "replicas", layout.replicas);
  if (layout.norm_divisor != 0) write_member(json, "norm_weight", norm_weight_text(layout));
  write_key(json, "grad_reduce");
  write_grad_reduce(json, layout.grad_reduce, mesh);
  if (!layout.steps.empty()) {
    write_key(json, "steps");
    write_param_steps(json, layout, mesh);
  }
  if (!layout.kind.empty()) write_member(json, "kind", layout.kind);
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

// The members of a module behind its path.
void write_layout(JsonWriter& json, const ModuleLayout& module, const Mesh& mesh) {
  write_member(json, "style", module.style);
  write_member(json, "rule", module.rule);
  write_key(json, "inputs");
  write_values(json, module.inputs, mesh);
  write_key(json, "outputs");
  write_values(json, module.outputs, mesh);
}

void write_rule(JsonWriter& json, const ManifestRule& rule, const Mesh& mesh) {
  begin_object(json);
  if (rule.in_block) write_member(json, "block", rule.block);
  write_member(json, "key", rule.key);
  write_member(json, "line", rule.line);
  write_member(json, "matches", rule.matches);
  if (rule.modules) write_member(json, "modules", *rule.modules);
  write_sent_dtypes(json, rule.forward_dtype, rule.backward_dtype);
  if (rule.sums != kNoAxis) write_member(json, "sums", mesh.axes[rule.sums].name);
  write_rule_facts(json, rule, mesh);
  end_object(json);
}

void write_inputs(JsonWriter& json, const Manifest& m) {
  begin_object(json);
  write_key(json, "model");
  begin_object(json);
  write_member(json, "name", m.model_name);
  write_member(json, "sha256", m.model_sha256);
  end_object(json);
  write_key(json, "plan");
  begin_object(json);
  write_member(json, "sha256", m.plan_sha256);
  end_object(json);
  end_object(json);
}

void write_init(JsonWriter& json, const std::vector<Distribution>& distributions) {
  begin_object(json);
  write_member(json, "algorithm", kInitAlgorithm);
  write_key(json, "distributions");
  write_array(json, distributions, [&](const Distribution& d) { write_distribution(json, d); });
  end_object(json);
}

void write_totals(JsonWriter& json, const ManifestTotals& t) {
  begin_object(json);
  write_member(json, "parameters", t.parameters);
  write_member(json, "elements", t.elements);
  write_member(json, "bytes", t.bytes);
  write_key(json, "bytes_per_rank");
  if (t.bytes_per_rank.empty())
    write_value(json, nullptr);
  else
    write_array(json, t.bytes_per_rank);
  write_member(json, "max_bytes_per_rank", t.max_bytes_per_rank);
  write_member(json, "ideal_bytes_per_rank", t.ideal_bytes_per_rank);
  write_member(json, "replicated_bytes_per_rank", t.replicated_bytes_per_rank);
  end_object(json);
}

// A member of the manifest itself: each on a line of its own.
void write_top_key(JsonWriter& json, std::string_view key) {
  next_line(json, 1);
  write_key(json, key);
}

// One item a line.
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

// `layout` holds members, as text: a million parameters have a dozen layouts.
// The path comes first and the rest is one text: the reader knows a layout that it has seen by this text (find_layout).
void write_path(JsonWriter& json, std::string_view path, std::string_view layout) {
  begin_object(json);
  write_member(json, "path", path);
  write_json(json, layout);
  end_object(json);
}

template <typename Layout>
std::vector<std::string> layout_texts(const std::vector<Layout>& layouts, const Mesh& mesh) {
  std::vector<std::string> texts;
  for (const Layout& layout : layouts)
    texts.push_back(json_of([&](JsonWriter& json) { write_layout(json, layout, mesh); }));
  return texts;
}

void write_collective(JsonWriter& json, const CollectiveCall& call, const Mesh& mesh) {
  begin_object(json);
  write_member(json, "phase", call.backward ? "backward" : "forward");
  write_member(json, "kind", to_text(call.kind));
  write_member(json, "axis", mesh.axes[call.axis].name);
  write_member(json, "module", call.module);
  write_key(json, "shape");
  write_array(json, call.shape);
  write_member(json, "dtype", call.dtype);
  write_member(json, "bytes", call.bytes);
  if (call.hidden) write_member(json, "hidden", true);
  end_object(json);
}

}  // namespace

// Members stand where a reader needs them: mesh and rules before the parameters that name them, ties behind these, sums
// at the end (kMembers of read_manifest.cc), and behind all the digest of it.
bool write_manifest(const Manifest& manifest, const Sink& sink) {
  TextDigest digest;
  const Sink hashed = [&](std::string_view text) {
    add(digest, text);
    return sink(text);
  };
  const std::vector<std::string> layouts = layout_texts(manifest.layouts, manifest.mesh);
  const std::vector<std::string> module_layouts = layout_texts(manifest.module_layouts, manifest.mesh);
  JsonWriter json{.sink = &hashed};
  const auto write_param = [&](const ManifestParam& p) { write_path(json, path_of(manifest, p), layouts[p.layout]); };
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
  write_lines(json, "parameters", manifest.parameters, write_param);
  write_lines(json, "modules", manifest.modules,
              [&](const ManifestModule& m) { write_path(json, path_of(manifest, m), module_layouts[m.layout]); });
  write_lines(json, "buffers", manifest.buffers, write_param);
  write_lines(json, "tied", manifest.tied, [&](const std::vector<uint32_t>& tie) {
    write_array(json, tie, [&](uint32_t p) { write_value(json, path_of(manifest, manifest.parameters[p])); });
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
  write_top_key(json, "init");
  write_init(json, manifest.distributions);
  write_top_key(json, "totals");
  write_totals(json, manifest.totals);
  // What is not sent yet is counted here, and what follows not at all.
  add(digest, json.out);
  json.sink = &sink;
  write_top_key(json, "digest");
  write_value(json, to_text(digest));
  next_line(json, 0);
  end_object(json);
  return finish(json);
}

std::string param_json(const Manifest& manifest, const ManifestParam& param) {
  return json_of([&](JsonWriter& json) {
    begin_object(json);
    write_member(json, "path", path_of(manifest, param));
    write_layout(json, layout_of(manifest, param), manifest.mesh);
    end_object(json);
  });
}

}  // namespace tpplan
