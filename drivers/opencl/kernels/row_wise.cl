//: Rows with reductions, see row_wise.py.
//:
//: WIDTH: work-items of a row. TURNS: how often a work-item has four elements of the row.
//: GUARD: the condition that it has. UNROLL: requests that loads of several turns are under way.

//: [function]
//: The whole function.
$HELPERS
static void $KERNEL($PARAMETERS) {
  const int row = $ROW, item = lid % $WIDTH;
  if (row >= $ROWS) return;
$BEFORE
$STATEMENTS
}

//: [row]
//: A row.
$REDUCTIONS
$UNROLL
  for (int turn = 0; turn < $TURNS; ++turn) {
    const int column = (item + turn * $WIDTH) * 4;
    if ($GUARD) {
$LINES
      const float4 value = $VALUE;
      $STORE
    }
  }

//: [short_row]
//: A row of which each work-item has four elements at most, at `column`, which it loads once.
$LOADS
$REDUCTIONS
$LINES
  if ($GUARD) {
    const float4 value = $VALUE;
    $STORE
  }

//: [other]
//: What another work-item of the warp has.
static inline void ${KERNEL}_other(float *found, const float value, const int distance) {
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(*found) : "f"(value), "r"(distance));
}

//: [reduction]
//: A reduction over a row.
  float $NAME = $IDENTITY;
$UNROLL
  for (int turn = 0; turn < $TURNS; ++turn) {
    const int column = (item + turn * $WIDTH) * 4;
    if ($GUARD) {
$LINES
      const float4 value = $VALUE;
$COMBINE
    }
  }
$EXCHANGE

//: [short_reduction]
//: A reduction over such a row.
$LINES
  float $NAME = $IDENTITY;
  if ($GUARD) {
    const float4 value = $VALUE;
$COMBINE
  }
$EXCHANGE

//: [exchange_by_warps]
//: Combines the numbers of a work-group, those of each warp first.
  for (int distance = 16; distance > 0; distance >>= 1) {
    float other;
    ${KERNEL}_other(&other, $NAME, distance);
    $COMBINE
  }
  {
    __local float *parts = (__local float *)scratch;
    if (lid % 32 == 0) parts[lid / 32] = $NAME;
    barrier(CLK_LOCAL_MEM_FENCE);
    $NAME = parts[0];
#pragma unroll
    for (int i = 1; i < $ITEMS / 32; ++i) {
      const float other = parts[i];
      $COMBINE
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

//: [exchange]
//: Combines the numbers of a work-group.
  {
    __local float *parts = (__local float *)scratch;
    parts[lid] = $NAME;
    barrier(CLK_LOCAL_MEM_FENCE);
    // Every work-item adds up the same numbers in two steps, in the same order.
    if (lid < 16) {
      for (int i = 1; i < $ITEMS / 16; ++i) {
        const float other = parts[lid + i * 16];
        $COMBINE
      }
      parts[lid] = $NAME;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    $NAME = parts[0];
    for (int i = 1; i < 16; ++i) {
      const float other = parts[i];
      $COMBINE
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

//: [exchange_by_warp]
//: Combines the numbers of a warp.
  for (int distance = 16; distance > 0; distance >>= 1) {
    float other;
    ${KERNEL}_other(&other, $NAME, distance);
    $COMBINE
  }
