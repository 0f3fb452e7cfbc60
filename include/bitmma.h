// SPDX-License-Identifier: MIT
// bitmma for C99 and every language that calls C: NVIDIA's matrix instructions on a CPU, bit for bit.
//
// Example: one mma.sync of an A100 on f16 codes. D comes as f32 codes, which are floats.
//
//   #include <bitmma.h>
//   #include <stdio.h>
//
//   int main(void) {
//     uint16_t a[16 * 16], b[16 * 8];
//     float d[16 * 8];
//     for (int i = 0; i < 16 * 16; ++i) a[i] = 0x3C3C;  // 1.05859375
//     for (int i = 0; i < 16 * 8; ++i) b[i] = 0x3C3C;
//     const bitmma_operands operands = {.a = {.data = a}, .b = {.data = b}};
//     bitmma_instruction* mma = NULL;
//     bitmma_status status = bitmma_instruction_parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", &mma);
//     if (status == BITMMA_OK) status = bitmma_mma(mma, "sm_80", 1, &operands, d, 1);
//     if (status == BITMMA_OK) printf("%.17g\n", d[0]);
//     else fprintf(stderr, "%s\n", bitmma_last_error());
//     bitmma_instruction_destroy(mma);
//     return status;
//   }
//
// Errors. A function that can fail returns a bitmma_status. After BITMMA_ERROR_INVALID nothing has
// changed: the function has written through no pointer, except for memory passed to a kernel that faults.
// bitmma_last_error() describes the last failure of the calling thread. No function throws. A NULL in place of a
// required pointer is such an error; the memory that a pointer points to is not checked.
//
// Ownership. The caller owns what a function returns through a `bitmma_x** x` and frees it with bitmma_x_destroy(x),
// which also accepts NULL. Only bitmma_state_borrow_array keeps a pointer from its caller.
//
// Threads. You may call all functions from several threads at once. Several threads may read one object (`const`) at
// once; while one changes or destroys it, no other may use it. A function with a parameter `threads` uses that many
// (0: all cores) and gives the same bits for any number.
//
// Text goes into the caller's memory as with snprintf: at most `size` bytes with the closing 0 are written to `text`,
// and `*length` becomes the length of all of it without that 0. `text` may be NULL with size 0, `length` may be NULL.
//
// Codes are raw bits of a bitmma_format. Each code is in the lowest bits of an element of bitmma_format_bytes bytes;
// functions ignore higher bits when they read and write them as 0.
//
// Versions. Enumerations are int32_t, regardless of the type that a compiler uses for an enum. A structure has the same
// members as long as the minor version is the same; a new member comes last, with a new minor version. The shared
// library's name contains the major and minor version, libbitmma.so.0.3, so a program never loads a library with other
// structures: recompile the program for the new one. Members that a C initialiser does not name are 0, and a new member
// of 0 keeps the older version's behaviour.
#ifndef BITMMA_H
#define BITMMA_H

#include <stddef.h>
#include <stdint.h>

#define BITMMA_VERSION_MAJOR 0
#define BITMMA_VERSION_MINOR 3
#define BITMMA_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------------------------------------------- errors, version

typedef int32_t bitmma_status;
enum {
  BITMMA_OK = 0,
  BITMMA_ERROR_INVALID = 1,   // a bad request: a value is illegal, missing or of the wrong size
  BITMMA_ERROR_MEMORY = 2,    // not enough memory. D may be partly written
  BITMMA_ERROR_INTERNAL = 3,  // a bug in this library, or no thread available. D may be partly written
};

// One problem. It prints as "field = seen: must be ...; fix [source]". Texts may be empty, never NULL.
typedef struct bitmma_violation {
  const char* field;   // the checked item, in the terms of PTX or of this header
  const char* seen;    // the value of the item
  const char* legal;   // the legal values
  const char* fix;     // how to fix it
  const char* source;  // the source of the rule
  const char* code;  // the kind of problem, for programs to compare, such as "wrong_shape"; never empty. The names are
                     // those of ViolationCode in bitmma/core/error.hpp. Sentences may change, names do not
} bitmma_violation;

// All violations of the last failure of this thread, one per line; "" before any failure. The text is valid until the
// next failure of this thread.
const char* bitmma_last_error(void);
// The same violations one by one: their number, and violation `index`; the texts stay valid equally long. If there is
// no such violation, the function returns BITMMA_ERROR_INVALID, which does not replace the recorded failure.
size_t bitmma_error_count(void);
bitmma_status bitmma_error_at(size_t index, bitmma_violation* violation);

// "0.3.0": the version of the running library. The macros are those of the header at compile time.
const char* bitmma_version(void);

// ------------------------------------------------------------------------------------------------------------ formats

