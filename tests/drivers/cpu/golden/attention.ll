; attention, 3 rows of 9
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k5b7bf6e74889c35c(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = getelementptr i8, ptr %scratch, i64 512
  %v2 = getelementptr i8, ptr %scratch, i64 704
  %v3 = getelementptr i8, ptr %scratch, i64 768
  %v9 = icmp eq i64 0, 0
  %v170 = add <8 x i32> splat (i32 0), <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v171 = icmp slt <8 x i32> %v170, splat (i32 1)
  %v172 = select <8 x i1> %v171, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v175 = add <8 x i32> splat (i32 1), <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v176 = icmp slt <8 x i32> %v175, splat (i32 1)
  %v177 = select <8 x i1> %v176, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v179 = getelementptr float, ptr %v1, i64 1
  %v181 = icmp slt <8 x i32> %v170, splat (i32 2)
  %v182 = select <8 x i1> %v181, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v184 = getelementptr float, ptr %v1, i64 16
  %v186 = icmp slt <8 x i32> %v175, splat (i32 2)
  %v187 = select <8 x i1> %v186, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v189 = getelementptr float, ptr %v1, i64 17
  %v191 = icmp slt <8 x i32> %v170, splat (i32 3)
  %v192 = select <8 x i1> %v191, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v194 = getelementptr float, ptr %v1, i64 32
  %v196 = icmp slt <8 x i32> %v175, splat (i32 3)
  %v197 = select <8 x i1> %v196, <8 x float> splat (float 0x0000000000000000), <8 x float> splat (float 0xC7EFF933C0000000)
  %v199 = getelementptr float, ptr %v1, i64 33
  %v267 = mul i64 1, 4
  %v396 = mul i64 2, 4
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %begin, %v4.before ], [ %v408, %v4.next ]
  %v6 = phi i64 [ %begin, %v4.before ], [ %v406, %v4.next ]
  %v408.more = icmp slt i64 %v5, %end
  br i1 %v408.more, label %v4.turn, label %v4.after
v4.turn:
  %v7 = sub i64 %v5, %begin
  %v8 = icmp eq i64 %v7, 0
  %v10 = or i1 %v8, %v9
  br i1 %v10, label %v11.then, label %v11.after
v11.then:
  br label %v12.before
v12.before:
  br label %v12
