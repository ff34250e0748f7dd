; tiles of 6 positions and 2 x 8 channels
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @k959212514ffc13e2(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = udiv i64 %begin, 4
  %v20 = getelementptr float, ptr %a3, i64 8
  br label %v2.before
v2.before:
  br label %v2
v2:
  %v3 = phi i64 [ %begin, %v2.before ], [ %v173, %v2.next ]
  %v4 = phi i64 [ %begin, %v2.before ], [ %v171, %v2.next ]
  %v173.more = icmp slt i64 %v3, %end
  br i1 %v173.more, label %v2.turn, label %v2.after
v2.turn:
  %v5 = icmp eq i64 %v3, %begin
  %v6 = mul i64 %v4, 216
  %v7 = getelementptr i8, ptr %a1, i64 %v6
  %v8 = mul i64 %v4, 4
  %v9 = mul i64 %v8, 64
  %v10 = getelementptr i8, ptr %a0, i64 %v9
  call void @llvm.prefetch.p0(ptr %v10, i32 1, i32 3, i32 1)
  %v11 = getelementptr i8, ptr %v10, i64 32
  call void @llvm.prefetch.p0(ptr %v11, i32 1, i32 3, i32 1)
  %v12 = getelementptr i8, ptr %v10, i64 64
  call void @llvm.prefetch.p0(ptr %v12, i32 1, i32 3, i32 1)
  %v13 = getelementptr i8, ptr %v10, i64 96
  call void @llvm.prefetch.p0(ptr %v13, i32 1, i32 3, i32 1)
  %v14 = getelementptr i8, ptr %v10, i64 128
  call void @llvm.prefetch.p0(ptr %v14, i32 1, i32 3, i32 1)
  %v15 = getelementptr i8, ptr %v10, i64 160
  call void @llvm.prefetch.p0(ptr %v15, i32 1, i32 3, i32 1)
  %v16 = getelementptr i8, ptr %v10, i64 192
  call void @llvm.prefetch.p0(ptr %v16, i32 1, i32 3, i32 1)
  %v17 = getelementptr i8, ptr %v10, i64 224
  call void @llvm.prefetch.p0(ptr %v17, i32 1, i32 3, i32 1)
  %v18 = getelementptr i8, ptr %a2, i64 1728
  %v19 = load <8 x float>, ptr %a3, align 4
  %v21 = load <8 x float>, ptr %v20, align 4
  br label %v22.before
v22.before:
  br label %v22
v22:
  %v23 = phi i64 [ 0, %v22.before ], [ %v133, %v22.next ]
  %v24 = phi <8 x float> [ %v19, %v22.before ], [ %v113, %v22.next ]
  %v25 = phi <8 x float> [ %v21, %v22.before ], [ %v114, %v22.next ]
  %v26 = phi <8 x float> [ %v19, %v22.before ], [ %v119, %v22.next ]
  %v27 = phi <8 x float> [ %v21, %v22.before ], [ %v120, %v22.next ]
  %v28 = phi <8 x float> [ %v19, %v22.before ], [ %v125, %v22.next ]
  %v29 = phi <8 x float> [ %v21, %v22.before ], [ %v126, %v22.next ]
  %v30 = phi <8 x float> [ %v19, %v22.before ], [ %v131, %v22.next ]
  %v31 = phi <8 x float> [ %v21, %v22.before ], [ %v132, %v22.next ]
  %v32 = mul i64 %v23, 108
  %v33 = getelementptr i8, ptr %v7, i64 %v32
  %v34 = mul i64 %v23, 576
  %v35 = getelementptr i8, ptr %a2, i64 %v34
  br label %v36.before
v36.before:
  br label %v36
v36:
  %v37 = phi i64 [ 0, %v36.before ], [ %v104, %v36.next ]
  %v38 = phi <8 x float> [ %v24, %v36.before ], [ %v84, %v36.next ]
  %v39 = phi <8 x float> [ %v25, %v36.before ], [ %v85, %v36.next ]
  %v40 = phi <8 x float> [ %v26, %v36.before ], [ %v90, %v36.next ]
  %v41 = phi <8 x float> [ %v27, %v36.before ], [ %v91, %v36.next ]
  %v42 = phi <8 x float> [ %v28, %v36.before ], [ %v96, %v36.next ]
  %v43 = phi <8 x float> [ %v29, %v36.before ], [ %v97, %v36.next ]
  %v44 = phi <8 x float> [ %v30, %v36.before ], [ %v102, %v36.next ]
  %v45 = phi <8 x float> [ %v31, %v36.before ], [ %v103, %v36.next ]
  %v46 = mul i64 %v37, 4
  %v47 = getelementptr i8, ptr %v33, i64 %v46
  %v48 = mul i64 %v37, 64
  %v49 = getelementptr i8, ptr %v35, i64 %v48
  %v50 = load <8 x float>, ptr %v49, align 32
  %v51 = getelementptr i8, ptr %v49, i64 32
  %v52 = load <8 x float>, ptr %v51, align 32
  %v53 = load float, ptr %v47, align 4
  %v54 = insertelement <8 x float> poison, float %v53, i64 0
  %v55 = shufflevector <8 x float> %v54, <8 x float> poison, <8 x i32> zeroinitializer
  %v56 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v55, <8 x float> %v50, <8 x float> %v38)
  %v57 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v55, <8 x float> %v52, <8 x float> %v39)
  %v58 = getelementptr i8, ptr %v47, i64 24
  %v59 = load float, ptr %v58, align 4
  %v60 = insertelement <8 x float> poison, float %v59, i64 0
  %v61 = shufflevector <8 x float> %v60, <8 x float> poison, <8 x i32> zeroinitializer
  %v62 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v61, <8 x float> %v50, <8 x float> %v40)
  %v63 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v61, <8 x float> %v52, <8 x float> %v41)
  %v64 = getelementptr i8, ptr %v47, i64 48
  %v65 = load float, ptr %v64, align 4
  %v66 = insertelement <8 x float> poison, float %v65, i64 0
  %v67 = shufflevector <8 x float> %v66, <8 x float> poison, <8 x i32> zeroinitializer
  %v68 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v67, <8 x float> %v50, <8 x float> %v42)
  %v69 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v67, <8 x float> %v52, <8 x float> %v43)
  %v70 = getelementptr i8, ptr %v47, i64 72
  %v71 = load float, ptr %v70, align 4
  %v72 = insertelement <8 x float> poison, float %v71, i64 0
  %v73 = shufflevector <8 x float> %v72, <8 x float> poison, <8 x i32> zeroinitializer
  %v74 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v73, <8 x float> %v50, <8 x float> %v44)
  %v75 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v73, <8 x float> %v52, <8 x float> %v45)
  %v76 = getelementptr i8, ptr %v49, i64 64
  %v77 = load <8 x float>, ptr %v76, align 32
  %v78 = getelementptr i8, ptr %v49, i64 96
  %v79 = load <8 x float>, ptr %v78, align 32
  %v80 = getelementptr i8, ptr %v47, i64 4
  %v81 = load float, ptr %v80, align 4
  %v82 = insertelement <8 x float> poison, float %v81, i64 0
  %v83 = shufflevector <8 x float> %v82, <8 x float> poison, <8 x i32> zeroinitializer
  %v84 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v83, <8 x float> %v77, <8 x float> %v56)
  %v85 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v83, <8 x float> %v79, <8 x float> %v57)
  %v86 = getelementptr i8, ptr %v47, i64 28
  %v87 = load float, ptr %v86, align 4
  %v88 = insertelement <8 x float> poison, float %v87, i64 0
  %v89 = shufflevector <8 x float> %v88, <8 x float> poison, <8 x i32> zeroinitializer
  %v90 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v89, <8 x float> %v77, <8 x float> %v62)
  %v91 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v89, <8 x float> %v79, <8 x float> %v63)
  %v92 = getelementptr i8, ptr %v47, i64 52
  %v93 = load float, ptr %v92, align 4
  %v94 = insertelement <8 x float> poison, float %v93, i64 0
  %v95 = shufflevector <8 x float> %v94, <8 x float> poison, <8 x i32> zeroinitializer
  %v96 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v95, <8 x float> %v77, <8 x float> %v68)
  %v97 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v95, <8 x float> %v79, <8 x float> %v69)
  %v98 = getelementptr i8, ptr %v47, i64 76
  %v99 = load float, ptr %v98, align 4
  %v100 = insertelement <8 x float> poison, float %v99, i64 0
  %v101 = shufflevector <8 x float> %v100, <8 x float> poison, <8 x i32> zeroinitializer
  %v102 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v101, <8 x float> %v77, <8 x float> %v74)
  %v103 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v101, <8 x float> %v79, <8 x float> %v75)
  br label %v36.next
