// Declares the subcommands of tpplan-exec and calls the function of the requested one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "commands.h"
#include "exec/device/device.h"
#include "exec/shards/expert_names.h"
#include "exec/shards/load_shards.h"
#include "job.h"
#include "number_options.h"
#include "parse_line.h"
#include "program.h"
#include "terminal.h"

namespace {

using namespace tpplan;

constexpr const char* kFooter =
    "Ranks come from torchrun (RANK, WORLD_SIZE), Open MPI or Slurm with --backend nccl and mpi; `local` needs no "
    "launcher.\n"
    "Exit status: 0 success, 1 errors in the content or a failed rank, 2 usage or unreadable input, 3 internal error "
    "or\n"
    "resource limit. Output is written atomically.";

// All arguments of a command line. CLI11 keeps references into it, so it must not move.
struct LineArguments {
  JobArguments job;
  LoadArguments load;
  InitArguments init;
  VerifyArguments verify;
  SaveArguments save;
  ReshardArguments reshard;
  RunArguments run;
  std::string code;
};

std::vector<std::string> device_names() {
  std::vector<std::string> names{"auto"};
  for (const DeviceRow& row : device_rows()) names.emplace_back(row.name);
  return names;
}

void add_job(CLI::App& command, JobArguments& job) {
  command
      .add_option("--backend", job.backend,
                  "local: all ranks in this process; nccl: one GPU for each rank; mpi: Open MPI (default: local)")
      ->check(CLI::IsMember(backend_names()))
      ->envname("TPPLAN_EXEC_BACKEND");
  command
      .add_option("--device", job.device, "device of the ranks; auto: a GPU with nccl, else the CPU (default: auto)")
      ->check(CLI::IsMember(device_names()))
      ->envname("TPPLAN_EXEC_DEVICE");
  take_number(command
                  .add_option("--deadline", job.deadline,
                              "maximum seconds to wait for another rank, a disk or a GPU in one step")
                  ->type_name("SECONDS")
                  ->capture_default_str(),
              0.1, 1e6);
  take_number(command
                  .add_option("--start-deadline", job.start_deadline,
                              "maximum seconds for NCCL to connect the ranks; at least --deadline")
                  ->type_name("SECONDS")
                  ->capture_default_str(),
              0.1, 1e6);
  command
      .add_option("--format", job.format,
                  "format of diagnostics on standard error; json: one document at the end; jsonl: one line per "
                  "diagnostic, and one per second with the progress of load or verify")
      ->check(CLI::IsMember({"human", "json", "jsonl"}))
      ->capture_default_str();
  command.add_flag("--json", job.json, "print the result as JSON on standard output");
  command.add_flag("-q,--quiet", job.quiet, "print no progress and no summary");
}

void take_threads(CLI::Option* option) { add_integer_range(option, 0, 1024); }

void add_staging(CLI::App& command, JobArguments& job) {
  take_bytes(command
                 .add_option("--staging", job.staging,
                             "host memory for the read buffers per rank, at least 1MB (default: 256MB)")
                 ->type_name("BYTES"),
             kMinStaging);
  take_threads(command.add_option("--threads", job.threads, "number of reading threads (default: one per processor)"));
}

void add_broadcast(CLI::App& command, JobArguments& job) {
  command.add_flag("--broadcast", job.broadcast,
                   "read each byte once per job instead of once per node: ranks send replicated tensors to each other");
}

void take_file_size(CLI::App& command, uint64_t& bytes) {
  take_bytes(
      command
          .add_option("--max-file-size", bytes,
                      "with --consolidated: write a new folder with an index and files of at most this many bytes")
          ->type_name("BYTES"),
      1);
}

// ---- subcommands ----

void declare_doctor(CLI::App& command, LineArguments& line) {
  command.add_flag("--json", line.job.json, "print the result as JSON");
}

void declare_explain(CLI::App& command, LineArguments& line) {
  command.add_option("CODE", line.code, "code of a diagnostic, such as TP8022")->required();
}

void declare_load(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.load.manifest, "manifest of `tpplan compile`")->required();
  command
      .add_option("--weights", line.load.weights,
                  "safetensors file, its index (.json), a folder with either, or a folder of shards from `save`")
      ->required()
      ->type_name("PATH");
  command.add_option("--print", line.load.print, "print the planned reads with their targets and stop")
      ->check(CLI::IsMember({"reads"}));
  add_broadcast(command, line.job);
  add_staging(command, line.job);
  add_job(command, line.job);
}

void declare_init(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.init.manifest, "manifest of `tpplan compile`")->required();
  add_integer_range(command.add_option("--seed", line.init.seed, "seed of the random values")->required(), 0,
                    UINT64_MAX);
  command.add_option("-o,--output", line.init.output, "folder for the shards")->type_name("DIR");
  command.add_option("--consolidated", line.init.consolidated, "safetensors file for all tensors, unsharded")
      ->type_name("FILE");
  take_file_size(command, line.init.max_file_bytes);
  take_threads(command.add_option("--threads", line.job.threads,
                                  "number of threads for all ranks of this process (default: one per processor)"));
  add_job(command, line.job);
}

