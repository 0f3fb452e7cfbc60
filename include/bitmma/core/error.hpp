// SPDX-License-Identifier: MIT
// Errors and warnings. One type for every bad request: it carries all violations found, not only the first.
//
//   n = 12: must be 8..256 in steps of 8; use n = 16 and zero the extra columns of B [PTX ISA 9.7.15.2]
//   ^field ^seen    ^expected               ^fix                                     ^source
//
//   nosuch.safetensors: no such file
//   --json and -o: cannot be combined; --format jsonl writes all cases
//   --padding 16: changes nothing here; leave it out
//   model.pt: a PyTorch checkpoint; expected safetensors or NumPy's .npy and .npz
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/table.hpp"

namespace bitmma {

/// An error stops the request. A warning is advice about input that is legal but rarely intended.
enum class Severity : uint8_t { error, warning };

/// The kind of a violation. Programs and tests compare the code; the sentences may change at any time.
enum class ViolationCode : uint8_t {
  illegal_value,
  unknown_name,
  contradiction,
  missing_instruction,
  missing_type,
  other_instruction,
  other_target,
  address_beyond_field,
  shift_without_ws,
  odd_scale_id,
  scale_id_of_vector,
  unknown_kernel,
  no_effect,
  not_found,
  not_together,
  unknown_key,
  unusable_file,
  other_inputs,
  would_replace,
  missing_plan,
  unread_argument,
  missing_argument,
  no_gpu,
  unsupported_ptx,
  out_of_bounds,
  misaligned,
  unwritten_read,
  shared_memory_race,
  deadlock,
  kernel_trap,
  failed_assertion,
  undefined_by_ptx,
  wrong_shape,
  wrong_type,
  wrong_instruction,
  missing_input,
  malformed,
  unsupported_target,
  too_large,
  out_of_memory,
  gpu_failed,
  internal_error,
};

/// The form of the message. `wrong_value` is for quantities: only they make a sentence with "=" and "must be".
enum class MessageForm : uint8_t {
  wrong_value,   // FIELD = SEEN: must be EXPECTED; FIX
  no_such,       // SEEN: no such FIELD; FIX (available: EXPECTED)
  not_together,  // FIELD and SEEN: cannot be combined: EXPECTED; FIX
  statement,     // FIELD: SEEN; expected EXPECTED; FIX
};

struct ViolationCodeInfo {
  ViolationCode id = ViolationCode::illegal_value;
  std::string_view name = {};
  std::string_view meaning = {};
  MessageForm form = MessageForm::wrong_value;
};

/// In the order of the enumeration.
inline constexpr auto violation_codes = std::to_array<ViolationCodeInfo>({
    {ViolationCode::illegal_value, "illegal_value", "the value is not one of the legal ones"},
    {ViolationCode::unknown_name, "unknown_name", "a name that does not exist; `legal` lists those that do"},
    {ViolationCode::contradiction, "contradiction", "two given values contradict each other"},
    {ViolationCode::missing_instruction, "missing_instruction", "a file that does not name its instruction"},
    {ViolationCode::missing_type, "missing_type", "a file that does not say which of several types `field` has"},
    {ViolationCode::other_instruction, "other_instruction", "a file for another instruction than the requested one"},
    {ViolationCode::other_target, "other_target", "a file for another target than the requested one"},
    {ViolationCode::address_beyond_field, "address_beyond_field", "an address or stride beyond its descriptor field"},
    {ViolationCode::shift_without_ws, "shift_without_ws", "max_shift of an instruction without .ws"},
    {ViolationCode::odd_scale_id, "odd_scale_id", "a scale id that only PTX ISA 9.4 and later allow"},
    {ViolationCode::scale_id_of_vector, "scale_id_of_vector",
     "a scale id that some sizes of the scale vector do not allow; the mnemonic says the size"},
    {ViolationCode::unknown_kernel, "unknown_kernel", "a kernel name for which no plan is known"},
    {ViolationCode::no_effect, "no_effect",
     "a value for something that does not have it, such as scales for an instruction without scales"},
    {ViolationCode::not_found, "not_found", "`seen` does not exist; `field` is its kind, such as a file or a command",
     MessageForm::no_such},
    {ViolationCode::not_together, "not_together", "`field` and `seen` cannot be combined", MessageForm::not_together},
    {ViolationCode::unknown_key, "unknown_key", "a key or tensor that no file of this kind has", MessageForm::no_such},
    {ViolationCode::unusable_file, "unusable_file", "a file that cannot be read or written, or is of another kind",
     MessageForm::statement},
    {ViolationCode::other_inputs, "other_inputs", "two files that should have the same inputs differ in them",
     MessageForm::statement},
    {ViolationCode::would_replace, "would_replace",
     "the output would replace an input, another output or a recorded result", MessageForm::statement},
    {ViolationCode::missing_plan, "missing_plan",
     "operands that libraries multiply in several ways; `legal` lists them"},
    {ViolationCode::unread_argument, "unread_argument", "a flag or argument without effect", MessageForm::statement},
    {ViolationCode::missing_argument, "missing_argument", "a required flag or argument is missing",
     MessageForm::statement},
    {ViolationCode::no_gpu, "no_gpu", "a GPU is required, but there is no driver, or no GPU responds",
     MessageForm::statement},
    {ViolationCode::unsupported_ptx, "unsupported_ptx", "an instruction in a kernel that bitmma does not run",
     MessageForm::statement},
    {ViolationCode::out_of_bounds, "out_of_bounds", "a thread reads or writes outside of every allocation",
     MessageForm::statement},
    {ViolationCode::misaligned, "misaligned", "a thread's address is not a multiple of the size of its access",
     MessageForm::statement},
    {ViolationCode::unwritten_read, "unwritten_read", "a thread reads memory that nothing wrote",
     MessageForm::statement},
    {ViolationCode::shared_memory_race, "shared_memory_race",
     "two threads access a byte of shared memory without a barrier between them, and at least one writes",
     MessageForm::statement},
    {ViolationCode::deadlock, "deadlock", "threads wait for a barrier that never completes", MessageForm::statement},
    {ViolationCode::kernel_trap, "kernel_trap", "a kernel stopped itself with trap", MessageForm::statement},
    {ViolationCode::failed_assertion, "failed_assertion", "an assertion of a kernel failed", MessageForm::statement},
    {ViolationCode::undefined_by_ptx, "undefined_by_ptx", "a kernel does what PTX leaves undefined",
     MessageForm::statement},
    {ViolationCode::wrong_shape, "wrong_shape",
     "extents, or a number of elements or operands, that do not fit what they are used with"},
    {ViolationCode::wrong_type, "wrong_type", "elements or an argument of another type than the function takes"},
    {ViolationCode::wrong_instruction, "wrong_instruction", "an instruction for which the operation is not defined"},
    {ViolationCode::missing_input, "missing_input", "a required tensor, key, operand or pointer is missing"},
    {ViolationCode::malformed, "malformed",
     "text or a file that breaks its grammar, such as a statement of PTX or a list of numbers"},
    {ViolationCode::unsupported_target, "unsupported_target",
     "a target that lacks the instruction or field; `expected` names those that have it"},
    {ViolationCode::too_large, "too_large", "more than bitmma supports, or than a limit of the request allows"},
    {ViolationCode::out_of_memory, "out_of_memory", "not enough memory for the request", MessageForm::statement},
    {ViolationCode::gpu_failed, "gpu_failed", "a call of the GPU's driver failed, or the GPU does not respond"},
    {ViolationCode::internal_error, "internal_error", "a fault of bitmma itself: please report it",
     MessageForm::statement},
});

static_assert(are_in_enum_order(violation_codes));

constexpr const ViolationCodeInfo& info(ViolationCode code) { return violation_codes[static_cast<size_t>(code)]; }
constexpr std::string_view print(ViolationCode code) { return info(code).name; }

struct Violation {
  ViolationCode code = ViolationCode::illegal_value;
  std::string field = {};               // the checked field, in PTX's or the file's own words
  std::string seen = {};                // the value of the field
  std::string expected = {};            // the legal values; for a warning the usual one. Empty: see `legal`
  std::vector<std::string> legal = {};  // every legal value, if there are few
  std::string fix = {};                 // how to fix it; may be empty
  std::string source = {};              // where the rule is documented; may be empty
  std::string key =
      {};  // the metadata key or tensor of a file that `field` is about, such as "d_type" or "d", or empty
  std::string file = {};  // the path of the file with which `field` begins, or empty
  Severity severity = Severity::error;

  bool operator==(const Violation&) const = default;
};

/// "a, b or c".
std::string alternatives(const std::vector<std::string>& values);
/// `expected`, or the alternatives of `legal` if it is empty. Violations of an Error have `expected` set.
std::string expected_of(const Violation& violation);
/// One line in the form of the code: "field = seen: must be ...; fix [source]", or for a warning "field = seen:
/// expected ...; fix [source]".
std::string print(const Violation& violation);

/// The same violations, all as warnings.
std::vector<Violation> as_warnings(std::vector<Violation> violations);

/// A request that cannot be carried out. Nothing was written before it is thrown.
class Error : public std::exception {
 public:
  explicit Error(Violation violation);
  explicit Error(std::vector<Violation> violations);

  const std::vector<Violation>& violations() const { return violations_; }
  /// All violations, one per line.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::vector<Violation> violations_;
  std::string text_;
};

}  // namespace bitmma
