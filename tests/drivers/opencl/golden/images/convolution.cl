typedef struct { int base, y, x; } KERNEL_NAME_row;
static inline KERNEL_NAME_row KERNEL_NAME_row_of(const int batch, const int m) {
  KERNEL_NAME_row row;
  const int image = m / 36, rest = m - image * 36;
  const int y = rest / 6, x = rest - y * 6;
  row.y = image < 1 ? y * 1 - 1 : -(1 << 29);
  row.x = x * 1 - 1;
  row.base = ((image * 6 + row.y) * 6 + row.x) * 4 + batch * 4;
  return row;
}
static inline int KERNEL_NAME_left(const KERNEL_NAME_row row, const int k) {
  const int tap = k / 4, c = k - tap * 4, i = tap / 3, j = tap - i * 3;
  const int y = i * 1, x = j * 1;
  const int seen = (uint)(row.y + y) < 6u && (uint)(row.x + x) < 6u && k < 36;
  return seen ? row.base + (y * 6 + x) * 4 + c : -1;
}
static inline float KERNEL_NAME_l1(read_only image1d_buffer_t p, const int s, const int at) { return neurald_part_float4(read_imagef(p, s + ((at) >> 2)), at); }
static inline float4 KERNEL_NAME_l4(read_only image1d_buffer_t p, const int s, const int at) { return read_imagef(p, s + ((at) >> 2)); }
static inline float KERNEL_NAME_r1(read_only image1d_buffer_t p, const int s, const int at) { return neurald_part_float4(read_imagef(p, s + ((at) >> 2)), at); }
static inline float4 KERNEL_NAME_r4(read_only image1d_buffer_t p, const int s, const int at) { return read_imagef(p, s + ((at) >> 2)); }
static inline float4 KERNEL_NAME_left4(read_only image1d_buffer_t p, const int s, const KERNEL_NAME_row row, const int k) {
  const int at = KERNEL_NAME_left(row, k);
  return at < 0 ? (float4)(0) : KERNEL_NAME_l4(p, s, at);
}
static inline float4 KERNEL_NAME_right4(read_only image1d_buffer_t p, const int s, const int base, const int k, const int n) {
  return k < 36 && n < 8 ? KERNEL_NAME_r4(p, s, base + n * 36 + k) : (float4)(0);
}
static inline void KERNEL_NAME_store4(const float4 sum, const int row, const int column, __global float *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, read_only image1d_buffer_t a3, const int s3, __global int *status) {
  const float4 v0 = read_imagef(a3, s3 + ((column) >> 2));
  const float4 v1 = (float4)(sum) + (float4)(v0);
  const float4 v2 = tanh((float4)(v1));
  *(__global float4 *)(a0 + row * 8 + column) = (float4)(v2);
}
static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, read_only image1d_buffer_t a3, const int s3, __global int *status NEURALD_MEETING) {
  const int tile = group, share = 0, batch = 0;
  const int line = tile / 1, m0 = line * 16, n0 = (tile - line * 1) * 16, base = 0;
  const int first = share * 2, last = min(2, first + 2);
  __local float *steps = (__local float *)scratch;
  const int item = lid % (64 / 4), slice = lid / (64 / 4);
  const int across = item % (16 / (4 * 1)), down = item / (16 / (4 * 1));
  float4 sums[4][1];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 1; ++j) sums[i][j] = (float4)(0);
  KERNEL_NAME_row rows[2];
  int places[2], along[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int e = lid + i * 64;
    places[i] = e / (32 / 4);
    along[i] = e % (32 / 4) * 4;
    rows[i] = KERNEL_NAME_row_of(batch, m0 + places[i]);
  }
  {
    float4 left[2], right[2];
#define NEURALD_LOAD_LEFT(step) { \
    _Pragma("unroll") for (int i = 0; i < 2; ++i) \
      if ((i + 1) * 64 <= 16 * 32 / 4 || lid + i * 64 < 16 * 32 / 4) \
        left[i] = KERNEL_NAME_left4(a1, s1, rows[i], (step) * 32 + along[i]); }
