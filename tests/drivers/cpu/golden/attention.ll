; attention, 3 rows of 9
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k7a8fa1a962f67e8e(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = getelementptr i8, ptr %scratch, i64 512
  %v2 = getelementptr i8, ptr %scratch, i64 704
  %v3 = getelementptr i8, ptr %scratch, i64 896
  %v8 = icmp eq i64 0, 0
  %v169 = add <8 x i32> splat (i32 0), <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v170 = icmp slt <8 x i32> %v169, splat (i32 1)
  %v171 = select <8 x i1> %v170, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v174 = add <8 x i32> splat (i32 1), <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v175 = icmp slt <8 x i32> %v174, splat (i32 1)
  %v176 = select <8 x i1> %v175, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v178 = getelementptr float, ptr %v1, i64 1
  %v180 = icmp slt <8 x i32> %v169, splat (i32 2)
  %v181 = select <8 x i1> %v180, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v183 = getelementptr float, ptr %v1, i64 16
  %v185 = icmp slt <8 x i32> %v174, splat (i32 2)
  %v186 = select <8 x i1> %v185, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v188 = getelementptr float, ptr %v1, i64 17
  %v190 = icmp slt <8 x i32> %v169, splat (i32 3)
  %v191 = select <8 x i1> %v190, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v193 = getelementptr float, ptr %v1, i64 32
  %v195 = icmp slt <8 x i32> %v174, splat (i32 3)
  %v196 = select <8 x i1> %v195, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v198 = getelementptr float, ptr %v1, i64 33
  %v244 = bitcast <8 x float> splat (float 0x4168000000000000) to <8 x i32>
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %begin, %v4.before ], [ %v424, %v4.next ]
  %v6 = phi i64 [ %begin, %v4.before ], [ %v422, %v4.next ]
  %v424.more = icmp slt i64 %v5, %end
  br i1 %v424.more, label %v4.turn, label %v4.after
v4.turn:
  %v7 = icmp eq i64 %v5, %begin
  %v9 = or i1 %v7, %v8
  br i1 %v9, label %v10.then, label %v10.after
v10.then:
  br label %v11.before
v11.before:
  br label %v11
