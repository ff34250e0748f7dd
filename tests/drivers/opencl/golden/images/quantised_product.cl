typedef struct { int base; } KERNEL_NAME_row;
static inline KERNEL_NAME_row KERNEL_NAME_row_of(const int batch, const int m) {
  KERNEL_NAME_row row;
  row.base = m < 5 ? 0 + m * 12 : -1;
  return row;
}
static inline int KERNEL_NAME_left(const KERNEL_NAME_row row, const int k) {
  return k < 12 && row.base >= 0 ? row.base + k : -1;
}
static inline int KERNEL_NAME_l1(read_only image1d_buffer_t p, const int s, const int at) { return (int)neurald_part_int4(read_imagei(p, s + ((at) >> 2)), at) - 3; }
static inline int4 KERNEL_NAME_l4(read_only image1d_buffer_t p, const int s, const int at) { return convert_int4(read_imagei(p, s + ((at) >> 2))) - 3; }
static inline int KERNEL_NAME_r1(read_only image1d_buffer_t p, const int s, const int at) { return (int)neurald_part_int4(read_imagei(p, s + ((at) >> 2)), at) - -1; }
static inline int4 KERNEL_NAME_r4(read_only image1d_buffer_t p, const int s, const int at) { return convert_int4(read_imagei(p, s + ((at) >> 2))) - -1; }
static inline int4 KERNEL_NAME_left4(read_only image1d_buffer_t p, const int s, const KERNEL_NAME_row row, const int k) {
  const int at = KERNEL_NAME_left(row, k);
  return at < 0 ? (int4)(0) : KERNEL_NAME_l4(p, s, at);
}
static inline int4 KERNEL_NAME_right4(read_only image1d_buffer_t p, const int s, const int base, const int k, const int n) {
  return k < 12 && n < 6 ? KERNEL_NAME_r4(p, s, base + n * 12 + k) : (int4)(0);
}
static inline char KERNEL_NAME_element(const int sum, const int row, const int column, __global char *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, __global int *status) {
  return ((char)(convert_char_sat((((float)sum) * 0x1.47ae140000000p-7f))));
}
static inline void KERNEL_NAME_store(const int sum, const int row, const int column, __global char *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, __global int *status) {
  a0[row * 6 + column] = KERNEL_NAME_element(sum, row, column, a0, a1, s1, a2, s2, status);
}
static inline void KERNEL_NAME_store4(const int4 sum, const int row, const int column, __global char *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, __global int *status) {
  if (column + 0 < 6) KERNEL_NAME_store(sum.s0, row, column + 0, a0, a1, s1, a2, s2, status);
  if (column + 1 < 6) KERNEL_NAME_store(sum.s1, row, column + 1, a0, a1, s1, a2, s2, status);
  if (column + 2 < 6) KERNEL_NAME_store(sum.s2, row, column + 2, a0, a1, s1, a2, s2, status);
  if (column + 3 < 6) KERNEL_NAME_store(sum.s3, row, column + 3, a0, a1, s1, a2, s2, status);
}
static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global char *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, __global int *status) {
  const int batch = group / 1, base = 0;
  const int lane = lid % 8, slice = lid / 8, n = (group % 1 * 8 + lane) * 1;
  __local int4 *parts = (__local int4 *)scratch;
  KERNEL_NAME_row rows[5];
  int4 sums[5];
#pragma unroll
  for (int m = 0; m < 5; ++m) {
    rows[m] = KERNEL_NAME_row_of(batch, m);
    sums[m] = (int4)(0);
  }
  if (n < 6) {
#pragma unroll 4
    for (int k = slice * 4; k < 12; k += 32) {
      const int4 right = KERNEL_NAME_right4(a2, s2, base, k, n);
#pragma unroll
      for (int m = 0; m < 5; ++m) { sums[m] += KERNEL_NAME_left4(a1, s1, rows[m], k) * right; }
    }
  }
#pragma unroll
  for (int m = 0; m < 5; ++m) parts[m * 64 + lid] = sums[m];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = 8 / 2; half_size > 0; half_size >>= 1) {
    if (slice < half_size)
      for (int m = 0; m < 5; ++m)
        parts[m * 64 + lid] += parts[m * 64 + lid + half_size * 8];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int at = lid; at < 5 * 8; at += 64) {
    const int m = at / 8, other = at % 8;
    const int n = (group % 1 * 8 + other) * 1;
    const int4 sum = parts[m * 64 + other];
    if (n < 6) { KERNEL_NAME_store(sum.x + sum.y + sum.z + sum.w, batch * 5 + m, batch * 0 + n, a0, a1, s1, a2, s2, status); }
  }
}
