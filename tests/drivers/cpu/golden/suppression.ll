; 5 of 20 boxes
declare <8 x float> @llvm.maximum.v8f32(<8 x float>, <8 x float>)
declare <8 x float> @llvm.minimum.v8f32(<8 x float>, <8 x float>)
declare float @llvm.fmuladd.f32(float, float, float)
declare float @llvm.maximum.f32(float, float)
declare float @llvm.minimum.f32(float, float)
declare i64 @llvm.usub.sat.i64(i64, i64)
declare i8 @llvm.ctlz.i8(i8, i1)
define internal float @k6e9bed290ec9c835_exp(float %x) nounwind {
  %v1 = fcmp olt float %x, 0xC055D589E0000000
  %v2 = call float @llvm.fmuladd.f32(float %x, float 0x3FF7154760000000, float 0x4168000000000000)
  %v3 = bitcast float %v2 to i32
  %v4 = bitcast float 0x4168000000000000 to i32
  %v5 = sub i32 %v3, %v4
  %v6 = fsub float %v2, 0x4168000000000000
  %v7 = call float @llvm.fmuladd.f32(float %v6, float 0xBFE62E4000000000, float %x)
  %v8 = call float @llvm.fmuladd.f32(float %v6, float 0xBEB7F7D1C0000000, float %v7)
  %v9 = shl i32 %v5, 23
  %v10 = call float @llvm.fmuladd.f32(float 0x3F56BEBAE0000000, float %v8, float 0x3F81229B40000000)
  %v11 = call float @llvm.fmuladd.f32(float %v10, float %v8, float 0x3FA5556780000000)
  %v12 = call float @llvm.fmuladd.f32(float %v11, float %v8, float 0x3FC5554AE0000000)
  %v13 = call float @llvm.fmuladd.f32(float %v12, float %v8, float 0x3FDFFFFFE0000000)
  %v14 = fmul float %v8, %v8
  %v15 = call float @llvm.fmuladd.f32(float %v14, float %v13, float %v8)
  %v16 = fadd float %v15, 0x3FF0000000000000
  %v17 = bitcast float %v16 to i32
  %v18 = add i32 %v17, %v9
  %v19 = bitcast i32 %v18 to float
  %v20 = fmul float %x, 0x7FF0000000000000
  %v21 = fcmp ugt float %x, 0x40562E42E0000000
  %v22 = select i1 %v21, float %v20, float %v19
  %v23 = select i1 %v1, float 0x0000000000000000, float %v22
  ret float %v23
}
; Returns the intersections of a box, of which %box has the corners and the area, and of eight
; selected ones from %at on, over their unions; 0 if a union has no area. %kept has the corners and
; the areas of selected boxes, one coordinate after the other.
define internal <8 x float> @k6e9bed290ec9c835_overlaps(ptr %kept, ptr %box, i64 %at) nounwind {
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

; Selects boxes by score unless they overlap. %a1 has the boxes, %a2 the scores; %a3 to %a5 have the
; least overlap that drops a box, the score that others must exceed, and sigma.
;
; %scratch has the corners and the areas of the chosen boxes, one coordinate after the other, then
; the corners of all boxes, the smaller ones first, then a binary heap of waiting boxes. An element
; of the heap has a score, an index, and the number of chosen boxes that the box has been compared
; with. The order of equal scores follows from how the heap is changed.

; Moves an element up from %hole to its place in the heap.
define internal void @k6e9bed290ec9c835_rise(ptr %heap, i64 %hole, float %score, i32 %index, i32 %compared) nounwind {
entry:
  br label %test
test:
  %at = phi i64 [ %hole, %entry ], [ %parent, %move ]
  %p.at = getelementptr [4 x i32], ptr %heap, i64 %at
  %is.root = icmp eq i64 %at, 0
  br i1 %is.root, label %end, label %look
look:
  %less = sub i64 %at, 1
  %parent = lshr i64 %less, 1
  %p.parent = getelementptr [4 x i32], ptr %heap, i64 %parent
  %above = load float, ptr %p.parent
  %rises = fcmp olt float %above, %score
  br i1 %rises, label %move, label %end
move:
  %moved = load <4 x i32>, ptr %p.parent, align 4
  store <4 x i32> %moved, ptr %p.at, align 4
  br label %test
end:
  store float %score, ptr %p.at
  %p.index = getelementptr i32, ptr %p.at, i64 1
  store i32 %index, ptr %p.index
  %p.compared = getelementptr i32, ptr %p.at, i64 2
  store i32 %compared, ptr %p.compared
  ret void
}

; Removes the root of a heap that keeps %count elements: moves the larger child up, down to a leaf,
; and from there the last element up to its place.
define internal void @k6e9bed290ec9c835_drop(ptr %heap, i64 %count) nounwind {
entry:
  br label %test
test:
  %hole = phi i64 [ 0, %entry ], [ %child, %move ]
  %twice = shl i64 %hole, 1
  %left = or i64 %twice, 1
  %is.inner = icmp ult i64 %left, %count
  br i1 %is.inner, label %look, label %last
look:
  %next = add i64 %left, 1
  %p.left = getelementptr [4 x i32], ptr %heap, i64 %left
  %has.next = icmp ult i64 %next, %count
  br i1 %has.next, label %both, label %move
both:
  %p.next = getelementptr [4 x i32], ptr %heap, i64 %next
  %left.score = load float, ptr %p.left
  %next.score = load float, ptr %p.next
  %is.next = fcmp oge float %next.score, %left.score
  %larger = select i1 %is.next, i64 %next, i64 %left
  br label %move
move:
  %child = phi i64 [ %left, %look ], [ %larger, %both ]
  %p.child = getelementptr [4 x i32], ptr %heap, i64 %child
  %moved = load <4 x i32>, ptr %p.child, align 4
  %p.hole = getelementptr [4 x i32], ptr %heap, i64 %hole
  store <4 x i32> %moved, ptr %p.hole, align 4
  br label %test
last:
  %p.last = getelementptr [4 x i32], ptr %heap, i64 %count
  %score = load float, ptr %p.last
  %p.index = getelementptr i32, ptr %p.last, i64 1
  %index = load i32, ptr %p.index
  %p.compared = getelementptr i32, ptr %p.last, i64 2
  %compared = load i32, ptr %p.compared
  call void @k6e9bed290ec9c835_rise(ptr %heap, i64 %hole, float %score, i32 %index, i32 %compared)
  ret void
}

define void @k6e9bed290ec9c835(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr noalias %a4, ptr noalias %a5, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %entry
entry:
  %own.box = alloca [5 x float]
  %ious = alloca <8 x float>
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %start, label %done
start:
  %iou.limit = load float, ptr %a3
  %least = load float, ptr %a4
  %iou.limit.first = insertelement <8 x float> poison, float %iou.limit, i64 0
  %iou.limits = shufflevector <8 x float> %iou.limit.first, <8 x float> poison, <8 x i32> zeroinitializer
  %sigma = load float, ptr %a5
  %is.soft = fcmp ogt float %sigma, 0.0
  %quotient = fdiv float -0.5, %sigma
  %scale = select i1 %is.soft, float %quotient, float 0.0
  %lowers = fcmp une float %scale, 0.0
  %corners = getelementptr i8, ptr %scratch, i64 160
  %heap = getelementptr i8, ptr %corners, i64 320
  %found.scores = getelementptr i32, ptr %a0, i64 5
  br label %candidate
candidate:
  %index = phi i64 [ 0, %start ], [ %index.next, %queued ]
  %waiting = phi i64 [ 0, %start ], [ %waiting.next, %queued ]
  %more = icmp ult i64 %index, 20
  br i1 %more, label %look, label %select.first
look:
  %p.score = getelementptr float, ptr %a2, i64 %index
  %score = load float, ptr %p.score
  %is.candidate = fcmp ogt float %score, %least
  br i1 %is.candidate, label %queue, label %queued
queue:
  %p.box = getelementptr [4 x float], ptr %a1, i64 %index
  %box = load <4 x float>, ptr %p.box, align 4
  %y1 = extractelement <4 x float> %box, i64 0
  %x1 = extractelement <4 x float> %box, i64 1
  %y2 = extractelement <4 x float> %box, i64 2
  %x2 = extractelement <4 x float> %box, i64 3
  %top = call float @llvm.minimum.f32(float %y1, float %y2)
  %left = call float @llvm.minimum.f32(float %x1, float %x2)
  %bottom = call float @llvm.maximum.f32(float %y1, float %y2)
  %right = call float @llvm.maximum.f32(float %x1, float %x2)
  %p.corners = getelementptr [4 x float], ptr %corners, i64 %index
  store float %top, ptr %p.corners
  %p.left = getelementptr float, ptr %p.corners, i64 1
  store float %left, ptr %p.left
  %p.bottom = getelementptr float, ptr %p.corners, i64 2
  store float %bottom, ptr %p.bottom
  %p.right = getelementptr float, ptr %p.corners, i64 3
  store float %right, ptr %p.right
  %index.short = trunc i64 %index to i32
  call void @k6e9bed290ec9c835_rise(ptr %heap, i64 %waiting, float %score, i32 %index.short, i32 0)
  %waiting.more = add i64 %waiting, 1
  br label %queued
queued:
  %waiting.next = phi i64 [ %waiting, %look ], [ %waiting.more, %queue ]
  %index.next = add i64 %index, 1
  br label %candidate
select.first:
  %is.fewer = icmp ult i64 %waiting, 5
  %wanted = select i1 %is.fewer, i64 %waiting, i64 5
  br label %select
select:
  %chosen = phi i64 [ 0, %select.first ], [ %chosen.next, %kept ], [ %chosen, %dropped ]
  %left.waiting = phi i64 [ %waiting, %select.first ], [ %waiting.after, %kept ], [ %rest, %dropped ]
  %has.waiting = icmp ne i64 %left.waiting, 0
  %wants = icmp ult i64 %chosen, %wanted
  %goes.on = and i1 %has.waiting, %wants
  br i1 %goes.on, label %take, label %fill
take:
  %original = load float, ptr %heap
  %p.own = getelementptr i32, ptr %heap, i64 1
  %own = load i32, ptr %p.own
  %own.wide = zext i32 %own to i64
  %p.seen = getelementptr i32, ptr %heap, i64 2
  %seen = load i32, ptr %p.seen
  %seen.wide = zext i32 %seen to i64
  %rest = sub i64 %left.waiting, 1
  %is.empty = icmp eq i64 %rest, 0
  br i1 %is.empty, label %compare.first, label %drop
drop:
  call void @k6e9bed290ec9c835_drop(ptr %heap, i64 %rest)
  br label %compare.first
compare.first:
  %p.own.corners = getelementptr [4 x float], ptr %corners, i64 %own.wide
  %own.corners = load <4 x float>, ptr %p.own.corners, align 4
  store <4 x float> %own.corners, ptr %own.box, align 4
  %own.top = extractelement <4 x float> %own.corners, i64 0
  %own.left = extractelement <4 x float> %own.corners, i64 1
  %own.bottom = extractelement <4 x float> %own.corners, i64 2
  %own.right = extractelement <4 x float> %own.corners, i64 3
  %own.height = fsub float %own.bottom, %own.top
  %own.width = fsub float %own.right, %own.left
  %own.area = fmul float %own.height, %own.width
  %p.own.area = getelementptr float, ptr %own.box, i64 4
  store float %own.area, ptr %p.own.area
  %seen.first = insertelement <8 x i64> poison, i64 %seen.wide, i64 0
  %seen.all = shufflevector <8 x i64> %seen.first, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %compare
; Eight boxes are compared at once, those chosen last first. A box that reaches the limit with any
; is dropped; where scores are lowered, those of boxes beside it stay as they are.
compare:
  %position = phi i64 [ %chosen, %compare.first ], [ %back, %reach ], [ %back, %lower ]
  %current = phi float [ %original, %compare.first ], [ %current, %reach ], [ %lowered, %lower ]
  %is.compared = icmp ule i64 %position, %seen.wide
  br i1 %is.compared, label %decide, label %overlap
overlap:
  %back = call i64 @llvm.usub.sat.i64(i64 %position, i64 8)
  %iou = call <8 x float> @k6e9bed290ec9c835_overlaps(ptr %scratch, ptr %own.box, i64 %back)
  %back.first = insertelement <8 x i64> poison, i64 %back, i64 0
  %back.all = shufflevector <8 x i64> %back.first, <8 x i64> poison, <8 x i32> zeroinitializer
  %places = add <8 x i64> %back.all, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>
  %position.first = insertelement <8 x i64> poison, i64 %position, i64 0
  %position.all = shufflevector <8 x i64> %position.first, <8 x i64> poison, <8 x i32> zeroinitializer
  %are.unseen = icmp uge <8 x i64> %places, %seen.all
  %are.before = icmp ult <8 x i64> %places, %position.all
  %are.due = and <8 x i1> %are.unseen, %are.before
  %reach.limit = fcmp oge <8 x float> %iou, %iou.limits
  %reaching = and <8 x i1> %reach.limit, %are.due
  %reaching.bits = bitcast <8 x i1> %reaching to i8
  %reaches = icmp ne i8 %reaching.bits, 0
  br i1 %reaches, label %dropped, label %reach
reach:
  br i1 %lowers, label %lower.first, label %compare
lower.first:
  store <8 x float> %iou, ptr %ious
  %are.lowering = fcmp une <8 x float> %iou, zeroinitializer
  %overlapping = and <8 x i1> %are.lowering, %are.due
  %overlapping.bits = bitcast <8 x i1> %overlapping to i8
  br label %lower
lower:
  %bits = phi i8 [ %overlapping.bits, %lower.first ], [ %bits.rest, %soften ]
  %lowered = phi float [ %current, %lower.first ], [ %softened, %soften ]
  %is.lowered = icmp eq i8 %bits, 0
  br i1 %is.lowered, label %compare, label %soften
soften:
  %free.bits = call i8 @llvm.ctlz.i8(i8 %bits, i1 true)
  %lane = sub i8 7, %free.bits
  %bit = shl i8 1, %lane
  %bits.rest = xor i8 %bits, %bit
  %lane.wide = zext i8 %lane to i64
  %p.iou = getelementptr float, ptr %ious, i64 %lane.wide
  %own.iou = load float, ptr %p.iou
  %scaled = fmul float %scale, %own.iou
  %exponent = fmul float %scaled, %own.iou
  %decay = call float @k6e9bed290ec9c835_exp(float %exponent)
  %softened = fmul float %lowered, %decay
  %is.low = fcmp ole float %softened, %least
  br i1 %is.low, label %decide, label %lower
dropped:
  br label %select
decide:
  %final = phi float [ %current, %compare ], [ %softened, %soften ]
  %is.same = fcmp oeq float %final, %original
  br i1 %is.same, label %choose, label %again
choose:
  %row.top = getelementptr i8, ptr %scratch, i64 0
  %p.kept.top = getelementptr float, ptr %row.top, i64 %chosen
  store float %own.top, ptr %p.kept.top
  %row.left = getelementptr i8, ptr %scratch, i64 32
  %p.kept.left = getelementptr float, ptr %row.left, i64 %chosen
  store float %own.left, ptr %p.kept.left
  %row.bottom = getelementptr i8, ptr %scratch, i64 64
  %p.kept.bottom = getelementptr float, ptr %row.bottom, i64 %chosen
  store float %own.bottom, ptr %p.kept.bottom
  %row.right = getelementptr i8, ptr %scratch, i64 96
  %p.kept.right = getelementptr float, ptr %row.right, i64 %chosen
  store float %own.right, ptr %p.kept.right
  %row.area = getelementptr i8, ptr %scratch, i64 128
  %p.kept.area = getelementptr float, ptr %row.area, i64 %chosen
  store float %own.area, ptr %p.kept.area
  %p.result = getelementptr i32, ptr %a0, i64 %chosen
  store i32 %own, ptr %p.result
  %p.result.score = getelementptr float, ptr %found.scores, i64 %chosen
  store float %final, ptr %p.result.score
  %chosen.more = add i64 %chosen, 1
  br label %again
again:
  %chosen.next = phi i64 [ %chosen, %decide ], [ %chosen.more, %choose ]
  %is.above = fcmp ogt float %final, %least
  br i1 %is.above, label %requeue, label %kept
requeue:
  %chosen.short = trunc i64 %chosen to i32
  call void @k6e9bed290ec9c835_rise(ptr %heap, i64 %rest, float %final, i32 %own, i32 %chosen.short)
  br label %kept
kept:
  %waiting.after = phi i64 [ %rest, %again ], [ %left.waiting, %requeue ]
  br label %select
fill:
  %free = phi i64 [ %chosen, %select ], [ %free.next, %zero ]
  %unfilled = icmp ult i64 %free, 5
  br i1 %unfilled, label %zero, label %finish
zero:
  %p.free = getelementptr i32, ptr %a0, i64 %free
  store i32 0, ptr %p.free
  %p.free.score = getelementptr i32, ptr %found.scores, i64 %free
  store i32 0, ptr %p.free.score
  %free.next = add i64 %free, 1
  br label %fill
finish:
  %p.last = getelementptr i32, ptr %found.scores, i64 5
  %total = trunc i64 %chosen to i32
  store i32 %total, ptr %p.last
  br label %done
done:
  ret void
}

