; attention, 3 rows of 9
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k6ca3370d6724a783(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = getelementptr i8, ptr %scratch, i64 512
  %v2 = getelementptr i8, ptr %scratch, i64 704
  %v3 = getelementptr i8, ptr %scratch, i64 896
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
  %v247 = bitcast <8 x float> splat (float 0x4168000000000000) to <8 x i32>
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %begin, %v4.before ], [ %v429, %v4.next ]
  %v6 = phi i64 [ %begin, %v4.before ], [ %v427, %v4.next ]
  %v429.more = icmp slt i64 %v5, %end
  br i1 %v429.more, label %v4.turn, label %v4.after
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
  %v202 = phi i64 [ 0, %v201.before ], [ %v320, %v201.next ]
  %v203 = mul i64 %v202, 16
  %v204 = getelementptr float, ptr %v200, i64 %v203
  %v205 = load <8 x float>, ptr %v204, align 4
  %v206 = fcmp ogt <8 x float> %v205, splat (float 0xFFF0000000000000)
  %v207 = select <8 x i1> %v206, <8 x float> %v205, <8 x float> splat (float 0xFFF0000000000000)
  %v208 = fcmp uno <8 x float> %v205, %v205
  %v209 = select <8 x i1> %v208, <8 x float> %v205, <8 x float> %v207
  %v210 = add i64 %v203, 1
  %v211 = getelementptr float, ptr %v200, i64 %v210
  %v212 = load <8 x float>, ptr %v211, align 4
  %v213 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v212, <8 x float> splat (float 0xFFF0000000000000)
  %v214 = fcmp ogt <8 x float> %v213, %v209
  %v215 = select <8 x i1> %v214, <8 x float> %v213, <8 x float> %v209
  %v216 = fcmp uno <8 x float> %v213, %v213
  %v217 = select <8 x i1> %v216, <8 x float> %v213, <8 x float> %v215
  %v218 = shufflevector <8 x float> %v217, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v219 = shufflevector <8 x float> %v217, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v220 = fcmp ogt <4 x float> %v219, %v218
  %v221 = select <4 x i1> %v220, <4 x float> %v219, <4 x float> %v218
  %v222 = fcmp uno <4 x float> %v219, %v219
  %v223 = select <4 x i1> %v222, <4 x float> %v219, <4 x float> %v221
  %v224 = shufflevector <4 x float> %v223, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v225 = shufflevector <4 x float> %v223, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v226 = fcmp ogt <2 x float> %v225, %v224
  %v227 = select <2 x i1> %v226, <2 x float> %v225, <2 x float> %v224
  %v228 = fcmp uno <2 x float> %v225, %v225
  %v229 = select <2 x i1> %v228, <2 x float> %v225, <2 x float> %v227
  %v230 = extractelement <2 x float> %v229, i64 0
  %v231 = extractelement <2 x float> %v229, i64 1
  %v232 = fcmp ogt float %v231, %v230
  %v233 = select i1 %v232, float %v231, float %v230
  %v234 = fcmp uno float %v231, %v231
  %v235 = select i1 %v234, float %v231, float %v233
  %v236 = insertelement <8 x float> poison, float %v235, i64 0
  %v237 = shufflevector <8 x float> %v236, <8 x float> poison, <8 x i32> zeroinitializer
  %v238 = fsub <8 x float> %v205, %v237
  %v239 = fcmp olt <8 x float> %v238, splat (float 0xC051533340000000)
  %v240 = select <8 x i1> %v239, <8 x float> splat (float 0xC069000000000000), <8 x float> %v238
  %v241 = fcmp olt <8 x float> %v240, splat (float 0xC05A000000000000)
  %v242 = select <8 x i1> %v241, <8 x float> splat (float 0x0000000000000000), <8 x float> %v240
  %v243 = fcmp ogt <8 x float> %v242, splat (float 0x4056400000000000)
  %v244 = select <8 x i1> %v243, <8 x float> splat (float 0x4056400000000000), <8 x float> %v242
  %v245 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v244, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v246 = bitcast <8 x float> %v245 to <8 x i32>
  %v248 = sub <8 x i32> %v246, %v247
  %v249 = fsub <8 x float> %v245, splat (float 0x4168000000000000)
  %v250 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v249, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v244)
  %v251 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v249, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v250)
  %v252 = ashr <8 x i32> %v248, splat (i32 1)
  %v253 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v251, <8 x float> splat (float 0x3F81229B40000000))
  %v254 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v253, <8 x float> %v251, <8 x float> splat (float 0x3FA5556780000000))
  %v255 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v254, <8 x float> %v251, <8 x float> splat (float 0x3FC5554AE0000000))
  %v256 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v255, <8 x float> %v251, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v257 = fmul <8 x float> %v251, %v251
  %v258 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v257, <8 x float> %v256, <8 x float> %v251)
  %v259 = fadd <8 x float> %v258, splat (float 0x3FF0000000000000)
  %v260 = add <8 x i32> %v252, splat (i32 127)
  %v261 = shl <8 x i32> %v260, splat (i32 23)
  %v262 = bitcast <8 x i32> %v261 to <8 x float>
  %v263 = fmul <8 x float> %v259, %v262
  %v264 = sub <8 x i32> %v248, %v252
  %v265 = add <8 x i32> %v264, splat (i32 127)
  %v266 = shl <8 x i32> %v265, splat (i32 23)
  %v267 = bitcast <8 x i32> %v266 to <8 x float>
  %v268 = fmul <8 x float> %v263, %v267
  %v269 = select <8 x i1> %v241, <8 x float> splat (float 0x0000000000000000), <8 x float> %v268
  %v270 = fadd <8 x float> splat (float 0x0000000000000000), %v269
  %v271 = fsub <8 x float> %v212, %v237
  %v272 = fcmp olt <8 x float> %v271, splat (float 0xC051533340000000)
  %v273 = select <8 x i1> %v272, <8 x float> splat (float 0xC069000000000000), <8 x float> %v271
  %v274 = fcmp olt <8 x float> %v273, splat (float 0xC05A000000000000)
  %v275 = select <8 x i1> %v274, <8 x float> splat (float 0x0000000000000000), <8 x float> %v273
  %v276 = fcmp ogt <8 x float> %v275, splat (float 0x4056400000000000)
  %v277 = select <8 x i1> %v276, <8 x float> splat (float 0x4056400000000000), <8 x float> %v275
  %v278 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v277, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000000000000))
  %v279 = bitcast <8 x float> %v278 to <8 x i32>
  %v280 = sub <8 x i32> %v279, %v247
  %v281 = fsub <8 x float> %v278, splat (float 0x4168000000000000)
  %v282 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v281, <8 x float> splat (float 0xBFE62E4000000000), <8 x float> %v277)
  %v283 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v281, <8 x float> splat (float 0xBEB7F7D1C0000000), <8 x float> %v282)
  %v284 = ashr <8 x i32> %v280, splat (i32 1)
  %v285 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F56BEBAE0000000), <8 x float> %v283, <8 x float> splat (float 0x3F81229B40000000))
  %v286 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v285, <8 x float> %v283, <8 x float> splat (float 0x3FA5556780000000))
  %v287 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v286, <8 x float> %v283, <8 x float> splat (float 0x3FC5554AE0000000))
  %v288 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v287, <8 x float> %v283, <8 x float> splat (float 0x3FDFFFFFE0000000))
  %v289 = fmul <8 x float> %v283, %v283
  %v290 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v289, <8 x float> %v288, <8 x float> %v283)
  %v291 = fadd <8 x float> %v290, splat (float 0x3FF0000000000000)
  %v292 = add <8 x i32> %v284, splat (i32 127)
  %v293 = shl <8 x i32> %v292, splat (i32 23)
  %v294 = bitcast <8 x i32> %v293 to <8 x float>
  %v295 = fmul <8 x float> %v291, %v294
  %v296 = sub <8 x i32> %v280, %v284
  %v297 = add <8 x i32> %v296, splat (i32 127)
  %v298 = shl <8 x i32> %v297, splat (i32 23)
  %v299 = bitcast <8 x i32> %v298 to <8 x float>
  %v300 = fmul <8 x float> %v295, %v299
  %v301 = select <8 x i1> %v274, <8 x float> splat (float 0x0000000000000000), <8 x float> %v300
  %v302 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v301, <8 x float> splat (float 0x0000000000000000)
  %v303 = fadd <8 x float> %v270, %v302
  %v304 = shufflevector <8 x float> %v303, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v305 = shufflevector <8 x float> %v303, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v306 = fadd <4 x float> %v304, %v305
  %v307 = shufflevector <4 x float> %v306, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v308 = shufflevector <4 x float> %v306, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v309 = fadd <2 x float> %v307, %v308
  %v310 = extractelement <2 x float> %v309, i64 0
  %v311 = extractelement <2 x float> %v309, i64 1
  %v312 = fadd float %v310, %v311
  %v313 = fdiv float 0x3FF0000000000000, %v312
  %v314 = insertelement <8 x float> poison, float %v313, i64 0
  %v315 = shufflevector <8 x float> %v314, <8 x float> poison, <8 x i32> zeroinitializer
  %v316 = fmul <8 x float> %v269, %v315
  %v317 = getelementptr float, ptr %v2, i64 %v203
  store <8 x float> %v316, ptr %v317, align 4
  %v318 = fmul <8 x float> %v301, %v315
  %v319 = getelementptr float, ptr %v2, i64 %v210
  store <8 x float> %v318, ptr %v319, align 4
  br label %v201.next
