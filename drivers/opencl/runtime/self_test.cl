//: Kernel that computes what other kernels consist of, see self_test.py.

//: [kernel]
//: Work-items of two groups each compute a row of numbers.
__kernel __attribute__((reqd_work_group_size($ITEMS, 1, 1)))
void $NAME(__global uchar *arena, const ulong given, const ulong found) {
  __local int shared[$ITEMS];
  const int lid = get_local_id(0), at = (int)get_group_id(0) * $ITEMS + lid;
  __global const int *numbers = (__global const int *)(arena + given);
  __global int *row = (__global int *)(arena + found) + at * $COLUMNS;
  const int x = numbers[2 * at], y = numbers[2 * at + 1];
  const float a = as_float(numbers[2 * at] & 0x7fffff | 0x3f800000) - 1.5f, b = (float)(y % 16);
  shared[lid] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  row[0] = shared[$ITEMS - 1 - lid];
  row[1] = (int)((uint)x * (uint)y);
  row[2] = neurald_floor_div(x, y);
  row[3] = neurald_floor_mod(x, y);
  row[4] = neurald_sign_int(x) + 4 * neurald_sign_long((long)x * (long)y);
  row[5] = (int)neurald_fixed_point(x, 0x5f000000 + (y & 0xffff), -(x & 7), 0);
  int sum = 0;
  for (int i = 0; i < (x & 31); ++i) {
    if ((y >> i) & 1) sum += i * y;
  }
  row[6] = sum;
  row[7] = (int)convert_char_sat(x >> (y & 31));
  row[8] = as_int(mad(a, b, 0.25f));
  row[9] = neurald_int_of_float(a * b * 1e9f);
  row[10] = (int)neurald_half_bits(a);
  row[11] = as_int(neurald_half_of_bits((ushort)(0x3800 + (x & 0x7ff))));
  row[12] = as_int(exp(a));
  row[13] = (int)((__global const char *)(arena + given))[at + 1];
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[(lid * 5 + 3) % $ITEMS] = y;
  barrier(CLK_LOCAL_MEM_FENCE);
  row[14] = shared[lid];
  row[15] = neurald_int_of_float(x < 0 ? NAN : 2.5f);
}
