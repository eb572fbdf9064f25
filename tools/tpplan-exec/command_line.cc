// Declares the sub-commands of tpplan-exec and calls one function for the one that was asked for.
#include <CLI/CLI.hpp>

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
  take_number(command.add_option("--deadline", job.deadline, "seconds that a step waits for another rank")
                  ->type_name("SECONDS")
                  ->capture_default_str(),
              0.1, 1e6);
  command
      .add_option("--format", job.format, "how findings are written on standard error; json: one document at the end")
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

int run(int argc, char** argv) {
  JobArguments job;
  LoadArguments load_arguments;
  InitArguments init_arguments;
  VerifyArguments verify_arguments;
  SaveArguments save_arguments;
  ReshardArguments reshard_arguments;
  RunArguments run_arguments;

  CLI::App app(
      "Puts a sharding manifest on devices: loads, initialises, verifies, runs, saves and reshards what it says.",
      "tpplan-exec");
  app.set_version_flag("--version", std::string(kExecVersion));
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of all commands");

  CLI::App* doctor =
      app.add_subcommand("doctor", "say what of GPUs, NCCL, MPI and launchers is found here, and what is missing");
  doctor->add_flag("--json", job.json, "as JSON");

  std::string code;
  CLI::App* explain = app.add_subcommand("explain", "say what a diagnostic means, with a wrong and a right example");
  explain->add_option("CODE", code, "number of the diagnostic, such as TP8022")->required();

  CLI::App* load = app.add_subcommand("load", "load each rank's shards from safetensors, and say how fast");
  load->add_option("MANIFEST", load_arguments.manifest, "manifest of `tpplan compile`")->required();
  load->add_option("--weights", load_arguments.weights,
                   "safetensors file, its index (.json), or a folder that holds either, or shards of `save`")
      ->required()
      ->type_name("PATH");
  load->add_option("--print", load_arguments.print, "print what would be read and where it goes, and stop")
      ->check(CLI::IsMember({"reads"}));
  add_staging(*load, job);

  CLI::App* init = app.add_subcommand("init", "initialise without a checkpoint: the same values on every mesh");
  init->add_option("MANIFEST", init_arguments.manifest, "manifest of `tpplan compile`")->required();
  take_whole_number(init->add_option("--seed", init_arguments.seed, "seed of all values")->required(), 0, UINT64_MAX);
  init->add_option("-o,--output", init_arguments.output, "folder for the shards")->type_name("DIR");
  init->add_option("--consolidated", init_arguments.consolidated, "write one safetensors file")->type_name("FILE");
  take_threads(
      init->add_option("--threads", job.threads,
                       "threads that draw, of all ranks of this process together; one a processor without it"));

  CLI::App* verify =
      app.add_subcommand("verify", "prove that the shards tile every tensor and equal the source byte for byte");
  verify->add_option("MANIFEST", verify_arguments.manifest, "manifest of `tpplan compile`")->required();
  verify->add_option("--weights", verify_arguments.weights, "the source: safetensors file, index or folder")
      ->type_name("PATH");
  verify
      ->add_option("--from", verify_arguments.from,
                   "folder of shards to verify; without it the shards are loaded from --weights")
      ->type_name("DIR");
  verify->add_option("--checksums", verify_arguments.checksums, "compare with the checksums in this file")
      ->type_name("FILE");
  verify->add_option("--write-checksums", verify_arguments.write_checksums, "write a checksum for each rank's shard")
      ->type_name("FILE");
  add_staging(*verify, job);

  CLI::App* runs = app.add_subcommand(
      "run", "run the manifest's redistributions and products, compare with the unsharded result, and time them");
  runs->add_option("MANIFEST", run_arguments.manifest, "manifest of `tpplan compile`")->required();
  take_whole_number(
      runs->add_option("--iterations", run_arguments.iterations, "timed repetitions of a step")->capture_default_str(),
      1, 100000);
  take_whole_number(
      runs->add_option("--warmup", run_arguments.warmup, "repetitions before them")->capture_default_str(), 0, 100000);
  take_whole_number(
      runs->add_option("--tokens", run_arguments.tokens, "rows of the activations")->capture_default_str(), 1, 1 << 20);

  runs->add_option("--print", run_arguments.print, "print what would be run, and stop")
      ->check(CLI::IsMember({"schedule"}));

  CLI::App* save =
      app.add_subcommand("save", "write each rank's shards as safetensors that torch's distributed checkpoint reads");
  save->add_option("MANIFEST", save_arguments.manifest, "manifest of `tpplan compile`")->required();
  save->add_option("--weights", save_arguments.weights, "safetensors file, index or folder")
      ->required()
      ->type_name("PATH");
  save->add_option("-o,--output", save_arguments.output, "folder for a file a rank")->type_name("DIR");
  save->add_option("--consolidated", save_arguments.consolidated, "write one file with whole tensors")
      ->type_name("FILE");
  add_staging(*save, job);

  CLI::App* reshard = app.add_subcommand("reshard", "move a sharded checkpoint from one plan or mesh to another");
  reshard->add_option("BEFORE", reshard_arguments.before, "manifest that the shards were saved by")->required();
  reshard->add_option("AFTER", reshard_arguments.after, "manifest that they are wanted by")->required();
  reshard->add_option("--from", reshard_arguments.from, "folder of shards")->required()->type_name("DIR");
  reshard->add_option("--to", reshard_arguments.to, "folder to write")->required()->type_name("DIR");
  add_staging(*reshard, job);

  ShellCommands for_shell;
  add_shell_commands(app, for_shell);

  for (CLI::App* command : {load, init, verify, runs, save, reshard}) add_job(*command, job);
  if (const ParsedLine line = parse_line(app, argc, argv); line.status) return *line.status;
  if (is_asked(for_shell)) return print_for_shell(app, for_shell, std::string(kExecVersion), "") ? 0 : 2;
  if (*doctor) return cmd_doctor(job);
  if (*explain) return cmd_explain(code);
  if (*load) return run_command(load_arguments.manifest, job, [&] { return cmd_load(load_arguments, job); });
  if (*init) return run_command(init_arguments.manifest, job, [&] { return cmd_init(init_arguments, job); });
  if (*verify) return run_command(verify_arguments.manifest, job, [&] { return cmd_verify(verify_arguments, job); });
  if (*runs) return run_command(run_arguments.manifest, job, [&] { return cmd_run(run_arguments, job); });
  if (*save) return run_command(save_arguments.manifest, job, [&] { return cmd_save(save_arguments, job); });
  return run_command(reshard_arguments.before, job, [&] { return cmd_reshard(reshard_arguments, job); });
}

}  // namespace

int tpplan::program_main(int argc, char** argv) { return run_program("tpplan-exec", run, argc, argv); }
