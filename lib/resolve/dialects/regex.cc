// The regex dialect: RE2 expressions over full paths; styles shard dims by name.
#include "resolve/dialects/match_paths.h"
#include "resolve/dialects/shard_by_name.h"

namespace tpplan {

constexpr DialectRow kRegexDialect = {.name = "regex",
                                      .keys = KeySyntax::Regex,
                                      .match = match_paths,
                                      .supports_module = supports_kind,
                                      .dim_of_style = shard_by_name};

}  // namespace tpplan
