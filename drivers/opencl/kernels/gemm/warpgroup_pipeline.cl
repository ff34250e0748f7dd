//: Matrix products of warpgroups with separate roles, see warpgroup_pipeline.py.
//:
//: BM, BN: rows and columns of a tile. BYTES: bytes of each row in a step. STEP: bytes of a step of
//: both matrices. STAGES: steps in local memory. SIZE: bytes of an element. NA: chunks of the left
//: matrix that a work-item copies in a step. COUNT: accumulators of a work-item for 64 rows.
//: BLOCKS: times 64 rows of a warpgroup. SHARING: warpgroups that share a tile. TEAMS: tiles that
//: are under way together. MULTIPLYING: work-items that multiply. BLOCK_BYTES: of 64 columns in a
//: step. SLAB: columns of 16 rows that a warp stores at a time. SLAB_PITCH: accumulators between
//: rows in its part of local memory; SLABS_AT: where these parts begin. COLUMNS_AT: where values of
//: columns begin, twice for each team; COLUMNS_BYTES: the bytes of each. PARTS: 2 if the right
//: matrix has remainders, or 1. UNROLLED: vectors that a work-item computes before it stores them;
//: VALUE: their type. AHEAD: the argument whose elements are loaded ahead, of AHEAD_TYPE.

//: [function]
//: The whole function, and those that it calls.
static inline void ${KERNEL}_copy(const uint to, __global const void *from, const int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"((ulong)from), "r"(bytes) : "memory");
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
$RUNNING
$TOTAL
$NUMBERS_OF_ROW
$SUMMED
$FUNCTION {
  const uint steps_at = (uint)(ulong)scratch, full = steps_at + $STAGES * $STEP, empty = full + $STAGES * 8, turns = empty + $STAGES * 8, copied = turns + $TEAMS * 8;
  if (lid == 0) {
    for (int i = 0; i < $STAGES; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], 129;" :: "r"(full + i * 8) : "memory");
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(empty + i * 8), "r"($SHARING * 4) : "memory");
    }
    for (int i = 0; i < $TEAMS; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(turns + i * 8), "r"($SHARING * 4) : "memory");
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(copied + i * 8), "r"($SHARING * 128) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#define NEURALD_TILE \
    $SHARE \
    const int line = tile / $across, m0 = line * $BM, n0 = (tile - line * $across) * $BN;
#define NEURALD_PLACE(block, behind) \
        const int e = lane + i * 32, slab_row = e / ($SLAB / 4), slab_column = e % ($SLAB / 4) * 4; \
        const int m = m0 + down + (block) * 64 + slab_row, n = n0 + (behind) + slab_column;
  if (lid >= $MULTIPLYING) {
    asm volatile("$FEWER" ::: "memory");
    const int item = lid - $MULTIPLYING, chunk = item & 7, place = item >> 3;
    const uint to = steps_at + place * $BYTES + ((chunk ^ (place & 7)) << 4);
    uint stage = 0, phase = 1;
#pragma unroll 1
    for (int number = group; number < $all_tiles; number += $groups) {
      NEURALD_TILE
      const int count = $rows - m0 - place, blocks = min($BN / 64, $column_blocks - n0 / 64);
      __global const $LEFT *left = a1 + ${KERNEL}_row_of(batch, min(m0 + place, $rows - 1)$SIZE_ARGUMENTS).base + share * ($steps * $BYTES / $SIZE) + chunk * (16 / $SIZE);
      __global const $RIGHT *right = a2 + $BASE + n0 / 64 * $block_pitch + share * ($steps * $BLOCK_BYTES / $SIZE);
#pragma unroll 1
      for (int step = 0; step < $steps; ++step) {
        ${KERNEL}_await(empty + stage * 8, phase);
        if (item == 0) {
          ${KERNEL}_expect(full + stage * 8, $PARTS * blocks * $BLOCK_BYTES);
          for (int part = 0; part < $PARTS; ++part)
            for (int i = 0; i < blocks; ++i)
              ${KERNEL}_fetch(steps_at + stage * $STEP + $BM * $BYTES + (part * ($BN / 64) + i) * $BLOCK_BYTES, right + (part * $column_blocks + i) * $block_pitch, full + stage * 8);
        }
        const int seen = (share * $steps + step) * $BYTES + chunk * 16 < $depth * $SIZE ? count : 0;
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
$COPY_COLUMNS
$BEGIN_AHEAD
$COMPUTE_NUMBERS
$RUN
$AWAIT_COLUMNS
      position += $TEAMS * $steps;
$HAND_ON
#define NEURALD_KEEP(block, first) \
        _Pragma("unroll") for (int j = 0; j < $SLAB / 8; ++j) { \
          __local $T *to = slab + (lane >> 2) * $SLAB_PITCH + j * 8 + 2 * (lane & 3); \
          const ${T}4 four = $FOUR; \
          *(__local ${T}2 *)to = four.lo; \
          *(__local ${T}2 *)(to + 8 * $SLAB_PITCH) = four.hi; \
        }
$BEGIN_MOMENTS
$STORE_ALL
$STORING
#undef NEURALD_AHEAD
#undef NEURALD_KEEP
#undef NEURALD_PART
    }
  }
#undef NEURALD_PLACE
#undef NEURALD_TILE
}

//: [storing_part]
//: Stores one of the parts of a tile.
      NEURALD_KEEP($BLOCK, $FIRST)
      NEURALD_PART($BLOCK, $BEHIND)

//: [storing_loop]
//: Stores all parts of a tile in a loop. Accumulators are registers, so that each part keeps its
//: own by instructions of its own.
#pragma unroll 1
      for (int part = 0; part < $SLABS; ++part) {
        const int block = part / ($BN / $SLAB), behind = part % ($BN / $SLAB) * $SLAB;
        switch (part) {
$KEEPING
        }
        NEURALD_PART(block, behind)
      }

//: [keeping_part]
//: Keeps the accumulators of one part.
          case $PART: NEURALD_KEEP($BLOCK, $FIRST) break;

//: [store_each]
//: Stores a part vector by vector.
#define NEURALD_PART(block, behind) { \
        ${KERNEL}_meet(); \
        _Pragma("unroll") for (int i = 0; i < $SLAB / 8; ++i) { \
          NEURALD_PLACE(block, behind) \
          const ${T}4 sum = *(__local const ${T}4 *)(slab + slab_row * $SLAB_PITCH + slab_column); \
          if (m < $rows && n < $columns) { $STORE } \
        } \
        ${KERNEL}_meet(); \
      }

