; tiles of 6 positions and 2 x 8 channels
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @kded95ff5983786b4(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = udiv i64 %begin, 4
  %v21 = getelementptr float, ptr %a3, i64 8
  br label %v2.before
v2.before:
  br label %v2
v2:
  %v3 = phi i64 [ %begin, %v2.before ], [ %v174, %v2.next ]
  %v4 = phi i64 [ %begin, %v2.before ], [ %v172, %v2.next ]
  %v174.more = icmp slt i64 %v3, %end
  br i1 %v174.more, label %v2.turn, label %v2.after
v2.turn:
  %v5 = sub i64 %v3, %begin
  %v6 = icmp eq i64 %v5, 0
  %v7 = mul i64 %v4, 216
  %v8 = getelementptr i8, ptr %a1, i64 %v7
  %v9 = mul i64 %v4, 4
  %v10 = mul i64 %v9, 64
  %v11 = getelementptr i8, ptr %a0, i64 %v10
  call void @llvm.prefetch.p0(ptr %v11, i32 1, i32 3, i32 1)
  %v12 = getelementptr i8, ptr %v11, i64 32
  call void @llvm.prefetch.p0(ptr %v12, i32 1, i32 3, i32 1)
  %v13 = getelementptr i8, ptr %v11, i64 64
  call void @llvm.prefetch.p0(ptr %v13, i32 1, i32 3, i32 1)
  %v14 = getelementptr i8, ptr %v11, i64 96
  call void @llvm.prefetch.p0(ptr %v14, i32 1, i32 3, i32 1)
  %v15 = getelementptr i8, ptr %v11, i64 128
  call void @llvm.prefetch.p0(ptr %v15, i32 1, i32 3, i32 1)
  %v16 = getelementptr i8, ptr %v11, i64 160
  call void @llvm.prefetch.p0(ptr %v16, i32 1, i32 3, i32 1)
  %v17 = getelementptr i8, ptr %v11, i64 192
  call void @llvm.prefetch.p0(ptr %v17, i32 1, i32 3, i32 1)
  %v18 = getelementptr i8, ptr %v11, i64 224
  call void @llvm.prefetch.p0(ptr %v18, i32 1, i32 3, i32 1)
  %v19 = getelementptr i8, ptr %a2, i64 1728
  %v20 = load <8 x float>, ptr %a3, align 4
  %v22 = load <8 x float>, ptr %v21, align 4
  br label %v23.before
v23.before:
  br label %v23
v23:
  %v24 = phi i64 [ 0, %v23.before ], [ %v134, %v23.next ]
  %v25 = phi <8 x float> [ %v20, %v23.before ], [ %v114, %v23.next ]
  %v26 = phi <8 x float> [ %v22, %v23.before ], [ %v115, %v23.next ]
  %v27 = phi <8 x float> [ %v20, %v23.before ], [ %v120, %v23.next ]
  %v28 = phi <8 x float> [ %v22, %v23.before ], [ %v121, %v23.next ]
  %v29 = phi <8 x float> [ %v20, %v23.before ], [ %v126, %v23.next ]
  %v30 = phi <8 x float> [ %v22, %v23.before ], [ %v127, %v23.next ]
  %v31 = phi <8 x float> [ %v20, %v23.before ], [ %v132, %v23.next ]
  %v32 = phi <8 x float> [ %v22, %v23.before ], [ %v133, %v23.next ]
  %v33 = mul i64 %v24, 108
  %v34 = getelementptr i8, ptr %v8, i64 %v33
  %v35 = mul i64 %v24, 576
  %v36 = getelementptr i8, ptr %a2, i64 %v35
  br label %v37.before
v37.before:
  br label %v37
v37:
  %v38 = phi i64 [ 0, %v37.before ], [ %v105, %v37.next ]
  %v39 = phi <8 x float> [ %v25, %v37.before ], [ %v85, %v37.next ]
  %v40 = phi <8 x float> [ %v26, %v37.before ], [ %v86, %v37.next ]
  %v41 = phi <8 x float> [ %v27, %v37.before ], [ %v91, %v37.next ]
  %v42 = phi <8 x float> [ %v28, %v37.before ], [ %v92, %v37.next ]
  %v43 = phi <8 x float> [ %v29, %v37.before ], [ %v97, %v37.next ]
  %v44 = phi <8 x float> [ %v30, %v37.before ], [ %v98, %v37.next ]
  %v45 = phi <8 x float> [ %v31, %v37.before ], [ %v103, %v37.next ]
  %v46 = phi <8 x float> [ %v32, %v37.before ], [ %v104, %v37.next ]
  %v47 = mul i64 %v38, 4
  %v48 = getelementptr i8, ptr %v34, i64 %v47
  %v49 = mul i64 %v38, 64
  %v50 = getelementptr i8, ptr %v36, i64 %v49
  %v51 = load <8 x float>, ptr %v50, align 32
  %v52 = getelementptr i8, ptr %v50, i64 32
  %v53 = load <8 x float>, ptr %v52, align 32
  %v54 = load float, ptr %v48, align 4
  %v55 = insertelement <8 x float> poison, float %v54, i64 0
  %v56 = shufflevector <8 x float> %v55, <8 x float> poison, <8 x i32> zeroinitializer
  %v57 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v56, <8 x float> %v51, <8 x float> %v39)
  %v58 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v56, <8 x float> %v53, <8 x float> %v40)
  %v59 = getelementptr i8, ptr %v48, i64 24
  %v60 = load float, ptr %v59, align 4
  %v61 = insertelement <8 x float> poison, float %v60, i64 0
  %v62 = shufflevector <8 x float> %v61, <8 x float> poison, <8 x i32> zeroinitializer
  %v63 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v62, <8 x float> %v51, <8 x float> %v41)
  %v64 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v62, <8 x float> %v53, <8 x float> %v42)
  %v65 = getelementptr i8, ptr %v48, i64 48
  %v66 = load float, ptr %v65, align 4
  %v67 = insertelement <8 x float> poison, float %v66, i64 0
  %v68 = shufflevector <8 x float> %v67, <8 x float> poison, <8 x i32> zeroinitializer
  %v69 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v68, <8 x float> %v51, <8 x float> %v43)
  %v70 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v68, <8 x float> %v53, <8 x float> %v44)
  %v71 = getelementptr i8, ptr %v48, i64 72
  %v72 = load float, ptr %v71, align 4
  %v73 = insertelement <8 x float> poison, float %v72, i64 0
  %v74 = shufflevector <8 x float> %v73, <8 x float> poison, <8 x i32> zeroinitializer
  %v75 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v74, <8 x float> %v51, <8 x float> %v45)
  %v76 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v74, <8 x float> %v53, <8 x float> %v46)
  %v77 = getelementptr i8, ptr %v50, i64 64
  %v78 = load <8 x float>, ptr %v77, align 32
  %v79 = getelementptr i8, ptr %v50, i64 96
  %v80 = load <8 x float>, ptr %v79, align 32
  %v81 = getelementptr i8, ptr %v48, i64 4
  %v82 = load float, ptr %v81, align 4
  %v83 = insertelement <8 x float> poison, float %v82, i64 0
  %v84 = shufflevector <8 x float> %v83, <8 x float> poison, <8 x i32> zeroinitializer
  %v85 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v84, <8 x float> %v78, <8 x float> %v57)
  %v86 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v84, <8 x float> %v80, <8 x float> %v58)
  %v87 = getelementptr i8, ptr %v48, i64 28
  %v88 = load float, ptr %v87, align 4
  %v89 = insertelement <8 x float> poison, float %v88, i64 0
  %v90 = shufflevector <8 x float> %v89, <8 x float> poison, <8 x i32> zeroinitializer
  %v91 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v90, <8 x float> %v78, <8 x float> %v63)
  %v92 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v90, <8 x float> %v80, <8 x float> %v64)
  %v93 = getelementptr i8, ptr %v48, i64 52
  %v94 = load float, ptr %v93, align 4
  %v95 = insertelement <8 x float> poison, float %v94, i64 0
  %v96 = shufflevector <8 x float> %v95, <8 x float> poison, <8 x i32> zeroinitializer
  %v97 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v96, <8 x float> %v78, <8 x float> %v69)
  %v98 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v96, <8 x float> %v80, <8 x float> %v70)
  %v99 = getelementptr i8, ptr %v48, i64 76
  %v100 = load float, ptr %v99, align 4
  %v101 = insertelement <8 x float> poison, float %v100, i64 0
  %v102 = shufflevector <8 x float> %v101, <8 x float> poison, <8 x i32> zeroinitializer
  %v103 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v102, <8 x float> %v78, <8 x float> %v75)
  %v104 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v102, <8 x float> %v80, <8 x float> %v76)
  br label %v37.next
