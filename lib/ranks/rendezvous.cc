#include "ranks/rendezvous.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/text.h"
#include "manifest/manifest.h"
#include "ranks/frames.h"
#include "ranks/roster.h"
#include "ranks/sockets.h"

namespace tpplan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMagic = 0x31'6b'6e'61'72'70'70'74;  // "tpprank1"
constexpr size_t kMostStrangers = 256;                  // connections that have not said who they are
constexpr double kReplySeconds = 1;                     // that rank 0's answer may come after the deadline

double seconds_until(Clock::time_point end) { return std::chrono::duration<double>(end - Clock::now()).count(); }

int milliseconds_until(Clock::time_point end, int most) {
  return std::clamp(static_cast<int>(seconds_until(end) * 1000), 0, most);
}

Frame hello_of(const MeetOptions& options) {
  return {.type = FrameType::Hello,
          .numbers = {kMagic, static_cast<uint64_t>(options.rank), static_cast<uint64_t>(options.world),
                      static_cast<uint64_t>(getpid())},
          .texts = {std::string(kToolVersion), options.agreement, host_identity()}};
}

bool is_hello(const Frame& frame) {
  return frame.type == FrameType::Hello && frame.numbers.size() == 4 && frame.texts.size() == 3 &&
         frame.numbers[0] == kMagic;
}

std::string quoted(std::string_view line) { return fmt::format("\"{}\"", escape_for_terminal(line.substr(0, 160))); }

// The first line in which two agreements differ.
std::string differing_lines(std::string_view zero, std::string_view other) {
  const std::vector<std::string_view> a = split(zero, '\n'), b = split(other, '\n');
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string_view left = i < a.size() ? a[i] : "", right = i < b.size() ? b[i] : "";
    if (left != right) return fmt::format("{} there, {} at rank 0", quoted(right), quoted(left));
  }
  return "nothing that can be shown";
}

// Why a caller cannot be part of rank 0's job; empty: it can.
std::string find_disagreement(const Frame& own, const Frame& hello, const std::vector<Frame>& present) {
  const uint64_t rank = hello.numbers[1], world = own.numbers[2];
  if (hello.numbers[2] != world) {
    return fmt::format(
        "rank {} believes in a world of {} ranks, rank 0 in {}: start all ranks with one launcher and one world size",
        rank, hello.numbers[2], world);
  }
  if (rank >= world) return fmt::format("a process calls itself rank {} of {}: ranks count from 0", rank, world);
  if (hello.texts[0] != own.texts[0]) {
    return fmt::format("rank {} runs {}, rank 0 runs {}: install one version everywhere", rank, quoted(hello.texts[0]),
                       quoted(own.texts[0]));
  }
  if (hello.texts[1] != own.texts[1]) {
    return fmt::format("rank {} does not agree with rank 0: {}: give all ranks the same manifest and options", rank,
                       differing_lines(own.texts[1], hello.texts[1]));
  }
  if (const Frame& earlier = present[rank]; !earlier.numbers.empty()) {
    return fmt::format(
        "two processes call themselves rank {}: {} (process {}) and {} (process {}): each rank is started once", rank,
        quoted(split(earlier.texts[2], ' ')[0]), earlier.numbers[3], quoted(split(hello.texts[2], ' ')[0]),
        hello.numbers[3]);
  }
  return "";
}

struct Stranger {
  int socket = -1;
  std::string bytes;
};

// Rank 0's side.
struct Reception {
  Frame own;
  std::vector<Frame> present;  // hellos by rank
  std::vector<int> sockets;
  std::vector<Stranger> strangers;
  size_t missing = 0;
};

void refuse_all(Reception& reception, const std::string& fault) {
  for (Stranger& stranger : reception.strangers) close(stranger.socket);
  for (int& socket : reception.sockets) {
    if (socket < 0) continue;
    send_frame(socket, {.type = FrameType::Refuse, .texts = {fault}}, kReplySeconds);
    close(socket);
    socket = -1;
  }
}

// Hears one stranger; false with `fault` when it is a rank that cannot take part.
bool hear(Reception& reception, Stranger& stranger, std::string& fault) {
  const bool open = receive_available(stranger.socket, stranger.bytes);
  Frame hello;
  const DecodeState state = decode(stranger.bytes, kMaxHelloBytes, hello);
  if (state == DecodeState::NeedMore && open) return true;
  if (state != DecodeState::Frame || !is_hello(hello)) {
    close(stranger.socket);
    stranger.socket = -1;
    return true;
  }
  fault = find_disagreement(reception.own, hello, reception.present);
  if (!fault.empty()) {
    send_frame(stranger.socket, {.type = FrameType::Refuse, .texts = {fault}}, kReplySeconds);
    return false;
  }
  const uint64_t rank = hello.numbers[1];
  reception.sockets[rank] = std::exchange(stranger.socket, -1);
  reception.present[rank] = std::move(hello);
  --reception.missing;
  return true;
}

void accept_strangers(Reception& reception, int listener) {
  for (int fd = accept_caller(listener); fd >= 0; fd = accept_caller(listener)) {
    if (reception.strangers.size() >= kMostStrangers) {
      close(reception.strangers.front().socket);
      reception.strangers.erase(reception.strangers.begin());
    }
    reception.strangers.push_back({.socket = fd});
  }
}