//: [store_together]
//: Computes several vectors of a part before it stores them, so that their loads are under way
//: together.
#define NEURALD_PART(block, behind) { \
        ${KERNEL}_meet(); \
        _Pragma("unroll") for (int some = 0; some < $SLAB / 8; some += $UNROLLED) { \
          $VALUE found[$UNROLLED]; \
          _Pragma("unroll") for (int i = some; i < some + $UNROLLED; ++i) { \
            NEURALD_PLACE(block, behind) \
            const ${T}4 sum = *(__local const ${T}4 *)(slab + slab_row * $SLAB_PITCH + slab_column); \
            const int row = min(m, $rows - 1), column = min(n, $columns - 4); \
            found[i - some] = ${KERNEL}_value4(sum, $ROW, $COLUMN, $GIVEN$NUMBERS$ARGUMENTS$SIZE_ARGUMENTS); \
            $ADD_MOMENTS \
          } \
          _Pragma("unroll") for (int i = some; i < some + $UNROLLED; ++i) { \
            NEURALD_PLACE(block, behind) \
            const int row = m, column = n; \
            if (m < $rows && n < $columns) { $STORE_VALUE } \
          } \
        } \
        $LOAD_AHEAD \
        $STORE_MOMENTS \
        ${KERNEL}_meet(); \
      }

//: [copy_columns]
//: Copies values of the tile's columns while steps are multiplied, to the team's two places in
//: turn.
      const uint place = number / ($groups * $TEAMS) & 1;
      const int columns_at = $COLUMNS_AT + (team * 2 + place) * $COLUMNS_BYTES;
$COPY_EACH
      ${KERNEL}_copied(copied + team * 8);

