// Ranks as threads that read each other's memory: no rank returns while another rank reads its memory.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "exec/ranks/backends.h"
#include "exec/ranks/launch.h"
#include "exec/run/redistribute_step.h"

using namespace tpplan;

TEST_CASE("memory lives until its readers finish, despite failures") {
  const Mesh mesh{.axes = {{"dp", 2}, {"tp", 4}}};
  DType float32 = 0;
  REQUIRE(find_dtype("float32", float32));
  for (int failing = 0; failing < 60; ++failing) {
    const LaunchOptions options{.world = 8, .deadline = 20, .agreement = "local_board"};
    const JobResult end = run_ranks(options, [&](Comm& comm) {
      for (int i = 0; i < 20; ++i) {
        begin_step(comm, "gathering");
        if (comm.rank == 7 && i == failing % 20) return fail(comm, Code::InjectedFailure, "told to"), 1;
        LocalTensor tensor{.name = "x",
                           .shape = {256, 1024},
                           .dtype = float32,
                           .placements = {{}, {.kind = PlacementKind::Shard, .dim = failing % 2}}};
        const Collective gather{.kind = CollectiveKind::AllGather, .axis = 1, .dim = failing % 2};
        if (!allocate_local(comm, mesh, tensor) || !redistribute_step(comm, mesh, gather, tensor)) return 1;
      }
      return 0;
    });
    CHECK(end.status == 1);
    REQUIRE(end.fault);
    CHECK_MESSAGE(to_text(*end.fault).find("rank 7 failed at") != std::string::npos, to_text(*end.fault));
  }
}

namespace {

thread_local double synchronize_takes = 0;  // seconds

void synchronize_slowly() { std::this_thread::sleep_for(std::chrono::duration<double>(synchronize_takes)); }

}  // namespace

TEST_CASE("a rank stuck inside a call before others see it is named") {
  Device device = cpu_device();
  device.synchronize = synchronize_slowly;
  const LaunchOptions options{.world = 3, .deadline = 0.4, .agreement = "local_board"};
  const JobResult end = run_local_ranks(options, device, [&](Comm& comm) {
    begin_step(comm, "gathering");
    if (comm.rank == 2) synchronize_takes = 1;
    std::vector<uint64_t> bytes(3, 4);
    uint32_t mine = 7, all[3] = {};
    Group group{.ranks = {0, 1, 2}, .self = static_cast<size_t>(comm.rank)};
    return comm.backend->all_gather(comm, group, &mine, all, bytes) ? 0 : 1;
  });
  REQUIRE(end.fault);
  CHECK_MESSAGE(end.fault->message.find("for rank 2, which is still at step 1 (gathering)") != std::string::npos,
                to_text(*end.fault));
}