v11:
  %v12 = phi i64 [ 0, %v11.before ], [ %v65, %v11.next ]
  %v13 = mul i64 %v12, 8
  %v14 = call i64 @llvm.smin.i64(i64 %v13, i64 1)
  %v15 = mul i64 %v14, 32
  %v16 = getelementptr i8, ptr %a2, i64 %v15
  %v17 = mul i64 %v12, 32
  %v18 = getelementptr i8, ptr %scratch, i64 %v17
  %v19 = load <8 x float>, ptr %v16, align 4
  %v20 = getelementptr i8, ptr %v16, i64 32
  %v21 = load <8 x float>, ptr %v20, align 4
  %v22 = getelementptr i8, ptr %v16, i64 64
  %v23 = load <8 x float>, ptr %v22, align 4
  %v24 = getelementptr i8, ptr %v16, i64 96
  %v25 = load <8 x float>, ptr %v24, align 4
  %v26 = getelementptr i8, ptr %v16, i64 128
  %v27 = load <8 x float>, ptr %v26, align 4
  %v28 = getelementptr i8, ptr %v16, i64 160
  %v29 = load <8 x float>, ptr %v28, align 4
  %v30 = getelementptr i8, ptr %v16, i64 192
  %v31 = load <8 x float>, ptr %v30, align 4
  %v32 = getelementptr i8, ptr %v16, i64 224
  %v33 = load <8 x float>, ptr %v32, align 4
  %v34 = shufflevector <8 x float> %v19, <8 x float> %v27, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v35 = shufflevector <8 x float> %v19, <8 x float> %v27, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v36 = shufflevector <8 x float> %v21, <8 x float> %v29, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v37 = shufflevector <8 x float> %v21, <8 x float> %v29, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v38 = shufflevector <8 x float> %v23, <8 x float> %v31, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v39 = shufflevector <8 x float> %v23, <8 x float> %v31, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v40 = shufflevector <8 x float> %v25, <8 x float> %v33, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v41 = shufflevector <8 x float> %v25, <8 x float> %v33, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v42 = shufflevector <8 x float> %v34, <8 x float> %v38, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v43 = shufflevector <8 x float> %v34, <8 x float> %v38, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v44 = shufflevector <8 x float> %v35, <8 x float> %v39, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v45 = shufflevector <8 x float> %v35, <8 x float> %v39, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v46 = shufflevector <8 x float> %v36, <8 x float> %v40, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v47 = shufflevector <8 x float> %v36, <8 x float> %v40, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v48 = shufflevector <8 x float> %v37, <8 x float> %v41, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v49 = shufflevector <8 x float> %v37, <8 x float> %v41, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v50 = shufflevector <8 x float> %v42, <8 x float> %v46, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v51 = shufflevector <8 x float> %v42, <8 x float> %v46, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v52 = shufflevector <8 x float> %v43, <8 x float> %v47, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v53 = shufflevector <8 x float> %v43, <8 x float> %v47, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v54 = shufflevector <8 x float> %v44, <8 x float> %v48, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v55 = shufflevector <8 x float> %v44, <8 x float> %v48, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v56 = shufflevector <8 x float> %v45, <8 x float> %v49, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v57 = shufflevector <8 x float> %v45, <8 x float> %v49, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  store <8 x float> %v50, ptr %v18, align 4
  %v58 = getelementptr i8, ptr %v18, i64 64
  store <8 x float> %v51, ptr %v58, align 4
  %v59 = getelementptr i8, ptr %v18, i64 128
  store <8 x float> %v52, ptr %v59, align 4
  %v60 = getelementptr i8, ptr %v18, i64 192
  store <8 x float> %v53, ptr %v60, align 4
  %v61 = getelementptr i8, ptr %v18, i64 256
  store <8 x float> %v54, ptr %v61, align 4
  %v62 = getelementptr i8, ptr %v18, i64 320
  store <8 x float> %v55, ptr %v62, align 4
  %v63 = getelementptr i8, ptr %v18, i64 384
  store <8 x float> %v56, ptr %v63, align 4
  %v64 = getelementptr i8, ptr %v18, i64 448
  store <8 x float> %v57, ptr %v64, align 4
  br label %v11.next
v11.next:
  %v65 = add i64 %v12, 1
  %v65.more = icmp slt i64 %v65, 2
  br i1 %v65.more, label %v11, label %v11.after
v11.after:
  br label %v10.after
v10.after:
  %v66 = mul i64 %v6, 8
  %v67 = mul i64 %v66, 4
  %v68 = getelementptr i8, ptr %a1, i64 %v67
  br label %v69.before
v69.before:
  br label %v69
