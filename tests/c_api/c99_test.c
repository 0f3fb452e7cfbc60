// A program in C99 over bitmma.h: results of a real H200, known words, errors, threads. It is linked with the shared
// library and with the static one. Bits are equal or not.
//
//   c99_test DATA_FOLDER                 in the floating-point environment that a program starts with
//   c99_test DATA_FOLDER environments    once more in each of eight others, which every call must leave as it is
#include <bitmma.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* data_folder;
static int failures = 0;

// ------------------------------------------------------------------------------------- floating-point environments

// MXCSR and x87's control word: traps masked, round to nearest.
typedef struct {
  unsigned sse;
  uint16_t x87;
} environment_t;
static const environment_t usual = {0x1F80, 0x037F};
static environment_t environment = {0x1F80, 0x037F};
#if defined(__x86_64__)
static const environment_t environments[] = {
    {0x9F80, 0x037F},  // flush to zero
    {0x1FC0, 0x037F},  // denormals are zero
    {0x9FC0, 0x037F},  // both
    {0x3F80, 0x077F},  // downward
    {0x5F80, 0x0B7F},  // upward
    {0x7F80, 0x0F7F},  // toward zero
    {0x1F80, 0x007F},  // x87 of 24 bits
    {0x0000, 0x0340},  // all exceptions unmasked
};
static void use(environment_t wanted) {
  environment = wanted;
  __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(wanted.x87));
  __builtin_ia32_ldmxcsr(wanted.sse);
}
// The six flags of MXCSR that say what happened do not count.
static int is_kept(void) {
  uint16_t x87 = 0;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  return (__builtin_ia32_stmxcsr() & ~0x3Fu) == (environment.sse & ~0x3Fu) && x87 == environment.x87;
}
#else
static const environment_t environments[] = {{0x1F80, 0x037F}};
static void use(environment_t wanted) { environment = wanted; }
static int is_kept(void) { return 1; }
#endif

