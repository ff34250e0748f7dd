static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global const float *restrict a1, __global int *status) {
  const int at = group;
  float total = 0.0f;
  {
    __local float *parts = (__local float *)scratch;
    for (int along = lid; along < 300; along += 256) {
    const float t0 = a1[(at * 300 + along)];
      total += (t0 * t0);
    }
    parts[lid] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = 128; half_size > 0; half_size >>= 1) {
      if (lid < half_size) {
        const float other = parts[lid + half_size];
        total += other;
        parts[lid] = total;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    total = parts[0];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lid == 0) {
    a0[at] = (sqrt(total));
  }
}
