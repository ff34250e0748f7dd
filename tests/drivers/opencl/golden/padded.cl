static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global const float *restrict a1, __global const float *restrict a2, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 30) return;
  const int t0 = at % 6;
  const int t1 = (at / 6) - 1;
  const int t2 = t0 - 1;
  const float t3 = a1[t0];
  const float t4 = ((((0 <= t1) && (t1 < 3)) && (0 <= t2)) && (t2 < 4)) ? a2[((at / 6) * 4 + t0 - 5)] : t3;
  a0[at] = t4;
}
