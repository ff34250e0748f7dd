; attention, 3 rows of 9
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @kc0bb40b1986bd43e(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
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
  %v234 = bitcast <8 x float> splat (float 0x4168000000000000) to <8 x i32>
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %begin, %v4.before ], [ %v414, %v4.next ]
  %v6 = phi i64 [ %begin, %v4.before ], [ %v412, %v4.next ]
  %v414.more = icmp slt i64 %v5, %end
  br i1 %v414.more, label %v4.turn, label %v4.after
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
  %v201 = phi i64 [ 0, %v200.before ], [ %v305, %v200.next ]
  %v202 = mul i64 %v201, 16
  %v203 = getelementptr float, ptr %v199, i64 %v202
  %v204 = load <8 x float>, ptr %v203, align 4
  %v205 = fcmp ogt <8 x float> %v204, splat (float 0xFFF0000000000000)
  %v206 = select <8 x i1> %v205, <8 x float> %v204, <8 x float> splat (float 0xFFF0000000000000)
  %v207 = add i64 %v202, 1
  %v208 = getelementptr float, ptr %v199, i64 %v207
  %v209 = load <8 x float>, ptr %v208, align 4
  %v210 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v209, <8 x float> splat (float 0xFFF0000000000000)
  %v211 = fcmp ogt <8 x float> %v210, %v206
  %v212 = select <8 x i1> %v211, <8 x float> %v210, <8 x float> %v206
  %v213 = shufflevector <8 x float> %v212, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v214 = shufflevector <8 x float> %v212, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v215 = fcmp ogt <4 x float> %v214, %v213
  %v216 = select <4 x i1> %v215, <4 x float> %v214, <4 x float> %v213
  %v217 = shufflevector <4 x float> %v216, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v218 = shufflevector <4 x float> %v216, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v219 = fcmp ogt <2 x float> %v218, %v217
  %v220 = select <2 x i1> %v219, <2 x float> %v218, <2 x float> %v217
  %v221 = extractelement <2 x float> %v220, i64 0
  %v222 = extractelement <2 x float> %v220, i64 1
  %v223 = fcmp ogt float %v222, %v221
  %v224 = select i1 %v223, float %v222, float %v221
  %v225 = insertelement <8 x float> poison, float %v224, i64 0
  %v226 = shufflevector <8 x float> %v225, <8 x float> poison, <8 x i32> zeroinitializer
  %v227 = fsub <8 x float> %v204, %v226
  %v228 = fcmp olt <8 x float> %v227, splat (float 0xC05A000000000000)
  %v229 = select <8 x i1> %v228, <8 x float> splat (float 0x0000000000000000), <8 x float> %v227
  %v230 = fcmp ogt <8 x float> %v229, splat (float 0x4056400000000000)
  %v231 = select <8 x i1> %v230, <8 x float> splat (float 0x4056400000000000), <8 x float> %v229
  %v232 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v231, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v233 = bitcast <8 x float> %v232 to <8 x i32>
  %v235 = sub <8 x i32> %v233, %v234
  %v236 = fsub <8 x float> %v232, splat (float 0x4168000000000000)
  %v237 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v236, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v231)
  %v238 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v236, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v237)
  %v239 = ashr <8 x i32> %v235, splat (i32 1)
  %v240 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v238, <8 x float> splat (float 0x3F81229B40000000))
  %v241 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v240, <8 x float> %v238, <8 x float> splat (float 0x3FA5556780000000))
  %v242 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v241, <8 x float> %v238, <8 x float> splat (float 0x3FC5554AE0000000))
  %v243 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v242, <8 x float> %v238, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v244 = fmul <8 x float> %v238, %v238
  %v245 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v244, <8 x float> %v243, <8 x float> %v238)
  %v246 = fadd <8 x float> %v245, splat (float 0x3FF0000000000000)
  %v247 = add <8 x i32> %v239, splat (i32 127)
  %v248 = shl <8 x i32> %v247, splat (i32 23)
  %v249 = bitcast <8 x i32> %v248 to <8 x float>
  %v250 = fmul <8 x float> %v246, %v249
  %v251 = sub <8 x i32> %v235, %v239
  %v252 = add <8 x i32> %v251, splat (i32 127)
  %v253 = shl <8 x i32> %v252, splat (i32 23)
  %v254 = bitcast <8 x i32> %v253 to <8 x float>
  %v255 = fmul <8 x float> %v250, %v254
  %v256 = select <8 x i1> %v228, <8 x float> splat (float 0x0000000000000000), <8 x float> %v255
  %v257 = fadd <8 x float> splat (float 0x0000000000000000), %v256
  %v258 = fsub <8 x float> %v209, %v226
  %v259 = fcmp olt <8 x float> %v258, splat (float 0xC05A000000000000)
  %v260 = select <8 x i1> %v259, <8 x float> splat (float 0x0000000000000000), <8 x float> %v258
  %v261 = fcmp ogt <8 x float> %v260, splat (float 0x4056400000000000)
  %v262 = select <8 x i1> %v261, <8 x float> splat (float 0x4056400000000000), <8 x float> %v260
  %v263 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v262, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v264 = bitcast <8 x float> %v263 to <8 x i32>
  %v265 = sub <8 x i32> %v264, %v234
  %v266 = fsub <8 x float> %v263, splat (float 0x4168000000000000)
  %v267 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v266, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v262)
  %v268 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v266, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v267)
  %v269 = ashr <8 x i32> %v265, splat (i32 1)
  %v270 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v268, <8 x float> splat (float 0x3F81229B40000000))
  %v271 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v270, <8 x float> %v268, <8 x float> splat (float 0x3FA5556780000000))
  %v272 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v271, <8 x float> %v268, <8 x float> splat (float 0x3FC5554AE0000000))
  %v273 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v272, <8 x float> %v268, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v274 = fmul <8 x float> %v268, %v268
  %v275 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v274, <8 x float> %v273, <8 x float> %v268)
  %v276 = fadd <8 x float> %v275, splat (float 0x3FF0000000000000)
  %v277 = add <8 x i32> %v269, splat (i32 127)
  %v278 = shl <8 x i32> %v277, splat (i32 23)
  %v279 = bitcast <8 x i32> %v278 to <8 x float>
  %v280 = fmul <8 x float> %v276, %v279
  %v281 = sub <8 x i32> %v265, %v269
  %v282 = add <8 x i32> %v281, splat (i32 127)
  %v283 = shl <8 x i32> %v282, splat (i32 23)
  %v284 = bitcast <8 x i32> %v283 to <8 x float>
  %v285 = fmul <8 x float> %v280, %v284
  %v286 = select <8 x i1> %v259, <8 x float> splat (float 0x0000000000000000), <8 x float> %v285
  %v287 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v286, <8 x float> splat (float 0x0000000000000000)
  %v288 = fadd <8 x float> %v257, %v287
  %v289 = shufflevector <8 x float> %v288, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v290 = shufflevector <8 x float> %v288, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v291 = fadd <4 x float> %v289, %v290
  %v292 = shufflevector <4 x float> %v291, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v293 = shufflevector <4 x float> %v291, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v294 = fadd <2 x float> %v292, %v293
  %v295 = extractelement <2 x float> %v294, i64 0
  %v296 = extractelement <2 x float> %v294, i64 1
  %v297 = fadd float %v295, %v296
  %v298 = fdiv float 0x3FF0000000000000, %v297
  %v299 = insertelement <8 x float> poison, float %v298, i64 0
  %v300 = shufflevector <8 x float> %v299, <8 x float> poison, <8 x i32> zeroinitializer
  %v301 = fmul <8 x float> %v256, %v300
  %v302 = getelementptr float, ptr %v2, i64 %v202
  store <8 x float> %v301, ptr %v302, align 4
  %v303 = fmul <8 x float> %v286, %v300
  %v304 = getelementptr float, ptr %v2, i64 %v207
  store <8 x float> %v303, ptr %v304, align 4
  br label %v200.next
