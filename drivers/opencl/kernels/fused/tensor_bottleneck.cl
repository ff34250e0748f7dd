//: Fused blocks of mobile networks on tensor cores, see tensor_bottleneck.py.
//:
//: KC: wide channels of a group. BM, BN: rows and columns of its projection. SIZE: bytes of an
//: element. ITEMS: work-items of a group. KS: warps that split the depth of the projection. ACROSS,
//: DOWN: warps along the columns and rows of the projection. PARTS, TILES, STEPS: blocks of 16
//: columns, of 16 rows, and steps of 32 bytes of the depth, per warp. WIDE_ACROSS ... WIDE_STEPS:
//: the same for the expansion. ..._PITCH, ..._AT: pitches and offsets in local memory, in bytes.

//: [function]
//: The function up to where its accumulators are known, and the functions that it calls.
static inline uint4 ${KERNEL}_asked(__global const uint4 *from) {
  uint4 found;
  // Compilers do not move it to where it is used, which is after waiting.
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w) : "l"((ulong)from));
  return found;
}
static inline void ${KERNEL}_copied(void) {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
static inline void ${KERNEL}_multiply($T *sums, const uint4 left, const uint right_low, const uint right_high) {
  asm volatile("mma.sync.aligned.$MULTIPLY {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+$HOLD"(sums[0]), "+$HOLD"(sums[1]), "+$HOLD"(sums[2]), "+$HOLD"(sums[3])
               : "r"(left.x), "r"(left.y), "r"(left.z), "r"(left.w), "r"(right_low), "r"(right_high));
}
static inline uint4 ${KERNEL}_rows(const __local uchar *from, const int pitch) {
  return (uint4)(*(__local const uint *)from, *(__local const uint *)(from + 8 * pitch),
                 *(__local const uint *)(from + 16), *(__local const uint *)(from + 8 * pitch + 16));
}
static inline void ${KERNEL}_put(__local uchar *to, const $VALUE value) {
  $PUT
}
$FUNCTION {
  $SHARE
  const int spot = tile / $PARTS_ACROSS, n0 = (tile - spot * $PARTS_ACROSS) * $BN, k0 = share * $KC;
$PLACE
  const int lane = lid & 31, warp = lid / 32, g = lane >> 2, t = lane & 3;
  __local uchar *wide = scratch, *near = scratch + $NEAR_AT, *middle = scratch + $MIDDLE_AT, *taps = scratch + $TAPS_AT;
#pragma unroll 1
  for (int e = lid; e < $TAP_ROWS * ($KC / 4); e += $ITEMS) {
    const int row = e / ($KC / 4), q = e % ($KC / 4);
    if (k0 + q * 4 < $CHANNELS)
      ${KERNEL}_copy$TAPS_EACH(taps + e * $TAPS_EACH,
                          (__global const uchar *)a2 + (row * ($CHANNELS / 4) + k0 / 4 + q) * $TAPS_EACH);
  }
$LOAD_WIDE_WEIGHTS
  const int across = warp % $ACROSS, down = warp / $ACROSS % $DOWN, slice = warp / ($ACROSS * $DOWN);
  uint4 weights[$PARTS][$STEPS];
#pragma unroll
  for (int j = 0; j < $PARTS; ++j) {
    const int part = n0 / 16 + min(across + j * $ACROSS, $BN / 16 - 1);
#pragma unroll
    for (int k = 0; k < $STEPS; ++k) {
      const int step = slice + k * $KS;
      weights[j][k] = (uint4)(0);
      if (step < $SHARE_STEPS)
        weights[j][k] = ${KERNEL}_asked((__global const uint4 *)a3 + (part * $ALL_STEPS + k0 * $SIZE / 32 + step) * 32 + lane);
    }
  }
$COPY_CONSTANTS
$PAD_INPUT
  $WAIT
$COPY_INPUT
$FETCH_CHANNELS
$FETCH
  ${KERNEL}_copied();
  barrier(CLK_LOCAL_MEM_FENCE);
$EXPAND
#pragma unroll 1
  for (int e = lid; e < $ROWS * ($KC / 4); e += $ITEMS) {
    const int m = e / ($KC / 4), q = e % ($KC / 4), line = m / $LENGTH, x = m - line * $LENGTH;
    const __local uchar *from = wide + (line * $STRIDE_Y * $PITCH + x * $STRIDE_X) * $WIDE_PITCH + q * (4 * $SIZE);
    const __local uchar *tap = taps + q * $TAPS_EACH;
    $VALUE value = $FILL;
    if ($IS_THERE) {
$DEPTHWISE
      value = ${KERNEL}_middle_value4(sum, (image * $OUT_HEIGHT + y0 + line) * $OUT_WIDTH + x0 + x, k0 + q * 4,
                                      $ARGUMENTS$SIZE_ARGUMENTS);
    }
    ${KERNEL}_put(middle + m * $WIDE_PITCH + q * (4 * $SIZE), value);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  $T sums[$TILES][$PARTS][2][4];
#pragma unroll
  for (int i = 0; i < $TILES; ++i) {
    const __local uchar *from = middle + (min(down + i * $DOWN, $BM / 16 - 1) * 16 + g) * $WIDE_PITCH + t * 4;
$MULTIPLY_NARROW
  }
$TOTALS

//: [copy_input]
//: Copies the input to local memory; positions outside of the image are never read.
#pragma unroll 1
  for (int e = lid; e < $POSITIONS * ($DEPTH_BYTES / $COPY); e += $ITEMS) {
    const int p = e / ($DEPTH_BYTES / $COPY), k = e % ($DEPTH_BYTES / $COPY) * $COPY;
    const int y = top + p / $PITCH, x = left + p % $PITCH;
    if ((uint)y < ${HEIGHT}u && (uint)x < ${WIDTH}u)
      ${KERNEL}_copy$COPY(near + p * $NEAR_PITCH + k,
                          (__global const uchar *)a1 + ((image * $HEIGHT + y) * $WIDTH + x) * $DEPTH_BYTES + k);
  }

//: [copy_wide_channels]
//: Copies the wide channels, which are the input.
#pragma unroll 1
  for (int e = lid; e < $POSITIONS * ($KC * $SIZE / $COPY); e += $ITEMS) {
    const int p = e / ($KC * $SIZE / $COPY), k = e % ($KC * $SIZE / $COPY) * $COPY;
    const int y = top + p / $PITCH, x = left + p % $PITCH;
    __local uchar *to = wide + p * $WIDE_PITCH + k;
    if ((uint)y < ${HEIGHT}u && (uint)x < ${WIDTH}u && k0 * $SIZE + k < $CHANNELS * $SIZE)
      ${KERNEL}_copy$COPY(to, (__global const uchar *)a1 + (((image * $HEIGHT + y) * $WIDTH + x) * $CHANNELS + k0) * $SIZE + k);
    else
      for (int i = 0; i < $COPY; i += 4) *(__local int *)(to + i) = $zeros;
  }

//: [multiply]
//: Accumulates 16 rows and some columns, in blocks of 16.
#pragma unroll
    for (int j = 0; j < $COUNT; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z) {
        $SUMS[j][0][z] = $SUMS[j][1][z] = 0;
      }
#pragma unroll
    for (int k = 0; k < $DEPTH; ++k) {
      uint4 rows = ${KERNEL}_rows(from + $STEP * 32, $FROM_PITCH);
#pragma unroll
      for (int j = 0; j < $COUNT; ++j) {
        uint4 right = $RIGHT[j][k];
        ${KERNEL}_multiply($SUMS[j][0], rows, right.x, right.y);
        ${KERNEL}_multiply($SUMS[j][1], rows, right.z, right.w);
      }
    }

//: [multiply_split]
//: The same for FLOAT32, which takes three TF32 products, see `tensor_core`.
    float rest[$COUNT][2][4], part[$COUNT][2][4];
#pragma unroll
    for (int j = 0; j < $COUNT; ++j)
#pragma unroll
      for (int z = 0; z < 4; ++z) {
        $SUMS[j][0][z] = $SUMS[j][1][z] = 0;
        rest[j][0][z] = rest[j][1][z] = part[j][0][z] = part[j][1][z] = 0;
      }
#pragma unroll
    for (int k = 0; k < $DEPTH; ++k) {
      uint4 rows = ${KERNEL}_rows(from + $STEP * 32, $FROM_PITCH);
      const uint4 rows_rest = ${KERNEL}_rest4(&rows);
#pragma unroll
      for (int j = 0; j < $COUNT; ++j) {
        uint4 right = $RIGHT[j][k];
        const uint4 right_rest = ${KERNEL}_rest4(&right);
        ${KERNEL}_multiply(rest[j][0], rows, right_rest.x, right_rest.y);
        ${KERNEL}_multiply(rest[j][1], rows, right_rest.z, right_rest.w);
        ${KERNEL}_multiply(rest[j][0], rows_rest, right.x, right.y);
        ${KERNEL}_multiply(rest[j][1], rows_rest, right.z, right.w);
        ${KERNEL}_multiply(part[j][0], rows, right.x, right.y);
        ${KERNEL}_multiply(part[j][1], rows, right.z, right.w);
        if (k % 4 == 3 || k == $DEPTH - 1)
          for (int z = 0; z < 4; ++z) {
            $SUMS[j][0][z] += part[j][0][z];
            $SUMS[j][1][z] += part[j][1][z];
            part[j][0][z] = part[j][1][z] = 0;
          }
      }
    }
    for (int j = 0; j < $COUNT; ++j)
      for (int z = 0; z < 4; ++z) {
        if (isfinite($SUMS[j][0][z])) $SUMS[j][0][z] += rest[j][0][z];
        if (isfinite($SUMS[j][1][z])) $SUMS[j][1][z] += rest[j][1][z];
      }

//: [expand]
//: Computes the wide channels: all warps multiply as often as the busiest one.
#pragma unroll 1
  for (int i = 0; i < $WIDE_TILES; ++i) {
    const int m = wide_down + i * $WIDE_DOWN;
    $T wide_sums[$WIDE_PARTS][2][4];
    const __local uchar *from = near + (min(m, $POSITION_TILES - 1) * 16 + g) * $NEAR_PITCH + t * 4;
$MULTIPLY_WIDE
#pragma unroll
    for (int j = 0; j < $WIDE_PARTS; ++j) {
      const int c = (wide_across + j * $WIDE_ACROSS) * 16 + t * 4;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int p = m * 16 + g + h * 8, y = top + p / $PITCH, x = left + p % $PITCH;
        if (p >= $POSITIONS || c >= $KC) continue;
        $VALUE value = $FILL;
        if ((uint)y < ${HEIGHT}u && (uint)x < ${WIDTH}u && k0 + c < $CHANNELS)
          value = ${KERNEL}_wide_value4((${T}4)(wide_sums[j][0][2 * h], wide_sums[j][0][2 * h + 1],
                                              wide_sums[j][1][2 * h], wide_sums[j][1][2 * h + 1]),
                                        (image * $HEIGHT + y) * $WIDTH + x, k0 + c, $ARGUMENTS$SIZE_ARGUMENTS);
        ${KERNEL}_put(wide + p * $WIDE_PITCH + c * $SIZE, value);
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

//: [pad_input]
//: Clears the padding beyond the depth, which must be finite.
#pragma unroll 1
  for (int e = lid; e < $POSITIONS * (($WIDE_STEPS * 32 - $DEPTH_BYTES) / 4); e += $ITEMS) {
    const int p = e / (($WIDE_STEPS * 32 - $DEPTH_BYTES) / 4), word = e % (($WIDE_STEPS * 32 - $DEPTH_BYTES) / 4);
    *(__local int *)(near + p * $NEAR_PITCH + $DEPTH_BYTES + word * 4) = 0;
  }

//: [load_wide_weights]
//: Loads the weights of the expansion, kept for the whole function.
  const int wide_across = warp % $WIDE_ACROSS, wide_down = warp / $WIDE_ACROSS;
  uint4 wide_weights[$WIDE_PARTS][$WIDE_STEPS];
#pragma unroll
  for (int j = 0; j < $WIDE_PARTS; ++j) {
    const int part = k0 / 16 + min(wide_across + j * $WIDE_ACROSS, $KC / 16 - 1);
#pragma unroll
    for (int k = 0; k < $WIDE_STEPS; ++k)
      wide_weights[j][k] = ${KERNEL}_asked((__global const uint4 *)a4 + (part * $WIDE_STEPS + k) * 32 + lane);
  }

//: [totals]
//: Final accumulators, if each belongs to one warp.
  ${T}4 totals[$NE];
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    const int i = e / (2 * $PARTS), j = e / 2 % $PARTS, h = e % 2;
    totals[e] = (${T}4)(sums[i][j][0][2 * h], sums[i][j][0][2 * h + 1], sums[i][j][1][2 * h], sums[i][j][1][2 * h + 1]);
  }

//: [slices]
//: Final accumulators, if warps split the depth.
  __local $T *all = (__local $T *)scratch;
#pragma unroll
  for (int i = 0; i < $TILES; ++i)
#pragma unroll
    for (int j = 0; j < $PARTS; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int m = down + i * $DOWN, n = across + j * $ACROSS;
        if (m * 16 < $BM && n * 16 < $BN)
          *(__local ${T}4 *)(all + (slice * $BM + m * 16 + g + h * 8) * $BN + n * 16 + t * 4) =
            (${T}4)(sums[i][j][0][2 * h], sums[i][j][0][2 * h + 1], sums[i][j][1][2 * h], sums[i][j][1][2 * h + 1]);
      }
  barrier(CLK_LOCAL_MEM_FENCE);
$ADD_SLICES

//: [copy_constant]
//: Copies an epilogue's per-column operand: only a part is in local memory, but it keeps its global
//: indices. `$EACH` is one of the two templates below.
  __local const $KIND *n$NUMBER = (__local const $KIND *)(scratch + $AT) - $FIRST;
  $EACH
    if ($FIRST + e * 4 < $LIMIT)
      ${KERNEL}_copy$BYTES(scratch + $AT + e * $BYTES, (__global const uchar *)(a$NUMBER + $FIRST + e * 4));
  }

//: [first_items]
//: Four elements for each of the first work-items.
if (lid < $COUNT) { const int e = lid;

//: [all_items]
//: A loop for larger counts.
for (int e = lid; e < $COUNT; e += $ITEMS) {

//: [copy]
//: Copies bytes to local memory; complete after `..._copied` and a barrier.
static inline void ${KERNEL}_copy$BYTES(__local uchar *to, __global const uchar *from) {
  asm volatile("cp.async.$CACHE.shared.global [%0], [%1], $BYTES;" :: "r"((uint)(ulong)to), "l"((ulong)from) : "memory");
}

//: [taps]
//: Transposes four taps of four channels, so that the taps of each channel are adjacent for the dot
//: product.
static inline uint ${KERNEL}_bytes(const uint first, const uint second, const uint which) {
  uint found;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(found) : "r"(first), "r"(second), "r"(which));
  return found;
}
static inline int4 ${KERNEL}_taps4(const int4 sum, const uint4 taps, const uint4 words) {
  const uint a = ${KERNEL}_bytes(taps.x, taps.y, 0x5140), b = ${KERNEL}_bytes(taps.z, taps.w, 0x5140);
  const uint c = ${KERNEL}_bytes(taps.x, taps.y, 0x7362), d = ${KERNEL}_bytes(taps.z, taps.w, 0x7362);
  return (int4)(${KERNEL}_dot(sum.x, ${KERNEL}_bytes(a, b, 0x5410), words.x),
                ${KERNEL}_dot(sum.y, ${KERNEL}_bytes(a, b, 0x7632), words.y),
                ${KERNEL}_dot(sum.z, ${KERNEL}_bytes(c, d, 0x5410), words.z),
                ${KERNEL}_dot(sum.w, ${KERNEL}_bytes(c, d, 0x7632), words.w));
}
static inline int4 ${KERNEL}_tap4(const int4 sum, const uint tap, const uint4 words) {
  return (int4)(${KERNEL}_dot(sum.x, tap, words.x), ${KERNEL}_dot(sum.y, tap >> 8, words.y),
                ${KERNEL}_dot(sum.z, tap >> 16, words.z), ${KERNEL}_dot(sum.w, tap >> 24, words.w));
}
