// The glob dialect: globs over full paths, exact paths take precedence; styles shard dims by name.
#include "resolve/dialects/match_paths.h"
#include "resolve/dialects/shard_by_name.h"

namespace tpplan {

constexpr DialectRow kGlobDialect = {.name = "glob",
                                     .keys = KeySyntax::Glob,
                                     .match = match_paths,
                                     .supports_module = supports_kind,
                                     .dim_of_style = shard_by_name};

}  // namespace tpplan
