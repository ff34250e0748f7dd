//: Attention in portable OpenCL C, see tile.py.
//:
//: BM, BN: rows and columns of a tile of scores. KC: depth of a step. ITEMS: work-items of a group,
//: each with four rows and four columns. ACROSS: work-items along the columns. ROWS, COLUMNS:
//: pitches in local memory. DP: features, rounded up to a multiple of four. ND: vectors of features
//: of a row that a work-item has. M, N, K, D: rows, columns, depth and features of a batch.

//: [function]
//: The whole function.
$TEXT
$FUNCTION {
  const int batch = group / $BLOCKS, m0 = (group - batch * $BLOCKS) * $BM;
  const int down = lid / $ACROSS * 4, across = lid % $ACROSS;
  const int query = ${KERNEL}_query(batch), key = ${KERNEL}_key(batch), value = ${KERNEL}_value(batch);
  __local float *left = (__local float *)scratch, *right = left + $KC * $ROWS;
  __local float *powers = (__local float *)(scratch + $POWERS_AT);
  __local float4 *parts = (__local float4 *)(scratch + $PARTS_AT) + down / 4;
  float4 sums[4][$ND];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < $ND; ++j) sums[i][j] = (float4)(0);
  float4 largest = (float4)(-INFINITY), total = (float4)(0);
