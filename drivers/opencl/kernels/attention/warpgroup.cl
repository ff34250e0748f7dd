//: Attention by instructions of whole warpgroups, see warpgroup.py.
//:
//: BM: rows of a group, 64 for each warpgroup. BN: columns of a step. ITEMS: work-items of a group.
//: STAGES: steps in local memory. STEP: bytes of a step. DEPTH_CHUNKS, FEATURE_CHUNKS: units of 16
//: bytes of a row. FIRST_BYTES: of the queries. KEY_BYTES: of the keys of a step. COUNT, SUMS:
//: accumulators of a work-item for scores and for sums of values. SLAB_PITCH: floats between rows
//: that are stored. M, N, K, D: rows, columns, depth and features of a batch.

//: [function]
//: The whole function.
$TEXT
static inline void ${KERNEL}_copy(__local uchar *to, __global const half *from, const int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"((uint)(ulong)to), "l"((ulong)from), "r"(bytes) : "memory");
}
static inline void ${KERNEL}_score(float *scores, __local const uchar *queries, __local const uchar *keys) {
  asm volatile($SCORING
               : $SCORES : "r"((uint)(ulong)queries), "r"((uint)(ulong)keys) : "memory");
}
static inline void ${KERNEL}_weigh(float *sums, const uint *weights, __local const uchar *values) {
  asm volatile($WEIGHING
               : $WEIGHTED : $WEIGHTS, "r"((uint)(ulong)values) : "memory");
}
static inline void ${KERNEL}_pair(uint *found, const float low, const float high) {
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(*found) : "f"(high), "f"(low));
}
$OTHER
//: Places of a chunk of 16 bytes: blocks of 128 bytes of each row follow each other, and chunks of
//: a row are swizzled.
static inline int ${KERNEL}_place(const int rows, const int row, const int chunk) {
  return (chunk >> 3) * rows * 128 + row * 128 + (((chunk & 7) ^ (row & 7)) << 4);
}
$FUNCTION {
  const int batch = group / $BLOCKS, m0 = (group - batch * $BLOCKS) * $BM;
  const int lane = lid & 31, m = m0 + lid / 32 * 16 + (lane >> 2), t = lane & 3;
  const int query = ${KERNEL}_query(batch), key = ${KERNEL}_key(batch), value = ${KERNEL}_value(batch);
#define NEURALD_COPY(step, stage) { \
    __local uchar *keys = scratch + $FIRST_BYTES + (stage) * $STEP, *values = keys + $KEY_BYTES; \
    for (int e = lid; e < $BN * $DEPTH_CHUNKS; e += $ITEMS) { \
      const int row = e / $DEPTH_CHUNKS, chunk = e % $DEPTH_CHUNKS, n = (step) * $BN + row; \
      const int seen = n < $N && chunk * 8 < $K; \
      ${KERNEL}_copy(keys + ${KERNEL}_place($BN, row, chunk), $KEY + (seen ? key + n * $KEY_ROW + chunk * 8 : 0), seen ? 16 : 0); \
    } \
    for (int e = lid; e < $BN * $FEATURE_CHUNKS; e += $ITEMS) { \
      const int row = e / $FEATURE_CHUNKS, chunk = e % $FEATURE_CHUNKS, n = (step) * $BN + row; \
      const int seen = n < $N && chunk * 8 < $D; \
      ${KERNEL}_copy(values + ${KERNEL}_place($BN, row, chunk), $VALUE + (seen ? value + n * $VALUE_ROW + chunk * 8 : 0), seen ? 16 : 0); \
    } }
  for (int e = lid; e < $BM * $DEPTH_CHUNKS; e += $ITEMS) {
    const int row = e / $DEPTH_CHUNKS, chunk = e % $DEPTH_CHUNKS;
    const int seen = m0 + row < $M && chunk * 8 < $K;
    ${KERNEL}_copy(scratch + ${KERNEL}_place($BM, row, chunk), $QUERY + (seen ? query + (m0 + row) * $QUERY_ROW + chunk * 8 : 0), seen ? 16 : 0);
  }
  NEURALD_COPY(0, 0)
  float sums[$SUMS];