// Number formats, by their PTX names. Block scales are ue8m0, ue4m3 or ue5m3.
typedef int32_t bitmma_format;
enum {
  BITMMA_F16,
  BITMMA_BF16,
  BITMMA_TF32,
  BITMMA_F32,
  BITMMA_F64,
  BITMMA_E4M3,
  BITMMA_E5M2,
  BITMMA_E2M3,
  BITMMA_E3M2,
  BITMMA_E2M1,
  BITMMA_UE8M0,
  BITMMA_UE4M3,
  BITMMA_S8,
  BITMMA_U8,
  BITMMA_S4,
  BITMMA_U4,
  BITMMA_B1,  // every non-zero byte counts as 1
  BITMMA_S32,
  BITMMA_U32,
  BITMMA_UE5M3,
  BITMMA_S1Z4M11,
};

// "e4m3"; NULL if there is no such format.
const char* bitmma_format_name(bitmma_format format);
// The format that PTX calls `name`.
bitmma_status bitmma_format_named(const char* name, bitmma_format* format);
// Bytes that hold one code: 1 for codes of up to 8 bits, else 2, 4 or 8; 0 if there is no such format.
size_t bitmma_format_bytes(bitmma_format format);

// `count` floats as codes, each rounded once to nearest even. A value that is too large becomes infinity, or NaN or
// the largest value if the format has no infinity. Integer formats take integers in their range; others are an error.
bitmma_status bitmma_from_floats(bitmma_format format, size_t count, const float* values, void* codes);
// Codes as floats: exact for formats of up to 32 bits, except s32 and u32, which are rounded like f64.
bitmma_status bitmma_to_floats(bitmma_format format, size_t count, const void* codes, float* values);

// ----------------------------------------------------------------------------------------------- functions of words

// The GPU's results for a floating-point instruction of PTX: "ex2.approx.ftz.f32", "rcp.approx.f32", "fma.rn.f32",
// "tanh.approx.bf16". Each operand of the instruction has `count` words; the others are NULL. A 16-bit code is in the
// lower half of its word. `results` may be one of the operands. `bitmma math --list` prints the names for this function
// and the three below. BITMMA_ERROR_INVALID: the name does not exist (the error lists similar names), an operand is
// missing or superfluous, or a code has more than 32 bits.
bitmma_status bitmma_math(const char* instruction, size_t count, const uint32_t* a, const uint32_t* b,
                          const uint32_t* c, uint32_t* results);
// The same with 64-bit words: for f64, "rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", and all other instructions.
bitmma_status bitmma_math_64(const char* instruction, size_t count, const uint64_t* a, const uint64_t* b,
                             const uint64_t* c, uint64_t* results);

// A conversion of PTX: "cvt.rn.satfinite.e4m3x2.f32", "cvt.rzi.s32.f32", "cvt.rs.bf16x2.f32". `operands` are
// `operand_count` arrays of `count` words, in PTX's order: a and b of a packed result, otherwise a; then the random
// bits of .rs; then the scale of .scaled. A packed source is one word. A packed result has the value of a in its
// uppermost lane; bits above a result are 0. `results` may be one of the operands.
bitmma_status bitmma_cvt(const char* instruction, size_t count, size_t operand_count, const uint64_t* const* operands,
                         uint64_t* results);

// A compiler's implementation of a C function on float: "expf@cuda_13" (nvcc 13.0), "expf@cuda_13_fast_math"
// (-use_fast_math), "tl.exp@triton_3_6"; a name without a compiler means the first compiler that has it. `b` is NULL
// unless the function has two operands, as powf and division do.
bitmma_status bitmma_c_function(const char* function, size_t count, const uint32_t* a, const uint32_t* b,
                                uint32_t* results);

// ------------------------------------------------------------------------------------------------------- instructions

// An instruction: its mnemonic, its immediates, and the fields of tcgen05's instruction descriptor.
typedef struct bitmma_instruction bitmma_instruction;

// Reads PTX: a mnemonic with all its qualifiers ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"), or a statement
// with operands, from which it takes the immediates. A statement also tells whether A is in registers or Tensor Memory;
// for a mnemonic A is in shared memory, which matters only to bitmma_execute. bitmma_instruction_check checks whether
// the numbers are legal.
bitmma_status bitmma_instruction_parse(const char* text, bitmma_instruction** instruction);
bitmma_status bitmma_instruction_copy(const bitmma_instruction* instruction, bitmma_instruction** copy);
void bitmma_instruction_destroy(bitmma_instruction* instruction);

// Sets a number that is not in the mnemonic, by its name:
//   wgmma         imm_scale_a, imm_scale_b (1 or -1), imm_trans_a, imm_trans_b, scale_d (0 or 1), sparsity_selector
//   mma.sync      sparsity_selector, byte_id_a, thread_id_a, byte_id_b, thread_id_b
//   tcgen05.mma   idesc (the 32-bit instruction descriptor: shape, types, signs, ...), enable_input_d, scale_input_d
//   tcgen05.ld    half_split_offset
// BITMMA_ERROR_INVALID: the instruction has no such number, or it is out of range.
bitmma_status bitmma_instruction_set(bitmma_instruction* instruction, const char* name, int64_t value);
bitmma_status bitmma_instruction_get(const bitmma_instruction* instruction, const char* name, int64_t* value);

