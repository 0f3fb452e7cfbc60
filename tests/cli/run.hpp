// The command line as users run it, in this process.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "support/files.hpp"

namespace bitmma::test {

struct Outcome {
  int code = 0;
  std::string out, err;
  std::vector<Violation> violations = {};  // those that err shows
};

/// Runs `bitmma` with these arguments.
Outcome run(const std::vector<std::string>& arguments);
/// Words of a command as a shell would split them, with single quotes.
std::vector<std::string> shell_words(std::string line);
/// The same with the words of `line`.
Outcome run_line(const std::string& line);

inline const std::string f16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16";
inline const std::string one_golden = source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors");

/// A command line that must be refused, and the code and field of a violation. In the line stand $OUT for -o and a file
/// that does not exist, $FOLDER for an empty folder, $GOLDEN for a file of the H200 and $OTHER for one of another
/// instruction.
struct BadRequest {
  std::string line;
  ViolationCode code;
  std::string field;
};

/// The bad requests of one verb.
class BadRequests {
 public:
  BadRequests(std::vector<BadRequest> rows) : rows_(std::move(rows)) {}

  /// Checks that each leaves exit code 2, its violation, nothing on stdout and no file.
  void check() const;

 private:
  std::vector<BadRequest> rows_;
};

}  // namespace bitmma::test
