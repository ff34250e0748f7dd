//: Parts of every program, see program_text.py and template.py.

//: [head]
//: The beginning of every program.
#ifdef NEURALD_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#pragma OPENCL FP_CONTRACT OFF

//: [kernel]
//: Kernel that calls a source's function.
__kernel __attribute__((reqd_work_group_size($LOCAL_SIZE, 1, 1)))
void $NAME(__global uchar *arena, __global const uchar *constants, const ulong status, const ulong workspace$OFFSETS) {
  __local uchar $SCRATCH[$SCRATCH_BYTES] __attribute__((aligned($SCRATCH_ALIGNMENT)));
  $SOURCE($EXTENTS(int)get_group_id(0), (int)get_local_id(0), $SCRATCH$POINTERS, (__global int *)(arena + status)$NUMBERS);
}

//: [shared_function]
//: Function that several kernels share, and the function of one kernel, which calls it.
#ifndef ${SHARED}_is_there
#define ${SHARED}_is_there
$TEXT
#endif
static void ${KERNEL}($PARAMETERS) {
  $SHARED($ARGUMENTS);
}