// Sets shape and types of a tcgen05.mma without an instruction descriptor. k = 0 means the K of the types; sm_103a also
// has 96. If there are block scales, `scale` is their type. Any other instruction is an error, because its mnemonic has
// shape and types.
typedef struct bitmma_tcgen05 {
  int m, n, k;
  bitmma_format d, a, b, scale;
} bitmma_tcgen05;
bitmma_status bitmma_instruction_set_tcgen05(bitmma_instruction* instruction, const bitmma_tcgen05* fields);

typedef int32_t bitmma_family;
enum { BITMMA_WGMMA, BITMMA_TCGEN05_MMA, BITMMA_MMA_SYNC, BITMMA_TMEM_MOVE };

// A field of an instruction by its name: a word ("e4m3"), or a number (flags: 0 or 1) if the word is NULL.
typedef struct bitmma_named_value {
  const char* name;
  const char* word;  // NULL: use the number
  int64_t number;
} bitmma_named_value;

// The instruction of a bitmma_family with these fields: {"kind", "mxf8f6f4", 0}, {"m", NULL, 128}, {"n", NULL, 64}.
// Omitted fields follow from the others, K from the types; docs/instructions.md lists all fields.
// BITMMA_ERROR_INVALID: the family lacks a field, a value is illegal, or no target has the instruction.
bitmma_status bitmma_instruction_make(int family, const bitmma_named_value* fields, size_t count,
                                      bitmma_instruction** instruction);
// Changes these fields; fields with default values adapt. bitmma_instruction_check tells whether the result is legal.
bitmma_status bitmma_instruction_set_fields(bitmma_instruction* instruction, const bitmma_named_value* fields,
                                            size_t count);

// The mnemonic, as PTX writes it.
bitmma_status bitmma_instruction_print(const bitmma_instruction* instruction, char* text, size_t size, size_t* length);

// D[m x n] = A[m x k] * B[k x n] + C[m x n]. Moves of Tensor Memory have a family, and 0 in all other members.
typedef struct bitmma_instruction_info {
  bitmma_family family;
  int m, n, k;          // m8n8k4 of f16 stacks its four products: m = 32, k = 16
  int products;         // stacked products: 1, or 4. A is m x (k / products); product p uses rows p k / products of B
  int sparse;           // 1: A is sparse
  int stored_k;         // columns of the stored A: k / 2 if A is sparse
  int metadata_chunks;  // nibbles of metadata per row of A; 0 if A is dense
  int scale_count;      // block scales per row of A and per column of B; 0 without block scales
  bitmma_format d, a, b, c, scale;
  size_t d_bytes;  // size of one D, as bitmma_mma writes it
} bitmma_instruction_info;
bitmma_status bitmma_instruction_get_info(const bitmma_instruction* instruction, bitmma_instruction_info* info);

// Targets are GPUs by their PTX names, "sm_90a", or by their usual names: "H100", "9.0". NULL means the default target
// of the instruction, which this function returns: sm_90a for wgmma, sm_100a for tcgen05, ... The text is constant; for
// NULL the result is NULL.
const char* bitmma_instruction_target(const bitmma_instruction* instruction);
// BITMMA_OK if the target has the instruction; otherwise the error lists everything that is illegal about it.
bitmma_status bitmma_instruction_check(const bitmma_instruction* instruction, const char* target);

// The strength of the evidence for an instruction's result, strongest first.
typedef int32_t bitmma_evidence;
enum {
  BITMMA_MEASURED,            // this project compared the instruction with the GPU
  BITMMA_PUBLISHED_WORDS,     // published result words of a GPU of this target, these types and this K decide the rule
  BITMMA_MEASURED_BY_OTHERS,  // others state that they measured the rule; their words are not public
  BITMMA_CONSISTENT_WORDS,    // published words agree with the rule, but are too simple to prove it
  BITMMA_PUBLISHED_MODEL,     // a published model, or the PTX ISA, gives the rule
  BITMMA_MODEL_CHOICE,        // no source determines the rule
};
// `choices` (may be NULL) becomes the number of model choices; bitmma_choice_print describes each.
bitmma_status bitmma_instruction_evidence(const bitmma_instruction* instruction, const char* target,
                                          bitmma_evidence* evidence, size_t* choices);
bitmma_status bitmma_choice_print(const bitmma_instruction* instruction, const char* target, size_t index, char* text,
                                  size_t size, size_t* length);
// The rule by which the target adds, such as "F = 25, RZ-23, floor -133".
bitmma_status bitmma_rule_print(const bitmma_instruction* instruction, const char* target, char* text, size_t size,
                                size_t* length);

// ----------------------------------------------------------------------------------------- products of an instruction

// A matrix of each product: element (row, col) of product i is at
//   data + i * batch_stride + row * row_stride + col * col_stride            strides in bytes, of any sign
// If row_stride and col_stride are both 0, elements follow row by row without gaps; then batch_stride 0 also means no
// gaps. With other strides, batch_stride 0 means that all products read the same matrix: {b, 0, 2 * n, 2} for f16. data
// NULL: absent. Addresses need no alignment.
typedef struct bitmma_view {
  const void* data;
  int64_t batch_stride, row_stride, col_stride;
} bitmma_view;

