; 7 keys found among 30
declare <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr>, i32, <16 x i1>, <16 x i32>)
declare <16 x i32> @llvm.masked.load.v16i32.p0(ptr, i32, <16 x i1>, <16 x i32>)
declare void @llvm.masked.store.v16i32.p0(<16 x i32>, ptr, i32, <16 x i1>)
; Stores the index of the first key that equals each of %a2, or the number of keys. Keys in
; ascending order are bisected for 16 lookups at once, by the same steps. Others are compared
; one after another, from the last to the first.
define void @k72890de500487c3f(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %entry
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %pairs.test, label %done
pairs.test:
  %at = phi i64 [ 0, %entry ], [ %at.next, %pairs ]
  %at.next = add i64 %at, 16
  %has.pairs = icmp ult i64 %at.next, 30
  br i1 %has.pairs, label %pairs, label %rest.test
pairs:
  %p.ones = getelementptr i32, ptr %a1, i64 %at
  %ones = load <16 x i32>, ptr %p.ones, align 4
  %p.others = getelementptr i32, ptr %p.ones, i64 1
  %others = load <16 x i32>, ptr %p.others, align 4
  %descend = icmp sgt <16 x i32> %ones, %others
  %descents = bitcast <16 x i1> %descend to i16
  %ascend = icmp eq i16 %descents, 0
  br i1 %ascend, label %pairs.test, label %scan.test
rest.test:
  %rest = phi i64 [ %at, %pairs.test ], [ %rest.next, %pair ]
  %rest.next = add i64 %rest, 1
  %has.pair = icmp ult i64 %rest.next, 30
  br i1 %has.pair, label %pair, label %search.test
pair:
  %p.one = getelementptr i32, ptr %a1, i64 %rest
  %one = load i32, ptr %p.one
  %p.other = getelementptr i32, ptr %p.one, i64 1
  %other = load i32, ptr %p.other
  %in.order = icmp sle i32 %one, %other
  br i1 %in.order, label %rest.test, label %scan.test

search.test:
  %first = phi i64 [ %begin, %rest.test ], [ %first.next, %search.end ]
  %has.search = icmp slt i64 %first, %end
  br i1 %has.search, label %search, label %done
search:
  %left = sub i64 %end, %first
  %left.one = insertelement <16 x i64> poison, i64 %left, i64 0
  %left.all = shufflevector <16 x i64> %left.one, <16 x i64> poison, <16 x i32> zeroinitializer
  %mask = icmp sgt <16 x i64> %left.all, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %p.wanted = getelementptr i32, ptr %a2, i64 %first
  %wanted = call <16 x i32> @llvm.masked.load.v16i32.p0(ptr %p.wanted, i32 4, <16 x i1> %mask, <16 x i32> zeroinitializer)
  br label %bisect.test
bisect.test:
  ; Each lane's key is at least the one before %base, and at most the one %length later.
  %length = phi i32 [ 30, %search ], [ %length.next, %bisect ]
  %base = phi <16 x i32> [ zeroinitializer, %search ], [ %base.next, %bisect ]
  %has.bisect = icmp ugt i32 %length, 1
  br i1 %has.bisect, label %bisect, label %search.end
bisect:
  %half = lshr i32 %length, 1
  %length.next = sub i32 %length, %half
  %half.one = insertelement <16 x i32> poison, i32 %half, i64 0
  %half.all = shufflevector <16 x i32> %half.one, <16 x i32> poison, <16 x i32> zeroinitializer
  %after = add <16 x i32> %base, %half.all
  %middle = sub <16 x i32> %after, splat (i32 1)
  %p.middle = getelementptr i32, ptr %a1, <16 x i32> %middle
  %keys.middle = call <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr> %p.middle, i32 4, <16 x i1> splat (i1 true), <16 x i32> zeroinitializer)
  %is.less = icmp slt <16 x i32> %keys.middle, %wanted
  %base.next = select <16 x i1> %is.less, <16 x i32> %after, <16 x i32> %base
  br label %bisect.test
search.end:
  %p.base = getelementptr i32, ptr %a1, <16 x i32> %base
  %keys.base = call <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr> %p.base, i32 4, <16 x i1> splat (i1 true), <16 x i32> zeroinitializer)
  %is.after = icmp slt <16 x i32> %keys.base, %wanted
  %is.last = icmp eq <16 x i32> %base, splat (i32 29)
  %following = add <16 x i32> %base, splat (i32 1)
  %bounded = select <16 x i1> %is.last, <16 x i32> %base, <16 x i32> %following
  %place = select <16 x i1> %is.after, <16 x i32> %bounded, <16 x i32> %base
  %p.place = getelementptr i32, ptr %a1, <16 x i32> %place
  %keys.place = call <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr> %p.place, i32 4, <16 x i1> splat (i1 true), <16 x i32> zeroinitializer)
  %is.key = icmp eq <16 x i32> %keys.place, %wanted
  %index = select <16 x i1> %is.key, <16 x i32> %place, <16 x i32> splat (i32 30)
  %p.index = getelementptr i32, ptr %a0, i64 %first
  call void @llvm.masked.store.v16i32.p0(<16 x i32> %index, ptr %p.index, i32 4, <16 x i1> %mask)
  %first.next = add i64 %first, 16
  br label %search.test

scan.test:
  %start = phi i64 [ %begin, %pairs ], [ %begin, %pair ], [ %start.next, %scan.end ]
  %has.scan = icmp slt i64 %start, %end
  br i1 %has.scan, label %scan, label %done
scan:
  %remaining = sub i64 %end, %start
  %remaining.one = insertelement <16 x i64> poison, i64 %remaining, i64 0
  %remaining.all = shufflevector <16 x i64> %remaining.one, <16 x i64> poison, <16 x i32> zeroinitializer
  %lanes = icmp sgt <16 x i64> %remaining.all, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %p.sought = getelementptr i32, ptr %a2, i64 %start
  %sought = call <16 x i32> @llvm.masked.load.v16i32.p0(ptr %p.sought, i32 4, <16 x i1> %lanes, <16 x i32> zeroinitializer)
  br label %compare
compare:
  %above = phi i64 [ 30, %scan ], [ %number, %compare ]
  %found = phi <16 x i32> [ splat (i32 30), %scan ], [ %found.next, %compare ]
  %number = sub i64 %above, 1
  %p.key = getelementptr i32, ptr %a1, i64 %number
  %key = load i32, ptr %p.key
  %key.one = insertelement <16 x i32> poison, i32 %key, i64 0
  %key.all = shufflevector <16 x i32> %key.one, <16 x i32> poison, <16 x i32> zeroinitializer
  %number.short = trunc i64 %number to i32
  %number.one = insertelement <16 x i32> poison, i32 %number.short, i64 0
  %number.all = shufflevector <16 x i32> %number.one, <16 x i32> poison, <16 x i32> zeroinitializer
  %equal = icmp eq <16 x i32> %key.all, %sought
  %found.next = select <16 x i1> %equal, <16 x i32> %number.all, <16 x i32> %found
  %has.key = icmp ne i64 %number, 0
  br i1 %has.key, label %compare, label %scan.end
scan.end:
  %p.found = getelementptr i32, ptr %a0, i64 %start
  call void @llvm.masked.store.v16i32.p0(<16 x i32> %found.next, ptr %p.found, i32 4, <16 x i1> %lanes)
  %start.next = add i64 %start, 16
  br label %scan.test
done:
  ret void
}

