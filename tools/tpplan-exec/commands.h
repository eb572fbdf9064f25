// The sub-commands of tpplan-exec: arguments in a plain struct, exit status out. Each stands in a file of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/version.h"
#include "findings.h"

namespace tpplan {

inline constexpr std::string_view kExecVersion = "tpplan-exec " TPPLAN_VERSION;

// What every command of the executor takes that runs on ranks.
struct JobArguments {
  std::string backend = "local";           // local, nccl, mpi
  std::string device = "auto";             // auto, cpu, cuda
  double deadline = 60;                    // seconds that a step waits for another rank, and a rank for one call
  double start_deadline = 300;             // seconds that NCCL may take to connect ranks
  uint64_t staging = uint64_t{256} << 20;  // bytes of host memory that a rank's loading may take
  int threads = 0;                         // that read, of all ranks of this process together; 0: one a processor
  std::string format{kForPeople};          // of findings: human, json, jsonl
  bool broadcast = false;                  // what ranks hold alike is read once in the job
  bool json = false;                       // the result on standard output as JSON
  bool quiet = false;
};

struct LoadArguments {
  std::string manifest, weights;
  std::string print;  // "reads": the plan of what is read, instead of loading
};

struct InitArguments {
  std::string manifest;
  uint64_t seed = 0;
  std::string output;           // folder for the shards; empty: only in memory
  std::string consolidated;     // one safetensors file; empty: none
  uint64_t max_file_bytes = 0;  // with it `consolidated` is a folder of files of as many, and their index
};

struct VerifyArguments {
  std::string manifest, weights;
  std::string from;  // a folder of shards, instead of loading `weights` anew; may stand alone with checksums
  std::string write_checksums, checksums;  // files; empty: none
};

struct SaveArguments {
  std::string manifest, weights;
  std::string output;           // folder for a file a rank
  std::string consolidated;     // one file
  uint64_t max_file_bytes = 0;  // with it a folder of files of as many, and their index
};

struct ReshardArguments {
  std::string before, after;  // manifests
  std::string from, to;       // folders of shards
};

struct RunArguments {
  std::string manifest;
  int iterations = 5, warmup = 1;
  int64_t tokens = 8;  // rows of the activations, before anything cuts them
  std::string print;   // "schedule": what would be run, instead of running it
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

// Reads and proves a manifest; prints what is wrong with it and returns the exit status that it calls for, 0 when it is
// right. `sha256` becomes the hash of its text.
[[nodiscard]] int read_manifest_file(const std::string& path, SourceFile& file, Manifest& manifest,
                                     std::string& sha256);

// `tpplan-exec: error: message` on standard error; returns the status of a command line that cannot be carried out.
int usage_error(std::string_view message);

}  // namespace tpplan
