#include "ranks/control.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/text.h"
#include "ranks/frames.h"
#include "ranks/roster.h"

namespace tpplan {

using Clock = std::chrono::steady_clock;

// Rank 0 is the hub: its thread knows all states and answers all. The others' threads speak with it alone.
struct Control {
  int rank = 0, world = 1;
  double deadline = 60;
  std::vector<int> sockets;  // Meeting::sockets
  std::vector<std::string> inboxes;
  int wake = -1;
  std::thread thread;
  std::atomic<bool> has_fault = false;

  std::mutex mutex;  // of everything below
  std::condition_variable changed;
  std::vector<RankState> ranks;  // rank 0: all; the others know of themselves only
  bool is_moved = false;         // our own state is not sent yet
  Clock::time_point last_change = Clock::now();  // of any rank's state, or of word from rank 0
  std::vector<Frame> outbox;     // to rank 0, or from rank 0 to all
  std::string fault;
  bool is_fault_sent = false;
  std::vector<std::string> texts;  // rank 0: of the round under way
  std::vector<bool> has_text;
  std::vector<std::string> all_texts;  // of the last complete round
  bool texts_complete = false;
  std::vector<int64_t> statuses;  // of ranks that ended; -1: not yet
  bool all_ended = false;
  bool stop = false;
};

namespace {

constexpr auto kBeat = std::chrono::milliseconds(50);      // how often a rank's state is sent at most
constexpr auto kPulse = std::chrono::milliseconds(500);    // how often rank 0 says that it is there
constexpr double kReplySeconds = 1;

bool is_hub(const Control& control) { return control.rank == 0; }

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void wake(Control& control) {
  const uint64_t one = 1;
  if (write(control.wake, &one, sizeof one) < 0) return;  // full: it is awake
}

// With the mutex held.
void set_fault(Control& control, std::string fault) {
  if (!control.fault.empty()) return;
  control.fault = std::move(fault);
  control.has_fault = true;
  control.changed.notify_all();
  wake(control);
}

// With the mutex held, at rank 0: answers a round of texts when all have come, or fails it when one never will.
void settle_texts(Control& control) {
  const auto came = static_cast<size_t>(std::ranges::count(control.has_text, true));
  for (size_t i = 0; i < control.ranks.size() && came != 0; ++i) {
    if (control.ranks[i].ended && !control.has_text[i]) {
      const auto waiter = std::ranges::find(control.has_text, true) - control.has_text.begin();
      return set_fault(control, fmt::format("rank {} ended after {} with status {}, while rank {} waits for it at {}", i, to_text(control.ranks[i].step),
                                            control.statuses[i], waiter, to_text(control.ranks[static_cast<size_t>(waiter)].step)));
    }
  }
  if (came != control.has_text.size()) return;
  control.all_texts = control.texts;
  control.outbox.push_back({.type = FrameType::Texts, .texts = control.texts});
  control.has_text.assign(control.has_text.size(), false);
  control.texts_complete = true;
  control.changed.notify_all();
  wake(control);
}

// With the mutex held, at rank 0.
void settle_end(Control& control) {
  if (std::ranges::count(control.statuses, -1) != 0) return settle_texts(control);
  Frame ends{.type = FrameType::Ends};
  for (const int64_t status : control.statuses) ends.numbers.push_back(static_cast<uint64_t>(status));
  control.outbox.push_back(std::move(ends));
  control.all_ended = true;
  control.changed.notify_all();
  wake(control);
}

// With the mutex held, at rank 0: what another rank says. False for a message that it cannot say.
bool hear_rank(Control& control, size_t rank, Frame& frame) {
  RankState& state = control.ranks[rank];
  const bool has_step = frame.numbers.size() == 2 && frame.texts.size() == 1;
  switch (frame.type) {
    case FrameType::State:
    case FrameType::Late:
      if (!has_step) return false;
      state.step = {.number = frame.numbers[0], .what = frame.texts[0]};
      state.calls = frame.numbers[1];
      control.last_change = Clock::now();
      if (frame.type == FrameType::Late) set_fault(control, describe_late(control.ranks, static_cast<int>(rank), control.deadline));
      return true;
    case FrameType::Fault:
      if (frame.texts.size() != 1) return false;
      set_fault(control, std::move(frame.texts[0]));
      return true;
    case FrameType::Text:
      if (frame.texts.size() != 1 || control.has_text[rank]) return false;
      control.texts[rank] = std::move(frame.texts[0]);
      control.has_text[rank] = true;
      settle_texts(control);
      return true;
    case FrameType::End:
      if (frame.numbers.size() != 1) return false;
      state.ended = true;
      control.statuses[rank] = static_cast<int64_t>(frame.numbers[0] & 0xff);
      control.last_change = Clock::now();
      settle_end(control);
      return true;
    default: return false;
  }
}

// With the mutex held, at another rank: what rank 0 says.
bool hear_hub(Control& control, Frame& frame) {
  const auto world = static_cast<size_t>(control.world);
  control.last_change = Clock::now();
  switch (frame.type) {
    case FrameType::State: return true;
    case FrameType::Fault:
      if (frame.texts.size() != 1) return false;
      control.is_fault_sent = true;  // rank 0 knows it
      set_fault(control, std::move(frame.texts[0]));
      return true;
    case FrameType::Texts:
      if (frame.texts.size() != world) return false;
      control.all_texts = std::move(frame.texts);
      control.texts_complete = true;
      control.changed.notify_all();
      return true;
    case FrameType::Ends:
      if (frame.numbers.size() != world) return false;
      control.statuses.assign(frame.numbers.begin(), frame.numbers.end());
      control.all_ended = true;
      control.changed.notify_all();
      return true;
    default: return false;
  }
}

// With the mutex held: the rank behind socket `i` is gone.
void lose(Control& control, size_t i) {
  close(control.sockets[i]);
  control.sockets[i] = -1;
  const size_t rank = is_hub(control) ? i : 0;
  if (control.all_ended) return;
  const RankState& state = control.ranks[rank];
  set_fault(control, is_hub(control)
                         ? fmt::format("rank {} is gone: its process ended or its network failed; last heard of at {}, while rank 0 is at {}", rank, to_text(state.step),
                                       to_text(control.ranks[0].step))
                         : fmt::format("rank 0 is gone: its process ended or its network failed, while rank {} is at {}", control.rank,
                                       to_text(control.ranks[static_cast<size_t>(control.rank)].step)));
}

void read_socket(Control& control, size_t i) {
  const bool open = receive_available(control.sockets[i], control.inboxes[i]);
  const std::lock_guard lock(control.mutex);
  Frame frame;
  DecodeState state = DecodeState::NeedMore;
  while ((state = decode(control.inboxes[i], kMaxFrameBytes, frame)) == DecodeState::Frame) {
    if (!(is_hub(control) ? hear_rank(control, i, frame) : hear_hub(control, frame))) state = DecodeState::Garbage;
    if (state == DecodeState::Garbage) break;
  }
  if (!open || state == DecodeState::Garbage) lose(control, i);
}

// What is to be sent now; with the mutex held.
std::vector<Frame> take_outbox(Control& control, Clock::time_point& last_sent) {
  std::vector<Frame> frames = std::exchange(control.outbox, {});
  const auto pause = is_hub(control) ? kPulse : kBeat;
  if ((is_hub(control) || control.is_moved) && Clock::now() - last_sent >= pause) {
    const RankState& own = control.ranks[static_cast<size_t>(control.rank)];
    frames.insert(frames.begin(), {.type = FrameType::State, .numbers = {own.step.number, own.calls}, .texts = {own.step.what}});
    control.is_moved = false;
    last_sent = Clock::now();
  }
  if (!control.fault.empty() && !control.is_fault_sent) {
    frames.push_back({.type = FrameType::Fault, .texts = {control.fault}});
    control.is_fault_sent = true;
  }
  return frames;
}

// With the mutex held, at rank 0: some have ended, and the others do not move on.
void check_end(Control& control) {
  if (control.all_ended || seconds_since(control.last_change) < control.deadline) return;
  const auto ended = std::ranges::find(control.ranks, true, &RankState::ended);
  if (ended == control.ranks.end()) return;
  set_fault(control, describe_late(control.ranks, static_cast<int>(ended - control.ranks.begin()), control.deadline));
}

// The thread of one process.
void serve(Control& control) {
  Clock::time_point last_sent = Clock::now() - kPulse;
  for (bool stop = false; !stop;) {
    std::vector<Frame> frames;
    {
      const std::lock_guard lock(control.mutex);
      if (is_hub(control)) check_end(control);
      frames = take_outbox(control, last_sent);
      stop = control.stop;
    }
    for (const Frame& frame : frames) {
      for (const int socket : control.sockets) {
        if (socket >= 0) send_frame(socket, frame, control.deadline);  // one that is gone is found by reading
      }
    }
    if (stop) break;
    std::vector<pollfd> items = {{.fd = control.wake, .events = POLLIN, .revents = 0}};
    for (const int socket : control.sockets) items.push_back({.fd = socket, .events = POLLIN, .revents = 0});  // -1 is passed over
    poll(items.data(), items.size(), static_cast<int>(kBeat.count()));
    uint64_t count = 0;
    if (items[0].revents != 0 && read(control.wake, &count, sizeof count) < 0) continue;
    for (size_t i = 1; i < items.size(); ++i) {
      if (items[i].revents != 0) read_socket(control, i - 1);
    }
  }
}

// Sends what is left, and lets the others read it: closing with unread bytes would take it back.
void close_control(Control* control) {
  {
    const std::lock_guard lock(control->mutex);
    control->stop = true;
  }
  wake(*control);
  if (control->thread.joinable()) control->thread.join();
  for (const int socket : control->sockets) {
    if (socket >= 0) shutdown(socket, SHUT_WR);
  }
  const Clock::time_point start = Clock::now();
  for (int& socket : control->sockets) {
    std::string rest;
    while (socket >= 0 && seconds_since(start) < 0.3 && receive_available(socket, rest)) {
      rest.clear();
      pollfd item{.fd = socket, .events = POLLIN, .revents = 0};
      poll(&item, 1, 20);
    }
    if (socket >= 0) close(socket);
  }
  close(control->wake);
  delete control;
}

// The wait of a rank is over: asks rank 0 whom it waited for.
void blame(Comm& comm) {
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  if (is_hub(control)) {
    set_fault(control, describe_late(control.ranks, 0, control.deadline));
  } else {
    control.outbox.push_back({.type = FrameType::Late, .numbers = {comm.step.number, comm.calls}, .texts = {comm.step.what}});
    wake(control);
    control.changed.wait_until(lock, std::chrono::system_clock::now() + std::chrono::seconds(1), [&] { return !control.fault.empty(); });
    set_fault(control, fmt::format("rank {} has waited {:.3g} s at {}, and rank 0 does not answer", comm.rank, control.deadline, to_text(comm.step)));
  }
  comm.fault = control.fault;
}

// Waits for a flag that the thread sets, within the deadline.
template <typename Done>
bool wait_for(Comm& comm, std::unique_lock<std::mutex>& lock, Done done) {
  Control& control = *comm.control;
  const auto end = std::chrono::system_clock::now() + std::chrono::microseconds(static_cast<int64_t>(comm.deadline * 1e6));
  const bool in_time = control.changed.wait_until(lock, end, [&] { return done() || !control.fault.empty(); });
  if (in_time && done()) return true;
  if (in_time) {
    comm.fault = control.fault;
    return false;
  }
  lock.unlock();
  blame(comm);
  return false;
}

}  // namespace

bool join_job(Comm& comm, const MeetOptions& options, std::string& fault) {
  Meeting meeting;
  if (!meet_ranks(options, meeting, fault)) return false;
  comm.process = {comm.rank};
  comm.node.clear();
  for (size_t i = 0; i < meeting.hosts.size(); ++i) {
    if (meeting.hosts[i] == meeting.hosts[static_cast<size_t>(comm.rank)]) comm.node.push_back(static_cast<int>(i));
  }
  if (comm.local_rank < 0) comm.local_rank = static_cast<int>(std::ranges::find(comm.node, comm.rank) - comm.node.begin());
  comm.device->use(comm.local_rank);
  auto* control = new Control{.rank = meeting.rank, .world = meeting.world, .deadline = options.deadline, .sockets = std::move(meeting.sockets)};
  const auto world = static_cast<size_t>(meeting.world);
  control->inboxes.resize(control->sockets.size());
  control->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  control->ranks.resize(world);
  control->texts.resize(world);
  control->has_text.resize(world);
  control->statuses.assign(world, -1);
  comm.control = {control, close_control};
  control->thread = std::thread(serve, std::ref(*control));
  return true;
}

void tell_by_control(Comm& comm) {
  Control& control = *comm.control;
  const std::lock_guard lock(control.mutex);
  RankState& own = control.ranks[static_cast<size_t>(comm.rank)];
  own.step = comm.step;
  own.calls = comm.calls;
  control.is_moved = true;
  if (is_hub(control)) control.last_change = Clock::now();
  if (!comm.fault.empty()) set_fault(control, comm.fault);
  comm.fault = control.fault;
}

bool gather_texts_by_control(Comm& comm, std::string_view mine, std::vector<std::string>& all) {
  if (!enter_call(comm)) return false;
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  control.texts_complete = false;
  if (is_hub(control)) {
    control.texts[0] = mine;
    control.has_text[0] = true;
    settle_texts(control);
  } else {
    control.outbox.push_back({.type = FrameType::Text, .texts = {std::string(mine)}});
    wake(control);
  }
  if (!wait_for(comm, lock, [&] { return control.texts_complete; })) return false;
  all = control.all_texts;
  return true;
}

bool may_wait(Comm& comm, Clock::time_point start) {
  Control& control = *comm.control;
  if (control.has_fault) {
    const std::lock_guard lock(control.mutex);
    comm.fault = control.fault;
    return false;
  }
  if (seconds_since(start) < comm.deadline) return true;
  blame(comm);
  return false;
}

bool end_together(Comm& comm, int status) {
  if (!enter_call(comm)) return false;
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  if (is_hub(control)) {
    control.ranks[0].ended = true;
    control.statuses[0] = status & 0xff;
    settle_end(control);
  } else {
    control.outbox.push_back({.type = FrameType::End, .numbers = {static_cast<uint64_t>(status & 0xff)}});
    wake(control);
  }
  while (!control.all_ended && control.fault.empty()) {
    control.changed.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    if (seconds_since(control.last_change) > control.deadline + kReplySeconds) {
      set_fault(control, fmt::format("rank {} has waited {:.3g} s for the end, and rank 0 does not answer", comm.rank, control.deadline));
    }
  }
  if (!control.all_ended) comm.fault = control.fault;
  return control.all_ended && std::ranges::count(control.statuses, 0) == static_cast<std::ptrdiff_t>(control.statuses.size());
}

}  // namespace tpplan