v201.next:
  %v320 = add i64 %v202, 1
  %v320.more = icmp slt i64 %v320, 3
  br i1 %v320.more, label %v201, label %v201.after
v201.after:
  br label %v321.before
v321.before:
  br label %v321
v321:
  %v322 = phi i64 [ 0, %v321.before ], [ %v399, %v321.next ]
  %v323 = phi <8 x float> [ splat (float 0x0000000000000000), %v321.before ], [ %v371, %v321.next ]
  %v324 = phi <8 x float> [ splat (float 0x0000000000000000), %v321.before ], [ %v376, %v321.next ]
  %v325 = phi <8 x float> [ splat (float 0x0000000000000000), %v321.before ], [ %v381, %v321.next ]
  %v326 = phi <8 x float> [ splat (float 0x0000000000000000), %v321.before ], [ %v388, %v321.next ]
  %v327 = phi <8 x float> [ splat (float 0x0000000000000000), %v321.before ], [ %v393, %v321.next ]
  %v328 = phi <8 x float> [ splat (float 0x0000000000000000), %v321.before ], [ %v398, %v321.next ]
  %v329 = mul i64 %v322, 4
  %v330 = getelementptr i8, ptr %v2, i64 %v329
  %v331 = mul i64 %v322, 32
  %v332 = getelementptr i8, ptr %a3, i64 %v331
  %v333 = load <8 x float>, ptr %v332, align 4
  %v334 = load float, ptr %v330, align 4
  %v335 = insertelement <8 x float> poison, float %v334, i64 0
  %v336 = shufflevector <8 x float> %v335, <8 x float> poison, <8 x i32> zeroinitializer
  %v337 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v336, <8 x float> %v333, <8 x float> %v323)
  %v338 = getelementptr i8, ptr %v330, i64 64
  %v339 = load float, ptr %v338, align 4
  %v340 = insertelement <8 x float> poison, float %v339, i64 0
  %v341 = shufflevector <8 x float> %v340, <8 x float> poison, <8 x i32> zeroinitializer
  %v342 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v341, <8 x float> %v333, <8 x float> %v324)
  %v343 = getelementptr i8, ptr %v330, i64 128
  %v344 = load float, ptr %v343, align 4
  %v345 = insertelement <8 x float> poison, float %v344, i64 0
  %v346 = shufflevector <8 x float> %v345, <8 x float> poison, <8 x i32> zeroinitializer
  %v347 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v346, <8 x float> %v333, <8 x float> %v325)
  %v348 = getelementptr i8, ptr %v332, i64 32
  %v349 = load <8 x float>, ptr %v348, align 4
  %v350 = getelementptr i8, ptr %v330, i64 4
  %v351 = load float, ptr %v350, align 4
  %v352 = insertelement <8 x float> poison, float %v351, i64 0
  %v353 = shufflevector <8 x float> %v352, <8 x float> poison, <8 x i32> zeroinitializer
  %v354 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v353, <8 x float> %v349, <8 x float> %v326)
  %v355 = getelementptr i8, ptr %v330, i64 68
  %v356 = load float, ptr %v355, align 4
  %v357 = insertelement <8 x float> poison, float %v356, i64 0
  %v358 = shufflevector <8 x float> %v357, <8 x float> poison, <8 x i32> zeroinitializer
  %v359 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v358, <8 x float> %v349, <8 x float> %v327)
  %v360 = getelementptr i8, ptr %v330, i64 132
  %v361 = load float, ptr %v360, align 4
  %v362 = insertelement <8 x float> poison, float %v361, i64 0
  %v363 = shufflevector <8 x float> %v362, <8 x float> poison, <8 x i32> zeroinitializer
  %v364 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v363, <8 x float> %v349, <8 x float> %v328)
  %v365 = getelementptr i8, ptr %v332, i64 64
  %v366 = load <8 x float>, ptr %v365, align 4
  %v367 = getelementptr i8, ptr %v330, i64 8
  %v368 = load float, ptr %v367, align 4
  %v369 = insertelement <8 x float> poison, float %v368, i64 0
  %v370 = shufflevector <8 x float> %v369, <8 x float> poison, <8 x i32> zeroinitializer
  %v371 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v370, <8 x float> %v366, <8 x float> %v337)
  %v372 = getelementptr i8, ptr %v330, i64 72
  %v373 = load float, ptr %v372, align 4
  %v374 = insertelement <8 x float> poison, float %v373, i64 0
  %v375 = shufflevector <8 x float> %v374, <8 x float> poison, <8 x i32> zeroinitializer
  %v376 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v375, <8 x float> %v366, <8 x float> %v342)
  %v377 = getelementptr i8, ptr %v330, i64 136
  %v378 = load float, ptr %v377, align 4
  %v379 = insertelement <8 x float> poison, float %v378, i64 0
  %v380 = shufflevector <8 x float> %v379, <8 x float> poison, <8 x i32> zeroinitializer
  %v381 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v380, <8 x float> %v366, <8 x float> %v347)
  %v382 = getelementptr i8, ptr %v332, i64 96
  %v383 = load <8 x float>, ptr %v382, align 4
  %v384 = getelementptr i8, ptr %v330, i64 12
  %v385 = load float, ptr %v384, align 4
  %v386 = insertelement <8 x float> poison, float %v385, i64 0
  %v387 = shufflevector <8 x float> %v386, <8 x float> poison, <8 x i32> zeroinitializer
  %v388 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v387, <8 x float> %v383, <8 x float> %v354)
  %v389 = getelementptr i8, ptr %v330, i64 76
  %v390 = load float, ptr %v389, align 4
  %v391 = insertelement <8 x float> poison, float %v390, i64 0
  %v392 = shufflevector <8 x float> %v391, <8 x float> poison, <8 x i32> zeroinitializer
  %v393 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v392, <8 x float> %v383, <8 x float> %v359)
  %v394 = getelementptr i8, ptr %v330, i64 140
  %v395 = load float, ptr %v394, align 4
  %v396 = insertelement <8 x float> poison, float %v395, i64 0
  %v397 = shufflevector <8 x float> %v396, <8 x float> poison, <8 x i32> zeroinitializer
  %v398 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v397, <8 x float> %v383, <8 x float> %v364)
  br label %v321.next
