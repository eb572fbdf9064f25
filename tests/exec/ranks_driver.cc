// Runs ranks for the tests that need processes: tpplan_ranks BACKEND MESH WHAT [DEADLINE[,STEPS]] [AGREEMENT].
//   MESH  sizes separated by x: 2x3
//   WHAT  cases: checks every redistribution and prints "rank R HASH" of each rank's results
//         steps: six all_reduces and gathers, for injected faults
//         sizes: uneven transfers of a few MiB
//   STEPS deadline after the ranks have connected, if it differs: a start takes longer on a busy machine
// TPPLAN_EXEC_DEVICE is the device.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/sha256.h"
#include "exec/ranks/launch.h"
#include "redistribute_cases.h"

using namespace tpplan;

namespace {

Mesh mesh_of(std::string_view text) {
  Mesh mesh;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    mesh.axes.push_back({.name = std::string(1, static_cast<char>('a' + mesh.axes.size())),
                         .size = std::atoll(std::string(text.substr(at, end - at)).c_str())});
    at = end + 1;
  }
  return mesh;
}

int report(Comm& comm, const std::string& results) {
  begin_step(comm, "gather the results");
  std::string all;
  const auto list = [](const std::vector<std::string>& texts) {
    std::string lines;
    for (size_t rank = 0; rank < texts.size(); ++rank)
      lines += "rank " + std::to_string(rank) + " " + texts[rank] + "\n";
    return lines;
  };
  throw_if_failed(comm, comm.backend->fold_texts(comm, sha256_hex(results), list, all));
  if (comm.rank != 0) return 0;
  std::fputs(all.c_str(), stdout);
  std::fflush(stdout);
  return 0;
}

int run_cases(Comm& comm, const Mesh& mesh) {
  std::string results;
  for (const RedistributeCase& one : all_cases(mesh)) {
    if (!is_servable(one, mesh)) continue;
    begin_step(comm, to_text(one, mesh));
    std::string bytes;
    const std::string wrong = run_case(comm, mesh, one, bytes);
    if (!wrong.empty()) {
      std::fprintf(stderr, "%s\n", wrong.c_str());
      return 1;
    }
    results += bytes;
  }
  return report(comm, results);
}

int run_steps(Comm& comm, const Mesh& mesh) {
  const Placement partial{.kind = PlacementKind::Partial}, shard{.kind = PlacementKind::Shard}, whole;
  std::string results;
  for (int i = 0; i < 6; ++i) {
    RedistributeCase one{.shape = {12, 5}, .dtype = 1, .from = {i % 2 == 0 ? partial : shard}, .to = {whole}};
    one.from.resize(mesh.axes.size());
    one.to.resize(mesh.axes.size());
    begin_step(comm, i % 2 == 0 ? "all_reduce over a" : "all_gather over a");
    std::string bytes;
    if (!run_case(comm, mesh, one, bytes).empty()) return 1;
    results += bytes;
  }
  return report(comm, results);
}

int run_sizes(Comm& comm, const Mesh& mesh) {
  const Placement partial{.kind = PlacementKind::Partial}, rows{.kind = PlacementKind::Shard},
      columns{.kind = PlacementKind::Shard, .dim = 1}, whole;
  std::string results;
  for (const auto& [from, to] : {std::pair{rows, whole}, {rows, columns}, {partial, rows}, {partial, whole}}) {
    RedistributeCase one{.shape = {1021, 771}, .dtype = 1, .from = {from}, .to = {to}};
    one.from.resize(mesh.axes.size());
    one.to.resize(mesh.axes.size());
    begin_step(comm, to_text(one, mesh));
    std::string bytes;
    const std::string wrong = run_case(comm, mesh, one, bytes);
    if (!wrong.empty()) return std::fprintf(stderr, "%s\n", wrong.c_str()), 1;
    results += bytes;
  }
  return report(comm, results);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const Mesh mesh = mesh_of(argv[2]);
  const std::string what = argv[3];
  LaunchOptions options{.backend = argv[1],
                        .world = static_cast<int>(device_count(mesh)),
                        .deadline = argc > 4 ? std::atof(argv[4]) : 20};
  options.start_deadline = options.deadline;
  if (const char* device = std::getenv("TPPLAN_EXEC_DEVICE"); device != nullptr) options.device = device;
  options.agreement = argc > 5 ? argv[5] : "manifest sha256 0";
  const char* steps = argc > 4 ? std::strchr(argv[4], ',') : nullptr;
  const JobResult end = run_ranks(options, [&](Comm& comm) {
    if (steps != nullptr) comm.deadline = std::atof(steps + 1);
    return what == "cases" ? run_cases(comm, mesh) : what == "sizes" ? run_sizes(comm, mesh) : run_steps(comm, mesh);
  });
  if (end.fault) std::fprintf(stderr, "fault: %s\n", to_text(*end.fault).c_str());
  return end.status;
}
