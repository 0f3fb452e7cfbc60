// Catch2 of either generation: Debian 12 ships 2.13, newer distributions 3.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Matchers::ContainsSubstring;
namespace Catch {
inline auto Contains(const std::string& text) { return ContainsSubstring(text); }  // as Catch2 2 calls it
using Matchers::MatcherBase;
}  // namespace Catch
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif
