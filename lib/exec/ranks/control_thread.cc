#include "exec/ranks/control_thread.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include "base/temporary_files.h"
#include "exec/ranks/control_messages.h"
#include "exec/ranks/deadline.h"

namespace tpplan {
namespace {

// Delay of SIGTERM, so that ranks can report which rank was lost. It is shorter than the second after which mpirun
// sends SIGKILL.
constexpr auto kTerminationDelay = std::chrono::milliseconds(800);

// Time for rank 0 to report a lost rank after SIGTERM was sent to all ranks. It is shorter than kTerminationDelay,
// after which rank 0 exits too.
constexpr int64_t kWordOfRankZero = 500'000'000;  // ns

constexpr double kLingerSeconds = 1;  // time for the peers to read the last frames

// Arrival of SIGTERM in ns of the steady clock; 0: not yet. Launchers send it to all ranks as soon as one is lost. The
// signal is delayed, so that the ranks can report which rank was lost, and at which step.
std::atomic<int64_t> terminated_at = 0;

int64_t steady_now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void note_termination(int) {
  int64_t none = 0;
  terminated_at.compare_exchange_strong(none, steady_now());
}

void end_by_signal() {
  remove_all_temporary();
  std::signal(SIGTERM, SIG_DFL);
  raise(SIGTERM);
}

// True if the launcher ends this job: rank 0 had kWordOfRankZero to report a lost rank after SIGTERM, and has not. The
// loss of rank 0 is then not the cause of the failure.
bool is_ended_by_launcher(const Control& control) {
  const int64_t since = terminated_at;
  return since != 0 && steady_now() - since > kWordOfRankZero && !is_coordinator(control) && !control.has_job_error &&
         !control.all_ended;
}

// Processes all complete messages of an inbox. `open` is false if the peer has closed the connection.
void process_inbox(Control& control, size_t i, bool open) {
  const std::lock_guard lock(control.mutex);
  Frame frame;
  DecodeState state = DecodeState::NeedMore;
  while ((state = decode(control.inboxes[i], kMaxFrameBytes, frame)) == DecodeState::Frame) {
    if (receive(control, i, frame)) continue;
    state = DecodeState::Malformed;
    break;
  }
  if (!open && is_ended_by_launcher(control)) end_by_signal();
  if (!open || state == DecodeState::Malformed) disconnect(control, i);
}

// Main loop of the control thread: sends what is due, then waits for messages for at most kStateInterval. Sending has a
// separate lock, because a slow peer may block it: `mutex` stays free for the rank's thread, which takes it at every
// step. Frames are collected under the send lock, so that an older state never follows a newer one.
void run_control_loop(Control& control) {
  Clock::time_point last_sent = Clock::now() - kHeartbeatInterval;
  std::optional<Clock::time_point> termination;  // set here, after the known state and faults were sent once
  for (size_t i = 0; i < control.sockets.size(); ++i)
    process_inbox(control, i, true);  // messages that arrived with the rendezvous
  for (bool stop = false; !stop;) {
    if (termination && Clock::now() - *termination > kTerminationDelay) end_by_signal();
    if (terminated_at != 0 && !termination) termination = Clock::now();
    {
      const std::lock_guard sending(control.send_mutex);
      std::vector<Frame> frames;
      {
        const std::lock_guard lock(control.mutex);
        if (is_coordinator(control)) check_job_end(control);
        frames = take_outbox(control, last_sent);
        stop = control.stop;
      }
      for (const Frame& frame : frames) {
        for (const int socket : control.sockets) {
          if (socket >= 0) send_frame(socket, frame, control.deadline);  // a read detects a lost peer
        }
      }
    }
    if (stop) break;
    std::vector<pollfd> items = {{.fd = control.wake, .events = POLLIN, .revents = 0}};
    for (const int socket : control.sockets)
      items.push_back({.fd = socket, .events = POLLIN, .revents = 0});  // poll ignores -1
    poll(items.data(), items.size(), static_cast<int>(kStateInterval.count()));
    uint64_t count = 0;
    if (items[0].revents != 0 && read(control.wake, &count, sizeof count) < 0) continue;
    for (size_t i = 1; i < items.size(); ++i) {
      if (items[i].revents != 0)
        process_inbox(control, i - 1, receive_available(control.sockets[i - 1], control.inboxes[i - 1]));
    }
    const std::lock_guard lock(control.mutex);
    check_late_ranks(control);
  }
}

// Open control channel of this process, if any.
struct OpenControl {
  std::mutex mutex;
  Control* control = nullptr;
};

OpenControl& open_channel() {
  static auto* const open = new OpenControl;  // never destroyed: any thread may report a fault until the process exits
  return *open;
}

void note_open(Control* control) {
  const std::lock_guard lock(open_channel().mutex);
  open_channel().control = control;
}

// Sends the remaining frames and waits until the peers have read them: closing a socket with unread data discards what
// was sent.
void close_control(Control* control) {
  note_open(nullptr);
  {
    const std::lock_guard lock(control->mutex);
    control->stop = true;
  }
  wake_control_thread(*control);
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
  if (terminated_at != 0 && !control->has_job_error) end_by_signal();
  if (const auto now = std::signal(SIGTERM, SIG_DFL); now != note_termination) std::signal(SIGTERM, now);
  delete control;
}

}  // namespace

void report_to_job(const Fault& fault) {
  const std::lock_guard open(open_channel().mutex);
  Control* control = open_channel().control;
  if (control == nullptr) return;
  const Clock::time_point start = Clock::now();
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  std::unique_lock lock(control->mutex);
  set_job_error(*control, fault);
  while (!control->is_error_sent && seconds_since(start) < kLingerSeconds) {
    lock.unlock();
    pause();  // once is_error_sent is set, the control thread is sending
    lock.lock();
  }
  lock.unlock();
  std::unique_lock sending(control->send_mutex, std::try_to_lock);
  for (; !sending.owns_lock() && seconds_since(start) < 2 * kLingerSeconds; pause()) sending.try_lock();
}

void send_state_now(Control& control) {
  if (is_coordinator(control)) return;
  // The control thread may be sending an older state, which must come first.
  const std::lock_guard sending(control.send_mutex);
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
  const size_t known = is_coordinator(*control) ? static_cast<size_t>(connections.world) : 1;
  control->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  control->ranks.resize(known);
  control->texts.resize(known);
  control->has_text.resize(known);
  control->statuses.assign(known, -1);
  if (const auto before = std::signal(SIGTERM, note_termination); before != SIG_DFL) std::signal(SIGTERM, before);
  control->thread = std::thread(run_control_loop, std::ref(*control));
  note_open(control);
  return {control, close_control};
}

}  // namespace tpplan
