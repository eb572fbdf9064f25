#include "ranks/rendezvous.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/file_limit.h"
#include "base/text.h"
#include "manifest/manifest.h"
#include "ranks/deadline.h"
#include "ranks/frames.h"
#include "ranks/message.h"
#include "ranks/roster.h"
#include "ranks/sockets.h"

namespace tpplan {
namespace {

constexpr uint64_t kMagic = 0x34'6b'6e'61'72'70'70'74;  // "tpprank4"
constexpr size_t kMaxUnidentified = 256;                // connections that have not said who they are
constexpr uint64_t kOtherFiles = 16;                    // that a rank may open beside, until its job is done
constexpr double kAnswerSeconds = 1;                    // that rank 0's answer may come after the deadline

double seconds_until(Clock::time_point end) { return std::chrono::duration<double>(end - Clock::now()).count(); }

int milliseconds_until(Clock::time_point end, int most) {
  return std::clamp(static_cast<int>(seconds_until(end) * 1000), 0, most);
}

Frame hello_of(const RendezvousOptions& options) {
  return {.type = FrameType::Hello,
          .numbers = {kMagic, static_cast<uint64_t>(options.rank), static_cast<uint64_t>(options.world),
                      static_cast<uint64_t>(getpid())},
          .texts = {std::string(kToolVersion), options.agreement, host_identity(), options.job}};
}

bool is_hello(const Frame& frame) {
  return frame.type == FrameType::Hello && frame.numbers.size() == 4 && frame.texts.size() == 4 &&
         frame.numbers[0] == kMagic;
}

std::string in_quotes(std::string_view line) { return fmt::format("\"{}\"", escape_for_terminal(line.substr(0, 160))); }

// The first line in which two agreements differ.
std::string differing_lines(std::string_view zero, std::string_view other) {
  const std::vector<std::string_view> a = split(zero, '\n'), b = split(other, '\n');
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string_view left = i < a.size() ? a[i] : "", right = i < b.size() ? b[i] : "";
    if (left != right) return fmt::format("{} there, {} at rank 0", in_quotes(right), in_quotes(left));
  }
  return "nothing that can be shown";
}

// Why a caller cannot be part of rank 0's job; nothing: it can.
std::optional<Fault> find_disagreement(const Frame& own, const Frame& hello, const std::vector<Frame>& present) {
  const uint64_t rank = hello.numbers[1], world = own.numbers[2];
  const auto differs = [&](std::string message, std::string help) {
    return Fault{
        .code = Code::TP8006, .message = std::move(message), .help = std::move(help), .rank = static_cast<int>(rank)};
  };
  if (hello.numbers[2] != world)
    return differs(fmt::format("rank {} believes in a world of {} ranks, rank 0 in {}", rank, hello.numbers[2], world),
                   "start all ranks with one launcher and one world size");
  if (rank >= world)
    return differs(fmt::format("a process calls itself rank {} of {}", rank, world), "ranks count from 0");
  if (hello.texts[0] != own.texts[0])
    return differs(
        fmt::format("rank {} runs {}, rank 0 runs {}", rank, in_quotes(hello.texts[0]), in_quotes(own.texts[0])),
        "install one version everywhere");
  if (hello.texts[1] != own.texts[1])
    return differs(
        fmt::format("rank {} does not agree with rank 0: {}", rank, differing_lines(own.texts[1], hello.texts[1])),
        "give all ranks the same manifest and options");
  if (const Frame& earlier = present[rank]; !earlier.numbers.empty())
    return differs(fmt::format("two processes call themselves rank {}: {} (process {}) and {} (process {})", rank,
                               in_quotes(split(earlier.texts[2], ' ')[0]), earlier.numbers[3],
                               in_quotes(split(hello.texts[2], ' ')[0]), hello.numbers[3]),
                   "start each rank once");
  return std::nullopt;
}

struct PendingConnection {
  int socket = -1;
  std::string bytes;
};

// Rank 0's side.
struct PendingJob {
  Frame own;
  std::vector<Frame> present;  // hellos by rank
  std::vector<int> sockets;
  std::vector<PendingConnection> unidentified;
  size_t missing = 0;
};

void reject(int socket, const Fault& fault) {
  send_frame(socket, {.type = FrameType::Reject, .texts = {to_message(fault)}}, kAnswerSeconds);
}

void reject_all(PendingJob& pending, const Fault& fault) {
  for (PendingConnection& connection : pending.unidentified) close(connection.socket);
  for (int& socket : pending.sockets) {
    if (socket < 0) continue;
    reject(socket, fault);
    close(socket);
    socket = -1;
  }
}

// Reads what one connection says of itself; throws when it is a rank that cannot take part.
void read_hello(PendingJob& pending, PendingConnection& connection) {
  const bool open = receive_available(connection.socket, connection.bytes);
  Frame hello;
  const DecodeState state = decode(connection.bytes, kMaxHelloBytes, hello);
  if (state == DecodeState::NeedMore && open) return;
  if (state != DecodeState::Frame || !is_hello(hello)) {
    close(connection.socket);
    connection.socket = -1;
    return;
  }
  // Two jobs that were given one port: a rank of the other one is no rank here, whatever it calls itself.
  if (hello.texts[3] != pending.own.texts[3]) {
    reject(connection.socket,
           {.code = Code::TP8006,
            .message = fmt::format("rank {} is of the job {}, and who answers it is rank 0 of the job {}",
                                   hello.numbers[1], in_quotes(hello.texts[3]), in_quotes(pending.own.texts[3])),
            .help = "give each job a MASTER_PORT of its own",
            .rank = static_cast<int>(hello.numbers[1])});
    close(std::exchange(connection.socket, -1));
    return;
  }
  if (const std::optional<Fault> fault = find_disagreement(pending.own, hello, pending.present)) {
    reject(connection.socket, *fault);
    throw *fault;
  }
  const uint64_t rank = hello.numbers[1];
  pending.sockets[rank] = std::exchange(connection.socket, -1);
  pending.present[rank] = std::move(hello);
  --pending.missing;
}

void accept_connections(PendingJob& pending, int listener) {
  for (int fd = accept_caller(listener); fd >= 0; fd = accept_caller(listener)) {
    if (pending.unidentified.size() >= kMaxUnidentified) {
      close(pending.unidentified.front().socket);
      pending.unidentified.erase(pending.unidentified.begin());
    }
    pending.unidentified.push_back({.socket = fd});
  }
}

std::vector<int> missing_ranks(const PendingJob& pending) {
  std::vector<int> ranks;
  for (size_t i = 0; i < pending.present.size(); ++i) {
    if (pending.present[i].numbers.empty()) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

void accept_ranks(PendingJob& pending, int listener, const RendezvousOptions& options) {
  const Clock::time_point end = after(options.deadline);
  while (pending.missing != 0) {
    if (seconds_until(end) <= 0) {
      const std::vector<int> late = missing_ranks(pending);
      throw Fault{.code = Code::TP8005,
                  .message = fmt::format("{} of {} {} not come to rank 0 within {:.3g} s", list_ranks(late),
                                         options.world, late.size() == 1 ? "has" : "have", options.deadline),
                  .help = "start every rank, with the same MASTER_ADDR and MASTER_PORT",
                  .rank = late[0]};
    }
    std::vector<pollfd> items = {{.fd = listener, .events = POLLIN, .revents = 0}};
    for (const PendingConnection& connection : pending.unidentified)
      items.push_back({.fd = connection.socket, .events = POLLIN, .revents = 0});
    poll(items.data(), items.size(), milliseconds_until(end, 200));
    for (size_t i = 1; i < items.size(); ++i) {
      if (items[i].revents != 0) read_hello(pending, pending.unidentified[i - 1]);
    }
    std::erase_if(pending.unidentified, [](const PendingConnection& connection) { return connection.socket < 0; });
    if (items[0].revents != 0) accept_connections(pending, listener);
  }
}

// Before anybody comes: at the limit the last ones would be told that rank 0 does not answer.
void check_files(uint64_t ranks) {
  const FileCount files = count_files();
  const uint64_t needed = files.open + ranks + kOtherFiles;
  if (needed <= files.limit) return;
  throw Fault{.code = Code::TP8005,
              .message = fmt::format("rank 0 speaks with {} and needs {} open files for it, and may have {}",
                                     counted(ranks - 1, "other rank"), needed, files.limit),
              .help =
                  "raise the hard limit where rank 0 runs (ulimit -Hn; LimitNOFILE= of a service; --ulimit nofile of "
                  "a container)",
              .rank = 0};
}

RankConnections accept_job(const RendezvousOptions& options) {
  RankConnections connections{.rank = options.rank, .world = options.world};
  check_files(static_cast<uint64_t>(options.world));
  int port = options.port;
  const int listener = options.listener >= 0 ? options.listener : listen_at(options.address, port);
  const auto world = static_cast<size_t>(options.world);
  PendingJob pending{.own = hello_of(options),
                     .present = std::vector<Frame>(world),
                     .sockets = std::vector<int>(world, -1),
                     .missing = world - 1};
  pending.present[0] = pending.own;
  try {
    accept_ranks(pending, listener, options);
  } catch (const Fault& fault) {
    close(listener);
    reject_all(pending, fault);
    throw;
  }
  close(listener);
  for (const PendingConnection& connection : pending.unidentified) close(connection.socket);
  // Each hears of its own node alone.
  std::map<std::string_view, std::vector<int>> nodes;
  for (size_t rank = 0; rank < world; ++rank) nodes[pending.present[rank].texts[2]].push_back(static_cast<int>(rank));
  connections.node = nodes[pending.own.texts[2]];
  for (size_t rank = 1; rank < world; ++rank) {
    const std::vector<int>& node = nodes[pending.present[rank].texts[2]];
    // One that is gone is found when it is missed.
    send_frame(pending.sockets[rank], {.type = FrameType::Welcome, .numbers = {node.begin(), node.end()}, .texts = {}},
               kAnswerSeconds);
  }
  connections.sockets = std::move(pending.sockets);
  connections.inboxes.resize(connections.sockets.size());  // nobody speaks before the welcome
  return connections;
}

// Waits for rank 0's answer on an open connection: Welcome, Reject, or nothing that can be understood. `bytes`: what
// came after it.
bool receive_answer(int socket, Clock::time_point end, Frame& answer, std::string& bytes) {
  for (;;) {
    const DecodeState state = decode(bytes, kMaxFrameBytes, answer);
    if (state == DecodeState::Frame) return answer.type == FrameType::Welcome || answer.type == FrameType::Reject;
    if (state == DecodeState::Malformed || seconds_until(end) <= 0) return false;
    pollfd item{.fd = socket, .events = POLLIN, .revents = 0};
    poll(&item, 1, milliseconds_until(end, 200));
    if (item.revents != 0 && !receive_available(socket, bytes))
      return decode(bytes, kMaxFrameBytes, answer) == DecodeState::Frame;
  }
}

// A welcome names ranks of the job, in order, the one that it welcomes among them.
bool is_node_of(const Frame& welcome, const RendezvousOptions& options) {
  return std::ranges::is_sorted(welcome.numbers, std::less_equal<>()) && !welcome.numbers.empty() &&
         welcome.numbers.back() < static_cast<uint64_t>(options.world) &&
         std::ranges::find(welcome.numbers, static_cast<uint64_t>(options.rank)) != welcome.numbers.end();
}

// A Reject ends the wait. Any other answer, or none, may come from whoever held the port before: it is tried again
// until the deadline.
RankConnections connect_to_rank_zero(const RendezvousOptions& options) {
  RankConnections connections{.rank = options.rank, .world = options.world};
  const Clock::time_point end = after(options.deadline), last = after(kAnswerSeconds, end);
  const Frame hello = hello_of(options);
  std::string reason = "no answer";
  while (seconds_until(end) > 0) {
    const int socket = connect_to(options.address, options.port, seconds_until(end), reason);
    if (socket >= 0) {
      Frame answer;
      std::string inbox;
      const bool answered = send_frame(socket, hello, kAnswerSeconds) && receive_answer(socket, last, answer, inbox);
      if (answered && answer.type == FrameType::Welcome && is_node_of(answer, options)) {
        connections.sockets = {socket};
        connections.inboxes = {std::move(inbox)};
        connections.node.assign(answer.numbers.begin(), answer.numbers.end());
        return connections;
      }
      close(socket);
      Fault fault;
      if (answered && answer.type == FrameType::Reject && answer.texts.size() == 1 &&
          from_message(answer.texts[0], fault))
        throw fault;
      reason = !answered && seconds_until(last) <= 0
                   ? "it has not answered, which it does when all ranks have come to it"
                   : "who answers there does not know this job";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw Fault{.code = Code::TP8005,
              .message = fmt::format("rank {} cannot reach rank 0 at {} within {:.3g} s: {}", options.rank,
                                     endpoint_text(options.address, options.port), options.deadline, reason),
              .help = "see that rank 0 is started, with all others, and that MASTER_ADDR and MASTER_PORT are its own",
              .rank = 0};
}

}  // namespace

RankConnections rendezvous(const RendezvousOptions& options) {
  return options.rank == 0 ? accept_job(options) : connect_to_rank_zero(options);
}

}  // namespace tpplan
