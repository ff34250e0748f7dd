//: Matrix products on tensor cores, see tensor_core.py.
//:
//: BM, BN: rows and columns of a tile. WM, WN: those of a warp.
//: BYTES: bytes of each row in a step. CHUNKS: the same in units of 16 bytes. SIZE: bytes of an
//: element. ITEMS: work-items of a group. KS: warps that split the depth of a step. PARTS: parts of
//: a step that a warp multiplies. NA, NB: chunks of the left and right matrix that a work-item
//: copies in a step. REST_...: only for FLOAT32 as a sum of two TF32; empty for other types.

//: [function]
//: The function up to where its accumulators are known, and the functions that it calls.
static inline uint ${KERNEL}_place(const int row, const int chunk) {
  return row * $BYTES + ((chunk ^ $SWIZZLE) << 4);
}
static inline void ${KERNEL}_copy(const uint to, const ulong from, const int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
static inline uint4 ${KERNEL}_read(const uint at) {
  uint4 found;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w) : "r"(at) : "memory");
  return found;
}
$SPLITTING

static inline void ${KERNEL}_multiply($T *sums, const uint4 left, const uint right_low, const uint right_high) {
  asm volatile("mma.sync.aligned.$MULTIPLY {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+$HOLD"(sums[0]), "+$HOLD"(sums[1]), "+$HOLD"(sums[2]), "+$HOLD"(sums[3])
               : "r"(left.x), "r"(left.y), "r"(left.z), "r"(left.w), "r"(right_low), "r"(right_high));
}
$FUNCTION {
  $SHARE
  const int line = tile / $across, m0 = line * $BM, n0 = (tile - line * $across) * $BN, base = $BASE;
  const int first = share * $each, last = min($steps, first + $each);
  const uint local_at = (uint)(ulong)scratch;
  const int lane = lid & 31, warp = lid / 32 % $WARPS, slice = lid / 32 / $WARPS;
  const int down = warp / $ACROSS_WARPS * $WM, across = warp % $ACROSS_WARPS * $WN;
  const int chunk = lid % $CHUNKS, place = lid / $CHUNKS;
  ${KERNEL}_row rows[$NA];
#pragma unroll
  for (int i = 0; i < $NA; ++i) rows[i] = ${KERNEL}_row_of(batch, m0 + place + i * ($ITEMS / $CHUNKS)$SIZE_ARGUMENTS);
  $T sums[$WM / 16][$WN / 8][4];
#pragma unroll
  for (int i = 0; i < $WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < $WN / 8; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z) sums[i][j][z] = 0;
$REST_BEGIN
#define NEURALD_COPY_LEFT(step, stage) { \
    if ((step) < last) { \
      const int k = (step) * ($BYTES / $SIZE) + chunk * $EACH_CHUNK; \
      const uint to = local_at + (stage) * $STEP; \
      _Pragma("unroll") for (int i = 0; i < $NA; ++i) { \
        const int row = place + i * ($ITEMS / $CHUNKS); \
        if ($BM * $CHUNKS >= $ITEMS || row < $BM) { \
$COPY_LEFT
        } \
      } \
    } }
#define NEURALD_COPY_RIGHT(step, stage) { \
    if ((step) < last) { \
      const int k = (step) * ($BYTES / $SIZE) + chunk * $EACH_CHUNK; \
      const uint to = local_at + (stage) * $STEP; \
      _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \
        const int row = place + i * ($ITEMS / $CHUNKS), seen = k < $depth && n0 + row < $columns; \
        if ($BN * $CHUNKS >= $ITEMS || row < $BN) \
          ${KERNEL}_copy(to + $BM * $BYTES + ${KERNEL}_place(row, chunk), \
                         (ulong)(a2 + (seen ? base + (n0 + row) * $pitch + k : 0)), seen ? 16 : 0); \
      } \
    } }
$COPY_BEGIN
  const int left_row = down + (lane & 15), left_chunk = lane >> 4;
  const int right_row = across + (lane & 7) + ((lane >> 4) << 3), right_chunk = (lane >> 3) & 1;
$LOOP
$COPY_END
$REST_END

