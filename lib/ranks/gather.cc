#include "ranks/gather.h"

#include <spdlog/fmt/fmt.h>

namespace tpplan {

Fault damaged_message(int rank) {
  return {.code = Code::TP8013,
          .message = fmt::format("what rank {} sent is damaged, or of another version of this program", rank),
          .help = "install one version everywhere; if it is one already, report it",
          .rank = rank};
}

}  // namespace tpplan
