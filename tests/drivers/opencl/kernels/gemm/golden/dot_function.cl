typedef struct { int base; } KERNEL_NAME_row;
static inline KERNEL_NAME_row KERNEL_NAME_row_of(const int batch, const int m) {
  KERNEL_NAME_row row;
  row.base = m < 5 ? 0 + m * 12 : -1;
  return row;
}
static inline int KERNEL_NAME_left(const KERNEL_NAME_row row, const int k) {
  return k < 12 && row.base >= 0 ? row.base + k : -1;
}
static inline int KERNEL_NAME_dot(int sum, const uint left, const uint right) {
#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
  return sum + (int)dot_4x8packed_ss_int(left, right);
#else
  const char4 a = as_char4(left);
  const char4 b = as_char4(right);
  return sum + ((int)a.x * (int)b.x + (int)a.y * (int)b.y + (int)a.z * (int)b.z + (int)a.w * (int)b.w);
#endif
}
static inline int4 KERNEL_NAME_dot4(const int4 sum, const uint left, const uint4 right) {
  return (int4)(KERNEL_NAME_dot(sum.x, left, right.x), KERNEL_NAME_dot(sum.y, left, right.y),
                KERNEL_NAME_dot(sum.z, left, right.z), KERNEL_NAME_dot(sum.w, left, right.w));
}
static inline uint KERNEL_NAME_left_word(__global const char *p, const KERNEL_NAME_row row, const int k) {
  const int at = KERNEL_NAME_left(row, k);
  return at < 0 ? ((3 & 255) * 16843009u) : *(__global const uint *)(p + at);
}
static inline uint4 KERNEL_NAME_right_words(__global const char *p, const int base, const int word, const int n) {
  uint4 found = (uint4)(((-1 & 255) * 16843009u));
  if (n + 0 < 6 && word * 4 < 12) found.s0 = *(__global const uint *)(p + base + (n + 0) * 12 + word * 4);
  if (n + 1 < 6 && word * 4 < 12) found.s1 = *(__global const uint *)(p + base + (n + 1) * 12 + word * 4);
  if (n + 2 < 6 && word * 4 < 12) found.s2 = *(__global const uint *)(p + base + (n + 2) * 12 + word * 4);
  if (n + 3 < 6 && word * 4 < 12) found.s3 = *(__global const uint *)(p + base + (n + 3) * 12 + word * 4);
  return found;
}
static inline char KERNEL_NAME_element(const int sum, const int row, const int column, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status) {
  return ((char)(convert_char_sat((((float)sum) * 0x1.47ae140000000p-7f))));
}
static inline void KERNEL_NAME_store(const int sum, const int row, const int column, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status) {
  a0[row * 6 + column] = KERNEL_NAME_element(sum, row, column, a0, a1, a2, status);
}
static inline void KERNEL_NAME_store4(const int4 sum, const int row, const int column, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status) {
  if (column + 0 < 6) KERNEL_NAME_store(sum.s0, row, column + 0, a0, a1, a2, status);
  if (column + 1 < 6) KERNEL_NAME_store(sum.s1, row, column + 1, a0, a1, a2, status);
  if (column + 2 < 6) KERNEL_NAME_store(sum.s2, row, column + 2, a0, a1, a2, status);
  if (column + 3 < 6) KERNEL_NAME_store(sum.s3, row, column + 3, a0, a1, a2, status);
}
static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status) {
  const int tile = group % 1, batch = group / 1;
  const int m0 = tile / 1 * 16, n0 = tile % 1 * 16, base = 0;
  __local uint *steps = (__local uint *)scratch;
  const int item = lid % (256 / 16), slice = lid / (256 / 16);
  const int across = item % (16 / 4), down = item / (16 / 4);
  int4 sums[4], column_sums = (int4)(0);
  int row_sums[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums[i] = (int4)(0);
    row_sums[i] = 0;
  }
  KERNEL_NAME_row rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) rows[i] = KERNEL_NAME_row_of(batch, m0 + (lid + i * 256) / 64);
  {
    uint left[4];
    uint4 right[1];
#define NEURALD_LOAD(step) { \
    _Pragma("unroll") for (int i = 0; i < 4; ++i) { \
      const int e = lid + i * 256; \
      if ((i + 1) * 256 <= 16 * 64 || e < 16 * 64) \
        left[i] = KERNEL_NAME_left_word(a1, rows[i], ((step) * 64 + e % 64) * 4); \
    } \
    _Pragma("unroll") for (int i = 0; i < 1; ++i) { \
      const int e = lid + i * 256; \
      if ((i + 1) * 256 <= 16 * 64 / 4 || e < 16 * 64 / 4) \
        right[i] = KERNEL_NAME_right_words(a2, base, (step) * 64 + e / (16 / 4), n0 + e % (16 / 4) * 4); \
    } }