// Shapes and formats are those in bitmma_instruction_info.
typedef struct bitmma_operands {
  bitmma_view a;         // m x (k / products). Sparse: with zeros, or m x stored_k with metadata
  bitmma_view b;         // k x n
  bitmma_view c;         // m x n of format c; absent: D = A * B
  bitmma_view scale_a;   // m x scale_count of format scale; only for instructions with block scales
  bitmma_view scale_b;   // scale_count x n
  bitmma_view metadata;  // m x metadata_chunks bytes; each holds the PTX nibble of one chunk of a sparse A
} bitmma_operands;

// D of `count` independent products, as the target computes them: m x n codes each, row by row, without gaps, one
// product after the other; count * d_bytes bytes. `d` may be the memory of C if C has the layout of D and codes of the
// same size, but not the memory of another operand. BITMMA_ERROR_INVALID: the target lacks the instruction; an operand
// is missing or superfluous; without metadata, a chunk of a sparse A has too many non-zero codes; sizes or strides do
// not fit 64 bits.
bitmma_status bitmma_mma(const bitmma_instruction* instruction, const char* target, int64_t count,
                         const bitmma_operands* operands, void* d, int threads);

// ----------------------------------------------------------------------------------------------- prepared instructions

// For emulators: the instruction is checked for a target once. A call acts on a state (bitmma_prepared_execute_state),
// or for mma.sync reads the registers of a warp, multiplies, and writes D (bitmma_prepared_execute).
//
//   bitmma_prepared* mma = NULL;
//   bitmma_status status = bitmma_prepared_create(instruction, "sm_90a", &mma);
//   const bitmma_warp_registers warp = {.a = {a, 0}, .b = {b, 0}, .c = {c, 0}};    a[32][4], b[32][2], c[32][4]
//   if (status == BITMMA_OK) status = bitmma_prepared_execute(mma, 1, &warp, d, 0);
typedef struct bitmma_prepared bitmma_prepared;

// A target of NULL is bitmma_instruction_target. BITMMA_ERROR_INVALID: the target lacks the instruction. A
// prepared instruction does not change if the instruction does.
bitmma_status bitmma_prepared_create(const bitmma_instruction* instruction, const char* target,
                                     bitmma_prepared** prepared);
void bitmma_prepared_destroy(bitmma_prepared* prepared);

// 32-bit words of all lanes per product; 0: the instruction does not have the operand, or is neither mma.sync nor
// mma.sp. A register of f64 has two words, the low one first.
typedef struct bitmma_warp_words {
  int32_t a, b, c, metadata, scale_a, scale_b, d;
} bitmma_warp_words;
bitmma_status bitmma_prepared_get_words(const bitmma_prepared* prepared, bitmma_warp_words* words);

// The registers of lane 0, then those of lane 1, and so on. Those of product i begin at words + i * stride; with stride
// 0 all products share them.
typedef struct bitmma_registers {
  const uint32_t* words;
  int64_t stride;  // in words
} bitmma_registers;
// An operand that the instruction does not have is NULL.
typedef struct bitmma_warp_registers {
  bitmma_registers a, b, c, metadata, scale_a, scale_b;
} bitmma_warp_registers;

// `count` products, as bitmma_execute computes them. D of product i begins at d + i * d_stride, may be the memory of C,
// and is written before product i + 1 reads its registers: if C and D are the same memory and both strides are 0, the
// products are a chain over K. BITMMA_ERROR_INVALID: an operand is missing or superfluous, count is negative,
// or the instruction is neither mma.sync nor mma.sp.
bitmma_status bitmma_prepared_execute(const bitmma_prepared* prepared, int64_t count,
                                      const bitmma_warp_registers* registers, uint32_t* d, int64_t d_stride);

// -------------------------------------------------------------------------------------------------- machines' state

// The buffers that an instruction reads and writes, by their names in docs/vectors.md: "smem", "tmem", "a_desc",
// "a_regs", "c_regs", ... Each is a number or an array. For emulators: bitmma_execute decodes descriptors, reads shared
// memory, takes fragments from registers, multiplies, and writes D where the instruction writes it.
typedef struct bitmma_state bitmma_state;

bitmma_status bitmma_state_create(bitmma_state** state);
bitmma_status bitmma_state_copy(const bitmma_state* state, bitmma_state** copy);
void bitmma_state_destroy(bitmma_state* state);

// One buffer of an instruction.
typedef struct bitmma_field {
  const char* name;        // the name before the instruction
  const char* name_after;  // of what it leaves, "d_regs"; NULL where it only reads
  int is_number;           // 1: one number; 0: an array
  int is_read, is_written;
  int is_required;       // 0: it may be missing
  size_t element_bytes;  // 1, 4 or 8
  size_t rank;           // number of extents of an array; the first extent varies slowest
  int64_t extents[4];    // -1: any positive number
} bitmma_field;
bitmma_status bitmma_instruction_field_count(const bitmma_instruction* instruction, size_t* count);
bitmma_status bitmma_instruction_field_at(const bitmma_instruction* instruction, size_t index, bitmma_field* field);

