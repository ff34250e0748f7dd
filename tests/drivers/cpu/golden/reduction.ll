; 8 elements at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <8 x float> @llvm.sqrt.v8f32(<8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k5186419bc4547afa(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = mul i64 %begin, 1
  %v2 = mul i64 %end, 1
  %v3 = call i64 @llvm.smin.i64(i64 %v2, i64 1)
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %v1, %v4.before ], [ %v51, %v4.next ]
  %v51.more = icmp slt i64 %v5, %v3
  br i1 %v51.more, label %v4.turn, label %v4.after
v4.turn:
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v50, %v6.next ]
  %v8 = mul i64 %v7, 8
  %v9 = call i64 @llvm.smin.i64(i64 %v8, i64 4)
  br label %v10.before
v10.before:
  br label %v10
v10:
  %v11 = phi i64 [ 0, %v10.before ], [ %v36, %v10.next ]
  %v12 = phi <8 x float> [ splat (float 0x0000000000000000), %v10.before ], [ %v20, %v10.next ]
  %v13 = phi <8 x float> [ splat (float 0x0000000000000000), %v10.before ], [ %v25, %v10.next ]
  %v14 = phi <8 x float> [ splat (float 0x0000000000000000), %v10.before ], [ %v30, %v10.next ]
  %v15 = phi <8 x float> [ splat (float 0x0000000000000000), %v10.before ], [ %v35, %v10.next ]
  %v16 = mul i64 %v11, 12
  %v17 = add i64 %v16, %v9
  %v18 = getelementptr float, ptr %a1, i64 %v17
  %v19 = load <8 x float>, ptr %v18, align 4
  %v20 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v19, <8 x float> %v19, <8 x float> %v12)
  %v21 = add i64 12, %v16
  %v22 = add i64 %v21, %v9
  %v23 = getelementptr float, ptr %a1, i64 %v22
  %v24 = load <8 x float>, ptr %v23, align 4
  %v25 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v24, <8 x float> %v24, <8 x float> %v13)
  %v26 = add i64 24, %v16
  %v27 = add i64 %v26, %v9
  %v28 = getelementptr float, ptr %a1, i64 %v27
  %v29 = load <8 x float>, ptr %v28, align 4
  %v30 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v29, <8 x float> %v29, <8 x float> %v14)
  %v31 = add i64 36, %v16
  %v32 = add i64 %v31, %v9
  %v33 = getelementptr float, ptr %a1, i64 %v32
  %v34 = load <8 x float>, ptr %v33, align 4
  %v35 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v34, <8 x float> %v34, <8 x float> %v15)
  br label %v10.next
v10.next:
  %v36 = add i64 %v11, 4
  %v36.more = icmp slt i64 %v36, 28
  br i1 %v36.more, label %v10, label %v10.after
v10.after:
  %v37 = add i64 336, %v9
  %v38 = getelementptr float, ptr %a1, i64 %v37
  %v39 = load <8 x float>, ptr %v38, align 4
  %v40 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v39, <8 x float> %v39, <8 x float> %v20)
  %v41 = add i64 348, %v9
  %v42 = getelementptr float, ptr %a1, i64 %v41
  %v43 = load <8 x float>, ptr %v42, align 4
  %v44 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v43, <8 x float> %v43, <8 x float> %v25)
  %v45 = fadd <8 x float> %v40, %v44
  %v46 = fadd <8 x float> %v30, %v35
  %v47 = fadd <8 x float> %v45, %v46
  %v48 = call <8 x float> @llvm.sqrt.v8f32(<8 x float> %v47)
  %v49 = getelementptr float, ptr %a0, i64 %v9
  store <8 x float> %v48, ptr %v49, align 4
  br label %v6.next
v6.next:
  %v50 = add i64 %v7, 1
  %v50.more = icmp slt i64 %v50, 2
  br i1 %v50.more, label %v6, label %v6.after
v6.after:
  br label %v4.next
v4.next:
  %v51 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

