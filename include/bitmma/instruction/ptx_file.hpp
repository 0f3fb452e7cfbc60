// SPDX-License-Identifier: MIT
// PTX text as compilers print it -> the statements about tensor cores, with their lines.
//
//   {                                          // a scope, and a comment
//   .reg .pred p;
//   @%p1 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
//     {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, 1, 0, 0;     line 3: one statement, whose braces are a vector
//   }
//
// Directives, labels, comments, scopes and all other statements are passed over. Reading takes time and memory in
// proportion to the text, whatever it is, and refuses nothing: what a statement says is for parse_statement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/instruction/statement.hpp"

namespace bitmma {

struct PtxStatement {
  std::size_t line = 1;   // of its first word; the first line is 1
  std::string text = {};  // without comments, line breaks, a label and the semicolon

  bool operator==(const PtxStatement&) const = default;
};

struct PtxFile {
  std::string version = {};  // of the first .version directive: "8.7"; empty in a file without one
  std::string target = {};   // of the first .target directive: "sm_90a"
  std::vector<PtxStatement> statements = {};
  /// Registers that one statement writes, a mov of a number without a guard, with the number: "%r48", 134414352. What
  /// several functions of a file write under one name is none.
  std::map<std::string, int64_t, std::less<>> constants = {};

  bool operator==(const PtxFile&) const = default;
};

/// Reads a whole module, or a piece of one.
PtxFile scan_ptx(std::string_view text);

/// The PTX in the asm statements of CUDA C++: the text of their strings, every statement in the line where it begins.
/// Operands are written %0, %1 ...; macros between the strings are not expanded.
struct CudaAsm {
  std::string ptx = {};
  std::size_t statements = 0;  // asm ( ... )
};
CudaAsm asm_of_cuda(std::string_view text);

/// As parse_statement, for statements that are to be read and not run: byte and thread ids of scales may be registers,
/// as CUTLASS passes them. Their numbers are known at run time only, and stay 0 in the instruction.
Statement parse_ptx_statement(std::string_view text);

}  // namespace bitmma
