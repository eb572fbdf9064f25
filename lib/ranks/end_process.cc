#include "ranks/end_process.h"

#include <unistd.h>

#include "render/render.h"

namespace tpplan {

void end_process(const Fault& fault) {
  const std::string text = render_human(fault, "tpplan-exec", {});
  const int status = exit_status(fault);
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(status);
  _exit(status);
}

}  // namespace tpplan
