#include <doctest/doctest.h>

#include <atomic>
#include <mutex>

#include "../../exec/redistribute_cases.h"
#include "exec/ranks/launch.h"

using namespace tpplan;

namespace {

const Mesh kMeshes[] = {
    {.axes = {{"a", 1}}},           {.axes = {{"a", 2}}},           {.axes = {{"a", 3}}},
    {.axes = {{"a", 4}}},           {.axes = {{"a", 5}}},           {.axes = {{"a", 6}}},
    {.axes = {{"a", 7}}},           {.axes = {{"a", 8}}},           {.axes = {{"a", 1}, {"b", 2}}},
    {.axes = {{"a", 2}, {"b", 2}}}, {.axes = {{"a", 2}, {"b", 3}}}, {.axes = {{"a", 3}, {"b", 2}}},
    {.axes = {{"a", 2}, {"b", 4}}}, {.axes = {{"a", 4}, {"b", 2}}},
};

LaunchOptions options_of(const Mesh& mesh) { return {.world = static_cast<int>(device_count(mesh)), .deadline = 20}; }

// Runs one step on all ranks and returns the job's error.
std::string fault_of(const Mesh& mesh, const RedistributeCase& one, const Collective& step) {
  const JobResult end = run_ranks(options_of(mesh), [&](Comm& comm) {
    LocalTensor tensor = first_tensor(comm, mesh, one);
    begin_step(comm, "the step");
    return redistribute_step(comm, mesh, step, tensor) ? 0 : 1;
  });
  return end.fault ? to_text(*end.fault) : "";
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Placement shard(int dim) { return {.kind = PlacementKind::Shard, .dim = dim}; }
const Placement kPartial{.kind = PlacementKind::Partial};

}  // namespace

TEST_CASE("every redistribution matches the unsharded tensor") {
  size_t ran = 0;
  for (const Mesh& mesh : kMeshes) {
    std::vector<RedistributeCase> cases;
    for (RedistributeCase& one : all_cases(mesh)) {
      if (is_servable(one, mesh)) cases.push_back(std::move(one));
    }
    ran += cases.size();
    std::mutex mutex;
    std::string wrong;
    const JobResult end = run_ranks(options_of(mesh), [&](Comm& comm) {
      for (const RedistributeCase& one : cases) {
        begin_step(comm, "a case");
        std::string bytes;
        const std::string text = run_case(comm, mesh, one, bytes);
        if (text.empty()) continue;
        const std::lock_guard lock(mutex);
        if (wrong.empty()) wrong = text;
        return 1;
      }
      return 0;
    });
    CHECK_MESSAGE(end.status == 0, wrong, " ", end.fault.value_or(Fault{}).message);
  }
  CHECK(ran > 4000);
}

TEST_CASE("a step whose group lacks elements is an error with a help") {
  const Mesh mesh{.axes = {{"fsdp", 2}, {"tp", 2}}};
  size_t rejected = 0;
  for (const RedistributeCase& one : all_cases(mesh)) {
    if (one.shape != std::vector<int64_t>{7, 3} || is_servable(one, mesh)) continue;
    const JobResult end = run_ranks(options_of(mesh), [&](Comm& comm) {
      std::string bytes;
      return run_case(comm, mesh, one, bytes).empty() ? 0 : 1;
    });
    CHECK(end.status == 1);
    REQUIRE(end.fault);
    CHECK(end.fault->code == Code::RedistributionMismatch);
    const std::string fault = to_text(*end.fault);
    CHECK_MESSAGE(contains(fault, "gather the other axis"), to_text(one, mesh), ": ", fault);
    ++rejected;
  }
  CHECK(rejected > 20);
}

TEST_CASE("a mismatched step is rejected by name, and no rank waits") {
  const Mesh mesh{.axes = {{"tp", 2}}};
  DType int4 = 0, boolean = 0;
  int4 = dtype_of("int4");
  boolean = dtype_of("bool");
  struct Row {
    RedistributeCase one;
    Collective step;
    const char* expected;
  };
  const Row rows[] = {
      {{{4, 4}, 0, {Placement{}}, {}},
       {CollectiveKind::AllGather, 0, 0},
       "x: all_gather over tp: the tensor is Replicate on this axis"},
      {{{4, 4}, 0, {shard(0)}, {}}, {CollectiveKind::AllReduce, 0, 0}, "the tensor is Shard(0) on this axis"},
      {{{4, 4}, 0, {kPartial}, {}}, {CollectiveKind::ReduceScatter, 0, 2}, "invalid for the tensor"},
      {{{4, 4}, 0, {kPartial}, {}}, {CollectiveKind::ReduceScatter, 0, -3}, "invalid for the tensor"},
      {{{4, 4}, 0, {kPartial}, {}}, {CollectiveKind::AllReduce, 1, 0}, "the mesh has no such axis"},
      {{{3, 6}, int4, {shard(1)}, {}}, {CollectiveKind::AllGather, 0, 1}, "its shards split bytes"},
      {{{4, 4}, boolean, {kPartial}, {}}, {CollectiveKind::AllReduce, 0, 0}, "bool has no arithmetic on this device"},
  };
  for (const Row& row : rows) {
    const std::string fault = fault_of(mesh, row.one, row.step);
    CHECK_MESSAGE(contains(fault, row.expected), fault);
    CHECK_MESSAGE(contains(fault, "step 1 (the step)"), fault);
  }
}

TEST_CASE("an average divides by the group size, inputs stay unchanged") {
  const Mesh mesh{.axes = {{"dp", 4}}};
  const DType dtype = dtype_of("float32");
  std::atomic<int> right = 0;
  const JobResult end = run_ranks(options_of(mesh), [&](Comm& comm) {
    for (const CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter}) {
      LocalTensor tensor{.name = "x",
                         .shape = {8},
                         .dtype = dtype,
                         .placements = {{.kind = PlacementKind::Partial, .op = ReduceOp::Avg}}};
      if (!allocate_local(comm, mesh, tensor)) return 1;
      auto* values = static_cast<float*>(tensor.data.get());
      for (int i = 0; i < 8; ++i) values[i] = static_cast<float>(i + comm.rank);
      const LocalTensor before = tensor;
      if (!redistribute_step(comm, mesh, {kind, 0, 0, 0}, tensor)) return 1;
      const auto* result = static_cast<const float*>(tensor.data.get());
      const int first = kind == CollectiveKind::AllReduce ? 0 : comm.rank * 2;
      right += result[0] == static_cast<float>(first) + 1.5f && result[1] == static_cast<float>(first) + 2.5f;
      right += static_cast<const float*>(before.data.get())[7] == static_cast<float>(7 + comm.rank);
    }
    return 0;
  });
  CHECK(!end.fault);
  CHECK(right == 16);
}

TEST_CASE("64 ranks rendezvous on few processors") {
  const Mesh mesh{.axes = {{"a", 8}, {"b", 8}}};
  std::string wrong;
  std::mutex mutex;
  const JobResult end = run_ranks(options_of(mesh), [&](Comm& comm) {
    for (int i = 0; i < 5; ++i) {
      for (const RedistributeCase& one :
           {RedistributeCase{{17, 5}, 1, {shard(0), kPartial}, {Placement{}, shard(1)}},
            RedistributeCase{{9, 64}, 1, {shard(0), shard(1)}, {Placement{}, Placement{}}}}) {
        std::string bytes;
        const std::string text = run_case(comm, mesh, one, bytes);
        const std::lock_guard lock(mutex);
        if (!text.empty()) wrong = text;
      }
    }
    return 0;
  });
  CHECK(end.status == 0);
  CHECK_MESSAGE(wrong.empty(), wrong);
}
