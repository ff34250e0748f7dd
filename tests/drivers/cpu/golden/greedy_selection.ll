; 5 of 20 boxes
declare <8 x float> @llvm.maximum.v8f32(<8 x float>, <8 x float>)
declare <8 x float> @llvm.minimum.v8f32(<8 x float>, <8 x float>)
; Returns the intersections of a box, of which %box has the corners and the area, and of eight
; selected ones from %at on, over their unions; 0 if a union has no area. %kept has the corners and
; the areas of selected boxes, one coordinate after the other.
define internal <8 x float> @k30544162cdad2f27_overlaps(ptr %kept, ptr %box, i64 %at) nounwind {
  %p.other.top = getelementptr float, ptr %box, i64 0
  %other.top.only = load float, ptr %p.other.top
  %other.top.first = insertelement <8 x float> poison, float %other.top.only, i64 0
  %other.top = shufflevector <8 x float> %other.top.first, <8 x float> poison, <8 x i32> zeroinitializer
  %p.other.left = getelementptr float, ptr %box, i64 1
  %other.left.only = load float, ptr %p.other.left
  %other.left.first = insertelement <8 x float> poison, float %other.left.only, i64 0
  %other.left = shufflevector <8 x float> %other.left.first, <8 x float> poison, <8 x i32> zeroinitializer
  %p.other.bottom = getelementptr float, ptr %box, i64 2
  %other.bottom.only = load float, ptr %p.other.bottom
  %other.bottom.first = insertelement <8 x float> poison, float %other.bottom.only, i64 0
  %other.bottom = shufflevector <8 x float> %other.bottom.first, <8 x float> poison, <8 x i32> zeroinitializer
  %p.other.right = getelementptr float, ptr %box, i64 3
  %other.right.only = load float, ptr %p.other.right
  %other.right.first = insertelement <8 x float> poison, float %other.right.only, i64 0
  %other.right = shufflevector <8 x float> %other.right.first, <8 x float> poison, <8 x i32> zeroinitializer
  %p.other.area = getelementptr float, ptr %box, i64 4
  %other.area.only = load float, ptr %p.other.area
  %other.area.first = insertelement <8 x float> poison, float %other.area.only, i64 0
  %other.area = shufflevector <8 x float> %other.area.first, <8 x float> poison, <8 x i32> zeroinitializer
  %row.top = getelementptr i8, ptr %kept, i64 0
  %p.one.top = getelementptr float, ptr %row.top, i64 %at
  %one.top = load <8 x float>, ptr %p.one.top, align 4
  %row.left = getelementptr i8, ptr %kept, i64 32
  %p.one.left = getelementptr float, ptr %row.left, i64 %at
  %one.left = load <8 x float>, ptr %p.one.left, align 4
  %row.bottom = getelementptr i8, ptr %kept, i64 64
  %p.one.bottom = getelementptr float, ptr %row.bottom, i64 %at
  %one.bottom = load <8 x float>, ptr %p.one.bottom, align 4
  %row.right = getelementptr i8, ptr %kept, i64 96
  %p.one.right = getelementptr float, ptr %row.right, i64 %at
  %one.right = load <8 x float>, ptr %p.one.right, align 4
  %row.area = getelementptr i8, ptr %kept, i64 128
  %p.one.area = getelementptr float, ptr %row.area, i64 %at
  %one.area = load <8 x float>, ptr %p.one.area, align 4
  %bottom = call <8 x float> @llvm.minimum.v8f32(<8 x float> %one.bottom, <8 x float> %other.bottom)
  %top = call <8 x float> @llvm.maximum.v8f32(<8 x float> %one.top, <8 x float> %other.top)
  %right = call <8 x float> @llvm.minimum.v8f32(<8 x float> %one.right, <8 x float> %other.right)
  %left = call <8 x float> @llvm.maximum.v8f32(<8 x float> %one.left, <8 x float> %other.left)
  %height.any = fsub <8 x float> %bottom, %top
  %width.any = fsub <8 x float> %right, %left
  %height = call <8 x float> @llvm.maximum.v8f32(<8 x float> %height.any, <8 x float> zeroinitializer)
  %width = call <8 x float> @llvm.maximum.v8f32(<8 x float> %width.any, <8 x float> zeroinitializer)
  %shared = fmul <8 x float> %height, %width
  %both = fadd <8 x float> %other.area, %one.area
  %union = fsub <8 x float> %both, %shared
  %ratio = fdiv <8 x float> %shared, %union
  %has.union = fcmp une <8 x float> %union, zeroinitializer
  %iou = select <8 x i1> %has.union, <8 x float> %ratio, <8 x float> zeroinitializer
  ret <8 x float> %iou
}

; Selects boxes from the best score to the worst, unless they overlap a selected one. %a1 has the
; boxes of each image, %a2 a row of scores for each work item, in which NaN excludes a box. %scratch
; has the corners and the areas of the selected boxes, one coordinate after the other, and then a
; binary heap of boxes: pairs of a score and an index, the best ones first.

