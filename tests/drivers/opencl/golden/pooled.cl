static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global char *restrict a0, __global const char *restrict a1, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 18) return;
  const int t3 = at / 6;
  const int t4 = at / 2;
  const int t5 = t4 % 3;
  const int t6 = at % 2;
  char t0 = (-128);
  for (int ky_1 = 0; ky_1 < 3; ++ky_1) {
    const int t7 = t3 * 2 + ky_1 - 1;
    const int t8 = 0 <= t7;
    const int t9 = t7 < 5;
    const int t10 = t8 && t9;
    for (int kx_2 = 0; kx_2 < 3; ++kx_2) {
      const int t11 = t5 * 2 + kx_2 - 1;
      const char t12 = ((t10 && (0 <= t11)) && (t11 < 5)) ? a1[(t3 * 20 + ky_1 * 10 + t5 * 4 + kx_2 * 2 + t6 - 12)] : (-128);
      t0 = max((char)t12, (char)t0);
    }
  }
  a0[at] = t0;
}