v12:
  %v13 = phi i64 [ 0, %v12.before ], [ %v66, %v12.next ]
  %v14 = mul i64 %v13, 8
  %v15 = call i64 @llvm.smin.i64(i64 %v14, i64 1)
  %v16 = mul i64 %v15, 32
  %v17 = getelementptr i8, ptr %a2, i64 %v16
  %v18 = mul i64 %v13, 32
  %v19 = getelementptr i8, ptr %scratch, i64 %v18
  %v20 = load <8 x float>, ptr %v17, align 4
  %v21 = getelementptr i8, ptr %v17, i64 32
  %v22 = load <8 x float>, ptr %v21, align 4
  %v23 = getelementptr i8, ptr %v17, i64 64
  %v24 = load <8 x float>, ptr %v23, align 4
  %v25 = getelementptr i8, ptr %v17, i64 96
  %v26 = load <8 x float>, ptr %v25, align 4
  %v27 = getelementptr i8, ptr %v17, i64 128
  %v28 = load <8 x float>, ptr %v27, align 4
  %v29 = getelementptr i8, ptr %v17, i64 160
  %v30 = load <8 x float>, ptr %v29, align 4
  %v31 = getelementptr i8, ptr %v17, i64 192
  %v32 = load <8 x float>, ptr %v31, align 4
  %v33 = getelementptr i8, ptr %v17, i64 224
  %v34 = load <8 x float>, ptr %v33, align 4
  %v35 = shufflevector <8 x float> %v20, <8 x float> %v28, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v36 = shufflevector <8 x float> %v20, <8 x float> %v28, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v37 = shufflevector <8 x float> %v22, <8 x float> %v30, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v38 = shufflevector <8 x float> %v22, <8 x float> %v30, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v39 = shufflevector <8 x float> %v24, <8 x float> %v32, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v40 = shufflevector <8 x float> %v24, <8 x float> %v32, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v41 = shufflevector <8 x float> %v26, <8 x float> %v34, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v42 = shufflevector <8 x float> %v26, <8 x float> %v34, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v43 = shufflevector <8 x float> %v35, <8 x float> %v39, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v44 = shufflevector <8 x float> %v35, <8 x float> %v39, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v45 = shufflevector <8 x float> %v36, <8 x float> %v40, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v46 = shufflevector <8 x float> %v36, <8 x float> %v40, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v47 = shufflevector <8 x float> %v37, <8 x float> %v41, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v48 = shufflevector <8 x float> %v37, <8 x float> %v41, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v49 = shufflevector <8 x float> %v38, <8 x float> %v42, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v50 = shufflevector <8 x float> %v38, <8 x float> %v42, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v51 = shufflevector <8 x float> %v43, <8 x float> %v47, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v52 = shufflevector <8 x float> %v43, <8 x float> %v47, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v53 = shufflevector <8 x float> %v44, <8 x float> %v48, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v54 = shufflevector <8 x float> %v44, <8 x float> %v48, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v55 = shufflevector <8 x float> %v45, <8 x float> %v49, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v56 = shufflevector <8 x float> %v45, <8 x float> %v49, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v57 = shufflevector <8 x float> %v46, <8 x float> %v50, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v58 = shufflevector <8 x float> %v46, <8 x float> %v50, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  store <8 x float> %v51, ptr %v19, align 4
  %v59 = getelementptr i8, ptr %v19, i64 64
  store <8 x float> %v52, ptr %v59, align 4
  %v60 = getelementptr i8, ptr %v19, i64 128
  store <8 x float> %v53, ptr %v60, align 4
  %v61 = getelementptr i8, ptr %v19, i64 192
  store <8 x float> %v54, ptr %v61, align 4
  %v62 = getelementptr i8, ptr %v19, i64 256
  store <8 x float> %v55, ptr %v62, align 4
  %v63 = getelementptr i8, ptr %v19, i64 320
  store <8 x float> %v56, ptr %v63, align 4
  %v64 = getelementptr i8, ptr %v19, i64 384
  store <8 x float> %v57, ptr %v64, align 4
  %v65 = getelementptr i8, ptr %v19, i64 448
  store <8 x float> %v58, ptr %v65, align 4
  br label %v12.next
v12.next:
  %v66 = add i64 %v13, 1
  %v66.more = icmp slt i64 %v66, 2
  br i1 %v66.more, label %v12, label %v12.after
v12.after:
  br label %v11.after
v11.after:
  %v67 = mul i64 %v6, 8
  %v68 = mul i64 %v67, 4
  %v69 = getelementptr i8, ptr %a1, i64 %v68
  br label %v70.before
v70.before:
  br label %v70