//: [loop]
//: The loop over steps: each is multiplied from local memory.
  for (int step = first; step < last; ++step) {
    asm volatile("cp.async.wait_group %0;" :: "n"($STAGES - 2) : "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
$COPY_EARLY
$REST_STEP
    const uint left_at = local_at + stage * $STEP, right_at = left_at + $BM * $BYTES;
#pragma unroll
    for (int part = 0; part < $PARTS; ++part) {
      const int at = (part * $KS + slice) * 2;
      uint4 left[$WM / 16], right[$WN / 16];
#pragma unroll
      for (int i = 0; i < $WM / 16; ++i)
        left[i] = ${KERNEL}_read(left_at + ${KERNEL}_place(left_row + i * 16, at + left_chunk));
#pragma unroll
      for (int j = 0; j < $WN / 16; ++j)
        right[j] = ${KERNEL}_read(right_at + ${KERNEL}_place(right_row + j * 16, at + right_chunk));
$REST_FACTORS
#pragma unroll
      for (int i = 0; i < $WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < $WN / 16; ++j) {
$REST_MULTIPLY
          ${KERNEL}_multiply($SUMS[i][2 * j], left[i], right[j].x, right[j].y);
          ${KERNEL}_multiply($SUMS[i][2 * j + 1], left[i], right[j].z, right[j].w);
        }
    }
$REST_STEP_END
$COPY_LATE
    stage = stage + 1 == $STAGES ? 0 : stage + 1;
  }

//: [loop_ahead]
//: The same, where the factors of a part are read while the part before is multiplied. A buffer is
//: filled again as soon as its last part is read. PARTS is even.
  uint4 left[2][$WM / 16], right[2][$WN / 16];
#define NEURALD_READ(to, part) { \
    const uint left_at = local_at + stage * $STEP, right_at = left_at + $BM * $BYTES; \
    _Pragma("unroll") for (int i = 0; i < $WM / 16; ++i) \
      left[to][i] = ${KERNEL}_read(left_at + ${KERNEL}_place(left_row + i * 16, (part) * 2 + left_chunk)); \
    _Pragma("unroll") for (int j = 0; j < $WN / 16; ++j) \
      right[to][j] = ${KERNEL}_read(right_at + ${KERNEL}_place(right_row + j * 16, (part) * 2 + right_chunk)); }
  NEURALD_COPY_LEFT(first + $STAGES - 1, $STAGES - 1)
  NEURALD_COPY_RIGHT(first + $STAGES - 1, $STAGES - 1)
  NEURALD_COPIED
  asm volatile("cp.async.wait_group %0;" :: "n"($STAGES - 1) : "memory");
  barrier(CLK_LOCAL_MEM_FENCE);
  NEURALD_READ(0, 0)
#pragma unroll 1
  for (int step = first; step < last; ++step) {
#pragma unroll
    for (int part = 0; part < $PARTS; ++part) {
      if (part == $PARTS - 1) {
        asm volatile("cp.async.wait_group %0;" :: "n"($STAGES - 2) : "memory");
        barrier(CLK_LOCAL_MEM_FENCE);
        NEURALD_COPY_LEFT(step + $STAGES, stage)
        NEURALD_COPY_RIGHT(step + $STAGES, stage)
        NEURALD_COPIED
        stage = stage + 1 == $STAGES ? 0 : stage + 1;
      }
      NEURALD_READ(1 - part % 2, (part + 1) % $PARTS)
#pragma unroll
      for (int i = 0; i < $WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < $WN / 16; ++j) {
          ${KERNEL}_multiply(sums[i][2 * j], left[part % 2][i], right[part % 2][j].x, right[part % 2][j].y);
          ${KERNEL}_multiply(sums[i][2 * j + 1], left[part % 2][i], right[part % 2][j].z, right[part % 2][j].w);
        }
    }
  }
#undef NEURALD_READ

//: [gather]
//: Stores the accumulators of a group in local memory.
  __local $T *all = (__local $T *)scratch;
#pragma unroll
  for (int i = 0; i < $WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < $WN / 8; ++j) {
      __local $T *to = all + (slice * $BM + down + i * 16 + (lane >> 2)) * $BN + across + j * 8 + 2 * (lane & 3);
      *(__local ${T}2 *)to = (${T}2)(sums[i][j][0], sums[i][j][1]);
      *(__local ${T}2 *)(to + 8 * $BN) = (${T}2)(sums[i][j][2], sums[i][j][3]);
    }
  barrier(CLK_LOCAL_MEM_FENCE);

//: [store_by_warp]
//: The end of a function: each warp stores 16 of its rows at a time, through its part of local
//: memory.
  __local $T *slab = (__local $T *)scratch + warp * (16 * ($WN + 4));
#pragma unroll
  for (int i = 0; i < $WM / 16; ++i) {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#pragma unroll
    for (int j = 0; j < $WN / 8; ++j) {
      __local $T *to = slab + (lane >> 2) * ($WN + 4) + j * 8 + 2 * (lane & 3);
      *(__local ${T}2 *)to = (${T}2)(sums[i][j][0], sums[i][j][1]);
      *(__local ${T}2 *)(to + 8 * ($WN + 4)) = (${T}2)(sums[i][j][2], sums[i][j][3]);
    }
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#pragma unroll 2
    for (int e = lane; e < 16 * $WN / 4; e += 32) {
      const int row = e / ($WN / 4), column = e % ($WN / 4) * 4;
      const int m = m0 + down + i * 16 + row, n = n0 + across + column;
      const ${T}4 sum = *(__local const ${T}4 *)(slab + row * ($WN + 4) + column);
      if (m < $rows && n < $columns) { $STORE }
    }
  }
}