// Sets a number: a descriptor, an address, a warp.
bitmma_status bitmma_state_set_number(bitmma_state* state, const char* field, uint64_t number);
// Sets an array of elements of `element_bytes` bytes: 1 for smem, 8 for registers of f64, otherwise 4. `rank` is at
// most 4. The function copies the elements.
bitmma_status bitmma_state_set_array(bitmma_state* state, const char* field, const void* elements, size_t element_bytes,
                                     size_t rank, const int64_t* extents);
// The same without a copy: `elements` must exist unchanged as long as the state is read. They are aligned to 4 bytes
// (smem to any address). The library never writes them: an instruction that writes the field first makes a copy.
bitmma_status bitmma_state_borrow_array(bitmma_state* state, const char* field, const void* elements,
                                        size_t element_bytes, size_t rank, const int64_t* extents);
bitmma_status bitmma_state_erase(bitmma_state* state, const char* field);

// An array of a state. `elements` is valid until the state changes or is destroyed; 8-byte elements may be aligned to
// only 4 bytes.
typedef struct bitmma_array {
  const void* elements;
  size_t element_bytes;
  size_t rank;
  int64_t extents[4];
} bitmma_array;
// Reads an array by its name before or after an instruction: "c_regs" and "d_regs" share one buffer (latest values).
bitmma_status bitmma_state_get_array(const bitmma_state* state, const char* field, bitmma_array* array);
bitmma_status bitmma_state_get_number(const bitmma_state* state, const char* field, uint64_t* number);

// Runs the instruction on the state. BITMMA_ERROR_INVALID, with the state unchanged: the target lacks the instruction,
// a buffer is missing or has the wrong size, or an operand is outside its memory.
bitmma_status bitmma_execute(const bitmma_instruction* instruction, const char* target, bitmma_state* state);
// The same by a prepared instruction of any family. The instruction is not checked again; the state is.
bitmma_status bitmma_prepared_execute_state(const bitmma_prepared* prepared, bitmma_state* state);

// ------------------------------------------------------------------------------------------------------ whole products

// How a library sums along K: instructions, additions between them, the epilogue. docs/products.md has its JSON.
typedef struct bitmma_plan bitmma_plan;
// A list of plans.
typedef struct bitmma_plans bitmma_plans;

bitmma_status bitmma_plan_parse(const char* json, bitmma_plan** plan);
// One chain over K with the target's instruction for these types, and nothing else. target NULL means sm_90a.
bitmma_status bitmma_plan_flat(const char* target, bitmma_format a, bitmma_format b, bitmma_format output,
                               bitmma_plan** plan);
void bitmma_plan_destroy(bitmma_plan* plan);
// Print the plan: as JSON, and in a few words.
bitmma_status bitmma_plan_print_json(const bitmma_plan* plan, char* text, size_t size, size_t* length);
bitmma_status bitmma_plan_print(const bitmma_plan* plan, char* text, size_t size, size_t* length);
// The format of D.
bitmma_status bitmma_plan_output(const bitmma_plan* plan, bitmma_format* output);

// A matrix with a shape. Element (row, col) is at data + row * row_stride + col * col_stride, in bytes; if both strides
// are 0, elements follow row by row without gaps. data NULL: absent.
typedef struct bitmma_matrix {
  const void* data;
  bitmma_format format;
  int64_t rows, cols;
  int64_t row_stride, col_stride;
} bitmma_matrix;

typedef struct bitmma_gemm_inputs {
  bitmma_matrix a;     // M x K; f32 words for tf32
  bitmma_matrix b;     // K x N
  bitmma_matrix c;     // M x N: f32, f16 or bf16
  bitmma_matrix bias;  // 1 x N
  // f32. A: 1 x 1, M x 1 or M x blocks of K; B: 1 x 1, 1 x N, blocks x N or blocks x blocks of 128 columns.
  bitmma_matrix scale_a, scale_b;
  // Block scales of the instruction: M x K / size and K / size x N.
  bitmma_matrix sfa, sfb;
  // For a part of a larger product: the indices of its rows (M numbers) and columns (N numbers), or NULL; and the size
  // of the whole product, or 0. Plans whose output tiles differ need them.
  const int64_t *row_numbers, *col_numbers;
  int64_t whole_m, whole_n;
} bitmma_gemm_inputs;

// D: M x N codes of the plan's output, row by row without gaps. BITMMA_ERROR_INVALID lists all problems of shapes,
// formats and the plan, and every argument that the plan does not read.
bitmma_status bitmma_gemm(const bitmma_plan* plan, const bitmma_gemm_inputs* inputs, void* d, int threads);

// The parameters of a library call. NULL means the defaults, {NULL, 0, 1, 1, 0}; alpha and beta both 0, as in
// {.split_count = 4}, mean 1 and 1.
typedef struct bitmma_call {
  const char*
      target;       // NULL: that of the catalogue's row, or sm_90a; if it lacks the types, the first target with them
  int split_count;  // slices of K; 0: unknown, so the result has a plan for every possible number
  float alpha, beta;
  int relu;  // 1: apply relu at the end
} bitmma_call;

