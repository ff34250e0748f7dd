static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, __global float *restrict a0, read_only image1d_buffer_t a1, const int s1, read_only image1d_buffer_t a2, const int s2, read_only image1d_buffer_t a3, const int s3, __global int *status) {
  const int at = group * 64 + lid;
  if (at >= 6) return;
  const int row = at / 2, column = at % 2 * 4;
  const float4 v0 = read_imagef(a1, s1 + (((row * 8 + column)) >> 2));
  const float4 v1 = read_imagef(a2, s2 + (((row * 8 + column)) >> 2));
  const float4 v2 = read_imagef(a3, s3 + ((column) >> 2));
  *(__global float4 *)(a0 + row * 8 + column) = (float4)((float)((tanh(((((float)v0.s0) + ((float)((float)v1.s0))) + ((float)v2.s0))))), (float)((tanh(((((float)v0.s1) + ((float)((float)v1.s1))) + ((float)v2.s1))))), (float)((tanh(((((float)v0.s2) + ((float)((float)v1.s2))) + ((float)v2.s2))))), (float)((tanh(((((float)v0.s3) + ((float)((float)v1.s3))) + ((float)v2.s3))))));
}