#pragma unroll 1
  for (int n0 = 0; n0 < $N; n0 += $BN) {
    float4 scores[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[i] = (float4)(0);
#pragma unroll 1
    for (int k0 = 0; k0 < $K; k0 += $KC) {
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int e = lid; e < $BM * $KC; e += $ITEMS) {
        const int row = e / $KC, k = e % $KC, at = query + (m0 + row) * $QUERY_ROW + (k0 + k) * $QUERY_INNER;
        left[k * $ROWS + row] = m0 + row < $M && k0 + k < $K ? $LOAD_QUERY : 0.0f;
      }
      for (int e = lid; e < $BN * $KC; e += $ITEMS) {
        const int column = $KEY_COLUMN, k = $KEY_DEPTH, at = key + (n0 + column) * $KEY_ROW + (k0 + k) * $KEY_INNER;
        right[k * $COLUMNS + column] = n0 + column < $N && k0 + k < $K ? $LOAD_KEY : 0.0f;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
      for (int k = 0; k < $KC; ++k) {
        const float4 a = *(__local const float4 *)(left + k * $ROWS + down);
        const float4 b = *(__local const float4 *)(right + k * $COLUMNS + across * 4);
        scores[0] = mad((float4)(a.x), b, scores[0]);
        scores[1] = mad((float4)(a.y), b, scores[1]);
        scores[2] = mad((float4)(a.z), b, scores[2]);
        scores[3] = mad((float4)(a.w), b, scores[3]);
      }
    }
    const int n = n0 + across * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = m0 + down + i;
      float4 row = (float4)(-INFINITY);
      if (m < $M) {
        row.x = n < $N ? ${KERNEL}_exponent(scores[i].x, batch, m, n, $ARGUMENTS) : -INFINITY;
        row.y = n + 1 < $N ? ${KERNEL}_exponent(scores[i].y, batch, m, n + 1, $ARGUMENTS) : -INFINITY;
        row.z = n + 2 < $N ? ${KERNEL}_exponent(scores[i].z, batch, m, n + 2, $ARGUMENTS) : -INFINITY;
        row.w = n + 3 < $N ? ${KERNEL}_exponent(scores[i].w, batch, m, n + 3, $ARGUMENTS) : -INFINITY;
      }
      scores[i] = row;
    }
    parts[across * ($BM / 4)] = (float4)(
        fmax(fmax(scores[0].x, scores[0].y), fmax(scores[0].z, scores[0].w)),
        fmax(fmax(scores[1].x, scores[1].y), fmax(scores[1].z, scores[1].w)),
        fmax(fmax(scores[2].x, scores[2].y), fmax(scores[2].z, scores[2].w)),
        fmax(fmax(scores[3].x, scores[3].y), fmax(scores[3].z, scores[3].w)));
    barrier(CLK_LOCAL_MEM_FENCE);
    float4 found = largest;
    for (int i = 0; i < $ACROSS; ++i) found = fmax(found, parts[i * ($BM / 4)]);
    barrier(CLK_LOCAL_MEM_FENCE);
    // While everything is masked, the exponents are compared with 0 instead: minus infinity minus
    // itself is NaN.
    const float4 top = select(found, (float4)(0), found == (float4)(-INFINITY));
    const float4 kept = exp(largest - top);
    largest = found;
    scores[0] = exp(scores[0] - top.x);
    scores[1] = exp(scores[1] - top.y);
    scores[2] = exp(scores[2] - top.z);
    scores[3] = exp(scores[3] - top.w);
    parts[across * ($BM / 4)] = (float4)(
        (scores[0].x + scores[0].y) + (scores[0].z + scores[0].w), (scores[1].x + scores[1].y) + (scores[1].z + scores[1].w),
        (scores[2].x + scores[2].y) + (scores[2].z + scores[2].w), (scores[3].x + scores[3].y) + (scores[3].z + scores[3].w));
    barrier(CLK_LOCAL_MEM_FENCE);
    const float4 before = total * kept;
    float4 added = (float4)(0);
    for (int i = 0; i < $ACROSS; ++i) added += parts[i * ($BM / 4)];
    total = before + added;
    // Sums of weighted values are divided by the sum of weights at once: they never exceed the
    // values.
    const float4 inverse = select((float4)(1) / total, (float4)(0), total == (float4)(0));
    const float4 factor = before * inverse;
#define NEURALD_POWERS(j, z) \
    *(__local float4 *)(powers + (across * 4 + j) * $ROWS + down) = \
        inverse * (float4)(scores[0].z, scores[1].z, scores[2].z, scores[3].z);
    NEURALD_POWERS(0, x)
    NEURALD_POWERS(1, y)
    NEURALD_POWERS(2, z)
    NEURALD_POWERS(3, w)
#undef NEURALD_POWERS
#pragma unroll
    for (int j = 0; j < $ND; ++j) {
      sums[0][j] *= factor.x;
      sums[1][j] *= factor.y;
      sums[2][j] *= factor.z;
      sums[3][j] *= factor.w;
    }
#pragma unroll 1
    for (int part = 0; part < $BN && n0 + part < $N; part += $KC) {
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int e = lid; e < $KC * $DP; e += $ITEMS) {
        const int row = e / $DP, d = e % $DP, at = value + (n0 + part + row) * $VALUE_ROW + d * $VALUE_INNER;
        left[e] = n0 + part + row < $N && d < $D ? $LOAD_VALUE : 0.0f;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll $UNROLL
      for (int k = 0; k < $KC; ++k) {
        const float4 a = *(__local const float4 *)(powers + (part + k) * $ROWS + down);
#pragma unroll
        for (int j = 0; j < $ND; ++j) {
          const int d = (across + j * $ACROSS) * 4;
          if ($IS_FULL || d < $DP) {
            const float4 b = *(__local const float4 *)(left + k * $DP + d);
            sums[0][j] = mad((float4)(a.x), b, sums[0][j]);
            sums[1][j] = mad((float4)(a.y), b, sums[1][j]);
            sums[2][j] = mad((float4)(a.z), b, sums[2][j]);
            sums[3][j] = mad((float4)(a.w), b, sums[3][j]);
          }
        }
      }
    }
  }
  // Adjacent work-items store adjacent elements. A row without a weight is divided by zero.
#pragma unroll
  for (int j = 0; j < $ND; ++j) {
    barrier(CLK_LOCAL_MEM_FENCE);
    *(__local float4 *)(powers + down * $BN + across * 4) = total.x > 0 ? sums[0][j] : (float4)(NAN);
    *(__local float4 *)(powers + (down + 1) * $BN + across * 4) = total.y > 0 ? sums[1][j] : (float4)(NAN);
    *(__local float4 *)(powers + (down + 2) * $BN + across * 4) = total.z > 0 ? sums[2][j] : (float4)(NAN);
    *(__local float4 *)(powers + (down + 3) * $BN + across * 4) = total.w > 0 ? sums[3][j] : (float4)(NAN);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
    for (int e = lid; e < $BM * $BN; e += $ITEMS) {
      const int m = m0 + e / $BN, d = j * $BN + e % $BN;
      if (m < $M && d < $D) ${KERNEL}_store(powers[e], batch, m, d, $ARGUMENTS);
    }
  }
}
