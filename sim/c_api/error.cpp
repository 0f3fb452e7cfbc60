// SPDX-License-Identifier: MIT
#include <new>
#include <stdexcept>
#include <string>

#include "c_api.hpp"

namespace bitmma::c_api {
namespace {

/// `text` is the result of bitmma_last_error: text of violations, or a constant if there was no memory for more.
struct LastError {
  std::vector<Violation> violations = {};
  std::string written = {};
  const char* text = "";
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

void record(std::vector<Violation> violations, std::string text) {
  LastError& last = last_error();
  last.violations = std::move(violations);
  last.written = std::move(text);
  last.text = last.written.c_str();
}

bitmma_status record_constant(bitmma_status status, const char* text) {
  last_error().violations.clear();
  last_error().text = text;
  return status;
}

}  // namespace

bitmma_status record_failure() noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      record(error.violations(), error.what());
      return BITMMA_ERROR_INVALID;
    } catch (const std::bad_alloc&) {
      return record_constant(BITMMA_ERROR_MEMORY, "out of memory");
    } catch (const std::length_error&) {  // an array too large for any memory
      return record_constant(BITMMA_ERROR_MEMORY, "out of memory");
    } catch (const std::exception& error) {
      record({}, std::string("internal error: ") + error.what());
      return BITMMA_ERROR_INTERNAL;
    }
  } catch (const std::bad_alloc&) {
    return record_constant(BITMMA_ERROR_MEMORY, "out of memory");
  } catch (...) {
    return record_constant(BITMMA_ERROR_INTERNAL, "internal error");
  }
}

}  // namespace bitmma::c_api

using namespace bitmma;

extern "C" {

const char* bitmma_last_error(void) { return c_api::last_error().text; }

size_t bitmma_error_count(void) { return c_api::last_error().violations.size(); }

bitmma_status bitmma_error_at(size_t index, bitmma_violation* violation) {
  const std::vector<Violation>& all = c_api::last_error().violations;
  if (index >= all.size() || !violation) return BITMMA_ERROR_INVALID;
  const Violation& row = all[index];
  *violation = {.field = row.field.c_str(),
                .seen = row.seen.c_str(),
                .legal = row.expected.c_str(),
                .fix = row.fix.c_str(),
                .source = row.source.c_str(),
                .code = print(row.code).data()};  // a literal, which ends in a zero byte
  return BITMMA_OK;
}

}  // extern "C"
