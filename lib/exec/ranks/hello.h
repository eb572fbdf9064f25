// Handshake message of a rank to rank 0: its rank, its job and the proof that it has the job's secret.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/fault.h"
#include "exec/ranks/frames.h"
#include "exec/ranks/rendezvous_options.h"

namespace tpplan {

[[nodiscard]] Frame hello_of(const RendezvousOptions& options);

// True if the frame has the form of a hello of this version.
[[nodiscard]] bool is_hello(const Frame& frame);

// Returns the hello's rank, world size, host or job.
[[nodiscard]] inline uint64_t rank_of(const Frame& hello) { return hello.numbers[1]; }
[[nodiscard]] inline uint64_t world_of(const Frame& hello) { return hello.numbers[2]; }
[[nodiscard]] inline const std::string& host_of(const Frame& hello) { return hello.texts[2]; }
[[nodiscard]] inline const std::string& job_of(const Frame& hello) { return hello.texts[3]; }

// True if the hello's sender has the secret of `own`. Compares in constant time.
[[nodiscard]] bool has_valid_proof(const Frame& own, const Frame& hello);

// Returns the proof of rank 0, the last text of a welcome or a rejection. It differs from the proof of a hello:
// otherwise a stranger who listens at the port could echo a rank's own proof.
[[nodiscard]] std::string reply_proof(std::string_view secret);
[[nodiscard]] bool has_valid_reply_proof(std::string_view secret, const Frame& answer);

// Returns why the sender cannot be part of rank 0's job, or nothing if it can. `present`: hellos by rank.
[[nodiscard]] std::optional<Fault> find_mismatch(const Frame& own, const Frame& hello,
                                                 const std::vector<Frame>& present);

// Returns the text in quotes, truncated to 160 bytes and with control characters escaped.
[[nodiscard]] std::string quote_line(std::string_view line);

}  // namespace tpplan