; Returns true if the first pair precedes the second one: by a greater score, then by a smaller
; index.
define internal i1 @k30544162cdad2f27_precedes(ptr %one, ptr %other) nounwind {
  %p.index.one = getelementptr i32, ptr %one, i64 1
  %p.index.other = getelementptr i32, ptr %other, i64 1
  %score.one = load float, ptr %one
  %score.other = load float, ptr %other
  %index.one = load i32, ptr %p.index.one
  %index.other = load i32, ptr %p.index.other
  %greater = fcmp ogt float %score.one, %score.other
  %equal = fcmp oeq float %score.one, %score.other
  %before = icmp slt i32 %index.one, %index.other
  %tie = and i1 %equal, %before
  %result = or i1 %greater, %tie
  ret i1 %result
}

; Moves the pair at %start down in a heap of %count pairs, to where it precedes all below it.
define internal void @k30544162cdad2f27_sink(ptr %heap, i64 %start, i64 %count) nounwind {
entry:
  br label %test
test:
  %at = phi i64 [ %start, %entry ], [ %child, %move ]
  %twice = shl i64 %at, 1
  %left = or i64 %twice, 1
  %is.inner = icmp ult i64 %left, %count
  br i1 %is.inner, label %look, label %end
look:
  %right = add i64 %left, 1
  %p.left = getelementptr i64, ptr %heap, i64 %left
  %has.right = icmp ult i64 %right, %count
  br i1 %has.right, label %both, label %compare
both:
  %p.right = getelementptr i64, ptr %heap, i64 %right
  %is.right = call i1 @k30544162cdad2f27_precedes(ptr %p.right, ptr %p.left)
  %better = select i1 %is.right, i64 %right, i64 %left
  br label %compare
compare:
  %child = phi i64 [ %left, %look ], [ %better, %both ]
  %p.child = getelementptr i64, ptr %heap, i64 %child
  %p.at = getelementptr i64, ptr %heap, i64 %at
  %sinks = call i1 @k30544162cdad2f27_precedes(ptr %p.child, ptr %p.at)
  br i1 %sinks, label %move, label %end
move:
  %upper = load i64, ptr %p.at, align 4
  %lower = load i64, ptr %p.child, align 4
  store i64 %lower, ptr %p.at, align 4
  store i64 %upper, ptr %p.child, align 4
  br label %test
end:
  ret void
}

; Returns true if a box, of which %box has the corners and the area, overlaps any of %count selected
; ones too much.
define internal i1 @k30544162cdad2f27_is_close(ptr %kept, ptr %box, i64 %count) nounwind {
entry:
  %p.other.area = getelementptr float, ptr %box, i64 4
  %other.area = load float, ptr %p.other.area
  %is.other = fcmp ogt float %other.area, 0.0
  %is.other.first = insertelement <8 x i1> poison, i1 %is.other, i64 0
  %are.other = shufflevector <8 x i1> %is.other.first, <8 x i1> poison, <8 x i32> zeroinitializer
  br label %test
test:
  %at = phi i64 [ 0, %entry ], [ %next, %look ]
  %more = icmp ult i64 %at, %count
  br i1 %more, label %look, label %apart
look:
  %iou = call <8 x float> @k30544162cdad2f27_overlaps(ptr %kept, ptr %box, i64 %at)
  %row.area = getelementptr i8, ptr %kept, i64 128
  %p.one.area = getelementptr float, ptr %row.area, i64 %at
  %one.area = load <8 x float>, ptr %p.one.area, align 4
  %is.one = fcmp ogt <8 x float> %one.area, zeroinitializer
  %is.much = fcmp ogt <8 x float> %iou, splat (float 0x3FE0000000000000)
  %have.areas = and <8 x i1> %is.one, %are.other
  %are.boxes = or <8 x i1> %have.areas, splat (i1 false)
  %are.close = and <8 x i1> %are.boxes, %is.much
  %left.count = sub i64 %count, %at
  %left.first = insertelement <8 x i64> poison, i64 %left.count, i64 0
  %left.all = shufflevector <8 x i64> %left.first, <8 x i64> poison, <8 x i32> zeroinitializer
  %are.kept = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %left.all
  %overlap = and <8 x i1> %are.close, %are.kept
  %bits = bitcast <8 x i1> %overlap to i8
  %any = icmp ne i8 %bits, 0
  %next = add i64 %at, 8
  br i1 %any, label %close, label %test
close:
  ret i1 true
apart:
  ret i1 false
}