v70:
  %v71 = phi i64 [ 0, %v70.before ], [ %v168, %v70.next ]
  %v72 = phi <8 x float> [ splat (float 0x0000000000000000), %v70.before ], [ %v154, %v70.next ]
  %v73 = phi <8 x float> [ splat (float 0x0000000000000000), %v70.before ], [ %v155, %v70.next ]
  %v74 = phi <8 x float> [ splat (float 0x0000000000000000), %v70.before ], [ %v160, %v70.next ]
  %v75 = phi <8 x float> [ splat (float 0x0000000000000000), %v70.before ], [ %v161, %v70.next ]
  %v76 = phi <8 x float> [ splat (float 0x0000000000000000), %v70.before ], [ %v166, %v70.next ]
  %v77 = phi <8 x float> [ splat (float 0x0000000000000000), %v70.before ], [ %v167, %v70.next ]
  %v78 = mul i64 %v71, 4
  %v79 = getelementptr i8, ptr %v69, i64 %v78
  %v80 = mul i64 %v71, 64
  %v81 = getelementptr i8, ptr %scratch, i64 %v80
  %v82 = load <8 x float>, ptr %v81, align 32
  %v83 = getelementptr i8, ptr %v81, i64 32
  %v84 = load <8 x float>, ptr %v83, align 32
  %v85 = load float, ptr %v79, align 4
  %v86 = insertelement <8 x float> poison, float %v85, i64 0
  %v87 = shufflevector <8 x float> %v86, <8 x float> poison, <8 x i32> zeroinitializer
  %v88 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v87, <8 x float> %v82, <8 x float> %v72)
  %v89 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v87, <8 x float> %v84, <8 x float> %v73)
  %v90 = getelementptr i8, ptr %v79, i64 64
  %v91 = load float, ptr %v90, align 4
  %v92 = insertelement <8 x float> poison, float %v91, i64 0
  %v93 = shufflevector <8 x float> %v92, <8 x float> poison, <8 x i32> zeroinitializer
  %v94 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v93, <8 x float> %v82, <8 x float> %v74)
  %v95 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v93, <8 x float> %v84, <8 x float> %v75)
  %v96 = getelementptr i8, ptr %v79, i64 128
  %v97 = load float, ptr %v96, align 4
  %v98 = insertelement <8 x float> poison, float %v97, i64 0
  %v99 = shufflevector <8 x float> %v98, <8 x float> poison, <8 x i32> zeroinitializer
  %v100 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v99, <8 x float> %v82, <8 x float> %v76)
  %v101 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v99, <8 x float> %v84, <8 x float> %v77)
  %v102 = getelementptr i8, ptr %v81, i64 64
  %v103 = load <8 x float>, ptr %v102, align 32
  %v104 = getelementptr i8, ptr %v81, i64 96
  %v105 = load <8 x float>, ptr %v104, align 32
  %v106 = getelementptr i8, ptr %v79, i64 4
  %v107 = load float, ptr %v106, align 4
  %v108 = insertelement <8 x float> poison, float %v107, i64 0
  %v109 = shufflevector <8 x float> %v108, <8 x float> poison, <8 x i32> zeroinitializer
  %v110 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v109, <8 x float> %v103, <8 x float> %v88)
  %v111 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v109, <8 x float> %v105, <8 x float> %v89)
  %v112 = getelementptr i8, ptr %v79, i64 68
  %v113 = load float, ptr %v112, align 4
  %v114 = insertelement <8 x float> poison, float %v113, i64 0
  %v115 = shufflevector <8 x float> %v114, <8 x float> poison, <8 x i32> zeroinitializer
  %v116 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v115, <8 x float> %v103, <8 x float> %v94)
  %v117 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v115, <8 x float> %v105, <8 x float> %v95)
  %v118 = getelementptr i8, ptr %v79, i64 132
  %v119 = load float, ptr %v118, align 4
  %v120 = insertelement <8 x float> poison, float %v119, i64 0
  %v121 = shufflevector <8 x float> %v120, <8 x float> poison, <8 x i32> zeroinitializer
  %v122 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v121, <8 x float> %v103, <8 x float> %v100)
  %v123 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v121, <8 x float> %v105, <8 x float> %v101)
  %v124 = getelementptr i8, ptr %v81, i64 128
  %v125 = load <8 x float>, ptr %v124, align 32
  %v126 = getelementptr i8, ptr %v81, i64 160
  %v127 = load <8 x float>, ptr %v126, align 32
  %v128 = getelementptr i8, ptr %v79, i64 8
  %v129 = load float, ptr %v128, align 4
  %v130 = insertelement <8 x float> poison, float %v129, i64 0
  %v131 = shufflevector <8 x float> %v130, <8 x float> poison, <8 x i32> zeroinitializer
  %v132 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v131, <8 x float> %v125, <8 x float> %v110)
  %v133 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v131, <8 x float> %v127, <8 x float> %v111)
  %v134 = getelementptr i8, ptr %v79, i64 72
  %v135 = load float, ptr %v134, align 4
  %v136 = insertelement <8 x float> poison, float %v135, i64 0
  %v137 = shufflevector <8 x float> %v136, <8 x float> poison, <8 x i32> zeroinitializer
  %v138 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v137, <8 x float> %v125, <8 x float> %v116)
  %v139 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v137, <8 x float> %v127, <8 x float> %v117)
  %v140 = getelementptr i8, ptr %v79, i64 136
  %v141 = load float, ptr %v140, align 4
  %v142 = insertelement <8 x float> poison, float %v141, i64 0
  %v143 = shufflevector <8 x float> %v142, <8 x float> poison, <8 x i32> zeroinitializer
  %v144 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v143, <8 x float> %v125, <8 x float> %v122)
  %v145 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v143, <8 x float> %v127, <8 x float> %v123)
  %v146 = getelementptr i8, ptr %v81, i64 192
  %v147 = load <8 x float>, ptr %v146, align 32
  %v148 = getelementptr i8, ptr %v81, i64 224
  %v149 = load <8 x float>, ptr %v148, align 32
  %v150 = getelementptr i8, ptr %v79, i64 12
  %v151 = load float, ptr %v150, align 4
  %v152 = insertelement <8 x float> poison, float %v151, i64 0
  %v153 = shufflevector <8 x float> %v152, <8 x float> poison, <8 x i32> zeroinitializer
  %v154 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v153, <8 x float> %v147, <8 x float> %v132)
  %v155 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v153, <8 x float> %v149, <8 x float> %v133)
  %v156 = getelementptr i8, ptr %v79, i64 76
  %v157 = load float, ptr %v156, align 4
  %v158 = insertelement <8 x float> poison, float %v157, i64 0
  %v159 = shufflevector <8 x float> %v158, <8 x float> poison, <8 x i32> zeroinitializer
  %v160 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v159, <8 x float> %v147, <8 x float> %v138)
  %v161 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v159, <8 x float> %v149, <8 x float> %v139)
  %v162 = getelementptr i8, ptr %v79, i64 140
  %v163 = load float, ptr %v162, align 4
  %v164 = insertelement <8 x float> poison, float %v163, i64 0
  %v165 = shufflevector <8 x float> %v164, <8 x float> poison, <8 x i32> zeroinitializer
  %v166 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v165, <8 x float> %v147, <8 x float> %v144)
  %v167 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v165, <8 x float> %v149, <8 x float> %v145)
  br label %v70.next
