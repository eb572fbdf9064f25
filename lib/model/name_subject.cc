#include "model/name_subject.h"

namespace tpplan {

void name_subject(Diagnostic& d, const Module& module) { d.module = module.path; }

void name_subject(Diagnostic& d, const ModelGraph& graph, const Param& param) {
  name_subject(d, graph.modules[param.module]);
  d.parameter = path_of(graph, param);
}

}  // namespace tpplan
