//: Addition to an output that several work-groups share, see split_k.py.

//: [add4]
//: Adds four floats at once to those at a pointer.
static inline void ${KERNEL}_add4(__global float *to, const float4 v) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"((ulong)to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}

//: [add4_one_by_one]
//: The same for devices that add one float at a time.
static inline void ${KERNEL}_add4(__global float *to, const float4 v) {
  asm volatile("red.global.add.f32 [%0], %1;" :: "l"((ulong)(to + 0)), "f"(v.s0) : "memory");
  asm volatile("red.global.add.f32 [%0], %1;" :: "l"((ulong)(to + 1)), "f"(v.s1) : "memory");
  asm volatile("red.global.add.f32 [%0], %1;" :: "l"((ulong)(to + 2)), "f"(v.s2) : "memory");
  asm volatile("red.global.add.f32 [%0], %1;" :: "l"((ulong)(to + 3)), "f"(v.s3) : "memory");
}

//: [zeros]
//: Clears the output.
static void ${KERNEL}(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global int *status) {
  const int at = group * $LOCAL_SIZE + lid;
  if (at < $COUNT) ((__global float4 *)a0)[at] = (float4)(0);
}
