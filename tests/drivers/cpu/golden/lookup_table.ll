; 16 elements at once
declare <16 x float> @llvm.copysign.v16f32(<16 x float>, <16 x float>)
declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare <16 x float> @llvm.trunc.v16f32(<16 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k33c075a13513e4f7(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = mul i64 %begin, 1
  %v2 = mul i64 %end, 1
  %v3 = call i64 @llvm.smin.i64(i64 %v2, i64 1)
  %v19 = bitcast <16 x float> splat (float 0x4168000000000000) to <16 x i32>
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %v1, %v4.before ], [ %v53, %v4.next ]
  %v53.more = icmp slt i64 %v5, %v3
  br i1 %v53.more, label %v4.turn, label %v4.after
v4.turn:
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v52, %v6.next ]
  %v8 = mul i64 %v7, 16
  %v9 = call i64 @llvm.smin.i64(i64 %v8, i64 284)
  %v10 = getelementptr i8, ptr %a1, i64 %v9
  %v11 = load <16 x i8>, ptr %v10, align 1
  %v12 = sitofp <16 x i8> %v11 to <16 x float>
  %v13 = fmul <16 x float> %v12, splat (float 0x3F847AE140000000)
  %v14 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %v13)
  %v15 = fcmp ogt <16 x float> %v14, splat (float 0x4034000000000000)
  %v16 = select <16 x i1> %v15, <16 x float> splat (float 0x4034000000000000), <16 x float> %v14
  %v17 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v16, <16 x float> splat (float 0x4007154760000000), <16 x float> splat (float 0x4168000000000000))
  %v18 = bitcast <16 x float> %v17 to <16 x i32>
  %v20 = sub <16 x i32> %v18, %v19
  %v21 = fsub <16 x float> %v17, splat (float 0x4168000000000000)
  %v22 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v21, <16 x float> splat (float 0xBFD62E4300000000), <16 x float> %v16)
  %v23 = add <16 x i32> %v20, splat (i32 127)
  %v24 = shl <16 x i32> %v23, splat (i32 23)
  %v25 = bitcast <16 x i32> %v24 to <16 x float>
  %v26 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> splat (float 0x3FB6BEBAE0000000), <16 x float> %v22, <16 x float> splat (float 0x3FD1229B40000000))
  %v27 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v26, <16 x float> %v22, <16 x float> splat (float 0x3FE5556780000000))
  %v28 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v27, <16 x float> %v22, <16 x float> splat (float 0x3FF5554AE0000000))
  %v29 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v28, <16 x float> %v22, <16 x float> splat (float 0x3FFFFFFFE0000000))
  %v30 = fmul <16 x float> %v22, %v22
  %v31 = fmul <16 x float> %v22, splat (float 0x4000000000000000)
  %v32 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v30, <16 x float> %v29, <16 x float> %v31)
  %v33 = fsub <16 x float> %v25, splat (float 0x3FF0000000000000)
  %v34 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v25, <16 x float> %v32, <16 x float> %v33)
  %v35 = fadd <16 x float> %v34, splat (float 0x4000000000000000)
  %v36 = fdiv <16 x float> %v34, %v35
  %v37 = call <16 x float> @llvm.copysign.v16f32(<16 x float> %v36, <16 x float> %v13)
  %v38 = fmul <16 x float> %v37, splat (float 0x4059000000000000)
  %v39 = fadd <16 x float> %v38, splat (float 0x401C000000000000)
  %v40 = call <16 x float> @llvm.copysign.v16f32(<16 x float> splat (float 0x3FDFFFFFE0000000), <16 x float> %v39)
  %v41 = fadd <16 x float> %v39, %v40
  %v42 = call <16 x float> @llvm.trunc.v16f32(<16 x float> %v41)
  %v43 = fcmp ogt <16 x float> splat (float 0xC060000000000000), %v42
  %v44 = select <16 x i1> %v43, <16 x float> splat (float 0xC060000000000000), <16 x float> %v42
  %v45 = fcmp olt <16 x float> splat (float 0x405FC00000000000), %v44
  %v46 = select <16 x i1> %v45, <16 x float> splat (float 0x405FC00000000000), <16 x float> %v44
  %v47 = fptosi <16 x float> %v46 to <16 x i32>
  %v48 = fcmp ord <16 x float> %v46, %v46
  %v49 = select <16 x i1> %v48, <16 x i32> %v47, <16 x i32> splat (i32 0)
  %v50 = trunc <16 x i32> %v49 to <16 x i8>
  %v51 = getelementptr i8, ptr %a0, i64 %v9
  store <16 x i8> %v50, ptr %v51, align 1
  br label %v6.next
v6.next:
  %v52 = add i64 %v7, 1
  %v52.more = icmp slt i64 %v52, 19
  br i1 %v52.more, label %v6, label %v6.after
v6.after:
  br label %v4.next
v4.next:
  %v53 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

