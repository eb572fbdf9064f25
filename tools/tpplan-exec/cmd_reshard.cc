#include "commands.h"

namespace tpplan {

int cmd_reshard(const ReshardArguments&, const JobArguments&) { return refuse(3, "not here yet"); }

}  // namespace tpplan