v36.next:
  %v104 = add i64 %v37, 2
  %v104.more = icmp slt i64 %v104, 8
  br i1 %v104.more, label %v36, label %v36.after
v36.after:
  %v105 = getelementptr i8, ptr %v35, i64 512
  %v106 = load <8 x float>, ptr %v105, align 32
  %v107 = getelementptr i8, ptr %v35, i64 544
  %v108 = load <8 x float>, ptr %v107, align 32
  %v109 = getelementptr i8, ptr %v33, i64 32
  %v110 = load float, ptr %v109, align 4
  %v111 = insertelement <8 x float> poison, float %v110, i64 0
  %v112 = shufflevector <8 x float> %v111, <8 x float> poison, <8 x i32> zeroinitializer
  %v113 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v112, <8 x float> %v106, <8 x float> %v84)
  %v114 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v112, <8 x float> %v108, <8 x float> %v85)
  %v115 = getelementptr i8, ptr %v33, i64 56
  %v116 = load float, ptr %v115, align 4
  %v117 = insertelement <8 x float> poison, float %v116, i64 0
  %v118 = shufflevector <8 x float> %v117, <8 x float> poison, <8 x i32> zeroinitializer
  %v119 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v118, <8 x float> %v106, <8 x float> %v90)
  %v120 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v118, <8 x float> %v108, <8 x float> %v91)
  %v121 = getelementptr i8, ptr %v33, i64 80
  %v122 = load float, ptr %v121, align 4
  %v123 = insertelement <8 x float> poison, float %v122, i64 0
  %v124 = shufflevector <8 x float> %v123, <8 x float> poison, <8 x i32> zeroinitializer
  %v125 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v124, <8 x float> %v106, <8 x float> %v96)
  %v126 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v124, <8 x float> %v108, <8 x float> %v97)
  %v127 = getelementptr i8, ptr %v33, i64 104
  %v128 = load float, ptr %v127, align 4
  %v129 = insertelement <8 x float> poison, float %v128, i64 0
  %v130 = shufflevector <8 x float> %v129, <8 x float> poison, <8 x i32> zeroinitializer
  %v131 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v130, <8 x float> %v106, <8 x float> %v102)
  %v132 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v130, <8 x float> %v108, <8 x float> %v103)
  br label %v22.next
