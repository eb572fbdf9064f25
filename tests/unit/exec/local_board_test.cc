// Ranks as threads that read each other's memory: nobody leaves while somebody reads.
#include <doctest/doctest.h>

#include "ranks/launch.h"
#include "run/redistribute_step.h"

using namespace tpplan;

TEST_CASE("memory that another rank still reads stays until it has read, whoever fails meanwhile") {
  const Mesh mesh{.axes = {{"dp", 2}, {"tp", 4}}};
  DType float32 = 0;
  REQUIRE(find_dtype("float32", float32));
  for (int failing = 0; failing < 60; ++failing) {
    const LaunchOptions options{.world = 8, .deadline = 20, .agreement = "local_board"};
    const JobEnd end = run_ranks(options, [&](Comm& comm) {
      for (int i = 0; i < 20; ++i) {
        begin_step(comm, "gathering");
        if (comm.rank == 7 && i == failing % 20) return fail(comm, Code::TP8014, "told to"), 1;
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