v70.next:
  %v168 = add i64 %v71, 4
  %v168.more = icmp slt i64 %v168, 8
  br i1 %v168.more, label %v70, label %v70.after
v70.after:
  %v169 = fmul <8 x float> %v154, splat (float 0x3FD3333340000000)
  %v173 = fadd <8 x float> %v169, %v172
  store <8 x float> %v173, ptr %v1, align 4
  %v174 = fmul <8 x float> %v155, splat (float 0x3FD3333340000000)
  %v178 = fadd <8 x float> %v174, %v177
  store <8 x float> %v178, ptr %v179, align 4
  %v180 = fmul <8 x float> %v160, splat (float 0x3FD3333340000000)
  %v183 = fadd <8 x float> %v180, %v182
  store <8 x float> %v183, ptr %v184, align 4
  %v185 = fmul <8 x float> %v161, splat (float 0x3FD3333340000000)
  %v188 = fadd <8 x float> %v185, %v187
  store <8 x float> %v188, ptr %v189, align 4
  %v190 = fmul <8 x float> %v166, splat (float 0x3FD3333340000000)
  %v193 = fadd <8 x float> %v190, %v192
  store <8 x float> %v193, ptr %v194, align 4
  %v195 = fmul <8 x float> %v167, splat (float 0x3FD3333340000000)
  %v198 = fadd <8 x float> %v195, %v197
  store <8 x float> %v198, ptr %v199, align 4
  %v200 = getelementptr i8, ptr %v1, i64 0
  br label %v201.before
v201.before:
  br label %v201
