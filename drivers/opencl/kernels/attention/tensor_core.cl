//: Attention on tensor cores, see tensor_core.py.
//:
//: BM: rows of a group, 16 for each of its DOWN warps. KS: warps that split the columns. BN:
//: columns of a warp in a step. NB: columns of a step. ITEMS: work-items of a group. STAGES: steps
//: in local memory. DEPTHS, FEATURES: blocks of 16 of the depth and of the features. KEY_CHUNKS,
//: VALUE_CHUNKS: units of 16 bytes of a row. KEY_PITCH, VALUE_PITCH: bytes of a row in local
//: memory. M, N, K, D: rows, columns, depth and features of a batch.

//: [function]
//: The whole function.
$TEXT
static inline void ${KERNEL}_copy(__local uchar *to, __global const half *from, const int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"((uint)(ulong)to), "l"((ulong)from), "r"(bytes) : "memory");
}
static inline void ${KERNEL}_read(uint4 *found, __local const uchar *from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(found->x), "=r"(found->y), "=r"(found->z), "=r"(found->w) : "r"((uint)(ulong)from) : "memory");
}
static inline void ${KERNEL}_read_turned(uint4 *found, __local const uchar *from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(found->x), "=r"(found->y), "=r"(found->z), "=r"(found->w) : "r"((uint)(ulong)from) : "memory");
}
static inline void ${KERNEL}_multiply(float *sums, const uint4 left, const uint right_low, const uint right_high) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(left.x), "r"(left.y), "r"(left.z), "r"(left.w), "r"(right_low), "r"(right_high));
}
static inline void ${KERNEL}_pair(uint *found, const float low, const float high) {
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(*found) : "f"(high), "f"(low));
}
$OTHER
//: The power of e of an exponent that is at most 0.
static inline float ${KERNEL}_power(const float exponent) {
  return neurald_power_of_two(exponent * 1.44269504f);
}
$FUNCTION {
  const int batch = group / $BLOCKS, m0 = (group - batch * $BLOCKS) * $BM;
  const int lane = lid & 31, warp = lid / 32, down = warp % $DOWN, slice = warp / $DOWN;
  const int m = m0 + down * 16 + (lane >> 2), t = lane & 3;
  const int key = ${KERNEL}_key(batch), value = ${KERNEL}_value(batch);
#define NEURALD_COPY(step, stage) { \
    __local uchar *keys = scratch + (stage) * $STEP, *values = keys + $NB * $KEY_PITCH; \
    for (int e = lid; e < $NB * $KEY_CHUNKS; e += $ITEMS) { \
      const int row = e / $KEY_CHUNKS, chunk = e % $KEY_CHUNKS, n = (step) * $NB + row; \
      const int seen = n < $N && chunk * 8 < $K; \
      ${KERNEL}_copy(keys + row * $KEY_PITCH + chunk * 16, $KEY + (seen ? key + n * $KEY_ROW + chunk * 8 : 0), seen ? 16 : 0); \
    } \
    for (int e = lid; e < $NB * $VALUE_CHUNKS; e += $ITEMS) { \
      const int row = e / $VALUE_CHUNKS, chunk = e % $VALUE_CHUNKS, n = (step) * $NB + row; \
      const int seen = n < $N && chunk * 8 < $D; \
      ${KERNEL}_copy(values + row * $VALUE_PITCH + chunk * 16, $VALUE + (seen ? value + n * $VALUE_ROW + chunk * 8 : 0), seen ? 16 : 0); \
    } }
  NEURALD_COPY(0, 0)
  asm volatile("cp.async.commit_group;" ::: "memory");
  uint4 queries[$DEPTHS];
  {
    const int query = ${KERNEL}_query(batch) + m * $QUERY_ROW + 2 * t;
#pragma unroll
    for (int k = 0; k < $DEPTHS; ++k) {
      const int is_first = k * 16 < $K, is_second = k * 16 + 8 < $K;
      __global const half *from = $QUERY + query + k * 16;
      queries[k] = (uint4)(0);
      if (m < $M && is_first) queries[k].x = *(__global const uint *)from;
      if (m + 8 < $M && is_first) queries[k].y = *(__global const uint *)(from + 8 * $QUERY_ROW);
      if (m < $M && is_second) queries[k].z = *(__global const uint *)(from + 8);
      if (m + 8 < $M && is_second) queries[k].w = *(__global const uint *)(from + 8 * $QUERY_ROW + 8);
    }
  }
  float sums[$FEATURES * 2][4];
#pragma unroll
  for (int j = 0; j < $FEATURES * 2; ++j)
