// Diagnostics of the executor on standard error: printed immediately as text or JSON Lines, or at the end as one JSON
// document.
#pragma once

#include <string_view>

#include "diagnostics/fault.h"
#include "render/render.h"

namespace tpplan {

inline constexpr std::string_view kHumanFormat = "human";

// Sets the format: "human", "json" or "jsonl". Each process prints its own diagnostics: with "json" a job of several
// processes prints one document per process, so "jsonl" suits such jobs better. @pre nothing is reported yet.
void set_error_format(std::string_view format);

// Reports a fault, or diagnostics of files, and returns the exit status. `place` is printed if the fault has none; its
// default is the program's name. Thread-safe.
int report(const Fault& fault, std::string_view place = {});
int report(Diagnostics& diagnostics, const Sources& sources);

// Sets the predicate that decides whether this process prints errors; nullptr: always, which is the default. It is
// called once, at the first error. It has no effect with format "json". It avoids duplicates if all ranks have the same
// error before they connect.
void report_errors_if(bool (*is_speaker)());

// Ends the reports of a command. With "json" prints the document of schemas/diagnostics.schema.json, even if it is
// empty.
void finish_report();

}  // namespace tpplan
