//: Products with few rows and a constant matrix, see gemv_stream.py.
//:
//: LANES: work-items along the columns, one each. SLICES: work-items along the depth. VECTOR:
//: elements in 16 bytes. CHUNKS: vectors along the depth. BLOCKS: blocks of columns. PITCH:
//: elements of a row of the left matrix in local memory, which is `near`. MATRIX: the matrix of a
//: batch. BEFORE: statements that load constants for rows. FETCH: requests what is read when sums
//: are stored.

//: [function]
$UNPACK
$EXCHANGE
$FUNCTION {
  const int batch = group / $GROUPS, first = group % $GROUPS * $LANES;
  const int lane = lid % $LANES, slice = lid / $LANES;
  __local float *parts = (__local float *)scratch, *near = parts + $PARTS;
  const bool is_there = slice < $SLICES && first + lane < $BLOCKS * $BLOCK;
  __global const uint4 *right = (__global const uint4 *)a1 +
      (($MATRIX * $BLOCKS + (first + lane) / $BLOCK) * $CHUNKS + slice) * $BLOCK + lane % $BLOCK;
  uint4 ahead[$AHEAD];
#pragma unroll
  for (int i = 0; i < $AHEAD; ++i) {
    ahead[i] = (uint4)(0);
    if (is_there && slice + i * $SLICES < $CHUNKS) ahead[i] = ${KERNEL}_asked(right + i * $SLICES * $BLOCK);
  }
$BEFORE
  $WAIT
$FETCH
$LEFT
  barrier(CLK_LOCAL_MEM_FENCE);
  float4 sums[$ROWS];
#pragma unroll
  for (int m = 0; m < $ROWS; ++m) sums[m] = (float4)(0);
  if (is_there) {
#pragma unroll
    for (int i = 0; i < $AHEAD; ++i) {
      const int chunk = slice + i * $SLICES;
      const uint4 found = ahead[i];
      if (chunk < $CHUNKS) {
$MULTIPLY
      }
    }
$LOOP
  }
#pragma unroll
  for (int m = 0; m < $ROWS; ++m)
    parts[m * $ITEMS + lid] = sums[m].x + sums[m].y + sums[m].z + sums[m].w;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int at = lid; at < $ROWS * ($LANES / 4); at += $ITEMS) {
    const int m = at / ($LANES / 4), other = at % ($LANES / 4) * 4, n = first + other;
    float4 sum = (float4)(0);
#pragma unroll 8
    for (int i = 0; i < $SLICES; ++i) sum += *(__local float4 *)(parts + m * $ITEMS + i * $LANES + other);
    if (n < $COLUMNS) { $STORE }
  }
}

//: [fetch]
//: Prefetches what is added to sums, and what else is read when they are stored, by work-items that
//: store nothing where there are as many.
  if (lid >= $ITEMS - $ROWS * ($LANES / 4)) {
    const int at = lid - ($ITEMS - $ROWS * ($LANES / 4)), m = at / ($LANES / 4), n = first + at % ($LANES / 4) * 4;
    if (n < $COLUMNS) { $FETCHED }
  }

//: [loop]
//: The vectors that were not requested before the grid barrier.
#pragma unroll 8
    for (int chunk = slice + $AHEAD * $SLICES; chunk < $CHUNKS; chunk += $SLICES) {
      const uint4 found = ${KERNEL}_asked(right + (chunk - slice) * $BLOCK);
$MULTIPLY
    }

//: [multiply]
//: Multiplies a vector of a column by every row.
        float4 values[$VECTOR / 4];
        ${KERNEL}_unpack(found, values);
#pragma unroll
        for (int m = 0; m < $ROWS; ++m) {
          const __local float4 *left = (const __local float4 *)(near + m * $PITCH + chunk * $VECTOR);
#pragma unroll
          for (int i = 0; i < $VECTOR / 4; ++i) sums[m] = mad(left[i], values[i], sums[m]);
        }

//: [left]
//: Copies the left matrix, several parts at a time.
#pragma unroll $COPIED_AT_ONCE
  for (int turn = 0; turn < $COPIES; ++turn) {
    const int at = lid + turn * $ITEMS, m = at / ($PITCH / 4), k = at % ($PITCH / 4) * 4;
    if ($IS_COPIED) {
      const ${KERNEL}_row row = ${KERNEL}_row_of(batch, m$SIZE_ARGUMENTS);
      *(__local float4 *)(near + m * $PITCH + k) = ${KERNEL}_left4(a2, row, k$SIZE_ARGUMENTS);
    }
  }

//: [rows]
//: Computes the left matrix, one row after another.
#pragma unroll 1
  for (int row = 0; row < $ROWS; ++row) {
$STATEMENTS
  }

//: [asked]
static inline uint4 ${KERNEL}_asked(__global const uint4 *from) { return *from; }

//: [asked_nvidia]
static inline uint4 ${KERNEL}_asked(__global const uint4 *from) {
  uint4 found;
  // Compilers do not move it to where it is used, which is after waiting.
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w) : "l"((ulong)from));
  return found;
}

//: [unpack_float]
static inline void ${KERNEL}_unpack(const uint4 found, float4 *values) { values[0] = as_float4(found); }

//: [unpack_half]
static inline void ${KERNEL}_unpack(const uint4 found, float4 *values) {
  const uint4 stored[1] = {found};
  values[0] = vload_half4(0, (const half *)stored);
  values[1] = vload_half4(1, (const half *)stored);
}

//: [unpack_half_nvidia]
static inline float2 ${KERNEL}_floats(const uint pair) {
  float2 found;
  asm("{\n  .reg .f16 low, high;\n  mov.b32 {low, high}, %2;\n  cvt.f32.f16 %0, low;\n  cvt.f32.f16 %1, high;\n}"
      : "=f"(found.x), "=f"(found.y) : "r"(pair));
  return found;
}
static inline void ${KERNEL}_unpack(const uint4 found, float4 *values) {
  values[0] = (float4)(${KERNEL}_floats(found.x), ${KERNEL}_floats(found.y));
  values[1] = (float4)(${KERNEL}_floats(found.z), ${KERNEL}_floats(found.w));
}
