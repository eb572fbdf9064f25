#include "render/baseline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "base/starred_path.h"
#include "base/text.h"
#include "render/render_parts.h"
#include "text/json_reader.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

constexpr std::string_view kHelp = "write it with `tpplan check --baseline FILE --write-baseline`";

struct BaselineReader {
  const SourceFile& file;
  Baseline& baseline;
  Diagnostics& diagnostics;
  std::set<std::string, std::less<>> seen = {};
  bool has_format = false;
};

bool reject(BaselineReader& reader, Code code, Span span, std::string message) {
  report_message(reader.diagnostics, code, span, std::move(message), std::string(kHelp));
  return false;
}

bool read_text(BaselineReader& reader, const JsonTree& tree, std::string_view name, std::string& text) {
  const uint32_t at = find_json_field(tree, 0, name);
  if (at == 0)
    return reject(reader, Code::MissingPlanField, value_span(reader.file.id, tree.nodes[0]),
                  fmt::format("an entry of `findings` has no `{}`", name));
  if (tree.nodes[at].kind != JsonKind::String)
    return reject(
        reader, Code::InvalidPlanValue, value_span(reader.file.id, tree.nodes[at]),
        fmt::format("`{}` of an entry of `findings` is {}, not a string", name, json_kind_name(tree.nodes[at].kind)));
  text = tree.nodes[at].text;
  return true;
}

bool read_known_diagnostic(BaselineReader& reader, const JsonTree& tree) {
  const Span span = value_span(reader.file.id, tree.nodes[0]);
  if (tree.nodes[0].kind != JsonKind::Object)
    return reject(reader, Code::InvalidPlanValue, span,
                  fmt::format("an entry of `findings` is {}, not an object", json_kind_name(tree.nodes[0].kind)));
  BaselineEntry finding;
  const std::pair<std::string_view, std::string*> fields[] = {{"fingerprint", &finding.fingerprint},
                                                              {"code", &finding.code},
                                                              {"file", &finding.file},
                                                              {"message", &finding.message}};
  for (const auto& [name, text] : fields) {
    if (!read_text(reader, tree, name, *text)) return false;
  }
  if (find_json_field(tree, 0, "module") != 0 && !read_text(reader, tree, "module", finding.module)) return false;
  for (uint32_t at = 1; at < tree.nodes.size(); at = tree.nodes[at].end) {
    const std::string_view key = tree.nodes[at].key;
    if (key != "module" && std::ranges::none_of(fields, [key](const auto& member) { return member.first == key; }))
      return reject(reader, Code::UnknownPlanKey, key_span(reader.file.id, tree.nodes[at]),
                    fmt::format("an entry of `findings` has no key `{}`", key));
  }
  if (!reader.seen.insert(finding.fingerprint).second)
    return reject(reader, Code::InvalidPlanValue, span,
                  fmt::format("the fingerprint {} appears twice", finding.fingerprint));
  reader.baseline.findings.push_back(std::move(finding));
  return true;
}

bool read_format(BaselineReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  reader.has_format = node.kind == JsonKind::String && node.text == kBaselineFormat;
  return reader.has_format || reject(reader, Code::InvalidPlanValue, value_span(reader.file.id, node),
                                     fmt::format("`format` is not \"{}\"", kBaselineFormat));
}

}  // namespace

bool read_baseline(const SourceFile& file, Baseline& baseline, Diagnostics& diagnostics) {
  BaselineReader reader{.file = file, .baseline = baseline, .diagnostics = diagnostics};
  std::deque<std::string> strings;
  bool is_good = true;
  const JsonVisitor visitor{
      .member =
          [&](std::string_view key, Span span) {
            if (key == "findings") return JsonField::Elements;
            if (key == "format") return JsonField::Whole;
            is_good = reject(reader, Code::UnknownPlanKey, span, fmt::format("a baseline has no key `{}`", key));
            return JsonField::Skip;
          },
      .value =
          [&](std::string_view key, const JsonTree& tree) {
            const bool is_element = key == "findings" && tree.nodes[0].key.empty();
            if (key == "findings" && !is_element)
              is_good = reject(reader, Code::InvalidPlanValue, value_span(file.id, tree.nodes[0]),
                               fmt::format("`findings` is {}, not an array", json_kind_name(tree.nodes[0].kind)));
            else
              is_good = (is_element ? read_known_diagnostic(reader, tree) : read_format(reader, tree)) && is_good;
            return is_good;
          },
      .kind_help = kHelp};
  if (!read_json(file, visitor, strings, diagnostics) || !is_good) return false;
  return reader.has_format || reject(reader, Code::MissingPlanField, {file.id, 0, 1},
                                     fmt::format("the file has no `format`, which must be \"{}\"", kBaselineFormat));
}

