// The program of a JAX or Keras model: the field `program` of a model file. It has no mesh and no shardings, which
// place_program takes from a plan.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "programs/program.h"
#include "text/json_reader.h"

namespace tpplan::programs {

enum class ArgumentKind : uint8_t { Param, Buffer, Input, Other };

// An argument of the program: a tensor of the model, or an input of the step.
struct ProgramArgument {
  ArgumentKind kind = ArgumentKind::Other;
  std::string_view path;  // of the tensor; an input's name
};

struct RecordedProgram {
  bool has_backward = false;
  int64_t batch = 0, sequence = 0;         // of the step; 0: unknown
  std::vector<ProgramArgument> arguments;  // of the program
  std::vector<std::string_view> results;   // of each result the parameter whose gradient it is; empty for others
  Program program;
};

// Reads the fields of `program` while a model file is read.
struct RecordedReader {
  std::shared_ptr<RecordedProgram> recorded;
  JsonVisitor visitor;
  // Connects the program. Returns false if an error was reported.
  std::function<bool()> finish;
};
[[nodiscard]] RecordedReader begin_recorded_program(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan::programs