v69:
  %v70 = phi i64 [ 0, %v69.before ], [ %v167, %v69.next ]
  %v71 = phi <8 x float> [ splat (float 0x0000000000000000), %v69.before ], [ %v153, %v69.next ]
  %v72 = phi <8 x float> [ splat (float 0x0000000000000000), %v69.before ], [ %v154, %v69.next ]
  %v73 = phi <8 x float> [ splat (float 0x0000000000000000), %v69.before ], [ %v159, %v69.next ]
  %v74 = phi <8 x float> [ splat (float 0x0000000000000000), %v69.before ], [ %v160, %v69.next ]
  %v75 = phi <8 x float> [ splat (float 0x0000000000000000), %v69.before ], [ %v165, %v69.next ]
  %v76 = phi <8 x float> [ splat (float 0x0000000000000000), %v69.before ], [ %v166, %v69.next ]
  %v77 = mul i64 %v70, 4
  %v78 = getelementptr i8, ptr %v68, i64 %v77
  %v79 = mul i64 %v70, 64
  %v80 = getelementptr i8, ptr %scratch, i64 %v79
  %v81 = load <8 x float>, ptr %v80, align 32
  %v82 = getelementptr i8, ptr %v80, i64 32
  %v83 = load <8 x float>, ptr %v82, align 32
  %v84 = load float, ptr %v78, align 4
  %v85 = insertelement <8 x float> poison, float %v84, i64 0
  %v86 = shufflevector <8 x float> %v85, <8 x float> poison, <8 x i32> zeroinitializer
  %v87 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v86, <8 x float> %v81, <8 x float> %v71)
  %v88 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v86, <8 x float> %v83, <8 x float> %v72)
  %v89 = getelementptr i8, ptr %v78, i64 64
  %v90 = load float, ptr %v89, align 4
  %v91 = insertelement <8 x float> poison, float %v90, i64 0
  %v92 = shufflevector <8 x float> %v91, <8 x float> poison, <8 x i32> zeroinitializer
  %v93 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v92, <8 x float> %v81, <8 x float> %v73)
  %v94 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v92, <8 x float> %v83, <8 x float> %v74)
  %v95 = getelementptr i8, ptr %v78, i64 128
  %v96 = load float, ptr %v95, align 4
  %v97 = insertelement <8 x float> poison, float %v96, i64 0
  %v98 = shufflevector <8 x float> %v97, <8 x float> poison, <8 x i32> zeroinitializer
  %v99 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v98, <8 x float> %v81, <8 x float> %v75)
  %v100 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v98, <8 x float> %v83, <8 x float> %v76)
  %v101 = getelementptr i8, ptr %v80, i64 64
  %v102 = load <8 x float>, ptr %v101, align 32
  %v103 = getelementptr i8, ptr %v80, i64 96
  %v104 = load <8 x float>, ptr %v103, align 32
  %v105 = getelementptr i8, ptr %v78, i64 4
  %v106 = load float, ptr %v105, align 4
  %v107 = insertelement <8 x float> poison, float %v106, i64 0
  %v108 = shufflevector <8 x float> %v107, <8 x float> poison, <8 x i32> zeroinitializer
  %v109 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v108, <8 x float> %v102, <8 x float> %v87)
  %v110 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v108, <8 x float> %v104, <8 x float> %v88)
  %v111 = getelementptr i8, ptr %v78, i64 68
  %v112 = load float, ptr %v111, align 4
  %v113 = insertelement <8 x float> poison, float %v112, i64 0
  %v114 = shufflevector <8 x float> %v113, <8 x float> poison, <8 x i32> zeroinitializer
  %v115 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v114, <8 x float> %v102, <8 x float> %v93)
  %v116 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v114, <8 x float> %v104, <8 x float> %v94)
  %v117 = getelementptr i8, ptr %v78, i64 132
  %v118 = load float, ptr %v117, align 4
  %v119 = insertelement <8 x float> poison, float %v118, i64 0
  %v120 = shufflevector <8 x float> %v119, <8 x float> poison, <8 x i32> zeroinitializer
  %v121 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v120, <8 x float> %v102, <8 x float> %v99)
  %v122 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v120, <8 x float> %v104, <8 x float> %v100)
  %v123 = getelementptr i8, ptr %v80, i64 128
  %v124 = load <8 x float>, ptr %v123, align 32
  %v125 = getelementptr i8, ptr %v80, i64 160
  %v126 = load <8 x float>, ptr %v125, align 32
  %v127 = getelementptr i8, ptr %v78, i64 8
  %v128 = load float, ptr %v127, align 4
  %v129 = insertelement <8 x float> poison, float %v128, i64 0
  %v130 = shufflevector <8 x float> %v129, <8 x float> poison, <8 x i32> zeroinitializer
  %v131 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v130, <8 x float> %v124, <8 x float> %v109)
  %v132 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v130, <8 x float> %v126, <8 x float> %v110)
  %v133 = getelementptr i8, ptr %v78, i64 72
  %v134 = load float, ptr %v133, align 4
  %v135 = insertelement <8 x float> poison, float %v134, i64 0
  %v136 = shufflevector <8 x float> %v135, <8 x float> poison, <8 x i32> zeroinitializer
  %v137 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v136, <8 x float> %v124, <8 x float> %v115)
  %v138 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v136, <8 x float> %v126, <8 x float> %v116)
  %v139 = getelementptr i8, ptr %v78, i64 136
  %v140 = load float, ptr %v139, align 4
  %v141 = insertelement <8 x float> poison, float %v140, i64 0
  %v142 = shufflevector <8 x float> %v141, <8 x float> poison, <8 x i32> zeroinitializer
  %v143 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v142, <8 x float> %v124, <8 x float> %v121)
  %v144 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v142, <8 x float> %v126, <8 x float> %v122)
  %v145 = getelementptr i8, ptr %v80, i64 192
  %v146 = load <8 x float>, ptr %v145, align 32
  %v147 = getelementptr i8, ptr %v80, i64 224
  %v148 = load <8 x float>, ptr %v147, align 32
  %v149 = getelementptr i8, ptr %v78, i64 12
  %v150 = load float, ptr %v149, align 4
  %v151 = insertelement <8 x float> poison, float %v150, i64 0
  %v152 = shufflevector <8 x float> %v151, <8 x float> poison, <8 x i32> zeroinitializer
  %v153 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v152, <8 x float> %v146, <8 x float> %v131)
  %v154 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v152, <8 x float> %v148, <8 x float> %v132)
  %v155 = getelementptr i8, ptr %v78, i64 76
  %v156 = load float, ptr %v155, align 4
  %v157 = insertelement <8 x float> poison, float %v156, i64 0
  %v158 = shufflevector <8 x float> %v157, <8 x float> poison, <8 x i32> zeroinitializer
  %v159 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v158, <8 x float> %v146, <8 x float> %v137)
  %v160 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v158, <8 x float> %v148, <8 x float> %v138)
  %v161 = getelementptr i8, ptr %v78, i64 140
  %v162 = load float, ptr %v161, align 4
  %v163 = insertelement <8 x float> poison, float %v162, i64 0
  %v164 = shufflevector <8 x float> %v163, <8 x float> poison, <8 x i32> zeroinitializer
  %v165 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v164, <8 x float> %v146, <8 x float> %v143)
  %v166 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v164, <8 x float> %v148, <8 x float> %v144)
  br label %v69.next
