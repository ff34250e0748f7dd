; attention, 3 rows of 9
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k394f2a0ad45c32e1(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
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
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %begin, %v4.before ], [ %v390, %v4.next ]
  %v6 = phi i64 [ %begin, %v4.before ], [ %v388, %v4.next ]
  %v390.more = icmp slt i64 %v5, %end
  br i1 %v390.more, label %v4.turn, label %v4.after
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
  %v202 = phi i64 [ 0, %v201.before ], [ %v281, %v201.next ]
  %v203 = mul i64 %v202, 16
  %v204 = getelementptr float, ptr %v200, i64 %v203
  %v205 = load <8 x float>, ptr %v204, align 4
  %v206 = fcmp ogt <8 x float> %v205, splat (float 0xFFF0000000000000)
  %v207 = select <8 x i1> %v206, <8 x float> %v205, <8 x float> splat (float 0xFFF0000000000000)
  %v208 = add i64 %v203, 1
  %v209 = getelementptr float, ptr %v200, i64 %v208
  %v210 = load <8 x float>, ptr %v209, align 4
  %v211 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v210, <8 x float> splat (float 0xFFF0000000000000)
  %v212 = fcmp ogt <8 x float> %v211, %v207
  %v213 = select <8 x i1> %v212, <8 x float> %v211, <8 x float> %v207
  %v214 = shufflevector <8 x float> %v213, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v215 = shufflevector <8 x float> %v213, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v216 = fcmp ogt <4 x float> %v215, %v214
  %v217 = select <4 x i1> %v216, <4 x float> %v215, <4 x float> %v214
  %v218 = shufflevector <4 x float> %v217, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v219 = shufflevector <4 x float> %v217, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v220 = fcmp ogt <2 x float> %v219, %v218
  %v221 = select <2 x i1> %v220, <2 x float> %v219, <2 x float> %v218
  %v222 = extractelement <2 x float> %v221, i64 0
  %v223 = extractelement <2 x float> %v221, i64 1
  %v224 = fcmp ogt float %v223, %v222
  %v225 = select i1 %v224, float %v223, float %v222
  %v226 = insertelement <8 x float> poison, float %v225, i64 0
  %v227 = shufflevector <8 x float> %v226, <8 x float> poison, <8 x i32> zeroinitializer
  %v228 = fsub <8 x float> %v205, %v227
  %v229 = fcmp uge <8 x float> %v228, splat (float 0xC051533340000000)
  %v230 = fcmp olt <8 x float> %v228, splat (float 0xC051533340000000)
  %v231 = select <8 x i1> %v230, <8 x float> splat (float 0xC051533340000000), <8 x float> %v228
  %v232 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v231, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000FE0000000))
  %v233 = fsub <8 x float> %v232, splat (float 0x4168000FE0000000)
  %v234 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v233, <8 x float> splat (float 0xBFE62E4300000000), <8 x float> %v231)
  %v235 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F80FA64A0000000), <8 x float> %v234, <8 x float> splat (float 0x3FA573CEA0000000))
  %v236 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v235, <8 x float> %v234, <8 x float> splat (float 0x3FC555A780000000))
  %v237 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v236, <8 x float> %v234, <8 x float> splat (float 0x3FDFFFDC00000000))
  %v238 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v237, <8 x float> %v234, <8 x float> splat (float 0x3FEFFFFF60000000))
  %v239 = bitcast <8 x float> %v232 to <8 x i32>
  %v240 = shl <8 x i32> %v239, splat (i32 23)
  %v241 = bitcast <8 x i32> %v240 to <8 x float>
  %v242 = fmul <8 x float> %v234, %v241
  %v243 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v242, <8 x float> %v238, <8 x float> %v241)
  %v244 = select <8 x i1> %v229, <8 x float> %v243, <8 x float> splat (float 0x0000000000000000)
  %v245 = fadd <8 x float> splat (float 0x0000000000000000), %v244
  %v246 = fsub <8 x float> %v210, %v227
  %v247 = fcmp uge <8 x float> %v246, splat (float 0xC051533340000000)
  %v248 = fcmp olt <8 x float> %v246, splat (float 0xC051533340000000)
  %v249 = select <8 x i1> %v248, <8 x float> splat (float 0xC051533340000000), <8 x float> %v246
  %v250 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v249, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 0x4168000FE0000000))
  %v251 = fsub <8 x float> %v250, splat (float 0x4168000FE0000000)
  %v252 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v251, <8 x float> splat (float 0xBFE62E4300000000), <8 x float> %v249)
  %v253 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F80FA64A0000000), <8 x float> %v252, <8 x float> splat (float 0x3FA573CEA0000000))
  %v254 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v253, <8 x float> %v252, <8 x float> splat (float 0x3FC555A780000000))
  %v255 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v254, <8 x float> %v252, <8 x float> splat (float 0x3FDFFFDC00000000))
  %v256 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v255, <8 x float> %v252, <8 x float> splat (float 0x3FEFFFFF60000000))
  %v257 = bitcast <8 x float> %v250 to <8 x i32>
  %v258 = shl <8 x i32> %v257, splat (i32 23)
  %v259 = bitcast <8 x i32> %v258 to <8 x float>
  %v260 = fmul <8 x float> %v252, %v259
  %v261 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v260, <8 x float> %v256, <8 x float> %v259)
  %v262 = select <8 x i1> %v247, <8 x float> %v261, <8 x float> splat (float 0x0000000000000000)
  %v263 = select <8 x i1> <i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 true>, <8 x float> %v262, <8 x float> splat (float 0x0000000000000000)
  %v264 = fadd <8 x float> %v245, %v263
  %v265 = shufflevector <8 x float> %v264, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v266 = shufflevector <8 x float> %v264, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v267 = fadd <4 x float> %v265, %v266
  %v268 = shufflevector <4 x float> %v267, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v269 = shufflevector <4 x float> %v267, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v270 = fadd <2 x float> %v268, %v269
  %v271 = extractelement <2 x float> %v270, i64 0
  %v272 = extractelement <2 x float> %v270, i64 1
  %v273 = fadd float %v271, %v272
  %v274 = fdiv float 0x3FF0000000000000, %v273
  %v275 = insertelement <8 x float> poison, float %v274, i64 0
  %v276 = shufflevector <8 x float> %v275, <8 x float> poison, <8 x i32> zeroinitializer
  %v277 = fmul <8 x float> %v244, %v276
  %v278 = getelementptr float, ptr %v2, i64 %v203
  store <8 x float> %v277, ptr %v278, align 4
  %v279 = fmul <8 x float> %v262, %v276
  %v280 = getelementptr float, ptr %v2, i64 %v208
  store <8 x float> %v279, ptr %v280, align 4
  br label %v201.next
