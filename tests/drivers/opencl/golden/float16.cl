static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global half *restrict a0, __global const uchar *restrict a1, __global const half *restrict a2, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 9) return;
  const int t0 = (a1[at] != 0);
  const float t1 = vload_half(at, a2);
  vstore_half_rte((t0 ? (neurald_half(t1 * 3.0f)) : t1), at, a0);
}
