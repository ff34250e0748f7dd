//: Tiled matrix products, see tile.py.
//:
//: BM, BN: rows and columns of a tile. KC: depth of a step.
//: ITEMS: work-items of a group. KS: work-items that split the depth of a step.
//: TM, TJ: rows, and vectors of four columns, of a work-item.
//: NA, NB: vectors of four elements of the left and right matrix that a work-item loads in a step.
//: AST: pitch of the left matrix in local memory. STEP: elements of a step in local memory.

//: [begin]
//: The beginning of the function, up to the locations of the left elements.
$FUNCTION {
  $SHARE
  const int line = tile / $across, m0 = line * $BM, n0 = (tile - line * $across) * $BN, base = $BASE;
  const int first = share * $each, last = min($steps, first + $each);
  __local $T *steps = (__local $T *)scratch;
  const int item = lid % ($ITEMS / $KS), slice = lid / ($ITEMS / $KS);
  const int across = item % ($BN / (4 * $TJ)), down = item / ($BN / (4 * $TJ));
  ${T}4 sums[$TM][$TJ];
#pragma unroll
  for (int i = 0; i < $TM; ++i)
#pragma unroll
    for (int j = 0; j < $TJ; ++j) sums[i][j] = (${T}4)(0);

//: [left_by_row]
//: Locations of a work-item's left elements, where those along the depth are contiguous.
  ${KERNEL}_row rows[$NA];
  int places[$NA], along[$NA];
#pragma unroll
  for (int i = 0; i < $NA; ++i) {
    const int e = lid + i * $ITEMS;
    places[i] = e / ($KC / 4);
    along[i] = e % ($KC / 4) * 4;
    rows[i] = ${KERNEL}_row_of(batch, m0 + places[i]$SIZE_ARGUMENTS);
  }

//: [left_by_column]
//: The same, where those of adjacent rows are contiguous.
  ${KERNEL}_row rows[$NA];
  int places[$NA], along[$NA];
#pragma unroll
  for (int i = 0; i < $NA; ++i) {
    const int e = lid + i * $ITEMS;
    places[i] = e % $BM;
    along[i] = e / $BM * 4;
    rows[i] = ${KERNEL}_row_of(batch, m0 + places[i]$SIZE_ARGUMENTS);
  }

//: [through_registers]
//: Loads each step into registers while the previous one is multiplied.
  {
    ${T}4 left[$NA], right[$NB];
#define NEURALD_LOAD_LEFT(step) { \
    _Pragma("unroll") for (int i = 0; i < $NA; ++i) \
      if ((i + 1) * $ITEMS <= $BM * $KC / 4 || lid + i * $ITEMS < $BM * $KC / 4) \
        left[i] = ${KERNEL}_left4($LEFT_AT, rows[i], (step) * $KC + along[i]$SIZE_ARGUMENTS); }
#define NEURALD_LOAD_RIGHT(step) { \
    _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \
      const int e = lid + i * $ITEMS; \
      if ((i + 1) * $ITEMS <= $BN * $KC / 4 || e < $BN * $KC / 4) \
        right[i] = ${KERNEL}_right4($RIGHT_AT, base, (step) * $KC + $RIGHT_K, n0 + $RIGHT_N$SIZE_ARGUMENTS); \
    } }
#define NEURALD_KEEP(buffer) { \
    _Pragma("unroll") for (int i = 0; i < $NA; ++i) \
      if ((i + 1) * $ITEMS <= $BM * $KC / 4 || lid + i * $ITEMS < $BM * $KC / 4) \
        *(__local ${T}4 *)((buffer) + places[i] * $AST + along[i]) = left[i]; \
    _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \
      const int e = lid + i * $ITEMS; \
      if ((i + 1) * $ITEMS <= $BN * $KC / 4 || e < $BN * $KC / 4) { $KEPT } \
    } }
    if ($AHEAD && first < last) NEURALD_LOAD_RIGHT(first)
    $WAIT
$FETCH
    // The loads of the first step are those of all others: what is run once is not written twice.
