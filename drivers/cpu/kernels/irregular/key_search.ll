; Stores the index of the first key that equals each of $LOOKUPS, or the number of keys. Keys in
; ascending order are bisected for $LANES lookups at once, by the same steps. Others are compared
; one after another, from the last to the first.
define void @$KERNEL($PARAMETERS) nounwind {
  br label %entry
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %pairs.test, label %done
pairs.test:
  %at = phi i64 [ 0, %entry ], [ %at.next, %pairs ]
  %at.next = add i64 %at, $LANES
  %has.pairs = icmp ult i64 %at.next, $COUNT
  br i1 %has.pairs, label %pairs, label %rest.test
pairs:
  %p.ones = getelementptr $TYPE, ptr $KEYS, i64 %at
  %ones = load <$LANES x $TYPE>, ptr %p.ones, align $ALIGN
  %p.others = getelementptr $TYPE, ptr %p.ones, i64 1
  %others = load <$LANES x $TYPE>, ptr %p.others, align $ALIGN
  %descend = icmp sgt <$LANES x $TYPE> %ones, %others
  %descents = bitcast <$LANES x i1> %descend to i$LANES
  %ascend = icmp eq i$LANES %descents, 0
  br i1 %ascend, label %pairs.test, label %scan.test
rest.test:
  %rest = phi i64 [ %at, %pairs.test ], [ %rest.next, %pair ]
  %rest.next = add i64 %rest, 1
  %has.pair = icmp ult i64 %rest.next, $COUNT
  br i1 %has.pair, label %pair, label %search.test
pair:
  %p.one = getelementptr $TYPE, ptr $KEYS, i64 %rest
  %one = load $TYPE, ptr %p.one
  %p.other = getelementptr $TYPE, ptr %p.one, i64 1
  %other = load $TYPE, ptr %p.other
  %in.order = icmp sle $TYPE %one, %other
  br i1 %in.order, label %rest.test, label %scan.test

search.test:
  %first = phi i64 [ %begin, %rest.test ], [ %first.next, %search.end ]
  %has.search = icmp slt i64 %first, %end
  br i1 %has.search, label %search, label %done
search:
  %left = sub i64 %end, %first
  %left.one = insertelement <$LANES x i64> poison, i64 %left, i64 0
  %left.all = shufflevector <$LANES x i64> %left.one, <$LANES x i64> poison, <$LANES x i32> zeroinitializer
  %mask = icmp sgt <$LANES x i64> %left.all, $NUMBERS
  %p.wanted = getelementptr $TYPE, ptr $LOOKUPS, i64 %first
  %wanted = call <$LANES x $TYPE> @llvm.masked.load.v${LANES}${TYPE}.p0(ptr %p.wanted, i32 $ALIGN, <$LANES x i1> %mask, <$LANES x $TYPE> zeroinitializer)
  br label %bisect.test
bisect.test:
  ; Each lane's key is at least the one before %base, and at most the one %length later.
  %length = phi i32 [ $COUNT, %search ], [ %length.next, %bisect ]
  %base = phi <$LANES x i32> [ zeroinitializer, %search ], [ %base.next, %bisect ]
  %has.bisect = icmp ugt i32 %length, 1
  br i1 %has.bisect, label %bisect, label %search.end
bisect:
  %half = lshr i32 %length, 1
  %length.next = sub i32 %length, %half
  %half.one = insertelement <$LANES x i32> poison, i32 %half, i64 0
  %half.all = shufflevector <$LANES x i32> %half.one, <$LANES x i32> poison, <$LANES x i32> zeroinitializer
  %after = add <$LANES x i32> %base, %half.all
  %middle = sub <$LANES x i32> %after, splat (i32 1)
  %p.middle = getelementptr $TYPE, ptr $KEYS, <$LANES x i32> %middle
  %keys.middle = call <$LANES x $TYPE> @$GATHER(<$LANES x ptr> %p.middle, i32 $ALIGN, <$LANES x i1> splat (i1 true), <$LANES x $TYPE> zeroinitializer)
  %is.less = icmp slt <$LANES x $TYPE> %keys.middle, %wanted
  %base.next = select <$LANES x i1> %is.less, <$LANES x i32> %after, <$LANES x i32> %base
  br label %bisect.test
search.end:
  %p.base = getelementptr $TYPE, ptr $KEYS, <$LANES x i32> %base
  %keys.base = call <$LANES x $TYPE> @$GATHER(<$LANES x ptr> %p.base, i32 $ALIGN, <$LANES x i1> splat (i1 true), <$LANES x $TYPE> zeroinitializer)
  %is.after = icmp slt <$LANES x $TYPE> %keys.base, %wanted
  %is.last = icmp eq <$LANES x i32> %base, splat (i32 $LAST)
  %following = add <$LANES x i32> %base, splat (i32 1)
  %bounded = select <$LANES x i1> %is.last, <$LANES x i32> %base, <$LANES x i32> %following
  %place = select <$LANES x i1> %is.after, <$LANES x i32> %bounded, <$LANES x i32> %base
  %p.place = getelementptr $TYPE, ptr $KEYS, <$LANES x i32> %place
  %keys.place = call <$LANES x $TYPE> @$GATHER(<$LANES x ptr> %p.place, i32 $ALIGN, <$LANES x i1> splat (i1 true), <$LANES x $TYPE> zeroinitializer)
  %is.key = icmp eq <$LANES x $TYPE> %keys.place, %wanted
  %index = select <$LANES x i1> %is.key, <$LANES x i32> %place, <$LANES x i32> splat (i32 $COUNT)
  %p.index = getelementptr i32, ptr %a0, i64 %first
  call void @llvm.masked.store.v${LANES}i32.p0(<$LANES x i32> %index, ptr %p.index, i32 4, <$LANES x i1> %mask)
  %first.next = add i64 %first, $LANES
  br label %search.test

scan.test:
  %start = phi i64 [ %begin, %pairs ], [ %begin, %pair ], [ %start.next, %scan.end ]
  %has.scan = icmp slt i64 %start, %end
  br i1 %has.scan, label %scan, label %done
scan:
  %remaining = sub i64 %end, %start
  %remaining.one = insertelement <$LANES x i64> poison, i64 %remaining, i64 0
  %remaining.all = shufflevector <$LANES x i64> %remaining.one, <$LANES x i64> poison, <$LANES x i32> zeroinitializer
  %lanes = icmp sgt <$LANES x i64> %remaining.all, $NUMBERS
  %p.sought = getelementptr $TYPE, ptr $LOOKUPS, i64 %start
  %sought = call <$LANES x $TYPE> @llvm.masked.load.v${LANES}${TYPE}.p0(ptr %p.sought, i32 $ALIGN, <$LANES x i1> %lanes, <$LANES x $TYPE> zeroinitializer)
  br label %compare
compare:
  %above = phi i64 [ $COUNT, %scan ], [ %number, %compare ]
  %found = phi <$LANES x i32> [ splat (i32 $COUNT), %scan ], [ %found.next, %compare ]
  %number = sub i64 %above, 1
  %p.key = getelementptr $TYPE, ptr $KEYS, i64 %number
  %key = load $TYPE, ptr %p.key
  %key.one = insertelement <$LANES x $TYPE> poison, $TYPE %key, i64 0
  %key.all = shufflevector <$LANES x $TYPE> %key.one, <$LANES x $TYPE> poison, <$LANES x i32> zeroinitializer
  %number.short = trunc i64 %number to i32
  %number.one = insertelement <$LANES x i32> poison, i32 %number.short, i64 0
  %number.all = shufflevector <$LANES x i32> %number.one, <$LANES x i32> poison, <$LANES x i32> zeroinitializer
  %equal = icmp eq <$LANES x $TYPE> %key.all, %sought
  %found.next = select <$LANES x i1> %equal, <$LANES x i32> %number.all, <$LANES x i32> %found
  %has.key = icmp ne i64 %number, 0
  br i1 %has.key, label %compare, label %scan.end
scan.end:
  %p.found = getelementptr i32, ptr %a0, i64 %start
  call void @llvm.masked.store.v${LANES}i32.p0(<$LANES x i32> %found.next, ptr %p.found, i32 4, <$LANES x i1> %lanes)
  %start.next = add i64 %start, $LANES
  br label %scan.test
done:
  ret void
}