std::vector<int> missing_ranks(const Reception& reception) {
  std::vector<int> ranks;
  for (size_t i = 0; i < reception.present.size(); ++i) {
    if (reception.present[i].numbers.empty()) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

bool receive_ranks(Reception& reception, int listener, const MeetOptions& options, std::string& fault) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.deadline));
  while (reception.missing != 0) {
    if (seconds_until(end) <= 0) {
      const std::vector<int> late = missing_ranks(reception);
      fault = fmt::format(
          "{} of {} {} not come to rank 0 within {:.3g} s: start every rank, with the same MASTER_ADDR and MASTER_PORT",
          list_ranks(late), options.world, late.size() == 1 ? "has" : "have", options.deadline);
      return false;
    }
    std::vector<pollfd> items = {{.fd = listener, .events = POLLIN, .revents = 0}};
    for (const Stranger& stranger : reception.strangers)
      items.push_back({.fd = stranger.socket, .events = POLLIN, .revents = 0});
    poll(items.data(), items.size(), milliseconds_until(end, 200));
    for (size_t i = 1; i < items.size(); ++i) {
      if (items[i].revents != 0 && !hear(reception, reception.strangers[i - 1], fault)) return false;
    }
    std::erase_if(reception.strangers, [](const Stranger& stranger) { return stranger.socket < 0; });
    if (items[0].revents != 0) accept_strangers(reception, listener);
  }
  return true;
}

bool receive_job(const MeetOptions& options, Meeting& meeting, std::string& fault) {
  int port = options.port;
  const int listener = options.listener >= 0 ? options.listener : listen_at(options.address, port, fault);
  if (listener < 0) return false;
  const auto world = static_cast<size_t>(options.world);
  Reception reception{.own = hello_of(options),
                      .present = std::vector<Frame>(world),
                      .sockets = std::vector<int>(world, -1),
                      .missing = world - 1};
  reception.present[0] = reception.own;
  const bool fine = receive_ranks(reception, listener, options, fault);
  close(listener);
  if (!fine) {
    refuse_all(reception, fault);
    return false;
  }
  for (const Stranger& stranger : reception.strangers) close(stranger.socket);
  for (const Frame& hello : reception.present) meeting.hosts.push_back(hello.texts[2]);
  const Frame welcome{.type = FrameType::Welcome, .texts = meeting.hosts};
  for (const int socket : reception.sockets) {
    if (socket >= 0) send_frame(socket, welcome, kReplySeconds);  // one that is gone is found when it is missed
  }
  meeting.sockets = std::move(reception.sockets);
  meeting.inboxes.resize(meeting.sockets.size());  // nobody speaks before the welcome
  return true;
}

// Waits for rank 0's answer on an open connection: Welcome, Refuse, or nothing that can be understood. `bytes`: what
// came after it.
bool hear_answer(int socket, Clock::time_point end, Frame& answer, std::string& bytes) {
  for (;;) {
    const DecodeState state = decode(bytes, kMaxFrameBytes, answer);
    if (state == DecodeState::Frame) return answer.type == FrameType::Welcome || answer.type == FrameType::Refuse;
    if (state == DecodeState::Garbage || seconds_until(end) <= 0) return false;
    pollfd item{.fd = socket, .events = POLLIN, .revents = 0};
    poll(&item, 1, milliseconds_until(end, 200));
    if (item.revents != 0 && !receive_available(socket, bytes))
      return decode(bytes, kMaxFrameBytes, answer) == DecodeState::Frame;
  }
}

bool call_rank_zero(const MeetOptions& options, Meeting& meeting, std::string& fault) {
  const auto whole = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.deadline));
  const Clock::time_point end = Clock::now() + whole, last = end + std::chrono::duration_cast<Clock::duration>(
                                                                       std::chrono::duration<double>(kReplySeconds));
  const Frame hello = hello_of(options);
  std::string reason = "no answer";
  while (seconds_until(end) > 0) {
    const int socket = connect_to(options.address, options.port, seconds_until(end), reason);
    if (socket >= 0) {
      Frame answer;
      std::string inbox;
      const bool heard = send_frame(socket, hello, kReplySeconds) && hear_answer(socket, last, answer, inbox);
      if (heard && answer.type == FrameType::Welcome && answer.texts.size() == static_cast<size_t>(options.world)) {
        meeting.sockets = {socket};
        meeting.inboxes = {std::move(inbox)};
        meeting.hosts = std::move(answer.texts);
        return true;
      }
      close(socket);
      if (heard && answer.type == FrameType::Refuse && !answer.texts.empty()) {
        fault = escape_for_terminal(answer.texts[0]);
        return false;
      }
      reason = "who answers there does not know this job";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fault = fmt::format(
      "rank {} cannot reach rank 0 at {} within {:.3g} s: {}: is rank 0 started, and are MASTER_ADDR and MASTER_PORT "
      "its own?",
      options.rank, endpoint_text(options.address, options.port), options.deadline, reason);
  return false;
}

}  // namespace

bool meet_ranks(const MeetOptions& options, Meeting& meeting, std::string& fault) {
  meeting = {.rank = options.rank, .world = options.world};
  return options.rank == 0 ? receive_job(options, meeting, fault) : call_rank_zero(options, meeting, fault);
}

}  // namespace tpplan
