//: Attention of few rows, see few_rows.py.
//:
//: ITEMS: work-items of a group, which computes a row. SHARING: work-items that share the depth of
//: a score. K4, D4: vectors of the depth and of the features. SLICES: parts of the columns whose
//: values are added separately. AHEAD: values that a work-item requests before the weights are
//: known. TURNS: columns of a part. SCORES_AT: where scores, then weights, are in local memory.

//: [function]
//: The whole function.
$TEXT
$STORE2
$COMBINED
$FUNCTION {
  const int batch = group / $BLOCKS, m = group - batch * $BLOCKS;
  const int query = ${KERNEL}_query(batch) + m * $QUERY_ROW, key = ${KERNEL}_key(batch), value = ${KERNEL}_value(batch);
  __local float *parts = (__local float *)scratch, *scores = (__local float *)(scratch + $SCORES_AT);
  const int share = lid % $SHARING, d = lid % $D4 * 4, slice = lid / $D4;
#pragma unroll 1
  for (int n = lid / $SHARING; n < $N; n += $ITEMS / $SHARING) {
    float4 sum = (float4)(0);
#pragma unroll 8
    for (int k = share * 4; k < $K4 * 4; k += $SHARING * 4) sum = mad($QUERY_VECTOR, $KEY_VECTOR, sum);
    scores[n * $SHARING + share] = (sum.x + sum.y) + (sum.z + sum.w);
  }
  float4 ahead[$AHEAD];
#pragma unroll
  for (int i = 0; i < $AHEAD; ++i) {
    const int n = slice + i * $SLICES;
    ahead[i] = (float4)(0);
    if (slice < $SLICES && n < $N) ahead[i] = $VALUE_VECTOR;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float largest = -INFINITY;
#pragma unroll 1
  for (int n = lid; n < $N; n += $ITEMS) {
    float sum = 0.0f;
    for (int i = 0; i < $SHARING; ++i) sum += scores[n * $SHARING + i];
    const float exponent = ${KERNEL}_exponent(sum, batch, m, n, $ARGUMENTS);
    largest = fmax(largest, exponent);
    $KEPT[n] = exponent;
  }
  largest = ${KERNEL}_combined(largest, 0, scratch, lid);
  // If everything is masked, the exponents are compared with 0 instead: minus infinity minus itself
  // is NaN.
  if (largest == -INFINITY) largest = 0.0f;
  float total = 0.0f;
#pragma unroll 1
  for (int n = lid; n < $N; n += $ITEMS) {
    const float power = exp($KEPT[n] - largest);
    total += power;
    $KEPT[n] = power;
  }
  total = ${KERNEL}_combined(total, 1, scratch, lid);
  // Weights are divided by their sum before they are used, so that sums never exceed the values. A
  // row without a weight is divided by zero.
  const float inverse = total > 0 ? 1.0f / total : NAN;
  float4 sum = (float4)(0);
  if (slice < $SLICES) {
#pragma unroll
    for (int i = 0; i < $AHEAD; ++i) {
      const int n = slice + i * $SLICES;
      if (n < $N) sum = mad((float4)(inverse * $KEPT[n]), ahead[i], sum);
    }
#pragma unroll 4
    for (int i = $AHEAD; i < $TURNS; ++i) {
      const int n = slice + i * $SLICES;
      if (n < $N) sum = mad((float4)(inverse * $KEPT[n]), $VALUE_VECTOR, sum);
    }
    *(__local float4 *)(parts + slice * ($D4 * 4) + d) = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
  for (int e = lid; e < ($D + 1) / 2; e += $ITEMS) {
    float2 found = (float2)(0);
#pragma unroll 8
    for (int i = 0; i < $SLICES; ++i) found += *(__local const float2 *)(parts + i * ($D4 * 4) + e * 2);
    if (e * 2 + 1 < $D) ${KERNEL}_store2(found.x, found.y, batch, m, e * 2, $ARGUMENTS);
    else ${KERNEL}_store(found.x, batch, m, e * 2, $ARGUMENTS);
  }
}

//: [combined]
//: Adds up the numbers of all work-items, or returns the largest.
static inline float ${KERNEL}_combined(float value, const int adds, __local uchar *scratch, const int lid) {
  __local float *parts = (__local float *)scratch;
  parts[lid] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  // Every work-item combines the same numbers in two steps, in the same order.
  if (lid < 16) {
    for (int i = 1; i < $ITEMS / 16; ++i) value = adds ? value + parts[lid + i * 16] : fmax(value, parts[lid + i * 16]);
    parts[lid] = value;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  value = parts[0];
  for (int i = 1; i < 16; ++i) value = adds ? value + parts[i] : fmax(value, parts[i]);
  barrier(CLK_LOCAL_MEM_FENCE);
  return value;
}

//: [combined_by_warps]
//: The same, the numbers of each warp first.
static inline float ${KERNEL}_combined(float value, const int adds, __local uchar *scratch, const int lid) {
  __local float *parts = (__local float *)scratch;
  for (int distance = 16; distance > 0; distance >>= 1) {
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(distance));
    value = adds ? value + other : fmax(value, other);
  }
  if (lid % 32 == 0) parts[lid / 32] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  value = parts[0];
#pragma unroll
  for (int i = 1; i < $ITEMS / 32; ++i) value = adds ? value + parts[i] : fmax(value, parts[i]);
  barrier(CLK_LOCAL_MEM_FENCE);
  return value;
}