static void check(int holds, const char* what, int line) {
  if (!is_kept()) {
    fprintf(stderr, "line %d: the environment is not that of MXCSR 0x%x after %s\n", line, environment.sse, what);
    ++failures;
    use(environment);
  }
  if (holds) return;
  fprintf(stderr, "line %d: not true: %s\n  last error: %s\n", line, what, bitmma_last_error());
  ++failures;
}
#define CHECK(condition) check((condition), #condition, __LINE__)
#define CHECK_OK(call) check((call) == BITMMA_OK, #call, __LINE__)
#define CHECK_INVALID(call, text) \
  check((call) == BITMMA_ERROR_INVALID && strstr(bitmma_last_error(), (text)) != NULL, #call " says " text, __LINE__)

// ------------------------------------------------------------------------------------------- a reader of safetensors

// A file: 8 bytes with the length of its JSON, the JSON, the data.
typedef struct {
  char* bytes;
  char* json;
  char* data;
} file_t;

static file_t read_file(const char* name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", data_folder, name);
  FILE* stream = fopen(path, "rb");
  if (!stream) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  fseek(stream, 0, SEEK_END);
  const long size = ftell(stream);
  rewind(stream);
  file_t file;
  file.bytes = malloc((size_t)size);
  if (!file.bytes || fread(file.bytes, 1, (size_t)size, stream) != (size_t)size) exit(1);
  fclose(stream);
  uint64_t length;
  memcpy(&length, file.bytes, sizeof length);
  file.data = file.bytes + 8 + length;
  file.json = malloc((size_t)length + 1);
  if (!file.json) exit(1);
  memcpy(file.json, file.bytes + 8, (size_t)length);
  file.json[length] = '\0';
  return file;
}

static void free_file(file_t* file) {
  free(file->bytes);
  free(file->json);
}

static const char* tensor(const file_t* file, const char* name) {
  char key[64];
  snprintf(key, sizeof key, "\"%s\"", name);
  for (const char* at = file->json; (at = strstr(at, key)) != NULL; ++at) {
    const char* rest = at + strlen(key);
    while (*rest == ':' || *rest == ' ') ++rest;
    if (*rest != '{') continue;
    return file->data + strtoll(strchr(strstr(rest, "data_offsets"), '[') + 1, NULL, 10);
  }
  fprintf(stderr, "no tensor %s\n", name);
  exit(1);
}

// ---------------------------------------------------------------------------------------------------------- fragments

// Half `half` of register `reg` of lane `lane` of A of m16n8k16, and of B, whose registers go on for k = 32: PTX ISA,
// matrix fragments for mma.m16n8k16 with floating point type.
static int a_index(int lane, int reg, int half) {
  return (lane / 4 + 8 * (reg & 1)) * 16 + 2 * (lane % 4) + 8 * (reg >> 1) + half;
}
static int b_index(int lane, int reg, int half) { return (2 * (lane % 4) + 8 * reg + half) * 8 + lane / 4; }
static int d_index(int lane, int reg) { return (lane / 4 + 8 * (reg >> 1)) * 8 + 2 * (lane % 4) + (reg & 1); }

static const char* const warp_mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";

static void test_mma_sync_of_an_h200(void) {
  enum { cases = 9 };
  file_t file = read_file("golden/sm_90a/mma_sync/mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32.safetensors");
  const uint16_t *a_regs = (const uint16_t*)tensor(&file, "a_regs"), *b_regs = (const uint16_t*)tensor(&file, "b_regs");
  const uint32_t *c_regs = (const uint32_t*)tensor(&file, "c_regs"), *d_regs = (const uint32_t*)tensor(&file, "d_regs");
  static uint16_t a[cases][16 * 16], b[cases][16 * 8];
  static uint32_t c[cases][16 * 8], d[cases][16 * 8], expected[cases][16 * 8];
  for (int i = 0; i < cases; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int reg = 0; reg < 4; ++reg) {
        for (int half = 0; half < 2; ++half)
          a[i][a_index(lane, reg, half)] = a_regs[((i * 32 + lane) * 4 + reg) * 2 + half];
        c[i][d_index(lane, reg)] = c_regs[(i * 32 + lane) * 4 + reg];
        expected[i][d_index(lane, reg)] = d_regs[(i * 32 + lane) * 4 + reg];
      }
      for (int reg = 0; reg < 2; ++reg) {
        for (int half = 0; half < 2; ++half)
          b[i][b_index(lane, reg, half)] = b_regs[((i * 32 + lane) * 2 + reg) * 2 + half];
      }
    }
  }
  bitmma_instruction* mma = NULL;
  CHECK_OK(bitmma_instruction_parse(warp_mma, &mma));
  bitmma_operands operands = {.a = {.data = a}, .b = {.data = b}, .c = {.data = c}};
  for (int threads = 0; threads <= 3; ++threads) {
    memset(d, 0xAB, sizeof d);
    CHECK_OK(bitmma_mma(mma, "sm_90a", cases, &operands, d, threads));
    CHECK(memcmp(d, expected, sizeof d) == 0);
  }

  // The same from columns of B, every operand with strides of its own.
  static uint16_t b_transposed[cases][8 * 16];
  for (int i = 0; i < cases; ++i) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n) b_transposed[i][n * 16 + k] = b[i][k * 8 + n];
    }
  }
  operands.b = (bitmma_view){b_transposed, sizeof b_transposed[0], 2, 32};
  memset(d, 0xAB, sizeof d);
  CHECK_OK(bitmma_mma(mma, "sm_90", cases, &operands, d, 1));
  CHECK(memcmp(d, expected, sizeof d) == 0);

  // All products read the first B; D takes the place of C.
  operands.b = (bitmma_view){b, 0, 16, 2};
  memcpy(d, c, sizeof d);
  operands.c = (bitmma_view){.data = d};
  CHECK_OK(bitmma_mma(mma, NULL, cases, &operands, d, 2));
  CHECK(memcmp(d[0], expected[0], sizeof d[0]) == 0);
  for (int i = 0; i < cases; ++i) {
    uint32_t product[16 * 8];
    const bitmma_operands alone = {.a = {.data = a[i]}, .b = {.data = b[0]}, .c = {.data = c[i]}};
    CHECK_OK(bitmma_mma(mma, NULL, 1, &alone, product, 1));
    CHECK(memcmp(product, d[i], sizeof product) == 0);
  }

  // The same cases as a machine has them: registers of a warp.
  const int64_t extents[3][2] = {{32, 4}, {32, 2}, {32, 4}};
  for (int i = 0; i < cases; ++i) {
    bitmma_state* state = NULL;
    CHECK_OK(bitmma_state_create(&state));
    CHECK_OK(bitmma_state_set_array(state, "a_regs", a_regs + i * 32 * 4 * 2, 4, 2, extents[0]));
    CHECK_OK(bitmma_state_borrow_array(state, "b_regs", b_regs + i * 32 * 2 * 2, 4, 2, extents[1]));
    CHECK_OK(bitmma_state_set_array(state, "c_regs", c_regs + i * 32 * 4, 4, 2, extents[2]));
    CHECK_OK(bitmma_execute(mma, "sm_90a", state));
    bitmma_array array;
    CHECK_OK(bitmma_state_get_array(state, "d_regs", &array));
    CHECK(array.element_bytes == 4 && array.rank == 2 && array.extents[0] == 32 && array.extents[1] == 4);
    CHECK(memcmp(array.elements, d_regs + i * 32 * 4, 32 * 4 * 4) == 0);
    bitmma_state_destroy(state);
  }

  // The same by a prepared instruction: all cases in one call, then case by case with D in the place of C.
  bitmma_prepared* prepared = NULL;
  CHECK_OK(bitmma_prepared_create(mma, "sm_90a", &prepared));
  bitmma_warp_words words;
  CHECK_OK(bitmma_prepared_get_words(prepared, &words));
  CHECK(words.a == 128 && words.b == 64 && words.c == 128 && words.d == 128);
  CHECK(words.metadata == 0 && words.scale_a == 0 && words.scale_b == 0);
  static uint32_t warp_a[cases][128], warp_b[cases][64], warp_d[cases][128];
  memcpy(warp_a, a_regs, sizeof warp_a);
  memcpy(warp_b, b_regs, sizeof warp_b);
  bitmma_warp_registers warp = {.a = {warp_a[0], 128}, .b = {warp_b[0], 64}, .c = {c_regs, 128}};
  CHECK_OK(bitmma_prepared_execute(prepared, cases, &warp, warp_d[0], 128));
  CHECK(memcmp(warp_d, d_regs, sizeof warp_d) == 0);
  memcpy(warp_d, c_regs, sizeof warp_d);
  for (int i = 0; i < cases; ++i) {
    const bitmma_warp_registers registers = {.a = {warp_a[i], 0}, .b = {warp_b[i], 0}, .c = {warp_d[i], 0}};
    CHECK_OK(bitmma_prepared_execute(prepared, 1, &registers, warp_d[i], 0));
  }
  CHECK(memcmp(warp_d, d_regs, sizeof warp_d) == 0);
  warp.metadata.words = warp_a[0];
  memset(warp_d, 0xAB, sizeof warp_d);
  CHECK_INVALID(bitmma_prepared_execute(prepared, 1, &warp, warp_d[0], 0), "metadata = given");
  CHECK_INVALID(bitmma_prepared_execute(prepared, 1, NULL, warp_d[0], 0), "registers");
  CHECK(warp_d[0][0] == 0xABABABAB);
  CHECK_INVALID(bitmma_prepared_get_words(NULL, &words), "prepared");
  bitmma_prepared* none = NULL;
  CHECK_INVALID(bitmma_prepared_create(mma, "sm_75", &none), "sm_75");
  CHECK(none == NULL);
  bitmma_prepared_destroy(prepared);
  bitmma_instruction_destroy(mma);
  free_file(&file);
}

