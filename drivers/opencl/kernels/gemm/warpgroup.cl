//: Matrix products by instructions of whole warpgroups, see warpgroup.py.
//:
//: BM, BN: rows and columns of a tile. BYTES: bytes of each row in a step. CHUNKS: the same in
//: units of 16 bytes. STEP: bytes of a step of both matrices. STAGES: steps in local memory. SIZE:
//: bytes of an element. ITEMS: work-items of a group. NA, NB: chunks of the left and right matrix
//: that a work-item copies in a step. COUNT: accumulators of a work-item. BLOCKS: times 64 rows of
//: a warpgroup. BLOCK_BYTES: of 64 columns in a step. SLAB_PITCH: accumulators between rows in
//: local memory. UNROLLED: vectors that a work-item computes before it stores them. VALUE: their
//: type. COUNTERS_AT: where counters begin in local memory. LOADED: the argument whose elements are
//: loaded while steps are multiplied, of LOADED_TYPE.

//: [function]
//: The whole function, and those that it calls.
static inline int ${KERNEL}_place(const int row, const int chunk) {
  return row * $BYTES + ((chunk ^ $SWIZZLE) << 4);
}
static inline void ${KERNEL}_copy(__local uchar *to, __global const void *from, const int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"((uint)(ulong)to), "l"((ulong)from), "r"(bytes) : "memory");
}
static inline ulong ${KERNEL}_matrix(__local const uchar *at) {
  return $DESCRIPTOR | ((uint)(ulong)at & 0x3ffff) >> 4;
}
$MULTIPLYING
static inline void ${KERNEL}_fetch(__local uchar *to, __global const void *from, __local ulong *arrived) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"((uint)(ulong)to), "l"((ulong)from), "r"($BLOCK_BYTES), "r"((uint)(ulong)arrived) : "memory");
}
static inline void ${KERNEL}_expect(__local ulong *arrived, const int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"((uint)(ulong)arrived), "r"(bytes) : "memory");
}
static inline void ${KERNEL}_await(__local ulong *arrived, const uint phase) {
  uint done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"((uint)(ulong)arrived), "r"(phase) : "memory");
}
$FUNCTION {
  $SHARE
  const int line = tile / $across, m0 = line * $BM, n0 = (tile - line * $across) * $BN, base = $BASE;
  const int lane = lid & 31, down = lid / 128 * (64 * $BLOCKS) + lid / 32 % 4 * 16;
  const int chunk = lid % $CHUNKS, place = lid / $CHUNKS;
#define NEURALD_PLACE(e) \
    const int slab_row = (e) / ($BN / 4), slab_column = (e) % ($BN / 4) * 4; \
    const int m = m0 + down + slab_row / 16 * 64 + slab_row % 16, n = n0 + slab_column;
  ${KERNEL}_row rows[$NA];
#pragma unroll
  for (int i = 0; i < $NA; ++i) rows[i] = ${KERNEL}_row_of(batch, m0 + place + i * ($ITEMS / $CHUNKS)$SIZE_ARGUMENTS);
  $T sums[$BLOCKS][$COUNT];
#pragma unroll
  for (int i = 0; i < $BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < $COUNT; ++j) sums[i][j] = 0;
$BEGIN
#define NEURALD_COPY(step, stage) { \
    if ((step) < $steps) { \
      const int k = (step) * ($BYTES / $SIZE) + chunk * $EACH_CHUNK; \
      __local uchar *to = scratch + (stage) * $STEP; \
      _Pragma("unroll") for (int i = 0; i < $NA; ++i) { \
        const int row = place + i * ($ITEMS / $CHUNKS); \
        if ($BM * $CHUNKS % $ITEMS == 0 || row < $BM) { \
$COPY_LEFT
        } \
      } \
$COPY_RIGHT
    } }
#define NEURALD_COPIED asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll 1
  for (int stage = 0; stage < $AHEAD; ++stage) {
    NEURALD_COPY(stage, stage)
    NEURALD_COPIED
  }
$BEGIN_LOADING
$LOOP
#undef NEURALD_COPY
#undef NEURALD_COPIED
  asm volatile("cp.async.wait_all;" ::: "memory");
  barrier(CLK_LOCAL_MEM_FENCE);
  // A warp stores its rows through its part of local memory, which is free now.
  __local $T *slab = (__local $T *)scratch + lid / 32 * (16 * $BLOCKS * $SLAB_PITCH);
