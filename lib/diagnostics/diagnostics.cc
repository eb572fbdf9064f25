#include "diagnostics/diagnostics.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "base/text.h"

namespace tpplan {

const std::vector<DiagnosticKind>& diagnostic_kinds() {
  static const std::vector<DiagnosticKind> kinds = {
#define TPPLAN_DIAGNOSTIC(code, severity, failure, title) \
  {Code::code, #code, Severity::severity, Failure::failure, title},
#include "diagnostics/diagnostic_kinds.def"
#undef TPPLAN_DIAGNOSTIC
  };
  return kinds;
}

const DiagnosticKind& kind_of(Code code) { return diagnostic_kinds()[static_cast<size_t>(code)]; }

const DiagnosticKind* find_kind(std::string_view name) {
  const auto same = [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; };
  for (const DiagnosticKind& kind : diagnostic_kinds()) {
    if (std::equal(name.begin(), name.end(), kind.name.begin(), kind.name.end(), same)) return &kind;
  }
  return nullptr;
}

namespace {

std::string place_key(const Span& span) {
  return std::to_string(static_cast<int>(span.file)) + "@" + std::to_string(span.offset);
}

// A new entry of the list, or nullptr after counting it when the list holds enough of its code.
Diagnostic* add(Diagnostics& diagnostics, Code code, Span span, uint64_t times) {
  const auto index = static_cast<size_t>(code);
  if (diagnostics.tallies.size() <= index) diagnostics.tallies.resize(diagnostic_kinds().size());
  CodeTally& tally = diagnostics.tallies[index];
  if (tally.listed == kMaxListedPerCode) {
    diagnostics.list[tally.last].unlisted += times;
    return nullptr;
  }
  ++tally.listed;
  tally.last = diagnostics.list.size();
  Diagnostic& fresh = diagnostics.list.emplace_back();
  fresh.code = code;
  fresh.severity = kind_of(code).severity;
  fresh.span = span;
  fresh.count = times;
  return &fresh;
}

// How much of a message, a label, a note or a help is shown.
constexpr size_t kShownText = 640;

}  // namespace

Diagnostic* report(Diagnostics& diagnostics, Code code, Span span, std::string_view group, uint64_t times) {
  std::string cause(kind_of(code).name);
  cause += group.empty() ? place_key(span) : std::string(group);
  if (const auto known = diagnostics.causes.find(cause); known != diagnostics.causes.end()) {
    diagnostics.list[known->second].count += times;
    return nullptr;
  }
  Diagnostic* fresh = add(diagnostics, code, span, times);
  if (fresh != nullptr) diagnostics.causes.emplace(std::move(cause), diagnostics.list.size() - 1);
  return fresh;
}

Diagnostic& report_message(Diagnostics& diagnostics, Code code, Span span, std::string message, std::string help) {
  Diagnostic* fresh = add(diagnostics, code, span, 1);
  if (fresh == nullptr) return diagnostics.dropped = {};
  fresh->message = std::move(message);
  fresh->help = std::move(help);
  return *fresh;
}

bool has_errors(const Diagnostics& diagnostics) {
  return std::any_of(diagnostics.list.begin(), diagnostics.list.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::Error; });
}

void finish_diagnostics(Diagnostics& diagnostics) {
  std::stable_sort(diagnostics.list.begin(), diagnostics.list.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.span.file, a.span.offset) < std::tie(b.span.file, b.span.offset);
  });
  diagnostics.causes.clear();
  diagnostics.tallies.clear();
  for (Diagnostic& d : diagnostics.list) {
    shorten(d.message, kShownText);
    shorten(d.label, kShownText);
    shorten(d.help, kShownText);
    for (Note& note : d.notes) shorten(note.text, kShownText);
  }
}

int exit_status(Failure failure) { return failure == Failure::Limit ? 3 : failure == Failure::Input ? 2 : 1; }

int exit_status(const Diagnostics& diagnostics) {
  int status = 0;
  for (const Diagnostic& d : diagnostics.list) {
    if (d.severity != Severity::Error) continue;
    // A warning that was made an error is about content that could be read.
    const Failure failure = kind_of(d.code).severity == Severity::Warning ? Failure::Content : kind_of(d.code).failure;
    status = std::max(status, exit_status(failure));
  }
  return status;
}

void apply_severity_rules(Diagnostics& diagnostics, const SeverityRules& rules) {
  const auto names = [](const std::vector<Code>& codes, Code code) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  std::erase_if(diagnostics.list,
                [&](const Diagnostic& d) { return d.severity == Severity::Warning && names(rules.allow, d.code); });
  for (Diagnostic& d : diagnostics.list) {
    if (rules.strict || names(rules.deny, d.code)) d.severity = Severity::Error;
  }
}

}  // namespace tpplan
