// The thread behind the channel between the processes of a job, and what it shares with the rank: rank 0 is the
// coordinator, whose thread knows all states and answers all; the others' threads speak with it alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ranks/deadline.h"
#include "ranks/frames.h"
#include "ranks/rendezvous.h"
#include "ranks/roster.h"

namespace tpplan {

struct Control {
  int rank = 0, world = 1;
  double deadline = 60;
  std::vector<int> sockets;  // RankConnections::sockets; -1 once lost
  std::vector<int> lost_sockets;
  std::vector<std::string> inboxes;
  int wake = -1;
  std::thread thread;
  std::atomic<bool> has_fault = false;
  // Of what is sent, by the thread or by the rank itself. Taken before the other, never behind it: who sends takes the
  // other for a moment, to see what and to whom.
  std::mutex send_mutex;

  std::mutex mutex;  // of everything below
  std::condition_variable changed;
  std::vector<RankState> ranks;                  // rank 0: all, itself first; the others: their own alone
  bool is_moved = false;                         // our own state is not sent yet
  Clock::time_point last_change = Clock::now();  // of any rank's state, or of word from rank 0
  std::optional<std::pair<int, double>> late;    // at rank 0: who has waited too long, and how many seconds
  std::vector<Frame> outbox;                     // to rank 0, or from rank 0 to all
  std::optional<Fault> fault;
  bool is_fault_sent = false;
  std::vector<std::string> texts;  // rank 0: of the round under way, by rank
  std::vector<bool> has_text;
  size_t text_count = 0;
  bool is_agreed = false;         // rank 0: all texts are there; the others: rank 0 has answered
  std::string agreed;             // its answer
  std::vector<int64_t> statuses;  // rank 0: of ranks that ended; -1: not yet
  size_t end_count = 0;
  int64_t worst_status = 0;  // of all, once all have ended
  bool all_ended = false;
  bool stop = false;
};

// Starts the thread on the connections of a rendezvous. The channel closes with the last owner, once all is sent.
[[nodiscard]] std::shared_ptr<Control> open_control(RankConnections connections, double deadline);

[[nodiscard]] inline bool is_coordinator(const Control& control) { return control.rank == 0; }

[[nodiscard]] inline RankState& own_state(Control& control) { return control.ranks.front(); }
[[nodiscard]] inline const RankState& own_state(const Control& control) { return control.ranks.front(); }

// Lets the thread look at what there is to send.
void wake(Control& control);

// Makes a fault known to the job that this process is a rank of, if it is one, whatever its rank is at; returns when it
// is sent, or cannot be.
void tell_job(const Fault& fault);

// Tells rank 0 where this rank stands, from the rank's own thread: a rank may be gone before its other thread gets to
// it.
void send_state_now(Control& control);

}  // namespace tpplan
