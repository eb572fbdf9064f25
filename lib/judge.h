// Public header that checks a plan in memory, for programs that link the library: <tpplan/judge.h>.
#pragma once

#include "judge/judge.h"  // IWYU pragma: export
