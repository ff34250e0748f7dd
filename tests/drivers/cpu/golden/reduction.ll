; columns, 16 at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <8 x float> @llvm.sqrt.v8f32(<8 x float>)
define void @kf506708b6e9f915c(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v31 = getelementptr float, ptr %a0, i64 4
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v32, %v1.next ]
  %v32.more = icmp slt i64 %v2, %end
  br i1 %v32.more, label %v1.turn, label %v1.after
v1.turn:
  %v3 = sub i64 %v2, %begin
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ 0, %v4.before ], [ %v26, %v4.next ]
  %v6 = phi <8 x float> [ splat (float 0x0000000000000000), %v4.before ], [ %v13, %v4.next ]
  %v7 = phi <8 x float> [ splat (float 0x0000000000000000), %v4.before ], [ %v17, %v4.next ]
  %v8 = phi <8 x float> [ splat (float 0x0000000000000000), %v4.before ], [ %v21, %v4.next ]
  %v9 = phi <8 x float> [ splat (float 0x0000000000000000), %v4.before ], [ %v25, %v4.next ]
  %v10 = mul i64 %v5, 12
  %v11 = getelementptr float, ptr %a1, i64 %v10
  %v12 = load <8 x float>, ptr %v11, align 4
  %v13 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v12, <8 x float> %v12, <8 x float> %v6)
  %v14 = add i64 %v10, 4
  %v15 = getelementptr float, ptr %a1, i64 %v14
  %v16 = load <8 x float>, ptr %v15, align 4
  %v17 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v16, <8 x float> %v16, <8 x float> %v7)
  %v18 = add i64 12, %v10
  %v19 = getelementptr float, ptr %a1, i64 %v18
  %v20 = load <8 x float>, ptr %v19, align 4
  %v21 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v20, <8 x float> %v20, <8 x float> %v8)
  %v22 = add i64 %v18, 4
  %v23 = getelementptr float, ptr %a1, i64 %v22
  %v24 = load <8 x float>, ptr %v23, align 4
  %v25 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v24, <8 x float> %v24, <8 x float> %v9)
  br label %v4.next
v4.next:
  %v26 = add i64 %v5, 2
  %v26.more = icmp slt i64 %v26, 30
  br i1 %v26.more, label %v4, label %v4.after
v4.after:
  %v27 = fadd <8 x float> %v13, %v21
  %v28 = fadd <8 x float> %v17, %v25
  %v29 = call <8 x float> @llvm.sqrt.v8f32(<8 x float> %v27)
  store <8 x float> %v29, ptr %a0, align 4
  %v30 = call <8 x float> @llvm.sqrt.v8f32(<8 x float> %v28)
  store <8 x float> %v30, ptr %v31, align 4
  br label %v1.next
v1.next:
  %v32 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

