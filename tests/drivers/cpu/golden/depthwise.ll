; depthwise, 8 positions of 8 channels at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
define void @k8ef2defc668fa413(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = udiv i64 %begin, 6
  br label %v2.before
v2.before:
  br label %v2
v2:
  %v3 = phi i64 [ %begin, %v2.before ], [ %v98, %v2.next ]
  %v4 = phi i64 [ %begin, %v2.before ], [ %v96, %v2.next ]
  %v98.more = icmp slt i64 %v3, %end
  br i1 %v98.more, label %v2.turn, label %v2.after
v2.turn:
  %v5 = icmp eq i64 %v3, %begin
  %v6 = mul i64 %v4, 192
  %v7 = add i64 %v6, -224
  %v8 = getelementptr i8, ptr %a1, i64 %v7
  %v9 = mul i64 %v4, 6
  %v10 = sub i64 1, %v4
  %v11 = call i64 @llvm.smax.i64(i64 %v10, i64 0)
  %v12 = call i64 @llvm.smin.i64(i64 %v11, i64 3)
  %v13 = add i64 %v10, 6
  %v14 = call i64 @llvm.smax.i64(i64 %v13, i64 0)
  %v15 = call i64 @llvm.smin.i64(i64 %v14, i64 3)
  %v16 = load <8 x float>, ptr %a3, align 4
  br label %v17.before
v17.before:
  br label %v17
v17:
  %v18 = phi i64 [ %v12, %v17.before ], [ %v64, %v17.next ]
  %v19 = phi <8 x float> [ %v16, %v17.before ], [ %v42, %v17.next ]
  %v20 = phi <8 x float> [ %v16, %v17.before ], [ %v47, %v17.next ]
  %v21 = phi <8 x float> [ %v16, %v17.before ], [ %v52, %v17.next ]
  %v22 = phi <8 x float> [ %v16, %v17.before ], [ %v57, %v17.next ]
  %v23 = phi <8 x float> [ %v16, %v17.before ], [ %v62, %v17.next ]
  %v24 = phi <8 x float> [ %v16, %v17.before ], [ %v63, %v17.next ]
  %v64.more = icmp slt i64 %v18, %v15
  br i1 %v64.more, label %v17.turn, label %v17.after
v17.turn:
  %v25 = mul i64 %v18, 192
  %v26 = getelementptr i8, ptr %v8, i64 %v25
  %v27 = call ptr asm "", "=r,0"(ptr %v26)
  %v28 = mul i64 %v18, 96
  %v29 = getelementptr i8, ptr %a2, i64 %v28
  %v30 = call ptr asm "", "=r,0"(ptr %v29)
  %v31 = getelementptr i8, ptr %v27, i64 32
  %v32 = load <8 x float>, ptr %v31, align 4
  %v33 = getelementptr i8, ptr %v30, i64 32
  %v34 = load <8 x float>, ptr %v33, align 4
  %v35 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v32, <8 x float> %v34, <8 x float> %v19)
  %v36 = load <8 x float>, ptr %v30, align 4
  %v37 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v32, <8 x float> %v36, <8 x float> %v20)
  %v38 = getelementptr i8, ptr %v27, i64 64
  %v39 = load <8 x float>, ptr %v38, align 4
  %v40 = getelementptr i8, ptr %v30, i64 64
  %v41 = load <8 x float>, ptr %v40, align 4
  %v42 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v39, <8 x float> %v41, <8 x float> %v35)
  %v43 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v39, <8 x float> %v34, <8 x float> %v37)
  %v44 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v39, <8 x float> %v36, <8 x float> %v21)
  %v45 = getelementptr i8, ptr %v27, i64 96
  %v46 = load <8 x float>, ptr %v45, align 4
  %v47 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v46, <8 x float> %v41, <8 x float> %v43)
  %v48 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v46, <8 x float> %v34, <8 x float> %v44)
  %v49 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v46, <8 x float> %v36, <8 x float> %v22)
  %v50 = getelementptr i8, ptr %v27, i64 128
  %v51 = load <8 x float>, ptr %v50, align 4
  %v52 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v51, <8 x float> %v41, <8 x float> %v48)
  %v53 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v51, <8 x float> %v34, <8 x float> %v49)
  %v54 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v51, <8 x float> %v36, <8 x float> %v23)
  %v55 = getelementptr i8, ptr %v27, i64 160
  %v56 = load <8 x float>, ptr %v55, align 4
  %v57 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v56, <8 x float> %v41, <8 x float> %v53)
  %v58 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v56, <8 x float> %v34, <8 x float> %v54)
  %v59 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v56, <8 x float> %v36, <8 x float> %v24)
  %v60 = getelementptr i8, ptr %v27, i64 192
  %v61 = load <8 x float>, ptr %v60, align 4
  %v62 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v61, <8 x float> %v41, <8 x float> %v58)
  %v63 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v61, <8 x float> %v34, <8 x float> %v59)
  br label %v17.next
v17.next:
  %v64 = add i64 %v18, 1
  br label %v17
v17.after:
  %v65 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v19
  %v66 = select <8 x i1> %v65, <8 x float> splat (float 0x0000000000000000), <8 x float> %v19
  %v67 = mul i64 %v9, 8
  %v68 = getelementptr float, ptr %a0, i64 %v67
  store <8 x float> %v66, ptr %v68, align 4
  %v69 = add i64 %v9, 1
  %v70 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v20
  %v71 = select <8 x i1> %v70, <8 x float> splat (float 0x0000000000000000), <8 x float> %v20
  %v72 = mul i64 %v69, 8
  %v73 = getelementptr float, ptr %a0, i64 %v72
  store <8 x float> %v71, ptr %v73, align 4
  %v74 = add i64 %v9, 2
  %v75 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v21
  %v76 = select <8 x i1> %v75, <8 x float> splat (float 0x0000000000000000), <8 x float> %v21
  %v77 = mul i64 %v74, 8
  %v78 = getelementptr float, ptr %a0, i64 %v77
  store <8 x float> %v76, ptr %v78, align 4
  %v79 = add i64 %v9, 3
  %v80 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v22
  %v81 = select <8 x i1> %v80, <8 x float> splat (float 0x0000000000000000), <8 x float> %v22
  %v82 = mul i64 %v79, 8
  %v83 = getelementptr float, ptr %a0, i64 %v82
  store <8 x float> %v81, ptr %v83, align 4
  %v84 = add i64 %v9, 4
  %v85 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v23
  %v86 = select <8 x i1> %v85, <8 x float> splat (float 0x0000000000000000), <8 x float> %v23
  %v87 = mul i64 %v84, 8
  %v88 = getelementptr float, ptr %a0, i64 %v87
  store <8 x float> %v86, ptr %v88, align 4
  %v89 = add i64 %v9, 5
  %v90 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v24
  %v91 = select <8 x i1> %v90, <8 x float> splat (float 0x0000000000000000), <8 x float> %v24
  %v92 = mul i64 %v89, 8
  %v93 = getelementptr float, ptr %a0, i64 %v92
  store <8 x float> %v91, ptr %v93, align 4
  %v94 = add i64 %v4, 1
  %v95 = icmp eq i64 %v94, 6
  %v96 = select i1 %v95, i64 0, i64 %v94
  %v97 = zext i1 %v95 to i64
  br label %v2.next
v2.next:
  %v98 = add i64 %v3, 1
  br label %v2
v2.after:
  ret void
}