std::string to_json(const Baseline& baseline) {
  std::vector<BaselineEntry> findings = baseline.findings;
  std::ranges::sort(findings, {},
                    [](const BaselineEntry& f) { return std::tie(f.file, f.code, f.message, f.fingerprint); });
  return json_of([&](JsonWriter& json) {
           begin_object(json);
           next_line(json, 1);
           write_field(json, "format", kBaselineFormat);
           next_line(json, 1);
           write_key(json, "findings");
           begin_array(json);
           for (const BaselineEntry& finding : findings) {
             next_line(json, 2);
             begin_object(json);
             write_field(json, "file", finding.file);
             write_field(json, "code", finding.code);
             if (!finding.module.empty()) write_field(json, "module", finding.module);
             write_field(json, "message", finding.message);
             write_field(json, "fingerprint", finding.fingerprint);
             end_object(json);
           }
           if (!findings.empty()) next_line(json, 1);
           end_array(json);
           next_line(json, 0);
           end_object(json);
         }) +
         "\n";
}

void add_diagnostics(Baseline& baseline, const Diagnostics& diagnostics, const Sources& sources) {
  std::set<std::string, std::less<>> known;
  for (const BaselineEntry& finding : baseline.findings) known.insert(finding.fingerprint);
  const std::vector<std::string> prints = fingerprints(diagnostics, sources);
  for (size_t i = 0; i < prints.size(); ++i) {
    const Diagnostic& d = diagnostics.list[i];
    if (kind_of(d.code).failure != Failure::Content || !known.insert(prints[i]).second) continue;
    const SourceFile* file = file_about(d.span, sources);
    baseline.findings.push_back({.fingerprint = prints[i],
                                 .code = std::string(kind_of(d.code).id),
                                 .file = file == nullptr ? "" : std::string(repository_path(file->name)),
                                 .message = d.message,
                                 .module = starred_path(d.module)});
  }
}

KnownFilter baseline_filter(const Baseline& baseline) {
  if (baseline.findings.empty()) return {};
  const auto key_of = [](std::string_view code, std::string_view message) {
    return fmt::format("{} {}", code, message);
  };
  const auto known = std::make_shared<std::set<std::string>>();
  for (const BaselineEntry& finding : baseline.findings) known->insert(key_of(finding.code, finding.message));
  return [known, key_of](const Diagnostic& d) { return known->contains(key_of(kind_of(d.code).id, d.message)); };
}

Diagnostics remove_known(Diagnostics& diagnostics, const Sources& sources, const Baseline& baseline,
                         std::set<std::string, std::less<>>& met) {
  if (baseline.findings.empty()) return {};
  std::set<std::string_view> known;
  std::set<std::pair<std::string_view, std::string_view>> walked;  // files and modules
  for (const BaselineEntry& finding : baseline.findings) {
    known.insert(finding.fingerprint);
    const DiagnosticKind* kind = find_kind(finding.code);
    if (kind != nullptr && !kind->is_heuristic && !finding.module.empty()) walked.emplace(finding.file, finding.module);
  }
  const auto is_known_module = [&](const Diagnostic& d) {
    const SourceFile* file = file_about(d.span, sources);
    return kind_of(d.code).is_heuristic && file != nullptr &&
           walked.contains({repository_path(file->name), starred_path(d.module)});
  };
  const std::vector<std::string> prints = fingerprints(diagnostics, sources);
  Diagnostics left, taken;
  for (size_t i = 0; i < prints.size(); ++i) {
    Diagnostic& d = diagnostics.list[i];
    const bool is_recorded = kind_of(d.code).failure == Failure::Content && known.contains(prints[i]);
    if (is_recorded) met.insert(prints[i]);
    const bool is_known = is_recorded || is_known_module(d);
    (is_known ? taken : left).list.push_back(std::move(d));
  }
  diagnostics.list = std::move(left.list);
  return taken;
}

}  // namespace tpplan