// The plans of a name in the catalogue ("nvjet-algo2"), or of a kernel name as profilers print it. Types, scales, bias
// and C come from the inputs. The name may also be a plan as JSON, or NULL: one chain over K. f32 (tf32) operands need
// a name, because libraries multiply them in three ways: "sgemm", "xmma-tf32" and "flat". A kernel name contains types:
// operands or an output of other types are an error.
bitmma_status bitmma_plans_named(const char* name, const bitmma_gemm_inputs* inputs, bitmma_format output,
                                 const bitmma_call* call, bitmma_plans** plans);
bitmma_status bitmma_plans_of_kernel(const char* kernel, const bitmma_gemm_inputs* inputs, bitmma_format output,
                                     const bitmma_call* call, bitmma_plans** plans);
// The plans that reproduce all bits of a recorded D: measured families first, and among them the simplest first. There
// may be none. The search takes seconds, or minutes for a large D.
bitmma_status bitmma_find_plans(const bitmma_gemm_inputs* inputs, const bitmma_matrix* d, const bitmma_call* call,
                                int threads, bitmma_plans** plans);
// The search calls this function before each plan with the number of plans tried and the number known so far; from any
// thread, one call at a time, in IEEE 754's default floating-point environment. A non-zero result ends the search.
typedef int (*bitmma_search_progress)(int64_t tried, int64_t of, void* context);
// The same, but ends after timeout_s seconds (0: never) or when progress (may be NULL) returns non-zero. *complete (may
// be NULL) becomes 1 if the search tried all plans.
bitmma_status bitmma_find_plans_until(const bitmma_gemm_inputs* inputs, const bitmma_matrix* d, const bitmma_call* call,
                                      int threads, double timeout_s, bitmma_search_progress progress, void* context,
                                      bitmma_plans** plans, int* complete);
// Names of the catalogue; NULL after the last one.
const char* bitmma_catalogue_name(size_t index);

// The number of plans, 0 for NULL; plan `index`, owned by `plans`, or NULL.
size_t bitmma_plans_count(const bitmma_plans* plans);
const bitmma_plan* bitmma_plans_at(const bitmma_plans* plans, size_t index);
void bitmma_plans_destroy(bitmma_plans* plans);

// ---------------------------------------------------------------------------------------------------------- quantisers

// The names of the recipes by which libraries quantise a matrix, such as "te_nvfp4"; NULL after the last one. `bitmma
// list recipes` describes each recipe.
const char* bitmma_recipe_name(size_t index);

// The results of a recipe for a matrix of rows x cols.
typedef struct bitmma_quantized_info {
  bitmma_format element, scale;
  int64_t block_rows, block_cols;  // elements that share a scale
  int64_t scale_rows, scale_cols;  // one scale per block
  int has_tensor_scale;            // 1: a second scale, for the whole matrix
  int depends_on_torch_device;     // 1: PyTorch divides differently on a CPU
} bitmma_quantized_info;
bitmma_status bitmma_quantize_get_info(const char* recipe, int64_t rows, int64_t cols, bitmma_quantized_info* info);

// Writes `codes`, rows x cols of the element format, and `scales`, both row by row without gaps, and `tensor_scale`,
// which is NULL if the recipe has none. x: f32, f16 or bf16. torch_device: "cuda" or "cpu" for a recipe that depends on
// it; NULL: cuda. BITMMA_ERROR_INVALID: the recipe does not support the format or shape; x has infinity or NaN; or the
// library's arithmetic gives a NaN that the element format cannot hold.
bitmma_status bitmma_quantize(const char* recipe, const bitmma_matrix* x, const char* torch_device, int threads,
                              void* codes, void* scales, float* tensor_scale);

// ---------------------------------------------------------------------------------------------------------- operators
//
// The operators of PyTorch 2.11, as an H100 or H200 computes them eagerly; docs/operators.md lists what was compared.
// x: f32, f16 or bf16, a whole matrix, whose memory on the GPU begins at a multiple of 16 bytes. Results are written
// row by row without gaps, in the type of x unless stated. They may not overlap an operand. BITMMA_ERROR_INVALID: a
// type, a shape or a name that the operator does not take.

typedef struct bitmma_attention_call {
  int64_t heads;     // of Q, those of all sequences of a batch; 0: 1
  int64_t kv_heads;  // of K and V, a divisor of heads; 0: as many as heads
  // "flash", FlashAttention-2; "efficient", "cudnn" or "cudnn_sm80", which have no window and no splits. NULL: flash
  const char* backend;
  int causal;                     // 1: query i sees the keys up to i + keys - queries; with efficient and cudnn up to i
  int has_window;                 // 1: the next two apply
  int window_left, window_right;  // keys that a query sees before and after its own; -1: all
  int splits;                     // parts of the keys; 0: the library's choice
  float scale;                    // of the scores; 0: 1 / sqrt(head size)
} bitmma_attention_call;
// softmax(Q K^T * scale) V of each head. q: heads * queries x head size, f16 or bf16, of efficient also f32. k and
// v: kv_heads * keys x head size, of the same type. call NULL means all zeros. `lse` (may be NULL) gets heads x queries
// logarithms of the sum of exp(score * scale).
bitmma_status bitmma_attention(const bitmma_matrix* q, const bitmma_matrix* k, const bitmma_matrix* v,
                               const bitmma_attention_call* call, int threads, void* out, float* lse);

