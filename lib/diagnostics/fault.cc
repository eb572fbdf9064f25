#include "diagnostics/fault.h"

#include <spdlog/fmt/fmt.h>

#include <exception>
#include <new>

#include "base/text.h"

namespace tpplan {

Fault current_error() {
  try {
    throw;
  } catch (const Fault& fault) {
    return fault;
  } catch (const std::bad_alloc&) {
    return {.code = Code::OutOfMemory, .message = "out of memory"};
  } catch (const std::exception& error) {
    return {.code = Code::UnexpectedFailure, .message = escape_for_terminal(error.what())};
  }
}

std::string to_text(const Fault& fault) {
  std::string text = fault.place.empty() ? "" : escape_for_terminal(fault.place) + ": ";
  if (!fault.step.empty()) text += fmt::format("rank {} failed at {}: ", fault.rank, fault.step);
  text += fault.message;
  return fault.help.empty() ? text : fmt::format("{}: {}", text, fault.help);
}

int exit_status(const Fault& fault) {
  const DiagnosticKind& kind = kind_of(fault.code);
  return kind.severity == Severity::Warning ? 0 : exit_status(kind.failure);
}

}  // namespace tpplan
