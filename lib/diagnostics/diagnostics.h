// Diagnostics of all phases: plain data with a code, a location, a message and a help.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "base/source_file.h"

namespace tpplan {

enum class Code : uint16_t {
#define TPPLAN_DIAGNOSTIC(id, code, severity, failure, title, ...) code,
#include "diagnostics/diagnostic_kinds.def"
#undef TPPLAN_DIAGNOSTIC
};

enum class Severity : uint8_t { Error, Warning };

// The exit status of an error: 1 for wrong content, 2 for an unusable input, 3 for an exceeded limit.
enum class Failure : uint8_t { Content, Input, Limit };

// The first failure of a job that uses the plan. Output and Gradient are wrong values without an error.
enum class FirstFailure : uint8_t { None, Apply, Forward, Output, Gradient };
[[nodiscard]] std::string_view to_text(FirstFailure failure);  // "apply"; empty for None

struct DiagnosticKind {
  Code code;
  std::string_view id;  // "TP4001"
  std::string name;     // "unmatched-rule"
  Severity severity;
  Failure failure;
  std::string_view title;
  std::string_view help{};                  // the help if all diagnostics of this kind share it
  FirstFailure fails = FirstFailure::None;  // the first failure if all diagnostics of this kind share it
  bool is_heuristic = false;                // predicted from names and shapes, not from a walk of the operations
  bool is_coverage = false;                 // about parameters or dims without a rule or axis; more rules fix it
  bool is_size = false;                     // a size is not divisible; another axis size can fix it
  bool has_exact_fix = false;               // its edits preserve the meaning of the plan
  bool unmatches_rules = false;             // it is the cause of rules that match nothing
  bool has_no_sharding_effect = false;      // the plan has the same shardings without its cause
  bool is_lost_rank = false;                // the failed rank cannot report it
};

// Returns all kinds, in the order of diagnostic_kinds.def.
const std::vector<DiagnosticKind>& diagnostic_kinds();
const DiagnosticKind& kind_of(Code code);
// Returns the kind with this id or name ("TP4001" or "unmatched-rule", case-insensitive), or nullptr.
[[nodiscard]] const DiagnosticKind* find_kind(std::string_view id_or_name);

// A range of bytes of an input file; kNoFile for a diagnostic without a location, such as one of the command line.
struct Span {
  FileId file = kNoFile;
  uint64_t offset = 0;
  uint32_t length = 0;
};

struct Note {
  std::string text;
  Span span;  // location of the note; optional
};

// A range of bytes of an input file, and its replacement.
struct Edit {
  Span span;
  std::string text;
  bool is_entry = false;  // replaces all lines of the mapping entry whose key is at the span
};

struct Diagnostic {
  Code code{};
  Severity severity = Severity::Error;
  Span span;
  std::string message;  // the observation with its numbers; lower case, no full stop
  std::string label;    // shown after the carets
  std::vector<Note> notes;
  std::string help;         // one action
  std::vector<Edit> edits;  // edits that together apply `help`; empty if it needs a decision
  uint64_t count = 1;       // number of reports with the same cause
  std::string counted;      // noun for `count`: "parameter"
  std::string module;       // path of the module; empty for none or the root
  std::string parameter;    // path of the parameter; empty for none
  FirstFailure fails = FirstFailure::None;
  uint64_t unlisted = 0;  // number of further diagnostics of the same code that are not listed
};

// The maximum number of listed diagnostics per code, for inputs with very many errors.
inline constexpr size_t kMaxListedPerCode = 500;

// The number of listed diagnostics of a code, and the index of the last one.
struct CodeTally {
  size_t listed = 0;
  size_t last = 0;
};

// All reported diagnostics. `causes` maps a cause to its index in the list. `dropped` is a dummy that report_message
// returns for diagnostics beyond kMaxListedPerCode.
struct Diagnostics {
  std::vector<Diagnostic> list;
  TextMap<std::string, size_t> causes;
  std::vector<CodeTally> tallies;  // indexed by Code
  Diagnostic dropped;
};

// Adds a diagnostic and returns it, so that the caller sets the message and the other fields. If the cause was reported
// before, adds `times` to its count and returns nullptr. Returns nullptr also beyond kMaxListedPerCode. A cause is a
// code with a group, or a code with a location: one wrong rule on 32 layers is one diagnostic. The next report
// invalidates the pointer.
[[nodiscard]] Diagnostic* report(Diagnostics& diagnostics, Code code, Span span, std::string_view group = {},
                                 uint64_t times = 1);

// Adds a separate diagnostic, even if the same cause was reported before.
Diagnostic& report_message(Diagnostics& diagnostics, Code code, Span span, std::string message, std::string help = {});

[[nodiscard]] bool has_errors(const Diagnostics& diagnostics);

// Returns whether a baseline records a diagnostic; empty without a baseline.
using KnownFilter = std::function<bool(const Diagnostic&)>;

// True if an error is not one that `is_known` finds. No filter: none is known.
[[nodiscard]] bool has_new_errors(const Diagnostics& diagnostics, const KnownFilter& is_known);

// True if an error must stop the check, because later phases would report its consequences. A known error does not stop
// it if the plan shards the same without its cause.
[[nodiscard]] bool has_stopping_errors(const Diagnostics& diagnostics, const KnownFilter& is_known);

// Prepares diagnostics for rendering. Sorts them stably by file id and offset, and shortens long texts in the middle.
void finish_diagnostics(Diagnostics& diagnostics);

// Returns 3 for an exceeded limit, 2 for an unusable input, 1 for wrong content.
[[nodiscard]] int exit_status(Failure failure);

// Returns 0 without errors, otherwise the largest exit status of the errors.
[[nodiscard]] int exit_status(const Diagnostics& diagnostics);

// The options `--strict`, `--deny CODE` and `--allow CODE`. `strict` makes all warnings errors, `deny` those of a code,
// and `allow` removes the warnings of a code. `allow` takes precedence; errors cannot be allowed.
struct SeverityRules {
  bool strict = false;
  std::vector<Code> deny, allow;
};
void apply_severity_rules(Diagnostics& diagnostics, const SeverityRules& rules);

}  // namespace tpplan
