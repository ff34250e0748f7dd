//: Fused blocks of mobile networks in floats, see bottleneck.py.
//:
//: TILES: patches. KC: wide channels of a group. QC: the same in vectors of four.
//: DEPTH: channels of the input. COLUMNS: channels of the output.
//: EACH: positions for which a work-item computes wide channels at a time. TASKS: such
//: computations. SLICES: work-items that split the depth of each. RM: output rows of a work-item.
//: ..._PITCH, ..._AT: pitches and offsets in local memory, in floats.

//: [function]
$FUNCTION {
  const int spot = group % $TILES, share = group / $TILES, k0 = share * $KC;
$PLACE
  __local float *near = (__local float *)scratch;
  __local float *narrow_weights = near + $NARROW_WEIGHTS_AT;
  __local float *wide = near + $WIDE_AT;
  __local float *wide_weights = near + $WIDE_WEIGHTS_AT;
  __local float *taps = near + $TAPS_AT;
#pragma unroll 1
  for (int e = lid; e < $DEPTH * $QC; e += $ITEMS)
    ${KERNEL}_copy(wide_weights + e * 4, $WIDE_WEIGHTS + e / $QC * $WIDE_PITCH + k0 + e % $QC * 4);
#pragma unroll 1
  for (int e = lid; e < $TAP_COUNT * $QC; e += $ITEMS)
    ${KERNEL}_copy(taps + e * 4, $TAP_WEIGHTS + e / $QC * $CHANNELS + k0 + e % $QC * 4);
  $WAIT
#pragma unroll 1
  for (int e = lid; e < $POSITIONS * ($DEPTH / 4); e += $ITEMS) {
    const int p = e / ($DEPTH / 4), k = e % ($DEPTH / 4) * 4, y = top + p / $PITCH, x = left + p % $PITCH;
    if ((uint)y < ${HEIGHT}u && (uint)x < ${WIDTH}u)
      ${KERNEL}_copy(near + p * $NEAR_PITCH + k, $INPUT + ((image * $HEIGHT + y) * $WIDTH + x) * $DEPTH + k);
  }
$FETCH
  ${KERNEL}_copied();
  barrier(CLK_LOCAL_MEM_FENCE);
$WIDE_CHANNELS
#pragma unroll 1
  for (int e = lid; e < $ROWS * $QC; e += $ITEMS) {
    const int m = e / $QC, c = e % $QC * 4;
    __local const float *from = wide + (m / $LENGTH * $STRIDE_Y * $PITCH + m % $LENGTH * $STRIDE_X) * $KC + c;
    float4 sum = (float4)(0);
$TAPS
    if ($INSIDE) sum = ${KERNEL}_left_value4(sum, $OUTPUT_ROW, k0 + c, $ARGUMENTS);
    *(__local float4 *)(near + e * 4) = sum;
  }
  ${KERNEL}_copied();
  barrier(CLK_LOCAL_MEM_FENCE);
  const int n = lid % ($NARROW_PITCH / 4) * 4, first = lid / ($NARROW_PITCH / 4);
  if (first >= $DOWN || n >= $COLUMNS) return;
  float4 sums[$RM];
#pragma unroll
  for (int i = 0; i < $RM; ++i) sums[i] = (float4)(0);
#pragma unroll 1
  for (int k = 0; k < $KC; k += 4) {
    float4 right[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) right[i] = *(__local const float4 *)(narrow_weights + (k + i) * $NARROW_PITCH + n);
#pragma unroll
    for (int i = 0; i < $RM; ++i) {
      const float4 part = *(__local const float4 *)(near + min(first + i * $DOWN, $ROWS - 1) * $KC + k);
      $NARROW_PRODUCTS
    }
  }
#pragma unroll
  for (int i = 0; i < $RM; ++i) {
    const int m = first + i * $DOWN, row = $OUTPUT_ROW;
    if (m < $ROWS && $INSIDE)
      ${KERNEL}_add4(a0 + row * $COLUMNS + n,
                     share == 0 ? ${KERNEL}_value4(sums[i], row, n, $ARGUMENTS) : sums[i]);
  }
}

//: [wide_channels]
//: Computes the wide channels with one work-item per accumulator.
  const int slice = 0;
