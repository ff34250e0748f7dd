; 8 elements at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @ka425c291f8b26d53(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = mul i64 %begin, 1
  %v2 = mul i64 %end, 1
  %v3 = call i64 @llvm.smin.i64(i64 %v2, i64 1)
  %v26 = bitcast <8 x float> splat (float 0x4168000000000000) to <8 x i32>
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %v1, %v4.before ], [ %v52, %v4.next ]
  %v52.more = icmp slt i64 %v5, %v3
  br i1 %v52.more, label %v4.turn, label %v4.after
v4.turn:
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v51, %v6.next ]
  %v12 = mul i64 %v7, 20
  br label %v8.before
v8.before:
  br label %v8
v8:
  %v9 = phi i64 [ 0, %v8.before ], [ %v50, %v8.next ]
  %v10 = mul i64 %v9, 8
  %v11 = call i64 @llvm.smin.i64(i64 %v10, i64 12)
  %v13 = add i64 %v12, %v11
  %v14 = getelementptr float, ptr %a1, i64 %v13
  %v15 = load <8 x float>, ptr %v14, align 4
  %v16 = getelementptr float, ptr %a2, i64 %v11
  %v17 = load <8 x float>, ptr %v16, align 4
  %v18 = fadd <8 x float> %v15, %v17
  %v19 = fmul <8 x float> %v18, splat (float 0x3FE0000000000000)
  %v20 = fcmp olt <8 x float> %v19, splat (float 0xC05A000000000000)
  %v21 = select <8 x i1> %v20, <8 x float> splat (float 0x0000000000000000), <8 x float> %v19
  %v22 = fcmp ogt <8 x float> %v21, splat (float 0x4056400000000000)
  %v23 = select <8 x i1> %v22, <8 x float> splat (float 0x4056400000000000), <8 x float> %v21
  %v24 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v23, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v25 = bitcast <8 x float> %v24 to <8 x i32>
  %v27 = sub <8 x i32> %v25, %v26
  %v28 = fsub <8 x float> %v24, splat (float 0x4168000000000000)
  %v29 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v28, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v23)
  %v30 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v28, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v29)
  %v31 = ashr <8 x i32> %v27, splat (i32 1)
  %v32 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v30, <8 x float> splat (float 0x3F81229B40000000))
  %v33 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v32, <8 x float> %v30, <8 x float> splat (float 0x3FA5556780000000))
  %v34 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v33, <8 x float> %v30, <8 x float> splat (float 0x3FC5554AE0000000))
  %v35 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v34, <8 x float> %v30, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v36 = fmul <8 x float> %v30, %v30
  %v37 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v36, <8 x float> %v35, <8 x float> %v30)
  %v38 = fadd <8 x float> %v37, splat (float 0x3FF0000000000000)
  %v39 = add <8 x i32> %v31, splat (i32 127)
  %v40 = shl <8 x i32> %v39, splat (i32 23)
  %v41 = bitcast <8 x i32> %v40 to <8 x float>
  %v42 = fmul <8 x float> %v38, %v41
  %v43 = sub <8 x i32> %v27, %v31
  %v44 = add <8 x i32> %v43, splat (i32 127)
  %v45 = shl <8 x i32> %v44, splat (i32 23)
  %v46 = bitcast <8 x i32> %v45 to <8 x float>
  %v47 = fmul <8 x float> %v42, %v46
  %v48 = select <8 x i1> %v20, <8 x float> splat (float 0x0000000000000000), <8 x float> %v47
  %v49 = getelementptr float, ptr %a0, i64 %v13
  store <8 x float> %v48, ptr %v49, align 4
  br label %v8.next
v8.next:
  %v50 = add i64 %v9, 1
  %v50.more = icmp slt i64 %v50, 3
  br i1 %v50.more, label %v8, label %v8.after
v8.after:
  br label %v6.next
v6.next:
  %v51 = add i64 %v7, 1
  %v51.more = icmp slt i64 %v51, 5
  br i1 %v51.more, label %v6, label %v6.after
v6.after:
  br label %v4.next
v4.next:
  %v52 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