v200.next:
  %v305 = add i64 %v201, 1
  %v305.more = icmp slt i64 %v305, 3
  br i1 %v305.more, label %v200, label %v200.after
v200.after:
  br label %v306.before
v306.before:
  br label %v306
v306:
  %v307 = phi i64 [ 0, %v306.before ], [ %v384, %v306.next ]
  %v308 = phi <8 x float> [ splat (float 0x0000000000000000), %v306.before ], [ %v356, %v306.next ]
  %v309 = phi <8 x float> [ splat (float 0x0000000000000000), %v306.before ], [ %v361, %v306.next ]
  %v310 = phi <8 x float> [ splat (float 0x0000000000000000), %v306.before ], [ %v366, %v306.next ]
  %v311 = phi <8 x float> [ splat (float 0x0000000000000000), %v306.before ], [ %v373, %v306.next ]
  %v312 = phi <8 x float> [ splat (float 0x0000000000000000), %v306.before ], [ %v378, %v306.next ]
  %v313 = phi <8 x float> [ splat (float 0x0000000000000000), %v306.before ], [ %v383, %v306.next ]
  %v314 = mul i64 %v307, 4
  %v315 = getelementptr i8, ptr %v2, i64 %v314
  %v316 = mul i64 %v307, 32
  %v317 = getelementptr i8, ptr %a3, i64 %v316
  %v318 = load <8 x float>, ptr %v317, align 4
  %v319 = load float, ptr %v315, align 4
  %v320 = insertelement <8 x float> poison, float %v319, i64 0
  %v321 = shufflevector <8 x float> %v320, <8 x float> poison, <8 x i32> zeroinitializer
  %v322 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v321, <8 x float> %v318, <8 x float> %v308)
  %v323 = getelementptr i8, ptr %v315, i64 64
  %v324 = load float, ptr %v323, align 4
  %v325 = insertelement <8 x float> poison, float %v324, i64 0
  %v326 = shufflevector <8 x float> %v325, <8 x float> poison, <8 x i32> zeroinitializer
  %v327 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v326, <8 x float> %v318, <8 x float> %v309)
  %v328 = getelementptr i8, ptr %v315, i64 128
  %v329 = load float, ptr %v328, align 4
  %v330 = insertelement <8 x float> poison, float %v329, i64 0
  %v331 = shufflevector <8 x float> %v330, <8 x float> poison, <8 x i32> zeroinitializer
  %v332 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v331, <8 x float> %v318, <8 x float> %v310)
  %v333 = getelementptr i8, ptr %v317, i64 32
  %v334 = load <8 x float>, ptr %v333, align 4
  %v335 = getelementptr i8, ptr %v315, i64 4
  %v336 = load float, ptr %v335, align 4
  %v337 = insertelement <8 x float> poison, float %v336, i64 0
  %v338 = shufflevector <8 x float> %v337, <8 x float> poison, <8 x i32> zeroinitializer
  %v339 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v338, <8 x float> %v334, <8 x float> %v311)
  %v340 = getelementptr i8, ptr %v315, i64 68
  %v341 = load float, ptr %v340, align 4
  %v342 = insertelement <8 x float> poison, float %v341, i64 0
  %v343 = shufflevector <8 x float> %v342, <8 x float> poison, <8 x i32> zeroinitializer
  %v344 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v343, <8 x float> %v334, <8 x float> %v312)
  %v345 = getelementptr i8, ptr %v315, i64 132
  %v346 = load float, ptr %v345, align 4
  %v347 = insertelement <8 x float> poison, float %v346, i64 0
  %v348 = shufflevector <8 x float> %v347, <8 x float> poison, <8 x i32> zeroinitializer
  %v349 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v348, <8 x float> %v334, <8 x float> %v313)
  %v350 = getelementptr i8, ptr %v317, i64 64
  %v351 = load <8 x float>, ptr %v350, align 4
  %v352 = getelementptr i8, ptr %v315, i64 8
  %v353 = load float, ptr %v352, align 4
  %v354 = insertelement <8 x float> poison, float %v353, i64 0
  %v355 = shufflevector <8 x float> %v354, <8 x float> poison, <8 x i32> zeroinitializer
  %v356 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v355, <8 x float> %v351, <8 x float> %v322)
  %v357 = getelementptr i8, ptr %v315, i64 72
  %v358 = load float, ptr %v357, align 4
  %v359 = insertelement <8 x float> poison, float %v358, i64 0
  %v360 = shufflevector <8 x float> %v359, <8 x float> poison, <8 x i32> zeroinitializer
  %v361 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v360, <8 x float> %v351, <8 x float> %v327)
  %v362 = getelementptr i8, ptr %v315, i64 136
  %v363 = load float, ptr %v362, align 4
  %v364 = insertelement <8 x float> poison, float %v363, i64 0
  %v365 = shufflevector <8 x float> %v364, <8 x float> poison, <8 x i32> zeroinitializer
  %v366 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v365, <8 x float> %v351, <8 x float> %v332)
  %v367 = getelementptr i8, ptr %v317, i64 96
  %v368 = load <8 x float>, ptr %v367, align 4
  %v369 = getelementptr i8, ptr %v315, i64 12
  %v370 = load float, ptr %v369, align 4
  %v371 = insertelement <8 x float> poison, float %v370, i64 0
  %v372 = shufflevector <8 x float> %v371, <8 x float> poison, <8 x i32> zeroinitializer
  %v373 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v372, <8 x float> %v368, <8 x float> %v339)
  %v374 = getelementptr i8, ptr %v315, i64 76
  %v375 = load float, ptr %v374, align 4
  %v376 = insertelement <8 x float> poison, float %v375, i64 0
  %v377 = shufflevector <8 x float> %v376, <8 x float> poison, <8 x i32> zeroinitializer
  %v378 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v377, <8 x float> %v368, <8 x float> %v344)
  %v379 = getelementptr i8, ptr %v315, i64 140
  %v380 = load float, ptr %v379, align 4
  %v381 = insertelement <8 x float> poison, float %v380, i64 0
  %v382 = shufflevector <8 x float> %v381, <8 x float> poison, <8 x i32> zeroinitializer
  %v383 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v382, <8 x float> %v368, <8 x float> %v349)
  br label %v306.next
