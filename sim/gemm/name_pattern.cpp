// SPDX-License-Identifier: MIT
#include "name_pattern.hpp"

#include <new>

#include "bitmma/core/error.hpp"

namespace bitmma {

NamePattern::NamePattern(const std::string& expression) {
  auto compiled = std::make_unique<regex_t>();
  const int result = regcomp(compiled.get(), expression.c_str(), REG_EXTENDED);
  if (result == REG_ESPACE) throw std::bad_alloc();
  if (result != 0)
    throw Error({.field = "pattern", .seen = expression, .expected = "an extended regular expression of POSIX"});
  compiled_.reset(compiled.release());
}

std::vector<std::string> NamePattern::match(const std::string& name) const {
  std::vector<regmatch_t> groups(compiled_->re_nsub + 1);
  if (regexec(compiled_.get(), name.c_str(), groups.size(), groups.data(), 0) != 0) return {};
  std::vector<std::string> texts;
  for (const regmatch_t& group : groups) {
    const bool took_part = group.rm_so >= 0;
    texts.push_back(
        took_part ? name.substr(static_cast<size_t>(group.rm_so), static_cast<size_t>(group.rm_eo - group.rm_so)) : "");
  }
  return texts;
}

}  // namespace bitmma
