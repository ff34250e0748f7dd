static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global const float *restrict a1, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 24) return;
  const float t0 = a1[(((at / 3) % 2) * 12 + (at % 3) * 4 + (at / 6))];
  a0[at] = t0;
}
