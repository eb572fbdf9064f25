#include "diagnostics/diagnostics.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "base/text.h"

namespace tpplan {

namespace {

// Returns a name in kebab case: "UnmatchedRule" as "unmatched-rule".
std::string kebab_case(std::string_view words) {
  std::string out;
  for (const char c : words) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0 && !out.empty()) out += '-';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

}  // namespace

const std::vector<DiagnosticKind>& diagnostic_kinds() {
  static const std::vector<DiagnosticKind> kinds = {
#define TPPLAN_DIAGNOSTIC(id_, code_, severity_, failure_, title_, ...) \
  {.code = Code::code_,                                                 \
   .id = #id_,                                                          \
   .name = kebab_case(#code_),                                          \
   .severity = Severity::severity_,                                     \
   .failure = Failure::failure_,                                        \
   .title = title_,                                                     \
   __VA_ARGS__},
#include "diagnostics/diagnostic_kinds.def"
#undef TPPLAN_DIAGNOSTIC
  };
  return kinds;
}

std::string_view to_text(FirstFailure failure) {
  static constexpr std::string_view names[] = {"", "apply", "forward", "output", "gradient"};
  static_assert(std::size(names) == static_cast<size_t>(FirstFailure::Gradient) + 1);
  return names[static_cast<size_t>(failure)];
}

const DiagnosticKind& kind_of(Code code) { return diagnostic_kinds()[static_cast<size_t>(code)]; }

const DiagnosticKind* find_kind(std::string_view id_or_name) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  const auto is_same = [&](std::string_view text) { return std::ranges::equal(id_or_name, text, {}, lower, lower); };
  const std::vector<DiagnosticKind>& kinds = diagnostic_kinds();
  const auto found =
      std::ranges::find_if(kinds, [&](const DiagnosticKind& kind) { return is_same(kind.id) || is_same(kind.name); });
  return found == kinds.end() ? nullptr : &*found;
}

namespace {

std::string place_key(const Span& span) {
  return std::to_string(static_cast<int>(span.file)) + "@" + std::to_string(span.offset);
}

// Adds a diagnostic to the list and returns it. If the list has kMaxListedPerCode of this code, only counts it and
// returns nullptr.
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
  fresh.help = kind_of(code).help;
  fresh.span = span;
  fresh.count = times;
  return &fresh;
}

// The maximum length of a message, a label, a note or a help.
constexpr size_t kShownText = 640;

}  // namespace

Diagnostic* report(Diagnostics& diagnostics, Code code, Span span, std::string_view group, uint64_t times) {
  std::string cause(kind_of(code).id);
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
  if (!help.empty()) fresh->help = std::move(help);
  return *fresh;
}

bool has_errors(const Diagnostics& diagnostics) {
  return std::any_of(diagnostics.list.begin(), diagnostics.list.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::Error; });
}

bool has_new_errors(const Diagnostics& diagnostics, const KnownFilter& is_known) {
  return std::ranges::any_of(diagnostics.list, [&](const Diagnostic& d) {
    return d.severity == Severity::Error && !(is_known && is_known(d));
  });
}

bool has_stopping_errors(const Diagnostics& diagnostics, const KnownFilter& is_known) {
  return std::ranges::any_of(diagnostics.list, [&](const Diagnostic& d) {
    return d.severity == Severity::Error && !(kind_of(d.code).has_no_sharding_effect && is_known && is_known(d));
  });
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
    // A warning that --strict or --deny made an error counts as wrong content.
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
