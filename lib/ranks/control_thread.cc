#include "ranks/control_thread.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/unfinished.h"
#include "ranks/message.h"

namespace tpplan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStateInterval = std::chrono::milliseconds(50);       // how often a rank's state is sent at most
constexpr auto kHeartbeatInterval = std::chrono::milliseconds(500);  // how often rank 0 says that it is there
constexpr auto kTerminationDelay =
    std::chrono::milliseconds(300);  // to say which rank was lost, when the launcher ends all for it

constexpr double kLingerSeconds = 1;  // that the others may take to hear our last word

// Launchers end the other ranks as soon as one is gone. The signal is put off, so that these can say which, and where.
std::atomic<bool> is_terminated = false;

void note_termination(int) { is_terminated = true; }

void end_by_signal() {
  remove_all_unfinished();
  std::signal(SIGTERM, SIG_DFL);
  raise(SIGTERM);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// With the mutex held: the fault that a frame carries.
bool take_fault(Control& control, const Frame& frame) {
  Fault fault;
  if (frame.texts.size() != 1 || !from_message(frame.texts[0], fault)) return false;
  set_fault(control, std::move(fault));
  return true;
}

// With the mutex held, at rank 0: what another rank says. False for a message that it cannot say.
bool receive_from_rank(Control& control, size_t rank, Frame& frame) {
  RankState& state = control.ranks[rank];
  const bool has_step = frame.numbers.size() == 2 && frame.texts.size() == 1;
  switch (frame.type) {
    case FrameType::State:
    case FrameType::Late:
      if (!has_step) return false;
      state.step = {.number = frame.numbers[0], .what = frame.texts[0]};
      state.calls = frame.numbers[1];
      control.last_change = Clock::now();
      if (frame.type == FrameType::Late)
        set_fault(control, late_fault(control.ranks, static_cast<int>(rank), control.deadline));
      return true;
    case FrameType::Fault:
      return take_fault(control, frame);
    case FrameType::Text:
      if (frame.texts.size() != 1 || control.has_text[rank]) return false;
      control.texts[rank] = std::move(frame.texts[0]);
      control.has_text[rank] = true;
      complete_texts(control);
      return true;
    case FrameType::End:
      if (frame.numbers.size() != 1) return false;
      state.ended = true;
      control.statuses[rank] = static_cast<int64_t>(frame.numbers[0] & 0xff);
      control.last_change = Clock::now();
      complete_end(control);
      return true;
    default:
      return false;
  }
}

// With the mutex held, at another rank: what rank 0 says.
bool receive_from_coordinator(Control& control, Frame& frame) {
  const auto world = static_cast<size_t>(control.world);
  control.last_change = Clock::now();
  switch (frame.type) {
    case FrameType::State:
      return true;
    case FrameType::Fault:
      control.is_fault_sent = true;  // rank 0 knows it
      return take_fault(control, frame);
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
    default:
      return false;
  }
}

// With the mutex held: the rank behind socket `i` is gone.
void disconnect(Control& control, size_t i) {
  control.lost_sockets.push_back(
      std::exchange(control.sockets[i], -1));  // not closed yet: the rank's thread may be writing there
  const size_t rank = is_coordinator(control) ? i : 0;
  if (control.all_ended) return;
  const RankState& state = control.ranks[rank];
  const std::string gone = fmt::format("rank {} is gone: its process ended or its network failed", rank),
                    here = to_text(control.ranks[static_cast<size_t>(control.rank)].step);
  set_fault(control,
            {.code = Code::TP8007,
             .message = is_coordinator(control) ? fmt::format("{}; last heard of at {}, while rank 0 is at {}", gone,
                                                              to_text(state.step), here)
                                                : fmt::format("{}, while rank {} is at {}", gone, control.rank, here),
             .help = fmt::format("see the standard error of rank {} and the log of its machine", rank),
             .rank = static_cast<int>(rank)});
}

// Takes in all whole messages of an inbox; `open` says whether more may come.
void process_inbox(Control& control, size_t i, bool open) {
  const std::lock_guard lock(control.mutex);
  Frame frame;
  DecodeState state = DecodeState::NeedMore;
  while ((state = decode(control.inboxes[i], kMaxFrameBytes, frame)) == DecodeState::Frame) {
    if (!(is_coordinator(control) ? receive_from_rank(control, i, frame) : receive_from_coordinator(control, frame)))
      state = DecodeState::Malformed;
    if (state == DecodeState::Malformed) break;
  }
  if (!open || state == DecodeState::Malformed) disconnect(control, i);
}

Frame state_of(const Control& control) {
  const RankState& own = control.ranks[static_cast<size_t>(control.rank)];
  return {.type = FrameType::State, .numbers = {own.step.number, own.calls}, .texts = {own.step.what}};
}

// What is to be sent now; with the mutex held.
std::vector<Frame> take_outbox(Control& control, Clock::time_point& last_sent) {
  std::vector<Frame> frames = std::exchange(control.outbox, {});
  const bool must_know =
      !is_coordinator(control) && (!frames.empty() || control.fault);  // where we stand, before what we say
  const bool is_time = Clock::now() - last_sent >= (is_coordinator(control) ? kHeartbeatInterval : kStateInterval);
  if ((is_coordinator(control) && is_time) || (control.is_moved && (is_time || must_know))) {
    frames.insert(frames.begin(), state_of(control));
    control.is_moved = false;
    last_sent = Clock::now();
  }
  if (control.fault && !control.is_fault_sent) {
    frames.push_back({.type = FrameType::Fault, .texts = {to_message(*control.fault)}});
    control.is_fault_sent = true;
  }
  return frames;
}

// With the mutex held, at rank 0: some have ended, and the others do not move on.
void check_end(Control& control) {
  if (control.all_ended || seconds_since(control.last_change) < control.deadline) return;
  const auto ended = std::ranges::find(control.ranks, true, &RankState::ended);
  if (ended == control.ranks.end()) return;
  set_fault(control, late_fault(control.ranks, static_cast<int>(ended - control.ranks.begin()), control.deadline));
}

// The thread of one process.
void run_control_loop(Control& control) {
  Clock::time_point last_sent = Clock::now() - kHeartbeatInterval, termination;
  for (size_t i = 0; i < control.sockets.size(); ++i) process_inbox(control, i, true);
  for (bool stop = false; !stop;) {
    if (!is_terminated) termination = Clock::now();
    if (Clock::now() - termination > kTerminationDelay) end_by_signal();
    std::vector<Frame> frames;
    {
      const std::lock_guard lock(control.mutex);
      if (is_coordinator(control)) check_end(control);
      frames = take_outbox(control, last_sent);
      stop = control.stop;
    }
    {
      const std::lock_guard sending(control.send_mutex);
      for (const Frame& frame : frames) {
        for (const int socket : control.sockets) {
          if (socket >= 0) send_frame(socket, frame, control.deadline);  // one that is gone is found by reading
        }
      }
    }
    if (stop) break;
    std::vector<pollfd> items = {{.fd = control.wake, .events = POLLIN, .revents = 0}};
    for (const int socket : control.sockets)
      items.push_back({.fd = socket, .events = POLLIN, .revents = 0});  // -1 is passed over
    poll(items.data(), items.size(), static_cast<int>(kStateInterval.count()));
    uint64_t count = 0;
    if (items[0].revents != 0 && read(control.wake, &count, sizeof count) < 0) continue;
    for (size_t i = 1; i < items.size(); ++i) {
      if (items[i].revents != 0)
        process_inbox(control, i - 1, receive_available(control.sockets[i - 1], control.inboxes[i - 1]));
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
  const auto is_open = [](int socket) { return socket >= 0; };
  while (seconds_since(start) < kLingerSeconds && std::ranges::any_of(control->sockets, is_open)) {
    std::vector<pollfd> items;
    for (const int socket : control->sockets) items.push_back({.fd = socket, .events = POLLIN, .revents = 0});
    poll(items.data(), items.size(), 50);
    for (size_t i = 0; i < items.size(); ++i) {
      std::string rest;
      if (items[i].revents == 0 || receive_available(control->sockets[i], rest)) continue;
      close(control->sockets[i]);
      control->sockets[i] = -1;
    }
  }
  control->lost_sockets.insert(control->lost_sockets.end(), control->sockets.begin(), control->sockets.end());
  for (const int socket : control->lost_sockets) {
    if (socket >= 0) close(socket);
  }
  close(control->wake);
  if (is_terminated && !control->has_fault) end_by_signal();
  if (const auto now = std::signal(SIGTERM, SIG_DFL); now != note_termination) std::signal(SIGTERM, now);
  delete control;
}

}  // namespace

void wake(Control& control) {
  const uint64_t one = 1;
  if (write(control.wake, &one, sizeof one) < 0) return;  // full: it is awake
}

void set_fault(Control& control, Fault fault) {
  if (control.fault) return;
  control.fault = std::move(fault);
  control.has_fault = true;
  control.changed.notify_all();
  wake(control);
}

void complete_texts(Control& control) {
  const auto came = static_cast<size_t>(std::ranges::count(control.has_text, true));
  for (size_t i = 0; i < control.ranks.size() && came != 0; ++i) {
    if (control.ranks[i].ended && !control.has_text[i]) {
      const auto waiter = std::ranges::find(control.has_text, true) - control.has_text.begin();
      return set_fault(control,
                       ended_fault(control.ranks, static_cast<int>(i), control.statuses[i], static_cast<int>(waiter)));
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

void complete_end(Control& control) {
  if (std::ranges::count(control.statuses, -1) != 0) return complete_texts(control);
  Frame ends{.type = FrameType::Ends};
  for (const int64_t status : control.statuses) ends.numbers.push_back(static_cast<uint64_t>(status));
  control.outbox.push_back(std::move(ends));
  control.all_ended = true;
  control.changed.notify_all();
  wake(control);
}

void send_state_now(Control& control) {
  const std::unique_lock sending(control.send_mutex, std::try_to_lock);
  if (!sending.owns_lock() || is_coordinator(control)) return;  // the thread is at it
  Frame frame;
  int socket = -1;
  {
    const std::lock_guard lock(control.mutex);
    frame = state_of(control);
    control.is_moved = false;
    socket = control.sockets[0];
  }
  if (socket >= 0) send_frame(socket, frame, control.deadline);
}

std::shared_ptr<Control> open_control(RankConnections connections, double deadline) {
  auto* control = new Control{.rank = connections.rank,
                              .world = connections.world,
                              .deadline = deadline,
                              .sockets = std::move(connections.sockets),
                              .inboxes = std::move(connections.inboxes)};
  const auto world = static_cast<size_t>(connections.world);
  control->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  control->ranks.resize(world);
  control->texts.resize(world);
  control->has_text.resize(world);
  control->statuses.assign(world, -1);
  if (const auto before = std::signal(SIGTERM, note_termination); before != SIG_DFL) std::signal(SIGTERM, before);
  control->thread = std::thread(run_control_loop, std::ref(*control));
  return {control, close_control};
}

}  // namespace tpplan
