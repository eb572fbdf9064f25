#include "ranks/rendezvous.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "diagnostics/fault.h"
#include "ranks/frames.h"
#include "ranks/sockets.h"

using namespace tpplan;

namespace {

using Clock = std::chrono::steady_clock;

struct Caller {
  RendezvousOptions options;
  bool came = false;
  std::string fault;
  RankConnections connections;
  double seconds = 0;
};

int free_port(const std::string& address = "127.0.0.1") {
  int port = 0;
  const int fd = listen_at(address, port);
  close(fd);
  return port;
}

// Ranks 0 to world - 1 of one job, as yet of one mind.
std::vector<Caller> callers(int world, double deadline, const std::string& address = "127.0.0.1") {
  const int port = free_port(address);
  std::vector<Caller> all;
  for (int rank = 0; rank < world; ++rank) {
    all.push_back({.options = {.rank = rank,
                               .world = world,
                               .address = address,
                               .port = port,
                               .deadline = deadline,
                               .agreement = "manifest aa\ncommand run"}});
  }
  return all;
}

void come(Caller& caller) {
  try {
    caller.connections = rendezvous(caller.options);
    caller.came = true;
  } catch (const Fault& fault) {
    caller.fault = to_text(fault);
  }
}

void meet_all(std::vector<Caller>& all) {
  std::vector<std::thread> threads;
  for (Caller& caller : all) {
    threads.emplace_back([&caller] {
      const Clock::time_point start = Clock::now();
      come(caller);
      caller.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Caller& caller : all) {
    for (const int socket : caller.connections.sockets) close(socket);
  }
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Nobody came, and everybody says why in the same words, in time.
void check_refused(const std::vector<Caller>& all, std::string_view why, double seconds) {
  for (const Caller& caller : all) {
    CHECK(!caller.came);
    CHECK_MESSAGE(contains(caller.fault, why), caller.options.rank, ": ", caller.fault);
    CHECK(caller.seconds < seconds);
  }
}

}  // namespace

TEST_CASE("ranks meet over IPv4 and IPv6, and know who is on their node") {
  for (const char* address : {"127.0.0.1", "::1", "localhost"}) {
    int port = 0;
    try {
      close(listen_at(address, port));
    } catch (const Fault&) {
      continue;  // a machine without IPv6
    }
    std::vector<Caller> all = callers(5, 10, address);
    meet_all(all);
    for (const Caller& caller : all) {
      CHECK_MESSAGE(caller.came, address, ": ", caller.fault);
      CHECK(caller.connections.node == std::vector<int>{0, 1, 2, 3, 4});
      CHECK(caller.connections.sockets.size() == (caller.options.rank == 0 ? 5 : 1));
    }
  }
}

TEST_CASE("a rank that disagrees is named to all, with what differs") {
  std::vector<Caller> all = callers(3, 5);
  all[2].options.agreement = "manifest bb\ncommand run";
  meet_all(all);
  CHECK(contains(all[0].fault, "rank 2 does not agree with rank 0: \"manifest bb\" there, \"manifest aa\" at rank 0"));
  CHECK(contains(all[2].fault, "manifest bb"));
  CHECK(!all[1].came);
  for (const Caller& caller : all) CHECK(caller.seconds < 6.5);
}

TEST_CASE("a rank of another job is sent away, and the job goes on without it") {
  std::vector<Caller> all = callers(3, 10);
  for (Caller& caller : all) caller.options.job = "own";
  Caller stranger{.options = all[1].options};
  stranger.options.job = "other";
  stranger.options.agreement = "manifest bb";
  std::thread first([&] { come(all[0]); });
  come(stranger);  // it has its answer before rank 0 has all of its own ranks
  std::thread second([&] { come(all[1]); }), third([&] { come(all[2]); });
  for (std::thread* thread : {&first, &second, &third}) thread->join();
  for (const Caller& caller : all) CHECK_MESSAGE(caller.came, caller.fault);
  for (const Caller& caller : all) {
    for (const int socket : caller.connections.sockets) close(socket);
  }
  CHECK(!stranger.came);
  CHECK(contains(stranger.fault, "rank 1 is of the job \"other\", and who answers it is rank 0 of the job \"own\""));
}

TEST_CASE("a rank with another world size is named") {
  std::vector<Caller> all = callers(2, 2);
  all[1].options.world = 4;
  meet_all(all);
  check_refused(all, "rank 1 believes in a world of 4 ranks, rank 0 in 2", 3.5);
}

TEST_CASE("two processes with one rank are both named, by host and process") {
  std::vector<Caller> all = callers(3, 2);
  all[2].options.rank = 1;
  meet_all(all);
  check_refused(all, "two processes call themselves rank 1: ", 3.5);
  CHECK(contains(all[0].fault, "(process " + std::to_string(getpid()) + ")"));
}

TEST_CASE("ranks that never come are named to all that did, within the deadline and two seconds") {
  std::vector<Caller> all = callers(5, 1);
  all.erase(all.begin() + 3);
  all.erase(all.begin() + 1);
  meet_all(all);
  check_refused(all, "ranks 1 and 3 of 5 have not come to rank 0 within 1 s", 3);
}

TEST_CASE("without rank 0 the others say where they looked") {
  std::vector<Caller> all = callers(3, 1);
  all.erase(all.begin());
  meet_all(all);
  check_refused(all, "cannot reach rank 0 at 127.0.0.1:", 3);
}

TEST_CASE("a port that somebody holds is an error that names it, at rank 0 and at who called the wrong one") {
  std::vector<Caller> all = callers(2, 1);
  const int holder = listen_at("127.0.0.1", all[0].options.port);
  REQUIRE(holder >= 0);
  meet_all(all);
  CHECK(contains(all[0].fault, "rank 0 cannot listen at 127.0.0.1:" + std::to_string(all[0].options.port) +
                                   ": Address already in use"));
  CHECK(contains(all[1].fault, "rank 1 cannot reach rank 0"));
  CHECK(all[1].seconds < 3);
  close(holder);
}

TEST_CASE("strangers at the port are passed over: garbage, silence, half a word, a crowd") {
  std::vector<Caller> all = callers(3, 10);
  const int port = all[0].options.port;
  std::vector<int> strangers;
  std::thread crowd([&] {
    std::string reason;
    for (int i = 0; i < 400; ++i) {
      const int fd = connect_to("127.0.0.1", port, 1, reason);
      if (fd < 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      const std::string words[] = {"GET / HTTP/1.1\r\n\r\n",
                                   "",
                                   std::string(3, '\x01'),
                                   std::string(100'000, '\xff'),
                                   encode({.type = FrameType::Hello, .numbers = {1, 2, 3}}),
                                   encode({.type = FrameType::Fault, .texts = {"x"}}),
                                   std::string("\x20\0\0\0\0\0\0\0", 8) + std::string(32, '\x7f')};
      const std::string& word = words[static_cast<size_t>(i) % std::size(words)];
      if (send(fd, word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        close(fd);
      else
        strangers.push_back(fd);
    }
  });
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<Caller> others(all.begin() + 1, all.end());
    meet_all(others);
    std::copy(others.begin(), others.end(), all.begin() + 1);
  });
  come(all[0]);
  crowd.join();
  late.join();
  for (const int fd : strangers) close(fd);
  for (const int fd : all[0].connections.sockets) close(fd);
  for (const Caller& caller : all) CHECK_MESSAGE(caller.came, caller.fault);
}

TEST_CASE("frames are read back from any pieces, and nothing else is taken for one") {
  const Frame frame{
      .type = FrameType::Agreed, .numbers = {7, 1ull << 63}, .texts = {"", "a\0b", std::string(1000, 'x')}};
  const std::string bytes = encode(frame);
  std::string buffer;
  Frame read;
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    buffer.push_back(bytes[i]);
    REQUIRE(decode(buffer, kMaxFrameBytes, read) == DecodeState::NeedMore);
  }
  buffer.push_back(bytes.back());
  buffer += bytes.substr(0, 5);
  REQUIRE(decode(buffer, kMaxFrameBytes, read) == DecodeState::Frame);
  CHECK(buffer.size() == 5);
  CHECK(read.numbers == frame.numbers);
  CHECK(read.texts == frame.texts);
  for (size_t i = 8; i < bytes.size(); ++i) {  // a damaged byte anywhere behind the length: never a frame
    for (const char flip : {'\x01', '\x10', '\x80', '\xff'}) {
      std::string broken = bytes;
      broken[i] = static_cast<char>(broken[i] ^ flip);
      REQUIRE(decode(broken, kMaxFrameBytes, read) == DecodeState::Malformed);
    }
  }
  std::string huge(8, '\xff');
  CHECK(decode(huge, kMaxFrameBytes, read) == DecodeState::Malformed);
}
