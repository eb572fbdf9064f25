#include "exec/ranks/rendezvous.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "diagnostics/fault.h"
#include "exec/ranks/frames.h"
#include "exec/ranks/hello.h"
#include "exec/ranks/sockets.h"

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

// Returns ranks 0 to world - 1 of one job, with equal settings.
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

void connect_all(std::vector<Caller>& all) {
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

// Checks that no other rank joined and that every rank reports the same reason in time.
void check_refused(const std::vector<Caller>& all, std::string_view why, double seconds) {
  for (const Caller& caller : all) {
    CHECK(!caller.came);
    CHECK_MESSAGE(contains(caller.fault, why), caller.options.rank, ": ", caller.fault);
    CHECK(caller.seconds < seconds);
  }
}

}  // namespace

TEST_CASE("ranks rendezvous over IPv4 and IPv6 and find node peers") {
  for (const char* address : {"127.0.0.1", "::1", "localhost"}) {
    int port = 0;
    try {
      close(listen_at(address, port));
    } catch (const Fault&) {
      continue;  // a machine without IPv6
    }
    std::vector<Caller> all = callers(5, 10, address);
    connect_all(all);
    for (const Caller& caller : all) {
      CHECK_MESSAGE(caller.came, address, ": ", caller.fault);
      CHECK(caller.connections.node == std::vector<int>{0, 1, 2, 3, 4});
      CHECK(caller.connections.sockets.size() == (caller.options.rank == 0 ? 5 : 1));
    }
  }
}

TEST_CASE("a rank with other settings is named with both values") {
  std::vector<Caller> all = callers(3, 5);
  all[2].options.agreement = "manifest bb\ncommand run";
  connect_all(all);
  CHECK(contains(all[0].fault,
                 "rank 2 has a different manifest or options than rank 0: \"manifest bb\" instead of \"manifest aa\""));
  CHECK(contains(all[2].fault, "manifest bb"));
  CHECK(!all[1].came);
  for (const Caller& caller : all) CHECK(caller.seconds < 6.5);
}

TEST_CASE("a rank of another job is rejected, and the job continues") {
  std::vector<Caller> all = callers(3, 10);
  for (Caller& caller : all) caller.options.job = "own";
  Caller stranger{.options = all[1].options};
  stranger.options.job = "other";
  stranger.options.agreement = "manifest bb";
  std::thread first([&] { come(all[0]); });
  come(stranger);  // it gets its reply before all ranks of rank 0's job have connected
  std::thread second([&] { come(all[1]); }), third([&] { come(all[2]); });
  for (std::thread* thread : {&first, &second, &third}) thread->join();
  for (const Caller& caller : all) CHECK_MESSAGE(caller.came, caller.fault);
  for (const Caller& caller : all) {
    for (const int socket : caller.connections.sockets) close(socket);
  }
  CHECK(!stranger.came);
  CHECK(contains(stranger.fault, "rank 1 of job \"other\" reached rank 0 of job \"own\""));
}

TEST_CASE("a rank with another world size is named") {
  std::vector<Caller> all = callers(2, 2);
  all[1].options.world = 4;
  connect_all(all);
  check_refused(all, "rank 1 has a world size of 4, rank 0 of 2", 3.5);
}

TEST_CASE("two processes with one rank are named by host and process") {
  std::vector<Caller> all = callers(3, 2);
  all[2].options.rank = 1;
  connect_all(all);
  check_refused(all, "two processes have rank 1: ", 3.5);
  CHECK(contains(all[0].fault, "(process " + std::to_string(getpid()) + ")"));
}

TEST_CASE("absent ranks are named within the deadline and two seconds") {
  std::vector<Caller> all = callers(5, 1);
  all.erase(all.begin() + 3);
  all.erase(all.begin() + 1);
  connect_all(all);
  check_refused(all, "ranks 1 and 3 of 5 have not connected to rank 0 within 1 s", 3);
}

TEST_CASE("without rank 0 the others report the address") {
  std::vector<Caller> all = callers(3, 1);
  all.erase(all.begin());
  connect_all(all);
  check_refused(all, "cannot reach rank 0 at 127.0.0.1:", 3);
}

TEST_CASE("an occupied port is an error that names it on every rank") {
  std::vector<Caller> all = callers(2, 1);
  const int holder = listen_at("127.0.0.1", all[0].options.port);
  REQUIRE(holder >= 0);
  connect_all(all);
  CHECK(contains(all[0].fault, "rank 0 cannot listen at 127.0.0.1:" + std::to_string(all[0].options.port) +
                                   ": Address already in use"));
  CHECK(contains(all[1].fault, "rank 1 cannot reach rank 0"));
  CHECK(all[1].seconds < 3);
  close(holder);
}

TEST_CASE("garbage, silence, truncation and crowds are ignored") {
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
    connect_all(others);
    std::copy(others.begin(), others.end(), all.begin() + 1);
  });
  come(all[0]);
  crowd.join();
  late.join();
  for (const int fd : strangers) close(fd);
  for (const int fd : all[0].connections.sockets) close(fd);
  for (const Caller& caller : all) CHECK_MESSAGE(caller.came, caller.fault);
}