define void @k30544162cdad2f27(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %entry
entry:
  %box = alloca [5 x float]
  %heap = getelementptr i8, ptr %scratch, i64 160
  br label %row.test
row.test:
  %row = phi i64 [ %begin, %entry ], [ %row.next, %row.end ]
  %has.row = icmp slt i64 %row, %end
  br i1 %has.row, label %row.begin, label %done
row.begin:
  %first.score = mul i64 %row, 20
  %scores = getelementptr float, ptr %a2, i64 %first.score
  %first.result = mul i64 %row, 6
  %results = getelementptr i32, ptr %a0, i64 %first.result
  %image = udiv i64 %row, 2
  %first.box = mul i64 %image, 20
  %boxes = getelementptr [4 x float], ptr %a1, i64 %first.box
  br label %candidate
candidate:
  %index = phi i64 [ 0, %row.begin ], [ %index.next, %added ]
  %count = phi i64 [ 0, %row.begin ], [ %count.next, %added ]
  %more = icmp ult i64 %index, 20
  br i1 %more, label %look, label %order
look:
  %p.score = getelementptr float, ptr %scores, i64 %index
  %score = load float, ptr %p.score
  %is.candidate = fcmp ord float %score, %score
  br i1 %is.candidate, label %add, label %added
add:
  %p.pair = getelementptr i64, ptr %heap, i64 %count
  store float %score, ptr %p.pair
  %p.pair.index = getelementptr i32, ptr %p.pair, i64 1
  %index.short = trunc i64 %index to i32
  store i32 %index.short, ptr %p.pair.index
  %count.more = add i64 %count, 1
  br label %added
added:
  %count.next = phi i64 [ %count, %look ], [ %count.more, %add ]
  %index.next = add i64 %index, 1
  br label %candidate
order:
  %half = lshr i64 %count, 1
  br label %build
build:
  %above = phi i64 [ %half, %order ], [ %inner, %sift ]
  %is.built = icmp eq i64 %above, 0
  br i1 %is.built, label %select, label %sift
sift:
  %inner = sub i64 %above, 1
  call void @k30544162cdad2f27_sink(ptr %heap, i64 %inner, i64 %count)
  br label %build
select:
  %waiting = phi i64 [ %count, %build ], [ %rest, %chosen.end ]
  %chosen = phi i64 [ 0, %build ], [ %chosen.next, %chosen.end ]
  %has.waiting = icmp ne i64 %waiting, 0
  %wants = icmp ult i64 %chosen, 5
  %goes.on = and i1 %has.waiting, %wants
  br i1 %goes.on, label %take, label %fill
take:
  %p.best = getelementptr i32, ptr %heap, i64 1
  %best = load i32, ptr %p.best
  %rest = sub i64 %waiting, 1
  %p.last = getelementptr i64, ptr %heap, i64 %rest
  %last = load i64, ptr %p.last, align 4
  store i64 %last, ptr %heap, align 4
  call void @k30544162cdad2f27_sink(ptr %heap, i64 0, i64 %rest)
  %best.wide = zext i32 %best to i64
  %p.box = getelementptr [4 x float], ptr %boxes, i64 %best.wide
  %corners = load <4 x float>, ptr %p.box, align 4
  store <4 x float> %corners, ptr %box, align 4
  %top = extractelement <4 x float> %corners, i64 0
  %left = extractelement <4 x float> %corners, i64 1
  %bottom = extractelement <4 x float> %corners, i64 2
  %right = extractelement <4 x float> %corners, i64 3
  %height = fsub float %bottom, %top
  %width = fsub float %right, %left
  %area = fmul float %height, %width
  %p.area = getelementptr float, ptr %box, i64 4
  store float %area, ptr %p.area
  %overlaps = call i1 @k30544162cdad2f27_is_close(ptr %scratch, ptr %box, i64 %chosen)
  br i1 %overlaps, label %chosen.end, label %keep
keep:
  %row.top = getelementptr i8, ptr %scratch, i64 0
  %p.kept.top = getelementptr float, ptr %row.top, i64 %chosen
  store float %top, ptr %p.kept.top
  %row.left = getelementptr i8, ptr %scratch, i64 32
  %p.kept.left = getelementptr float, ptr %row.left, i64 %chosen
  store float %left, ptr %p.kept.left
  %row.bottom = getelementptr i8, ptr %scratch, i64 64
  %p.kept.bottom = getelementptr float, ptr %row.bottom, i64 %chosen
  store float %bottom, ptr %p.kept.bottom
  %row.right = getelementptr i8, ptr %scratch, i64 96
  %p.kept.right = getelementptr float, ptr %row.right, i64 %chosen
  store float %right, ptr %p.kept.right
  %row.area = getelementptr i8, ptr %scratch, i64 128
  %p.kept.area = getelementptr float, ptr %row.area, i64 %chosen
  store float %area, ptr %p.kept.area
  %p.result = getelementptr i32, ptr %results, i64 %chosen
  store i32 %best, ptr %p.result
  %chosen.more = add i64 %chosen, 1
  br label %chosen.end
chosen.end:
  %chosen.next = phi i64 [ %chosen, %take ], [ %chosen.more, %keep ]
  br label %select
fill:
  %free = phi i64 [ %chosen, %select ], [ %free.next, %zero ]
  %unfilled = icmp ult i64 %free, 5
  br i1 %unfilled, label %zero, label %row.end
zero:
  %p.free = getelementptr i32, ptr %results, i64 %free
  store i32 0, ptr %p.free
  %free.next = add i64 %free, 1
  br label %fill
row.end:
  %p.count = getelementptr i32, ptr %results, i64 5
  %total = trunc i64 %chosen to i32
  store i32 %total, ptr %p.count
  %row.next = add i64 %row, 1
  br label %row.test
done:
  ret void
}

