// The glob dialect: globs over whole paths, exact paths first; styles cut dims by name.
#include "dialects/cut_by_name.h"
#include "dialects/match_paths.h"

namespace tpplan {

constexpr DialectRow kGlobDialect = {.name = "glob",
                                     .keys = KeySyntax::Glob,
                                     .match = match_paths,
                                     .supports_module = supports_kind,
                                     .cut = cut_by_name};

}  // namespace tpplan
