//: 8-bit matrix products with four-byte dot products, see int8_dot.py.
//:
//: BM, BN: rows and columns of a tile. KW: words of four bytes along the depth of a step.
//: ITEMS: work-items of a group. KS: work-items that split the depth of a step. TM: rows of a
//: work-item. NA, NB: words of the left, and vectors of four words of the right matrix, that a
//: work-item loads in a step. AST: pitch of the left matrix in local memory. STEP: words of a step
//: in local memory.

//: [dot_ptx]
//: Adds the dot product of two words of four bytes, in PTX.
static inline int ${KERNEL}_dot(int sum, const uint left, const uint right) {
  asm("dp4a.$PTX_TYPES %0, %1, %2, %0;" : "+r"(sum) : "r"(left), "r"(right));
  return sum;
}

//: [dot_function]
//: The same with OpenCL's function, or single products where the compiler has none.
static inline int ${KERNEL}_dot(int sum, const uint left, const uint right) {
#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
  return sum + (int)dot_4x8packed_$DOT_TYPES(left, right);
#else
  const $LEFT_TYPE a = as_$LEFT_TYPE(left);
  const $RIGHT_TYPE b = as_$RIGHT_TYPE(right);
  return sum + ((int)a.x * (int)b.x + (int)a.y * (int)b.y + (int)a.z * (int)b.z + (int)a.w * (int)b.w);
#endif
}

//: [dot4]
//: Adds the dot products of one word with four others.
static inline int4 ${KERNEL}_dot4(const int4 sum, const uint left, const uint4 right) {
  return (int4)(${KERNEL}_dot(sum.x, left, right.x), ${KERNEL}_dot(sum.y, left, right.y),
                ${KERNEL}_dot(sum.z, left, right.z), ${KERNEL}_dot(sum.w, left, right.w));
}

//: [function]
//: The function up to where its accumulators are known.
$FUNCTION {
  const int tile = group % $tiles, batch = group / $tiles;
  const int m0 = tile / $across * $BM, n0 = tile % $across * $BN, base = $BASE;
  __local uint *steps = (__local uint *)scratch;
  const int item = lid % ($ITEMS / $KS), slice = lid / ($ITEMS / $KS);
  const int across = item % ($BN / 4), down = item / ($BN / 4);
  int4 sums[$TM], column_sums = (int4)(0);
  int row_sums[$TM];
#pragma unroll
  for (int i = 0; i < $TM; ++i) {
    sums[i] = (int4)(0);
    row_sums[i] = 0;
  }
  ${KERNEL}_row rows[$NA];
#pragma unroll
  for (int i = 0; i < $NA; ++i) rows[i] = ${KERNEL}_row_of(batch, m0 + (lid + i * $ITEMS) / $KW$SIZE_ARGUMENTS);
  {
    uint left[$NA];
    uint4 right[$NB];
#define NEURALD_LOAD(step) { \
    _Pragma("unroll") for (int i = 0; i < $NA; ++i) { \
      const int e = lid + i * $ITEMS; \
      if ((i + 1) * $ITEMS <= $BM * $KW || e < $BM * $KW) \
        left[i] = ${KERNEL}_left_word($LEFT_POINTER, rows[i], ((step) * $KW + e % $KW) * 4$SIZE_ARGUMENTS); \
    } \
    _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \
      const int e = lid + i * $ITEMS; \
      if ((i + 1) * $ITEMS <= $BN * $KW / 4 || e < $BN * $KW / 4) \
        right[i] = ${KERNEL}_right_words($RIGHT_POINTER, base, (step) * $KW + e / ($BN / 4), n0 + e % ($BN / 4) * 4$SIZE_ARGUMENTS); \
    } }
