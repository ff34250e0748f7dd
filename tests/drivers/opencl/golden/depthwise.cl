static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global const float *restrict a1, __global const float *restrict a2, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 36) return;
  const int t3 = at / 12;
  const int t4 = at / 4;
  const int t5 = t4 % 3;
  const int t6 = at % 4;
  float t0 = 0.0f;
  for (int ky_1 = 0; ky_1 < 3; ++ky_1) {
    const int t7 = t3 * 2 + ky_1;
    const int t8 = t7 < 6;
    for (int kx_2 = 0; kx_2 < 3; ++kx_2) {
      const int t9 = t5 * 2 + kx_2;
      const float t10 = (t8 && (t9 < 6)) ? a1[(t3 * 48 + ky_1 * 24 + t5 * 8 + kx_2 * 4 + t6)] : 0.0f;
      const float t11 = a2[(ky_1 * 12 + kx_2 * 4 + t6)];
      t0 += (t10 * t11);
    }
  }
  a0[at] = (t0 * 0x1.0000000000000p-1f);
}
