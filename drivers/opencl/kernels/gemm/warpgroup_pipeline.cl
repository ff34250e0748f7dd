//: Matrix products of warpgroups with separate roles, see warpgroup_pipeline.py.
//:
//: BM, BN: rows and columns of a tile. BYTES: bytes of each row in a step. STEP: bytes of a step of
//: both matrices. STAGES: steps in local memory. SIZE: bytes of an element. NA: chunks of the left
//: matrix that a work-item copies in a step. COUNT: accumulators of a work-item for 64 rows. BLOCKS:
//: times 64 rows of a warpgroup. SHARING: warpgroups that share a tile. TEAMS: tiles that are under way
//: together. MULTIPLYING: work-items that multiply. BLOCK_BYTES: of 64 columns in a step. SLAB: columns
//: of 16 rows that a warp stores at a time. SLAB_PITCH: accumulators between rows in its part of local
//: memory; SLABS_AT: where these parts begin. VALUE: the type of four elements.

//: [function]
//: The whole function, and those that it calls.
static inline void ${KERNEL}_copy(const uint to, __global const void *from, const int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"((ulong)from), "r"(bytes) : "memory");
}
static inline void ${KERNEL}_fetch(const uint to, __global const void *from, const uint arrived) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(to), "l"((ulong)from), "r"($BLOCK_BYTES), "r"(arrived) : "memory");
}
static inline void ${KERNEL}_expect(const uint arrived, const int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(arrived), "r"(bytes) : "memory");
}
static inline void ${KERNEL}_copied(const uint arrived) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(arrived) : "memory");
}
static inline void ${KERNEL}_await(const uint counter, const uint phase) {
  uint done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(counter), "r"(phase) : "memory");
}
static inline void ${KERNEL}_meet() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
static inline void ${KERNEL}_run($T (*sums)[$COUNT], const uint full, const uint empty, const uint left, const uint right, const uint stage, const uint phase, const uint lane, const uint next) {
  asm volatile($INSTRUCTIONS
               : $OPERANDS
               : "r"(full), "r"(empty), "r"(left), "r"(right), "r"(stage), "r"(phase), "r"(lane), "r"(next) : "memory");
}
$FUNCTION {
  const uint steps_at = (uint)(ulong)scratch, full = steps_at + $STAGES * $STEP, empty = full + $STAGES * 8, turns = empty + $STAGES * 8;
  if (lid == 0) {
    for (int i = 0; i < $STAGES; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], 129;" :: "r"(full + i * 8) : "memory");
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(empty + i * 8), "r"($SHARING * 4) : "memory");
    }
    for (int i = 0; i < $TEAMS; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(turns + i * 8), "r"($SHARING * 4) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#define NEURALD_TILE \
    $SHARE \
    const int line = tile / $across, m0 = line * $BM, n0 = (tile - line * $across) * $BN;
  if (lid >= $MULTIPLYING) {
    asm volatile("$FEWER" ::: "memory");
    const int item = lid - $MULTIPLYING, chunk = item & 7, place = item >> 3;
    const uint to = steps_at + place * $BYTES + ((chunk ^ (place & 7)) << 4);
    uint stage = 0, phase = 1;
#pragma unroll 1
    for (int number = group; number < $all_tiles; number += $groups) {
      NEURALD_TILE
      const int count = $rows - m0 - place, blocks = min($BN / 64, $column_blocks - n0 / 64);
      __global const $LEFT *left = a1 + ${KERNEL}_row_of(batch, min(m0 + place, $rows - 1)$SIZE_ARGUMENTS).base + chunk * (16 / $SIZE);
      __global const $RIGHT *right = a2 + $BASE + n0 / 64 * $block_pitch;
#pragma unroll 1
      for (int step = 0; step < $steps; ++step) {
        ${KERNEL}_await(empty + stage * 8, phase);
        if (item == 0) {
          ${KERNEL}_expect(full + stage * 8, blocks * $BLOCK_BYTES);
          for (int i = 0; i < blocks; ++i)
            ${KERNEL}_fetch(steps_at + stage * $STEP + $BM * $BYTES + i * $BLOCK_BYTES, right + i * $block_pitch, full + stage * 8);
        }
        const int seen = step * $BYTES + chunk * 16 < $depth * $SIZE ? count : 0;
#pragma unroll
        for (int i = 0; i < $NA; ++i)
          ${KERNEL}_copy(to + stage * $STEP + i * (16 * $BYTES), left + i * (16 * $left_pitch), i * 16 < seen ? 16 : 0);
        ${KERNEL}_copied(full + stage * 8);
        left += $BYTES / $SIZE;
        right += $BLOCK_BYTES / $SIZE;
        stage = stage + 1 == $STAGES ? 0 : stage + 1;
        phase ^= stage == 0;
      }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  } else {
    asm volatile("$MORE" ::: "memory");
    const int warpgroup = lid / 128, team = warpgroup / $SHARING, lane = lid & 31;
    const int down = warpgroup % $SHARING * (64 * $BLOCKS) + lid / 32 % 4 * 16;
    __local $T *slab = (__local $T *)(scratch + $SLABS_AT) + lid / 32 * (16 * $SLAB_PITCH);
    const uint left = steps_at + warpgroup % $SHARING * (64 * $BLOCKS * $BYTES);
    int position = team * $steps;
    uint turn = team == 0;
#pragma unroll 1
    for (int number = group + team * $groups; number < $all_tiles; number += $TEAMS * $groups) {
      NEURALD_TILE
      $T sums[$BLOCKS][$COUNT];
      // Teams multiply in turn: the phase of a counter only differs from that of the use before.
      if ($TEAMS > 1) ${KERNEL}_await(turns + team * 8, turn);
      turn ^= 1;
      ${KERNEL}_run(sums, full, empty, left, steps_at + $BM * $BYTES, position % $STAGES, position / $STAGES & 1, lane, turns + (team + 1) % $TEAMS * 8);
      position += $TEAMS * $steps;
#define NEURALD_PLACE(block, behind) \
        const int e = lane + i * 32, slab_row = e / ($SLAB / 4), slab_column = e % ($SLAB / 4) * 4; \
        const int m = m0 + down + (block) * 64 + slab_row, n = n0 + (behind) + slab_column;
#define NEURALD_KEEP(block, first) \
        _Pragma("unroll") for (int j = 0; j < $SLAB / 8; ++j) { \
          __local $T *to = slab + (lane >> 2) * $SLAB_PITCH + j * 8 + 2 * (lane & 3); \
          *(__local ${T}2 *)to = (${T}2)(sums[block][(first) + j * 4], sums[block][(first) + j * 4 + 1]); \
          *(__local ${T}2 *)(to + 8 * $SLAB_PITCH) = (${T}2)(sums[block][(first) + j * 4 + 2], sums[block][(first) + j * 4 + 3]); \
        } \
        ${KERNEL}_meet();
$STORE_ALL
$STORING
#undef NEURALD_PLACE
#undef NEURALD_KEEP
#undef NEURALD_PART
    }
  }
#undef NEURALD_TILE
}

//: [store_each]
//: Stores a part vector by vector.
#define NEURALD_PART(block, first, behind) { \
        NEURALD_KEEP(block, first) \
        _Pragma("unroll") for (int i = 0; i < $SLAB / 8; ++i) { \
          NEURALD_PLACE(block, behind) \
          const ${T}4 sum = *(__local const ${T}4 *)(slab + slab_row * $SLAB_PITCH + slab_column); \
          if (m < $rows && n < $columns) { $STORE } \
        } \
        ${KERNEL}_meet(); \
      }

//: [store_together]
//: Computes all vectors of a part before it stores them, so that all of their loads are under way.
#define NEURALD_PART(block, first, behind) { \
        $VALUE found[$SLAB / 8]; \
        NEURALD_KEEP(block, first) \
        _Pragma("unroll") for (int i = 0; i < $SLAB / 8; ++i) { \
          NEURALD_PLACE(block, behind) \
          const ${T}4 sum = *(__local const ${T}4 *)(slab + slab_row * $SLAB_PITCH + slab_column); \
          const int row = min(m, $rows - 1), column = min(n, $columns - 4); \
          found[i] = ${KERNEL}_value4(sum, $ROW, $COLUMN, $ARGUMENTS$SIZE_ARGUMENTS); \
        } \
        _Pragma("unroll") for (int i = 0; i < $SLAB / 8; ++i) { \
          NEURALD_PLACE(block, behind) \
          const int row = m, column = n; \
          if (m < $rows && n < $columns) { $STORE_VALUE } \
        } \
        ${KERNEL}_meet(); \
      }