#pragma unroll
  for (int i = 0; i < $BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < $COUNT / 4; ++j) {
      __local $T *to = slab + (i * 16 + (lane >> 2)) * $SLAB_PITCH + j * 8 + 2 * (lane & 3);
      *(__local ${T}2 *)to = (${T}2)(sums[i][j * 4], sums[i][j * 4 + 1]);
      *(__local ${T}2 *)(to + 8 * $SLAB_PITCH) = (${T}2)(sums[i][j * 4 + 2], sums[i][j * 4 + 3]);
    }
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
$STORE_ALL
#undef NEURALD_PLACE
#undef NEURALD_LOADED
}

//: [store_each]
//: Stores vectors one by one.
#pragma unroll 1
  for (int e = lane; e < 16 * $BLOCKS * $BN / 4; e += 32) {
    NEURALD_PLACE(e)
    const ${T}4 sum = *(__local const ${T}4 *)(slab + slab_row * $SLAB_PITCH + slab_column);
    if (m < $rows && n < $columns) { $STORE }
  }

//: [store_together]
//: Computes several vectors before it stores them, so that all of their loads are under way.
#pragma unroll 1
  for (int turn = lane; turn < 16 * $BLOCKS * $BN / 4; turn += 32 * $UNROLLED) {
    $VALUE found[$UNROLLED];
#pragma unroll
    for (int i = 0; i < $UNROLLED; ++i) {
      NEURALD_PLACE(turn + i * 32)
      const ${T}4 sum = *(__local const ${T}4 *)(slab + slab_row * $SLAB_PITCH + slab_column);
      const int row = min(m, $rows - 1), column = min(n, $columns - 4);
      found[i] = ${KERNEL}_value4(sum, $ROW, $COLUMN, $GIVEN$ARGUMENTS$SIZE_ARGUMENTS);
    }
$LOAD_NEXT
#pragma unroll
    for (int i = 0; i < $UNROLLED; ++i) {
      NEURALD_PLACE(turn + i * 32)
      const int row = m, column = n;
      if (m < $rows && n < $columns) { $STORE_VALUE }
    }
  }

//: [begin_loading]
//: Loads elements for the first results while steps are multiplied.
  $LOADED_TYPE loaded[$UNROLLED];
#define NEURALD_LOADED(turn) \
    _Pragma("unroll") for (int i = 0; i < $UNROLLED; ++i) { \
      NEURALD_PLACE((turn) + i * 32) \
      const int row = min(m, $rows - 1), column = min(n, $columns - 4); \
      loaded[i] = *(__global const $LOADED_TYPE *)($LOADED + (($ROW) * $length + $COLUMN)); \
    }
  NEURALD_LOADED(lane)

//: [load_next]
//: Loads those for the results of the next turn.
    if (turn + 32 * $UNROLLED < 16 * $BLOCKS * $BN / 4) NEURALD_LOADED(turn + 32 * $UNROLLED)

//: [copy_left]
//: Copies sixteen contiguous bytes of the left matrix.
          const int at = ${KERNEL}_left(rows[i], k$SIZE_ARGUMENTS); \
          ${KERNEL}_copy(to + ${KERNEL}_place(row, chunk), a1 + max(at, 0), at < 0 ? 0 : 16); \

//: [copy_left_or_zero]
//: The same where missing elements have a zero point; the next fence and barrier make it visible.
          const int at = ${KERNEL}_left(rows[i], k$SIZE_ARGUMENTS); \
          if (at < 0) *(__local uint4 *)(to + ${KERNEL}_place(row, chunk)) = (uint4)((uint)$zeros); \
          else ${KERNEL}_copy(to + ${KERNEL}_place(row, chunk), a1 + at, 16); \

//: [copy_right]
//: Copies the columns of the right matrix, 16 bytes at a time.
      _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \
        const int row = place + i * ($ITEMS / $CHUNKS), seen = k < $depth && n0 + row < $columns; \
        if ($BN * $CHUNKS % $ITEMS == 0 || row < $BN) \
          ${KERNEL}_copy(to + $BM * $BYTES + ${KERNEL}_place(row, chunk), \
                         a2 + (seen ? base + (n0 + row) * $pitch + k : 0), seen ? 16 : 0); \
      } \