v69.next:
  %v167 = add i64 %v70, 4
  %v167.more = icmp slt i64 %v167, 8
  br i1 %v167.more, label %v69, label %v69.after
v69.after:
  %v168 = fmul <8 x float> %v153, splat (float 0x3FD3333340000000)
  %v172 = fadd <8 x float> %v168, %v171
  store <8 x float> %v172, ptr %v1, align 4
  %v173 = fmul <8 x float> %v154, splat (float 0x3FD3333340000000)
  %v177 = fadd <8 x float> %v173, %v176
  store <8 x float> %v177, ptr %v178, align 4
  %v179 = fmul <8 x float> %v159, splat (float 0x3FD3333340000000)
  %v182 = fadd <8 x float> %v179, %v181
  store <8 x float> %v182, ptr %v183, align 4
  %v184 = fmul <8 x float> %v160, splat (float 0x3FD3333340000000)
  %v187 = fadd <8 x float> %v184, %v186
  store <8 x float> %v187, ptr %v188, align 4
  %v189 = fmul <8 x float> %v165, splat (float 0x3FD3333340000000)
  %v192 = fadd <8 x float> %v189, %v191
  store <8 x float> %v192, ptr %v193, align 4
  %v194 = fmul <8 x float> %v166, splat (float 0x3FD3333340000000)
  %v197 = fadd <8 x float> %v194, %v196
  store <8 x float> %v197, ptr %v198, align 4
  %v199 = getelementptr i8, ptr %v1, i64 0
  br label %v200.before
v200.before:
  br label %v200
