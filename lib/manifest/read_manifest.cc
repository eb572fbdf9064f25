#include "manifest/read_manifest.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <deque>
#include <tuple>

#include "manifest/manifest_sections.h"
#include "manifest/text_digest.h"

namespace tpplan {
namespace {

bool read_format(ManifestReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (!expect(reader, node, JsonKind::String, "`format`")) return false;
  return node.text == kManifestFormat ||
         report_error(reader, Code::InvalidManifest, node,
                      fmt::format("format `{}` is not `{}`", node.text, kManifestFormat));
}

bool read_tool(ManifestReader& reader, const JsonTree& tree) {
  return expect(reader, tree.nodes[0], JsonKind::String, "`tool`");
}

bool read_digest(ManifestReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (!expect(reader, node, JsonKind::String, "`digest`")) return false;
  reader.digest = node.text;
  reader.digest_span = key_span(reader.file, node);
  reader.digest_end = tree.end;
  return true;
}

// Checks that the text has the digest that the manifest stores.
bool prove_digest(ManifestReader& reader) {
  const std::string_view text = reader.text;
  const size_t comma = text.substr(0, reader.digest_span.offset).find_last_not_of(" \t\r\n");
  const std::string_view behind = text.substr(std::min<size_t>(reader.digest_end, text.size()));
  TextDigest digest;
  if (comma != std::string_view::npos) add(digest, text.substr(0, comma));
  if (to_text(digest) == reader.digest && behind.find_first_not_of(" \t\r\n}") == std::string_view::npos) return true;
  report_message(reader.diagnostics, Code::ManifestChanged, reader.digest_span,
                 "the manifest was changed after it was written: its digest does not match its text",
                 "compile the plan again (tpplan compile MODEL PLAN -o MANIFEST), and make changes in the plan");
  return false;
}

bool read_inputs(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`inputs`")) return false;
  if (!expect_only_fields(reader, tree, 0, "`inputs`", {"model", "plan"})) return false;
  const uint32_t model = required_field(reader, tree, 0, "model", JsonKind::Object),
                 plan = required_field(reader, tree, 0, "plan", JsonKind::Object);
  if (model == 0 || plan == 0) return false;
  if (!expect_only_fields(reader, tree, plan, "`inputs.plan`", {"sha256"})) return false;
  if (!expect_only_fields(reader, tree, model, "`inputs.model`", {"name", "sha256"})) return false;
  const uint32_t name = required_field(reader, tree, model, "name", JsonKind::String),
                 model_hash = required_field(reader, tree, model, "sha256", JsonKind::String),
                 plan_hash = required_field(reader, tree, plan, "sha256", JsonKind::String);
  if (name == 0 || model_hash == 0 || plan_hash == 0) return false;
  reader.manifest.model_name = tree.nodes[name].text;
  reader.manifest.model_sha256 = tree.nodes[model_hash].text;
  reader.manifest.plan_sha256 = tree.nodes[plan_hash].text;
  return true;
}

constexpr std::pair<std::string_view, uint64_t ManifestTotals::*> kTotals[] = {
    {"parameters", &ManifestTotals::parameters},
    {"elements", &ManifestTotals::elements},
    {"bytes", &ManifestTotals::bytes},
    {"max_bytes_per_rank", &ManifestTotals::max_bytes_per_rank},
    {"ideal_bytes_per_rank", &ManifestTotals::ideal_bytes_per_rank},
    {"replicated_bytes_per_rank", &ManifestTotals::replicated_bytes_per_rank},
};

// Reads the totals. A negative number becomes a huge one, which never equals a sum.
bool read_totals(ManifestReader& reader, const JsonTree& tree) {
  reader.totals_span = value_span(reader.file, tree.nodes[0]);
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`totals`")) return false;
  if (!expect_only_fields(reader, tree, 0, "`totals`",
                          {"parameters", "elements", "bytes", "bytes_per_rank", "max_bytes_per_rank",
                           "ideal_bytes_per_rank", "replicated_bytes_per_rank"}))
    return false;
  for (const auto& [key, total] : kTotals) {
    const uint32_t at = required_field(reader, tree, 0, key, JsonKind::Integer);
    if (at == 0) return false;
    reader.written.*total = static_cast<uint64_t>(tree.nodes[at].integer);
  }
  const uint32_t per_rank = find_json_field(tree, 0, "bytes_per_rank");
  if (per_rank == 0 || tree.nodes[per_rank].kind != JsonKind::Array) return true;
  return for_each(tree, per_rank, [&](uint32_t i) {
    reader.written.bytes_per_rank.push_back(static_cast<uint64_t>(tree.nodes[i].integer));
    return expect(reader, tree.nodes[i], JsonKind::Integer, "a rank's bytes");
  });
}

struct FieldReader {
  std::string_view key;
  JsonField mode;
  bool (*read)(ManifestReader&, const JsonTree&);  // reads the field, or each of its elements
  bool is_optional = false;
};

// Readers of the fields, called in file order. Parameters need the mesh and the rules before them, and ties need the
// parameters. Only the collectives, step and costs are optional: of a model without operations they are unknown.
constexpr FieldReader kFields[] = {
    {"format", JsonField::Whole, read_format},
    {"inputs", JsonField::Whole, read_inputs},
    {"mesh", JsonField::Whole, read_mesh},
    {"uneven", JsonField::Whole, read_uneven},
    {"rules", JsonField::Elements, read_rule},
    {"parameters", JsonField::Elements, read_parameter},
    {"buffers", JsonField::Elements, read_buffer},
    {"tied", JsonField::Elements, read_tie},
    {"modules", JsonField::Elements, read_module},
    {"init", JsonField::Whole, read_init},
    {"data", JsonField::Whole, read_data},
    {"loss", JsonField::Whole, read_loss},
    {"fsdp", JsonField::Whole, read_fsdp},
    {"remat", JsonField::Whole, read_remat},
    {"local_attributes", JsonField::Whole, read_local_attributes, true},
    {"totals", JsonField::Whole, read_totals},
    {"collectives", JsonField::Elements, read_collective, true},
    {"step", JsonField::Whole, read_step, true},
    {"costs", JsonField::Whole, read_step_costs, true},
    {"tool", JsonField::Whole, read_tool},
    {"digest", JsonField::Whole, read_digest},
};

const FieldReader* row_of(std::string_view key) {
  const auto row =
      std::find_if(std::begin(kFields), std::end(kFields), [key](const FieldReader& r) { return r.key == key; });
  return row == std::end(kFields) ? nullptr : row;
}

bool is_as_written(const Manifest& manifest, const ParamLayout& layout, const std::vector<FileStep>& written) {
  return std::ranges::equal(written, layout.steps, [&](const FileStep& a, const ParamStep& b) {
    return a.part == b.part && a.collective == b.step.collective && a.elements == b.elements &&
           a.bytes == payload_bytes(layout, b) && a.sent == sent_bytes(layout, b, manifest.mesh);
  });
}

// Computes the steps of all parameters and compares them with those in the file. A buffer has none.
bool prove_steps(ManifestReader& reader) {
  Manifest& manifest = reader.manifest;
  std::vector<const FileSteps*> written(manifest.layouts.size());
  for (const FileSteps& steps : reader.steps) written[steps.layout] = &steps;
  std::vector<bool> is_param(manifest.layouts.size());
  for (const ManifestParam& param : manifest.parameters) is_param[param.layout] = true;
  for (size_t i = 0; i < manifest.layouts.size(); ++i) {
    ParamLayout& layout = manifest.layouts[i];
    if (is_param[i]) layout.steps = steps_of(manifest, layout);
    if (is_as_written(manifest, layout, written[i] == nullptr ? std::vector<FileStep>{} : written[i]->steps)) continue;
    return report_error(reader, Code::InconsistentManifest,
                        written[i] == nullptr ? reader.layout_spans[i] : written[i]->span,
                        "`steps` does not match the spec, `grad_reduce` and `fsdp`");
  }
  return true;
}

// Runs the checks that need the whole manifest.
void finish(ManifestReader& reader) {
  Manifest& manifest = reader.manifest;
  if (reader.init_span.length > 0 && reader.largest_init >= manifest.distributions.size()) {
    report_error(reader, Code::InconsistentManifest, reader.init_span,
                 fmt::format("distribution {} does not exist", reader.largest_init));
  }
  constexpr bool (*kProofs[])(ManifestReader&) = {prove_rules,      prove_boundaries,  prove_sent_dtypes,
                                                  prove_values,     prove_rule_counts, prove_both_boundaries,
                                                  prove_reductions, prove_steps,       prove_step};
  if (!std::ranges::all_of(kProofs, [&](const auto& prove) { return prove(reader); })) return;
  if (!sum_totals(manifest)) {
    report_error(reader, Code::InconsistentManifest, reader.totals_span, "the sums over the parameters exceed 64 bits");
  } else if (manifest.totals != reader.written) {
    report_error(reader, Code::InconsistentManifest, reader.totals_span,
                 "`totals` does not match the sums over the parameters");
  }
  manifest.totals = reader.written;
  if (!has_errors(reader.diagnostics)) std::ignore = prove_digest(reader);
}

}  // namespace

Manifest read_manifest(const SourceFile& file, Diagnostics& diagnostics) {
  Manifest manifest;
  ManifestReader reader{.manifest = manifest,
                        .file = file.id,
                        .diagnostics = diagnostics,
                        .text = file.text,
                        .written = {},
                        .totals_span = {},
                        .init_span = {},
                        .step_span = {},
                        .digest_span = {},
                        .digest = {},
                        .rule_spans = {},
                        .layout_spans = {},
                        .layout_index = {},
                        .paths = {},
                        .is_tied = {},
                        .modules = {},
                        .steps = {}};
  std::array<bool, std::size(kFields)> is_there{};
  const JsonVisitor visitor{
      .member =
          [&](std::string_view key, Span span) {
            const FieldReader* row = row_of(key);
            if (row == nullptr) {
              std::vector<std::string_view> names;
              for (const FieldReader& known : kFields) names.push_back(known.key);
              std::ignore = report_unknown_field(reader, span, "a manifest", key, names);
              return JsonField::Skip;
            }
            is_there[static_cast<size_t>(row - kFields)] = true;
            return row->mode;
          },
      .value = [&](std::string_view key, const JsonTree& tree) { return row_of(key)->read(reader, tree); },
      .kind_help = "write a manifest with `tpplan compile MODEL PLAN -o MANIFEST`"};
  std::deque<std::string> strings;
  if (!read_json(file, visitor, strings, diagnostics)) {
    if (!has_errors(diagnostics))
      report_error(reader, Code::InvalidManifest, {file.id, 0, 1}, "the manifest could not be read to its end");
    return manifest;
  }
  manifest.has_collectives = is_there[static_cast<size_t>(row_of("collectives") - kFields)];
  for (size_t i = 0; i < std::size(kFields); ++i) {
    if (kFields[i].is_optional || is_there[i]) continue;
    report_error(reader, Code::InvalidManifest, {file.id, 0, 1},
                 fmt::format("the manifest has no `{}`", kFields[i].key));
    return manifest;
  }
  finish(reader);
  return manifest;
}

}  // namespace tpplan
