#include "cost/measure_collectives.h"

#include <doctest/doctest.h>

using namespace tpplan;

namespace {

const Mesh kMesh{{{"dp", 2}, {"tp", 4}}};

CollectiveCall call(std::string module, bool backward = false, std::vector<int64_t> shape = {2, 8},
                    CollectiveKind kind = CollectiveKind::AllReduce) {
  int64_t bytes = 4;
  for (const int64_t size : shape) bytes *= size;
  return {backward, kind, 1, std::move(module), std::move(shape), "float32", bytes};
}

std::vector<std::string> layers_of(const CollectiveMeasure& measure) {
  std::vector<std::string> layers;
  for (const CallGroup& group : measure.groups) layers.push_back(group.layers);
  return layers;
}

}  // namespace

TEST_CASE("layers with identical calls are one group for any indices") {
  std::vector<CollectiveCall> calls;
  for (int layer = 0; layer < 12; ++layer) {
    const std::string path = "model.layers." + std::to_string(layer);
    calls.push_back(call(path + ".o_proj"));
    if (layer == 3 || layer == 7) calls.push_back(call(path + ".mlp"));
    if (layer == 11) calls.push_back(call(path + ".norm", true));
  }
  calls.insert(calls.begin(), call("embed"));
  calls.push_back(call("head"));
  const CollectiveMeasure measure = measure_collectives(calls, kMesh);
  CHECK(layers_of(measure) ==
        std::vector<std::string>{"", "model.layers.{0..2, 4..6, 8..10}", "model.layers.{3, 7}", "model.layers.11"});
  CHECK(measure.groups[1].count == 9);
  REQUIRE(measure.groups[0].forward.size() == 1);
  CHECK(measure.groups[0].forward[0].modules == std::vector<std::string>{"embed", "head"});
  CHECK(measure.groups[3].backward.size() == 1);
}

TEST_CASE("hidden calls are separate rows and separate their layers") {
  CollectiveCall hidden = call("l.1.up");
  hidden.hidden = true;
  const std::vector<CollectiveCall> calls{call("l.0.up"), hidden, call("l.2.up"), call("l.2.up")};
  const CollectiveMeasure measure = measure_collectives(calls, kMesh);
  CHECK(layers_of(measure) == std::vector<std::string>{"l.0", "l.1", "l.2"});
  CHECK(measure.hidden.calls == 1);
  CHECK(measure.hidden.payload == 64);
  CHECK(measure.hidden.wire == 96);
  hidden.module = "l.2.up";
  const CollectiveMeasure beside = measure_collectives(std::vector{call("l.2.up"), hidden}, kMesh);
  CHECK(beside.groups.at(0).forward.size() == 2);
}

TEST_CASE("stacks of layers with different names are separate groups") {
  const CollectiveMeasure measure = measure_collectives(
      std::vector{call("encoder.0.out"), call("encoder.1.out"), call("decoder.0.out"), call("0.out")}, kMesh);
  CHECK(layers_of(measure) == std::vector<std::string>{"encoder.{0..1}", "decoder.0", "0"});
}

TEST_CASE("experts are one row, calls of another shape another one") {
  const std::vector<CollectiveCall> calls{call("l.0.experts.0.up"),
                                          call("l.0.experts.0.down"),
                                          call("l.0.experts.1.up"),
                                          call("l.0.experts.1.down"),
                                          call("l.0.experts.2.up", false, {3, 8}),
                                          call("l.0.q_proj", true),
                                          call("l.0.k_proj", true)};
  const CallGroup group = measure_collectives(calls, kMesh).groups.at(0);
  REQUIRE(group.forward.size() == 2);
  CHECK(group.forward[0].modules == std::vector<std::string>{"experts.{0..1}.up", "experts.{0..1}.down"});
  CHECK(modules_text(group.forward[0].modules) == "experts.{0..1}.{up,down}");
  CHECK(group.forward[0].sums.calls == 4);
  CHECK(group.forward[1].modules == std::vector<std::string>{"experts.2.up"});
  REQUIRE(group.backward.size() == 1);
  CHECK(modules_text(group.backward[0].modules) == "{q,k}_proj");
}

TEST_CASE("payload and wire bytes match nccl-tests") {
  using enum CollectiveKind;
  const std::vector<CollectiveCall> calls{call("a", false, {4}, AllReduce), call("b", false, {4}, AllGather),
                                          call("c", true, {4}, ReduceScatter), call("d", true, {4}, AllToAll)};
  const CollectiveMeasure measure = measure_collectives(calls, kMesh);
  CHECK(measure.forward.payload == 16 + 64);
  CHECK(measure.forward.wire == 24 + 48);
  CHECK(measure.backward.payload == 16 + 16);
  CHECK(measure.backward.wire == 12 + 12);
  CHECK_FALSE(measure.overflow);
}

TEST_CASE("totals beyond 64 bits are reported") {
  std::vector<CollectiveCall> calls(3, call("a"));
  for (CollectiveCall& c : calls) c.bytes = int64_t{1} << 62;
  CHECK_FALSE(measure_collectives(std::span(calls).first(1), kMesh).overflow);
  CHECK(measure_collectives(calls, kMesh).overflow);
}

TEST_CASE("the total of both passes is checked for overflow") {
  std::vector<CollectiveCall> calls(3, call("a"));
  for (CollectiveCall& c : calls) c.bytes = int64_t{1} << 61;
  calls[1].backward = calls[2].backward = true;
  const CollectiveMeasure small = measure_collectives(std::span(calls).first(2), kMesh);
  CHECK_FALSE(small.overflow);
  CHECK(small.total.payload == small.forward.payload + small.backward.payload);
  for (CollectiveCall& c : calls) c.bytes = int64_t{1} << 62;
  CHECK_FALSE(measure_collectives(std::span(calls).first(1), kMesh).overflow);
  CHECK_FALSE(measure_collectives(std::span(calls).last(2), kMesh).overflow);
  CHECK(measure_collectives(calls, kMesh).overflow);
}

TEST_CASE("names without a common part are listed separately") {
  CHECK(modules_text(std::vector<std::string>{"a"}) == "a");
  CHECK(modules_text(std::vector<std::string>{"a", "b"}) == "a, b");
  CHECK(modules_text(std::vector<std::string>{"x.a", "x.b"}) == "x.{a,b}");
  CHECK(modules_text(std::vector<std::string>{"x.q_proj", "y.q_proj"}) == "{x,y}.q_proj");
  CHECK(modules_text(std::vector<std::string>{"x.a", "x.a.b"}) == "x.{a,a.b}");
}
