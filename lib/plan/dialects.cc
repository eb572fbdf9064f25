#include "plan/dialects.h"

namespace tpplan {
namespace {

constexpr const DialectRow* kDialects[] = {&kGlobDialect,         &kRegexDialect, &kTorchDialect,
                                           &kTransformersDialect, &kKerasDialect, &kLogicalDialect};

}  // namespace

std::span<const DialectRow* const> dialect_table() { return kDialects; }

}  // namespace tpplan
