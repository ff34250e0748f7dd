static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global char *restrict a0, __global const char *restrict a1, __global const char *restrict a2, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 30) return;
  const int t2 = at / 6;
  const int t4 = at % 6;
  int t0 = 0;
  for (int k_1 = 0; k_1 < 12; ++k_1) {
    const char t3 = a1[(t2 * 12 + k_1)];
    const char t5 = a2[(t4 * 12 + k_1)];
    t0 += ((int)((uint)((int)((uint)((int)t3) - (uint)3)) * (uint)((int)((uint)((int)t5) - (uint)(-1)))));
  }
  a0[at] = ((char)(convert_char_sat((((float)t0) * 0x1.47ae140000000p-7f))));
}
