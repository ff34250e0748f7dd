static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, __global const float *restrict a1, __global int *status) {
  const int row = group * 64 + lid;
  if (row >= 2100) return;
  float f0 = (-INFINITY);
  for (int r_1 = 0; r_1 < 3; ++r_1) {
    const float f2 = a1[(row * 3 + r_1)];
    f0 = neurald_max(f2, f0);
  }
  float f3 = 0.0f;
  for (int s_4 = 0; s_4 < 3; ++s_4) {
    const float f5 = a1[(row * 3 + s_4)];
    f3 += (exp((f5 - f0)));
  }
  for (int column = 0; column < 3; column += 1) {
    const float t0 = a1[(row * 3 + column)];
    a0[row * 3 + column] = ((exp((t0 - f0))) / f3);
  }
}