v22.next:
  %v133 = add i64 %v23, 1
  %v133.more = icmp slt i64 %v133, 3
  br i1 %v133.more, label %v22, label %v22.after
v22.after:
  %v134 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v113
  %v135 = select <8 x i1> %v134, <8 x float> splat (float 0x0000000000000000), <8 x float> %v113
  %v136 = mul i64 %v8, 16
  %v137 = getelementptr float, ptr %a0, i64 %v136
  store <8 x float> %v135, ptr %v137, align 4
  %v138 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v114
  %v139 = select <8 x i1> %v138, <8 x float> splat (float 0x0000000000000000), <8 x float> %v114
  %v140 = add i64 %v136, 8
  %v141 = getelementptr float, ptr %a0, i64 %v140
  store <8 x float> %v139, ptr %v141, align 4
  %v142 = add i64 %v8, 1
  %v143 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v119
  %v144 = select <8 x i1> %v143, <8 x float> splat (float 0x0000000000000000), <8 x float> %v119
  %v145 = mul i64 %v142, 16
  %v146 = getelementptr float, ptr %a0, i64 %v145
  store <8 x float> %v144, ptr %v146, align 4
  %v147 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v120
  %v148 = select <8 x i1> %v147, <8 x float> splat (float 0x0000000000000000), <8 x float> %v120
  %v149 = add i64 %v145, 8
  %v150 = getelementptr float, ptr %a0, i64 %v149
  store <8 x float> %v148, ptr %v150, align 4
  %v151 = add i64 %v8, 2
  %v152 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v125
  %v153 = select <8 x i1> %v152, <8 x float> splat (float 0x0000000000000000), <8 x float> %v125
  %v154 = mul i64 %v151, 16
  %v155 = getelementptr float, ptr %a0, i64 %v154
  store <8 x float> %v153, ptr %v155, align 4
  %v156 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v126
  %v157 = select <8 x i1> %v156, <8 x float> splat (float 0x0000000000000000), <8 x float> %v126
  %v158 = add i64 %v154, 8
  %v159 = getelementptr float, ptr %a0, i64 %v158
  store <8 x float> %v157, ptr %v159, align 4
  %v160 = add i64 %v8, 3
  %v161 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v131
  %v162 = select <8 x i1> %v161, <8 x float> splat (float 0x0000000000000000), <8 x float> %v131
  %v163 = mul i64 %v160, 16
  %v164 = getelementptr float, ptr %a0, i64 %v163
  store <8 x float> %v162, ptr %v164, align 4
  %v165 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v132
  %v166 = select <8 x i1> %v165, <8 x float> splat (float 0x0000000000000000), <8 x float> %v132
  %v167 = add i64 %v163, 8
  %v168 = getelementptr float, ptr %a0, i64 %v167
  store <8 x float> %v166, ptr %v168, align 4
  %v169 = add i64 %v4, 1
  %v170 = icmp eq i64 %v169, 4
  %v171 = select i1 %v170, i64 0, i64 %v169
  %v172 = zext i1 %v170 to i64
  br label %v2.next
v2.next:
  %v173 = add i64 %v3, 1
  br label %v2
v2.after:
  ret void
}