v200:
  %v201 = phi i64 [ 0, %v200.before ], [ %v315, %v200.next ]
  %v202 = mul i64 %v201, 16
  %v203 = getelementptr float, ptr %v199, i64 %v202
  %v204 = load <8 x float>, ptr %v203, align 4
  %v205 = fcmp ogt <8 x float> %v204, splat (float 0xFFF0000000000000)
  %v206 = select <8 x i1> %v205, <8 x float> %v204, <8 x float> splat (float 0xFFF0000000000000)
  %v207 = fcmp uno <8 x float> %v204, %v204
  %v208 = select <8 x i1> %v207, <8 x float> %v204, <8 x float> %v206
  %v209 = add i64 %v202, 1
  %v210 = getelementptr float, ptr %v199, i64 %v209
  %v211 = load <8 x float>, ptr %v210, align 4
  %v212 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v211, <8 x float> splat (float 0xFFF0000000000000)
  %v213 = fcmp ogt <8 x float> %v212, %v208
  %v214 = select <8 x i1> %v213, <8 x float> %v212, <8 x float> %v208
  %v215 = fcmp uno <8 x float> %v212, %v212
  %v216 = select <8 x i1> %v215, <8 x float> %v212, <8 x float> %v214
  %v217 = shufflevector <8 x float> %v216, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v218 = shufflevector <8 x float> %v216, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v219 = fcmp ogt <4 x float> %v218, %v217
  %v220 = select <4 x i1> %v219, <4 x float> %v218, <4 x float> %v217
  %v221 = fcmp uno <4 x float> %v218, %v218
  %v222 = select <4 x i1> %v221, <4 x float> %v218, <4 x float> %v220
  %v223 = shufflevector <4 x float> %v222, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v224 = shufflevector <4 x float> %v222, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v225 = fcmp ogt <2 x float> %v224, %v223
  %v226 = select <2 x i1> %v225, <2 x float> %v224, <2 x float> %v223
  %v227 = fcmp uno <2 x float> %v224, %v224
  %v228 = select <2 x i1> %v227, <2 x float> %v224, <2 x float> %v226
  %v229 = extractelement <2 x float> %v228, i64 0
  %v230 = extractelement <2 x float> %v228, i64 1
  %v231 = fcmp ogt float %v230, %v229
  %v232 = select i1 %v231, float %v230, float %v229
  %v233 = fcmp uno float %v230, %v230
  %v234 = select i1 %v233, float %v230, float %v232
  %v235 = insertelement <8 x float> poison, float %v234, i64 0
  %v236 = shufflevector <8 x float> %v235, <8 x float> poison, <8 x i32> zeroinitializer
  %v237 = fsub <8 x float> %v204, %v236
  %v238 = fcmp olt <8 x float> %v237, splat (float 0xC05A000000000000)
  %v239 = select <8 x i1> %v238, <8 x float> splat (float 0x0000000000000000), <8 x float> %v237
  %v240 = fcmp ogt <8 x float> %v239, splat (float 0x4056400000000000)
  %v241 = select <8 x i1> %v240, <8 x float> splat (float 0x4056400000000000), <8 x float> %v239
  %v242 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v241, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v243 = bitcast <8 x float> %v242 to <8 x i32>
  %v245 = sub <8 x i32> %v243, %v244
  %v246 = fsub <8 x float> %v242, splat (float 0x4168000000000000)
  %v247 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v246, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v241)
  %v248 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v246, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v247)
  %v249 = ashr <8 x i32> %v245, splat (i32 1)
  %v250 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v248, <8 x float> splat (float 0x3F81229B40000000))
  %v251 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v250, <8 x float> %v248, <8 x float> splat (float 0x3FA5556780000000))
  %v252 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v251, <8 x float> %v248, <8 x float> splat (float 0x3FC5554AE0000000))
  %v253 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v252, <8 x float> %v248, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v254 = fmul <8 x float> %v248, %v248
  %v255 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v254, <8 x float> %v253, <8 x float> %v248)
  %v256 = fadd <8 x float> %v255, splat (float 0x3FF0000000000000)
  %v257 = add <8 x i32> %v249, splat (i32 127)
  %v258 = shl <8 x i32> %v257, splat (i32 23)
  %v259 = bitcast <8 x i32> %v258 to <8 x float>
  %v260 = fmul <8 x float> %v256, %v259
  %v261 = sub <8 x i32> %v245, %v249
  %v262 = add <8 x i32> %v261, splat (i32 127)
  %v263 = shl <8 x i32> %v262, splat (i32 23)
  %v264 = bitcast <8 x i32> %v263 to <8 x float>
  %v265 = fmul <8 x float> %v260, %v264
  %v266 = select <8 x i1> %v238, <8 x float> splat (float 0x0000000000000000), <8 x float> %v265
  %v267 = fadd <8 x float> splat (float 0x0000000000000000), %v266
  %v268 = fsub <8 x float> %v211, %v236
  %v269 = fcmp olt <8 x float> %v268, splat (float 0xC05A000000000000)
  %v270 = select <8 x i1> %v269, <8 x float> splat (float 0x0000000000000000), <8 x float> %v268
  %v271 = fcmp ogt <8 x float> %v270, splat (float 0x4056400000000000)
  %v272 = select <8 x i1> %v271, <8 x float> splat (float 0x4056400000000000), <8 x float> %v270
  %v273 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v272, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v274 = bitcast <8 x float> %v273 to <8 x i32>
  %v275 = sub <8 x i32> %v274, %v244
  %v276 = fsub <8 x float> %v273, splat (float 0x4168000000000000)
  %v277 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v276, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v272)
  %v278 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v276, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v277)
  %v279 = ashr <8 x i32> %v275, splat (i32 1)
  %v280 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v278, <8 x float> splat (float 0x3F81229B40000000))
  %v281 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v280, <8 x float> %v278, <8 x float> splat (float 0x3FA5556780000000))
  %v282 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v281, <8 x float> %v278, <8 x float> splat (float 0x3FC5554AE0000000))
  %v283 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v282, <8 x float> %v278, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v284 = fmul <8 x float> %v278, %v278
  %v285 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v284, <8 x float> %v283, <8 x float> %v278)
  %v286 = fadd <8 x float> %v285, splat (float 0x3FF0000000000000)
  %v287 = add <8 x i32> %v279, splat (i32 127)
  %v288 = shl <8 x i32> %v287, splat (i32 23)
  %v289 = bitcast <8 x i32> %v288 to <8 x float>
  %v290 = fmul <8 x float> %v286, %v289
  %v291 = sub <8 x i32> %v275, %v279
  %v292 = add <8 x i32> %v291, splat (i32 127)
  %v293 = shl <8 x i32> %v292, splat (i32 23)
  %v294 = bitcast <8 x i32> %v293 to <8 x float>
  %v295 = fmul <8 x float> %v290, %v294
  %v296 = select <8 x i1> %v269, <8 x float> splat (float 0x0000000000000000), <8 x float> %v295
  %v297 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v296, <8 x float> splat (float 0x0000000000000000)
  %v298 = fadd <8 x float> %v267, %v297
  %v299 = shufflevector <8 x float> %v298, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v300 = shufflevector <8 x float> %v298, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v301 = fadd <4 x float> %v299, %v300
  %v302 = shufflevector <4 x float> %v301, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v303 = shufflevector <4 x float> %v301, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v304 = fadd <2 x float> %v302, %v303
  %v305 = extractelement <2 x float> %v304, i64 0
  %v306 = extractelement <2 x float> %v304, i64 1
  %v307 = fadd float %v305, %v306
  %v308 = fdiv float 0x3FF0000000000000, %v307
  %v309 = insertelement <8 x float> poison, float %v308, i64 0
  %v310 = shufflevector <8 x float> %v309, <8 x float> poison, <8 x i32> zeroinitializer
  %v311 = fmul <8 x float> %v266, %v310
  %v312 = getelementptr float, ptr %v2, i64 %v202
  store <8 x float> %v311, ptr %v312, align 4
  %v313 = fmul <8 x float> %v296, %v310
  %v314 = getelementptr float, ptr %v2, i64 %v209
  store <8 x float> %v313, ptr %v314, align 4
  br label %v200.next
