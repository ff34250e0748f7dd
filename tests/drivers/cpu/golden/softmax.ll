; rows of 21, 8 elements at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
define void @kadd582562bee33ef(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v56 = bitcast <8 x float> splat (float 0x4168000000000000) to <8 x i32>
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v166, %v1.next ]
  %v3 = phi i64 [ %begin, %v1.before ], [ %v164, %v1.next ]
  %v166.more = icmp slt i64 %v2, %end
  br i1 %v166.more, label %v1.turn, label %v1.after
v1.turn:
  %v4 = sub i64 %v2, %begin
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
  %v48 = fcmp olt <8 x float> %v47, splat (float 0xC053000000000000)
  %v49 = select <8 x i1> %v48, <8 x float> splat (float 0xC069000000000000), <8 x float> %v47
  %v50 = fcmp olt <8 x float> %v49, splat (float 0xC05A000000000000)
  %v51 = select <8 x i1> %v50, <8 x float> splat (float 0x0000000000000000), <8 x float> %v49
  %v52 = fcmp ogt <8 x float> %v51, splat (float 0x4056400000000000)
  %v53 = select <8 x i1> %v52, <8 x float> splat (float 0x4056400000000000), <8 x float> %v51
  %v54 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v53, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v55 = bitcast <8 x float> %v54 to <8 x i32>
  %v57 = sub <8 x i32> %v55, %v56
  %v58 = fsub <8 x float> %v54, splat (float 0x4168000000000000)
  %v59 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v58, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v53)
  %v60 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v58, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v59)
  %v61 = ashr <8 x i32> %v57, splat (i32 1)
  %v62 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v60, <8 x float> splat (float 0x3F81229B40000000))
  %v63 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v62, <8 x float> %v60, <8 x float> splat (float 0x3FA5556780000000))
  %v64 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v63, <8 x float> %v60, <8 x float> splat (float 0x3FC5554AE0000000))
  %v65 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v64, <8 x float> %v60, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v66 = fmul <8 x float> %v60, %v60
  %v67 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v66, <8 x float> %v65, <8 x float> %v60)
  %v68 = fadd <8 x float> %v67, splat (float 0x3FF0000000000000)
  %v69 = add <8 x i32> %v61, splat (i32 127)
  %v70 = shl <8 x i32> %v69, splat (i32 23)
  %v71 = bitcast <8 x i32> %v70 to <8 x float>
  %v72 = fmul <8 x float> %v68, %v71
  %v73 = sub <8 x i32> %v57, %v61
  %v74 = add <8 x i32> %v73, splat (i32 127)
  %v75 = shl <8 x i32> %v74, splat (i32 23)
  %v76 = bitcast <8 x i32> %v75 to <8 x float>
  %v77 = fmul <8 x float> %v72, %v76
  %v78 = select <8 x i1> %v50, <8 x float> splat (float 0x0000000000000000), <8 x float> %v77
  %v79 = fadd <8 x float> splat (float 0x0000000000000000), %v78
  %v80 = fsub <8 x float> %v14, %v46
  %v81 = fcmp olt <8 x float> %v80, splat (float 0xC053000000000000)
  %v82 = select <8 x i1> %v81, <8 x float> splat (float 0xC069000000000000), <8 x float> %v80
  %v83 = fcmp olt <8 x float> %v82, splat (float 0xC05A000000000000)
  %v84 = select <8 x i1> %v83, <8 x float> splat (float 0x0000000000000000), <8 x float> %v82
  %v85 = fcmp ogt <8 x float> %v84, splat (float 0x4056400000000000)
  %v86 = select <8 x i1> %v85, <8 x float> splat (float 0x4056400000000000), <8 x float> %v84
  %v87 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v86, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v88 = bitcast <8 x float> %v87 to <8 x i32>
  %v89 = sub <8 x i32> %v88, %v56
  %v90 = fsub <8 x float> %v87, splat (float 0x4168000000000000)
  %v91 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v90, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v86)
  %v92 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v90, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v91)
  %v93 = ashr <8 x i32> %v89, splat (i32 1)
  %v94 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v92, <8 x float> splat (float 0x3F81229B40000000))
  %v95 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v94, <8 x float> %v92, <8 x float> splat (float 0x3FA5556780000000))
  %v96 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v95, <8 x float> %v92, <8 x float> splat (float 0x3FC5554AE0000000))
  %v97 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v96, <8 x float> %v92, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v98 = fmul <8 x float> %v92, %v92
  %v99 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v98, <8 x float> %v97, <8 x float> %v92)
  %v100 = fadd <8 x float> %v99, splat (float 0x3FF0000000000000)
  %v101 = add <8 x i32> %v93, splat (i32 127)
  %v102 = shl <8 x i32> %v101, splat (i32 23)
  %v103 = bitcast <8 x i32> %v102 to <8 x float>
  %v104 = fmul <8 x float> %v100, %v103
  %v105 = sub <8 x i32> %v89, %v93
  %v106 = add <8 x i32> %v105, splat (i32 127)
  %v107 = shl <8 x i32> %v106, splat (i32 23)
  %v108 = bitcast <8 x i32> %v107 to <8 x float>
  %v109 = fmul <8 x float> %v104, %v108
  %v110 = select <8 x i1> %v83, <8 x float> splat (float 0x0000000000000000), <8 x float> %v109
  %v111 = fadd <8 x float> %v79, %v110
  %v112 = fsub <8 x float> %v21, %v46
  %v113 = fcmp olt <8 x float> %v112, splat (float 0xC053000000000000)
  %v114 = select <8 x i1> %v113, <8 x float> splat (float 0xC069000000000000), <8 x float> %v112
  %v115 = fcmp olt <8 x float> %v114, splat (float 0xC05A000000000000)
  %v116 = select <8 x i1> %v115, <8 x float> splat (float 0x0000000000000000), <8 x float> %v114
  %v117 = fcmp ogt <8 x float> %v116, splat (float 0x4056400000000000)
  %v118 = select <8 x i1> %v117, <8 x float> splat (float 0x4056400000000000), <8 x float> %v116
  %v119 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v118, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v120 = bitcast <8 x float> %v119 to <8 x i32>
  %v121 = sub <8 x i32> %v120, %v56
  %v122 = fsub <8 x float> %v119, splat (float 0x4168000000000000)
  %v123 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v122, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v118)
  %v124 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v122, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v123)
  %v125 = ashr <8 x i32> %v121, splat (i32 1)
  %v126 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v124, <8 x float> splat (float 0x3F81229B40000000))
  %v127 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v126, <8 x float> %v124, <8 x float> splat (float 0x3FA5556780000000))
  %v128 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v127, <8 x float> %v124, <8 x float> splat (float 0x3FC5554AE0000000))
  %v129 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v128, <8 x float> %v124, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v130 = fmul <8 x float> %v124, %v124
  %v131 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v130, <8 x float> %v129, <8 x float> %v124)
  %v132 = fadd <8 x float> %v131, splat (float 0x3FF0000000000000)
  %v133 = add <8 x i32> %v125, splat (i32 127)
  %v134 = shl <8 x i32> %v133, splat (i32 23)
  %v135 = bitcast <8 x i32> %v134 to <8 x float>
  %v136 = fmul <8 x float> %v132, %v135
  %v137 = sub <8 x i32> %v121, %v125
  %v138 = add <8 x i32> %v137, splat (i32 127)
  %v139 = shl <8 x i32> %v138, splat (i32 23)
  %v140 = bitcast <8 x i32> %v139 to <8 x float>
  %v141 = fmul <8 x float> %v136, %v140
  %v142 = select <8 x i1> %v115, <8 x float> splat (float 0x0000000000000000), <8 x float> %v141
  %v143 = select <8 x i1> <i1 false, i1 false, i1 false, i1 true, i1 true, i1 true, i1 true, i1 true>, <8 x float> %v142, <8 x float> splat (float 0x0000000000000000)
  %v144 = fadd <8 x float> %v111, %v143
  %v145 = shufflevector <8 x float> %v144, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v146 = shufflevector <8 x float> %v144, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v147 = fadd <4 x float> %v145, %v146
  %v148 = shufflevector <4 x float> %v147, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v149 = shufflevector <4 x float> %v147, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v150 = fadd <2 x float> %v148, %v149
  %v151 = extractelement <2 x float> %v150, i64 0
  %v152 = extractelement <2 x float> %v150, i64 1
  %v153 = fadd float %v151, %v152
  %v154 = insertelement <8 x float> poison, float %v153, i64 0
  %v155 = shufflevector <8 x float> %v154, <8 x float> poison, <8 x i32> zeroinitializer
  %v156 = fdiv <8 x float> %v78, %v155
  %v157 = getelementptr float, ptr %a0, i64 %v5
  store <8 x float> %v156, ptr %v157, align 4
  %v158 = fdiv <8 x float> %v110, %v155
  %v159 = getelementptr float, ptr %a0, i64 %v12
  store <8 x float> %v158, ptr %v159, align 4
  %v160 = fdiv <8 x float> %v142, %v155
  %v161 = getelementptr float, ptr %a0, i64 %v19
  store <8 x float> %v160, ptr %v161, align 4
  %v162 = add i64 %v3, 1
  %v163 = icmp eq i64 %v162, 3
  %v164 = select i1 %v163, i64 0, i64 %v162
  %v165 = zext i1 %v163 to i64
  br label %v1.next
v1.next:
  %v166 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

