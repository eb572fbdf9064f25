#include "exec/ranks/gather.h"

#include <spdlog/fmt/fmt.h>

namespace tpplan {

Fault damaged_message_fault(int rank) {
  return {.code = Code::InvalidMessage,
          .message = fmt::format("the message of rank {} is damaged, or from another version of this program", rank),
          .help = "install the same version on all ranks; if it is the same already, report a bug",
          .rank = rank};
}

}  // namespace tpplan
