#include <unistd.h>

#include "commands.h"
#include "inputs.h"
#include "programs/propagate_program.h"
#include "programs/read_program.h"
#include "programs/write_propagation.h"

namespace tpplan {
namespace {

constexpr uint64_t kMaxProgramBytes = uint64_t{256} << 20;

}  // namespace

int cmd_propagate(const PropagateArguments& arguments, const CommonArguments& common) {
  Diagnostics diagnostics;
  SourceFile file;
  programs::Propagation propagation;
  if (read_input(arguments.program, kMaxProgramBytes, file, diagnostics)) {
    programs::Program program = programs::read_program(file, diagnostics);
    if (!has_errors(diagnostics)) propagation = programs::propagate_program(std::move(program), diagnostics);
  }
  const int status = print_diagnostics(diagnostics, sources_of(file), common);
  if (status != kExitFine) return status;
  const bool printed = arguments.format == "json"
                           ? print_raw(STDOUT_FILENO, programs::propagation_json(propagation) + "\n")
                           : print(STDOUT_FILENO, programs::propagation_text(propagation));
  return printed ? kExitFine : kExitUsage;
}

}  // namespace tpplan
