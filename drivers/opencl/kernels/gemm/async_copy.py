"""Text of a loop over steps whose operands `cp.async` copies to local memory ahead of time.

The text before it defines `NEURALD_COPY_LEFT(step, stage)` and `NEURALD_COPY_RIGHT(step, stage)`,
which copy a step of one matrix, if there is such a step. A constant right matrix is requested
before the grid barrier (`$AHEAD`).
"""

#: Text up to the loop; `stage` is the buffer of its first step.
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
#: Inside the loop, when all work-items are done with the previous step: its buffer is reused.
NEXT = """\
    {
      const int next = stage == 0 ? $STAGES - 1 : stage - 1;
      NEURALD_COPY_LEFT(step + $STAGES - 1, next)
      NEURALD_COPY_RIGHT(step + $STAGES - 1, next)
      NEURALD_COPIED
    }
"""
#: After the loop, which ends with `stage` advanced by one.
ENDED = """\
#undef NEURALD_COPY_LEFT
#undef NEURALD_COPY_RIGHT
#undef NEURALD_COPIED
  asm volatile("cp.async.wait_all;" ::: "memory");
  barrier(CLK_LOCAL_MEM_FENCE);
"""