v200.next:
  %v315 = add i64 %v201, 1
  %v315.more = icmp slt i64 %v315, 3
  br i1 %v315.more, label %v200, label %v200.after
v200.after:
  br label %v316.before
v316.before:
  br label %v316
v316:
  %v317 = phi i64 [ 0, %v316.before ], [ %v394, %v316.next ]
  %v318 = phi <8 x float> [ splat (float 0x0000000000000000), %v316.before ], [ %v366, %v316.next ]
  %v319 = phi <8 x float> [ splat (float 0x0000000000000000), %v316.before ], [ %v371, %v316.next ]
  %v320 = phi <8 x float> [ splat (float 0x0000000000000000), %v316.before ], [ %v376, %v316.next ]
  %v321 = phi <8 x float> [ splat (float 0x0000000000000000), %v316.before ], [ %v383, %v316.next ]
  %v322 = phi <8 x float> [ splat (float 0x0000000000000000), %v316.before ], [ %v388, %v316.next ]
  %v323 = phi <8 x float> [ splat (float 0x0000000000000000), %v316.before ], [ %v393, %v316.next ]
  %v324 = mul i64 %v317, 4
  %v325 = getelementptr i8, ptr %v2, i64 %v324
  %v326 = mul i64 %v317, 32
  %v327 = getelementptr i8, ptr %a3, i64 %v326
  %v328 = load <8 x float>, ptr %v327, align 4
  %v329 = load float, ptr %v325, align 4
  %v330 = insertelement <8 x float> poison, float %v329, i64 0
  %v331 = shufflevector <8 x float> %v330, <8 x float> poison, <8 x i32> zeroinitializer
  %v332 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v331, <8 x float> %v328, <8 x float> %v318)
  %v333 = getelementptr i8, ptr %v325, i64 64
  %v334 = load float, ptr %v333, align 4
  %v335 = insertelement <8 x float> poison, float %v334, i64 0
  %v336 = shufflevector <8 x float> %v335, <8 x float> poison, <8 x i32> zeroinitializer
  %v337 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v336, <8 x float> %v328, <8 x float> %v319)
  %v338 = getelementptr i8, ptr %v325, i64 128
  %v339 = load float, ptr %v338, align 4
  %v340 = insertelement <8 x float> poison, float %v339, i64 0
  %v341 = shufflevector <8 x float> %v340, <8 x float> poison, <8 x i32> zeroinitializer
  %v342 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v341, <8 x float> %v328, <8 x float> %v320)
  %v343 = getelementptr i8, ptr %v327, i64 32
  %v344 = load <8 x float>, ptr %v343, align 4
  %v345 = getelementptr i8, ptr %v325, i64 4
  %v346 = load float, ptr %v345, align 4
  %v347 = insertelement <8 x float> poison, float %v346, i64 0
  %v348 = shufflevector <8 x float> %v347, <8 x float> poison, <8 x i32> zeroinitializer
  %v349 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v348, <8 x float> %v344, <8 x float> %v321)
  %v350 = getelementptr i8, ptr %v325, i64 68
  %v351 = load float, ptr %v350, align 4
  %v352 = insertelement <8 x float> poison, float %v351, i64 0
  %v353 = shufflevector <8 x float> %v352, <8 x float> poison, <8 x i32> zeroinitializer
  %v354 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v353, <8 x float> %v344, <8 x float> %v322)
  %v355 = getelementptr i8, ptr %v325, i64 132
  %v356 = load float, ptr %v355, align 4
  %v357 = insertelement <8 x float> poison, float %v356, i64 0
  %v358 = shufflevector <8 x float> %v357, <8 x float> poison, <8 x i32> zeroinitializer
  %v359 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v358, <8 x float> %v344, <8 x float> %v323)
  %v360 = getelementptr i8, ptr %v327, i64 64
  %v361 = load <8 x float>, ptr %v360, align 4
  %v362 = getelementptr i8, ptr %v325, i64 8
  %v363 = load float, ptr %v362, align 4
  %v364 = insertelement <8 x float> poison, float %v363, i64 0
  %v365 = shufflevector <8 x float> %v364, <8 x float> poison, <8 x i32> zeroinitializer
  %v366 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v365, <8 x float> %v361, <8 x float> %v332)
  %v367 = getelementptr i8, ptr %v325, i64 72
  %v368 = load float, ptr %v367, align 4
  %v369 = insertelement <8 x float> poison, float %v368, i64 0
  %v370 = shufflevector <8 x float> %v369, <8 x float> poison, <8 x i32> zeroinitializer
  %v371 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v370, <8 x float> %v361, <8 x float> %v337)
  %v372 = getelementptr i8, ptr %v325, i64 136
  %v373 = load float, ptr %v372, align 4
  %v374 = insertelement <8 x float> poison, float %v373, i64 0
  %v375 = shufflevector <8 x float> %v374, <8 x float> poison, <8 x i32> zeroinitializer
  %v376 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v375, <8 x float> %v361, <8 x float> %v342)
  %v377 = getelementptr i8, ptr %v327, i64 96
  %v378 = load <8 x float>, ptr %v377, align 4
  %v379 = getelementptr i8, ptr %v325, i64 12
  %v380 = load float, ptr %v379, align 4
  %v381 = insertelement <8 x float> poison, float %v380, i64 0
  %v382 = shufflevector <8 x float> %v381, <8 x float> poison, <8 x i32> zeroinitializer
  %v383 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v382, <8 x float> %v378, <8 x float> %v349)
  %v384 = getelementptr i8, ptr %v325, i64 76
  %v385 = load float, ptr %v384, align 4
  %v386 = insertelement <8 x float> poison, float %v385, i64 0
  %v387 = shufflevector <8 x float> %v386, <8 x float> poison, <8 x i32> zeroinitializer
  %v388 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v387, <8 x float> %v378, <8 x float> %v354)
  %v389 = getelementptr i8, ptr %v325, i64 140
  %v390 = load float, ptr %v389, align 4
  %v391 = insertelement <8 x float> poison, float %v390, i64 0
  %v392 = shufflevector <8 x float> %v391, <8 x float> poison, <8 x i32> zeroinitializer
  %v393 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v392, <8 x float> %v378, <8 x float> %v359)
  br label %v316.next
