// State that a rank shares with the thread of its control channel (control_thread.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/ranks/deadline.h"
#include "exec/ranks/frames.h"
#include "exec/ranks/rendezvous.h"
#include "exec/ranks/roster.h"

namespace tpplan {

struct Control {
  int rank = 0, world = 1;
  double deadline = 60;
  std::vector<int> sockets;  // RankConnections::sockets; -1 once lost
  std::vector<int> lost_sockets;
  std::vector<std::string> inboxes;
  int wake = -1;
  std::thread thread;
  std::atomic<bool> has_job_error = false;
  // Serializes sends of the control thread and of the rank's own thread. Lock order: send_mutex before mutex. A sender
  // locks `mutex` only briefly, to collect the frames and sockets.
  std::mutex send_mutex;

  std::mutex mutex;  // guards all fields below
  std::condition_variable changed;
  std::vector<RankState> ranks;                  // rank 0: all ranks, itself first; other ranks: only their own state
  bool is_moved = false;                         // the state of this rank has changed since it was sent
  Clock::time_point last_change = Clock::now();  // of any rank's state, or of the last message from rank 0
  std::optional<std::pair<int, double>> late;    // rank 0: rank that reported a timeout, and its seconds
  std::vector<Frame> outbox;                     // to rank 0, or from rank 0 to all
  std::optional<Fault> fault;
  bool is_error_sent = false;
  std::vector<std::string> texts;  // rank 0: texts of the current round, by rank
  std::vector<bool> has_text;
  size_t text_count = 0;
  bool is_agreed = false;         // rank 0: all texts have arrived; other ranks: rank 0 has replied
  std::string agreed;             // reply of rank 0
  std::vector<int64_t> statuses;  // rank 0: exit statuses by rank; -1 while a rank runs
  size_t end_count = 0;
  int64_t worst_status = 0;  // maximum of all statuses, once all ranks have ended
  bool all_ended = false;
  bool stop = false;
};

[[nodiscard]] inline bool is_coordinator(const Control& control) { return control.rank == 0; }

[[nodiscard]] inline RankState& local_state(Control& control) { return control.ranks.front(); }
[[nodiscard]] inline const RankState& local_state(const Control& control) { return control.ranks.front(); }

// Wakes the control thread, so that it sends what is queued.
void wake_control_thread(Control& control);

}  // namespace tpplan
