// SPDX-License-Identifier: MIT
// Start here: one include for everything that most programs need.
//
//   using namespace bitmma;
//   const Instruction mma = wgmma({.n = 8, .d = Format::f32, .a = Format::f16, .b = Format::f16});   K = 16 follows
//   const Matrix d = multiply(mma, from_floats(Format::f16, 64, 16, a), from_floats(Format::f16, 16, 8, b));
//   for (const float value : to_floats(d)) ...
//
// Start from what you have:
//   two matrices        multiply(instruction, a, b), multiply_batch           the plain product, bit for bit
//   a machine's state   execute(instruction, target, state)               descriptors, images, registers, Tensor Memory
//   PTX text            parse_instruction, parse_statement, print         mnemonics; statements with operands
//                       scan_ptx, parse_support_instruction     .ptx files; alloc, fence, wait
//                       parse_cutlass_atom                      CUTLASS names
//   a descriptor        decode_smem_descriptor, decode_instruction_descriptor, encode, meaning_of
//   a layout            descriptors_of, plan_tmem               descriptors of the layout; a plan of Tensor Memory
//   an instruction      wgmma, mma_sync, tcgen05, tmem_move; require_legal, violations_of, all_instructions
//   a result            evidence_of, choices_of                           how sure it is
//   a vector file       read_vector_file, case_at, verify, compare, write_golden
//   wrong bits          explain, diagnose, lint (bitmma/analysis)
//   one word            parse_math_instruction, parse_cvt, parse_c_function, compute    ex2, fma, cvt, expf of the GPU
//   an operand          recipe_named, quantize                            fp8 and fp4 with scales, as libraries do
//   a whole product     parse_plan, flat_plan, gemm, find_plans; read_product_file   with the bits of a library
//
// Every function that takes data checks it and throws Error, which holds all violations. All functions may be called
// from many threads at once. The only process-wide state is the choice of a CPU instruction set
// (bitmma/arithmetic/cpu_target.hpp); the library installs no signal handlers.
#pragma once

#include "bitmma/acts/product_file.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/descriptor/descriptor_meaning.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/files/tiling.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/formats/matrix.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "bitmma/gemm/library_choice.hpp"
#include "bitmma/gemm/plan.hpp"
#include "bitmma/instruction/batch.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/prepared.hpp"
#include "bitmma/instruction/ptx_file.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/instruction/support_instruction.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/evidence.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/memory/layout_descriptor.hpp"
#include "bitmma/memory/map.hpp"
#include "bitmma/memory/tmem_plan.hpp"
#include "bitmma/operators/c_function.hpp"
#include "bitmma/operators/quantize.hpp"
