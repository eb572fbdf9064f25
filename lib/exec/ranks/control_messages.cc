#include "exec/ranks/control_messages.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "exec/ranks/deadline.h"
#include "exec/ranks/message.h"

namespace tpplan {
namespace {

// Sets the fault that a frame carries. Returns false if the frame is malformed.
bool take_error(Control& control, const Frame& frame) {
  Fault fault;
  if (frame.texts.size() != 1 || !from_message(frame.texts[0], fault)) return false;
  set_job_error(control, std::move(fault));
  return true;
}

// Processes a message of another rank at rank 0. Returns false if it is malformed or unexpected.
bool receive_from_rank(Control& control, size_t rank, Frame& frame) {
  RankState& state = control.ranks[rank];
  const bool has_step = frame.numbers.size() == (frame.type == FrameType::Late ? 3 : 2) && frame.texts.size() == 1;
  switch (frame.type) {
    case FrameType::State:
    case FrameType::Late:
      if (!has_step) return false;
      state.step = {.number = frame.numbers[0], .what = frame.texts[0]};
      state.calls = frame.numbers[1];
      control.last_change = Clock::now();
      if (frame.type == FrameType::Late && !control.late)
        control.late = {static_cast<int>(rank), static_cast<double>(frame.numbers[2]) / 1e6};
      return true;
    case FrameType::Fault:
      return take_error(control, frame);
    case FrameType::Text:
      if (frame.texts.size() != 1 || control.has_text[rank]) return false;
      store_rank_text(control, rank, std::move(frame.texts[0]));
      return true;
    case FrameType::End:
      if (frame.numbers.size() != 1 || state.ended) return false;
      control.last_change = Clock::now();
      store_rank_status(control, rank, static_cast<int64_t>(frame.numbers[0] & 0xff));
      return true;
    default:
      return false;
  }
}

// Processes a message of rank 0 at another rank. Returns false if it is malformed or unexpected.
bool receive_from_coordinator(Control& control, Frame& frame) {
  control.last_change = Clock::now();
  switch (frame.type) {
    case FrameType::State:
      return true;
    case FrameType::Fault:
      control.is_error_sent = true;  // rank 0 has the fault already
      return take_error(control, frame);
    case FrameType::Agreed:
      if (frame.texts.size() != 1) return false;
      control.agreed = std::move(frame.texts[0]);
      control.is_agreed = true;
      control.changed.notify_all();
      return true;
    case FrameType::Ends:
      if (frame.numbers.size() != 1) return false;
      control.worst_status = static_cast<int64_t>(frame.numbers[0]);
      control.all_ended = true;
      control.changed.notify_all();
      return true;
    default:
      return false;
  }
}

}  // namespace

bool receive(Control& control, size_t i, Frame& frame) {
  return is_coordinator(control) ? receive_from_rank(control, i, frame) : receive_from_coordinator(control, frame);
}

void disconnect(Control& control, size_t i) {
  // The socket is closed later: the rank's own thread may be writing to it (send_state_now), and the system could reuse
  // a closed descriptor for another file.
  control.lost_sockets.push_back(std::exchange(control.sockets[i], -1));
  const size_t rank = is_coordinator(control) ? i : 0;
  if (control.all_ended) return;
  const RankState& state = control.ranks[rank];  // valid at rank 0 only
  const std::string gone = fmt::format("rank {} is disconnected: its process ended or its network failed", rank),
                    here = to_text(local_state(control).step);
  set_job_error(control, {.code = Code::RankLost,
                          .message = is_coordinator(control)
                                         ? fmt::format("{}; its last message was from {}, while rank 0 is at {}", gone,
                                                       to_text(state.step), here)
                                         : fmt::format("{}, while rank {} is at {}", gone, control.rank, here),
                          .help = fmt::format("check the standard error of rank {} and the log of its machine", rank),
                          .rank = static_cast<int>(rank)});
}

Frame state_of(const Control& control) {
  const RankState& own = local_state(control);
  return {.type = FrameType::State, .numbers = {own.step.number, own.calls}, .texts = {own.step.what}};
}

std::vector<Frame> take_outbox(Control& control, Clock::time_point& last_sent) {
  std::vector<Frame> frames = std::exchange(control.outbox, {});
  // The state is sent before other messages: rank 0 names the last known steps if a text, an end or a fault makes it
  // report one.
  const bool must_know = !is_coordinator(control) && (!frames.empty() || control.fault);
  const bool is_time = Clock::now() - last_sent >= (is_coordinator(control) ? kHeartbeatInterval : kStateInterval);
  if ((is_coordinator(control) && is_time) || (control.is_moved && (is_time || must_know))) {
    frames.insert(frames.begin(), state_of(control));
    control.is_moved = false;
    last_sent = Clock::now();
  }
  if (control.fault && !control.is_error_sent) {
    frames.push_back({.type = FrameType::Fault, .texts = {to_message(*control.fault)}});
    control.is_error_sent = true;
  }
  return frames;
}

void check_late_ranks(Control& control) {
  if (control.late) set_job_error(control, late_rank_error(control.ranks, control.late->first, control.late->second));
  control.late.reset();
}

void check_job_end(Control& control) {
  if (control.all_ended || seconds_since(control.last_change) < control.deadline) return;
  const auto ended = std::ranges::find(control.ranks, true, &RankState::ended);
  if (ended == control.ranks.end()) return;
  set_job_error(control,
                late_rank_error(control.ranks, static_cast<int>(ended - control.ranks.begin()), control.deadline));
}

void set_job_error(Control& control, Fault fault) {
  if (control.fault) return;
  control.fault = std::move(fault);
  control.has_job_error = true;
  control.changed.notify_all();
  wake_control_thread(control);
}

namespace {

// Sets a RankEndedEarly fault if a rank has ended that the current round of texts still waits for.
void find_ended(Control& control) {
  if (control.end_count == 0 || control.text_count == 0) return;
  for (size_t i = 0; i < control.ranks.size(); ++i) {
    if (!control.ranks[i].ended || control.has_text[i]) continue;
    const auto waiter = std::ranges::find(control.has_text, true) - control.has_text.begin();
    return set_job_error(
        control, ended_rank_error(control.ranks, static_cast<int>(i), control.statuses[i], static_cast<int>(waiter)));
  }
}

}  // namespace

void store_rank_text(Control& control, size_t rank, std::string text) {
  control.texts[rank] = std::move(text);
  control.has_text[rank] = true;
  ++control.text_count;
  find_ended(control);
  if (control.text_count != control.has_text.size()) return;
  control.has_text.assign(control.has_text.size(), false);
  control.text_count = 0;
  control.is_agreed = true;
  control.changed.notify_all();
}

void store_rank_status(Control& control, size_t rank, int64_t status) {
  control.ranks[rank].ended = true;
  control.statuses[rank] = status;
  if (++control.end_count != control.statuses.size()) return find_ended(control);
  control.worst_status = std::ranges::max(control.statuses);
  control.outbox.push_back({.type = FrameType::Ends, .numbers = {static_cast<uint64_t>(control.worst_status)}});
  control.all_ended = true;
  control.changed.notify_all();
  wake_control_thread(control);
}

}  // namespace tpplan
