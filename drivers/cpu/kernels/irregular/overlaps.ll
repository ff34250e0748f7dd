; Returns the intersections of a box, of which %box has the corners and the area, and of eight
; selected ones from %at on, over their unions; 0 if a union has no area. %kept has the corners and
; the areas of selected boxes, one coordinate after the other.
define internal <8 x float> @${KERNEL}_overlaps(ptr %kept, ptr %box, i64 %at) nounwind {
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
  %row.top = getelementptr i8, ptr %kept, i64 $ROW_TOP
  %p.one.top = getelementptr float, ptr %row.top, i64 %at
  %one.top = load <8 x float>, ptr %p.one.top, align 4
  %row.left = getelementptr i8, ptr %kept, i64 $ROW_LEFT
  %p.one.left = getelementptr float, ptr %row.left, i64 %at
  %one.left = load <8 x float>, ptr %p.one.left, align 4
  %row.bottom = getelementptr i8, ptr %kept, i64 $ROW_BOTTOM
  %p.one.bottom = getelementptr float, ptr %row.bottom, i64 %at
  %one.bottom = load <8 x float>, ptr %p.one.bottom, align 4
  %row.right = getelementptr i8, ptr %kept, i64 $ROW_RIGHT
  %p.one.right = getelementptr float, ptr %row.right, i64 %at
  %one.right = load <8 x float>, ptr %p.one.right, align 4
  %row.area = getelementptr i8, ptr %kept, i64 $ROW_AREA
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

