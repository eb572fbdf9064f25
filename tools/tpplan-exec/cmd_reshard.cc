#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "commands.h"
#include "exec/ranks/gather.h"
#include "exec/shards/place_tensors.h"
#include "exec/shards/reshard.h"
#include "exec/shards/shard_store.h"
#include "job.h"
#include "manifest/shardings_digest.h"
#include "sharding/tensor_size.h"
#include "terminal.h"

namespace tpplan {
namespace {

struct RankMoves {
  uint64_t read = 0, written = 0, unchanged = 0, opened = 0, checked = 0;
};
auto fields(RankMoves& moves) {
  return std::tie(moves.read, moves.written, moves.unchanged, moves.opened, moves.checked);
}

// Throws if a tensor has another shape in the second manifest: the manifests are those of two models.
void require_same_model(const ManifestInput& before, const ManifestInput& after) {
  TextMap<std::string_view, uint32_t> known;  // tensors of `before`
  const auto layout_of = [](const Manifest& manifest, size_t i) -> const ParamLayout& {
    return manifest.layouts[tensor_of(manifest, i).layout];
  };
  for (size_t i = 0; i < tensor_count(before.manifest); ++i)
    known.try_emplace(path_of(before.manifest, tensor_of(before.manifest, i)), static_cast<uint32_t>(i));
  for (size_t i = 0; i < tensor_count(after.manifest); ++i) {
    const std::string_view path = path_of(after.manifest, tensor_of(after.manifest, i));
    const auto found = known.find(path);
    if (found == known.end()) continue;
    const std::vector<int64_t>&there = layout_of(before.manifest, found->second).shape,
          &here = layout_of(after.manifest, i).shape;
    if (there == here) continue;
    throw Fault{.code = Code::TensorMismatch,
                .message = fmt::format("`{}` has shape {} in {} and {} here: the manifests belong to different models",
                                       escape_for_terminal(path), shape_text(there),
                                       escape_for_terminal(before.file.name), shape_text(here)),
                .help =
                    "compile both manifests from one model; `reshard` changes no shapes, such as that of a padded "
                    "vocabulary",
                .place = after.file.name};
  }
}

// Opens the folder by its manifest if possible, otherwise by reading all headers. Returns the exit status.
int open_input_folder(const ReshardArguments& arguments, const ManifestInput& before, const ManifestInput& after,
                      const JobArguments& job, ReshardInput& input) {
  check_packing(before.manifest);
  check_packing(after.manifest);
  input.after = &after.manifest;
  input.from = arguments.from;
  input.is_known = find_saved_folder(arguments.from, before.manifest, shardings_sha256(before.manifest), input.known);
  if (input.is_known && list_moves(input)) {
    size_t lacking = 0;
    for (size_t i = 0; i < input.missing.size(); ++i)
      lacking += input.missing[i] && !is_never_saved(path_of(after.manifest, tensor_of(after.manifest, i)));
    if (lacking != 0 && !job.quiet && reports_for_job()) report(missing_buffers(arguments.from, lacking));
    return 0;
  }
  input = {.after = &after.manifest, .from = arguments.from};
  WeightSource saved;
  int status = open_saved(arguments.from, before, job, saved, nullptr,
                          "pass the manifest that the folder was saved with as the first one");
  if (status == 0) status = open_source(arguments.from, after.manifest, job, input.source, &saved);
  if (status == 0) std::ignore = list_moves(input);
  return status;
}

}  // namespace

int cmd_reshard(const ReshardArguments& arguments, const JobArguments& job) {
  ManifestInput before, after;
  int status = read_manifest_file(arguments.before, before.file, before.manifest, before.sha256);
  if (status == 0) status = read_manifest_file(arguments.after, after.file, after.manifest, after.sha256);
  if (status != 0) return status;
  require_same_model(before, after);
  ReshardInput input;
  status = open_input_folder(arguments, before, after, job, input);
  if (status != 0) return status;
  const std::string command = fmt::format("reshard from {} to {}", before.sha256, arguments.to);
  const std::string sharding = shardings_sha256(after.manifest);
  MovedSums sums;
  return run_job(after, job, agreement_of(command, input.is_known ? input.known.first : input.source), [&](Comm& comm) {
    const ReshardResult result = reshard(comm, input, sums, sharding, arguments.to, job.staging);
    const RankMoves mine{result.read_bytes, result.written_bytes, result.linked_bytes, result.opened_files,
                         result.checked_bytes};
    const RankMoves all = fold(comm, mine, [](RankMoves& sum, const RankMoves& rank, int) {
      sum.read += rank.read;
      sum.written += rank.written;
      sum.unchanged += rank.unchanged;
      sum.checked += rank.checked;
      sum.opened = std::max(sum.opened, rank.opened);
    });
    if (comm.rank != 0) return 0;
    if (job.json)
      print_result([&](JsonWriter& json) {
        write_field(json, "read_bytes", all.read);
        write_field(json, "written_bytes", all.written);
        write_field(json, "kept_bytes", all.unchanged);
        write_field(json, "most_files_opened", all.opened);
        write_field(json, "checked_bytes", all.checked);
      });
    else if (prints_human(job))
      print(STDERR_FILENO, fmt::format("{} read, {} written to {}{}\n", human_bytes(all.read), human_bytes(all.written),
                                       escape_for_terminal(arguments.to),
                                       all.unchanged == 0 ? "" : "; unchanged " + human_bytes(all.unchanged)));
    return 0;
  });
}

}  // namespace tpplan
