//: Loop over steps whose operands `cp.async` copies to local memory ahead of time.
//:
//: The code before it defines NEURALD_COPY_LEFT(step, stage) and NEURALD_COPY_RIGHT(step, stage),
//: which copy a step of one matrix, if there is such a step.
//:
//: STAGES: steps in local memory.
//: AHEAD: 1 if the right matrix is constant, and thus requested before the grid barrier; else 0.

//: [begin]
//: Precedes the loop; `stage` is the buffer of its first step.
#define NEURALD_COPIED asm volatile("cp.async.commit_group;" ::: "memory");
  if ($AHEAD) {
#pragma unroll 1
    for (int stage = 0; stage < $STAGES - 1; ++stage) NEURALD_COPY_RIGHT(first + stage, stage)
  }
  $WAIT
$FETCH
#pragma unroll 1
  for (int stage = 0; stage < $STAGES - 1; ++stage) {
    NEURALD_COPY_LEFT(first + stage, stage)
    if (!$AHEAD) NEURALD_COPY_RIGHT(first + stage, stage)
    NEURALD_COPIED
  }
  int stage = 0;

//: [next]
//: Inside the loop, when all work-items are done with the previous step: its buffer is reused.
    {
      const int next = stage == 0 ? $STAGES - 1 : stage - 1;
      NEURALD_COPY_LEFT(step + $STAGES - 1, next)
      NEURALD_COPY_RIGHT(step + $STAGES - 1, next)
      NEURALD_COPIED
    }

//: [end]
//: Follows the loop, which ends with `stage` advanced by one.
#undef NEURALD_COPY_LEFT
#undef NEURALD_COPY_RIGHT
#undef NEURALD_COPIED
  asm volatile("cp.async.wait_all;" ::: "memory");
  barrier(CLK_LOCAL_MEM_FENCE);
