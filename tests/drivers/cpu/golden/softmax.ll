; rows of 21, 8 elements at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
define void @k7ba689c760a84de9(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v111, %v1.next ]
  %v3 = phi i64 [ %begin, %v1.before ], [ %v109, %v1.next ]
  %v111.more = icmp slt i64 %v2, %end
  br i1 %v111.more, label %v1.turn, label %v1.after
v1.turn:
  %v4 = sub i64 %v2, %begin
  %v5 = mul i64 %v3, 21
  %v6 = getelementptr float, ptr %a1, i64 %v5
  %v7 = load <8 x float>, ptr %v6, align 4
  %v8 = fcmp ogt <8 x float> %v7, splat (float 0xFFF0000000000000)
  %v9 = select <8 x i1> %v8, <8 x float> %v7, <8 x float> splat (float 0xFFF0000000000000)
  %v10 = add i64 %v5, 8
  %v11 = getelementptr float, ptr %a1, i64 %v10
  %v12 = load <8 x float>, ptr %v11, align 4
  %v13 = fcmp ogt <8 x float> %v12, %v9
  %v14 = select <8 x i1> %v13, <8 x float> %v12, <8 x float> %v9
  %v15 = add i64 %v5, 13
  %v16 = getelementptr float, ptr %a1, i64 %v15
  %v17 = load <8 x float>, ptr %v16, align 4
  %v18 = select <8 x i1> <i1 false, i1 false, i1 false, i1 true, i1 true, i1 true, i1 true, i1 true>, <8 x float> %v17, <8 x float> splat (float 0xFFF0000000000000)
  %v19 = fcmp ogt <8 x float> %v18, %v14
  %v20 = select <8 x i1> %v19, <8 x float> %v18, <8 x float> %v14
  %v21 = shufflevector <8 x float> %v20, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v22 = shufflevector <8 x float> %v20, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v23 = fcmp ogt <4 x float> %v22, %v21
  %v24 = select <4 x i1> %v23, <4 x float> %v22, <4 x float> %v21
  %v25 = shufflevector <4 x float> %v24, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v26 = shufflevector <4 x float> %v24, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v27 = fcmp ogt <2 x float> %v26, %v25
  %v28 = select <2 x i1> %v27, <2 x float> %v26, <2 x float> %v25
  %v29 = extractelement <2 x float> %v28, i64 0
  %v30 = extractelement <2 x float> %v28, i64 1
  %v31 = fcmp ogt float %v30, %v29
  %v32 = select i1 %v31, float %v30, float %v29
  %v33 = insertelement <8 x float> poison, float %v32, i64 0
  %v34 = shufflevector <8 x float> %v33, <8 x float> poison, <8 x i32> zeroinitializer
  %v35 = fsub <8 x float> %v7, %v34
  %v36 = fcmp uge <8 x float> %v35, splat (float 0xC053000000000000)
  %v37 = fcmp olt <8 x float> %v35, splat (float 0xC053000000000000)
  %v38 = select <8 x i1> %v37, <8 x float> splat (float 0xC053000000000000), <8 x float> %v35
  %v39 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v38, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000FE0000000))
  %v40 = bitcast <8 x float> %v39 to <8 x i32>
  %v41 = shl <8 x i32> %v40, splat (i32 23)
  %v42 = fsub <8 x float> %v39, splat (float 0x4168000FE0000000)
  %v43 = bitcast <8 x i32> %v41 to <8 x float>
  %v44 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v42, <8 x float> splat (float 0xBFE62E4300000000), <8 x float> %v38)
  %v45 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F80FA64A0000000), <8 x float> %v44, <8 x float> splat (float 0x3FA573CEA0000000))
  %v46 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v45, <8 x float> %v44, <8 x float> splat (float 0x3FC555A780000000))
  %v47 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v46, <8 x float> %v44, <8 x float> splat (float 0x3FDFFFDC00000000))
  %v48 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v47, <8 x float> %v44, <8 x float> splat (float 0x3FEFFFFF60000000))
  %v49 = fmul <8 x float> %v44, %v43
  %v50 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v49, <8 x float> %v48, <8 x float> %v43)
  %v51 = select <8 x i1> %v36, <8 x float> %v50, <8 x float> splat (float 0x0000000000000000)
  %v52 = fadd <8 x float> splat (float 0x0000000000000000), %v51
  %v53 = fsub <8 x float> %v12, %v34
  %v54 = fcmp uge <8 x float> %v53, splat (float 0xC053000000000000)
  %v55 = fcmp olt <8 x float> %v53, splat (float 0xC053000000000000)
  %v56 = select <8 x i1> %v55, <8 x float> splat (float 0xC053000000000000), <8 x float> %v53
  %v57 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v56, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000FE0000000))
  %v58 = bitcast <8 x float> %v57 to <8 x i32>
  %v59 = shl <8 x i32> %v58, splat (i32 23)
  %v60 = fsub <8 x float> %v57, splat (float 0x4168000FE0000000)
  %v61 = bitcast <8 x i32> %v59 to <8 x float>
  %v62 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v60, <8 x float> splat (float 0xBFE62E4300000000), <8 x float> %v56)
  %v63 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F80FA64A0000000), <8 x float> %v62, <8 x float> splat (float 0x3FA573CEA0000000))
  %v64 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v63, <8 x float> %v62, <8 x float> splat (float 0x3FC555A780000000))
  %v65 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v64, <8 x float> %v62, <8 x float> splat (float 0x3FDFFFDC00000000))
  %v66 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v65, <8 x float> %v62, <8 x float> splat (float 0x3FEFFFFF60000000))
  %v67 = fmul <8 x float> %v62, %v61
  %v68 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v67, <8 x float> %v66, <8 x float> %v61)
  %v69 = select <8 x i1> %v54, <8 x float> %v68, <8 x float> splat (float 0x0000000000000000)
  %v70 = fadd <8 x float> %v52, %v69
  %v71 = fsub <8 x float> %v17, %v34
  %v72 = fcmp uge <8 x float> %v71, splat (float 0xC053000000000000)
  %v73 = fcmp olt <8 x float> %v71, splat (float 0xC053000000000000)
  %v74 = select <8 x i1> %v73, <8 x float> splat (float 0xC053000000000000), <8 x float> %v71
  %v75 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v74, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000FE0000000))
  %v76 = bitcast <8 x float> %v75 to <8 x i32>
  %v77 = shl <8 x i32> %v76, splat (i32 23)
  %v78 = fsub <8 x float> %v75, splat (float 0x4168000FE0000000)
  %v79 = bitcast <8 x i32> %v77 to <8 x float>
  %v80 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v78, <8 x float> splat (float 0xBFE62E4300000000), <8 x float> %v74)
  %v81 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F80FA64A0000000), <8 x float> %v80, <8 x float> splat (float 0x3FA573CEA0000000))
  %v82 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v81, <8 x float> %v80, <8 x float> splat (float 0x3FC555A780000000))
  %v83 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v82, <8 x float> %v80, <8 x float> splat (float 0x3FDFFFDC00000000))
  %v84 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v83, <8 x float> %v80, <8 x float> splat (float 0x3FEFFFFF60000000))
  %v85 = fmul <8 x float> %v80, %v79
  %v86 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v85, <8 x float> %v84, <8 x float> %v79)
  %v87 = select <8 x i1> %v72, <8 x float> %v86, <8 x float> splat (float 0x0000000000000000)
  %v88 = select <8 x i1> <i1 false, i1 false, i1 false, i1 true, i1 true, i1 true, i1 true, i1 true>, <8 x float> %v87, <8 x float> splat (float 0x0000000000000000)
  %v89 = fadd <8 x float> %v70, %v88
  %v90 = shufflevector <8 x float> %v89, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v91 = shufflevector <8 x float> %v89, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v92 = fadd <4 x float> %v90, %v91
  %v93 = shufflevector <4 x float> %v92, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v94 = shufflevector <4 x float> %v92, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v95 = fadd <2 x float> %v93, %v94
  %v96 = extractelement <2 x float> %v95, i64 0
  %v97 = extractelement <2 x float> %v95, i64 1
  %v98 = fadd float %v96, %v97
  %v99 = insertelement <8 x float> poison, float %v98, i64 0
  %v100 = shufflevector <8 x float> %v99, <8 x float> poison, <8 x i32> zeroinitializer
  %v101 = fdiv <8 x float> %v51, %v100
  %v102 = getelementptr float, ptr %a0, i64 %v5
  store <8 x float> %v101, ptr %v102, align 4
  %v103 = fdiv <8 x float> %v69, %v100
  %v104 = getelementptr float, ptr %a0, i64 %v10
  store <8 x float> %v103, ptr %v104, align 4
  %v105 = fdiv <8 x float> %v87, %v100
  %v106 = getelementptr float, ptr %a0, i64 %v15
  store <8 x float> %v105, ptr %v106, align 4
  %v107 = add i64 %v3, 1
  %v108 = icmp eq i64 %v107, 3
  %v109 = select i1 %v108, i64 0, i64 %v107
  %v110 = zext i1 %v108 to i64
  br label %v1.next
v1.next:
  %v111 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

