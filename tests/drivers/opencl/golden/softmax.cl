static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global const float *restrict a1, __global int *status) {
  const int row = group;
  float f0 = (-INFINITY);
  {
    __local float *parts = (__local float *)scratch;
    for (int along = lid; along < 9; along += 64) {
    const float t0 = a1[(row * 9 + along)];
      f0 = neurald_max(t0, f0);
    }
    parts[lid] = f0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = 32; half_size > 0; half_size >>= 1) {
      if (lid < half_size) {
        const float other = parts[lid + half_size];
        f0 = neurald_max(other, f0);
        parts[lid] = f0;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    f0 = parts[0];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float f1 = 0.0f;
  {
    __local float *parts = (__local float *)scratch;
    for (int along = lid; along < 9; along += 64) {
    const float t0 = a1[(row * 9 + along)];
      f1 += (exp((t0 - f0)));
    }
    parts[lid] = f1;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = 32; half_size > 0; half_size >>= 1) {
      if (lid < half_size) {
        const float other = parts[lid + half_size];
        f1 += other;
        parts[lid] = f1;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    f1 = parts[0];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int column = lid; column < 9; column += 64) {
    const float t0 = a1[(row * 9 + column)];
    a0[row * 9 + column] = ((exp((t0 - f0))) / f1);
  }
}
