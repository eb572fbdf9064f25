#include "exec/ranks/rendezvous.h"

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
#include "exec/ranks/deadline.h"
#include "exec/ranks/frames.h"
#include "exec/ranks/hello.h"
#include "exec/ranks/message.h"
#include "exec/ranks/roster.h"
#include "exec/ranks/sockets.h"

namespace tpplan {
namespace {

constexpr size_t kMaxUnidentified = 256;  // connections that have not sent a hello
constexpr int kAcceptedATurn = 64;        // connections accepted before their hellos are read
constexpr uint64_t kOtherFiles = 16;      // other files that rank 0 may open during the job
constexpr double kAnswerSeconds = 1;      // delay of rank 0's answer after the deadline

double seconds_until(Clock::time_point end) { return std::chrono::duration<double>(end - Clock::now()).count(); }

int milliseconds_until(Clock::time_point end, int most) {
  return std::clamp(static_cast<int>(seconds_until(end) * 1000), 0, most);
}

struct PendingConnection {
  int socket = -1;
  std::string bytes;
  Clock::time_point start = Clock::now();
};

// State of the rendezvous at rank 0.
struct PendingJob {
  Frame own;
  std::vector<Frame> present;  // hellos by rank
  std::vector<int> sockets;
  std::vector<PendingConnection> unidentified;
  size_t missing = 0;
  std::string secret;
  std::optional<Fault> disagreement;  // first mismatch of a rank; it could be a stranger
  RejectedConnections strangers;
};

void reject(const PendingJob& pending, int socket, const Fault& fault) {
  send_frame(socket, {.type = FrameType::Reject, .texts = {to_message(fault), reply_proof(pending.secret)}},
             kAnswerSeconds);
}

void close_stranger(PendingJob& pending, PendingConnection& connection) {
  ++pending.strangers.count;
  pending.strangers.last = peer_text(connection.socket);
  close(std::exchange(connection.socket, -1));
}

void reject_all(PendingJob& pending, const Fault& fault) {
  for (PendingConnection& connection : pending.unidentified) close(connection.socket);
  for (int& socket : pending.sockets) {
    if (socket < 0) continue;
    reject(pending, socket, fault);
    close(std::exchange(socket, -1));
  }
}

// Reads the hello of one connection. Throws if a rank that has the job's secret does not match the job.
void read_hello(PendingJob& pending, PendingConnection& connection) {
  const bool open = receive_available(connection.socket, connection.bytes);
  Frame hello;
  const DecodeState state = decode(connection.bytes, kMaxHelloBytes, hello);
  if (state == DecodeState::NeedMore && open) return;
  if (state != DecodeState::Frame || !is_hello(hello) || !has_valid_proof(pending.own, hello))
    return close_stranger(pending, connection);
  const uint64_t rank = rank_of(hello);
  // Two jobs may share a port by mistake: all ranks of the other job are rejected.
  if (job_of(hello) != job_of(pending.own)) {
    reject(pending, connection.socket,
           {.code = Code::RanksDisagree,
            .message = fmt::format("rank {} of job {} reached rank 0 of job {}", rank, quote_line(job_of(hello)),
                                   quote_line(job_of(pending.own))),
            .help = "set a different MASTER_PORT for each job",
            .rank = static_cast<int>(rank)});
    return close_stranger(pending, connection);
  }
  if (const std::optional<Fault> fault = find_mismatch(pending.own, hello, pending.present)) {
    reject(pending, connection.socket, *fault);
    if (!pending.secret.empty()) throw *fault;
    if (!pending.disagreement) {
      pending.disagreement = fault;
      pending.strangers.reason = fault->message;
    }
    return close_stranger(pending, connection);
  }
  pending.sockets[rank] = std::exchange(connection.socket, -1);
  pending.present[rank] = std::move(hello);
  --pending.missing;
}

// Accepts pending connections. If there are kMaxUnidentified of them or no descriptor is left, the oldest is closed; if
// it belonged to a rank, that rank connects again.
void accept_connections(PendingJob& pending, int listener) {
  const auto drop_oldest = [&] {
    close_stranger(pending, pending.unidentified.front());
    pending.unidentified.erase(pending.unidentified.begin());
  };
  for (int i = 0; i < kAcceptedATurn; ++i) {
    try {
      const int fd = accept_caller(listener);
      if (fd < 0) return;
      if (pending.unidentified.size() >= kMaxUnidentified) drop_oldest();
      pending.unidentified.push_back({.socket = fd, .bytes = {}});
    } catch (const Fault&) {
      if (pending.unidentified.empty()) throw;
      drop_oldest();
    }
  }
}

void close_silent(PendingJob& pending) {
  for (PendingConnection& connection : pending.unidentified) {
    if (connection.socket >= 0 && seconds_since(connection.start) > kHelloSeconds) close_stranger(pending, connection);
  }
}

std::vector<int> missing_ranks(const PendingJob& pending) {
  std::vector<int> ranks;
  for (size_t i = 0; i < pending.present.size(); ++i) {
    if (pending.present[i].numbers.empty()) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

Fault missing_error(const PendingJob& pending, const RendezvousOptions& options) {
  const std::vector<int> late = missing_ranks(pending);
  Fault fault{.code = Code::RendezvousFailed,
              .message = fmt::format("{} of {} {} not connected to rank 0 within {:.3g} s", list_ranks(late),
                                     options.world, late.size() == 1 ? "has" : "have", options.deadline),
              .help = "start every rank, with the same MASTER_ADDR and MASTER_PORT",
              .rank = late[0]};
  if (pending.strangers.count == 0) return fault;
  fault.message += fmt::format("; {}", to_text(pending.strangers));
  if (pending.disagreement) {
    fault.code = pending.disagreement->code;
    fault.help = pending.disagreement->help;
  } else if (!pending.secret.empty()) {
    fault.help += " and the same TPPLAN_EXEC_SECRET";
  }
  return fault;
}

void accept_ranks(PendingJob& pending, int listener, const RendezvousOptions& options) {
  const Clock::time_point end = after(options.deadline);
  while (pending.missing != 0) {
    if (seconds_until(end) <= 0) throw missing_error(pending, options);
    std::vector<pollfd> items = {{.fd = listener, .events = POLLIN, .revents = 0}};
    for (const PendingConnection& connection : pending.unidentified)
      items.push_back({.fd = connection.socket, .events = POLLIN, .revents = 0});
    poll(items.data(), items.size(), milliseconds_until(end, 200));
    for (size_t i = 1; i < items.size(); ++i) {
      if (items[i].revents != 0) read_hello(pending, pending.unidentified[i - 1]);
    }
    close_silent(pending);
    std::erase_if(pending.unidentified, [](const PendingConnection& connection) { return connection.socket < 0; });
    if (items[0].revents != 0) accept_connections(pending, listener);
  }
}

// Throws if the limit of open files is too low for the connections to all ranks. It is checked in advance, because the
// last ranks would otherwise get no answer from rank 0.
void check_files(uint64_t ranks) {
  const FileCount files = count_files();
  const uint64_t needed = files.open + ranks + kOtherFiles;
  if (needed <= files.limit) return;
  throw Fault{.code = Code::RendezvousFailed,
              .message = fmt::format("rank 0 connects to {} and needs {} open files, but the limit is {}",
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
                     .unidentified = {},
                     .missing = world - 1,
                     .secret = options.secret,
                     .disagreement = {},
                     .strangers = {}};
  pending.present[0] = pending.own;
  try {
    accept_ranks(pending, listener, options);
  } catch (const Fault& fault) {
    close(listener);
    reject_all(pending, fault);
    throw;
  }
  close(listener);
  for (PendingConnection& connection : pending.unidentified) close_stranger(pending, connection);
  connections.strangers = pending.strangers;
  // Each rank receives only the ranks of its own node.
  std::map<std::string_view, std::vector<int>> nodes;
  for (size_t rank = 0; rank < world; ++rank) nodes[host_of(pending.present[rank])].push_back(static_cast<int>(rank));
  const std::string proof = reply_proof(options.secret);
  connections.node = nodes[host_of(pending.own)];
  for (size_t rank = 1; rank < world; ++rank) {
    const std::vector<int>& node = nodes[host_of(pending.present[rank])];
    // The result is ignored: the control channel detects a lost rank later.
    send_frame(pending.sockets[rank],
               {.type = FrameType::Welcome, .numbers = {node.begin(), node.end()}, .texts = {proof}}, kAnswerSeconds);
  }
  connections.sockets = std::move(pending.sockets);
  connections.inboxes.resize(connections.sockets.size());  // no rank sends anything before the welcome
  return connections;
}

// Waits for rank 0's answer on an open connection and stores the bytes after it in `bytes`. Returns false if no answer
// arrives or it does not prove the secret.
bool receive_answer(int socket, const RendezvousOptions& options, Clock::time_point end, Frame& answer,
                    std::string& bytes) {
  const uint64_t limit = kMaxHelloBytes + sizeof(uint64_t) * static_cast<uint64_t>(options.world);
  for (bool open = true;;) {
    const DecodeState state = decode(bytes, limit, answer);
    if (state == DecodeState::Frame)
      return (answer.type == FrameType::Welcome || answer.type == FrameType::Reject) &&
             has_valid_reply_proof(options.secret, answer);
    if (state == DecodeState::Malformed || !open || seconds_until(end) <= 0) return false;
    pollfd item{.fd = socket, .events = POLLIN, .revents = 0};
    poll(&item, 1, milliseconds_until(end, 200));
    if (item.revents != 0) open = receive_available(socket, bytes);
  }
}

// True if the welcome has a sorted list of ranks of the job that includes this rank.
bool is_node_of(const Frame& welcome, const RendezvousOptions& options) {
  return std::ranges::is_sorted(welcome.numbers, std::less_equal<>()) && !welcome.numbers.empty() &&
         welcome.numbers.back() < static_cast<uint64_t>(options.world) &&
         std::ranges::find(welcome.numbers, static_cast<uint64_t>(options.rank)) != welcome.numbers.end();
}

// Connects to rank 0 and waits for its answer. A Reject frame ends the attempts. After any other answer, or none, it
// tries again until the deadline: another process may have used the port before.
RankConnections connect_to_rank_zero(const RendezvousOptions& options) {
  RankConnections connections{.rank = options.rank, .world = options.world};
  const Clock::time_point end = after(options.deadline), last = after(kAnswerSeconds, end);
  const Frame hello = hello_of(options);
  std::string reason = "no reply", closed;  // the last failure, and what closed an earlier connection
  while (seconds_until(end) > 0) {
    const int socket = connect_to(options.address, options.port, seconds_until(end), reason);
    if (socket >= 0) {
      Frame answer;
      std::string inbox;
      const bool answered =
          send_frame(socket, hello, kAnswerSeconds) && receive_answer(socket, options, last, answer, inbox);
      if (answered && answer.type == FrameType::Welcome && is_node_of(answer, options)) {
        connections.sockets = {socket};
        connections.inboxes = {std::move(inbox)};
        connections.node.assign(answer.numbers.begin(), answer.numbers.end());
        return connections;
      }
      close(socket);
      Fault fault;
      if (answered && answer.type == FrameType::Reject && answer.texts.size() == 2 &&
          from_message(answer.texts[0], fault))
        throw fault;
      const bool waits = !answered && seconds_until(last) <= 0;
      closed = waits ? ""
                     : "the process at this address closed the connection: it is not rank 0 of this job, or its "
                       "TPPLAN_EXEC_SECRET differs";
      reason = waits ? "rank 0 has not replied, because it waits until all ranks are connected" : closed;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (!closed.empty() && reason != closed) reason += "; before, " + closed;  // rank 0 may have ended since
  throw Fault{.code = Code::RendezvousFailed,
              .message = fmt::format("rank {} cannot reach rank 0 at {} within {:.3g} s: {}", options.rank,
                                     endpoint_text(options.address, options.port), options.deadline, reason),
              .help = "check that all ranks are started, and that MASTER_ADDR and MASTER_PORT are those of rank 0"};
}

}  // namespace

std::string to_text(const RejectedConnections& strangers) {
  return fmt::format("{} to rank 0 {} not from a rank of this job, the last from {}{}{}",
                     counted(strangers.count, "connection"), strangers.count == 1 ? "was" : "were", strangers.last,
                     strangers.reason.empty() ? "" : ": ", strangers.reason);
}

RankConnections rendezvous(const RendezvousOptions& options) {
  return options.rank == 0 ? accept_job(options) : connect_to_rank_zero(options);
}

}  // namespace tpplan