v201:
  %v202 = phi i64 [ 0, %v201.before ], [ %v284, %v201.next ]
  %v203 = mul i64 %v202, 64
  %v204 = getelementptr i8, ptr %v200, i64 %v203
  %v205 = mul i64 %v202, 16
  %v206 = getelementptr float, ptr %v200, i64 %v205
  %v207 = load <8 x float>, ptr %v206, align 4
  %v208 = fcmp ogt <8 x float> %v207, splat (float 0xFFF0000000000000)
  %v209 = select <8 x i1> %v208, <8 x float> %v207, <8 x float> splat (float 0xFFF0000000000000)
  %v210 = add i64 %v205, 1
  %v211 = getelementptr float, ptr %v200, i64 %v210
  %v212 = load <8 x float>, ptr %v211, align 4
  %v213 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v212, <8 x float> splat (float 0xFFF0000000000000)
  %v214 = fcmp ogt <8 x float> %v213, %v209
  %v215 = select <8 x i1> %v214, <8 x float> %v213, <8 x float> %v209
  %v216 = shufflevector <8 x float> %v215, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v217 = shufflevector <8 x float> %v215, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v218 = fcmp ogt <4 x float> %v217, %v216
  %v219 = select <4 x i1> %v218, <4 x float> %v217, <4 x float> %v216
  %v220 = shufflevector <4 x float> %v219, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v221 = shufflevector <4 x float> %v219, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v222 = fcmp ogt <2 x float> %v221, %v220
  %v223 = select <2 x i1> %v222, <2 x float> %v221, <2 x float> %v220
  %v224 = extractelement <2 x float> %v223, i64 0
  %v225 = extractelement <2 x float> %v223, i64 1
  %v226 = fcmp ogt float %v225, %v224
  %v227 = select i1 %v226, float %v225, float %v224
  %v228 = insertelement <8 x float> poison, float %v227, i64 0
  %v229 = shufflevector <8 x float> %v228, <8 x float> poison, <8 x i32> zeroinitializer
  %v230 = fsub <8 x float> %v212, %v229
  %v231 = fcmp uge <8 x float> %v230, splat (float 0xC051533340000000)
  %v232 = fcmp olt <8 x float> %v230, splat (float 0xC051533340000000)
  %v233 = select <8 x i1> %v232, <8 x float> splat (float 0xC051533340000000), <8 x float> %v230
  %v234 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v233, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000FE0000000))
  %v235 = bitcast <8 x float> %v234 to <8 x i32>
  %v236 = shl <8 x i32> %v235, splat (i32 23)
  %v237 = fsub <8 x float> %v234, splat (float 0x4168000FE0000000)
  %v238 = bitcast <8 x i32> %v236 to <8 x float>
  %v239 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v237, <8 x float> splat (float 0xBFE62E4300000000), <8 x float> %v233)
  %v240 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F80FA64A0000000), <8 x float> %v239, <8 x float> splat (float 0x3FA573CEA0000000))
  %v241 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v240, <8 x float> %v239, <8 x float> splat (float 0x3FC555A780000000))
  %v242 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v241, <8 x float> %v239, <8 x float> splat (float 0x3FDFFFDC00000000))
  %v243 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v242, <8 x float> %v239, <8 x float> splat (float 0x3FEFFFFF60000000))
  %v244 = fmul <8 x float> %v239, %v238
  %v245 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v244, <8 x float> %v243, <8 x float> %v238)
  %v246 = select <8 x i1> %v231, <8 x float> %v245, <8 x float> splat (float 0x0000000000000000)
  %v247 = fsub <8 x float> %v207, %v229
  %v248 = fcmp uge <8 x float> %v247, splat (float 0xC051533340000000)
  %v249 = fcmp olt <8 x float> %v247, splat (float 0xC051533340000000)
  %v250 = select <8 x i1> %v249, <8 x float> splat (float 0xC051533340000000), <8 x float> %v247
  %v251 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v250, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000FE0000000))
  %v252 = bitcast <8 x float> %v251 to <8 x i32>
  %v253 = shl <8 x i32> %v252, splat (i32 23)
  %v254 = fsub <8 x float> %v251, splat (float 0x4168000FE0000000)
  %v255 = bitcast <8 x i32> %v253 to <8 x float>
  %v256 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v254, <8 x float> splat (float 0xBFE62E4300000000), <8 x float> %v250)
  %v257 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F80FA64A0000000), <8 x float> %v256, <8 x float> splat (float 0x3FA573CEA0000000))
  %v258 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v257, <8 x float> %v256, <8 x float> splat (float 0x3FC555A780000000))
  %v259 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v258, <8 x float> %v256, <8 x float> splat (float 0x3FDFFFDC00000000))
  %v260 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v259, <8 x float> %v256, <8 x float> splat (float 0x3FEFFFFF60000000))
  %v261 = fmul <8 x float> %v256, %v255
  %v262 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v261, <8 x float> %v260, <8 x float> %v255)
  %v263 = select <8 x i1> %v248, <8 x float> %v262, <8 x float> splat (float 0x0000000000000000)
  %v264 = fmul <8 x float> %v263, splat (float 0x3FB0000000000000)
  store <8 x float> %v264, ptr %v204, align 4
  %v265 = fadd <8 x float> splat (float 0x0000000000000000), %v263
  %v266 = fmul <8 x float> %v246, splat (float 0x3FB0000000000000)
  %v268 = getelementptr i8, ptr %v204, i64 %v267
  store <8 x float> %v266, ptr %v268, align 4
  %v269 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v246, <8 x float> splat (float 0x0000000000000000)
  %v270 = fadd <8 x float> %v265, %v269
  %v271 = shufflevector <8 x float> %v270, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v272 = shufflevector <8 x float> %v270, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v273 = fadd <4 x float> %v271, %v272
  %v274 = shufflevector <4 x float> %v273, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v275 = shufflevector <4 x float> %v273, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v276 = fadd <2 x float> %v274, %v275
  %v277 = extractelement <2 x float> %v276, i64 0
  %v278 = extractelement <2 x float> %v276, i64 1
  %v279 = fadd float %v277, %v278
  %v280 = fdiv float 0x3FF0000000000000, %v279
  %v281 = fdiv float %v280, 0x3FB0000000000000
  %v282 = mul i64 %v202, 4
  %v283 = getelementptr i8, ptr %v2, i64 %v282
  store float %v281, ptr %v283, align 4
  br label %v201.next
