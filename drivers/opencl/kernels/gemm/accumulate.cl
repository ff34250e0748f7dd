//: Addition of accumulators, and the end of functions, see accumulate.py.
//:
//: NE: vectors of four accumulators of a work-item. ITEMS: work-items of a group.
//: BM, BN: rows and columns of a tile. KS: slices, whose accumulators are in local memory at `all`.
//: BATCH: groups whose accumulators are read at a time.

//: [add_slices]
//: Each work-item adds up its vectors in local memory over all slices.
  ${T}4 totals[$NE];
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    ${T}4 sum = (${T}4)(0);
    if ((lid + e * $ITEMS) * 4 < $BM * $BN) {
#pragma unroll
      for (int z = 0; z < $KS; ++z) sum += *(__local ${T}4 *)(all + z * $BM * $BN + (lid + e * $ITEMS) * 4);
    }
    totals[e] = sum;
  }

//: [split_k]
//: Stores the accumulators of a group; only the last group of a tile continues, with the totals.
  {
    __global uint *count = (__global uint *)workspace + batch * $tiles + tile;
    __global ${T}4 *parts = (__global ${T}4 *)(workspace + $ZEROS) +
      (batch * $tiles + tile) * ($split * $NE * $ITEMS) + lid;
#pragma unroll
    for (int e = 0; e < $NE; ++e) parts[(share * $NE + e) * $ITEMS] = $VECTOR;
    // What all of a group have stored before a barrier, its first work-item hands on, and takes
    // from others, for all of them.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    __local uint *before = (__local uint *)scratch;
    if (lid == 0) {
      uint others;
      asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(others) : "l"((ulong)count) : "memory");
      *before = others;
      if (others == $split - 1) *count = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool is_last = *before == $split - 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!is_last) return;
#pragma unroll
    for (int e = 0; e < $NE; ++e) {
      ${T}4 sum = (${T}4)(0);
      // All loads of a turn are on their way at the same time, also those that do not count.
      for (int z = 0; z < $split; z += $BATCH) {
        ${T}4 turn[$BATCH];
#pragma unroll
        for (int i = 0; i < $BATCH; ++i) turn[i] = parts[(min(z + i, $split - 1) * $NE + e) * $ITEMS];
#pragma unroll
        for (int i = 0; i < $BATCH; ++i)
          if (z + i < $split) sum += turn[i];
      }
      $VECTOR = sum;
    }
  }

//: [add]
//: Adds the accumulators of a group to the output; the first share also adds the epilogue's terms.
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    $BEFORE
    const int m = $ROW, n = $COLUMN;
    const ${T}4 sum = $VECTOR;
    if ($GUARD m < $rows && n < $columns)
      ${KERNEL}_add4(a0 + m * $length + n, share == 0 ? ${KERNEL}_value4(sum, m, n, $ARGUMENTS$SIZE_ARGUMENTS) : sum);
  }
}

//: [store]
//: Stores the results of the epilogue.
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    $BEFORE
    const int m = $ROW, n = $COLUMN;
    const ${T}4 sum = $VECTOR;
    if ($GUARD m < $rows && n < $columns) { $STORE }
  }
}

//: [fetch]
//: Prefetches the inputs of the epilogue.
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    $BEFORE
    const int m = $ROW, n = $COLUMN;
    if ($GUARD m < $rows && n < $columns) { $FETCH }
  }
