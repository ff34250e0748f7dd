; 5 of 20 boxes
declare float @llvm.maximum.f32(float, float)
declare float @llvm.minimum.f32(float, float)
; Selects boxes from the best score to the worst, unless they overlap a selected one. %a1 has the boxes of
; each image, %a2 a row of scores for each work item, in which NaN excludes a box. %scratch has the selected boxes,
; and then a binary heap of boxes: pairs of a score and an index, the best ones first.

; Returns true if the first pair precedes the second one: by a greater score, then by a smaller index.
define internal i1 @k497a477e15d2aa96_precedes(ptr %one, ptr %other) nounwind {
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
define internal void @k497a477e15d2aa96_sink(ptr %heap, i64 %start, i64 %count) nounwind {
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
  %is.right = call i1 @k497a477e15d2aa96_precedes(ptr %p.right, ptr %p.left)
  %better = select i1 %is.right, i64 %right, i64 %left
  br label %compare
compare:
  %child = phi i64 [ %left, %look ], [ %better, %both ]
  %p.child = getelementptr i64, ptr %heap, i64 %child
  %p.at = getelementptr i64, ptr %heap, i64 %at
  %sinks = call i1 @k497a477e15d2aa96_precedes(ptr %p.child, ptr %p.at)
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

; Returns true if two boxes overlap too much.
define internal i1 @k497a477e15d2aa96_overlaps(ptr %one, ptr %other) nounwind {
  %first = load <4 x float>, ptr %one, align 4
  %second = load <4 x float>, ptr %other, align 4
  %one.top = extractelement <4 x float> %first, i64 0
  %one.left = extractelement <4 x float> %first, i64 1
  %one.bottom = extractelement <4 x float> %first, i64 2
  %one.right = extractelement <4 x float> %first, i64 3
  %other.top = extractelement <4 x float> %second, i64 0
  %other.left = extractelement <4 x float> %second, i64 1
  %other.bottom = extractelement <4 x float> %second, i64 2
  %other.right = extractelement <4 x float> %second, i64 3
  %one.height = fsub float %one.bottom, %one.top
  %one.width = fsub float %one.right, %one.left
  %one.area = fmul float %one.height, %one.width
  %other.height = fsub float %other.bottom, %other.top
  %other.width = fsub float %other.right, %other.left
  %other.area = fmul float %other.height, %other.width
  %bottom = call float @llvm.minimum.f32(float %one.bottom, float %other.bottom)
  %top = call float @llvm.maximum.f32(float %one.top, float %other.top)
  %right = call float @llvm.minimum.f32(float %one.right, float %other.right)
  %left = call float @llvm.maximum.f32(float %one.left, float %other.left)
  %height.any = fsub float %bottom, %top
  %width.any = fsub float %right, %left
  %height = call float @llvm.maximum.f32(float %height.any, float 0.0)
  %width = call float @llvm.maximum.f32(float %width.any, float 0.0)
  %shared = fmul float %height, %width
  %both = fadd float %other.area, %one.area
  %union = fsub float %both, %shared
  %ratio = fdiv float %shared, %union
  %has.union = fcmp une float %union, 0.0
  %iou = select i1 %has.union, float %ratio, float 0.0
  %is.one = fcmp ogt float %one.area, 0.0
  %is.other = fcmp ogt float %other.area, 0.0
  %is.much = fcmp ogt float %iou, 0x3FE0000000000000
  %have.areas = and i1 %is.one, %is.other
  %are.boxes = or i1 %have.areas, false
  %result = and i1 %are.boxes, %is.much
  ret i1 %result
}

define void @k497a477e15d2aa96(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %entry
entry:
  %heap = getelementptr i8, ptr %scratch, i64 24
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
  call void @k497a477e15d2aa96_sink(ptr %heap, i64 %inner, i64 %count)
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
  call void @k497a477e15d2aa96_sink(ptr %heap, i64 0, i64 %rest)
  %best.wide = zext i32 %best to i64
  %p.box = getelementptr [4 x float], ptr %boxes, i64 %best.wide
  br label %compare
compare:
  %position = phi i64 [ 0, %take ], [ %position.next, %apart ]
  %is.apart = icmp uge i64 %position, %chosen
  br i1 %is.apart, label %keep, label %against
against:
  %p.kept = getelementptr i32, ptr %scratch, i64 %position
  %kept = load i32, ptr %p.kept
  %kept.wide = zext i32 %kept to i64
  %p.kept.box = getelementptr [4 x float], ptr %boxes, i64 %kept.wide
  %overlaps = call i1 @k497a477e15d2aa96_overlaps(ptr %p.kept.box, ptr %p.box)
  br i1 %overlaps, label %chosen.end, label %apart
apart:
  %position.next = add i64 %position, 1
  br label %compare
keep:
  %p.chosen = getelementptr i32, ptr %scratch, i64 %chosen
  store i32 %best, ptr %p.chosen
  %p.result = getelementptr i32, ptr %results, i64 %chosen
  store i32 %best, ptr %p.result
  %chosen.more = add i64 %chosen, 1
  br label %chosen.end
chosen.end:
  %chosen.next = phi i64 [ %chosen, %against ], [ %chosen.more, %keep ]
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

