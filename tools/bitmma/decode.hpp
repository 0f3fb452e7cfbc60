// The parts of `decode`: words in decode.cpp, PTX in decode_ptx.cpp.
#pragma once

#include <string>
#include <vector>

#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {

struct DecodeFlags {
  std::vector<std::string> texts;
  TargetFlag target;
  std::string major, kind;
  bool json = false, mask = false;
  int m = 128, n = 256;
};

/// "M = 128, N = 64; D f32, A f16, B f16; A K-major, B K-major".
std::string print_shape_and_types(const InstructionDescriptor& descriptor);

/// A mnemonic, a statement, or several: prints what each says, or adds it to `json`. Throws Error for one that is
/// illegal or not known.
void decode_ptx(Context& context, const DecodeFlags& flags, const std::string& text, Json& json);

/// The statements about tensor cores of a file of PTX. What is illegal or not known is said in its place, and makes the
/// exit code 1. Throws Error when the file cannot be read.
void decode_ptx_file(Context& context, const DecodeFlags& flags, const std::string& path, Json& json);

}  // namespace bitmma::cli
