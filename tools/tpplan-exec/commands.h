// The sub-commands of tpplan-exec: a function for each with its arguments in a plain struct. Returns the exit status.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/version.h"
#include "report_errors.h"

namespace tpplan {

inline constexpr std::string_view kExecVersion = "tpplan-exec " TPPLAN_VERSION;

// Options of every command that executes ranks.
struct JobArguments {
  std::string backend = "local";           // local, nccl, mpi
  std::string device = "auto";             // auto, cpu, cuda
  double deadline = 60;                    // maximum seconds of waiting for another rank or a call
  double start_deadline = 300;             // maximum seconds for NCCL to connect the ranks
  uint64_t staging = uint64_t{256} << 20;  // bytes of host memory for a rank's read buffers
  int threads = 0;                         // reading threads of this process; 0: one for each processor
  std::string format{kHumanFormat};        // format of diagnostics: human, json, jsonl
  bool broadcast = false;                  // reads replicated elements once in the job
  bool json = false;                       // the result on standard output as JSON
  bool quiet = false;
};

struct LoadArguments {
  std::string manifest, weights;
  std::string print;  // "reads": prints the planned reads instead of loading
};

struct InitArguments {
  std::string manifest;
  uint64_t seed = 0;
  std::string output;           // folder for the shards; empty: only in memory
  std::string consolidated;     // one safetensors file; empty: none
  uint64_t max_file_bytes = 0;  // > 0: `consolidated` is a folder of files of at most this many bytes, with an index
};

struct VerifyArguments {
  std::string manifest, weights;
  std::string from;                        // folder of shards to verify instead of shards loaded from `weights`
  std::string write_checksums, checksums;  // files; empty: none
};

struct SaveArguments {
  std::string manifest, weights;
  std::string output;           // folder for the shards, one file per rank
  std::string consolidated;     // one safetensors file; empty: none
  uint64_t max_file_bytes = 0;  // > 0: `consolidated` is a folder of files of at most this many bytes, with an index
  std::string expert_naming;    // of the tensors of `consolidated`: a matrix for each expert; empty: stacked
};

struct ReshardArguments {
  std::string before, after;  // manifests
  std::string from, to;       // folders of shards
};

struct RunArguments {
  std::string manifest;
  int iterations = 5, warmup = 1;
  int64_t tokens = 8;  // global sequence length of the activations
  std::string print;   // "schedule": prints the schedule instead of running it
};

[[nodiscard]] int cmd_doctor(const JobArguments& job);
[[nodiscard]] int cmd_explain(const std::string& code);
[[nodiscard]] int cmd_load(const LoadArguments& arguments, const JobArguments& job);
[[nodiscard]] int cmd_init(const InitArguments& arguments, const JobArguments& job);
[[nodiscard]] int cmd_verify(const VerifyArguments& arguments, const JobArguments& job);
[[nodiscard]] int cmd_run(const RunArguments& arguments, const JobArguments& job);
[[nodiscard]] int cmd_save(const SaveArguments& arguments, const JobArguments& job);
[[nodiscard]] int cmd_reshard(const ReshardArguments& arguments, const JobArguments& job);

// ---- shared by the commands (inputs.cc) ----

struct Fault;
struct Manifest;
struct SourceFile;

// Reads and verifies a manifest. Prints its errors and returns the exit status, 0 if it is valid. Sets `sha256` to the
// hash of its text.
[[nodiscard]] int read_manifest_file(const std::string& path, SourceFile& file, Manifest& manifest,
                                     std::string& sha256);

// Prints `tpplan-exec: error: message` to standard error and returns the exit status of a usage error.
int usage_error(std::string_view message);

}  // namespace tpplan
