#include "exec/ranks/control.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "exec/ranks/control_messages.h"
#include "exec/ranks/control_thread.h"
#include "exec/ranks/deadline.h"

namespace tpplan {

namespace {

constexpr double kReplySeconds = 1;  // time for rank 0 to reply

// Sets comm.fault after a timeout of this rank. Only rank 0 has the state of all ranks, so other ranks ask it which
// rank is late; if it does not reply, rank 0 is reported as late.
void report_timeout(Comm& comm, double seconds) {
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  if (is_coordinator(control)) {
    set_job_error(control, late_rank_error(control.ranks, 0, seconds));
  } else {
    control.outbox.push_back({.type = FrameType::Late,
                              .numbers = {comm.step.number, comm.calls, static_cast<uint64_t>(seconds * 1e6)},
                              .texts = {comm.step.what}});
    wake_control_thread(control);
    control.changed.wait_until(lock, after(kReplySeconds), [&] { return control.fault.has_value(); });
    set_job_error(control, {.code = Code::RankLate,
                            .message = fmt::format("rank {} has waited {:.3g} s at {}, and rank 0 does not reply",
                                                   comm.rank, seconds, to_text(comm.step)),
                            .help = "check rank 0 and the network, or increase --deadline",
                            .rank = 0});
  }
  comm.fault = control.fault;
}

// Waits until the control thread has made `done` true. Returns false with comm.fault set after a failure or the
// deadline.
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
  if (connections.strangers.count != 0) {
    const std::string_view help =
        options.secret.empty()
            ? "set TPPLAN_EXEC_SECRET to the same random text on every rank, and let only their machines reach the port"
            : "let only the ranks' machines reach the port; the connections are closed";
    comm.notes.push_back(
        {.code = Code::StrangersAtPort, .message = to_text(connections.strangers), .help = std::string(help)});
  }
  comm.control = open_control(std::move(connections), comm.deadline);
}

void publish_state_by_control(Comm& comm) {
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  RankState& own = local_state(control);
  const bool is_new_step = own.step.number != comm.step.number;
  own.step = comm.step;
  own.calls = comm.calls;
  control.is_moved = true;
  if (is_coordinator(control)) control.last_change = Clock::now();
  if (comm.fault) set_job_error(control, *comm.fault);
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
    store_rank_text(control, 0, std::string(mine));
  } else {
    control.outbox.push_back({.type = FrameType::Text, .texts = {std::string(mine)}});
    wake_control_thread(control);
  }
  if (!wait_for(comm, lock, [&] { return control.is_agreed; })) return false;
  if (!is_coordinator(control)) {
    agreed = std::move(control.agreed);
    return true;
  }
  // No rank sends a text of the next round before rank 0 replies to this one, so `texts` can be moved out.
  const std::vector<std::string> texts = std::exchange(control.texts, std::vector<std::string>(control.texts.size()));
  lock.unlock();
  agreed = fold(texts);
  lock.lock();
  control.outbox.push_back({.type = FrameType::Agreed, .texts = {agreed}});
  wake_control_thread(control);
  return true;
}

bool may_keep_waiting(Comm& comm, Clock::time_point start, double seconds) {
  Control& control = *comm.control;
  if (control.has_job_error) {
    const std::lock_guard lock(control.mutex);
    comm.fault = control.fault;
    return false;
  }
  if (seconds_since(start) < seconds) return true;
  report_timeout(comm, seconds);
  return false;
}

bool finish_job(Comm& comm, int status) {
  if (!enter_call(comm)) return false;
  Control& control = *comm.control;
  std::unique_lock lock(control.mutex);
  if (is_coordinator(control)) {
    store_rank_status(control, 0, status & 0xff);
  } else {
    control.outbox.push_back({.type = FrameType::End, .numbers = {static_cast<uint64_t>(status & 0xff)}});
    wake_control_thread(control);
  }
  while (!control.all_ended && !control.fault) {
    control.changed.wait_until(lock, after(0.2));
    // Rank 0 reports late ranks at the deadline (check_job_end). If no report arrives in another second, rank 0 itself
    // is late.
    if (seconds_since(control.last_change) > control.deadline + kReplySeconds) {
      set_job_error(control, {.code = Code::RankLate,
                              .message = fmt::format(
                                  "rank {} has waited {:.3g} s in the final barrier, and rank 0 does not reply",
                                  comm.rank, control.deadline),
                              .help = "check rank 0 and the network, or increase --deadline",
                              .rank = 0});
    }
  }
  if (!control.all_ended) comm.fault = control.fault;
  return control.all_ended && control.worst_status == 0;
}

}  // namespace tpplan
