#include "render/baseline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>
#include <tuple>

#include "base/text.h"
#include "render/render_parts.h"
#include "syntax/json_reader.h"
#include "syntax/json_writer.h"

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

bool refuse(BaselineReader& reader, Code code, Span span, std::string message) {
  report_message(reader.diagnostics, code, span, std::move(message), std::string(kHelp));
  return false;
}

bool read_text(BaselineReader& reader, const JsonTree& tree, std::string_view name, std::string& text) {
  const uint32_t at = find_member(tree, 0, name);
  if (at == 0)
    return refuse(reader, Code::TP3002, value_span(reader.file.id, tree.nodes[0]),
                  fmt::format("a finding has no `{}`", name));
  if (tree.nodes[at].kind != JsonKind::String)
    return refuse(reader, Code::TP3003, value_span(reader.file.id, tree.nodes[at]),
                  fmt::format("`{}` of a finding is {}, not a string", name, json_kind_name(tree.nodes[at].kind)));
  text = tree.nodes[at].text;
  return true;
}

bool read_finding(BaselineReader& reader, const JsonTree& tree) {
  const Span span = value_span(reader.file.id, tree.nodes[0]);
  if (tree.nodes[0].kind != JsonKind::Object)
    return refuse(reader, Code::TP3003, span,
                  fmt::format("a finding is {}, not an object", json_kind_name(tree.nodes[0].kind)));
  KnownFinding finding;
  const std::pair<std::string_view, std::string*> members[] = {{"fingerprint", &finding.fingerprint},
                                                               {"code", &finding.code},
                                                               {"file", &finding.file},
                                                               {"message", &finding.message}};
  for (const auto& [name, text] : members) {
    if (!read_text(reader, tree, name, *text)) return false;
  }
  for (uint32_t at = 1; at < tree.nodes.size(); at = tree.nodes[at].end) {
    const std::string_view key = tree.nodes[at].key;
    if (std::ranges::none_of(members, [key](const auto& member) { return member.first == key; }))
      return refuse(reader, Code::TP3004, key_span(reader.file.id, tree.nodes[at]),
                    fmt::format("a finding has no member `{}`", key));
  }
  if (!reader.seen.insert(finding.fingerprint).second)
    return refuse(reader, Code::TP3003, span,
                  fmt::format("the fingerprint {} stands there twice", finding.fingerprint));
  reader.baseline.findings.push_back(std::move(finding));
  return true;
}

bool read_format(BaselineReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  reader.has_format = node.kind == JsonKind::String && node.text == kBaselineFormat;
  return reader.has_format || refuse(reader, Code::TP3003, value_span(reader.file.id, node),
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
            if (key == "findings") return JsonMember::Elements;
            if (key == "format") return JsonMember::Whole;
            is_good = refuse(reader, Code::TP3004, span, fmt::format("a baseline has no member `{}`", key));
            return JsonMember::Skip;
          },
      .value =
          [&](std::string_view key, const JsonTree& tree) {
            const bool is_element = key == "findings" && tree.nodes[0].key.empty();
            if (key == "findings" && !is_element)
              is_good = refuse(reader, Code::TP3003, value_span(file.id, tree.nodes[0]),
                               fmt::format("`findings` is {}, not an array", json_kind_name(tree.nodes[0].kind)));
            else
              is_good = (is_element ? read_finding(reader, tree) : read_format(reader, tree)) && is_good;
            return is_good;
          },
      .kind_help = kHelp};
  if (!read_json(file, visitor, strings, diagnostics) || !is_good) return false;
  return reader.has_format || refuse(reader, Code::TP3002, {file.id, 0, 1},
                                     fmt::format("the file has no `format`, which is \"{}\"", kBaselineFormat));
}

std::string to_json(const Baseline& baseline) {
  std::vector<KnownFinding> findings = baseline.findings;
  std::ranges::sort(findings, {},
                    [](const KnownFinding& f) { return std::tie(f.file, f.code, f.message, f.fingerprint); });
  return json_of([&](JsonWriter& json) {
           begin_object(json);
           next_line(json, 1);
           write_member(json, "format", kBaselineFormat);
           next_line(json, 1);
           write_key(json, "findings");
           begin_array(json);
           for (const KnownFinding& finding : findings) {
             next_line(json, 2);
             begin_object(json);
             write_member(json, "file", finding.file);
             write_member(json, "code", finding.code);
             write_member(json, "message", finding.message);
             write_member(json, "fingerprint", finding.fingerprint);
             end_object(json);
           }
           if (!findings.empty()) next_line(json, 1);
           end_array(json);
           next_line(json, 0);
           end_object(json);
         }) +
         "\n";
}

void add_findings(Baseline& baseline, const Diagnostics& diagnostics, const Sources& sources) {
  std::set<std::string, std::less<>> known;
  for (const KnownFinding& finding : baseline.findings) known.insert(finding.fingerprint);
  const std::vector<std::string> prints = fingerprints(diagnostics, sources);
  for (size_t i = 0; i < prints.size(); ++i) {
    const Diagnostic& d = diagnostics.list[i];
    if (kind_of(d.code).failure != Failure::Content || !known.insert(prints[i]).second) continue;
    const SourceFile* file = file_about(d.span, sources);
    baseline.findings.push_back({.fingerprint = prints[i],
                                 .code = std::string(kind_of(d.code).name),
                                 .file = file == nullptr ? "" : std::string(repository_path(file->name)),
                                 .message = d.message});
  }
}

FindingCounts remove_known(Diagnostics& diagnostics, const Sources& sources, const Baseline& baseline,
                           std::set<std::string, std::less<>>& met) {
  if (baseline.findings.empty()) return {};
  std::set<std::string_view> known;
  for (const KnownFinding& finding : baseline.findings) known.insert(finding.fingerprint);
  const std::vector<std::string> prints = fingerprints(diagnostics, sources);
  Diagnostics left, taken;
  for (size_t i = 0; i < prints.size(); ++i) {
    Diagnostic& d = diagnostics.list[i];
    const bool is_known = kind_of(d.code).failure == Failure::Content && known.contains(prints[i]);
    if (is_known) met.insert(prints[i]);
    (is_known ? taken : left).list.push_back(std::move(d));
  }
  diagnostics.list = std::move(left.list);
  return counts_of(taken);
}

}  // namespace tpplan
