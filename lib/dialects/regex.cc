// The regex dialect: RE2 expressions over whole paths; styles cut dims by name.
#include "dialects/cut_by_name.h"
#include "dialects/match_paths.h"

namespace tpplan {

constexpr DialectRow kRegexDialect = {.name = "regex",
                                      .keys = KeySyntax::Regex,
                                      .match = match_paths,
                                      .supports_module = supports_kind,
                                      .cut = cut_by_name};

}  // namespace tpplan
