// SPDX-License-Identifier: MIT
// C's functions on float as nvcc compiles them: one kernel each, named after the row of c_functions() that it shows.
//
//   nvcc -arch=sm_90a -cubin c_functions.cu                                             bits_of_expf
//   nvcc -arch=sm_90a -cubin -use_fast_math -DBITMMA_FAST_MATH c_functions.cu -o fast.cubin  bits_of_expf_fast
//
// One operand: results[i] is the word that the function gives for the word *first + i. Two: for a[i] and b[i]. A grid of
// as many threads as there are results.
#ifdef BITMMA_FAST_MATH
#define ENTRY(name) bits_of_##name##_fast
#else
#define ENTRY(name) bits_of_##name
#endif

#define ONE(name, expression)                                                                         \
  extern "C" __global__ void ENTRY(name)(const unsigned* first, unsigned* results) {                  \
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
    const float x = __uint_as_float(*first + i);                                                      \
    results[i] = __float_as_uint(expression);                                                         \
  }
#define TWO(name, expression)                                                                         \
  extern "C" __global__ void ENTRY(name)(const unsigned* a, const unsigned* b, unsigned* results) {   \
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
    const float x = __uint_as_float(a[i]), y = __uint_as_float(b[i]);                                 \
    results[i] = __float_as_uint(expression);                                                         \
  }

// As PyTorch's eager kernels write them: ATen/native/cuda, ActivationGeluKernel.cu.
__device__ float gelu_by_tanh(float x) {
  const float beta = 1.41421356237309504880 * 1.12837916709551257390 * 0.5, kappa = 0.044715;
  const float cube = x * x * x, inner = beta * (x + kappa * cube);
  return 0.5f * x * (1.0f + tanhf(inner));
}

ONE(expf, expf(x))
ONE(exp2f, exp2f(x))
ONE(exp10f, exp10f(x))
ONE(expm1f, expm1f(x))
ONE(logf, logf(x))
ONE(log2f, log2f(x))
ONE(log10f, log10f(x))
ONE(log1pf, log1pf(x))
ONE(tanhf, tanhf(x))
ONE(erff, erff(x))
ONE(sinf, sinf(x))
ONE(cosf, cosf(x))
TWO(powf, powf(x, y))
ONE(rsqrtf, rsqrtf(x))
ONE(sqrtf, sqrtf(x))
TWO(division, x / y)
ONE(reciprocal, 1.0f / x)
ONE(sigmoid, 1.0f / (1.0f + expf(-x)))
ONE(silu, x / (1.0f + expf(-x)))
ONE(gelu, x * 0.5f * (1.0f + erff(x * 0.70710678118654752440f)))
ONE(gelu_tanh, gelu_by_tanh(x))
#ifndef BITMMA_FAST_MATH
ONE(__expf, __expf(x))
ONE(__exp10f, __exp10f(x))
ONE(__logf, __logf(x))
ONE(__log2f, __log2f(x))
ONE(__log10f, __log10f(x))
ONE(__sinf, __sinf(x))
ONE(__cosf, __cosf(x))
ONE(__tanhf, __tanhf(x))
TWO(__powf, __powf(x, y))
TWO(__fdividef, __fdividef(x, y))
#endif
