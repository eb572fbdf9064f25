#include "ranks/control.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "ranks/control_messages.h"
#include "ranks/control_thread.h"
#include "ranks/deadline.h"

namespace tpplan {

namespace {

constexpr double kReplySeconds = 1;  // that rank 0's word may take

// The wait of a rank is over: asks rank 0 whom it waited for. Rank 0 alone knows where everybody stands.
void report_timeout(Comm& comm, double seconds) {
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  if (is_coordinator(control)) {
    set_fault(control, late_fault(control.ranks, 0, seconds));
  } else {
    control.outbox.push_back({.type = FrameType::Late,
                              .numbers = {comm.step.number, comm.calls, static_cast<uint64_t>(seconds * 1e6)},
                              .texts = {comm.step.what}});
    wake(control);
    control.changed.wait_until(lock, after(kReplySeconds), [&] { return control.fault.has_value(); });
    set_fault(control, {.code = Code::TP8008,
                        .message = fmt::format("rank {} has waited {:.3g} s at {}, and rank 0 does not answer",
                                               comm.rank, seconds, to_text(comm.step)),
                        .help = "see to rank 0 and the network, or give --deadline more seconds",
                        .rank = 0});
  }
  comm.fault = control.fault;
}

// Waits for a flag that the thread sets, within the deadline.
template <typename Done>
bool wait_for(Comm& comm, std::unique_lock<std::mutex>& lock, Done done) {
  Control& control = *comm.control;
  const bool in_time =
      control.changed.wait_until(lock, after(comm.deadline), [&] { return done() || control.fault.has_value(); });
  if (in_time && done()) return true;
  if (in_time) {
    comm.fault = control.fault;
    return false;
  }
  lock.unlock();
  report_timeout(comm, comm.deadline);
  return false;
}

}  // namespace

void join_job(Comm& comm, const RendezvousOptions& options) {
  RankConnections connections = rendezvous(options);
  comm.process = {comm.rank};
  comm.node = std::move(connections.node);
  if (comm.local_rank < 0)
    comm.local_rank = static_cast<int>(std::ranges::find(comm.node, comm.rank) - comm.node.begin());
  comm.device->use(comm.local_rank);
  comm.control = open_control(std::move(connections), comm.deadline);
}

void publish_state_by_control(Comm& comm) {
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  RankState& own = own_state(control);
  const bool is_new_step = own.step.number != comm.step.number;
  own.step = comm.step;
  own.calls = comm.calls;
  control.is_moved = true;
  if (is_coordinator(control)) control.last_change = Clock::now();
  if (comm.fault) set_fault(control, *comm.fault);
  comm.fault = control.fault;
  lock.unlock();
  if (is_new_step) send_state_now(control);
}

bool fold_texts_by_control(Comm& comm, std::string_view mine, const TextFold& fold, std::string& agreed) {
  if (!enter_call(comm)) return false;
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  control.is_agreed = false;
  if (is_coordinator(control)) {
    take_text(control, 0, std::string(mine));
  } else {
    control.outbox.push_back({.type = FrameType::Text, .texts = {std::string(mine)}});
    wake(control);
  }
  if (!wait_for(comm, lock, [&] { return control.is_agreed; })) return false;
  if (!is_coordinator(control)) {
    agreed = std::move(control.agreed);
    return true;
  }
  // Nobody sends a text of the next round before this one is answered.
  const std::vector<std::string> texts = std::exchange(control.texts, std::vector<std::string>(control.texts.size()));
  lock.unlock();
  agreed = fold(texts);
  lock.lock();
  control.outbox.push_back({.type = FrameType::Agreed, .texts = {agreed}});
  wake(control);
  return true;
}

bool may_wait(Comm& comm, Clock::time_point start, double seconds) {
  Control& control = *comm.control;
  if (control.has_fault) {
    const std::lock_guard lock(control.mutex);
    comm.fault = control.fault;
    return false;
  }
  if (seconds_since(start) < seconds) return true;
  report_timeout(comm, seconds);
  return false;
}

bool end_together(Comm& comm, int status) {
  if (!enter_call(comm)) return false;
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  if (is_coordinator(control)) {
    take_end(control, 0, status & 0xff);
  } else {
    control.outbox.push_back({.type = FrameType::End, .numbers = {static_cast<uint64_t>(status & 0xff)}});
    wake(control);
  }
  while (!control.all_ended && !control.fault) {
    control.changed.wait_until(lock, after(0.2));
    // Rank 0 finds who is late at the deadline (check_end); without its word for a second more it is late itself.
    if (seconds_since(control.last_change) > control.deadline + kReplySeconds) {
      set_fault(control, {.code = Code::TP8008,
                          .message = fmt::format("rank {} has waited {:.3g} s for the end, and rank 0 does not answer",
                                                 comm.rank, control.deadline),
                          .help = "see to rank 0 and the network, or give --deadline more seconds",
                          .rank = 0});
    }
  }
  if (!control.all_ended) comm.fault = control.fault;
  return control.all_ended && control.worst_status == 0;
}

}  // namespace tpplan