//: [copy_column]
//: Copies those of one argument, of which a pointer is where its first element would be.
      __local const $TYPE *n$POSITION = (__local const $TYPE *)((ulong)(scratch + columns_at + $OFFSET) - ($FIRST + n0) * (ulong)$EACH);
      for (int chunk = lid % ($SHARING * 128); chunk < $BN * $EACH / 16; chunk += $SHARING * 128)
        ${KERNEL}_copy(steps_at + columns_at + $OFFSET + chunk * 16, a$POSITION + ($FIRST + n0 + chunk * (16 / $EACH)), clamp(($columns - n0) * $EACH - chunk * 16, 0, 16));

//: [await_columns]
//: Waits until the warps of the team have copied them, which have then stored the tile before, too.
      ${KERNEL}_await(copied + team * 8, place);

//: [begin_ahead]
//: Loads elements for the results of the first part while steps are multiplied.
#define NEURALD_AHEAD(block, behind) \
        _Pragma("unroll") for (int i = 0; i < $SLAB / 8; ++i) { \
          NEURALD_PLACE(block, behind) \
          const int row = min(m, $rows - 1), column = min(n, $columns - 4); \
          ahead[i] = *(__global const $AHEAD_TYPE *)($AHEAD + (($ROW) * $length + $COLUMN)); \
        }
      $AHEAD_TYPE ahead[$SLAB / 8];
      NEURALD_AHEAD(0, 0)

//: [load_ahead]
//: Loads those of the next part.
if ((block) * $BN + (behind) + $SLAB < $BLOCKS * $BN) \
          NEURALD_AHEAD((block) + ((behind) + $SLAB) / $BN, ((behind) + $SLAB) % $BN)

//: [numbers_of_row]
//: Function that returns the numbers of a row, which a work-item of the warp has.
static inline float4 ${KERNEL}_numbers(const float4 own, const int lane) {
  float4 found;
$FETCH_NUMBERS
  return found;
}

//: [fetch_number]
//: Fetches one of them.
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(found.$PART) : "f"(own.$PART), "r"(lane));

//: [compute_numbers]
//: Computes the numbers of a row in each work-item: 16 rows for each of up to two blocks.
      float4 numbers;
      {
        const int row = min(m0 + down + (lane >> 4) * ($BLOCKS - 1) * 64 + (lane & 15), $rows - 1);
        numbers = ${KERNEL}_rows($ROW, $ARGUMENTS$SIZE_ARGUMENTS);
      }

//: [numbers]
//: The numbers of the row of a vector, as an argument.
${KERNEL}_numbers(numbers, (block) * 16 + slab_row),

//: [summed]
//: Function that adds up as many numbers as work-items have a part of a row. Each of them gets a
//: sum.
static inline float ${KERNEL}_summed(float *values, const int lane) {
#pragma unroll
  for (int distance = $SLAB / 8; distance > 0; distance /= 2)
#pragma unroll
    for (int k = 0; k < distance; ++k) {
      const bool is_upper = lane & distance;
      const float given = is_upper ? values[k] : values[k + distance];
      const float kept = is_upper ? values[k + distance] : values[k];
      float taken;
      asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(taken) : "f"(given), "r"(distance));
      values[k] = kept + taken;
    }
  return values[0];
}

//: [begin_moments]
//: Moments of the rows of each vector, from the first of $MOMENT_COLUMNS columns on.
      float moments[$SLAB / 4];

//: [add_moments]
//: Adds those of a vector.
if ((behind) % $MOMENT_COLUMNS == 0) moments[2 * i] = moments[2 * i + 1] = 0; \
            moments[2 * i] += (found[i - some].x + found[i - some].y) + (found[i - some].z + found[i - some].w); \
            moments[2 * i + 1] += dot(found[i - some], found[i - some]);

//: [store_moments]
//: Adds up the moments of these columns, and stores them.
if (((behind) + $SLAB) % $MOMENT_COLUMNS == 0) { \
          const float total = ${KERNEL}_summed(moments, lane); \
          const int place = lane & ($SLAB / 4 - 1), n = n0 + (behind); \
          const int m = m0 + down + (block) * 64 + lane / ($SLAB / 4) + (place >> 1) * (128 / $SLAB); \
          if (m < $rows && n < $columns) $MOMENTS[(n / $MOMENT_COLUMNS * $rows + m) * 2 + (place & 1)] = total; \
        }

