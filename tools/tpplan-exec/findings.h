// What the executor finds, on standard error: as it comes for people and as JSON Lines, at the end as one JSON
// document.
#pragma once

#include <string_view>

#include "diagnostics/fault.h"
#include "render/render.h"

namespace tpplan {

inline constexpr std::string_view kForPeople = "human";

// "human", "json" or "jsonl", before anything is found. A process writes its own findings: a job of several processes
// has a document of each, which lines of JSON suit better.
void write_findings_as(std::string_view format);

// Says a fault, or findings in files; returns the exit status that they call for. `place` stands where the fault names
// none; empty: the program. Any thread may call these.
int report(const Fault& fault, std::string_view place = {});
int report(Diagnostics& diagnostics, const Sources& sources);

// From now on `is_speaker` is asked, once, when there is an error to say; where it answers no, errors stay unsaid, but
// in a document. nullptr: all are said, as at the beginning. Of ranks that all find the same before they meet one is to
// say it.
void say_errors_if(bool (*is_speaker)());

// At the end of a command: with "json" the document of schemas/diagnostics.schema.json, without findings too.
void finish_report();

}  // namespace tpplan
