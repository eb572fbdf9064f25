#include "exec/ranks/hello.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/sha256.h"
#include "base/text.h"
#include "exec/ranks/sockets.h"
#include "manifest/manifest.h"

namespace tpplan {
namespace {

constexpr uint64_t kMagic = 0x35'6b'6e'61'72'70'70'74;  // "tpprank5"

// Returns a proof that its sender has the secret. The secret itself is never sent.
std::string hello_proof(std::string_view secret) { return sha256_hex(fmt::format("tpplan hello\n{}", secret)); }

// Compares in constant time, independent of where the texts differ.
bool is_same_proof(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < left.size(); ++i)
    difference = static_cast<unsigned char>(difference | (static_cast<unsigned char>(left[i]) ^ right[i]));
  return difference == 0;
}

// Returns the first pair of lines in which two agreements differ.
std::string differing_lines(std::string_view zero, std::string_view other) {
  const std::vector<std::string_view> a = split(zero, '\n'), b = split(other, '\n');
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string_view left = i < a.size() ? a[i] : "", right = i < b.size() ? b[i] : "";
    if (left != right) return fmt::format("{} instead of {}", quote_line(right), quote_line(left));
  }
  return "no printable difference";
}

}  // namespace

std::string quote_line(std::string_view line) {
  return fmt::format("\"{}\"", escape_for_terminal(line.substr(0, 160)));
}

Frame hello_of(const RendezvousOptions& options) {
  return {.type = FrameType::Hello,
          .numbers = {kMagic, static_cast<uint64_t>(options.rank), static_cast<uint64_t>(options.world),
                      static_cast<uint64_t>(getpid())},
          .texts = {std::string(kToolVersion), options.agreement, host_identity(), options.job,
                    hello_proof(options.secret)}};
}

bool is_hello(const Frame& frame) {
  return frame.type == FrameType::Hello && frame.numbers.size() == 4 && frame.texts.size() == 5 &&
         frame.numbers[0] == kMagic;
}

bool has_valid_proof(const Frame& own, const Frame& hello) { return is_same_proof(own.texts[4], hello.texts[4]); }

std::string reply_proof(std::string_view secret) { return sha256_hex(fmt::format("tpplan answer\n{}", secret)); }

bool has_valid_reply_proof(std::string_view secret, const Frame& answer) {
  return !answer.texts.empty() && is_same_proof(reply_proof(secret), answer.texts.back());
}

std::optional<Fault> find_mismatch(const Frame& own, const Frame& hello, const std::vector<Frame>& present) {
  const uint64_t rank = rank_of(hello), world = world_of(own);
  const auto differs = [&](std::string message, std::string help) {
    return Fault{.code = Code::RanksDisagree,
                 .message = std::move(message),
                 .help = std::move(help),
                 .rank = static_cast<int>(rank)};
  };
  if (world_of(hello) != world)
    return differs(fmt::format("rank {} has a world size of {}, rank 0 of {}", rank, world_of(hello), world),
                   "start all ranks with one launcher and one world size");
  if (rank >= world)
    return differs(fmt::format("a process has rank {}, but the world size is {}", rank, world),
                   "number the ranks from 0");
  if (hello.texts[0] != own.texts[0])
    return differs(
        fmt::format("rank {} runs {}, rank 0 runs {}", rank, quote_line(hello.texts[0]), quote_line(own.texts[0])),
        "install the same version on all ranks");
  if (hello.texts[1] != own.texts[1])
    return differs(fmt::format("rank {} has a different manifest or options than rank 0: {}", rank,
                               differing_lines(own.texts[1], hello.texts[1])),
                   "pass the same manifest and options to all ranks");
  if (const Frame& earlier = present[rank]; !earlier.numbers.empty())
    return differs(fmt::format("two processes have rank {}: {} (process {}) and {} (process {})", rank,
                               quote_line(split(host_of(earlier), ' ')[0]), earlier.numbers[3],
                               quote_line(split(host_of(hello), ' ')[0]), hello.numbers[3]),
                   "start each rank once");
  return std::nullopt;
}

}  // namespace tpplan
