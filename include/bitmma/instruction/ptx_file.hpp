// SPDX-License-Identifier: MIT
// Extracts the tensor-core statements, with their lines, from PTX text as compilers print it.
//
//   {                                          // a scope, and a comment
//   .reg .pred p;
//   @%p1 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
//     {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, 1, 0, 0;     line 3: one statement, whose braces are a vector
//   }
//
// Directives, labels, comments, scopes and all other statements are skipped. Time and memory are proportional to the
// text. The scanner rejects nothing; parse_statement checks the statements.
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

struct [[nodiscard]] PtxFile {
  std::string version = {};  // of the first .version directive: "8.7"; empty in a file without one
  std::string target = {};   // of the first .target directive: "sm_90a"
  std::vector<PtxStatement> statements = {};
  /// Registers that one mov of a number without a guard writes and no other statement does, with the number: "%r48",
  /// 134414352. A name that several functions of a file write is left out.
  std::map<std::string, int64_t, std::less<>> constants = {};

  bool operator==(const PtxFile&) const = default;
};

/// Reads a whole module, or a part of one.
PtxFile scan_ptx(std::string_view text);

/// The PTX in the asm statements of CUDA C++: the text of their strings, with every statement in the line where it
/// starts. Operands are %0, %1 ...; macros between the strings are not expanded.
struct CudaAsm {
  std::string ptx = {};
  std::size_t statements = 0;  // number of asm ( ... )
};
CudaAsm asm_of_cuda(std::string_view text);

/// Like parse_statement, for statements that will be read but not run: byte and thread ids of scales may be registers,
/// as in CUTLASS. Their numbers are known only at run time, and are 0 in the instruction.
Statement parse_ptx_statement(std::string_view text);

}  // namespace bitmma
