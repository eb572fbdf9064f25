#include "exec/ranks/control.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>
#include <tuple>

#include "exec/ranks/sockets.h"

using namespace tpplan;

namespace {

using Clock = std::chrono::steady_clock;

constexpr Backend kTexts = {
    .name = "texts", .fold_texts = fold_texts_by_control, .publish_state = publish_state_by_control};

struct Outcome {
  bool joined = false;
  std::string fault;
  double seconds = 0;
};

// Runs each rank in a thread with separate connections, as in a process, and returns the results.
std::vector<Outcome> run_job(int world, double deadline, const std::function<void(Comm&)>& body) {
  int port = 0;
  close(listen_at("127.0.0.1", port));
  std::vector<Outcome> outcomes(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      Comm comm{.rank = rank,
                .world = world,
                .local_rank = -1,
                .backend = &kTexts,
                .device = &cpu_device(),
                .deadline = deadline};
      try {
        join_job(comm, {.rank = rank, .world = world, .address = "127.0.0.1", .port = port, .deadline = 20});
        outcome.joined = true;
      } catch (const Fault& fault) {
        outcome.fault = to_text(fault);
        return;
      }
      const Clock::time_point start = Clock::now();
      body(comm);
      if (comm.fault) outcome.fault = to_text(*comm.fault);
      outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) CHECK_MESSAGE(outcome.joined, outcome.fault);
  return outcomes;
}

std::string join(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

bool wait_for_all(Comm& comm) {
  std::string all;
  return comm.backend->fold_texts(comm, "", join, all);
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("texts of all sizes reach every rank in every round") {
  const auto text_of = [](int rank, int round) {
    return std::string(round == 3 ? 2'000'000u : static_cast<size_t>(round * rank), static_cast<char>('a' + rank));
  };
  std::vector<int> right(5), ended(5);
  const std::vector<Outcome> outcomes = run_job(5, 20, [&](Comm& comm) {
    const auto self = static_cast<size_t>(comm.rank);
    CHECK(comm.node == std::vector<int>{0, 1, 2, 3, 4});
    CHECK(comm.local_rank == comm.rank);
    for (int round = 0; round < 6; ++round) {
      begin_step(comm, "round");
      std::string all, expected;
      for (int rank = 0; rank < 5; ++rank) expected += text_of(rank, round);
      if (!comm.backend->fold_texts(comm, text_of(comm.rank, round), join, all)) return;
      right[self] += all == expected;
    }
    ended[self] = finish_job(comm, 0);
  });
  CHECK(right == std::vector<int>(5, 6));
  CHECK(ended == std::vector<int>(5, 1));
  for (const Outcome& outcome : outcomes) CHECK(outcome.fault.empty());
}

TEST_CASE("a nonzero status is sent to all ranks and is no error") {
  std::vector<int> fine(3, 1);
  const std::vector<Outcome> outcomes = run_job(
      3, 20, [&](Comm& comm) { fine[static_cast<size_t>(comm.rank)] = finish_job(comm, comm.rank == 1 ? 2 : 0); });
  CHECK(fine == std::vector<int>(3, 0));
  for (const Outcome& outcome : outcomes) CHECK(outcome.fault.empty());
}

TEST_CASE("waiting ranks report a failed rank at once, identically") {
  for (const int culprit : {0, 2}) {
    const std::vector<Outcome> outcomes = run_job(4, 20, [&](Comm& comm) {
      begin_step(comm, "load x");
      if (comm.rank == culprit) return fail(comm, Code::WeightsUnreadable, "the disk is on fire");
      wait_for_all(comm);
    });
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.fault == "rank " + std::to_string(culprit) + " failed at step 1 (load x): the disk is on fire");
      CHECK(outcome.seconds < 3);
    }
  }
}

TEST_CASE(
    "a rank that is late is named, with the step where it is, by whoever waits for it and by who waits for those") {
  const std::vector<Outcome> outcomes = run_job(3, 1, [&](Comm& comm) {
    begin_step(comm, "first");
    if (comm.rank == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    if (!wait_for_all(comm)) return;
  });
  for (const int rank : {0, 2}) {
    CHECK(contains(outcomes[static_cast<size_t>(rank)].fault,
                   "has waited 1 s at step 1 (first) for rank 1, which is still at step 1 (first)"));
    CHECK(outcomes[static_cast<size_t>(rank)].seconds < 2.5);
  }
}

TEST_CASE("a rank whose connection closes is reported as gone") {
  for (const bool at_end : {false, true}) {
    const std::vector<Outcome> outcomes = run_job(3, 20, [&](Comm& comm) {
      begin_step(comm, "work");
      if (comm.rank == 1) return;  // its channel closes with its Comm
      at_end ? void(finish_job(comm, 0)) : void(wait_for_all(comm));
    });
    for (const int rank : {0, 2}) {
      const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      CHECK_MESSAGE(contains(outcome.fault,
                             "rank 1 is disconnected: its process ended or its network failed; its last message was "
                             "from step 1 (work)"),
                    outcome.fault);
      CHECK(outcome.seconds < 3);
    }
  }
}

TEST_CASE("a rank that ended early is named with its status") {
  const std::vector<Outcome> outcomes = run_job(3, 20, [&](Comm& comm) {
    begin_step(comm, "work");
    if (comm.rank == 2)
      wait_for_all(comm);
    else
      std::ignore = finish_job(comm, comm.rank);
  });
  CHECK(contains(outcomes[2].fault, "with status"));
  CHECK(contains(outcomes[2].fault, "while rank 2 waits for it at step 1 (work)"));
}

TEST_CASE("moving ranks delay the end, stalled ranks are late") {
  const std::vector<Outcome> slow = run_job(2, 0.5, [](Comm& comm) {
    for (int i = 0; comm.rank == 1 && i < 8; ++i) {
      begin_step(comm, "write a shard");
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
    }
    std::ignore = finish_job(comm, 0);
  });
  for (const Outcome& outcome : slow) CHECK_MESSAGE(outcome.fault.empty(), outcome.fault);
  const std::vector<Outcome> stuck = run_job(2, 0.5, [](Comm& comm) {
    begin_step(comm, "write a shard");
    if (comm.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    std::ignore = finish_job(comm, 0);
  });
  CHECK(contains(stuck[0].fault, "for rank 1, which is still at step 1 (write a shard)"));
}
