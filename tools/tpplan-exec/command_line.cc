// Declares the sub-commands of tpplan-exec and calls one function for the one that was asked for.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "commands.h"
#include "device/device.h"
#include "job.h"
#include "number_options.h"
#include "parse_line.h"
#include "program.h"
#include "shards/load_shards.h"
#include "terminal.h"

namespace {

using namespace tpplan;

constexpr const char* kFooter =
    "Ranks come from torchrun (RANK, WORLD_SIZE), Open MPI or Slurm with --backend nccl and mpi; `local` needs no "
    "launcher.\n"
    "Exit status: 0 fine, 1 the content is wrong or a rank failed, 2 usage or an input that cannot be read, 3 internal "
    "or a\n"
    "resource limit. Nothing is left half written.";

// All that a line can say. CLI11 keeps references into it, so it is one object that stays where it is.
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
  command.add_option("--backend", job.backend, "local: all ranks in this process; nccl: a rank a GPU; mpi: Open MPI")
      ->check(CLI::IsMember(backend_names()))
      ->envname("TPPLAN_EXEC_BACKEND");
  command.add_option("--device", job.device, "auto: a GPU with nccl, the CPU otherwise")
      ->check(CLI::IsMember(device_names()))
      ->envname("TPPLAN_EXEC_DEVICE");
  take_number(command
                  .add_option("--deadline", job.deadline,
                              "seconds that a step waits for another rank, or a rank for a disk or a GPU")
                  ->type_name("SECONDS")
                  ->capture_default_str(),
              0.1, 1e6);
  take_number(command
                  .add_option("--start-deadline", job.start_deadline,
                              "seconds that NCCL may take to connect the ranks; at least --deadline")
                  ->type_name("SECONDS")
                  ->capture_default_str(),
              0.1, 1e6);
  command
      .add_option("--format", job.format,
                  "how findings are written on standard error; json: one document at the end; "
                  "jsonl: a line each, and one a second of how far a load or a verification is")
      ->check(CLI::IsMember({"human", "json", "jsonl"}))
      ->capture_default_str();
  command.add_flag("--json", job.json, "the result on standard output as JSON");
  command.add_flag("-q,--quiet", job.quiet, "no progress, no summary");
}

void take_threads(CLI::Option* option) { take_whole_number(option, 0, 1024); }

void add_staging(CLI::App& command, JobArguments& job) {
  take_bytes(command
                 .add_option("--staging", job.staging,
                             "host memory that a rank's reading may take: 1MB and more, 256MB without it")
                 ->type_name("BYTES"),
             kMinStaging);
  take_threads(command.add_option("--threads", job.threads, "threads that read; one a processor without it"));
}

void add_broadcast(CLI::App& command, JobArguments& job) {
  command.add_flag(
      "--broadcast", job.broadcast,
      "read each byte once in the whole job and not on each node: ranks send each other what they hold alike");
}

void take_file_size(CLI::App& command, uint64_t& bytes) {
  take_bytes(
      command
          .add_option("--max-file-size", bytes,
                      "makes --consolidated a new folder of files of at most so many bytes of tensors, and their index")
          ->type_name("BYTES"),
      1);
}

// ---- the commands ----

void declare_doctor(CLI::App& command, LineArguments& line) { command.add_flag("--json", line.job.json, "as JSON"); }

void declare_explain(CLI::App& command, LineArguments& line) {
  command.add_option("CODE", line.code, "number of the diagnostic, such as TP8022")->required();
}

void declare_load(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.load.manifest, "manifest of `tpplan compile`")->required();
  command
      .add_option("--weights", line.load.weights,
                  "safetensors file, its index (.json), or a folder that holds either, or shards of `save`")
      ->required()
      ->type_name("PATH");
  command.add_option("--print", line.load.print, "print what would be read and where it goes, and stop")
      ->check(CLI::IsMember({"reads"}));
  add_broadcast(command, line.job);
  add_staging(command, line.job);
  add_job(command, line.job);
}

void declare_init(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.init.manifest, "manifest of `tpplan compile`")->required();
  take_whole_number(command.add_option("--seed", line.init.seed, "seed of all values")->required(), 0, UINT64_MAX);
  command.add_option("-o,--output", line.init.output, "folder for the shards")->type_name("DIR");
  command.add_option("--consolidated", line.init.consolidated, "write one safetensors file")->type_name("FILE");
  take_file_size(command, line.init.max_file_bytes);
  take_threads(
      command.add_option("--threads", line.job.threads,
                         "threads that draw, of all ranks of this process together; one a processor without it"));
  add_job(command, line.job);
}

void declare_verify(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.verify.manifest, "manifest of `tpplan compile`")->required();
  command.add_option("--weights", line.verify.weights, "the source: safetensors file, index or folder")
      ->type_name("PATH");
  command
      .add_option("--from", line.verify.from,
                  "folder of shards to verify; without it the shards are loaded from --weights")
      ->type_name("DIR");
  command.add_option("--checksums", line.verify.checksums, "compare with the checksums in this file")
      ->type_name("FILE");
  command.add_option("--write-checksums", line.verify.write_checksums, "write a checksum for each rank's shard")
      ->type_name("FILE");
  add_broadcast(command, line.job);
  add_staging(command, line.job);
  add_job(command, line.job);
}