#define NEURALD_KEEP(buffer) { \
    _Pragma("unroll") for (int i = 0; i < $NA; ++i) { \
      const int e = lid + i * $ITEMS; \
      if ((i + 1) * $ITEMS <= $BM * $KW || e < $BM * $KW) (buffer)[e / $KW * $AST + e % $KW] = left[i]; \
    } \
    _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \
      const int e = lid + i * $ITEMS; \
      if ((i + 1) * $ITEMS <= $BN * $KW / 4 || e < $BN * $KW / 4) \
        *(__local uint4 *)((buffer) + $BM * $AST + e * 4) = right[i]; \
    } }
    NEURALD_LOAD(0)
    NEURALD_KEEP(steps)
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 0; step < $steps; ++step) {
      __local const uint *buffer = steps + step % 2 * $STEP;
      if (step + 1 < $steps) NEURALD_LOAD(step + 1)
      __local const uint *left_at = buffer + down * $AST + slice * 4;
      __local const uint *right_at = buffer + $BM * $AST + slice * 4 * $BN + across * 4;
#pragma unroll
      for (int q = 0; q < $KW / 4 / $KS; ++q) {
        uint4 words[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) words[k] = *(__local const uint4 *)(right_at + k * $BN);
#pragma unroll
        for (int i = 0; i < $TM; ++i) {
          const uint4 part = *(__local const uint4 *)(left_at + i * ($BM / $TM) * $AST);
          sums[i] = ${KERNEL}_dot4(sums[i], part.x, words[0]);
          sums[i] = ${KERNEL}_dot4(sums[i], part.y, words[1]);
          sums[i] = ${KERNEL}_dot4(sums[i], part.z, words[2]);
          sums[i] = ${KERNEL}_dot4(sums[i], part.w, words[3]);
$ROW_SUMS
        }
$COLUMN_SUMS
        left_at += $KS * 4;
        right_at += $KS * 4 * $BN;
      }
      if (step + 1 < $steps) NEURALD_KEEP(steps + (step + 1) % 2 * $STEP)
      barrier(CLK_LOCAL_MEM_FENCE);
    }
#undef NEURALD_LOAD
#undef NEURALD_KEEP
  }

//: [row_sums]
//: Sums the bytes of each row.
          row_sums[i] = ${KERNEL}_dot(row_sums[i], part.x, 0x01010101u);
          row_sums[i] = ${KERNEL}_dot(row_sums[i], part.y, 0x01010101u);
          row_sums[i] = ${KERNEL}_dot(row_sums[i], part.z, 0x01010101u);
          row_sums[i] = ${KERNEL}_dot(row_sums[i], part.w, 0x01010101u);

//: [column_sums]
//: Sums the bytes of each column.
#pragma unroll
        for (int k = 0; k < 4; ++k) column_sums = ${KERNEL}_dot4(column_sums, 0x01010101u, words[k]);

//: [subtract_row_sums]
//: Subtracts the right zero point times the sums of rows.
#pragma unroll
  for (int i = 0; i < $TM; ++i) sums[i] -= (int4)(($right_zero) * row_sums[i]);

//: [subtract_column_sums]
//: Subtracts the left zero point times the sums of columns. These sums include all bytes of all
//: steps, from which one slice subtracts the zero points.
  if (slice == 0) column_sums -= (int4)($steps * ($KW * 4) * ($right_zero));
#pragma unroll
  for (int i = 0; i < $TM; ++i) sums[i] -= ($left_zero) * column_sums;

//: [subtract_corrections]
//: Subtracts the left zero point times the sums of constant columns.
  if (slice == 0 && n0 + across * 4 < $right_pitch) {
    const int4 correction = $CORRECTION;
#pragma unroll
    for (int i = 0; i < $TM; ++i) sums[i] -= correction;
  }

//: [slices]
//: Adds up the accumulators of work-items that split the depth, through local memory.
  __local int *all = (__local int *)scratch;
#pragma unroll
  for (int i = 0; i < $TM; ++i)
    *(__local int4 *)(all + (slice * $BM + i * ($BM / $TM) + down) * $BN + across * 4) = sums[i];
  barrier(CLK_LOCAL_MEM_FENCE);
$ADD_SLICES
  barrier(CLK_LOCAL_MEM_FENCE);