#pragma unroll
  for (int j = 0; j < $SUMS; ++j) sums[j] = 0;
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
#pragma unroll 1
  for (int step = 0; step < $STEPS; ++step) {
    asm volatile("cp.async.wait_all;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    if (step + 1 < $STEPS) NEURALD_COPY(step + 1, (step + 1) % $STAGES)
    __local const uchar *keys = scratch + $FIRST_BYTES + step % $STAGES * $STEP;
    float scores[$COUNT];
    ${KERNEL}_score(scores, scratch + lid / 128 * 8192, keys);
    const int n0 = step * $BN + 2 * t;
    float found[2] = {largest[0], largest[1]}, start[2], kept[2];
#pragma unroll
    for (int j = 0; j < $COUNT; ++j) {
      const int row = min(m + j / 2 % 2 * 8, $M - 1), n = n0 + j / 4 * 8 + j % 2;
      scores[j] = ${KERNEL}_exponent(scores[j], batch, row, min(n, $N - 1), $ARGUMENTS);
      if ($N % $BN != 0 && n >= $N) scores[j] = -INFINITY;
      found[j / 2 % 2] = fmax(found[j / 2 % 2], scores[j]);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float other;
      ${KERNEL}_other(&other, found[i], 1);
      found[i] = fmax(found[i], other);
      ${KERNEL}_other(&other, found[i], 2);
      found[i] = fmax(found[i], other);
      // While everything is masked, exponents are compared with 0 instead: minus infinity minus
      // itself is NaN.
      start[i] = found[i] == -INFINITY ? 0 : found[i] * -1.44269504f;
      kept[i] = neurald_power_of_two(mad(largest[i], 1.44269504f, start[i]));
      largest[i] = found[i];
      total[i] *= kept[i];
    }
    uint weights[$COUNT / 2];
#pragma unroll
    for (int j = 0; j < $COUNT / 2; ++j) {
      float low = neurald_power_of_two(mad(scores[2 * j], 1.44269504f, start[j % 2]));
      float high = neurald_power_of_two(mad(scores[2 * j + 1], 1.44269504f, start[j % 2]));
      total[j % 2] += low + high;
      uint pair;
      ${KERNEL}_pair(&pair, low, high);
      weights[j] = pair;
    }
    if (step)
#pragma unroll
      for (int j = 0; j < $SUMS; ++j) sums[j] *= kept[j / 2 % 2];
    ${KERNEL}_weigh(sums, weights, keys + $KEY_BYTES);
  }
#undef NEURALD_COPY
  float inverse[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float other;
    ${KERNEL}_other(&other, total[i], 1);
    total[i] += other;
    ${KERNEL}_other(&other, total[i], 2);
    inverse[i] = 1.0f / (total[i] + other);
  }
  // Through local memory, which is free now, a warp stores whole rows.
  barrier(CLK_LOCAL_MEM_FENCE);
  __local float *slab = (__local float *)scratch + lid / 32 * (16 * $SLAB_PITCH);
#pragma unroll
  for (int j = 0; j < $SUMS / 2; ++j)
    *(__local float2 *)(slab + ((lane >> 2) + j % 2 * 8) * $SLAB_PITCH + j / 2 * 8 + 2 * t) =
      (float2)(sums[2 * j] * inverse[j % 2], sums[2 * j + 1] * inverse[j % 2]);
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#pragma unroll 4
  for (int e = lane; e < 16 * $SUMS; e += 32) {
    const int line = e / $SUMS, d = e % $SUMS * 2, row = m0 + lid / 32 * 16 + line;
    const float2 found = *(__local const float2 *)(slab + line * $SLAB_PITCH + d);
    if (row < $M) ${KERNEL}_store2(found.x, found.y, batch, row, d, $ARGUMENTS);
  }
}
