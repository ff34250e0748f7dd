; rows of 21, 8 elements at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
define void @k31c2918f3426f453(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v42 = bitcast <8 x float> splat (float 0x4168000000000000) to <8 x i32>
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v148, %v1.next ]
  %v3 = phi i64 [ %begin, %v1.before ], [ %v146, %v1.next ]
  %v148.more = icmp slt i64 %v2, %end
  br i1 %v148.more, label %v1.turn, label %v1.after
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
  %v36 = fcmp olt <8 x float> %v35, splat (float 0xC053000000000000)
  %v37 = select <8 x i1> %v36, <8 x float> splat (float 0x0000000000000000), <8 x float> %v35
  %v38 = fcmp ogt <8 x float> %v37, splat (float 0x4056400000000000)
  %v39 = select <8 x i1> %v38, <8 x float> splat (float 0x4056400000000000), <8 x float> %v37
  %v40 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v39, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v41 = bitcast <8 x float> %v40 to <8 x i32>
  %v43 = sub <8 x i32> %v41, %v42
  %v44 = fsub <8 x float> %v40, splat (float 0x4168000000000000)
  %v45 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v44, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v39)
  %v46 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v44, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v45)
  %v47 = ashr <8 x i32> %v43, splat (i32 1)
  %v48 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v46, <8 x float> splat (float 0x3F81229B40000000))
  %v49 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v48, <8 x float> %v46, <8 x float> splat (float 0x3FA5556780000000))
  %v50 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v49, <8 x float> %v46, <8 x float> splat (float 0x3FC5554AE0000000))
  %v51 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v50, <8 x float> %v46, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v52 = fmul <8 x float> %v46, %v46
  %v53 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v52, <8 x float> %v51, <8 x float> %v46)
  %v54 = fadd <8 x float> %v53, splat (float 0x3FF0000000000000)
  %v55 = add <8 x i32> %v47, splat (i32 127)
  %v56 = shl <8 x i32> %v55, splat (i32 23)
  %v57 = bitcast <8 x i32> %v56 to <8 x float>
  %v58 = fmul <8 x float> %v54, %v57
  %v59 = sub <8 x i32> %v43, %v47
  %v60 = add <8 x i32> %v59, splat (i32 127)
  %v61 = shl <8 x i32> %v60, splat (i32 23)
  %v62 = bitcast <8 x i32> %v61 to <8 x float>
  %v63 = fmul <8 x float> %v58, %v62
  %v64 = select <8 x i1> %v36, <8 x float> splat (float 0x0000000000000000), <8 x float> %v63
  %v65 = fadd <8 x float> splat (float 0x0000000000000000), %v64
  %v66 = fsub <8 x float> %v12, %v34
  %v67 = fcmp olt <8 x float> %v66, splat (float 0xC053000000000000)
  %v68 = select <8 x i1> %v67, <8 x float> splat (float 0x0000000000000000), <8 x float> %v66
  %v69 = fcmp ogt <8 x float> %v68, splat (float 0x4056400000000000)
  %v70 = select <8 x i1> %v69, <8 x float> splat (float 0x4056400000000000), <8 x float> %v68
  %v71 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v70, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v72 = bitcast <8 x float> %v71 to <8 x i32>
  %v73 = sub <8 x i32> %v72, %v42
  %v74 = fsub <8 x float> %v71, splat (float 0x4168000000000000)
  %v75 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v74, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v70)
  %v76 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v74, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v75)
  %v77 = ashr <8 x i32> %v73, splat (i32 1)
  %v78 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v76, <8 x float> splat (float 0x3F81229B40000000))
  %v79 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v78, <8 x float> %v76, <8 x float> splat (float 0x3FA5556780000000))
  %v80 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v79, <8 x float> %v76, <8 x float> splat (float 0x3FC5554AE0000000))
  %v81 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v80, <8 x float> %v76, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v82 = fmul <8 x float> %v76, %v76
  %v83 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v82, <8 x float> %v81, <8 x float> %v76)
  %v84 = fadd <8 x float> %v83, splat (float 0x3FF0000000000000)
  %v85 = add <8 x i32> %v77, splat (i32 127)
  %v86 = shl <8 x i32> %v85, splat (i32 23)
  %v87 = bitcast <8 x i32> %v86 to <8 x float>
  %v88 = fmul <8 x float> %v84, %v87
  %v89 = sub <8 x i32> %v73, %v77
  %v90 = add <8 x i32> %v89, splat (i32 127)
  %v91 = shl <8 x i32> %v90, splat (i32 23)
  %v92 = bitcast <8 x i32> %v91 to <8 x float>
  %v93 = fmul <8 x float> %v88, %v92
  %v94 = select <8 x i1> %v67, <8 x float> splat (float 0x0000000000000000), <8 x float> %v93
  %v95 = fadd <8 x float> %v65, %v94
  %v96 = fsub <8 x float> %v17, %v34
  %v97 = fcmp olt <8 x float> %v96, splat (float 0xC053000000000000)
  %v98 = select <8 x i1> %v97, <8 x float> splat (float 0x0000000000000000), <8 x float> %v96
  %v99 = fcmp ogt <8 x float> %v98, splat (float 0x4056400000000000)
  %v100 = select <8 x i1> %v99, <8 x float> splat (float 0x4056400000000000), <8 x float> %v98
  %v101 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v100, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v102 = bitcast <8 x float> %v101 to <8 x i32>
  %v103 = sub <8 x i32> %v102, %v42
  %v104 = fsub <8 x float> %v101, splat (float 0x4168000000000000)
  %v105 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v104, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v100)
  %v106 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v104, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v105)
  %v107 = ashr <8 x i32> %v103, splat (i32 1)
  %v108 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v106, <8 x float> splat (float 0x3F81229B40000000))
  %v109 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v108, <8 x float> %v106, <8 x float> splat (float 0x3FA5556780000000))
  %v110 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v109, <8 x float> %v106, <8 x float> splat (float 0x3FC5554AE0000000))
  %v111 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v110, <8 x float> %v106, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v112 = fmul <8 x float> %v106, %v106
  %v113 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v112, <8 x float> %v111, <8 x float> %v106)
  %v114 = fadd <8 x float> %v113, splat (float 0x3FF0000000000000)
  %v115 = add <8 x i32> %v107, splat (i32 127)
  %v116 = shl <8 x i32> %v115, splat (i32 23)
  %v117 = bitcast <8 x i32> %v116 to <8 x float>
  %v118 = fmul <8 x float> %v114, %v117
  %v119 = sub <8 x i32> %v103, %v107
  %v120 = add <8 x i32> %v119, splat (i32 127)
  %v121 = shl <8 x i32> %v120, splat (i32 23)
  %v122 = bitcast <8 x i32> %v121 to <8 x float>
  %v123 = fmul <8 x float> %v118, %v122
  %v124 = select <8 x i1> %v97, <8 x float> splat (float 0x0000000000000000), <8 x float> %v123
  %v125 = select <8 x i1> <i1 false, i1 false, i1 false, i1 true, i1 true, i1 true, i1 true, i1 true>, <8 x float> %v124, <8 x float> splat (float 0x0000000000000000)
  %v126 = fadd <8 x float> %v95, %v125
  %v127 = shufflevector <8 x float> %v126, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v128 = shufflevector <8 x float> %v126, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v129 = fadd <4 x float> %v127, %v128
  %v130 = shufflevector <4 x float> %v129, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v131 = shufflevector <4 x float> %v129, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v132 = fadd <2 x float> %v130, %v131
  %v133 = extractelement <2 x float> %v132, i64 0
  %v134 = extractelement <2 x float> %v132, i64 1
  %v135 = fadd float %v133, %v134
  %v136 = insertelement <8 x float> poison, float %v135, i64 0
  %v137 = shufflevector <8 x float> %v136, <8 x float> poison, <8 x i32> zeroinitializer
  %v138 = fdiv <8 x float> %v64, %v137
  %v139 = getelementptr float, ptr %a0, i64 %v5
  store <8 x float> %v138, ptr %v139, align 4
  %v140 = fdiv <8 x float> %v94, %v137
  %v141 = getelementptr float, ptr %a0, i64 %v10
  store <8 x float> %v140, ptr %v141, align 4
  %v142 = fdiv <8 x float> %v124, %v137
  %v143 = getelementptr float, ptr %a0, i64 %v15
  store <8 x float> %v142, ptr %v143, align 4
  %v144 = add i64 %v3, 1
  %v145 = icmp eq i64 %v144, 3
  %v146 = select i1 %v145, i64 0, i64 %v144
  %v147 = zext i1 %v145 to i64
  br label %v1.next
v1.next:
  %v148 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

