//: Grid barrier between the phases of a persistent kernel, see persistent_kernel.py.
//:
//: `sync` is the synchronisation memory; the capitals in its indices are its layout. `target` is
//: the count of arrivals that a barrier waits for; its highest bit selects the counter. Where
//: `counts` is 0, the work-group is not among those that are waited for. CALLED: how functions are
//: declared that should not be inlined.

//: [functions]
//: Functions that wait by themselves do so between their independent part and the rest; target 0
//: means that there is no wait.
#define $WAIT_PARAMETERS , __global uint *sync, const uint target
#define $WAIT_ARGUMENTS , sync, target
#define $WAIT if (target) neurald_wait(sync, target, lid, $MAX_SPINS);
$PLACE
static $CALLED void neurald_arrive(__global uint *sync, const uint target, const int counts, const int lid) {
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (lid == 0 && counts) {
    __global uint *count = sync + (target >> 31) * $COUNTER_PITCH;
$ARRIVE
  }
}
static $CALLED void neurald_fetch(__global const uchar *from, const ulong size, const int first, const int groups, const int lid) {
$FETCH
}
static inline void neurald_wait(__global uint *sync, const uint target, const int lid, const int patience) {
  if (lid == 0) {
    __global uint *count = sync + (target >> 31) * $COUNTER_PITCH;
    const uint wanted = target & 0x7fffffff;
    uint seen = 0;
$POLL
    if (seen < wanted) {
      sync[$ABORTED] = 1;
      atomic_or(count, $RELEASE_ALL);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
static $CALLED void neurald_meet(__global uint *sync, const uint target, const int counts, const int lid, const int patience) {
  neurald_arrive(sync, target, counts, lid);
  neurald_wait(sync, target, lid, patience);
}
static $CALLED void neurald_idle(__global uint *sync, const uint target, const int lid) {
  neurald_wait(sync, target, lid, $MAX_SPINS);
}
//: After a barrier the initial state is no longer read, so one work-group prepares the next launch.
static inline void neurald_leave(__global uint *sync, const uint target, const int first, const int lid) {
  // PoCL compiles wrongly what comes after barriers that not every launch gets to, unless there is
  // one that every launch does.
  barrier(CLK_LOCAL_MEM_FENCE);
  if (first != 0 || (target & 0x7fffffff) == 0) return;
  const uint next = 1 - (target >> 31);
  if (lid == 0) {
    sync[next * $COUNTER_PITCH] = 0;
    sync[$SELECTOR] = next;
  }
  for (int at = $FIRST_GROUPS + lid; at < $ABORTED; at += (int)get_local_size(0)) sync[at] = 0;
}

//: [place_nvidia]
//: Numbers the work-groups such that the first one on each compute unit comes before the others:
//: phases with few groups then get one unit per group. Counting from both ends keeps the numbers
//: unique.
static inline int neurald_place(__global uint *sync, const int groups, const int lid, __local int *scratch) {
  if (lid == 0) {
    uint unit;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
    const bool is_first = atomic_inc(sync + $UNITS + unit % $UNIT_COUNT) == 0;
    *scratch = is_first ? (int)atomic_inc(sync + $FIRST_GROUPS) : groups - 1 - (int)atomic_inc(sync + $OTHER_GROUPS);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int place = *scratch;
  barrier(CLK_LOCAL_MEM_FENCE);
  return place;
}

//: [place]
//: The same for devices that do not tell on which compute unit a work-group runs.
static inline int neurald_place(__global uint *sync, const int groups, const int lid, __local int *scratch) {
  return (int)get_group_id(0);
}

//: [arrive_nvidia]
//: Releases a work-group's stores, and counts it.
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"((ulong)count) : "memory");

//: [arrive]
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    atomic_inc(count);

//: [poll_nvidia]
//: Waits until enough work-groups have arrived, and acquires their stores.
    for (int look = 0; look < patience && seen < wanted; ++look)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"((ulong)count) : "memory");

//: [poll]
    for (int look = 0; look < patience && seen < wanted; ++look) seen = atomic_add(count, 0);
    mem_fence(CLK_GLOBAL_MEM_FENCE);

//: [fetch_nvidia]
//: Fetches the group's part of this memory into the second-level cache.
  const ulong part = (size / groups + 127) & ~127ul, start = first * part;
  const ulong stop = start + part < size ? start + part : size;
  for (ulong at = start + lid * 128; at < stop; at += get_local_size(0) * 128)
    asm volatile("prefetch.global.L2 [%0];" :: "l"((ulong)from + at));

//: [fetch]
//: Does nothing.