v201.next:
  %v281 = add i64 %v202, 1
  %v281.more = icmp slt i64 %v281, 3
  br i1 %v281.more, label %v201, label %v201.after
v201.after:
  br label %v282.before
v282.before:
  br label %v282
v282:
  %v283 = phi i64 [ 0, %v282.before ], [ %v360, %v282.next ]
  %v284 = phi <8 x float> [ splat (float 0x0000000000000000), %v282.before ], [ %v332, %v282.next ]
  %v285 = phi <8 x float> [ splat (float 0x0000000000000000), %v282.before ], [ %v337, %v282.next ]
  %v286 = phi <8 x float> [ splat (float 0x0000000000000000), %v282.before ], [ %v342, %v282.next ]
  %v287 = phi <8 x float> [ splat (float 0x0000000000000000), %v282.before ], [ %v349, %v282.next ]
  %v288 = phi <8 x float> [ splat (float 0x0000000000000000), %v282.before ], [ %v354, %v282.next ]
  %v289 = phi <8 x float> [ splat (float 0x0000000000000000), %v282.before ], [ %v359, %v282.next ]
  %v290 = mul i64 %v283, 4
  %v291 = getelementptr i8, ptr %v2, i64 %v290
  %v292 = mul i64 %v283, 32
  %v293 = getelementptr i8, ptr %a3, i64 %v292
  %v294 = load <8 x float>, ptr %v293, align 4
  %v295 = load float, ptr %v291, align 4
  %v296 = insertelement <8 x float> poison, float %v295, i64 0
  %v297 = shufflevector <8 x float> %v296, <8 x float> poison, <8 x i32> zeroinitializer
  %v298 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v297, <8 x float> %v294, <8 x float> %v284)
  %v299 = getelementptr i8, ptr %v291, i64 64
  %v300 = load float, ptr %v299, align 4
  %v301 = insertelement <8 x float> poison, float %v300, i64 0
  %v302 = shufflevector <8 x float> %v301, <8 x float> poison, <8 x i32> zeroinitializer
  %v303 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v302, <8 x float> %v294, <8 x float> %v285)
  %v304 = getelementptr i8, ptr %v291, i64 128
  %v305 = load float, ptr %v304, align 4
  %v306 = insertelement <8 x float> poison, float %v305, i64 0
  %v307 = shufflevector <8 x float> %v306, <8 x float> poison, <8 x i32> zeroinitializer
  %v308 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v307, <8 x float> %v294, <8 x float> %v286)
  %v309 = getelementptr i8, ptr %v293, i64 32
  %v310 = load <8 x float>, ptr %v309, align 4
  %v311 = getelementptr i8, ptr %v291, i64 4
  %v312 = load float, ptr %v311, align 4
  %v313 = insertelement <8 x float> poison, float %v312, i64 0
  %v314 = shufflevector <8 x float> %v313, <8 x float> poison, <8 x i32> zeroinitializer
  %v315 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v314, <8 x float> %v310, <8 x float> %v287)
  %v316 = getelementptr i8, ptr %v291, i64 68
  %v317 = load float, ptr %v316, align 4
  %v318 = insertelement <8 x float> poison, float %v317, i64 0
  %v319 = shufflevector <8 x float> %v318, <8 x float> poison, <8 x i32> zeroinitializer
  %v320 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v319, <8 x float> %v310, <8 x float> %v288)
  %v321 = getelementptr i8, ptr %v291, i64 132
  %v322 = load float, ptr %v321, align 4
  %v323 = insertelement <8 x float> poison, float %v322, i64 0
  %v324 = shufflevector <8 x float> %v323, <8 x float> poison, <8 x i32> zeroinitializer
  %v325 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v324, <8 x float> %v310, <8 x float> %v289)
  %v326 = getelementptr i8, ptr %v293, i64 64
  %v327 = load <8 x float>, ptr %v326, align 4
  %v328 = getelementptr i8, ptr %v291, i64 8
  %v329 = load float, ptr %v328, align 4
  %v330 = insertelement <8 x float> poison, float %v329, i64 0
  %v331 = shufflevector <8 x float> %v330, <8 x float> poison, <8 x i32> zeroinitializer
  %v332 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v331, <8 x float> %v327, <8 x float> %v298)
  %v333 = getelementptr i8, ptr %v291, i64 72
  %v334 = load float, ptr %v333, align 4
  %v335 = insertelement <8 x float> poison, float %v334, i64 0
  %v336 = shufflevector <8 x float> %v335, <8 x float> poison, <8 x i32> zeroinitializer
  %v337 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v336, <8 x float> %v327, <8 x float> %v303)
  %v338 = getelementptr i8, ptr %v291, i64 136
  %v339 = load float, ptr %v338, align 4
  %v340 = insertelement <8 x float> poison, float %v339, i64 0
  %v341 = shufflevector <8 x float> %v340, <8 x float> poison, <8 x i32> zeroinitializer
  %v342 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v341, <8 x float> %v327, <8 x float> %v308)
  %v343 = getelementptr i8, ptr %v293, i64 96
  %v344 = load <8 x float>, ptr %v343, align 4
  %v345 = getelementptr i8, ptr %v291, i64 12
  %v346 = load float, ptr %v345, align 4
  %v347 = insertelement <8 x float> poison, float %v346, i64 0
  %v348 = shufflevector <8 x float> %v347, <8 x float> poison, <8 x i32> zeroinitializer
  %v349 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v348, <8 x float> %v344, <8 x float> %v315)
  %v350 = getelementptr i8, ptr %v291, i64 76
  %v351 = load float, ptr %v350, align 4
  %v352 = insertelement <8 x float> poison, float %v351, i64 0
  %v353 = shufflevector <8 x float> %v352, <8 x float> poison, <8 x i32> zeroinitializer
  %v354 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v353, <8 x float> %v344, <8 x float> %v320)
  %v355 = getelementptr i8, ptr %v291, i64 140
  %v356 = load float, ptr %v355, align 4
  %v357 = insertelement <8 x float> poison, float %v356, i64 0
  %v358 = shufflevector <8 x float> %v357, <8 x float> poison, <8 x i32> zeroinitializer
  %v359 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v358, <8 x float> %v344, <8 x float> %v325)
  br label %v282.next