v37.next:
  %v105 = add i64 %v38, 2
  %v105.more = icmp slt i64 %v105, 8
  br i1 %v105.more, label %v37, label %v37.after
v37.after:
  %v106 = getelementptr i8, ptr %v36, i64 512
  %v107 = load <8 x float>, ptr %v106, align 32
  %v108 = getelementptr i8, ptr %v36, i64 544
  %v109 = load <8 x float>, ptr %v108, align 32
  %v110 = getelementptr i8, ptr %v34, i64 32
  %v111 = load float, ptr %v110, align 4
  %v112 = insertelement <8 x float> poison, float %v111, i64 0
  %v113 = shufflevector <8 x float> %v112, <8 x float> poison, <8 x i32> zeroinitializer
  %v114 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v113, <8 x float> %v107, <8 x float> %v85)
  %v115 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v113, <8 x float> %v109, <8 x float> %v86)
  %v116 = getelementptr i8, ptr %v34, i64 56
  %v117 = load float, ptr %v116, align 4
  %v118 = insertelement <8 x float> poison, float %v117, i64 0
  %v119 = shufflevector <8 x float> %v118, <8 x float> poison, <8 x i32> zeroinitializer
  %v120 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v119, <8 x float> %v107, <8 x float> %v91)
  %v121 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v119, <8 x float> %v109, <8 x float> %v92)
  %v122 = getelementptr i8, ptr %v34, i64 80
  %v123 = load float, ptr %v122, align 4
  %v124 = insertelement <8 x float> poison, float %v123, i64 0
  %v125 = shufflevector <8 x float> %v124, <8 x float> poison, <8 x i32> zeroinitializer
  %v126 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v125, <8 x float> %v107, <8 x float> %v97)
  %v127 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v125, <8 x float> %v109, <8 x float> %v98)
  %v128 = getelementptr i8, ptr %v34, i64 104
  %v129 = load float, ptr %v128, align 4
  %v130 = insertelement <8 x float> poison, float %v129, i64 0
  %v131 = shufflevector <8 x float> %v130, <8 x float> poison, <8 x i32> zeroinitializer
  %v132 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v131, <8 x float> %v107, <8 x float> %v103)
  %v133 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v131, <8 x float> %v109, <8 x float> %v104)
  br label %v23.next