v316.next:
  %v394 = add i64 %v317, 4
  %v394.more = icmp slt i64 %v394, 8
  br i1 %v394.more, label %v316, label %v316.after
v316.after:
  %v395 = getelementptr i8, ptr %a3, i64 256
  %v396 = load <8 x float>, ptr %v395, align 4
  %v397 = getelementptr i8, ptr %v2, i64 32
  %v398 = load float, ptr %v397, align 4
  %v399 = insertelement <8 x float> poison, float %v398, i64 0
  %v400 = shufflevector <8 x float> %v399, <8 x float> poison, <8 x i32> zeroinitializer
  %v401 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v400, <8 x float> %v396, <8 x float> %v366)
  %v402 = getelementptr i8, ptr %v2, i64 96
  %v403 = load float, ptr %v402, align 4
  %v404 = insertelement <8 x float> poison, float %v403, i64 0
  %v405 = shufflevector <8 x float> %v404, <8 x float> poison, <8 x i32> zeroinitializer
  %v406 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v405, <8 x float> %v396, <8 x float> %v371)
  %v407 = getelementptr i8, ptr %v2, i64 160
  %v408 = load float, ptr %v407, align 4
  %v409 = insertelement <8 x float> poison, float %v408, i64 0
  %v410 = shufflevector <8 x float> %v409, <8 x float> poison, <8 x i32> zeroinitializer
  %v411 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v410, <8 x float> %v396, <8 x float> %v376)
  %v412 = fadd <8 x float> %v401, %v383
  %v413 = fadd <8 x float> %v406, %v388
  %v414 = fadd <8 x float> %v411, %v393
  %v415 = getelementptr float, ptr %a0, i64 %v66
  store <8 x float> %v412, ptr %v415, align 4
  %v416 = add i64 16, %v66
  %v417 = getelementptr float, ptr %a0, i64 %v416
  store <8 x float> %v413, ptr %v417, align 4
  %v418 = add i64 32, %v66
  %v419 = getelementptr float, ptr %a0, i64 %v418
  store <8 x float> %v414, ptr %v419, align 4
  %v420 = add i64 %v6, 1
  %v421 = icmp eq i64 %v420, 2
  %v422 = select i1 %v421, i64 0, i64 %v420
  %v423 = zext i1 %v421 to i64
  br label %v4.next
v4.next:
  %v424 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

