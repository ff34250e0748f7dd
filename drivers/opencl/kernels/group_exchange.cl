//: Numbers that work-items combine, see group_exchange.py.
//:
//: NAME: the number. COMBINE: the statement that combines it with `other`. ITEMS: work-items of a
//: group.

//: [other]
//: What another work-item of the warp has.
static inline void ${KERNEL}_other(float *found, const float value, const int distance) {
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(*found) : "f"(value), "r"(distance));
}

//: [in_warp]
//: Combines the numbers of a warp.
  for (int distance = 16; distance > 0; distance >>= 1) {
    float other;
    ${KERNEL}_other(&other, $NAME, distance);
    $COMBINE
  }

//: [by_warps]
//: Combines the numbers of a work-group, those of each warp first.
$IN_WARP
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

//: [through_memory]
//: Combines the numbers of a work-group.
  {
    __local float *parts = (__local float *)scratch;
    parts[lid] = $NAME;
    barrier(CLK_LOCAL_MEM_FENCE);
    // Every work-item combines the same numbers in two steps, in the same order.
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