#pragma unroll 1
    for (int step = first - 1; step < last; ++step) {
      if (step + 1 < last) {
        NEURALD_LOAD_LEFT(step + 1)
        if (!$AHEAD || step >= first) NEURALD_LOAD_RIGHT(step + 1)
      }
      if (step >= first) {
        __local $T *buffer = steps + (step - first) % 2 * $STEP;
$MULTIPLY_STEP
      }
      if (step + 1 < last) NEURALD_KEEP(steps + (step + 1 - first) % 2 * $STEP)
      barrier(CLK_LOCAL_MEM_FENCE);
    }
#undef NEURALD_LOAD_LEFT
#undef NEURALD_LOAD_RIGHT
#undef NEURALD_KEEP
  }

//: [asynchronous]
//: Copies each step to local memory with `cp.async`, several steps ahead.
  {
    const uint local_at = (uint)(ulong)steps;
#define NEURALD_COPY_LEFT(step, stage) { \
    if ((step) < last) { \
      const uint to = local_at + (stage) * ($STEP * 4); \
      _Pragma("unroll") for (int i = 0; i < $NA; ++i) \
        if ((i + 1) * $ITEMS <= $BM * $KC / 4 || lid + i * $ITEMS < $BM * $KC / 4) { \
          const int at = ${KERNEL}_left(rows[i], (step) * $KC + along[i]$SIZE_ARGUMENTS); \
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to + (places[i] * $AST + along[i]) * 4), \
                       "l"((ulong)(a1 + max(at, 0))), "r"(at < 0 ? 0 : 16) : "memory"); \
        } \
    } }
#define NEURALD_COPY_RIGHT(step, stage) { \
    if ((step) < last) { \
      const uint to = local_at + (stage) * ($STEP * 4); \
      _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \
        const int e = lid + i * $ITEMS; \
        if ((i + 1) * $ITEMS <= $BN * $KC / 4 || e < $BN * $KC / 4) { \
          const int k = (step) * $KC + e / ($BN / 4), n = n0 + e % ($BN / 4) * 4; \
          const int seen = k < $depth && n < $right_pitch; \
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to + ($BM * $AST + e * 4) * 4), \
                       "l"((ulong)(a2 + (seen ? base + k * $right_pitch + n : 0))), "r"(seen ? 16 : 0) : "memory"); \
        } \
      } \
    } }
$COPY_BEGIN
    for (int step = first; step < last; ++step) {
      __local const $T *buffer = steps + stage * $STEP;
      asm volatile("cp.async.wait_group %0;" :: "n"($STAGES - 2) : "memory");
      barrier(CLK_LOCAL_MEM_FENCE);
$COPY_NEXT
$MULTIPLY_STEP
      stage = stage + 1 == $STAGES ? 0 : stage + 1;
    }
$COPY_END
  }

//: [multiply_step]
//: Multiplies a step in local memory.
      __local const $T *left_at = buffer + down * $AST + slice * 4;
      __local const $T *right_at = buffer + $BM * $AST + slice * 4 * $BN + across * 4;
#pragma unroll
      for (int q = 0; q < $KC / 4 / $KS; ++q) {
        ${T}4 right_part[4][$TJ];
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int j = 0; j < $TJ; ++j)
            right_part[k][j] = *(__local const ${T}4 *)(right_at + k * $BN + j * ($BN / $TJ));
#pragma unroll
        for (int i = 0; i < $TM; ++i) {
          const ${T}4 part = *(__local const ${T}4 *)(left_at + i * ($BM / $TM) * $AST);
#pragma unroll
          for (int j = 0; j < $TJ; ++j) {
            $PRODUCTS
          }
        }
        left_at += $KS * 4;
        right_at += $KS * 4 * $BN;
      }

//: [slices]
//: Adds up the accumulators of work-items that split the depth, through local memory.
  __local $T *all = steps;
#pragma unroll
  for (int i = 0; i < $TM; ++i)
#pragma unroll
    for (int j = 0; j < $TJ; ++j)
      *(__local ${T}4 *)(all + ((slice * $BM + i * ($BM / $TM) + down) * $BN + j * ($BN / $TJ) + across * 4)) =
        sums[i][j];
  barrier(CLK_LOCAL_MEM_FENCE);
$ADD_SLICES
  barrier(CLK_LOCAL_MEM_FENCE);
