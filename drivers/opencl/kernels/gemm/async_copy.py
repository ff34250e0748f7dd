"""Steps of both matrices that come into local memory by `cp.async`, several ahead: the text around a loop over steps.

What comes before defines `NEURALD_COPY_LEFT(step, stage)` and `NEURALD_COPY_RIGHT(step, stage)`, which copy a step of one matrix, if there
is such a step. The right one is asked for before the group waits for others (`$AHEAD`), if it is constant.
"""

#: Up to the loop; `stage` is where its first step lies.
BEGUN = """\
#define NEURALD_COPIED asm volatile("cp.async.commit_group;" ::: "memory");
  if ($AHEAD) {
#pragma unroll 1
    for (int stage = 0; stage < $STAGES - 1; ++stage) NEURALD_COPY_RIGHT(first + stage, stage)
  }
  $WAIT
$FETCH#pragma unroll 1
  for (int stage = 0; stage < $STAGES - 1; ++stage) {
    NEURALD_COPY_LEFT(first + stage, stage)
    if (!$AHEAD) NEURALD_COPY_RIGHT(first + stage, stage)
    NEURALD_COPIED
  }
  int stage = 0;
"""
#: In the loop, once everybody is done with the step before: another one takes its place.
NEXT = """\
    {
      const int next = stage == 0 ? $STAGES - 1 : stage - 1;
      NEURALD_COPY_LEFT(step + $STAGES - 1, next)
      NEURALD_COPY_RIGHT(step + $STAGES - 1, next)
      NEURALD_COPIED
    }
"""
#: After the loop, which ends with `stage` one further.
ENDED = """\
#undef NEURALD_COPY_LEFT
#undef NEURALD_COPY_RIGHT
#undef NEURALD_COPIED
  asm volatile("cp.async.wait_all;" ::: "memory");
  barrier(CLK_LOCAL_MEM_FENCE);
"""
