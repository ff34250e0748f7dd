// Helper functions of generated code, see `dialect`. A program contains those that it calls,
// without the comments between them.

static inline float neurald_min(float a, float b) {
  return a < b || a != a ? a : b;
}
static inline float neurald_max(float a, float b) {
  return a > b || a != a ? a : b;
}
static inline double neurald_min_double(double a, double b) {
  return a < b || a != a ? a : b;
}
static inline double neurald_max_double(double a, double b) {
  return a > b || a != a ? a : b;
}
static inline float neurald_sign(float x) {
  return x != x ? x : sign(x);
}
static inline int neurald_sign_int(int x) {
  return (x > 0) - (x < 0);
}
static inline int neurald_sign_long(long x) {
  return (x > 0) - (x < 0);
}
static inline float neurald_half(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (__private half *)&bits);
  return vload_half(0, (const __private half *)&bits);
}
static inline ushort neurald_half_bits(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (__private half *)&bits);
  return bits;
}
static inline float neurald_half_of_bits(ushort bits) {
  return vload_half(0, (const __private half *)&bits);
}
static inline int neurald_floor_div(int a, int b) {
  int q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
static inline int neurald_floor_mod(int a, int b) {
  int r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
static inline long neurald_floor_div_long(long a, long b) {
  long q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
static inline long neurald_floor_mod_long(long a, long b) {
  long r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
static inline float neurald_floor_mod_float(float a, float b) {
  float r = fmod(a, b);
  return r != 0.0f && ((r < 0.0f) != (b < 0.0f)) ? r + b : r;
}
// Devices need no doubles: where the rounded quotient may reach an integer that the exact one does
// not reach, the remainder shows which case it is.
static inline float neurald_floor_div_float(float a, float b) {
  const float rest = neurald_floor_mod_float(a, b);
  return fabs(rest) < fabs(b) ? rint((a - rest) / b) : floor(a / b);
}
static inline long neurald_power(long a, long b) {
  long result = 1;
  for (; b > 0; b >>= 1) {
    if (b & 1) result = (long)((ulong)result * (ulong)a);
    a = (long)((ulong)a * (ulong)a);
  }
  return result;
}
static inline long neurald_fixed_point(long value, int mantissa, int exponent, int ties_up) {
  if (exponent > 0) value = clamp(value << exponent, -2147483648L, 2147483647L);
  const int right = exponent < 0 ? -exponent : 0;
  long product = value * (long)mantissa + (1L << 30);
  if (right) product += (1L << (30 + right)) - (!ties_up && product - (1L << 30) < 0 ? 1L << 31 : 0);
  return product >> (31 + right);
}
// The three steps of `neurald_fixed_point` for four 32-bit numbers; each compiles to a 64-bit
// product and shifts.
static inline int4 neurald_shifted_left4(const int4 value, const int4 left) {
  const int4 shifted = as_int4(as_uint4(value) << as_uint4(left));
  return select((value >> 31) ^ 2147483647, shifted, (shifted >> left) == value);
}
static inline int4 neurald_high_product4(const int4 value, const int4 mantissa) {
  return (int4)((int)(((long)value.x * (long)mantissa.x + (1L << 30)) >> 31),
                (int)(((long)value.y * (long)mantissa.y + (1L << 30)) >> 31),
                (int)(((long)value.z * (long)mantissa.z + (1L << 30)) >> 31),
                (int)(((long)value.w * (long)mantissa.w + (1L << 30)) >> 31));
}
static inline int4 neurald_shifted_right4(const int4 value, const int4 exponent) {
  return ((value >> ~exponent) + 1) >> 1;
}
// The upper halves of 64-bit products to which 64-bit numbers are added, which have two halves.
static inline int4 neurald_high_sum4(const int4 value, const int4 mantissa, const int4 high, const uint4 low) {
  return (int4)((int)(((long)value.x * (long)mantissa.x + as_long((uint2)(low.x, as_uint(high.x)))) >> 32),
                (int)(((long)value.y * (long)mantissa.y + as_long((uint2)(low.y, as_uint(high.y)))) >> 32),
                (int)(((long)value.z * (long)mantissa.z + as_long((uint2)(low.z, as_uint(high.z)))) >> 32),
                (int)(((long)value.w * (long)mantissa.w + as_long((uint2)(low.w, as_uint(high.w)))) >> 32));
}
// `neurald_fixed_point` for exponents from -31 to -2, and for -1. What both roundings add is added
// to the 64-bit product at once: 2^30, half of what the second shift removes in units of 2^31, and
// -2^31 for negative values, whose ties are rounded away from zero. The upper half of the sum is
// then shifted right by the remaining bits.
static inline int4 neurald_scaled4(const int4 value, const int4 mantissa, const int4 exponent) {
  const uint4 low = (as_uint4(value) & 0x80000000u) | 0x40000000u;
  const int4 high = ((int4)(1) << (-2 - exponent)) + (value >> 31);
  return neurald_high_sum4(value, mantissa, high, low) >> ~exponent;
}
static inline int4 neurald_scaled_by_half4(const int4 value, const int4 mantissa) {
  const uint4 low = (~as_uint4(value) & 0x80000000u) | 0x40000000u;
  return neurald_high_sum4(value, mantissa, (int4)(0), low);
}
// `neurald_scaled4` plus a number of at most eight bits, for exponents from -23 to -2, and the same
// where only results above that number matter, so that ties of negative values do not.
static inline int4 neurald_scaled_plus4(const int4 value, const int4 mantissa, const int4 exponent, const int4 addend) {
  const uint4 low = (as_uint4(value) & 0x80000000u) | 0x40000000u;
  const int4 high = (2 * addend + 1) * ((int4)(1) << (-2 - exponent)) + (value >> 31);
  return neurald_high_sum4(value, mantissa, high, low) >> ~exponent;
}
static inline int4 neurald_scaled_above4(const int4 value, const int4 mantissa, const int4 exponent, const int4 addend) {
  const int4 high = (2 * addend + 1) * ((int4)(1) << (-2 - exponent));
  return neurald_high_sum4(value, mantissa, high, (uint4)(0x40000000u)) >> ~exponent;
}
// Products with fixed-point multipliers that are rounded once; with negative exponents the upper
// halves of the products suffice.
static inline int4 neurald_rounded4(const int4 value, const int4 mantissa, const int4 exponent) {
  return (int4)((int)(((long)value.x * (long)mantissa.x + (1L << (30 - exponent.x))) >> (31 - exponent.x)), (int)(((long)value.y * (long)mantissa.y + (1L << (30 - exponent.y))) >> (31 - exponent.y)), (int)(((long)value.z * (long)mantissa.z + (1L << (30 - exponent.z))) >> (31 - exponent.z)), (int)(((long)value.w * (long)mantissa.w + (1L << (30 - exponent.w))) >> (31 - exponent.w)));
}
static inline int4 neurald_rounded_down4(const int4 value, const int4 mantissa, const int4 exponent) {
  return (int4)((int)(((long)value.x * (long)mantissa.x + (1L << (30 - exponent.x))) >> 32) >> ~exponent.x, (int)(((long)value.y * (long)mantissa.y + (1L << (30 - exponent.y))) >> 32) >> ~exponent.y, (int)(((long)value.z * (long)mantissa.z + (1L << (30 - exponent.z))) >> 32) >> ~exponent.z, (int)(((long)value.w * (long)mantissa.w + (1L << (30 - exponent.w))) >> 32) >> ~exponent.w);
}
// The bits of 2^23 plus each byte as floats; prmt makes each of them in one instruction.
static inline uint4 neurald_above_two_to_23(const uint bytes) {
#if NEURALD_NVIDIA_CAPABILITY >= 80
  uint4 bits;
  asm("prmt.b32 %0, %1, %2, 0x7440;" : "=r"(bits.x) : "r"(bytes), "r"(0x4B000000));
  asm("prmt.b32 %0, %1, %2, 0x7441;" : "=r"(bits.y) : "r"(bytes), "r"(0x4B000000));
  asm("prmt.b32 %0, %1, %2, 0x7442;" : "=r"(bits.z) : "r"(bytes), "r"(0x4B000000));
  asm("prmt.b32 %0, %1, %2, 0x7443;" : "=r"(bits.w) : "r"(bytes), "r"(0x4B000000));
  return bits;
#else
  return ((uint4)(bytes) >> (uint4)(0, 8, 16, 24) & 255u) | 0x4B000000u;
#endif
}
// Numbers limited to 8 bits, and 8-bit numbers as floats: adding 3 * 2^22 converts between small
// integers and floats. NVIDIA's own conversions handle one number at a time, and slowly.
static inline char4 neurald_saturated_char4(const int4 value) {
#if NEURALD_NVIDIA_CAPABILITY >= 80
  uint upper, all;
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(upper) : "r"(value.w), "r"(value.z));
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(value.y), "r"(value.x), "r"(upper));
  return as_char4(all);
#else
  return convert_char4_sat(value);
#endif
}
static inline uchar4 neurald_saturated_uchar4(const int4 value) {
#if NEURALD_NVIDIA_CAPABILITY >= 80
  uint upper, all;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(upper) : "r"(value.w), "r"(value.z));
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(value.y), "r"(value.x), "r"(upper));
  return as_uchar4(all);
#else
  return convert_uchar4_sat(value);
#endif
}
static inline float4 neurald_float4_of_uchar4(const uchar4 value) {
  return as_float4(neurald_above_two_to_23(as_uint(value))) - 8388608.0f;
}
static inline float4 neurald_float4_of_char4(const char4 value) {
  return as_float4(neurald_above_two_to_23(as_uint(value) ^ 0x80808080u)) - 8388736.0f;
}
// A rounded sum of multiples of 8-bit numbers, see `rounded_sum`, which is below 2^22.
static inline int4 neurald_rounded_sum4(const float4 first, const float4 second, const float4 a, const float4 b, const float4 addend) {
  return as_int4(fma(first, a, fma(second, b, addend)) + 12582912.0f) - 0x4B400000;
}
static inline float neurald_part_float4(float4 texel, int at) {
  return at & 2 ? (at & 1 ? texel.w : texel.z) : (at & 1 ? texel.y : texel.x);
}
static inline int neurald_part_int4(int4 texel, int at) {
  return at & 2 ? (at & 1 ? texel.w : texel.z) : (at & 1 ? texel.y : texel.x);
}
static inline uint neurald_part_uint4(uint4 texel, int at) {
  return at & 2 ? (at & 1 ? texel.w : texel.z) : (at & 1 ? texel.y : texel.x);
}
static inline int neurald_int_of_float(float x) {
  return isnan(x) ? 0 : convert_int_sat(x);
}
static inline uint neurald_uint_of_float(float x) {
  return isnan(x) ? 0 : convert_uint_sat(x);
}
static inline long neurald_long_of_float(float x) {
  return isnan(x) ? 0 : convert_long_sat(x);
}
static inline ulong neurald_ulong_of_float(float x) {
  return isnan(x) ? 0 : convert_ulong_sat(x);
}
static inline char neurald_char_of_double(double x) {
  return isnan(x) ? 0 : convert_char_sat(x);
}
static inline uchar neurald_uchar_of_double(double x) {
  return isnan(x) ? 0 : convert_uchar_sat(x);
}
static inline short neurald_short_of_double(double x) {
  return isnan(x) ? 0 : convert_short_sat(x);
}
static inline ushort neurald_ushort_of_double(double x) {
  return isnan(x) ? 0 : convert_ushort_sat(x);
}
static inline int neurald_int_of_double(double x) {
  return isnan(x) ? 0 : convert_int_sat(x);
}
static inline uint neurald_uint_of_double(double x) {
  return isnan(x) ? 0 : convert_uint_sat(x);
}
static inline long neurald_long_of_double(double x) {
  return isnan(x) ? 0 : convert_long_sat(x);
}
static inline ulong neurald_ulong_of_double(double x) {
  return isnan(x) ? 0 : convert_ulong_sat(x);
}
// An approximation by 1 - 2^p(|x|), with an absolute error of at most 7e-7.
static inline float4 neurald_erf4(float4 x) {
  const float4 a = fabs(x);
  float4 p = mad(a, (float4)(-0.00294415979f), (float4)(0.0295900479f));
  p = mad(a, mad(a, mad(a, p, (float4)(-0.148665637f)), (float4)(-0.918509364f)), (float4)(-1.62788904f)) * a;
#ifdef __NV_CL_C_VERSION
  float4 rest;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(rest.x) : "f"(p.x));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(rest.y) : "f"(p.y));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(rest.z) : "f"(p.z));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(rest.w) : "f"(p.w));
