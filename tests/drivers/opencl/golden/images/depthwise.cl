static inline float KERNEL_NAME_l1(read_only image1d_buffer_t p, const int s, const int at) { return neurald_part_float4(read_imagef(p, s + ((at) >> 2)), at); }
static inline float4 KERNEL_NAME_l4(read_only image1d_buffer_t p, const int s, const int at) { return read_imagef(p, s + ((at) >> 2)); }
static inline float KERNEL_NAME_r1(read_only image1d_buffer_t p, const int s, const int at) { return neurald_part_float4(read_imagef(p, s + ((at) >> 2)), at); }
static inline float4 KERNEL_NAME_r4(read_only image1d_buffer_t p, const int s, const int at) { return read_imagef(p, s + ((at) >> 2)); }
static inline void KERNEL_NAME_store4(const float4 sum, const int row, const int column, __global float *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, __global int *status) {
  const float4 v0 = (float4)(sum) * (float4)(0x1.0000000000000p-1f);
  *(__global float4 *)(a0 + row * 4 + column) = (float4)(v0);
}
static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 9) return;
  const int c = at % 1 * 4, position = at / 1;
  const int x = position % 3 * 1, line = position / 3, y = line % 3, image = line / 3;
  const int top = y * 2 - 0, left = x * 2 - 0;
  const int base = ((image * 6 + top) * 6 + left) * 4 + c / 1;
  float4 sums[1];
  for (int o = 0; o < 1; ++o) sums[o] = (float4)(0);
  {
    const bool seen = (uint)(top + 0) < (uint)6;
    const float4 w0 = KERNEL_NAME_r4(a2, s2, 0 * 4 + c);
    const float4 w1 = KERNEL_NAME_r4(a2, s2, 1 * 4 + c);
    const float4 w2 = KERNEL_NAME_r4(a2, s2, 2 * 4 + c);
    const float4 x0 = seen && (uint)(left + 0) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (0 * 6 + 0) * 4) : (float4)(0);
    sums[0] = mad(x0, w0, sums[0]);
    const float4 x1 = seen && (uint)(left + 1) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (0 * 6 + 1) * 4) : (float4)(0);
    sums[0] = mad(x1, w1, sums[0]);
    const float4 x2 = seen && (uint)(left + 2) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (0 * 6 + 2) * 4) : (float4)(0);
    sums[0] = mad(x2, w2, sums[0]);
  }
  {
    const bool seen = (uint)(top + 1) < (uint)6;
    const float4 w0 = KERNEL_NAME_r4(a2, s2, 3 * 4 + c);
    const float4 w1 = KERNEL_NAME_r4(a2, s2, 4 * 4 + c);
    const float4 w2 = KERNEL_NAME_r4(a2, s2, 5 * 4 + c);
    const float4 x0 = seen && (uint)(left + 0) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (1 * 6 + 0) * 4) : (float4)(0);
    sums[0] = mad(x0, w0, sums[0]);
    const float4 x1 = seen && (uint)(left + 1) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (1 * 6 + 1) * 4) : (float4)(0);
    sums[0] = mad(x1, w1, sums[0]);
    const float4 x2 = seen && (uint)(left + 2) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (1 * 6 + 2) * 4) : (float4)(0);
    sums[0] = mad(x2, w2, sums[0]);
  }
  {
    const bool seen = (uint)(top + 2) < (uint)6;
    const float4 w0 = KERNEL_NAME_r4(a2, s2, 6 * 4 + c);
    const float4 w1 = KERNEL_NAME_r4(a2, s2, 7 * 4 + c);
    const float4 w2 = KERNEL_NAME_r4(a2, s2, 8 * 4 + c);
    const float4 x0 = seen && (uint)(left + 0) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (2 * 6 + 0) * 4) : (float4)(0);
    sums[0] = mad(x0, w0, sums[0]);
    const float4 x1 = seen && (uint)(left + 1) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (2 * 6 + 1) * 4) : (float4)(0);
    sums[0] = mad(x1, w1, sums[0]);
    const float4 x2 = seen && (uint)(left + 2) < (uint)6 ? KERNEL_NAME_l4(a1, s1, base + (2 * 6 + 2) * 4) : (float4)(0);
    sums[0] = mad(x2, w2, sums[0]);
  }
  KERNEL_NAME_store4(sums[0], (image * 3 + y) * 3 + x + 0, c, a0, a1, s1, a2, s2, status);
}