//: [begin_blocks]
//: Prepares counters of the bytes that have arrived in each stage.
  __local ulong *arrived = (__local ulong *)(scratch + $COUNTERS_AT);
  uint phase = 0;
  if (lid == 0) {
    for (int i = 0; i < $STAGES; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"((uint)(ulong)(arrived + i)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int blocks = min($BN / 64, $column_blocks - n0 / 64);
  __global const $RIGHT *from = a2 + base + n0 / 64 * $block_pitch;

//: [copy_blocks]
//: Copies blocks of 64 columns of the right matrix, which lie in order of local memory.
      if (lid == 0) { \
        ${KERNEL}_expect(arrived + (stage), blocks * $BLOCK_BYTES); \
        for (int i = 0; i < blocks; ++i) \
          ${KERNEL}_fetch(to + $BM * $BYTES + i * $BLOCK_BYTES, from + i * $block_pitch + (step) * ($BLOCK_BYTES / $SIZE), arrived + (stage)); \
      } \

//: [await_blocks]
//: Waits for the blocks of a step.
    ${KERNEL}_await(arrived + stage, phase);

//: [next_blocks]
//: Follows a step: `phase` is that of the next one's counter.
    phase ^= stage == 0;

//: [multiplying]
//: Functions that begin to multiply a step, and wait until it is multiplied.
static inline void ${KERNEL}_multiply($T *sums, __local const uchar *left, __local const uchar *right) {
  asm volatile($INSTRUCTIONS
               : $OPERANDS
               : "l"(${KERNEL}_matrix(left)), "l"(${KERNEL}_matrix(right)) : "memory");
}
static inline void ${KERNEL}_wait($T *sums) {
  asm volatile("//@ wgmma.wait_group.sync.aligned 0;\n" : $OPERANDS :: "memory");
}

//: [loop]
//: The loop over steps.
  int stage = 0;
#pragma unroll 1
  for (int step = 0; step < $steps; ++step) {
    asm volatile("cp.async.wait_group %0;" :: "n"($AHEAD - 1) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
$AWAIT
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < $BLOCKS; ++i)
      ${KERNEL}_multiply(sums[i], scratch + stage * $STEP + (lid / 128 * $BLOCKS + i) * (64 * $BYTES), scratch + stage * $STEP + $BM * $BYTES);
    // The next copies are requested while the step is multiplied.
    NEURALD_COPY(step + $STAGES - 1, stage == 0 ? $STAGES - 1 : stage - 1)
    NEURALD_COPIED
#pragma unroll
    for (int i = 0; i < $BLOCKS; ++i) ${KERNEL}_wait(sums[i]);
    stage = stage + 1 == $STAGES ? 0 : stage + 1;
$NEXT
  }

//: [running]
//: Function with the whole loop over steps, see warpgroup_loop.py.
static inline void ${KERNEL}_run($T (*sums)[$COUNT], const ulong *left, const int *sizes, __local uchar *scratch, __local uchar *to, __local uchar *rows, __local ulong *arrived, const int steps, const int row_bytes, const ulong right, const ulong pitch, const int blocks) {
  asm volatile($INSTRUCTIONS
               : $OPERANDS
               : $ADDRESSES, "r"((uint)(ulong)scratch), "r"((uint)(ulong)to), "r"((uint)(ulong)rows), "r"((uint)(ulong)arrived), "r"(steps), "r"(row_bytes), "l"(right), "l"(pitch), "r"(blocks) : "memory");
}

//: [run]
//: Calls that function; a row that is missing has chunks of no bytes.
  ulong lefts[$NA];
  int sizes[$NA];
#pragma unroll
  for (int i = 0; i < $NA; ++i) {
    const int at = ${KERNEL}_left(rows[i], 0$SIZE_ARGUMENTS);
    sizes[i] = at < 0 ? 0 : 16;
    lefts[i] = (ulong)(a1 + max(at, 0)) + (at < 0 ? 0 : $AHEAD * $BYTES + chunk * 16);
  }
  ${KERNEL}_run(sums, lefts, sizes, scratch, scratch + ${KERNEL}_place(place, chunk), scratch + lid / 128 * (64 * $BLOCKS * $BYTES), arrived, $steps, $depth * $SIZE - chunk * 16, (ulong)from + $AHEAD * $BLOCK_BYTES, $block_pitch * $SIZE, lid == 0 ? blocks : 0);