v306.next:
  %v384 = add i64 %v307, 4
  %v384.more = icmp slt i64 %v384, 8
  br i1 %v384.more, label %v306, label %v306.after
v306.after:
  %v385 = getelementptr i8, ptr %a3, i64 256
  %v386 = load <8 x float>, ptr %v385, align 4
  %v387 = getelementptr i8, ptr %v2, i64 32
  %v388 = load float, ptr %v387, align 4
  %v389 = insertelement <8 x float> poison, float %v388, i64 0
  %v390 = shufflevector <8 x float> %v389, <8 x float> poison, <8 x i32> zeroinitializer
  %v391 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v390, <8 x float> %v386, <8 x float> %v356)
  %v392 = getelementptr i8, ptr %v2, i64 96
  %v393 = load float, ptr %v392, align 4
  %v394 = insertelement <8 x float> poison, float %v393, i64 0
  %v395 = shufflevector <8 x float> %v394, <8 x float> poison, <8 x i32> zeroinitializer
  %v396 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v395, <8 x float> %v386, <8 x float> %v361)
  %v397 = getelementptr i8, ptr %v2, i64 160
  %v398 = load float, ptr %v397, align 4
  %v399 = insertelement <8 x float> poison, float %v398, i64 0
  %v400 = shufflevector <8 x float> %v399, <8 x float> poison, <8 x i32> zeroinitializer
  %v401 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v400, <8 x float> %v386, <8 x float> %v366)
  %v402 = fadd <8 x float> %v391, %v373
  %v403 = fadd <8 x float> %v396, %v378
  %v404 = fadd <8 x float> %v401, %v383
  %v405 = getelementptr float, ptr %a0, i64 %v66
  store <8 x float> %v402, ptr %v405, align 4
  %v406 = add i64 16, %v66
  %v407 = getelementptr float, ptr %a0, i64 %v406
  store <8 x float> %v403, ptr %v407, align 4
  %v408 = add i64 32, %v66
  %v409 = getelementptr float, ptr %a0, i64 %v408
  store <8 x float> %v404, ptr %v409, align 4
  %v410 = add i64 %v6, 1
  %v411 = icmp eq i64 %v410, 2
  %v412 = select i1 %v411, i64 0, i64 %v410
  %v413 = zext i1 %v411 to i64
  br label %v4.next
v4.next:
  %v414 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