v201.next:
  %v284 = add i64 %v202, 1
  %v284.more = icmp slt i64 %v284, 3
  br i1 %v284.more, label %v201, label %v201.after
v201.after:
  br label %v285.before
v285.before:
  br label %v285
v285:
  %v286 = phi i64 [ 0, %v285.before ], [ %v363, %v285.next ]
  %v287 = phi <8 x float> [ splat (float 0x0000000000000000), %v285.before ], [ %v335, %v285.next ]
  %v288 = phi <8 x float> [ splat (float 0x0000000000000000), %v285.before ], [ %v340, %v285.next ]
  %v289 = phi <8 x float> [ splat (float 0x0000000000000000), %v285.before ], [ %v345, %v285.next ]
  %v290 = phi <8 x float> [ splat (float 0x0000000000000000), %v285.before ], [ %v352, %v285.next ]
  %v291 = phi <8 x float> [ splat (float 0x0000000000000000), %v285.before ], [ %v357, %v285.next ]
  %v292 = phi <8 x float> [ splat (float 0x0000000000000000), %v285.before ], [ %v362, %v285.next ]
  %v293 = mul i64 %v286, 4
  %v294 = getelementptr i8, ptr %v1, i64 %v293
  %v295 = mul i64 %v286, 32
  %v296 = getelementptr i8, ptr %a3, i64 %v295
  %v297 = load <8 x float>, ptr %v296, align 4
  %v298 = load float, ptr %v294, align 4
  %v299 = insertelement <8 x float> poison, float %v298, i64 0
  %v300 = shufflevector <8 x float> %v299, <8 x float> poison, <8 x i32> zeroinitializer
  %v301 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v300, <8 x float> %v297, <8 x float> %v287)
  %v302 = getelementptr i8, ptr %v294, i64 64
  %v303 = load float, ptr %v302, align 4
  %v304 = insertelement <8 x float> poison, float %v303, i64 0
  %v305 = shufflevector <8 x float> %v304, <8 x float> poison, <8 x i32> zeroinitializer
  %v306 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v305, <8 x float> %v297, <8 x float> %v288)
  %v307 = getelementptr i8, ptr %v294, i64 128
  %v308 = load float, ptr %v307, align 4
  %v309 = insertelement <8 x float> poison, float %v308, i64 0
  %v310 = shufflevector <8 x float> %v309, <8 x float> poison, <8 x i32> zeroinitializer
  %v311 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v310, <8 x float> %v297, <8 x float> %v289)
  %v312 = getelementptr i8, ptr %v296, i64 32
  %v313 = load <8 x float>, ptr %v312, align 4
  %v314 = getelementptr i8, ptr %v294, i64 4
  %v315 = load float, ptr %v314, align 4
  %v316 = insertelement <8 x float> poison, float %v315, i64 0
  %v317 = shufflevector <8 x float> %v316, <8 x float> poison, <8 x i32> zeroinitializer
  %v318 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v317, <8 x float> %v313, <8 x float> %v290)
  %v319 = getelementptr i8, ptr %v294, i64 68
  %v320 = load float, ptr %v319, align 4
  %v321 = insertelement <8 x float> poison, float %v320, i64 0
  %v322 = shufflevector <8 x float> %v321, <8 x float> poison, <8 x i32> zeroinitializer
  %v323 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v322, <8 x float> %v313, <8 x float> %v291)
  %v324 = getelementptr i8, ptr %v294, i64 132
  %v325 = load float, ptr %v324, align 4
  %v326 = insertelement <8 x float> poison, float %v325, i64 0
  %v327 = shufflevector <8 x float> %v326, <8 x float> poison, <8 x i32> zeroinitializer
  %v328 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v327, <8 x float> %v313, <8 x float> %v292)
  %v329 = getelementptr i8, ptr %v296, i64 64
  %v330 = load <8 x float>, ptr %v329, align 4
  %v331 = getelementptr i8, ptr %v294, i64 8
  %v332 = load float, ptr %v331, align 4
  %v333 = insertelement <8 x float> poison, float %v332, i64 0
  %v334 = shufflevector <8 x float> %v333, <8 x float> poison, <8 x i32> zeroinitializer
  %v335 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v334, <8 x float> %v330, <8 x float> %v301)
  %v336 = getelementptr i8, ptr %v294, i64 72
  %v337 = load float, ptr %v336, align 4
  %v338 = insertelement <8 x float> poison, float %v337, i64 0
  %v339 = shufflevector <8 x float> %v338, <8 x float> poison, <8 x i32> zeroinitializer
  %v340 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v339, <8 x float> %v330, <8 x float> %v306)
  %v341 = getelementptr i8, ptr %v294, i64 136
  %v342 = load float, ptr %v341, align 4
  %v343 = insertelement <8 x float> poison, float %v342, i64 0
  %v344 = shufflevector <8 x float> %v343, <8 x float> poison, <8 x i32> zeroinitializer
  %v345 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v344, <8 x float> %v330, <8 x float> %v311)
  %v346 = getelementptr i8, ptr %v296, i64 96
  %v347 = load <8 x float>, ptr %v346, align 4
  %v348 = getelementptr i8, ptr %v294, i64 12
  %v349 = load float, ptr %v348, align 4
  %v350 = insertelement <8 x float> poison, float %v349, i64 0
  %v351 = shufflevector <8 x float> %v350, <8 x float> poison, <8 x i32> zeroinitializer
  %v352 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v351, <8 x float> %v347, <8 x float> %v318)
  %v353 = getelementptr i8, ptr %v294, i64 76
  %v354 = load float, ptr %v353, align 4
  %v355 = insertelement <8 x float> poison, float %v354, i64 0
  %v356 = shufflevector <8 x float> %v355, <8 x float> poison, <8 x i32> zeroinitializer
  %v357 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v356, <8 x float> %v347, <8 x float> %v323)
  %v358 = getelementptr i8, ptr %v294, i64 140
  %v359 = load float, ptr %v358, align 4
  %v360 = insertelement <8 x float> poison, float %v359, i64 0
  %v361 = shufflevector <8 x float> %v360, <8 x float> poison, <8 x i32> zeroinitializer
  %v362 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v361, <8 x float> %v347, <8 x float> %v328)
  br label %v285.next