void declare_verify(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.verify.manifest, "manifest of `tpplan compile`")->required();
  command.add_option("--weights", line.verify.weights, "weights to compare with: safetensors file, index or folder")
      ->type_name("PATH");
  command.add_option("--from", line.verify.from, "folder of shards to verify (default: shards loaded from --weights)")
      ->type_name("DIR");
  command.add_option("--checksums", line.verify.checksums, "file of checksums to compare with")->type_name("FILE");
  command
      .add_option("--write-checksums", line.verify.write_checksums,
                  "file to write with a checksum of every shard of every rank")
      ->type_name("FILE");
  add_broadcast(command, line.job);
  add_staging(command, line.job);
  add_job(command, line.job);
}

void declare_run(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.run.manifest, "manifest of `tpplan compile`")->required();
  add_integer_range(command.add_option("--iterations", line.run.iterations, "number of timed repetitions of a step")
                        ->capture_default_str(),
                    1, 100000);
  add_integer_range(
      command.add_option("--warmup", line.run.warmup, "number of untimed repetitions before the timed ones")
          ->capture_default_str(),
      0, 100000);
  add_integer_range(
      command.add_option("--tokens", line.run.tokens, "number of tokens in a sequence of the test activations")
          ->capture_default_str(),
      1, 1 << 20);
  command.add_option("--print", line.run.print, "print the planned steps and stop")->check(CLI::IsMember({"schedule"}));
  add_job(command, line.job);
}

void declare_save(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.save.manifest, "manifest of `tpplan compile`")->required();
  command.add_option("--weights", line.save.weights, "weights to load: safetensors file, index or folder")
      ->required()
      ->type_name("PATH");
  command.add_option("-o,--output", line.save.output, "folder for the shards, one file per rank")->type_name("DIR");
  command.add_option("--consolidated", line.save.consolidated, "safetensors file for all tensors, unsharded")
      ->type_name("FILE");
  take_file_size(command, line.save.max_file_bytes);
  command
      .add_option(
          "--split-experts", line.save.expert_naming,
          "with --consolidated: write stacked experts as one matrix each, named gate_proj, up_proj and down_proj, "
          "or w1, w3 and w2")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kExpertNamings), std::end(kExpertNamings))));
  add_broadcast(command, line.job);
  add_staging(command, line.job);
  add_job(command, line.job);
}

void declare_reshard(CLI::App& command, LineArguments& line) {
  command.add_option("BEFORE", line.reshard.before, "manifest of the existing shards")->required();
  command.add_option("AFTER", line.reshard.after, "manifest of the new shards")->required();
  command.add_option("--from", line.reshard.from, "folder of the existing shards")->required()->type_name("DIR");
  command.add_option("--to", line.reshard.to, "folder for the new shards, which must not exist")
      ->required()
      ->type_name("DIR");
  add_staging(command, line.job);
  add_job(command, line.job);
}

struct CommandRow {
  std::string_view name, description;
  void (*declare)(CLI::App& command, LineArguments& line);
  int (*run)(const LineArguments& line);
};

// Runs a command on ranks. An error that it throws is reported with the path of the manifest.
template <auto kArguments, auto kCommand>
int run_on_ranks(const LineArguments& line) {
  const auto& arguments = line.*kArguments;
  return run_command(arguments.manifest, line.job, [&] { return kCommand(arguments, line.job); });
}

// In the order of the help, the completions and the manual page.
constexpr CommandRow kCommands[] = {
    {"doctor", "check GPUs, NCCL, MPI and launchers of this machine", declare_doctor,
     [](const LineArguments& line) { return cmd_doctor(line.job); }},
    {"explain", "explain a diagnostic, with a wrong and a right example", declare_explain,
     [](const LineArguments& line) { return cmd_explain(line.code); }},
    {"load", "load each rank's shards from safetensors and measure the throughput", declare_load,
     run_on_ranks<&LineArguments::load, cmd_load>},
    {"init", "initialise shards without a checkpoint, with the same values on every mesh", declare_init,
     run_on_ranks<&LineArguments::init, cmd_init>},
    {"verify", "verify that shards tile every tensor and equal the weights byte for byte", declare_verify,
     run_on_ranks<&LineArguments::verify, cmd_verify>},
    {"run", "run the redistributions and matmuls of a manifest, compare them with unsharded results, and time them",
     declare_run, run_on_ranks<&LineArguments::run, cmd_run>},
    {"save", "save each rank's shards as safetensors in the layout of torch's distributed checkpoint", declare_save,
     run_on_ranks<&LineArguments::save, cmd_save>},
    {"reshard", "convert a sharded checkpoint to another plan or mesh", declare_reshard,
     [](const LineArguments& line) {
       return run_command(line.reshard.before, line.job, [&line] { return cmd_reshard(line.reshard, line.job); });
     }},
};

int run(int argc, char** argv) {
  LineArguments line;
  CLI::App app("Executes a sharding manifest: loads, initialises, verifies, runs, saves and reshards its tensors.",
               "tpplan-exec");
  app.set_version_flag("--version", std::string(kExecVersion));
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "print the help of all commands");
  for (const CommandRow& row : kCommands)
    row.declare(*app.add_subcommand(std::string(row.name), std::string(row.description)), line);
  ShellCommands for_shell;
  add_shell_commands(app, for_shell);
  if (const ParsedLine parsed = parse_line(app, argc, argv); parsed.status) return *parsed.status;
  if (is_requested(for_shell)) return print_for_shell(app, for_shell, std::string(kExecVersion), "") ? 0 : 2;
  return std::ranges::find(kCommands, app.get_subcommands().front()->get_name(), &CommandRow::name)->run(line);
}

}  // namespace

int tpplan::program_main(int argc, char** argv) { return run_program("tpplan-exec", run, argc, argv); }
