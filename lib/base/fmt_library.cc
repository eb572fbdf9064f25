// Compiles fmt once: Debian has no static library of it, and header-only use slows down every file that formats text.
// The instantiations are those of fmt's src/format.cc in the releases that tools/cmake/dependencies.cmake names; with
// other releases fmt is header-only.
#include <spdlog/fmt/fmt.h>

#ifndef FMT_HEADER_ONLY

#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale& loc);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);
#ifdef FMT_BUFFER_CONTEXT
using Arguments = basic_format_args<FMT_BUFFER_CONTEXT(char)>;
#else
using Arguments = vformat_args<>::type;
#endif
template FMT_API void vformat_to(buffer<char>&, string_view, Arguments, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE

#endif  // FMT_HEADER_ONLY
