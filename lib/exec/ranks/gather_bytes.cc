#include "exec/ranks/gather_bytes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>

#include "base/text.h"
#include "exec/ranks/gather.h"

namespace tpplan {
namespace {

using Memory = std::unique_ptr<void, void (*)(void*)>;

// Allocates device memory of at least one byte, so that the pointer is never null.
Memory take(const Comm& comm, uint64_t bytes) {
  bytes += bytes == 0;
  void* memory = comm.device->allocate(bytes);
  if (memory == nullptr)
    throw Fault{.code = Code::OutOfMemory,
                .message = fmt::format("cannot allocate {} for messages between ranks", human_bytes(bytes))};
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
  throw_if_failed(comm, comm.backend->all_to_all(comm, group, in.get(), sends, out.get(), receives));
  return read(comm, out, total(receives));
}

// Exchanges texts directly with every rank of the group: first the sizes, then the texts.
std::vector<std::string> exchange_in_pairs(Comm& comm, const Group& group, const std::vector<std::string>& mine) {
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

// Concatenates the texts, with their sizes in front.
std::string join(std::span<const std::string> texts) {
  std::vector<uint64_t> sizes;
  for (const std::string& text : texts) sizes.push_back(text.size());
  std::string all = text_of(sizes);
  for (const std::string& text : texts) all += text;
  return all;
}

std::vector<std::string> split_joined(std::string_view all, size_t count, int from) {
  const std::string_view head = all.substr(0, count * sizeof(uint64_t));
  const std::vector<uint64_t> sizes = words_of(head);
  all.remove_prefix(head.size());
  if (sizes.size() != count || total(sizes) != all.size()) throw damaged_message_fault(from);
  return cut(all, sizes);
}

// Returns the number of rows of the most square grid with exactly this many ranks. It is 1 for fewer than 16 ranks or a
// prime count.
size_t rows_of(size_t members) {
  constexpr size_t kFew = 16;
  if (members < kFew) return 1;
  size_t rows = 1;
  for (size_t i = 2; i * i <= members; ++i) {
    if (members % i == 0) rows = i;
  }
  return rows;
}

}  // namespace

// Arranges the ranks of the group in a grid, so that each rank exchanges messages with one row and one column only.
// Texts first travel within the sender's row, to the rank in the target's column, and then within that column. The
// price is that every text is sent twice.
std::vector<std::string> exchange_bytes(Comm& comm, const Group& group, const std::vector<std::string>& mine) {
  const size_t rows = rows_of(group.ranks.size()), columns = group.ranks.size() / rows;
  if (rows == 1) return exchange_in_pairs(comm, group, mine);
  Group row{.self = group.self % columns}, column{.self = group.self / columns};
  std::vector<std::vector<std::string>> by_column(columns), by_row(rows);
  for (size_t i = 0; i < columns; ++i) row.ranks.push_back(group.ranks[column.self * columns + i]);
  for (size_t i = 0; i < rows; ++i) column.ranks.push_back(group.ranks[i * columns + row.self]);
  for (size_t i = 0; i < mine.size(); ++i) by_column[i % columns].push_back(mine[i]);
  std::vector<std::string> sent;
  for (const std::vector<std::string>& texts : by_column) sent.push_back(join(texts));
  const std::vector<std::string> along_row = exchange_in_pairs(comm, row, sent);
  for (size_t i = 0; i < columns; ++i) {
    const std::vector<std::string> texts = split_joined(along_row[i], rows, row.ranks[i]);
    for (size_t to = 0; to < rows; ++to) by_row[to].push_back(texts[to]);
  }
  sent.clear();
  for (const std::vector<std::string>& texts : by_row) sent.push_back(join(texts));
  const std::vector<std::string> along_column = exchange_in_pairs(comm, column, sent);
  std::vector<std::string> received;
  for (size_t i = 0; i < rows; ++i)
    std::ranges::move(split_joined(along_column[i], columns, column.ranks[i]), std::back_inserter(received));
  return received;
}

}  // namespace tpplan
