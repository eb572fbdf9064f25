#include "exec/ranks/stuck_calls.h"

#include <spdlog/fmt/fmt.h>

#include "base/long_calls.h"
#include "exec/ranks/control_thread.h"
#include "exec/ranks/end_process.h"

namespace tpplan {
namespace {

constexpr double kOfDeadline = 0.9;

Fault stuck_call_error(const LongCall& call) {
  const std::string where = call.offset == kNoOffset ? "" : fmt::format(" at byte {}", call.offset);
  return {.code = Code::StuckCall,
          .message = fmt::format("{}{} has not returned for {:.3g} s", call.what, where, call.seconds),
          .help = "check the disk, file server or device (dmesg), or increase --deadline",
          .place = call.file,
          .rank = call.place.rank,
          .step = call.place.step};
}

void end_stuck(const LongCall& call) {
  const Fault fault = stuck_call_error(call);
  report_to_job(fault);
  end_process(fault);
}

}  // namespace

void start_stuck_watchdog(double deadline) { watch_calls(kOfDeadline * deadline, end_stuck); }

}  // namespace tpplan