// softmax, or with `logarithm` log_softmax, over the columns. `to`: the type of the result, that of x or f32.
bitmma_status bitmma_softmax(const bitmma_matrix* x, bitmma_format to, int logarithm, int threads, void* out);

// Norms over the columns. weight and bias: 1 x columns, of the type of x, or NULL. mean and rstd get a number for each
// row, or are NULL.
bitmma_status bitmma_layer_norm(const bitmma_matrix* x, const bitmma_matrix* weight, const bitmma_matrix* bias,
                                float eps, int threads, void* out, float* mean, float* rstd);
bitmma_status bitmma_rms_norm(const bitmma_matrix* x, const bitmma_matrix* weight, float eps, int threads, void* out,
                              float* rstd);

// "sum", "mean", "amax" or "argmax" of each row, or with `over_rows` of each column. `to`: the type of the result: that
// of x, for sums and means also f32; argmax writes int32_t, and `to` is BITMMA_S32.
bitmma_status bitmma_reduce(const char* reduction, const bitmma_matrix* x, bitmma_format to, int over_rows, int threads,
                            void* out);

// A function of each element, "exp", "silu", "add". y has the shape and type of x for functions of two; NULL otherwise.
bitmma_status bitmma_elementwise(const char* function, const bitmma_matrix* x, const bitmma_matrix* y, int threads,
                                 void* out);
// The names of these functions; NULL after the last one.
const char* bitmma_elementwise_name(size_t index);

// ------------------------------------------------------------------------------------------------------ whole kernels
//
// Example: a kernel of two parameters, an array and a number, on 4 blocks of 128 threads.
//
//   bitmma_kernel* kernel = NULL;
//   bitmma_status status = bitmma_kernel_create(ptx, NULL, &kernel);
//   const uint32_t count = 500;
//   const bitmma_kernel_argument arguments[] = {{.memory = x, .memory_bytes = sizeof x}, {.value = &count}};
//   const bitmma_launch launch = {.grid = {4}, .block = {128}, .arguments = arguments, .argument_count = 2};
//   if (status == BITMMA_OK) status = bitmma_kernel_launch(kernel, &launch, NULL);
//   bitmma_kernel_destroy(kernel);

typedef struct bitmma_kernel bitmma_kernel;

typedef struct bitmma_kernel_options {
  const char* entry;   // NULL: the only one of the module
  const char* target;  // NULL: the module's .target
  const char* sass;    // output of nvdisasm -gp for the cubin of ptxas -lineinfo; NULL: rules decide what ptxas joins
  int no_fmad;         // 1: as ptxas -fmad=false
} bitmma_kernel_options;
// Reads a module of PTX and decodes one entry. options NULL means all zeros. BITMMA_ERROR_INVALID: the text is not PTX,
// or the library does not support some of its instructions; the error gives the line of each.
bitmma_status bitmma_kernel_create(const char* ptx, const bitmma_kernel_options* options, bitmma_kernel** kernel);
void bitmma_kernel_destroy(bitmma_kernel* kernel);

size_t bitmma_kernel_parameter_count(const bitmma_kernel* kernel);
// The size of a parameter in bytes, 0 if there is no such parameter.
size_t bitmma_kernel_parameter_bytes(const bitmma_kernel* kernel, size_t index);
// The static shared memory of a block in bytes.
int64_t bitmma_kernel_shared_bytes(const bitmma_kernel* kernel);
// The places where the result's bits are uncertain, one per line; empty if there are none.
bitmma_status bitmma_kernel_warnings(const bitmma_kernel* kernel, char* text, size_t size, size_t* length);

// The arguments of cuTensorMapEncodeTiled, the innermost dimension first.
typedef struct bitmma_tensor_map {
  int rank, element_bytes;
  int64_t sizes[5], strides_bytes[4], box[5];
  int64_t element_strides[5];  // 0 means 1
  int swizzle_bytes;           // 0, 32, 64 or 128
  int fills_with_nan;
} bitmma_tensor_map;

// The argument for a parameter: a number, or memory, whose address the parameter becomes.
typedef struct bitmma_kernel_argument {
  const void* value;  // as many bytes as the parameter has; NULL: memory
  void* memory;       // read and written in place. The same memory has the same addresses in all arguments
  int64_t memory_bytes;
  int64_t offset_bytes;          // from the start of the memory to the address
  int is_unwritten;              // 1: reading it before the kernel writes it is a fault
  const bitmma_tensor_map* map;  // over the memory: the parameter is this map
} bitmma_kernel_argument;

// What happens at accesses to a byte of shared memory that no barrier orders, of which at least one writes.
typedef int32_t bitmma_races;
enum { BITMMA_RACES_ARE_FAULTS = 0, BITMMA_RACES_ARE_WARNINGS = 1, BITMMA_RACES_OFF = 2 };