v282.next:
  %v360 = add i64 %v283, 4
  %v360.more = icmp slt i64 %v360, 8
  br i1 %v360.more, label %v282, label %v282.after
v282.after:
  %v361 = getelementptr i8, ptr %a3, i64 256
  %v362 = load <8 x float>, ptr %v361, align 4
  %v363 = getelementptr i8, ptr %v2, i64 32
  %v364 = load float, ptr %v363, align 4
  %v365 = insertelement <8 x float> poison, float %v364, i64 0
  %v366 = shufflevector <8 x float> %v365, <8 x float> poison, <8 x i32> zeroinitializer
  %v367 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v366, <8 x float> %v362, <8 x float> %v332)
  %v368 = getelementptr i8, ptr %v2, i64 96
  %v369 = load float, ptr %v368, align 4
  %v370 = insertelement <8 x float> poison, float %v369, i64 0
  %v371 = shufflevector <8 x float> %v370, <8 x float> poison, <8 x i32> zeroinitializer
  %v372 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v371, <8 x float> %v362, <8 x float> %v337)
  %v373 = getelementptr i8, ptr %v2, i64 160
  %v374 = load float, ptr %v373, align 4
  %v375 = insertelement <8 x float> poison, float %v374, i64 0
  %v376 = shufflevector <8 x float> %v375, <8 x float> poison, <8 x i32> zeroinitializer
  %v377 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v376, <8 x float> %v362, <8 x float> %v342)
  %v378 = fadd <8 x float> %v367, %v349
  %v379 = fadd <8 x float> %v372, %v354
  %v380 = fadd <8 x float> %v377, %v359
  %v381 = getelementptr float, ptr %a0, i64 %v67
  store <8 x float> %v378, ptr %v381, align 4
  %v382 = add i64 16, %v67
  %v383 = getelementptr float, ptr %a0, i64 %v382
  store <8 x float> %v379, ptr %v383, align 4
  %v384 = add i64 32, %v67
  %v385 = getelementptr float, ptr %a0, i64 %v384
  store <8 x float> %v380, ptr %v385, align 4
  %v386 = add i64 %v6, 1
  %v387 = icmp eq i64 %v386, 2
  %v388 = select i1 %v387, i64 0, i64 %v386
  %v389 = zext i1 %v387 to i64
  br label %v4.next
v4.next:
  %v390 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

