// Cuts by the names of dims, which dialects share that go by no framework's own code.
#pragma once

#include "infer/style_cut.h"

namespace tpplan {

// True when the module's kind is one that the style is for, or says nothing about it.
[[nodiscard]] bool supports_kind(const Inference& in, const ParamMatch& match, const Module& module);

// The dim that the style names. TP5010 where the parameter's dims have no names.
[[nodiscard]] Cut cut_by_name(const Inference& in, const ParamMatch& match, const Module& module, const Param& param);

}  // namespace tpplan
