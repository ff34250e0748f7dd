#ifndef neurald_06193e283d4f0f28_is_there
#define neurald_06193e283d4f0f28_is_there
typedef struct { int base; } neurald_06193e283d4f0f28_row;
static inline neurald_06193e283d4f0f28_row neurald_06193e283d4f0f28_row_of(const int batch, const int m, const int z_rows, const int z_columns, const int z_depth, const int z_left_pitch, const int z_right_pitch, const int z_length, const int z_tiles, const int z_across, const int z_steps, const int z_left_zero, const int z_right_zero) {
  neurald_06193e283d4f0f28_row row;
  row.base = m < z_rows ? 0 + m * z_left_pitch : -1;
  return row;
}
static inline int neurald_06193e283d4f0f28_left(const neurald_06193e283d4f0f28_row row, const int k, const int z_rows, const int z_columns, const int z_depth, const int z_left_pitch, const int z_right_pitch, const int z_length, const int z_tiles, const int z_across, const int z_steps, const int z_left_zero, const int z_right_zero) {
  return k < z_depth && row.base >= 0 ? row.base + k : -1;
}
static inline int neurald_06193e283d4f0f28_dot(int sum, const uint left, const uint right) {
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(left), "r"(right));
  return sum;
}
static inline int4 neurald_06193e283d4f0f28_dot4(const int4 sum, const uint left, const uint4 right) {
  return (int4)(neurald_06193e283d4f0f28_dot(sum.x, left, right.x), neurald_06193e283d4f0f28_dot(sum.y, left, right.y),
                neurald_06193e283d4f0f28_dot(sum.z, left, right.z), neurald_06193e283d4f0f28_dot(sum.w, left, right.w));
}
static inline uint neurald_06193e283d4f0f28_left_word(__global const char *p, const neurald_06193e283d4f0f28_row row, const int k, const int z_rows, const int z_columns, const int z_depth, const int z_left_pitch, const int z_right_pitch, const int z_length, const int z_tiles, const int z_across, const int z_steps, const int z_left_zero, const int z_right_zero) {
  const int at = neurald_06193e283d4f0f28_left(row, k, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero);
  return at < 0 ? ((z_left_zero & 255) * 16843009u) : *(__global const uint *)(p + at);
}
static inline uint4 neurald_06193e283d4f0f28_right_words(__global const char *p, const int base, const int word, const int n, const int z_rows, const int z_columns, const int z_depth, const int z_left_pitch, const int z_right_pitch, const int z_length, const int z_tiles, const int z_across, const int z_steps, const int z_left_zero, const int z_right_zero) {
  uint4 found = (uint4)(((z_right_zero & 255) * 16843009u));
  if (n + 0 < z_columns && word * 4 < z_depth) found.s0 = *(__global const uint *)(p + base + (n + 0) * z_right_pitch + word * 4);
  if (n + 1 < z_columns && word * 4 < z_depth) found.s1 = *(__global const uint *)(p + base + (n + 1) * z_right_pitch + word * 4);
  if (n + 2 < z_columns && word * 4 < z_depth) found.s2 = *(__global const uint *)(p + base + (n + 2) * z_right_pitch + word * 4);
  if (n + 3 < z_columns && word * 4 < z_depth) found.s3 = *(__global const uint *)(p + base + (n + 3) * z_right_pitch + word * 4);
  return found;
}
static inline char neurald_06193e283d4f0f28_element(const int sum, const int row, const int column, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status, const int z_rows, const int z_columns, const int z_depth, const int z_left_pitch, const int z_right_pitch, const int z_length, const int z_tiles, const int z_across, const int z_steps, const int z_left_zero, const int z_right_zero) {
  return ((char)(convert_char_sat((((float)sum) * 0x1.47ae140000000p-7f))));
}
static inline void neurald_06193e283d4f0f28_store(const int sum, const int row, const int column, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status, const int z_rows, const int z_columns, const int z_depth, const int z_left_pitch, const int z_right_pitch, const int z_length, const int z_tiles, const int z_across, const int z_steps, const int z_left_zero, const int z_right_zero) {
  a0[row * z_length + column] = neurald_06193e283d4f0f28_element(sum, row, column, a0, a1, a2, status, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero);
}
static inline void neurald_06193e283d4f0f28_store4(const int4 sum, const int row, const int column, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status, const int z_rows, const int z_columns, const int z_depth, const int z_left_pitch, const int z_right_pitch, const int z_length, const int z_tiles, const int z_across, const int z_steps, const int z_left_zero, const int z_right_zero) {
  if (column + 0 < z_length) neurald_06193e283d4f0f28_store(sum.s0, row, column + 0, a0, a1, a2, status, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero);
  if (column + 1 < z_length) neurald_06193e283d4f0f28_store(sum.s1, row, column + 1, a0, a1, a2, status, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero);
  if (column + 2 < z_length) neurald_06193e283d4f0f28_store(sum.s2, row, column + 2, a0, a1, a2, status, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero);
  if (column + 3 < z_length) neurald_06193e283d4f0f28_store(sum.s3, row, column + 3, a0, a1, a2, status, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero);
}
static __attribute__((noinline)) void neurald_06193e283d4f0f28(const int group, const int lid, __local uchar *scratch, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status, const int z_rows, const int z_columns, const int z_depth, const int z_left_pitch, const int z_right_pitch, const int z_length, const int z_tiles, const int z_across, const int z_steps, const int z_left_zero, const int z_right_zero) {
  const int tile = group % z_tiles, batch = group / z_tiles;
  const int m0 = tile / z_across * 16, n0 = tile % z_across * 16, base = 0;
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
  neurald_06193e283d4f0f28_row rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) rows[i] = neurald_06193e283d4f0f28_row_of(batch, m0 + (lid + i * 256) / 64, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero);
  {
    uint left[4];
    uint4 right[1];
#define NEURALD_LOAD(step) { \
    _Pragma("unroll") for (int i = 0; i < 4; ++i) { \
      const int e = lid + i * 256; \
      if ((i + 1) * 256 <= 16 * 64 || e < 16 * 64) \
        left[i] = neurald_06193e283d4f0f28_left_word(a1, rows[i], ((step) * 64 + e % 64) * 4, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero); \
    } \
    _Pragma("unroll") for (int i = 0; i < 1; ++i) { \
      const int e = lid + i * 256; \
      if ((i + 1) * 256 <= 16 * 64 / 4 || e < 16 * 64 / 4) \
        right[i] = neurald_06193e283d4f0f28_right_words(a2, base, (step) * 64 + e / (16 / 4), n0 + e % (16 / 4) * 4, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero); \
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
    for (int step = 0; step < z_steps; ++step) {
      __local const uint *buffer = steps + step % 2 * 2112;
      if (step + 1 < z_steps) NEURALD_LOAD(step + 1)
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
          sums[i] = neurald_06193e283d4f0f28_dot4(sums[i], part.x, words[0]);
          sums[i] = neurald_06193e283d4f0f28_dot4(sums[i], part.y, words[1]);
          sums[i] = neurald_06193e283d4f0f28_dot4(sums[i], part.z, words[2]);
          sums[i] = neurald_06193e283d4f0f28_dot4(sums[i], part.w, words[3]);
          row_sums[i] = neurald_06193e283d4f0f28_dot(row_sums[i], part.x, 0x01010101u);
          row_sums[i] = neurald_06193e283d4f0f28_dot(row_sums[i], part.y, 0x01010101u);
          row_sums[i] = neurald_06193e283d4f0f28_dot(row_sums[i], part.z, 0x01010101u);
          row_sums[i] = neurald_06193e283d4f0f28_dot(row_sums[i], part.w, 0x01010101u);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) column_sums = neurald_06193e283d4f0f28_dot4(column_sums, 0x01010101u, words[k]);
        left_at += 16 * 4;
        right_at += 16 * 4 * 16;
      }
      if (step + 1 < z_steps) NEURALD_KEEP(steps + (step + 1) % 2 * 2112)
      barrier(CLK_LOCAL_MEM_FENCE);
    }
#undef NEURALD_LOAD
#undef NEURALD_KEEP
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] -= (int4)((z_right_zero) * row_sums[i]);
  if (slice == 0) column_sums -= (int4)(z_steps * (64 * 4) * (z_right_zero));
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] -= (z_left_zero) * column_sums;
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
    if (at < 256 &&  m < z_rows && n < z_columns) { neurald_06193e283d4f0f28_store4(sum, m, n, a0, a1, a2, status, z_rows, z_columns, z_depth, z_left_pitch, z_right_pitch, z_length, z_tiles, z_across, z_steps, z_left_zero, z_right_zero); }
  }
}
#endif
static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status) {
  neurald_06193e283d4f0f28(group, lid, scratch, a0, a1, a2, status, 5, 6, 12, 12, 12, 6, 1, 1, 1, 3, -1);
}
