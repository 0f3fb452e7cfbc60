// SPDX-License-Identifier: MIT
// The source of all fat binaries here.
__constant__ float factor = 2;
__device__ int launches;
__managed__ int total = 5;

struct Numbers {
  const float* x;
  int n;
};
extern "C" __global__ void scale(float* y, Numbers numbers, float a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < numbers.n) y[i] = a * factor * numbers.x[i];
  if (i == 0) launches += 1, total += 10;
}
