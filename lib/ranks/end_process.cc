#include "ranks/end_process.h"

#include <unistd.h>

#include "render/render.h"

namespace tpplan {
namespace {

void say_to_people(const Fault& fault) {
  const std::string text = render_human(fault, "tpplan-exec", {});
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
}

void (*last_word)(const Fault&) = say_to_people;

}  // namespace

void set_last_word(void (*say)(const Fault& fault)) { last_word = say; }

void end_process(const Fault& fault) {
  last_word(fault);
  _exit(exit_status(fault));
}

}  // namespace tpplan