// wgmma of an H200: an image of shared memory, two descriptors, registers of 128 threads.
static void test_wgmma_of_an_h200(void) {
  file_t file = read_file("golden/sm_90a/arith/arith_f32_e4m3_e4m3_sa1_sb1_d0_c2.safetensors");
  bitmma_instruction* mma = NULL;
  CHECK_OK(bitmma_instruction_parse(
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1;", &mma));
  bitmma_state *state = NULL, *copy = NULL;
  CHECK_OK(bitmma_state_create(&state));
  const int64_t smem = 4096, registers[2] = {128, 4};
  uint64_t a_desc, b_desc, read = 0;
  memcpy(&a_desc, tensor(&file, "a_desc"), sizeof a_desc);
  memcpy(&b_desc, tensor(&file, "b_desc"), sizeof b_desc);
  CHECK_OK(bitmma_state_borrow_array(state, "smem", tensor(&file, "smem"), 1, 1, &smem));
  CHECK_OK(bitmma_state_set_number(state, "a_desc", a_desc));
  CHECK_OK(bitmma_state_set_number(state, "b_desc", b_desc));
  CHECK_OK(bitmma_state_get_number(state, "b_desc", &read));
  CHECK(read == b_desc);
  CHECK_INVALID(bitmma_execute(mma, NULL, state), "c_regs = (missing)");
  CHECK_OK(bitmma_state_set_array(state, "c_regs", tensor(&file, "c_regs"), 4, 2, registers));
  CHECK_OK(bitmma_state_copy(state, &copy));
  CHECK_OK(bitmma_execute(mma, NULL, state));
  bitmma_array array;
  CHECK_OK(bitmma_state_get_array(state, "d_regs", &array));
  CHECK(memcmp(array.elements, tensor(&file, "d_regs"), 128 * 4 * 4) == 0);
  CHECK_OK(bitmma_state_get_array(copy, "c_regs", &array));
  CHECK(memcmp(array.elements, tensor(&file, "c_regs"), 128 * 4 * 4) == 0);

  // The same by a prepared instruction.
  bitmma_prepared* prepared = NULL;
  bitmma_state* another = NULL;
  bitmma_array result;
  CHECK_OK(bitmma_prepared_create(mma, NULL, &prepared));
  CHECK_OK(bitmma_state_copy(copy, &another));
  CHECK_OK(bitmma_prepared_execute_state(prepared, another));
  CHECK_OK(bitmma_state_get_array(another, "d_regs", &result));
  CHECK(memcmp(result.elements, tensor(&file, "d_regs"), 128 * 4 * 4) == 0);
  const bitmma_warp_registers warp = {.a = {NULL, 0}};
  CHECK_INVALID(bitmma_prepared_execute(prepared, 1, &warp, NULL, 0), "mma.sync");
  CHECK_OK(bitmma_state_erase(another, "b_desc"));
  CHECK_INVALID(bitmma_prepared_execute_state(prepared, another), "b_desc = (missing)");
  CHECK_INVALID(bitmma_prepared_execute_state(prepared, NULL), "state");
  bitmma_state_destroy(another);
  bitmma_prepared_destroy(prepared);

  // A state that refuses stays as it was.
  CHECK_OK(bitmma_state_set_number(copy, "a_desc", 0x3FFF));  // the last 16 bytes of 256 KiB
  CHECK_INVALID(bitmma_execute(mma, NULL, copy), "0x3fff0");
  CHECK(memcmp(array.elements, tensor(&file, "c_regs"), 128 * 4 * 4) == 0);
  bitmma_state_destroy(copy);
  bitmma_state_destroy(state);

  // A machine that does not know the instruction can ask what it reads.
  size_t count = 0;
  CHECK_OK(bitmma_instruction_field_count(mma, &count));
  bitmma_field field;
  int seen = 0;
  for (size_t i = 0; i < count; ++i) {
    CHECK_OK(bitmma_instruction_field_at(mma, i, &field));
    if (strcmp(field.name, "c_regs") == 0) {
      ++seen;
      CHECK(strcmp(field.name_after, "d_regs") == 0 && field.is_read && field.is_written && !field.is_number);
      CHECK(field.element_bytes == 4 && field.rank == 2 && field.extents[0] == 128 && field.extents[1] == 4);
    } else if (strcmp(field.name, "a_desc") == 0) {
      ++seen;
      CHECK(field.name_after == NULL && field.is_number && !field.is_written && field.element_bytes == 8);
    }
  }
  CHECK(seen == 2);
  CHECK_INVALID(bitmma_instruction_field_at(mma, count, &field), "index");
  bitmma_instruction_destroy(mma);
  free_file(&file);
}

static void test_sparse(void) {
  // Registers of an H200, metadata and all.
  file_t file = read_file(
      "golden/sm_90a/mma_sync/"
      "mma_sp__ordered_metadata_sync_aligned_m16n8k32_row_col_f32_f16_f16_f32.safetensors");
  bitmma_instruction* mma = NULL;
  CHECK_OK(bitmma_instruction_parse("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", &mma));
  const int64_t four[2] = {32, 4}, metadata_extents[2] = {32, 1};
  for (int i = 0; i < 9; ++i) {
    bitmma_state* state = NULL;
    CHECK_OK(bitmma_state_create(&state));
    CHECK_OK(bitmma_state_set_array(state, "a_regs", tensor(&file, "a_regs") + i * 512, 4, 2, four));
    CHECK_OK(bitmma_state_set_array(state, "b_regs", tensor(&file, "b_regs") + i * 512, 4, 2, four));
    CHECK_OK(bitmma_state_set_array(state, "c_regs", tensor(&file, "c_regs") + i * 512, 4, 2, four));
    CHECK_OK(bitmma_state_set_array(state, "metadata", tensor(&file, "metadata") + i * 128, 4, 2, metadata_extents));
    CHECK_OK(bitmma_execute(mma, "sm_90a", state));
    bitmma_array array;
    CHECK_OK(bitmma_state_get_array(state, "c_regs", &array));
    CHECK(memcmp(array.elements, tensor(&file, "d_regs") + i * 512, 512) == 0);
    bitmma_state_destroy(state);
  }
  free_file(&file);

  // The same A as it is stored, with metadata, and with its zeros: positions 1 and 2 of every four.
  bitmma_instruction_info info;
  CHECK_OK(bitmma_instruction_get_info(mma, &info));
  CHECK(info.sparse == 1 && info.k == 32 && info.stored_k == 16 && info.metadata_chunks == 8);
  uint16_t stored[16][16], with_zeros[16][32] = {{0}}, b[32][8];
  uint8_t metadata[16][8];
  for (int row = 0; row < 16; ++row) {
    for (int j = 0; j < 16; ++j) {
      stored[row][j] = (uint16_t)(0x3C00 + 37 * row + j);
      with_zeros[row][j / 2 * 4 + 1 + j % 2] = stored[row][j];
    }
    memset(metadata[row], 0x9, sizeof metadata[row]);  // 0b10'01: second element at 2, first at 1
  }
  for (int k = 0; k < 32; ++k) {
    for (int n = 0; n < 8; ++n) b[k][n] = (uint16_t)(0xB800 + 41 * k + 7 * n);
  }
  uint32_t compressed[16 * 8], whole[16 * 8];
  bitmma_operands operands = {.a = {.data = stored}, .b = {.data = b}, .metadata = {.data = metadata}};
  CHECK_OK(bitmma_mma(mma, "sm_80", 1, &operands, compressed, 1));
  operands.a.data = with_zeros, operands.metadata.data = NULL;
  CHECK_OK(bitmma_mma(mma, "sm_80", 1, &operands, whole, 1));
  CHECK(memcmp(compressed, whole, sizeof whole) == 0);
  with_zeros[3][0] = 0x3C00;
  memset(whole, 0xAB, sizeof whole);
  CHECK_INVALID(bitmma_mma(mma, "sm_80", 1, &operands, whole, 1), "product 0");
  CHECK(((unsigned char*)whole)[0] == 0xAB && memcmp(whole, whole + 1, sizeof whole - 4) == 0);
  bitmma_instruction_destroy(mma);
}

// 32 products of 1 * 1, times 2^3 and 2^-1, and C = 1: 129.
static void test_block_scales(void) {
  bitmma_instruction* mma = NULL;
  CHECK_OK(bitmma_instruction_parse("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale", &mma));
  const bitmma_tcgen05 fields = {128, 8, 0, BITMMA_F32, BITMMA_E4M3, BITMMA_E5M2, BITMMA_UE8M0};
  CHECK_OK(bitmma_instruction_set_tcgen05(mma, &fields));
  bitmma_instruction_info info;
  CHECK_OK(bitmma_instruction_get_info(mma, &info));
  CHECK(info.family == BITMMA_TCGEN05_MMA && info.m == 128 && info.n == 8 && info.k == 32 && info.scale_count == 1);
  CHECK(info.a == BITMMA_E4M3 && info.b == BITMMA_E5M2 && info.d == BITMMA_F32 && info.scale == BITMMA_UE8M0);
  CHECK(info.d_bytes == 128 * 8 * 4 && strcmp(bitmma_instruction_target(mma), "sm_100a") == 0);
  static uint8_t a[128 * 32], b[32 * 8], scale_a[128], scale_b[8];
  static float c[128 * 8], d[128 * 8];
  memset(a, 0x38, sizeof a), memset(b, 0x3C, sizeof b);
  memset(scale_a, 127 + 3, sizeof scale_a), memset(scale_b, 127 - 1, sizeof scale_b);
  for (int i = 0; i < 128 * 8; ++i) c[i] = 1;
  bitmma_operands operands = {.a = {.data = a}, .b = {.data = b}, .c = {.data = c}, .scale_a = {.data = scale_a}};
  CHECK_INVALID(bitmma_mma(mma, NULL, 1, &operands, d, 1), "scale_b = (missing)");
  operands.scale_b.data = scale_b;
  CHECK_OK(bitmma_mma(mma, NULL, 1, &operands, d, 1));
  for (int i = 0; i < 128 * 8; ++i) CHECK(d[i] == 129);

  // The same from its instruction descriptor, which can be read back.
  int64_t idesc = 0;
  bitmma_instruction* again = NULL;
  CHECK_OK(bitmma_instruction_get(mma, "idesc", &idesc));
  CHECK_OK(bitmma_instruction_parse("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale", &again));
  CHECK_OK(bitmma_instruction_set(again, "idesc", idesc));
  memset(d, 0, sizeof d);
  CHECK_OK(bitmma_mma(again, "sm_103a", 1, &operands, d, 2));
  for (int i = 0; i < 128 * 8; ++i) CHECK(d[i] == 129);
  CHECK_INVALID(bitmma_mma(again, "sm_90a", 1, &operands, d, 1), "target = sm_90a");
  bitmma_instruction_destroy(again);

  bitmma_evidence evidence = BITMMA_MEASURED;
  size_t choices = 0, length = 0;
  CHECK_OK(bitmma_instruction_evidence(mma, NULL, &evidence, &choices));
  CHECK(evidence == BITMMA_PUBLISHED_MODEL);
  for (size_t i = 0; i < choices; ++i) CHECK_OK(bitmma_choice_print(mma, NULL, i, NULL, 0, &length));
  CHECK_INVALID(bitmma_choice_print(mma, NULL, choices, NULL, 0, NULL), "index");
  char rule[256];
  CHECK_OK(bitmma_rule_print(mma, NULL, rule, sizeof rule, &length));
  CHECK(strstr(rule, "25") != NULL && strlen(rule) == length);
  bitmma_instruction_destroy(mma);
}

static int stop_at_once(int64_t tried, int64_t of, void* context) {
  *(int*)context += tried <= of;
  return 1;
}

// A product that cuBLAS computed on an H100, 8 x 16 of its outputs; B lies there as N x K.
static void test_gemm_of_an_h100(void) {
  file_t file = read_file("products/nvjet_algo2_e4m3_k4096.safetensors");
  const bitmma_gemm_inputs inputs = {.a = {tensor(&file, "a"), BITMMA_E4M3, 8, 4096, 0, 0},
                                     .b = {tensor(&file, "b_t"), BITMMA_E4M3, 4096, 16, 1, 4096}};
  const char* json =
      "{\"instruction\": \"wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3\", \"promotion\": {\"every\": 128}}";
  uint32_t d[8 * 16];
  bitmma_plan* plan = NULL;
  CHECK_OK(bitmma_plan_parse(json, &plan));
  bitmma_format output = BITMMA_F16;
  CHECK_OK(bitmma_plan_output(plan, &output));
  CHECK(output == BITMMA_F32);
  CHECK_OK(bitmma_gemm(plan, &inputs, d, 0));
  CHECK(memcmp(d, tensor(&file, "d"), sizeof d) == 0);

  // As text and back.
  size_t length = 0;
  char line[400];
  CHECK_OK(bitmma_plan_print(plan, line, sizeof line, &length));
  CHECK(length > 0 && length == strlen(line) && strstr(line, "128") != NULL);
  CHECK_OK(bitmma_plan_print_json(plan, NULL, 0, &length));
  char* text = malloc(length + 1);
  CHECK_OK(bitmma_plan_print_json(plan, text, length + 1, NULL));
  bitmma_plan_destroy(plan);
  CHECK_OK(bitmma_plan_parse(text, &plan));
  free(text);
  memset(d, 0, sizeof d);
  CHECK_OK(bitmma_gemm(plan, &inputs, d, 1));
  CHECK(memcmp(d, tensor(&file, "d"), sizeof d) == 0);
  bitmma_plan_destroy(plan);

  // From the catalogue, by its name there and by the kernel's.
  bitmma_plans* plans = NULL;
  CHECK_OK(bitmma_plans_named("nvjet-algo2", &inputs, BITMMA_F32, NULL, &plans));
  CHECK(bitmma_plans_count(plans) == 1 && bitmma_plans_at(plans, 1) == NULL);
  memset(d, 0, sizeof d);
  CHECK_OK(bitmma_gemm(bitmma_plans_at(plans, 0), &inputs, d, 1));
  CHECK(memcmp(d, tensor(&file, "d"), sizeof d) == 0);
  bitmma_plans_destroy(plans);
  CHECK_OK(
      bitmma_plans_of_kernel("nvjet_sm90_qqsss_8x64_128x16_4x2_h_bz_algo2_TNN", &inputs, BITMMA_F32, NULL, &plans));
  CHECK(bitmma_plans_count(plans) == 1);
  bitmma_plans_destroy(plans);
  CHECK_INVALID(bitmma_plans_named("nvjet-algo3", &inputs, BITMMA_F32, NULL, &plans), "nvjet-algo2");
  CHECK(strcmp(bitmma_catalogue_name(0), "flat") == 0 && bitmma_catalogue_name(1000) == NULL);

  // From the bits. One chain alone misses some.
  const bitmma_matrix recorded = {tensor(&file, "d"), BITMMA_F32, 8, 16, 0, 0};
  int complete = 1, calls = 0;
  CHECK_OK(bitmma_find_plans_until(&inputs, &recorded, NULL, 1, 0, stop_at_once, &calls, &plans, &complete));
  CHECK(complete == 0 && calls >= 1);
  bitmma_plans_destroy(plans);
  CHECK_OK(bitmma_find_plans(&inputs, &recorded, NULL, 0, &plans));
  CHECK(bitmma_plans_count(plans) >= 1);
  memset(d, 0, sizeof d);
  CHECK_OK(bitmma_gemm(bitmma_plans_at(plans, 0), &inputs, d, 1));
  CHECK(memcmp(d, tensor(&file, "d"), sizeof d) == 0);
  bitmma_plans_destroy(plans);
  CHECK_OK(bitmma_plan_flat("sm_90a", BITMMA_E4M3, BITMMA_E4M3, BITMMA_F32, &plan));
  CHECK_OK(bitmma_gemm(plan, &inputs, d, 1));
  CHECK(memcmp(d, tensor(&file, "d"), sizeof d) != 0);

  bitmma_gemm_inputs wrong = inputs;
  wrong.b.rows = 4095;
  memset(d, 0xAB, sizeof d);
  CHECK_INVALID(bitmma_gemm(plan, &wrong, d, 1), "4095");
  wrong = inputs, wrong.a.cols = (int64_t)1 << 40;
  CHECK_INVALID(bitmma_gemm(plan, &wrong, d, 1), "a.cols = 1099511627776");
  wrong = inputs, wrong.b.data = NULL;
  CHECK_INVALID(bitmma_gemm(plan, &wrong, d, 1), "b.data = NULL");
  CHECK(d[0] == 0xABABABAB && memcmp(d, d + 1, sizeof d - 4) == 0);
  CHECK_INVALID(bitmma_plan_parse("{\"split\": 3}", &plan), "instruction = (missing)");
  bitmma_plan_destroy(plan);
  free_file(&file);
}

static void test_text_and_errors(void) {
  char number[64];
  snprintf(number, sizeof number, "%d.%d.%d", BITMMA_VERSION_MAJOR, BITMMA_VERSION_MINOR, BITMMA_VERSION_PATCH);
  CHECK(strcmp(bitmma_version(), number) == 0);

  bitmma_instruction *mma = NULL, *copy = NULL;
  CHECK_INVALID(bitmma_instruction_parse("wgmma.mma_async.sync.aligned.m64n12k16.f33.f16.f16", &mma), "f33");
  CHECK_INVALID(bitmma_instruction_parse("", &mma), "");
  CHECK_INVALID(bitmma_instruction_parse(NULL, &mma), "text = NULL");
  CHECK_INVALID(bitmma_instruction_parse(warp_mma, NULL), "instruction = NULL");
  CHECK(mma == NULL);

  // Several violations: as one text and one by one.
  CHECK_OK(bitmma_instruction_parse("wgmma.mma_async.sync.aligned.m64n12k8.f32.f16.f16", &mma));
  CHECK_INVALID(bitmma_instruction_check(mma, "sm_80"), "n = 12");
  CHECK(strstr(bitmma_last_error(), "k = 8") != NULL && strstr(bitmma_last_error(), "target = sm_80") != NULL);
  const size_t count = bitmma_error_count();
  CHECK(count >= 3);
  int has_n = 0;
  bitmma_violation violation;
  for (size_t i = 0; i < count; ++i) {
    CHECK_OK(bitmma_error_at(i, &violation));
    if (strcmp(violation.field, "n") != 0) continue;
    has_n = 1;
    CHECK(strcmp(violation.seen, "12") == 0 && strstr(violation.legal, "8..256") != NULL);
    CHECK(strstr(violation.source, "PTX") != NULL && violation.fix != NULL);
    CHECK(strcmp(violation.code, "illegal_value") == 0);
  }
  CHECK(has_n);
  CHECK(bitmma_error_at(count, &violation) == BITMMA_ERROR_INVALID && bitmma_error_count() == count);
  CHECK_INVALID(bitmma_instruction_check(mma, "sm_1"), "sm_90a");
  bitmma_instruction_destroy(mma);

  CHECK_OK(bitmma_instruction_parse("  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16\n", &mma));
  CHECK_OK(bitmma_instruction_check(mma, NULL));
  CHECK_OK(bitmma_instruction_check(mma, "H100"));
  CHECK_OK(bitmma_instruction_check(mma, "9.0"));
  CHECK_INVALID(bitmma_instruction_check(mma, "H10O"), "did you mean H100, which is sm_90a?");
  CHECK(strcmp(bitmma_instruction_target(mma), "sm_90a") == 0 && bitmma_instruction_target(NULL) == NULL);
  char text[80];
  size_t length = 0;
  CHECK_OK(bitmma_instruction_print(mma, text, sizeof text, &length));
  CHECK(strcmp(text, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16") == 0 && length == strlen(text));
  CHECK_OK(bitmma_instruction_print(mma, text, 6, &length));
  CHECK(strcmp(text, "wgmma") == 0 && length == 49);
  CHECK_OK(bitmma_instruction_copy(mma, &copy));
  CHECK_OK(bitmma_instruction_set(copy, "imm_scale_a", -1));
  int64_t value = 0;
  CHECK_OK(bitmma_instruction_get(copy, "imm_scale_a", &value));
  CHECK(value == -1);
  CHECK_OK(bitmma_instruction_get(mma, "imm_scale_a", &value));
  CHECK(value == 1);
  CHECK_INVALID(bitmma_instruction_set(copy, "imm_scale_a", 2), "1 or -1");
  CHECK_INVALID(bitmma_instruction_set(copy, "imm_scale_q", 1), "imm_scale_q");
  CHECK_INVALID(bitmma_instruction_get(copy, "idesc", &value), "idesc");
  const bitmma_tcgen05 fields = {128, 8, 0, BITMMA_F32, BITMMA_F16, BITMMA_F16, BITMMA_UE8M0};
  CHECK_INVALID(bitmma_instruction_set_tcgen05(copy, &fields), "tcgen05.mma");

  // 16 products of 1.05859375^2, with signs; and what bitmma_mma refuses, d as it was.
  uint16_t a[64 * 16], b[16 * 8];
  uint32_t d[64 * 8];
  for (int i = 0; i < 64 * 16; ++i) a[i] = 0x3C3C;
  for (int i = 0; i < 16 * 8; ++i) b[i] = 0x3C3C;
  bitmma_operands operands = {.a = {.data = a}, .b = {.data = b}};
  CHECK_OK(bitmma_mma(mma, NULL, 1, &operands, d, 1));
  for (int i = 0; i < 64 * 8; ++i) CHECK(d[i] == 0x418F7080);
  CHECK_OK(bitmma_mma(copy, NULL, 1, &operands, d, 1));
  for (int i = 0; i < 64 * 8; ++i) CHECK(d[i] == 0xC18F7080);
  CHECK_OK(bitmma_mma(mma, NULL, 0, &operands, d, 1));
  CHECK_INVALID(bitmma_mma(mma, NULL, -1, &operands, d, 1), "count = -1");
  CHECK_INVALID(bitmma_mma(mma, NULL, INT64_MAX / 4, &operands, d, 1), "too large");
  CHECK_INVALID(bitmma_mma(mma, NULL, 1, &operands, d, -1), "threads = -1");
  CHECK_INVALID(bitmma_mma(mma, NULL, 1, &operands, NULL, 1), "d = NULL");
  CHECK_INVALID(bitmma_mma(mma, NULL, 1, NULL, d, 1), "operands = NULL");
  CHECK_INVALID(bitmma_mma(NULL, NULL, 1, &operands, d, 1), "instruction = NULL");
  operands.b = (bitmma_view){b, 0, INT64_MAX / 2, 2};
  CHECK_INVALID(bitmma_mma(mma, NULL, 1, &operands, d, 1), "b = too large");
  operands.b = (bitmma_view){b, INT64_MAX / 2, 16, 2};
  CHECK_INVALID(bitmma_mma(mma, NULL, 3, &operands, d, 1), "b = too large");
  operands.b = (bitmma_view){.data = NULL};
  CHECK_INVALID(bitmma_mma(mma, NULL, 1, &operands, d, 1), "b = NULL");
  operands.b.data = b, operands.metadata.data = b;
  CHECK_INVALID(bitmma_mma(mma, NULL, 1, &operands, d, 1), "metadata");
  for (int i = 0; i < 64 * 8; ++i) CHECK(d[i] == 0xC18F7080);
  bitmma_instruction_destroy(copy);
  bitmma_instruction_destroy(mma);

  // A move of Tensor Memory multiplies nothing.
  CHECK_OK(bitmma_instruction_parse("tcgen05.ld.sync.aligned.16x64b.x4.b32", &mma));
  bitmma_instruction_info info;
  CHECK_OK(bitmma_instruction_get_info(mma, &info));
  CHECK(info.family == BITMMA_TMEM_MOVE && info.m == 0 && info.d_bytes == 0);
  operands.metadata.data = NULL;
  CHECK_INVALID(bitmma_mma(mma, NULL, 1, &operands, d, 1), "tcgen05.ld");
  bitmma_instruction_destroy(mma);

  // States refuse what their fields cannot be.
  bitmma_state* state = NULL;
  bitmma_array array;
  uint64_t word = 0;
  const int64_t extents[4] = {1, 2, 3, 4}, negative[2] = {4, -1}, huge[2] = {INT64_MAX, 2};
  CHECK_OK(bitmma_state_create(&state));
  CHECK_INVALID(bitmma_state_set_number(state, "sram", 1), "smem");
  CHECK_INVALID(bitmma_state_set_number(state, "warp", 256), "warp = 256");
  CHECK_INVALID(bitmma_state_set_number(state, "smem", 1), "an array");
  CHECK_INVALID(bitmma_state_set_array(state, "a_desc", d, 8, 1, extents), "one number");
  CHECK_INVALID(bitmma_state_set_array(state, "smem", d, 4, 1, extents), "element_bytes of smem = 4");
  CHECK_INVALID(bitmma_state_set_array(state, "a_regs", d, 4, 5, extents), "rank of a_regs = 5");
  CHECK_INVALID(bitmma_state_set_array(state, "a_regs", d, 4, 0, extents), "rank of a_regs = 0");
  CHECK_INVALID(bitmma_state_set_array(state, "a_regs", d, 4, 2, negative), "-1");
  CHECK_INVALID(bitmma_state_set_array(state, "a_regs", d, 4, 2, huge), "too large");
  CHECK_INVALID(bitmma_state_set_array(state, "a_regs", NULL, 4, 1, extents), "elements = NULL");
  CHECK_INVALID(bitmma_state_borrow_array(state, "a_regs", (const char*)d + 1, 4, 1, extents), "address");
  CHECK_INVALID(bitmma_state_get_array(state, "a_regs", &array), "(missing)");
  CHECK_OK(bitmma_state_set_array(state, "a_regs", d, 8, 4, extents));
  CHECK_OK(bitmma_state_get_array(state, "a_regs", &array));
  CHECK(array.element_bytes == 8 && array.rank == 4 && memcmp(array.extents, extents, sizeof extents) == 0);
  CHECK(memcmp(array.elements, d, 24 * 8) == 0);
  CHECK_INVALID(bitmma_state_get_number(state, "a_regs", &word), "an array");
  CHECK_OK(bitmma_state_erase(state, "a_regs"));
  CHECK_INVALID(bitmma_state_get_array(state, "a_regs", &array), "(missing)");
  bitmma_state_destroy(state);

  // Formats.
  bitmma_format format = BITMMA_F16;
  CHECK_OK(bitmma_format_named("ue4m3", &format));
  CHECK(format == BITMMA_UE4M3 && strcmp(bitmma_format_name(format), "ue4m3") == 0);
  CHECK_INVALID(bitmma_format_named("fp8", &format), "fp8");
  CHECK(bitmma_format_bytes(BITMMA_E2M1) == 1 && bitmma_format_bytes(BITMMA_BF16) == 2);
  CHECK(bitmma_format_bytes(BITMMA_TF32) == 4 && bitmma_format_bytes(BITMMA_F64) == 8);
  CHECK(bitmma_format_bytes((bitmma_format)21) == 0 && bitmma_format_name((bitmma_format)21) == NULL);
  const float values[4] = {1.0f, -448.0f, 0.0625f, 3.3f};
  float back[4];
  uint8_t codes[4];
  CHECK_OK(bitmma_from_floats(BITMMA_E4M3, 4, values, codes));
  CHECK(codes[0] == 0x38 && codes[1] == 0xFE && codes[2] == 0x18 && codes[3] == 0x45);
  CHECK_OK(bitmma_to_floats(BITMMA_E4M3, 4, codes, back));
  CHECK(back[0] == 1.0f && back[1] == -448.0f && back[2] == 0.0625f && back[3] == 3.25f);
  CHECK_INVALID(bitmma_from_floats(BITMMA_S8, 4, values, codes), "448");
  CHECK(codes[0] == 0x38);
  CHECK_INVALID(bitmma_from_floats((bitmma_format)21, 4, values, codes), "format = 21");
  CHECK_INVALID(bitmma_from_floats(BITMMA_F16, 4, NULL, codes), "values = NULL");

  // NULL is nothing to destroy.
  bitmma_instruction_destroy(NULL);
  bitmma_state_destroy(NULL);
  bitmma_plan_destroy(NULL);
  bitmma_plans_destroy(NULL);
  CHECK(bitmma_plans_count(NULL) == 0);
}

// Each thread fails in its own way, again and again, and sees its own error alone.
static void* fail_often(void* argument) {
  const int number = *(const int*)argument;
  char text[64], wanted[64];
  snprintf(text, sizeof text, "qmma%d.sync", number);
  snprintf(wanted, sizeof wanted, "qmma%d", number);
  long wrong = bitmma_last_error()[0] != '\0';
  for (int i = 0; i < 2000; ++i) {
    bitmma_instruction* none = NULL;
    wrong += bitmma_instruction_parse(text, &none) != BITMMA_ERROR_INVALID;
    wrong += none != NULL || strstr(bitmma_last_error(), wanted) == NULL;
  }
  return (void*)(intptr_t)wrong;
}

static void test_threads(void) {
  enum { count = 4 };
  pthread_t threads[count];
  int numbers[count];
  bitmma_state* state = NULL;
  CHECK_INVALID(bitmma_state_copy(NULL, &state), "state = NULL");
  for (int i = 0; i < count; ++i) {
    numbers[i] = i;
    if (pthread_create(&threads[i], NULL, fail_often, &numbers[i]) != 0) exit(1);
  }
  for (int i = 0; i < count; ++i) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    CHECK((intptr_t)wrong == 0);
  }
  CHECK(strstr(bitmma_last_error(), "state = NULL") != NULL);
}

// Words that an H100 and an H200 gave.
static void test_functions_of_words(void) {
  uint32_t x[] = {0x3E99999A, 0xBE99999A}, y[2];
  CHECK_OK(bitmma_math("ex2.approx.ftz.f32", 2, x, NULL, NULL, y));
  CHECK(y[0] == 0x3F9D9624 && y[1] == 0x3F4FEFC6);
  const uint32_t ten = 0x41200000;
  CHECK_OK(bitmma_c_function("expf@cuda_13_fast_math", 1, &ten, NULL, y));
  CHECK(y[0] == 0x46AC14F0);
  const uint64_t a = 0x43E40000, b = 0x3F800000, *const operands[] = {&a, &b};
  uint64_t packed = 0;
  CHECK_OK(bitmma_cvt("cvt.rn.satfinite.e4m3x2.f32", 1, 2, operands, &packed));
  CHECK(packed == 0x7E38);
  CHECK_INVALID(bitmma_cvt("cvt.rn.satfinite.e4m3x2.f32", 1, 1, operands, &packed), "2: a, b");
  // 1 + 2^-24 is halfway.
  const uint64_t half_ulp = 0x33800000;
  uint64_t sum = 0x3F800000;
  CHECK_OK(bitmma_math_64("add.rn.f32", 1, &sum, &half_ulp, NULL, &sum));
  CHECK(sum == 0x3F800000);
}

static void test_quantize(void) {
  CHECK(bitmma_recipe_name(0) != NULL && bitmma_recipe_name(1000) == NULL);
  const float numbers[32] = {448.0f, -1.0f, 0.5f};
  const bitmma_matrix x = {numbers, BITMMA_F32, 1, 32, 0, 0};
  bitmma_quantized_info info;
  CHECK_OK(bitmma_quantize_get_info("torchao_mxfp8_e4m3", 1, 32, &info));
  CHECK(info.element == BITMMA_E4M3 && info.scale == BITMMA_UE8M0 && info.block_cols == 32 && info.scale_cols == 1);
  uint8_t codes[32], scale = 0;
  CHECK_OK(bitmma_quantize("torchao_mxfp8_e4m3", &x, NULL, 1, codes, &scale, NULL));
  CHECK(codes[0] == 0x7E && codes[1] == 0xB8 && codes[2] == 0x30 && codes[3] == 0 && scale == 127);
}

static void test_operators(void) {
  float numbers[8] = {0.0f, 0.0f, 0.0f, 0.0f, 1.0f, 2.0f, 3.0f, 4.0f}, out[8], mean[2], rstd[2];
  const bitmma_matrix x = {numbers, BITMMA_F32, 2, 4, 0, 0};
  int32_t largest[2];
  CHECK_OK(bitmma_softmax(&x, BITMMA_F32, 0, 1, out));
  CHECK(out[0] == 0.25f && out[3] == 0.25f && out[7] > out[6]);
  CHECK_OK(bitmma_layer_norm(&x, NULL, NULL, 1.0f, 1, out, mean, rstd));
  CHECK(out[0] == 0.0f && mean[0] == 0.0f && mean[1] == 2.5f && rstd[0] == 1.0f);
  CHECK_OK(bitmma_rms_norm(&x, NULL, 0.0f, 1, out, rstd));
  CHECK(out[0] != out[0] && rstd[1] > 0.365f && rstd[1] < 0.366f);  // 0 * inf; 1 / sqrt(30 / 4)
  CHECK(bitmma_elementwise_name(0) != NULL && bitmma_elementwise_name(1000) == NULL);
  CHECK_OK(bitmma_reduce("argmax", &x, BITMMA_S32, 0, 1, largest));
  CHECK(largest[0] == 0 && largest[1] == 3);
  CHECK_OK(bitmma_elementwise("square", &x, NULL, 1, out));
  CHECK(out[7] == 16.0f);
  uint16_t ones[16], made[16];
  for (int i = 0; i < 16; ++i) ones[i] = 0x3C00;
  const bitmma_matrix keys = {ones, BITMMA_F16, 2, 8, 0, 0};
  CHECK_OK(bitmma_attention(&keys, &keys, &keys, NULL, 1, made, NULL));
  CHECK(made[0] == 0x3C00 && made[15] == 0x3C00);
}

// An instruction of fields, and the same with another field.
static void test_fields(void) {
  const bitmma_named_value fields[] = {{"kind", "mxf8f6f4", 0}, {"n", NULL, 16}, {"sparse", NULL, 1}};
  const bitmma_named_value dense = {"sparse", NULL, 0};
  bitmma_instruction* made = NULL;
  bitmma_instruction_info info;
  CHECK_OK(bitmma_instruction_make(BITMMA_TCGEN05_MMA, fields, 3, &made));
  CHECK_OK(bitmma_instruction_set_fields(made, &dense, 1));
  CHECK_OK(bitmma_instruction_get_info(made, &info));
  CHECK(info.m == 128 && info.n == 16 && info.k == 32 && !info.sparse);
  bitmma_instruction_destroy(made);
}

// Subnormal numbers times 1.5, rounded to nearest even: 3 * 1.5 is 4.5 units.
static void test_kernel(void) {
  static const char ptx[] =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry scale(.param .u64 x)\n{\n"
      ".reg .b64 %rd<4>;\n.reg .b32 %r<2>;\n.reg .f32 %f<3>;\n.shared .align 4 .b8 unused[16];\n"
      "ld.param.u64 %rd1, [x];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
      "ld.global.f32 %f1, [%rd3];\nmul.rn.f32 %f2, %f1, 0f3FC00000;\nst.global.f32 [%rd3], %f2;\nret;\n}\n";
  bitmma_kernel* kernel = NULL;
  CHECK_OK(bitmma_kernel_create(ptx, NULL, &kernel));
  CHECK(bitmma_kernel_parameter_count(kernel) == 1 && bitmma_kernel_parameter_bytes(kernel, 0) == 8);
  CHECK(bitmma_kernel_shared_bytes(kernel) == 16);
  char text[200];
  size_t length = 0;
  CHECK_OK(bitmma_kernel_warnings(kernel, text, sizeof text, &length));
  uint32_t x[32];
  for (uint32_t i = 0; i < 32; ++i) x[i] = i;
  bitmma_kernel_argument argument = {0};
  argument.memory = x;
  argument.memory_bytes = sizeof x;
  bitmma_launch launch = {0};
  launch.block[0] = 32;
  launch.arguments = &argument;
  launch.argument_count = 1;
  uint64_t instructions = 0;
  CHECK_OK(bitmma_kernel_launch(kernel, &launch, &instructions));
  CHECK(x[1] == 2 && x[2] == 3 && x[3] == 4 && x[5] == 8 && x[31] == 46 && instructions == 32 * 8);
  bitmma_kernel_destroy(kernel);
  // The same over a memory whose addresses are the caller's.
  bitmma_module* module = NULL;
  bitmma_memory* memory = NULL;
  CHECK_OK(bitmma_module_create(ptx, &module));
  CHECK_OK(bitmma_kernel_of_module(module, NULL, &kernel));
  CHECK(strcmp(bitmma_module_entry(module, 0), "scale") == 0 && !bitmma_module_entry(module, 1));
  CHECK(bitmma_kernel_parameter_offset(kernel, 0) == 0 && bitmma_kernel_all_parameter_bytes(kernel) == 8);
  CHECK_OK(bitmma_memory_create(&memory));
  const uint64_t address = (uint64_t)(uintptr_t)x;
  CHECK_OK(bitmma_memory_map(memory, address, x, sizeof x, 0));
  for (uint32_t i = 0; i < 32; ++i) x[i] = i;
  bitmma_launch by_bytes = {0};
  by_bytes.block[0] = 32;
  by_bytes.memory = memory;
  by_bytes.parameters = &address;
  by_bytes.parameter_bytes = 8;
  CHECK_OK(bitmma_kernel_launch(kernel, &by_bytes, NULL));
  CHECK(x[1] == 2 && x[31] == 46);
  uint64_t other = 0;
  const uint32_t five = 5;
  uint32_t word = 0;
  CHECK_OK(bitmma_memory_allocate(memory, 4, &other));
  CHECK_OK(bitmma_memory_write(memory, other, &five, 4));
  CHECK_OK(bitmma_memory_read(memory, other, &word, 4));
  CHECK(word == 5);
  CHECK_OK(bitmma_memory_free(memory, other));
  CHECK_OK(bitmma_memory_allocate_at(memory, other, 4));
  CHECK(bitmma_memory_read(memory, other, &word, 4) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_memory_variable(memory, module, "none", &other, NULL, NULL) == BITMMA_ERROR_INVALID);
  bitmma_tensor_map map = {0};
  uint8_t encoded[128];
  map.rank = 1;
  map.element_bytes = 4;
  map.sizes[0] = map.box[0] = 16;
  CHECK_OK(bitmma_tensor_map_encode(&map, 4096, encoded));
  bitmma_module_destroy(module);
  bitmma_memory_destroy(memory);
  bitmma_kernel_destroy(kernel);
}

static void test_all(void) {
  CHECK(is_kept());
  test_mma_sync_of_an_h200();
  test_wgmma_of_an_h200();
  test_sparse();
  test_block_scales();
  test_gemm_of_an_h100();
  test_functions_of_words();
  test_quantize();
  test_operators();
  test_text_and_errors();
  test_fields();
  test_kernel();
  test_threads();
}

int main(int argc, char** argv) {
  const int everywhere = argc == 3 && strcmp(argv[2], "environments") == 0;
  if (argc != 2 && !everywhere) {
    fprintf(stderr, "usage: c99_test DATA_FOLDER [environments]\n");
    return 2;
  }
  data_folder = argv[1];
  CHECK(bitmma_last_error()[0] == '\0' && bitmma_error_count() == 0);
  if (!everywhere) test_all();
  for (size_t i = 0; everywhere && i < sizeof environments / sizeof *environments; ++i) {
    use(environments[i]);
    test_all();
    use(usual);
  }
  if (failures == 0) printf("all bits and errors are as they must be\n");
  else printf("%d checks failed\n", failures);
  return failures == 0 ? 0 : 1;
}
