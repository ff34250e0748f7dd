; depthwise, 8 positions of 8 channels at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
define void @k2ebc0014dfaed82f(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = icmp eq i64 %begin, 0
  %v2 = icmp eq i64 %end, 6
  %v3 = and i1 %v1, %v2
  %v4 = udiv i64 %begin, 6
  br label %v5.before
v5.before:
  br label %v5
v5:
  %v6 = phi i64 [ %begin, %v5.before ], [ %v101, %v5.next ]
  %v7 = phi i64 [ %begin, %v5.before ], [ %v99, %v5.next ]
  %v101.more = icmp slt i64 %v6, %end
  br i1 %v101.more, label %v5.turn, label %v5.after
v5.turn:
  %v8 = sub i64 %v6, %begin
  %v9 = mul i64 %v7, 192
  %v10 = add i64 %v9, -224
  %v11 = getelementptr i8, ptr %a1, i64 %v10
  %v12 = mul i64 %v7, 6
  %v13 = sub i64 1, %v7
  %v14 = call i64 @llvm.smax.i64(i64 %v13, i64 0)
  %v15 = call i64 @llvm.smin.i64(i64 %v14, i64 3)
  %v16 = add i64 %v13, 6
  %v17 = call i64 @llvm.smax.i64(i64 %v16, i64 0)
  %v18 = call i64 @llvm.smin.i64(i64 %v17, i64 3)
  %v19 = load <8 x float>, ptr %a3, align 4
  br label %v20.before
v20.before:
  br label %v20
v20:
  %v21 = phi i64 [ %v15, %v20.before ], [ %v67, %v20.next ]
  %v22 = phi <8 x float> [ %v19, %v20.before ], [ %v45, %v20.next ]
  %v23 = phi <8 x float> [ %v19, %v20.before ], [ %v50, %v20.next ]
  %v24 = phi <8 x float> [ %v19, %v20.before ], [ %v55, %v20.next ]
  %v25 = phi <8 x float> [ %v19, %v20.before ], [ %v60, %v20.next ]
  %v26 = phi <8 x float> [ %v19, %v20.before ], [ %v65, %v20.next ]
  %v27 = phi <8 x float> [ %v19, %v20.before ], [ %v66, %v20.next ]
  %v67.more = icmp slt i64 %v21, %v18
  br i1 %v67.more, label %v20.turn, label %v20.after
v20.turn:
  %v28 = mul i64 %v21, 192
  %v29 = getelementptr i8, ptr %v11, i64 %v28
  %v30 = call ptr asm "", "=r,0"(ptr %v29)
  %v31 = mul i64 %v21, 96
  %v32 = getelementptr i8, ptr %a2, i64 %v31
  %v33 = call ptr asm "", "=r,0"(ptr %v32)
  %v34 = getelementptr i8, ptr %v30, i64 32
  %v35 = load <8 x float>, ptr %v34, align 4
  %v36 = getelementptr i8, ptr %v33, i64 32
  %v37 = load <8 x float>, ptr %v36, align 4
  %v38 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v35, <8 x float> %v37, <8 x float> %v22)
  %v39 = load <8 x float>, ptr %v33, align 4
  %v40 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v35, <8 x float> %v39, <8 x float> %v23)
  %v41 = getelementptr i8, ptr %v30, i64 64
  %v42 = load <8 x float>, ptr %v41, align 4
  %v43 = getelementptr i8, ptr %v33, i64 64
  %v44 = load <8 x float>, ptr %v43, align 4
  %v45 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v42, <8 x float> %v44, <8 x float> %v38)
  %v46 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v42, <8 x float> %v37, <8 x float> %v40)
  %v47 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v42, <8 x float> %v39, <8 x float> %v24)
  %v48 = getelementptr i8, ptr %v30, i64 96
  %v49 = load <8 x float>, ptr %v48, align 4
  %v50 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v49, <8 x float> %v44, <8 x float> %v46)
  %v51 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v49, <8 x float> %v37, <8 x float> %v47)
  %v52 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v49, <8 x float> %v39, <8 x float> %v25)
  %v53 = getelementptr i8, ptr %v30, i64 128
  %v54 = load <8 x float>, ptr %v53, align 4
  %v55 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v54, <8 x float> %v44, <8 x float> %v51)
  %v56 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v54, <8 x float> %v37, <8 x float> %v52)
  %v57 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v54, <8 x float> %v39, <8 x float> %v26)
  %v58 = getelementptr i8, ptr %v30, i64 160
  %v59 = load <8 x float>, ptr %v58, align 4
  %v60 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v59, <8 x float> %v44, <8 x float> %v56)
  %v61 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v59, <8 x float> %v37, <8 x float> %v57)
  %v62 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v59, <8 x float> %v39, <8 x float> %v27)
  %v63 = getelementptr i8, ptr %v30, i64 192
  %v64 = load <8 x float>, ptr %v63, align 4
  %v65 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v64, <8 x float> %v44, <8 x float> %v61)
  %v66 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v64, <8 x float> %v37, <8 x float> %v62)
  br label %v20.next
v20.next:
  %v67 = add i64 %v21, 1
  br label %v20
v20.after:
  %v68 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v22
  %v69 = select <8 x i1> %v68, <8 x float> splat (float 0x0000000000000000), <8 x float> %v22
  %v70 = mul i64 %v12, 8
  %v71 = getelementptr float, ptr %a0, i64 %v70
  store <8 x float> %v69, ptr %v71, align 4
  %v72 = add i64 %v12, 1
  %v73 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v23
  %v74 = select <8 x i1> %v73, <8 x float> splat (float 0x0000000000000000), <8 x float> %v23
  %v75 = mul i64 %v72, 8
  %v76 = getelementptr float, ptr %a0, i64 %v75
  store <8 x float> %v74, ptr %v76, align 4
  %v77 = add i64 %v12, 2
  %v78 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v24
  %v79 = select <8 x i1> %v78, <8 x float> splat (float 0x0000000000000000), <8 x float> %v24
  %v80 = mul i64 %v77, 8
  %v81 = getelementptr float, ptr %a0, i64 %v80
  store <8 x float> %v79, ptr %v81, align 4
  %v82 = add i64 %v12, 3
  %v83 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v25
  %v84 = select <8 x i1> %v83, <8 x float> splat (float 0x0000000000000000), <8 x float> %v25
  %v85 = mul i64 %v82, 8
  %v86 = getelementptr float, ptr %a0, i64 %v85
  store <8 x float> %v84, ptr %v86, align 4
  %v87 = add i64 %v12, 4
  %v88 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v26
  %v89 = select <8 x i1> %v88, <8 x float> splat (float 0x0000000000000000), <8 x float> %v26
  %v90 = mul i64 %v87, 8
  %v91 = getelementptr float, ptr %a0, i64 %v90
  store <8 x float> %v89, ptr %v91, align 4
  %v92 = add i64 %v12, 5
  %v93 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v27
  %v94 = select <8 x i1> %v93, <8 x float> splat (float 0x0000000000000000), <8 x float> %v27
  %v95 = mul i64 %v92, 8
  %v96 = getelementptr float, ptr %a0, i64 %v95
  store <8 x float> %v94, ptr %v96, align 4
  %v97 = add i64 %v7, 1
  %v98 = icmp eq i64 %v97, 6
  %v99 = select i1 %v98, i64 0, i64 %v97
  %v100 = zext i1 %v98 to i64
  br label %v5.next
v5.next:
  %v101 = add i64 %v6, 1
  br label %v5
v5.after:
  ret void
}

