#include "ranks/gather_bytes.h"

#include <spdlog/fmt/fmt.h>

#include <cstring>
#include <memory>
#include <numeric>

#include "base/text.h"

namespace tpplan {
namespace {

using Memory = std::unique_ptr<void, void (*)(void*)>;

// Memory of the device; at least one byte, so that nothing stands at nullptr.
Memory take(const Comm& comm, uint64_t bytes) {
  bytes += bytes == 0;
  void* memory = comm.device->allocate(bytes);
  if (memory == nullptr)
    throw Fault{.code = Code::TP8012,
                .message = fmt::format("no memory is left for {} of what ranks tell each other", human_bytes(bytes))};
  return {memory, comm.device->release};
}

Memory take(const Comm& comm, std::string_view text) {
  Memory memory = take(comm, text.size());
  if (!text.empty()) comm.device->from_host(memory.get(), text.data(), text.size());
  comm.device->synchronize();
  return memory;
}

std::string read(const Comm& comm, const Memory& memory, uint64_t bytes) {
  std::string text(bytes, '\0');
  if (bytes != 0) comm.device->to_host(text.data(), memory.get(), bytes);
  comm.device->synchronize();
  return text;
}

std::vector<std::string> cut(std::string_view text, std::span<const uint64_t> sizes) {
  std::vector<std::string> parts;
  for (const uint64_t size : sizes) {
    parts.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return parts;
}

std::vector<uint64_t> words_of(std::string_view text) {
  std::vector<uint64_t> words(text.size() / sizeof(uint64_t));
  if (!words.empty()) std::memcpy(words.data(), text.data(), words.size() * sizeof(uint64_t));
  return words;
}

std::string text_of(std::span<const uint64_t> words) {
  return {reinterpret_cast<const char*>(words.data()), words.size_bytes()};
}

uint64_t total(std::span<const uint64_t> sizes) { return std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}); }

std::string exchange_text(Comm& comm, const Group& group, std::string_view mine, std::span<const uint64_t> sends,
                          std::span<const uint64_t> receives) {
  const Memory in = take(comm, mine), out = take(comm, total(receives));
  require(comm, comm.backend->all_to_all(comm, group, in.get(), sends, out.get(), receives));
  return read(comm, out, total(receives));
}

}  // namespace

std::vector<std::string> exchange_bytes(Comm& comm, const Group& group, const std::vector<std::string>& mine) {
  std::vector<uint64_t> sends;
  std::string all;
  for (const std::string& text : mine) {
    sends.push_back(text.size());
    all += text;
  }
  const std::vector<uint64_t> word(group.ranks.size(), sizeof(uint64_t));
  const std::vector<uint64_t> receives = words_of(exchange_text(comm, group, text_of(sends), word, word));
  return cut(exchange_text(comm, group, all, sends, receives), receives);
}

}  // namespace tpplan