//: [copy_left]
//: Copies sixteen contiguous bytes of the left matrix.
          const int at = ${KERNEL}_left(rows[i], k$SIZE_ARGUMENTS); \
          ${KERNEL}_copy(to + ${KERNEL}_place(row, chunk), (ulong)(a1 + max(at, 0)), at < 0 ? 0 : 16); \

//: [copy_left_or_zero]
//: The same where missing elements have a zero point; the next barrier makes it visible.
          const int at = ${KERNEL}_left(rows[i], k$SIZE_ARGUMENTS); \
          if (at < 0) \
            *(__local uint4 *)(scratch + (stage) * $STEP + ${KERNEL}_place(row, chunk)) = (uint4)((uint)$zeros); \
          else \
            ${KERNEL}_copy(to + ${KERNEL}_place(row, chunk), (ulong)(a1 + at), 16); \

//: [gather_left]
//: Gathers sixteen bytes element by element, or the zero point; the next barrier makes them
//: visible.
          $BITS found[$EACH_CHUNK] __attribute__((aligned(16))); \
          _Pragma("unroll") for (int e = 0; e < $EACH_CHUNK; ++e) { \
            const int at = ${KERNEL}_left(rows[i], k + e$SIZE_ARGUMENTS); \
            const $BITS bits = ((__global const $BITS *)a1)[max(at, 0)]; \
            found[e] = at < 0 ? ($BITS)$zeros : bits; \
          } \
          *(__local uint4 *)(scratch + (stage) * $STEP + ${KERNEL}_place(row, chunk)) = *(uint4 *)found; \

//: [splitting]
//: Splits a FLOAT32 into a TF32 and the remainder as another TF32.
static inline uint ${KERNEL}_rest(uint *value) {
  const uint first = *value & 0xffffe000u;
  uint rest;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rest) : "f"(as_float(*value) - as_float(first)));
  *value = first;
  return rest;
}
static inline uint4 ${KERNEL}_rest4(uint4 *values) {
  uint4 v = *values, rest;
  uint one;
  one = v.x; rest.x = ${KERNEL}_rest(&one); v.x = one;
  one = v.y; rest.y = ${KERNEL}_rest(&one); v.y = one;
  one = v.z; rest.z = ${KERNEL}_rest(&one); v.z = one;
  one = v.w; rest.w = ${KERNEL}_rest(&one); v.w = one;
  *values = v;
  return rest;
}

//: [rest_begin]
//: Accumulators of products with a remainder.
  float rest[$WM / 16][$WN / 8][4];
#pragma unroll
  for (int i = 0; i < $WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < $WN / 8; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z) rest[i][j][z] = 0;

//: [rest_step]
//: Accumulators of one step: tensor cores truncate sums, so they must not add up many steps.
    float step_sums[$WM / 16][$WN / 8][4];
#pragma unroll
    for (int i = 0; i < $WM / 16; ++i)
#pragma unroll
      for (int j = 0; j < $WN / 8; ++j)
#pragma unroll
        for (int z = 0; z < 4; ++z) step_sums[i][j][z] = 0;

//: [rest_step_end]
//: Adds the accumulators of a step to those of all steps.
#pragma unroll
    for (int i = 0; i < $WM / 16; ++i)
#pragma unroll
      for (int j = 0; j < $WN / 8; ++j)
#pragma unroll
        for (int z = 0; z < 4; ++z) sums[i][j][z] += step_sums[i][j][z];

//: [rest_factors]
//: Splits the factors.
      uint4 left_rest[$WM / 16], right_rest[$WN / 16];
#pragma unroll
      for (int i = 0; i < $WM / 16; ++i) left_rest[i] = ${KERNEL}_rest4(&left[i]);
#pragma unroll
      for (int j = 0; j < $WN / 16; ++j) right_rest[j] = ${KERNEL}_rest4(&right[j]);

//: [rest_multiply]
//: Multiplies the remainders.
          ${KERNEL}_multiply(rest[i][2 * j], left[i], right_rest[j].x, right_rest[j].y);
          ${KERNEL}_multiply(rest[i][2 * j + 1], left[i], right_rest[j].z, right_rest[j].w);
          ${KERNEL}_multiply(rest[i][2 * j], left_rest[i], right[j].x, right[j].y);
          ${KERNEL}_multiply(rest[i][2 * j + 1], left_rest[i], right[j].z, right[j].w);

//: [rest_end]
//: Adds the products with a remainder, unless the main accumulator is infinite or NaN.
#pragma unroll
  for (int i = 0; i < $WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < $WN / 8; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z)
        if (isfinite(sums[i][j][z])) sums[i][j][z] += rest[i][j][z];
