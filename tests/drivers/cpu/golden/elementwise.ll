; 8 elements at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k2c42785d103f00b6(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = mul i64 %begin, 1
  %v2 = mul i64 %end, 1
  %v3 = call i64 @llvm.smin.i64(i64 %v2, i64 1)
  %v23 = bitcast <8 x float> splat (float 0x4168000000000000) to <8 x i32>
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %v1, %v4.before ], [ %v46, %v4.next ]
  %v46.more = icmp slt i64 %v5, %v3
  br i1 %v46.more, label %v4.turn, label %v4.after
v4.turn:
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v45, %v6.next ]
  %v12 = mul i64 %v7, 20
  br label %v8.before
v8.before:
  br label %v8
v8:
  %v9 = phi i64 [ 0, %v8.before ], [ %v44, %v8.next ]
  %v10 = mul i64 %v9, 8
  %v11 = call i64 @llvm.smin.i64(i64 %v10, i64 12)
  %v13 = add i64 %v12, %v11
  %v14 = getelementptr float, ptr %a1, i64 %v13
  %v15 = load <8 x float>, ptr %v14, align 4
  %v16 = getelementptr float, ptr %a2, i64 %v11
  %v17 = load <8 x float>, ptr %v16, align 4
  %v18 = fadd <8 x float> %v15, %v17
  %v19 = fmul <8 x float> %v18, splat (float 0x3FE0000000000000)
  %v20 = fcmp olt <8 x float> %v19, splat (float 0xC055D589E0000000)
  %v21 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v19, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v22 = bitcast <8 x float> %v21 to <8 x i32>
  %v24 = sub <8 x i32> %v22, %v23
  %v25 = fsub <8 x float> %v21, splat (float 0x4168000000000000)
  %v26 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v25, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v19)
  %v27 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v25, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v26)
  %v28 = shl <8 x i32> %v24, splat (i32 23)
  %v29 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v27, <8 x float> splat (float 0x3F81229B40000000))
  %v30 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v29, <8 x float> %v27, <8 x float> splat (float 0x3FA5556780000000))
  %v31 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v30, <8 x float> %v27, <8 x float> splat (float 0x3FC5554AE0000000))
  %v32 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v31, <8 x float> %v27, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v33 = fmul <8 x float> %v27, %v27
  %v34 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v33, <8 x float> %v32, <8 x float> %v27)
  %v35 = fadd <8 x float> %v34, splat (float 0x3FF0000000000000)
  %v36 = bitcast <8 x float> %v35 to <8 x i32>
  %v37 = add <8 x i32> %v36, %v28
  %v38 = bitcast <8 x i32> %v37 to <8 x float>
  %v39 = fmul <8 x float> %v19, splat (float 0x7FF0000000000000)
  %v40 = fcmp ugt <8 x float> %v19, splat (float 0x40562E42E0000000)
  %v41 = select <8 x i1> %v40, <8 x float> %v39, <8 x float> %v38
  %v42 = select <8 x i1> %v20, <8 x float> splat (float 0x0000000000000000), <8 x float> %v41
  %v43 = getelementptr float, ptr %a0, i64 %v13
  store <8 x float> %v42, ptr %v43, align 4
  br label %v8.next
v8.next:
  %v44 = add i64 %v9, 1
  %v44.more = icmp slt i64 %v44, 3
  br i1 %v44.more, label %v8, label %v8.after
v8.after:
  br label %v6.next
v6.next:
  %v45 = add i64 %v7, 1
  %v45.more = icmp slt i64 %v45, 5
  br i1 %v45.more, label %v6, label %v6.after
v6.after:
  br label %v4.next
v4.next:
  %v46 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