void declare_run(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.run.manifest, "manifest of `tpplan compile`")->required();
  take_whole_number(
      command.add_option("--iterations", line.run.iterations, "timed repetitions of a step")->capture_default_str(), 1,
      100000);
  take_whole_number(command.add_option("--warmup", line.run.warmup, "repetitions before them")->capture_default_str(),
                    0, 100000);
  take_whole_number(command.add_option("--tokens", line.run.tokens, "rows of the activations")->capture_default_str(),
                    1, 1 << 20);
  command.add_option("--print", line.run.print, "print what would be run, and stop")
      ->check(CLI::IsMember({"schedule"}));
  add_job(command, line.job);
}

void declare_save(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.save.manifest, "manifest of `tpplan compile`")->required();
  command.add_option("--weights", line.save.weights, "safetensors file, index or folder")
      ->required()
      ->type_name("PATH");
  command.add_option("-o,--output", line.save.output, "folder for a file a rank")->type_name("DIR");
  command.add_option("--consolidated", line.save.consolidated, "write one file with whole tensors")->type_name("FILE");
  take_file_size(command, line.save.max_file_bytes);
  add_broadcast(command, line.job);
  add_staging(command, line.job);
  add_job(command, line.job);
}

void declare_reshard(CLI::App& command, LineArguments& line) {
  command.add_option("BEFORE", line.reshard.before, "manifest that the shards were saved by")->required();
  command.add_option("AFTER", line.reshard.after, "manifest that they are wanted by")->required();
  command.add_option("--from", line.reshard.from, "folder of shards")->required()->type_name("DIR");
  command.add_option("--to", line.reshard.to, "folder to write")->required()->type_name("DIR");
  add_staging(command, line.job);
  add_job(command, line.job);
}

struct CommandRow {
  std::string_view name, description;
  void (*declare)(CLI::App& command, LineArguments& line);
  int (*run)(const LineArguments& line);
};

// A command on ranks. What it throws is a finding about its manifest.
template <auto kArguments, auto kCommand>
int run_on_ranks(const LineArguments& line) {
  const auto& arguments = line.*kArguments;
  return run_command(arguments.manifest, line.job, [&] { return kCommand(arguments, line.job); });
}

// In the order in which help, completions and the manual page list them.
constexpr CommandRow kCommands[] = {
    {"doctor", "say what of GPUs, NCCL, MPI and launchers is found here, and what is missing", declare_doctor,
     [](const LineArguments& line) { return cmd_doctor(line.job); }},
    {"explain", "say what a diagnostic means, with a wrong and a right example", declare_explain,
     [](const LineArguments& line) { return cmd_explain(line.code); }},
    {"load", "load each rank's shards from safetensors, and say how fast", declare_load,
     run_on_ranks<&LineArguments::load, cmd_load>},
    {"init", "initialise without a checkpoint: the same values on every mesh", declare_init,
     run_on_ranks<&LineArguments::init, cmd_init>},
    {"verify", "prove that the shards tile every tensor and equal the source byte for byte", declare_verify,
     run_on_ranks<&LineArguments::verify, cmd_verify>},
    {"run", "run the manifest's redistributions and products, compare with the unsharded result, and time them",
     declare_run, run_on_ranks<&LineArguments::run, cmd_run>},
    {"save", "write each rank's shards as safetensors that torch's distributed checkpoint reads", declare_save,
     run_on_ranks<&LineArguments::save, cmd_save>},
    {"reshard", "move a sharded checkpoint from one plan or mesh to another", declare_reshard,
     [](const LineArguments& line) {
       return run_command(line.reshard.before, line.job, [&line] { return cmd_reshard(line.reshard, line.job); });
     }},
};

int run(int argc, char** argv) {
  LineArguments line;
  CLI::App app(
      "Puts a sharding manifest on devices: loads, initialises, verifies, runs, saves and reshards what it says.",
      "tpplan-exec");
  app.set_version_flag("--version", std::string(kExecVersion));
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of all commands");
  for (const CommandRow& row : kCommands)
    row.declare(*app.add_subcommand(std::string(row.name), std::string(row.description)), line);
  ShellCommands for_shell;
  add_shell_commands(app, for_shell);
  if (const ParsedLine parsed = parse_line(app, argc, argv); parsed.status) return *parsed.status;
  if (is_asked(for_shell)) return print_for_shell(app, for_shell, std::string(kExecVersion), "") ? 0 : 2;
  return std::ranges::find(kCommands, app.get_subcommands().front()->get_name(), &CommandRow::name)->run(line);
}

}  // namespace

int tpplan::program_main(int argc, char** argv) { return run_program("tpplan-exec", run, argc, argv); }