//: [own]
//: Four accumulators of a work-item.
(${T}4)(sums[block][(first) + j * 4], sums[block][(first) + j * 4 + 1], sums[block][(first) + j * 4 + 2], sums[block][(first) + j * 4 + 3])

//: [all_shares]
//: The same, added up over all shares of the depth.
${KERNEL}_total(parts + ((block) * ($COUNT / 4) + (first) / 4 + j) * 32)

//: [total]
//: Function that adds up the four accumulators of each share.
static inline ${T}4 ${KERNEL}_total(__global const ${T}4 *from) {
  ${T}4 total = *from;
#pragma unroll
  for (int z = 1; z < $SPLIT; ++z) total += from[z * ($BLOCKS * $COUNT / 4 * 32)];
  return total;
}

//: [hand_on]
//: Stores the accumulators of a warp; only the warp whose share is the last of its rows continues.
      const int warp = (batch * $tiles + tile) * ($SHARING * 4) + warpgroup % $SHARING * 4 + lid / 32 % 4;
      __global ${T}4 *parts = (__global ${T}4 *)(workspace + $ZEROS) + warp * ($SPLIT * $BLOCKS * $COUNT / 4 * 32) + lane;
#pragma unroll
      for (int block = 0; block < $BLOCKS; ++block)
#pragma unroll
        for (int j = 0; j < $COUNT / 4; ++j)
          parts[((share * $BLOCKS + block) * ($COUNT / 4) + j) * 32] = (${T}4)(sums[block][j * 4], sums[block][j * 4 + 1], sums[block][j * 4 + 2], sums[block][j * 4 + 3]);
      ${KERNEL}_meet();
      // What the warp has stored before it meets, its first work-item hands on, and takes from
      // others, for all of them.
      __local uint *before = (__local uint *)slab;
      if (lane == 0) {
        __global uint *count = (__global uint *)workspace + warp;
        uint others;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(others) : "l"((ulong)count) : "memory");
        *before = others;
        if (others == $SPLIT - 1) *count = 0;
      }
      ${KERNEL}_meet();
      const bool is_last = *before == $SPLIT - 1;
      ${KERNEL}_meet();
      if (!is_last) continue;

//: [running]
//: Function that multiplies all steps of a tile.
static inline void ${KERNEL}_run($T (*sums)[$COUNT], const uint full, const uint empty, const uint left, const uint right, const uint stage, const uint phase, const uint lane, const uint next) {
  asm volatile($INSTRUCTIONS
               : $OPERANDS
               : "r"(full), "r"(empty), "r"(left), "r"(right), "r"(stage), "r"(phase), "r"(lane), "r"(next) : "memory");
}

//: [run]
//: Calls that function.
      ${KERNEL}_run(sums, full, empty, left, steps_at + $BM * $BYTES, position % $STAGES, position / $STAGES & 1, lane, turns + (team + 1) % $TEAMS * 8);

//: [running_remainders]
//: Function that multiplies a step, see warpgroup_remainders.py.
static inline void ${KERNEL}_step(float *sums, float *rests, const uint full, const uint empty, const uint left, const uint right, const uint phase, const uint lane) {
  asm volatile($INSTRUCTIONS
               : $OPERANDS
               : "r"(full), "r"(empty), "r"(left), "r"(right), "r"(phase), "r"(lane) : "memory");
}

//: [run_remainders]
//: Multiplies all steps of a tile; products with a remainder count only if the others are finite.
      float rests[$COUNT];
#pragma unroll
      for (int j = 0; j < $COUNT; ++j) sums[0][j] = rests[j] = 0;
      const uint own = left + (lid / 32 % 4 * 16 + (lane >> 2)) * $BYTES + ((lane >> 2) << 4) + (lane & 3) * 4;
#pragma unroll 1
      for (int step = position; step < position + $steps; ++step) {
        const uint stage = step % $STAGES;
        float found[$COUNT];
        ${KERNEL}_step(found, rests, full + stage * 8, empty + stage * 8, own + stage * $STEP, steps_at + $BM * $BYTES + stage * $STEP, step / $STAGES & 1, lane);
#pragma unroll
        for (int j = 0; j < $COUNT; ++j) sums[0][j] += found[j];
      }
#pragma unroll
      for (int j = 0; j < $COUNT; ++j)
        if (isfinite(sums[0][j])) sums[0][j] += rests[j];
