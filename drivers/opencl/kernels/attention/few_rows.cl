//: Attention of few rows, see few_rows.py.
//:
//: ITEMS: work-items of a group, which computes a row. SHARING: work-items that share the depth of
//: a score. K4, D4: vectors of the depth and of the features. SLICES: parts of the columns whose
//: values are added separately. AHEAD: values that a work-item requests before the weights are
//: known. TURNS: columns of a part. SCORES_AT: where scores, then weights, are in local memory.
//: COMBINE_LARGEST, COMBINE_TOTAL: statements that combine these numbers of all work-items.

//: [function]
//: The whole function.
$TEXT
$STORE2
$HELPERS
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
$COMBINE_LARGEST
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
$COMBINE_TOTAL
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
