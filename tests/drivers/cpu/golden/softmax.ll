; rows of 21, 8 elements at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
define void @k28b0e31b966807eb(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v54 = bitcast <8 x float> splat (float 0x4168000000000000) to <8 x i32>
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v160, %v1.next ]
  %v3 = phi i64 [ %begin, %v1.before ], [ %v158, %v1.next ]
  %v160.more = icmp slt i64 %v2, %end
  br i1 %v160.more, label %v1.turn, label %v1.after
v1.turn:
  %v4 = icmp eq i64 %v2, %begin
  %v5 = mul i64 %v3, 21
  %v6 = getelementptr float, ptr %a1, i64 %v5
  %v7 = load <8 x float>, ptr %v6, align 4
  %v8 = fcmp ogt <8 x float> %v7, splat (float 0xFFF0000000000000)
  %v9 = select <8 x i1> %v8, <8 x float> %v7, <8 x float> splat (float 0xFFF0000000000000)
  %v10 = fcmp uno <8 x float> %v7, %v7
  %v11 = select <8 x i1> %v10, <8 x float> %v7, <8 x float> %v9
  %v12 = add i64 %v5, 8
  %v13 = getelementptr float, ptr %a1, i64 %v12
  %v14 = load <8 x float>, ptr %v13, align 4
  %v15 = fcmp ogt <8 x float> %v14, %v11
  %v16 = select <8 x i1> %v15, <8 x float> %v14, <8 x float> %v11
  %v17 = fcmp uno <8 x float> %v14, %v14
  %v18 = select <8 x i1> %v17, <8 x float> %v14, <8 x float> %v16
  %v19 = add i64 %v5, 13
  %v20 = getelementptr float, ptr %a1, i64 %v19
  %v21 = load <8 x float>, ptr %v20, align 4
  %v22 = select <8 x i1> <i1 false, i1 false, i1 false, i1 true, i1 true, i1 true, i1 true, i1 true>, <8 x float> %v21, <8 x float> splat (float 0xFFF0000000000000)
  %v23 = fcmp ogt <8 x float> %v22, %v18
  %v24 = select <8 x i1> %v23, <8 x float> %v22, <8 x float> %v18
  %v25 = fcmp uno <8 x float> %v22, %v22
  %v26 = select <8 x i1> %v25, <8 x float> %v22, <8 x float> %v24
  %v27 = shufflevector <8 x float> %v26, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v28 = shufflevector <8 x float> %v26, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v29 = fcmp ogt <4 x float> %v28, %v27
  %v30 = select <4 x i1> %v29, <4 x float> %v28, <4 x float> %v27
  %v31 = fcmp uno <4 x float> %v28, %v28
  %v32 = select <4 x i1> %v31, <4 x float> %v28, <4 x float> %v30
  %v33 = shufflevector <4 x float> %v32, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v34 = shufflevector <4 x float> %v32, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v35 = fcmp ogt <2 x float> %v34, %v33
  %v36 = select <2 x i1> %v35, <2 x float> %v34, <2 x float> %v33
  %v37 = fcmp uno <2 x float> %v34, %v34
  %v38 = select <2 x i1> %v37, <2 x float> %v34, <2 x float> %v36
  %v39 = extractelement <2 x float> %v38, i64 0
  %v40 = extractelement <2 x float> %v38, i64 1
  %v41 = fcmp ogt float %v40, %v39
  %v42 = select i1 %v41, float %v40, float %v39
  %v43 = fcmp uno float %v40, %v40
  %v44 = select i1 %v43, float %v40, float %v42
  %v45 = insertelement <8 x float> poison, float %v44, i64 0
  %v46 = shufflevector <8 x float> %v45, <8 x float> poison, <8 x i32> zeroinitializer
  %v47 = fsub <8 x float> %v7, %v46
  %v48 = fcmp olt <8 x float> %v47, splat (float 0xC05A000000000000)
  %v49 = select <8 x i1> %v48, <8 x float> splat (float 0x0000000000000000), <8 x float> %v47
  %v50 = fcmp ogt <8 x float> %v49, splat (float 0x4056400000000000)
  %v51 = select <8 x i1> %v50, <8 x float> splat (float 0x4056400000000000), <8 x float> %v49
  %v52 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v51, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v53 = bitcast <8 x float> %v52 to <8 x i32>
  %v55 = sub <8 x i32> %v53, %v54
  %v56 = fsub <8 x float> %v52, splat (float 0x4168000000000000)
  %v57 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v56, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v51)
  %v58 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v56, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v57)
  %v59 = ashr <8 x i32> %v55, splat (i32 1)
  %v60 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v58, <8 x float> splat (float 0x3F81229B40000000))
  %v61 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v60, <8 x float> %v58, <8 x float> splat (float 0x3FA5556780000000))
  %v62 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v61, <8 x float> %v58, <8 x float> splat (float 0x3FC5554AE0000000))
  %v63 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v62, <8 x float> %v58, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v64 = fmul <8 x float> %v58, %v58
  %v65 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v64, <8 x float> %v63, <8 x float> %v58)
  %v66 = fadd <8 x float> %v65, splat (float 0x3FF0000000000000)
  %v67 = add <8 x i32> %v59, splat (i32 127)
  %v68 = shl <8 x i32> %v67, splat (i32 23)
  %v69 = bitcast <8 x i32> %v68 to <8 x float>
  %v70 = fmul <8 x float> %v66, %v69
  %v71 = sub <8 x i32> %v55, %v59
  %v72 = add <8 x i32> %v71, splat (i32 127)
  %v73 = shl <8 x i32> %v72, splat (i32 23)
  %v74 = bitcast <8 x i32> %v73 to <8 x float>
  %v75 = fmul <8 x float> %v70, %v74
  %v76 = select <8 x i1> %v48, <8 x float> splat (float 0x0000000000000000), <8 x float> %v75
  %v77 = fadd <8 x float> splat (float 0x0000000000000000), %v76
  %v78 = fsub <8 x float> %v14, %v46
  %v79 = fcmp olt <8 x float> %v78, splat (float 0xC05A000000000000)
  %v80 = select <8 x i1> %v79, <8 x float> splat (float 0x0000000000000000), <8 x float> %v78
  %v81 = fcmp ogt <8 x float> %v80, splat (float 0x4056400000000000)
  %v82 = select <8 x i1> %v81, <8 x float> splat (float 0x4056400000000000), <8 x float> %v80
  %v83 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v82, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v84 = bitcast <8 x float> %v83 to <8 x i32>
  %v85 = sub <8 x i32> %v84, %v54
  %v86 = fsub <8 x float> %v83, splat (float 0x4168000000000000)
  %v87 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v86, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v82)
  %v88 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v86, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v87)
  %v89 = ashr <8 x i32> %v85, splat (i32 1)
  %v90 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v88, <8 x float> splat (float 0x3F81229B40000000))
  %v91 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v90, <8 x float> %v88, <8 x float> splat (float 0x3FA5556780000000))
  %v92 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v91, <8 x float> %v88, <8 x float> splat (float 0x3FC5554AE0000000))
  %v93 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v92, <8 x float> %v88, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v94 = fmul <8 x float> %v88, %v88
  %v95 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v94, <8 x float> %v93, <8 x float> %v88)
  %v96 = fadd <8 x float> %v95, splat (float 0x3FF0000000000000)
  %v97 = add <8 x i32> %v89, splat (i32 127)
  %v98 = shl <8 x i32> %v97, splat (i32 23)
  %v99 = bitcast <8 x i32> %v98 to <8 x float>
  %v100 = fmul <8 x float> %v96, %v99
  %v101 = sub <8 x i32> %v85, %v89
  %v102 = add <8 x i32> %v101, splat (i32 127)
  %v103 = shl <8 x i32> %v102, splat (i32 23)
  %v104 = bitcast <8 x i32> %v103 to <8 x float>
  %v105 = fmul <8 x float> %v100, %v104
  %v106 = select <8 x i1> %v79, <8 x float> splat (float 0x0000000000000000), <8 x float> %v105
  %v107 = fadd <8 x float> %v77, %v106
  %v108 = fsub <8 x float> %v21, %v46
  %v109 = fcmp olt <8 x float> %v108, splat (float 0xC05A000000000000)
  %v110 = select <8 x i1> %v109, <8 x float> splat (float 0x0000000000000000), <8 x float> %v108
  %v111 = fcmp ogt <8 x float> %v110, splat (float 0x4056400000000000)
  %v112 = select <8 x i1> %v111, <8 x float> splat (float 0x4056400000000000), <8 x float> %v110
  %v113 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v112, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v114 = bitcast <8 x float> %v113 to <8 x i32>
  %v115 = sub <8 x i32> %v114, %v54
  %v116 = fsub <8 x float> %v113, splat (float 0x4168000000000000)
  %v117 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v116, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v112)
  %v118 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v116, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v117)
  %v119 = ashr <8 x i32> %v115, splat (i32 1)
  %v120 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v118, <8 x float> splat (float 0x3F81229B40000000))
  %v121 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v120, <8 x float> %v118, <8 x float> splat (float 0x3FA5556780000000))
  %v122 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v121, <8 x float> %v118, <8 x float> splat (float 0x3FC5554AE0000000))
  %v123 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v122, <8 x float> %v118, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v124 = fmul <8 x float> %v118, %v118
  %v125 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v124, <8 x float> %v123, <8 x float> %v118)
  %v126 = fadd <8 x float> %v125, splat (float 0x3FF0000000000000)
  %v127 = add <8 x i32> %v119, splat (i32 127)
  %v128 = shl <8 x i32> %v127, splat (i32 23)
  %v129 = bitcast <8 x i32> %v128 to <8 x float>
  %v130 = fmul <8 x float> %v126, %v129
  %v131 = sub <8 x i32> %v115, %v119
  %v132 = add <8 x i32> %v131, splat (i32 127)
  %v133 = shl <8 x i32> %v132, splat (i32 23)
  %v134 = bitcast <8 x i32> %v133 to <8 x float>
  %v135 = fmul <8 x float> %v130, %v134
  %v136 = select <8 x i1> %v109, <8 x float> splat (float 0x0000000000000000), <8 x float> %v135
  %v137 = select <8 x i1> <i1 false, i1 false, i1 false, i1 true, i1 true, i1 true, i1 true, i1 true>, <8 x float> %v136, <8 x float> splat (float 0x0000000000000000)
  %v138 = fadd <8 x float> %v107, %v137
  %v139 = shufflevector <8 x float> %v138, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v140 = shufflevector <8 x float> %v138, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v141 = fadd <4 x float> %v139, %v140
  %v142 = shufflevector <4 x float> %v141, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v143 = shufflevector <4 x float> %v141, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v144 = fadd <2 x float> %v142, %v143
  %v145 = extractelement <2 x float> %v144, i64 0
  %v146 = extractelement <2 x float> %v144, i64 1
  %v147 = fadd float %v145, %v146
  %v148 = insertelement <8 x float> poison, float %v147, i64 0
  %v149 = shufflevector <8 x float> %v148, <8 x float> poison, <8 x i32> zeroinitializer
  %v150 = fdiv <8 x float> %v76, %v149
  %v151 = getelementptr float, ptr %a0, i64 %v5
  store <8 x float> %v150, ptr %v151, align 4
  %v152 = fdiv <8 x float> %v106, %v149
  %v153 = getelementptr float, ptr %a0, i64 %v12
  store <8 x float> %v152, ptr %v153, align 4
  %v154 = fdiv <8 x float> %v136, %v149
  %v155 = getelementptr float, ptr %a0, i64 %v19
  store <8 x float> %v154, ptr %v155, align 4
  %v156 = add i64 %v3, 1
  %v157 = icmp eq i64 %v156, 3
  %v158 = select i1 %v157, i64 0, i64 %v156
  %v159 = zext i1 %v157 to i64
  br label %v1.next
v1.next:
  %v160 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