namespace {

// Connects to rank 0 and sends `bytes`; retries while rank 0 does not listen.
int call_rank_zero(int port, std::string_view bytes) {
  std::string reason;
  for (int fd = -1;; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    fd = connect_to("127.0.0.1", port, 1, reason);
    if (fd < 0) continue;
    CHECK(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    return fd;
  }
}

// Reads until the peer closes the connection.
std::string read_all(int fd) {
  std::string bytes;
  while (receive_available(fd, bytes)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  close(fd);
  return bytes;
}

// Job of two ranks. Rank 1 connects after `calls` have been answered; both must join.
struct CalledJob {
  std::vector<Caller> all;
  std::vector<std::string> answers;
};

CalledJob run_called_job(const std::string& secret, const std::vector<RendezvousOptions>& hellos) {
  CalledJob job{.all = callers(2, 30), .answers = {}};
  for (Caller& caller : job.all) caller.options.secret = secret;
  std::thread zero([&] { come(job.all[0]); });
  for (RendezvousOptions hello : hellos) {
    const int port = hello.port = job.all[0].options.port;
    job.answers.push_back(read_all(call_rank_zero(port, encode(hello_of(hello)))));
  }
  come(job.all[1]);
  zero.join();
  for (const Caller& caller : job.all) {
    CHECK_MESSAGE(caller.came, caller.fault);
    for (const int socket : caller.connections.sockets) close(socket);
  }
  return job;
}

RendezvousOptions hello_like(std::string secret, int rank = 1, int world = 2) {
  return {.rank = rank,
          .world = world,
          .address = "",
          .secret = std::move(secret),
          .agreement = "manifest aa\ncommand run"};
}

}  // namespace

TEST_CASE("a false rank without the secret gets no reply, is counted") {
  const CalledJob job = run_called_job("right", {hello_like("wrong"), hello_like(""), hello_like("righ", 1, 7)});
  CHECK(job.answers == std::vector<std::string>{"", "", ""});
  CHECK(job.all[0].connections.strangers.count == 3);
  CHECK(to_text(job.all[0].connections.strangers) ==
        "3 connections to rank 0 were not from a rank of this job, the last from 127.0.0.1");
}

TEST_CASE("without secrets a bad hello is rejected, the job continues") {
  RendezvousOptions other = hello_like("");
  other.agreement = "manifest bb";
  const CalledJob job = run_called_job("", {hello_like("", 1, 7), hello_like("", 9), other});
  for (const std::string& answer : job.answers) CHECK(contains(answer, "rank"));
  CHECK(to_text(job.all[0].connections.strangers) ==
        "3 connections to rank 0 were not from a rank of this job, the last from 127.0.0.1: rank 1 has a world size "
        "of 7, rank 0 of 2");
}

TEST_CASE("a rank with the secret and other settings ends the job") {
  std::vector<Caller> all = callers(3, 30);
  for (Caller& caller : all) caller.options.secret = "right";
  all[2].options.agreement = "manifest bb\ncommand run";
  connect_all(all);
  check_refused({all[0], all[2]}, "rank 2 has a different manifest or options than rank 0: \"manifest bb\" instead of",
                10);
}

TEST_CASE("different secrets are named on both sides") {
  std::vector<Caller> all = callers(2, 1);
  for (Caller& caller : all) caller.options.secret = std::to_string(caller.options.rank);
  connect_all(all);
  CHECK(contains(all[0].fault, "rank 1 of 2 has not connected to rank 0 within 1 s; "));
  CHECK(contains(all[0].fault, "not from a rank of this job, the last from 127.0.0.1"));
  CHECK(contains(all[0].fault, "the same TPPLAN_EXEC_SECRET"));
  CHECK(contains(all[1].fault, "its TPPLAN_EXEC_SECRET differs"));
}

TEST_CASE("a false rank 0 that echoes the hello is rejected") {
  int port = 0;
  const int listener = listen_at("127.0.0.1", port);
  std::atomic<bool> done = false;
  std::thread echo([&] {
    while (!done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const int fd = accept_caller(listener);
      if (fd < 0) continue;
      std::string bytes;
      Frame hello;
      while (decode(bytes, kMaxHelloBytes, hello) == DecodeState::NeedMore && receive_available(fd, bytes)) {
      }
      send_frame(fd, {.type = FrameType::Welcome, .numbers = {0, 1}, .texts = {hello.texts.back()}}, 1);
      send_frame(fd, {.type = FrameType::Reject, .texts = {"", ""}}, 1);
      close(fd);
    }
  });
  Caller caller{.options = hello_like("right")};
  caller.options.address = "127.0.0.1";
  caller.options.port = port;
  caller.options.deadline = 1;
  come(caller);
  done = true;
  echo.join();
  close(listener);
  CHECK(!caller.came);
  CHECK(contains(caller.fault, "its TPPLAN_EXEC_SECRET differs"));
}

TEST_CASE("silent connections are closed in time while ranks join") {
  std::vector<Caller> all = callers(2, 30);
  std::thread zero([&] { come(all[0]); });
  std::vector<int> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(call_rank_zero(all[0].options.port, i % 2 == 0 ? "" : "half"));
  const Clock::time_point start = Clock::now();
  for (const int fd : silent) CHECK(read_all(fd).empty());
  CHECK(std::chrono::duration<double>(Clock::now() - start).count() < kHelloSeconds + 5);
  come(all[1]);
  zero.join();
  for (const Caller& caller : all) {
    CHECK_MESSAGE(caller.came, caller.fault);
    for (const int socket : caller.connections.sockets) close(socket);
  }
  CHECK(all[0].connections.strangers.count == silent.size());
}

TEST_CASE("frames are read from any chunks, and other bytes rejected") {
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
  for (size_t i = 8; i < bytes.size(); ++i) {  // a frame with a damaged byte after the length is never accepted
    for (const char flip : {'\x01', '\x10', '\x80', '\xff'}) {
      std::string broken = bytes;
      broken[i] = static_cast<char>(broken[i] ^ flip);
      REQUIRE(decode(broken, kMaxFrameBytes, read) == DecodeState::Malformed);
    }
  }
  std::string huge(8, '\xff');
  CHECK(decode(huge, kMaxFrameBytes, read) == DecodeState::Malformed);
}