v321.next:
  %v399 = add i64 %v322, 4
  %v399.more = icmp slt i64 %v399, 8
  br i1 %v399.more, label %v321, label %v321.after
v321.after:
  %v400 = getelementptr i8, ptr %a3, i64 256
  %v401 = load <8 x float>, ptr %v400, align 4
  %v402 = getelementptr i8, ptr %v2, i64 32
  %v403 = load float, ptr %v402, align 4
  %v404 = insertelement <8 x float> poison, float %v403, i64 0
  %v405 = shufflevector <8 x float> %v404, <8 x float> poison, <8 x i32> zeroinitializer
  %v406 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v405, <8 x float> %v401, <8 x float> %v371)
  %v407 = getelementptr i8, ptr %v2, i64 96
  %v408 = load float, ptr %v407, align 4
  %v409 = insertelement <8 x float> poison, float %v408, i64 0
  %v410 = shufflevector <8 x float> %v409, <8 x float> poison, <8 x i32> zeroinitializer
  %v411 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v410, <8 x float> %v401, <8 x float> %v376)
  %v412 = getelementptr i8, ptr %v2, i64 160
  %v413 = load float, ptr %v412, align 4
  %v414 = insertelement <8 x float> poison, float %v413, i64 0
  %v415 = shufflevector <8 x float> %v414, <8 x float> poison, <8 x i32> zeroinitializer
  %v416 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v415, <8 x float> %v401, <8 x float> %v381)
  %v417 = fadd <8 x float> %v406, %v388
  %v418 = fadd <8 x float> %v411, %v393
  %v419 = fadd <8 x float> %v416, %v398
  %v420 = getelementptr float, ptr %a0, i64 %v67
  store <8 x float> %v417, ptr %v420, align 4
  %v421 = add i64 16, %v67
  %v422 = getelementptr float, ptr %a0, i64 %v421
  store <8 x float> %v418, ptr %v422, align 4
  %v423 = add i64 32, %v67
  %v424 = getelementptr float, ptr %a0, i64 %v423
  store <8 x float> %v419, ptr %v424, align 4
  %v425 = add i64 %v6, 1
  %v426 = icmp eq i64 %v425, 2
  %v427 = select i1 %v426, i64 0, i64 %v425
  %v428 = zext i1 %v426 to i64
  br label %v4.next
v4.next:
  %v429 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

