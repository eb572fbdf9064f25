#include "model/model_reader.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr size_t kMaxErrors = 50;

}  // namespace

bool too_many_errors(const ModelReader& reader) { return reader.faults > kMaxErrors; }

void report_error(ModelReader& reader, Code code, Span span, std::string message, std::string help) {
  ++reader.faults;
  report_message(reader.diagnostics, code, span, std::move(message), std::move(help));
}

void report_error(ModelReader& reader, Code code, const JsonNode& node, std::string message, std::string help) {
  report_error(reader, code, value_span(reader.graph.file, node), std::move(message), std::move(help));
}

bool report_wrong_kind(ModelReader& reader, const JsonNode& node, JsonKind kind, std::string_view what) {
  const std::string_view found = node.kind == JsonKind::Number ? node.text : json_kind_name(node.kind);
  report_error(reader, Code::InvalidModelValue, node,
               fmt::format("{} is {}, not {}", what, found, json_kind_name(kind)));
  return false;
}

bool check_length(ModelReader& reader, std::string_view text, Span span) {
  if (text.size() <= kMaxPathBytes) return true;
  report_error(reader, Code::InvalidPath, span,
               fmt::format("a name has {} bytes, more than {}", text.size(), kMaxPathBytes));
  return false;
}

// Reports one counted diagnostic per key and kind of object, because an exporter with an extra key writes it
// everywhere.
void warn_unknown_key(ModelReader& reader, std::string_view where, std::string_view key, Span span,
                      std::span<const std::string_view> known) {
  Diagnostic* d = report(reader.diagnostics, Code::UnknownModelKey, span, fmt::format("{}/{}", where, key));
  if (d == nullptr) return;
  d->message = fmt::format("unknown key `{}` in {} is ignored", key, where);
  d->counted = "place";
  const std::string_view nearest = nearest_name(key, known);
  if (!nearest.empty()) d->help = fmt::format("did you mean `{}`?", nearest);
}

}  // namespace tpplan