typedef struct bitmma_launch {
  int64_t grid[3], block[3];  // 0 means 1
  int64_t cluster[3];         // blocks of a cluster; all 0: from the kernel's .reqnctapercluster, or 1
  int64_t dynamic_shared_bytes;
  const bitmma_kernel_argument* arguments;
  size_t argument_count;
  int threads;                   // host threads; 0: all cores
  int no_checks;                 // 1: do not check for reads of unwritten memory and for races
  struct bitmma_memory* memory;  // the global memory, below; NULL: that of the arguments and the module's variables
  // In place of arguments: the bytes of all parameters, each at its offset. Pointers in them, also in structures, are
  // addresses of the memory, and tensor maps those of bitmma_tensor_map_encode.
  const void* parameters;
  size_t parameter_bytes;
  bitmma_races races;
  // What PTX leaves undefined and the launch did, races that are no faults among it: one per line, zero-terminated and
  // cut to warnings_size; empty if there is nothing. NULL and 0: not wanted.
  char* warnings;
  size_t warnings_size;
  size_t* warnings_length;  // without the final zero; may be NULL
  int cooperative;          // 1: all blocks run together, as cuLaunchCooperativeKernel: they may wait for each other
} bitmma_launch;
// Runs the grid. BITMMA_ERROR_INVALID: wrong arguments, or an error of the kernel, with its block, thread and line of
// the PTX. Memory is then as the kernel left it. thread_instructions may be NULL.
bitmma_status bitmma_kernel_launch(const bitmma_kernel* kernel, const bitmma_launch* launch,
                                   uint64_t* thread_instructions);

// ----------------------------------------------------------------------------- several launches over one memory
//
// A module is parsed once, and its variables last over launches, as the memory does.
//
//   bitmma_module_create(ptx, &module);
//   bitmma_kernel_of_module(module, &(bitmma_kernel_options){.entry = "add"}, &kernel);
//   bitmma_memory_create(&memory);
//   bitmma_memory_allocate(memory, 4096, &x);
//   bitmma_memory_write(memory, x, values, sizeof values);
//   const struct { uint64_t x; uint32_t count; } parameters = {x, 1000};
//   bitmma_kernel_launch(kernel, &(bitmma_launch){.grid = {4}, .block = {256}, .memory = memory,
//                                                 .parameters = &parameters, .parameter_bytes = 12}, NULL);

typedef struct bitmma_module bitmma_module;
typedef struct bitmma_memory bitmma_memory;

bitmma_status bitmma_module_create(const char* ptx, bitmma_module** module);
void bitmma_module_destroy(bitmma_module* module);  // kernels of it stay
// The names of its entries; NULL after the last one. Valid as long as the module.
const char* bitmma_module_entry(const bitmma_module* module, size_t index);
bitmma_status bitmma_kernel_of_module(const bitmma_module* module, const bitmma_kernel_options* options,
                                      bitmma_kernel** kernel);
// Where a parameter begins in the bytes of all parameters, and how many these are. 0 if there is no such parameter.
size_t bitmma_kernel_parameter_offset(const bitmma_kernel* kernel, size_t index);
size_t bitmma_kernel_all_parameter_bytes(const bitmma_kernel* kernel);

// Global memory: allocations at addresses, with the state of each byte: reading a byte that neither a kernel nor the
// host has written is a fault. One launch at a time may use a memory.
bitmma_status bitmma_memory_create(bitmma_memory** memory);
void bitmma_memory_destroy(bitmma_memory* memory);
// At a multiple of 512, as cudaMalloc does.
bitmma_status bitmma_memory_allocate(bitmma_memory* memory, int64_t bytes, uint64_t* address);
// At an address that the caller chooses. BITMMA_ERROR_INVALID: something is in the way.
bitmma_status bitmma_memory_allocate_at(bitmma_memory* memory, uint64_t address, int64_t bytes);
// Memory of the caller, which kernels read and write in place, at an address that may be its own.
bitmma_status bitmma_memory_map(bitmma_memory* memory, uint64_t address, void* data, int64_t bytes, int is_unwritten);
bitmma_status bitmma_memory_free(bitmma_memory* memory, uint64_t address);
bitmma_status bitmma_memory_write(bitmma_memory* memory, uint64_t address, const void* data, int64_t bytes);
bitmma_status bitmma_memory_read(const bitmma_memory* memory, uint64_t address, void* data, int64_t bytes);
// A variable of a module in .global or .const memory, with its initial bytes at first. The pointers may be NULL; data
// is the variable's bytes on the host, which the host may write.
bitmma_status bitmma_memory_variable(bitmma_memory* memory, const bitmma_module* module, const char* name,
                                     uint64_t* address, int64_t* bytes, void** data);
// The map of a tensor at an address of a memory, for parameters or for memory.
bitmma_status bitmma_tensor_map_encode(const bitmma_tensor_map* map, uint64_t address, uint8_t encoded[128]);

#ifdef __cplusplus
}
#endif

#endif