#pragma unroll 1
  for (int task = lid; task < $TASKS; task += $ITEMS) {
$EXPAND
#pragma unroll
    for (int q = 0; q < $EACH; ++q) {
      const int y = top + (p + q) / $PITCH, x = left + (p + q) % $PITCH;
      float4 value = (float4)(0);
      if ((uint)y < ${HEIGHT}u && (uint)x < ${WIDTH}u)
        value = ${KERNEL}_wide_value4(sums[q], (image * $HEIGHT + y) * $WIDTH + x, k0 + c, $ARGUMENTS);
      if (p + q < $POSITIONS) *(__local float4 *)(wide + (p + q) * $KC + c) = value;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
$COPY_NARROW_WEIGHTS

//: [wide_channels_sliced]
//: The same with several work-items per accumulator; their partial sums replace the input.
  {
    const int slice = lid / $TASKS, task = lid % $TASKS;
$EXPAND
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice < $SLICES) {
#pragma unroll
      for (int q = 0; q < $EACH; ++q)
        if (p + q < $POSITIONS) *(__local float4 *)(near + (slice * $POSITIONS + p + q) * $KC + c) = sums[q];
    }
  }
$COPY_NARROW_WEIGHTS
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
  for (int e = lid; e < $POSITIONS * $QC; e += $ITEMS) {
    const int p = e / $QC, c = e % $QC * 4, y = top + p / $PITCH, x = left + p % $PITCH;
    float4 sum = (float4)(0), value = (float4)(0);
#pragma unroll
    for (int slice = 0; slice < $SLICES; ++slice)
      sum += *(__local const float4 *)(near + slice * ($POSITIONS * $KC) + e * 4);
    if ((uint)y < ${HEIGHT}u && (uint)x < ${WIDTH}u)
      value = ${KERNEL}_wide_value4(sum, (image * $HEIGHT + y) * $WIDTH + x, k0 + c, $ARGUMENTS);
    *(__local float4 *)(wide + e * 4) = value;
  }
  barrier(CLK_LOCAL_MEM_FENCE);

//: [expand]
//: Accumulates some positions and four wide channels over a slice's part of the depth.
    const int c = task % $QC * 4, p = task / $QC * $EACH;
    float4 sums[$EACH];
#pragma unroll
    for (int q = 0; q < $EACH; ++q) sums[q] = (float4)(0);
#pragma unroll 1
    for (int k = slice * 4; ${IS_ACTIVE}k < $DEPTH; k += 4 * $SLICES) {
      float4 right[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) right[i] = *(__local const float4 *)(wide_weights + (k + i) * $KC + c);
#pragma unroll
      for (int q = 0; q < $EACH; ++q) {
        const float4 part = *(__local const float4 *)(near + min(p + q, $POSITIONS - 1) * $NEAR_PITCH + k);
        $WIDE_PRODUCTS
      }
    }

//: [copy_narrow_weights]
//: Copies the projection's weights to where the input was.
#pragma unroll 1
  for (int e = lid; e < $KC * ($NARROW_PITCH / 4); e += $ITEMS)
    ${KERNEL}_copy(narrow_weights + e * 4, $NARROW_WEIGHTS + k0 * $NARROW_PITCH + e * 4);

//: [fetch_output]
//: Prefetches the inputs of the last kernel's epilogue.
  if (share == 0) {
#pragma unroll 1
    for (int e = lid; e < $ROWS * ($COLUMNS / 4); e += $ITEMS) {
      const int m = e / ($COLUMNS / 4), n = e % ($COLUMNS / 4) * 4;
      if ($INSIDE) ${KERNEL}_fetch4($OUTPUT_ROW, n, m == 0, $ARGUMENTS);
    }
  }

//: [copy_async]
//: Copies four floats to local memory with `cp.async`; complete after `..._copied` and a barrier.
static inline void ${KERNEL}_copy(__local float *to, __global const float *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((uint)(ulong)to), "l"((ulong)from) : "memory");
}
static inline void ${KERNEL}_copied(void) {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

//: [copy]
//: The same through registers.
static inline void ${KERNEL}_copy(__local float *to, __global const float *from) {
  *(__local float4 *)to = *(__global const float4 *)from;
}
static inline void ${KERNEL}_copied(void) {}
