// What the phases have to say: plain data with a number, a place, a reason and a remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "base/source_file.h"

namespace tpplan {

enum class Code : uint16_t {
#define TPPLAN_DIAGNOSTIC(code, severity, failure, title) code,
#include "diagnostics/diagnostic_kinds.def"
#undef TPPLAN_DIAGNOSTIC
};

enum class Severity : uint8_t { Error, Warning };

// What an error means for the exit status: 1 the content is wrong, 2 the input cannot be used at all, 3 a limit.
enum class Failure : uint8_t { Content, Input, Limit };

struct DiagnosticKind {
  Code code;
  std::string_view name;  // "TP4001"
  Severity severity;
  Failure failure;
  std::string_view title;  // what the code stands for, in a few words
};

// All kinds, in the order of diagnostic_kinds.def.
const std::vector<DiagnosticKind>& diagnostic_kinds();
const DiagnosticKind& kind_of(Code code);
// The kind called `name` ("TP4001", in any case), or nullptr.
[[nodiscard]] const DiagnosticKind* find_kind(std::string_view name);

// A run of bytes of an input; kNoFile for what has no place (a command line).
struct Span {
  FileId file = kNoFile;
  uint64_t offset = 0;
  uint32_t length = 0;
};

struct Note {
  std::string text;
  Span span;  // where the note points, when it points anywhere
};

// A run of bytes of an input, and what should stand there.
struct Edit {
  Span span;
  std::string text;
  bool is_entry = false;  // the lines of the mapping's entry whose key the span is go, and `text` with them
};

struct Diagnostic {
  Code code{};
  Severity severity = Severity::Error;
  Span span;
  std::string message;  // lower case, no full stop, what was observed with its numbers
  std::string label;    // stands under the carets
  std::vector<Note> notes;
  std::string help;         // one action
  std::vector<Edit> edits;  // what `help` says, where it can be carried out as it stands: all of them together
  uint64_t count = 1;       // how often the same cause was seen
  std::string counted;      // what is counted: "parameter"
  std::string_view fails;   // of a run under this plan, what would fail first: "apply", "forward", "output", "gradient"
  uint64_t unlisted = 0;    // how many further findings of the same code are counted here and not listed
};

// How many findings of one code are listed; an input of a million faults is answered with the first of them.
inline constexpr size_t kMaxListedPerCode = 500;

// How many findings of a code stand in the list, and the last of them.
struct CodeTally {
  size_t listed = 0;
  size_t last = 0;
};

// All that was said so far. `causes` maps what was reported to its place in the list. `dropped` takes what is said
// about findings beyond kMaxListedPerCode.
struct Diagnostics {
  std::vector<Diagnostic> list;
  TextMap<std::string, size_t> causes;
  std::vector<CodeTally> tallies;  // by Code
  Diagnostic dropped;
};

// Starts a diagnostic, or returns nullptr after raising the count when this cause has been reported before. A cause is
// a code with a group, or without a group a code at a place: one rule that is wrong on 32 layers is one diagnostic. The
// caller fills in the message and the rest. The pointer is good until the next report. `times`: as often in a row.
[[nodiscard]] Diagnostic* report(Diagnostics& diagnostics, Code code, Span span, std::string_view group = {},
                                 uint64_t times = 1);

// A diagnostic of its own, whatever was reported before.
Diagnostic& report_message(Diagnostics& diagnostics, Code code, Span span, std::string message, std::string help = {});

[[nodiscard]] bool has_errors(const Diagnostics& diagnostics);

// What comes before any rendering: a stable order (inputs by Source, then offset, then as reported), and texts that
// quote megabytes of an input shortened to their two ends.
void finish_diagnostics(Diagnostics& diagnostics);

// 3 for a limit, 2 for an input that cannot be used, 1 for content.
[[nodiscard]] int exit_status(Failure failure);

// 0 without errors; otherwise 3 when a limit was met, else 2 when an input cannot be used, else 1.
[[nodiscard]] int exit_status(const Diagnostics& diagnostics);

// `--strict`, `--deny CODE`, `--allow CODE`: strict turns warnings into errors, deny one kind of warning, allow removes
// one kind of warning. Errors cannot be allowed. The last word on a code wins.
struct SeverityRules {
  bool strict = false;
  std::vector<Code> deny, allow;
};
void apply_severity_rules(Diagnostics& diagnostics, const SeverityRules& rules);

}  // namespace tpplan
