// Prints the page of a diagnostic, as `tpplan explain CODE` does.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "commands.h"
#include "diagnostics/diagnostics.h"
#include "embedded.h"
#include "terminal.h"

namespace tpplan {

int cmd_explain(const std::string& code) {
  const DiagnosticKind* kind = find_kind(code);
  const char* page = kind == nullptr ? nullptr : embedded_page(kind->id);
  if (page == nullptr) return usage_error(fmt::format("there is no diagnostic `{}`", escape_for_terminal(code)));
  return print(STDOUT_FILENO, page) ? 0 : 2;
}

}  // namespace tpplan