#else
  const float4 rest = native_exp2(p);
#endif
  return copysign(1.0f - rest, x);
}
// A power of two; results that are no normal numbers may be 0.
static inline float neurald_power_of_two(float x) {
#ifdef __NV_CL_C_VERSION
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
#else
  return native_exp2(x);
#endif
}
// Four and two FLOAT16 of one word of memory. NVIDIA's own functions may move them one by one.
static inline float4 neurald_float4_of_halves(const uint2 bits) {
#ifdef __NV_CL_C_VERSION
  float x, y, z, w;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }" : "=f"(x), "=f"(y) : "r"(bits.x));
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }" : "=f"(z), "=f"(w) : "r"(bits.y));
  return (float4)(x, y, z, w);
#else
  return vload_half4(0, (const __private half *)&bits);
#endif
}
static inline uint2 neurald_halves_of_float4(const float4 value) {
  uint2 bits;
#ifdef __NV_CL_C_VERSION
  uint first, second;
  asm("{ .reg .b16 low, high; cvt.rn.f16.f32 low, %1; cvt.rn.f16.f32 high, %2; mov.b32 %0, {low, high}; }" : "=r"(first) : "f"(value.x), "f"(value.y));
  asm("{ .reg .b16 low, high; cvt.rn.f16.f32 low, %1; cvt.rn.f16.f32 high, %2; mov.b32 %0, {low, high}; }" : "=r"(second) : "f"(value.z), "f"(value.w));
  bits = (uint2)(first, second);
#else
  vstore_half4_rte(value, 0, (__private half *)&bits);
#endif
  return bits;
}
static inline uint neurald_halves_of_float2(const float2 value) {
  uint bits;
#ifdef __NV_CL_C_VERSION
  asm("{ .reg .b16 low, high; cvt.rn.f16.f32 low, %1; cvt.rn.f16.f32 high, %2; mov.b32 %0, {low, high}; }" : "=r"(bits) : "f"(value.x), "f"(value.y));
#else
  vstore_half2_rte(value, 0, (__private half *)&bits);
#endif
  return bits;
}