v23.next:
  %v134 = add i64 %v24, 1
  %v134.more = icmp slt i64 %v134, 3
  br i1 %v134.more, label %v23, label %v23.after
v23.after:
  %v135 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v114
  %v136 = select <8 x i1> %v135, <8 x float> splat (float 0x0000000000000000), <8 x float> %v114
  %v137 = mul i64 %v9, 16
  %v138 = getelementptr float, ptr %a0, i64 %v137
  store <8 x float> %v136, ptr %v138, align 4
  %v139 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v115
  %v140 = select <8 x i1> %v139, <8 x float> splat (float 0x0000000000000000), <8 x float> %v115
  %v141 = add i64 %v137, 8
  %v142 = getelementptr float, ptr %a0, i64 %v141
  store <8 x float> %v140, ptr %v142, align 4
  %v143 = add i64 %v9, 1
  %v144 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v120
  %v145 = select <8 x i1> %v144, <8 x float> splat (float 0x0000000000000000), <8 x float> %v120
  %v146 = mul i64 %v143, 16
  %v147 = getelementptr float, ptr %a0, i64 %v146
  store <8 x float> %v145, ptr %v147, align 4
  %v148 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v121
  %v149 = select <8 x i1> %v148, <8 x float> splat (float 0x0000000000000000), <8 x float> %v121
  %v150 = add i64 %v146, 8
  %v151 = getelementptr float, ptr %a0, i64 %v150
  store <8 x float> %v149, ptr %v151, align 4
  %v152 = add i64 %v9, 2
  %v153 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v126
  %v154 = select <8 x i1> %v153, <8 x float> splat (float 0x0000000000000000), <8 x float> %v126
  %v155 = mul i64 %v152, 16
  %v156 = getelementptr float, ptr %a0, i64 %v155
  store <8 x float> %v154, ptr %v156, align 4
  %v157 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v127
  %v158 = select <8 x i1> %v157, <8 x float> splat (float 0x0000000000000000), <8 x float> %v127
  %v159 = add i64 %v155, 8
  %v160 = getelementptr float, ptr %a0, i64 %v159
  store <8 x float> %v158, ptr %v160, align 4
  %v161 = add i64 %v9, 3
  %v162 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v132
  %v163 = select <8 x i1> %v162, <8 x float> splat (float 0x0000000000000000), <8 x float> %v132
  %v164 = mul i64 %v161, 16
  %v165 = getelementptr float, ptr %a0, i64 %v164
  store <8 x float> %v163, ptr %v165, align 4
  %v166 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v133
  %v167 = select <8 x i1> %v166, <8 x float> splat (float 0x0000000000000000), <8 x float> %v133
  %v168 = add i64 %v164, 8
  %v169 = getelementptr float, ptr %a0, i64 %v168
  store <8 x float> %v167, ptr %v169, align 4
  %v170 = add i64 %v4, 1
  %v171 = icmp eq i64 %v170, 4
  %v172 = select i1 %v171, i64 0, i64 %v170
  %v173 = zext i1 %v171 to i64
  br label %v2.next
v2.next:
  %v174 = add i64 %v3, 1
  br label %v2
v2.after:
  ret void
}