#define NEURALD_KEEP(buffer) { \
    _Pragma("unroll") for (int i = 0; i < 4; ++i) { \
      const int e = lid + i * 256; \
      if ((i + 1) * 256 <= 16 * 64 || e < 16 * 64) (buffer)[e / 64 * 68 + e % 64] = left[i]; \
    } \
    _Pragma("unroll") for (int i = 0; i < 1; ++i) { \
      const int e = lid + i * 256; \
      if ((i + 1) * 256 <= 16 * 64 / 4 || e < 16 * 64 / 4) \
        *(__local uint4 *)((buffer) + 16 * 68 + e * 4) = right[i]; \
    } }
    NEURALD_LOAD(0)
    NEURALD_KEEP(steps)
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 0; step < 1; ++step) {
      __local const uint *buffer = steps + step % 2 * 2112;
      if (step + 1 < 1) NEURALD_LOAD(step + 1)
      __local const uint *left_at = buffer + down * 68 + slice * 4;
      __local const uint *right_at = buffer + 16 * 68 + slice * 4 * 16 + across * 4;
#pragma unroll
      for (int q = 0; q < 64 / 4 / 16; ++q) {
        uint4 words[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) words[k] = *(__local const uint4 *)(right_at + k * 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint4 part = *(__local const uint4 *)(left_at + i * (16 / 4) * 68);
          sums[i] = KERNEL_NAME_dot4(sums[i], part.x, words[0]);
          sums[i] = KERNEL_NAME_dot4(sums[i], part.y, words[1]);
          sums[i] = KERNEL_NAME_dot4(sums[i], part.z, words[2]);
          sums[i] = KERNEL_NAME_dot4(sums[i], part.w, words[3]);
          row_sums[i] = KERNEL_NAME_dot(row_sums[i], part.x, 0x01010101u);
          row_sums[i] = KERNEL_NAME_dot(row_sums[i], part.y, 0x01010101u);
          row_sums[i] = KERNEL_NAME_dot(row_sums[i], part.z, 0x01010101u);
          row_sums[i] = KERNEL_NAME_dot(row_sums[i], part.w, 0x01010101u);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) column_sums = KERNEL_NAME_dot4(column_sums, 0x01010101u, words[k]);
        left_at += 16 * 4;
        right_at += 16 * 4 * 16;
      }
      if (step + 1 < 1) NEURALD_KEEP(steps + (step + 1) % 2 * 2112)
      barrier(CLK_LOCAL_MEM_FENCE);
    }
#undef NEURALD_LOAD
#undef NEURALD_KEEP
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] -= (int4)((-1) * row_sums[i]);
  if (slice == 0) column_sums -= (int4)(1 * (64 * 4) * (-1));
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] -= (3) * column_sums;
  __local int *all = (__local int *)scratch;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *(__local int4 *)(all + (slice * 16 + i * (16 / 4) + down) * 16 + across * 4) = sums[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  int4 totals[1];
#pragma unroll
  for (int e = 0; e < 1; ++e) {
    int4 sum = (int4)(0);
    if ((lid + e * 256) * 4 < 16 * 16) {
#pragma unroll
      for (int z = 0; z < 16; ++z) sum += *(__local int4 *)(all + z * 16 * 16 + (lid + e * 256) * 4);
    }
    totals[e] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int e = 0; e < 1; ++e) {
    const int at = (lid + e * 256) * 4;
    const int m = m0 + lid * 4 / 16 + e * 64, n = n0 + lid * 4 % 16;
    const int4 sum = totals[e];
    if (at < 256 &&  m < 5 && n < 6) { KERNEL_NAME_store4(sum, m, n, a0, a1, a2, status); }
  }
}
