#include "commands.h"

namespace tpplan {

int cmd_init(const InitArguments&, const JobArguments&) { return refuse(3, "not here yet"); }

}  // namespace tpplan