#pragma unroll
    for (int z = 0; z < 4; ++z) sums[j][z] = 0;
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  const int key_row = (lane & 7) + ((lane >> 4) << 3), key_chunk = (lane >> 3) & 1;
  const int value_row = lane & 15, value_chunk = lane >> 4;
  for (int step = 0; step < $STEPS; ++step) {
    if ($STAGES == 2 && step + 1 < $STEPS) NEURALD_COPY(step + 1, (step + 1) & 1)
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group %0;" :: "n"($STAGES - 1) : "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    __local const uchar *keys = scratch + ($STAGES == 2 ? step & 1 : 0) * $STEP;
    __local const uchar *values = keys + $NB * $KEY_PITCH + slice * $BN * $VALUE_PITCH;
    keys += slice * $BN * $KEY_PITCH;
    float scores[$BN / 8][4];
#pragma unroll
    for (int j = 0; j < $BN / 8; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z) scores[j][z] = 0;
#pragma unroll
    for (int k = 0; k < $DEPTHS; ++k)
#pragma unroll
      for (int j = 0; j < $BN / 16; ++j) {
        uint4 right;
        ${KERNEL}_read(&right, keys + (key_row + j * 16) * $KEY_PITCH + (k * 2 + key_chunk) * 16);
        ${KERNEL}_multiply(scores[2 * j], queries[k], right.x, right.y);
        ${KERNEL}_multiply(scores[2 * j + 1], queries[k], right.z, right.w);
      }
    const int n0 = step * $NB + slice * $BN + 2 * t;
    float found[2] = {largest[0], largest[1]};
#pragma unroll
    for (int j = 0; j < $BN / 8; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z) {
        const int row = m + z / 2 * 8, n = n0 + j * 8 + z % 2;
        scores[j][z] = row < $M && n < $N ? ${KERNEL}_exponent(scores[j][z], batch, row, n, $ARGUMENTS) : -INFINITY;
        found[z / 2] = fmax(found[z / 2], scores[j][z]);
      }
    float kept[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float other;
      ${KERNEL}_other(&other, found[i], 1);
      found[i] = fmax(found[i], other);
      ${KERNEL}_other(&other, found[i], 2);
      found[i] = fmax(found[i], other);
      const float before = largest[i];
      largest[i] = found[i];
      // While everything is masked, exponents are compared with 0 instead: minus infinity minus
      // itself is NaN.
      if (found[i] == -INFINITY) found[i] = 0;
      kept[i] = ${KERNEL}_power(before - found[i]);
      total[i] *= kept[i];
    }
#pragma unroll
    for (int j = 0; j < $BN / 8; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z) {
        scores[j][z] = ${KERNEL}_power(scores[j][z] - found[z / 2]);
        total[z / 2] += scores[j][z];
      }
#pragma unroll
    for (int j = 0; j < $FEATURES * 2; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z) sums[j][z] *= kept[z / 2];
#pragma unroll
    for (int k = 0; k < $BN / 16; ++k) {
      uint4 left;
      uint pair;
      ${KERNEL}_pair(&pair, scores[2 * k][0], scores[2 * k][1]);
      left.x = pair;
      ${KERNEL}_pair(&pair, scores[2 * k][2], scores[2 * k][3]);
      left.y = pair;
      ${KERNEL}_pair(&pair, scores[2 * k + 1][0], scores[2 * k + 1][1]);
      left.z = pair;
      ${KERNEL}_pair(&pair, scores[2 * k + 1][2], scores[2 * k + 1][3]);
      left.w = pair;
#pragma unroll
      for (int j = 0; j < $FEATURES; ++j) {
        uint4 right;
        ${KERNEL}_read_turned(&right, values + (value_row + k * 16) * $VALUE_PITCH + (j * 2 + value_chunk) * 16);
        ${KERNEL}_multiply(sums[2 * j], left, right.x, right.y);
        ${KERNEL}_multiply(sums[2 * j + 1], left, right.z, right.w);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if ($STAGES == 1 && step + 1 < $STEPS) NEURALD_COPY(step + 1, 0)
  }
#undef NEURALD_COPY
  // The warps of a block of rows add up in turn what they have of their columns.
  __local float *parts = (__local float *)scratch + down * ($FEATURES * 8 + 4) * 32 + lane;
#pragma unroll 1
  for (int turn = 1; turn < $KS; ++turn) {
    if (slice == turn) {
#pragma unroll
      for (int j = 0; j < $FEATURES * 2; ++j)
#pragma unroll
        for (int z = 0; z < 4; ++z) parts[(j * 4 + z) * 32] = sums[j][z];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        parts[($FEATURES * 8 + i) * 32] = largest[i];
        parts[($FEATURES * 8 + 2 + i) * 32] = total[i];
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice == 0) {
      float kept[2], added[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float other = parts[($FEATURES * 8 + i) * 32], found = fmax(largest[i], other);
        const float top = found == -INFINITY ? 0.0f : found;
        kept[i] = ${KERNEL}_power(largest[i] - top);
        added[i] = ${KERNEL}_power(other - top);
        largest[i] = found;
        total[i] = total[i] * kept[i] + parts[($FEATURES * 8 + 2 + i) * 32] * added[i];
      }
#pragma unroll
      for (int j = 0; j < $FEATURES * 2; ++j)
#pragma unroll
        for (int z = 0; z < 4; ++z) sums[j][z] = sums[j][z] * kept[z / 2] + parts[(j * 4 + z) * 32] * added[z / 2];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float inverse[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float other;
    ${KERNEL}_other(&other, total[i], 1);
    total[i] += other;
    ${KERNEL}_other(&other, total[i], 2);
    inverse[i] = 1.0f / (total[i] + other);
  }
  if (slice != 0) return;
#pragma unroll
  for (int j = 0; j < $FEATURES * 2; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = m + i * 8, d = j * 8 + 2 * t;
      if (row < $M && d < $D)
        ${KERNEL}_store2(sums[j][2 * i] * inverse[i], sums[j][2 * i + 1] * inverse[i], batch, row, d, $ARGUMENTS);
    }
}
