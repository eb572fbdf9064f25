#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>

#include "base/text.h"
#include "sharding/distribution.h"
#include "sharding/redistribute.h"
#include "sharding/steps.h"
#include "text/json_reader.h"
#include "topology/read_timings.h"

namespace tpplan {
namespace {

struct TimingsReader {
  const SourceFile& file;
  Diagnostics& diagnostics;
  Timings timings;
};

// Reports an error of the run; the same error of several calls is one diagnostic.
void reject_run(TimingsReader& r, Span span, std::string message) {
  Diagnostic* d = report(r.diagnostics, Code::InvalidTimings, span, message);
  if (d == nullptr) return;
  d->message = std::move(message);
  d->help = "give the output of tpplan-exec run --json";
}

// Reads a field that must be a positive number. Reports an error otherwise.
bool positive_field(TimingsReader& r, const JsonTree& tree, uint32_t call, std::string_view name, double& value) {
  const uint32_t at = find_json_field(tree, call, name);
  const JsonNode& node = tree.nodes[at == 0 ? call : at];
  if (at == 0) {
    reject_run(r, value_span(r.file.id, node), fmt::format("a collective has no `{}`", name));
    return false;
  }
  const bool is_number =
      node.kind == JsonKind::Integer || (node.kind == JsonKind::Number && parse_number(node.text, value));
  if (node.kind == JsonKind::Integer) value = static_cast<double>(node.integer);
  if (is_number && value > 0) return true;
  reject_run(r, value_span(r.file.id, node),
             fmt::format("`{}` of a collective is {}", name, is_number ? "not above 0" : json_kind_name(node.kind)));
  return false;
}

std::string_view text_of(const JsonTree& tree, uint32_t parent, std::string_view name) {
  const uint32_t at = find_json_field(tree, parent, name);
  return at != 0 && tree.nodes[at].kind == JsonKind::String ? tree.nodes[at].text : std::string_view{};
}

void read_call(TimingsReader& r, const JsonTree& tree, uint32_t call) {
  const Span span = value_span(r.file.id, tree.nodes[call]);
  const std::string_view axis = text_of(tree, call, "axis");
  CollectiveKind kind{};
  if (axis.empty() || !find_collective(text_of(tree, call, "kind"), kind))
    return reject_run(r, span, "a collective has no known `kind` or no `axis`");
  if (kind == CollectiveKind::LocalSlice) return;
  double ranks = 0, bytes = 0, seconds = 0;
  if (!positive_field(r, tree, call, "ranks", ranks) || !positive_field(r, tree, call, "bytes", bytes) ||
      !positive_field(r, tree, call, "seconds", seconds))
    return;
  auto known =
      std::find_if(r.timings.axes.begin(), r.timings.axes.end(), [&](const AxisTimings& a) { return a.axis == axis; });
  if (known == r.timings.axes.end())
    known =
        r.timings.axes.insert(known, {.axis = std::string(axis), .ranks = static_cast<int64_t>(ranks), .span = span});
  if (known->ranks != static_cast<int64_t>(ranks) || ranks < 2)
    return reject_run(r, span,
                      fmt::format("{} ranks took part along `{}`, but {} elsewhere", ranks, axis, known->ranks));
  known->calls.push_back({.passes = ring_passes(kind), .ranks = known->ranks, .bytes = bytes, .seconds = seconds});
}

void read_entry(TimingsReader& r, const JsonTree& tree) {
  const uint32_t wrong = find_json_field(tree, 0, "wrong"), calls = find_json_field(tree, 0, "collectives");
  if (wrong != 0 && tree.nodes[wrong].integer > 0)
    reject_run(r, value_span(r.file.id, tree.nodes[wrong]),
               "a redistribution has wrong results, so its time is not used");
  if (calls == 0 || tree.nodes[calls].kind != JsonKind::Array)
    return reject_run(r, value_span(r.file.id, tree.nodes[0]), "a redistribution has no list `collectives`");
  for (uint32_t at = calls + 1; at < tree.nodes[calls].end; at = tree.nodes[at].end) {
    if (tree.nodes[at].kind == JsonKind::Object)
      read_call(r, tree, at);
    else
      reject_run(r, value_span(r.file.id, tree.nodes[at]), "a collective is not an object");
  }
}

}  // namespace

Timings read_run_timings(const SourceFile& file, Diagnostics& diagnostics) {
  Diagnostics own;
  TimingsReader r{.file = file, .diagnostics = own};
  std::deque<std::string> strings;
  const JsonVisitor visitor{
      .member =
          [](std::string_view key, Span) {
            if (key == "device") return JsonField::Whole;
            return key == "redistributions" ? JsonField::Elements : JsonField::Skip;
          },
      .value =
          [&](std::string_view key, const JsonTree& tree) {
            if (key == "device" && tree.nodes[0].kind == JsonKind::String) {
              r.timings.device = tree.nodes[0].text;
              r.timings.device_span = value_span(file.id, tree.nodes[0]);
            } else if (tree.nodes[0].key.empty() && tree.nodes[0].kind == JsonKind::Object) {  // an element
              read_entry(r, tree);
            } else {
              reject_run(r, value_span(file.id, tree.nodes[0]), "this is not the output of tpplan-exec run --json");
            }
            return true;
          }};
  const bool is_read = read_json(file, visitor, strings, own);
  if (is_read && r.timings.axes.empty() && !has_errors(own))
    reject_run(r, {file.id, 0, 1}, "the file has no timed collective");
  diagnostics.list.insert(diagnostics.list.end(), own.list.begin(), own.list.end());
  return std::move(r.timings);
}

}  // namespace tpplan