#define NEURALD_LOAD_RIGHT(step) { \
    _Pragma("unroll") for (int i = 0; i < 2; ++i) { \
      const int e = lid + i * 64; \
      if ((i + 1) * 64 <= 16 * 32 / 4 || e < 16 * 32 / 4) \
        right[i] = KERNEL_NAME_right4(a2, s2, base, (step) * 32 + (e % (32 / 4)) * 4, n0 + e / (32 / 4)); \
    } }
#define NEURALD_KEEP(buffer) { \
    _Pragma("unroll") for (int i = 0; i < 2; ++i) \
      if ((i + 1) * 64 <= 16 * 32 / 4 || lid + i * 64 < 16 * 32 / 4) \
        *(__local float4 *)((buffer) + places[i] * 36 + along[i]) = left[i]; \
    _Pragma("unroll") for (int i = 0; i < 2; ++i) { \
      const int e = lid + i * 64; \
      if ((i + 1) * 64 <= 16 * 32 / 4 || e < 16 * 32 / 4) { const int n = e / (32 / 4), k = (e % (32 / 4)) * 4; (buffer)[16 * 36 + (k + 0) * 16 + n] = right[i].s0; (buffer)[16 * 36 + (k + 1) * 16 + n] = right[i].s1; (buffer)[16 * 36 + (k + 2) * 16 + n] = right[i].s2; (buffer)[16 * 36 + (k + 3) * 16 + n] = right[i].s3; } \
    } }
    if (0 && first < last) NEURALD_LOAD_RIGHT(first)
    NEURALD_WAIT
    // The loads of the first step are those of all others: what is run once is not written twice.
#pragma unroll 1
    for (int step = first - 1; step < last; ++step) {
      if (step + 1 < last) {
        NEURALD_LOAD_LEFT(step + 1)
        if (!0 || step >= first) NEURALD_LOAD_RIGHT(step + 1)
      }
      if (step >= first) {
        __local float *buffer = steps + (step - first) % 2 * 1088;
      __local const float *left_at = buffer + down * 36 + slice * 4;
      __local const float *right_at = buffer + 16 * 36 + slice * 4 * 16 + across * 4;
#pragma unroll
      for (int q = 0; q < 32 / 4 / 4; ++q) {
        float4 right_part[4][1];
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int j = 0; j < 1; ++j)
            right_part[k][j] = *(__local const float4 *)(right_at + k * 16 + j * (16 / 1));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float4 part = *(__local const float4 *)(left_at + i * (16 / 4) * 36);
#pragma unroll
          for (int j = 0; j < 1; ++j) {
            sums[i][j] = mad((float4)(part.s0), right_part[0][j], sums[i][j]); sums[i][j] = mad((float4)(part.s1), right_part[1][j], sums[i][j]); sums[i][j] = mad((float4)(part.s2), right_part[2][j], sums[i][j]); sums[i][j] = mad((float4)(part.s3), right_part[3][j], sums[i][j]);
          }
        }
        left_at += 4 * 4;
        right_at += 4 * 4 * 16;
      }
      }
      if (step + 1 < last) NEURALD_KEEP(steps + (step + 1 - first) % 2 * 1088)
      barrier(CLK_LOCAL_MEM_FENCE);
    }
#undef NEURALD_LOAD_LEFT
#undef NEURALD_LOAD_RIGHT
#undef NEURALD_KEEP
  }
  __local float *all = steps;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 1; ++j)
      *(__local float4 *)(all + ((slice * 16 + i * (16 / 4) + down) * 16 + j * (16 / 1) + across * 4)) =
        sums[i][j];
  barrier(CLK_LOCAL_MEM_FENCE);
  float4 totals[1];
#pragma unroll
  for (int e = 0; e < 1; ++e) {
    float4 sum = (float4)(0);
    if ((lid + e * 64) * 4 < 16 * 16) {
#pragma unroll
      for (int z = 0; z < 4; ++z) sum += *(__local float4 *)(all + z * 16 * 16 + (lid + e * 64) * 4);
    }
    totals[e] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int e = 0; e < 1; ++e) {
    const int at = (lid + e * 64) * 4;
    const int m = m0 + lid * 4 / 16 + e * 16, n = n0 + lid * 4 % 16;
    const float4 sum = totals[e];
    if (at < 256 &&  m < 36 && n < 8) { KERNEL_NAME_store4(sum, m, n, a0, a1, s1, a2, s2, a3, s3, status); }
  }
}
