// Serialization of plain structs as messages between ranks. A struct lists its fields once, in a free function:
//   inline auto fields(LoadReport& r) { return std::tie(r.read_bytes, r.seconds); }
// A message has a version, a type signature and a checksum. Damaged messages, other versions and other structs are
// rejected.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "diagnostics/fault.h"

namespace tpplan {

[[nodiscard]] inline auto fields(Fault& f) { return std::tie(f.code, f.message, f.help, f.place, f.rank, f.step); }

// Wrap a body with version, type signature, length and checksum, and unwrap it again. `form` is the type signature.
// read_body returns false unless `message` was written by write_body with the same form.
[[nodiscard]] std::string write_body(std::string_view form, std::string_view body);
[[nodiscard]] bool read_body(std::string_view message, std::string_view form, std::string_view& body);

namespace message_detail {

void put_word(std::string& out, uint64_t word);
[[nodiscard]] bool take_word(std::string_view& in, uint64_t& word);
[[nodiscard]] bool take_text(std::string_view& in, std::string& text);
[[nodiscard]] bool code_of_word(uint64_t word, Code& code);

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {
  using Item = T;
};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {
  using Item = T;
};

template <typename T>
void put(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    put_word(out, value.size());
    out += value;
  } else if constexpr (std::is_same_v<T, double>) {
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    put_word(out, word);
  } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, Code>) {
    put_word(out, static_cast<uint64_t>(value));
  } else if constexpr (IsVector<T>::value) {
    put_word(out, value.size());
    for (const auto& item : value) put(out, item);
  } else if constexpr (IsOptional<T>::value) {
    put(out, value.has_value());
    if (value) put(out, *value);
  } else {
    std::apply([&](const auto&... member) { (put(out, member), ...); }, fields(const_cast<T&>(value)));
  }
}

template <typename T>
[[nodiscard]] bool take(std::string_view& in, T& value) {
  uint64_t word = 0;
  if constexpr (std::is_same_v<T, std::string>) {
    return take_text(in, value);
  } else if constexpr (std::is_same_v<T, double>) {
    if (!take_word(in, word)) return false;
    std::memcpy(&value, &word, sizeof value);
    return true;
  } else if constexpr (std::is_same_v<T, Code>) {
    return take_word(in, word) && code_of_word(word, value);
  } else if constexpr (std::is_integral_v<T>) {
    if (!take_word(in, word)) return false;
    value = static_cast<T>(word);
    return static_cast<uint64_t>(value) == word;
  } else if constexpr (IsVector<T>::value) {
    if (!take_word(in, word) || word > in.size()) return false;
    value.clear();
    for (uint64_t i = 0; i < word; ++i) {
      if (!take(in, value.emplace_back())) return false;
    }
    return true;
  } else if constexpr (IsOptional<T>::value) {
    bool is_there = false;
    if (!take(in, is_there)) return false;
    value.reset();
    return !is_there || take(in, value.emplace());
  } else {
    return std::apply([&](auto&... member) { return (take(in, member) && ...); }, fields(value));
  }
}

// Returns the type signature of T, such as "(wwd[t])": w integer, d double, t text, b bool, c code, [] list, ?
// optional, () struct.
template <typename T>
[[nodiscard]] std::string type_signature() {
  if constexpr (std::is_same_v<T, std::string>) {
    return "t";
  } else if constexpr (std::is_same_v<T, double>) {
    return "d";
  } else if constexpr (std::is_same_v<T, Code>) {
    return "c";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "b";
  } else if constexpr (std::is_integral_v<T>) {
    return "w";
  } else if constexpr (IsVector<T>::value) {
    return "[" + type_signature<typename IsVector<T>::Item>() + "]";
  } else if constexpr (IsOptional<T>::value) {
    return "?" + type_signature<typename IsOptional<T>::Item>();
  } else {
    T one{};
    return "(" +
           std::apply(
               [](auto&... member) {
                 return (std::string() + ... + type_signature<std::remove_reference_t<decltype(member)>>());
               },
               fields(one)) +
           ")";
  }
}

}  // namespace message_detail

template <typename T>
[[nodiscard]] std::string to_message(const T& value) {
  std::string body;
  message_detail::put(body, value);
  return write_body(message_detail::type_signature<T>(), body);
}

// Reads a T from `message`. Returns false unless to_message wrote it for the same type.
template <typename T>
[[nodiscard]] bool from_message(std::string_view message, T& value) {
  std::string_view body;
  return read_body(message, message_detail::type_signature<T>(), body) && message_detail::take(body, value) &&
         body.empty();
}

}  // namespace tpplan
