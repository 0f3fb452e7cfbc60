// A C program of somebody who installed the library: one wgmma of 1.05859375^2, and an error.
#include <bitmma.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  uint16_t a[64 * 16], b[16 * 8];
  uint32_t d[64 * 8] = {0};
  for (int i = 0; i < 64 * 16; ++i) a[i] = 0x3C3C;
  for (int i = 0; i < 16 * 8; ++i) b[i] = 0x3C3C;
  const bitmma_operands operands = {.a = {.data = a}, .b = {.data = b}};
  bitmma_instruction* mma = NULL;
  if (bitmma_instruction_parse("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", &mma) != BITMMA_OK) return 1;
  if (bitmma_mma(mma, "sm_90a", 1, &operands, d, 1) != BITMMA_OK) return 1;
  if (bitmma_mma(mma, "sm_80", 1, &operands, d, 1) != BITMMA_ERROR_INVALID) return 1;
  bitmma_instruction_destroy(mma);
  for (int i = 0; i < 64 * 8; ++i) {
    if (d[i] != 0x418F7080) return 1;
  }
  if (strstr(bitmma_last_error(), "target = sm_80") == NULL) return 1;
  printf("ok %s\n", bitmma_version());
  return 0;
}
