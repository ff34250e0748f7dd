static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global const int *restrict a1, __global const float *restrict a2, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 15) return;
  const int t0 = a1[(at / 3)];
  if (!(t0 < 6)) *status = 1;
  const float t1 = a2[((neurald_floor_mod(((int)((t0 < 0) ? 0 : t0)), 6)) * 3 + (at % 3))];
  a0[at] = t1;
}