v285.next:
  %v363 = add i64 %v286, 4
  %v363.more = icmp slt i64 %v363, 8
  br i1 %v363.more, label %v285, label %v285.after
v285.after:
  %v364 = getelementptr i8, ptr %a3, i64 256
  %v365 = load <8 x float>, ptr %v364, align 4
  %v366 = getelementptr i8, ptr %v1, i64 32
  %v367 = load float, ptr %v366, align 4
  %v368 = insertelement <8 x float> poison, float %v367, i64 0
  %v369 = shufflevector <8 x float> %v368, <8 x float> poison, <8 x i32> zeroinitializer
  %v370 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v369, <8 x float> %v365, <8 x float> %v335)
  %v371 = getelementptr i8, ptr %v1, i64 96
  %v372 = load float, ptr %v371, align 4
  %v373 = insertelement <8 x float> poison, float %v372, i64 0
  %v374 = shufflevector <8 x float> %v373, <8 x float> poison, <8 x i32> zeroinitializer
  %v375 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v374, <8 x float> %v365, <8 x float> %v340)
  %v376 = getelementptr i8, ptr %v1, i64 160
  %v377 = load float, ptr %v376, align 4
  %v378 = insertelement <8 x float> poison, float %v377, i64 0
  %v379 = shufflevector <8 x float> %v378, <8 x float> poison, <8 x i32> zeroinitializer
  %v380 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v379, <8 x float> %v365, <8 x float> %v345)
  %v381 = fadd <8 x float> %v370, %v352
  %v382 = fadd <8 x float> %v375, %v357
  %v383 = fadd <8 x float> %v380, %v362
  %v384 = load float, ptr %v2, align 4
  %v385 = insertelement <8 x float> poison, float %v384, i64 0
  %v386 = shufflevector <8 x float> %v385, <8 x float> poison, <8 x i32> zeroinitializer
  %v387 = fmul <8 x float> %v381, %v386
  %v388 = getelementptr float, ptr %a0, i64 %v67
  store <8 x float> %v387, ptr %v388, align 4
  %v389 = getelementptr i8, ptr %v2, i64 %v267
  %v390 = load float, ptr %v389, align 4
  %v391 = insertelement <8 x float> poison, float %v390, i64 0
  %v392 = shufflevector <8 x float> %v391, <8 x float> poison, <8 x i32> zeroinitializer
  %v393 = fmul <8 x float> %v382, %v392
  %v394 = add i64 16, %v67
  %v395 = getelementptr float, ptr %a0, i64 %v394
  store <8 x float> %v393, ptr %v395, align 4
  %v397 = getelementptr i8, ptr %v2, i64 %v396
  %v398 = load float, ptr %v397, align 4
  %v399 = insertelement <8 x float> poison, float %v398, i64 0
  %v400 = shufflevector <8 x float> %v399, <8 x float> poison, <8 x i32> zeroinitializer
  %v401 = fmul <8 x float> %v383, %v400
  %v402 = add i64 32, %v67
  %v403 = getelementptr float, ptr %a0, i64 %v402
  store <8 x float> %v401, ptr %v403, align 4
  %v404 = add i64 %v6, 1
  %v405 = icmp eq i64 %v404, 2
  %v406 = select i1 %v405, i64 0, i64 %v404
  %v407 = zext i1 %v405 to i64
  br label %v4.next
v4.next:
  %v408 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

