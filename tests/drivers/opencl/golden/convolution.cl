static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global const float *restrict a1, __global const float *restrict a2, __global const float *restrict a3, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 288) return;
  const int t4 = at / 8;
  const int t5 = at / 48;
  const int t10 = t4 % 6;
  const int t17 = at % 8;
  float t0 = 0.0f;
  for (int ky_1 = 0; ky_1 < 3; ++ky_1) {
    const int t6 = t5 + ky_1 - 1;
    const int t7 = 0 <= t6;
    const int t8 = t6 < 6;
    const int t9 = t7 && t8;
    for (int kx_2 = 0; kx_2 < 3; ++kx_2) {
      const int t11 = t10 + kx_2 - 1;
      const int t12 = 0 <= t11;
      const int t13 = t9 && t12;
      const int t14 = t11 < 6;
      const int t15 = t13 && t14;
      for (int c_3 = 0; c_3 < 4; ++c_3) {
        const float t16 = t15 ? a1[(ky_1 * 24 + t4 * 4 + kx_2 * 4 + c_3 - 28)] : 0.0f;
        const float t18 = a2[(t17 * 36 + ky_1 * 12 + kx_2 * 4 + c_3)];
        t0 += (t16 * t18);
      }
    }
  }
  const float t19 = a3[t17];
  a0[at] = (tanh((t0 + t19)));
}
