; tiles of 4 positions and 2 x 8 channels
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @k6f4e92c2680543ff(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v5 = icmp eq i64 0, 0
  %v189 = getelementptr float, ptr %a0, i64 8
  %v190 = getelementptr float, ptr %a0, i64 16
  %v191 = getelementptr float, ptr %a0, i64 24
  %v192 = getelementptr float, ptr %a0, i64 32
  %v193 = getelementptr float, ptr %a0, i64 40
  %v194 = getelementptr float, ptr %a0, i64 48
  %v195 = getelementptr float, ptr %a0, i64 56
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v196, %v1.next ]
  %v196.more = icmp slt i64 %v2, %end
  br i1 %v196.more, label %v1.turn, label %v1.after
v1.turn:
  %v3 = sub i64 %v2, %begin
  %v4 = icmp eq i64 %v3, 0
  %v6 = or i1 %v4, %v5
  br i1 %v6, label %v7.then, label %v7.after
v7.then:
  br label %v8.before
v8.before:
  br label %v8
v8:
  %v9 = phi i64 [ 0, %v8.before ], [ %v84, %v8.next ]
  %v10 = mul i64 %v9, 8
  %v11 = call i64 @llvm.smin.i64(i64 %v10, i64 8)
  %v12 = mul i64 %v11, 48
  %v13 = getelementptr i8, ptr %a2, i64 %v12
  %v14 = mul i64 %v9, 32
  %v15 = getelementptr i8, ptr %scratch, i64 %v14
  br label %v16.before
v16.before:
  br label %v16
v16:
  %v17 = phi i64 [ 0, %v16.before ], [ %v83, %v16.next ]
  %v18 = call i64 @llvm.smin.i64(i64 %v17, i64 4)
  %v19 = mul i64 %v18, 4
  %v20 = getelementptr i8, ptr %v13, i64 %v19
  %v21 = load <8 x float>, ptr %v20, align 4
  %v22 = add i64 %v19, 48
  %v23 = getelementptr i8, ptr %v13, i64 %v22
  %v24 = load <8 x float>, ptr %v23, align 4
  %v25 = add i64 %v19, 96
  %v26 = getelementptr i8, ptr %v13, i64 %v25
  %v27 = load <8 x float>, ptr %v26, align 4
  %v28 = add i64 %v19, 144
  %v29 = getelementptr i8, ptr %v13, i64 %v28
  %v30 = load <8 x float>, ptr %v29, align 4
  %v31 = add i64 %v19, 192
  %v32 = getelementptr i8, ptr %v13, i64 %v31
  %v33 = load <8 x float>, ptr %v32, align 4
  %v34 = add i64 %v19, 240
  %v35 = getelementptr i8, ptr %v13, i64 %v34
  %v36 = load <8 x float>, ptr %v35, align 4
  %v37 = add i64 %v19, 288
  %v38 = getelementptr i8, ptr %v13, i64 %v37
  %v39 = load <8 x float>, ptr %v38, align 4
  %v40 = add i64 %v19, 336
  %v41 = getelementptr i8, ptr %v13, i64 %v40
  %v42 = load <8 x float>, ptr %v41, align 4
  %v43 = shufflevector <8 x float> %v21, <8 x float> %v33, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v44 = shufflevector <8 x float> %v21, <8 x float> %v33, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v45 = shufflevector <8 x float> %v24, <8 x float> %v36, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v46 = shufflevector <8 x float> %v24, <8 x float> %v36, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v47 = shufflevector <8 x float> %v27, <8 x float> %v39, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v48 = shufflevector <8 x float> %v27, <8 x float> %v39, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v49 = shufflevector <8 x float> %v30, <8 x float> %v42, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v50 = shufflevector <8 x float> %v30, <8 x float> %v42, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v51 = shufflevector <8 x float> %v43, <8 x float> %v47, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v52 = shufflevector <8 x float> %v43, <8 x float> %v47, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v53 = shufflevector <8 x float> %v44, <8 x float> %v48, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v54 = shufflevector <8 x float> %v44, <8 x float> %v48, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v55 = shufflevector <8 x float> %v45, <8 x float> %v49, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v56 = shufflevector <8 x float> %v45, <8 x float> %v49, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v57 = shufflevector <8 x float> %v46, <8 x float> %v50, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v58 = shufflevector <8 x float> %v46, <8 x float> %v50, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v59 = shufflevector <8 x float> %v51, <8 x float> %v55, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v60 = shufflevector <8 x float> %v51, <8 x float> %v55, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v61 = shufflevector <8 x float> %v52, <8 x float> %v56, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v62 = shufflevector <8 x float> %v52, <8 x float> %v56, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v63 = shufflevector <8 x float> %v53, <8 x float> %v57, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v64 = shufflevector <8 x float> %v53, <8 x float> %v57, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v65 = shufflevector <8 x float> %v54, <8 x float> %v58, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v66 = shufflevector <8 x float> %v54, <8 x float> %v58, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v67 = mul i64 %v18, 64
  %v68 = getelementptr i8, ptr %v15, i64 %v67
  store <8 x float> %v59, ptr %v68, align 4
  %v69 = add i64 %v67, 64
  %v70 = getelementptr i8, ptr %v15, i64 %v69
  store <8 x float> %v60, ptr %v70, align 4
  %v71 = add i64 %v67, 128
  %v72 = getelementptr i8, ptr %v15, i64 %v71
  store <8 x float> %v61, ptr %v72, align 4
  %v73 = add i64 %v67, 192
  %v74 = getelementptr i8, ptr %v15, i64 %v73
  store <8 x float> %v62, ptr %v74, align 4
  %v75 = add i64 %v67, 256
  %v76 = getelementptr i8, ptr %v15, i64 %v75
  store <8 x float> %v63, ptr %v76, align 4
  %v77 = add i64 %v67, 320
  %v78 = getelementptr i8, ptr %v15, i64 %v77
  store <8 x float> %v64, ptr %v78, align 4
  %v79 = add i64 %v67, 384
  %v80 = getelementptr i8, ptr %v15, i64 %v79
  store <8 x float> %v65, ptr %v80, align 4
  %v81 = add i64 %v67, 448
  %v82 = getelementptr i8, ptr %v15, i64 %v81
  store <8 x float> %v66, ptr %v82, align 4
  br label %v16.next
v16.next:
  %v83 = add i64 %v17, 8
  %v83.more = icmp slt i64 %v83, 12
  br i1 %v83.more, label %v16, label %v16.after
v16.after:
  br label %v8.next
v8.next:
  %v84 = add i64 %v9, 1
  %v84.more = icmp slt i64 %v84, 2
  br i1 %v84.more, label %v8, label %v8.after
v8.after:
  br label %v7.after
v7.after:
  call void @llvm.prefetch.p0(ptr %a0, i32 1, i32 3, i32 1)
  %v85 = getelementptr i8, ptr %a0, i64 32
  call void @llvm.prefetch.p0(ptr %v85, i32 1, i32 3, i32 1)
  %v86 = getelementptr i8, ptr %a0, i64 64
  call void @llvm.prefetch.p0(ptr %v86, i32 1, i32 3, i32 1)
  %v87 = getelementptr i8, ptr %a0, i64 96
  call void @llvm.prefetch.p0(ptr %v87, i32 1, i32 3, i32 1)
  %v88 = getelementptr i8, ptr %a0, i64 128
  call void @llvm.prefetch.p0(ptr %v88, i32 1, i32 3, i32 1)
  %v89 = getelementptr i8, ptr %a0, i64 160
  call void @llvm.prefetch.p0(ptr %v89, i32 1, i32 3, i32 1)
  %v90 = getelementptr i8, ptr %a0, i64 192
  call void @llvm.prefetch.p0(ptr %v90, i32 1, i32 3, i32 1)
  %v91 = getelementptr i8, ptr %a0, i64 224
  call void @llvm.prefetch.p0(ptr %v91, i32 1, i32 3, i32 1)
  br label %v92.before
v92.before:
  br label %v92
v92:
  %v93 = phi i64 [ 0, %v92.before ], [ %v188, %v92.next ]
  %v94 = phi <8 x float> [ splat (float 0x0000000000000000), %v92.before ], [ %v168, %v92.next ]
  %v95 = phi <8 x float> [ splat (float 0x0000000000000000), %v92.before ], [ %v169, %v92.next ]
  %v96 = phi <8 x float> [ splat (float 0x0000000000000000), %v92.before ], [ %v174, %v92.next ]
  %v97 = phi <8 x float> [ splat (float 0x0000000000000000), %v92.before ], [ %v175, %v92.next ]
  %v98 = phi <8 x float> [ splat (float 0x0000000000000000), %v92.before ], [ %v180, %v92.next ]
  %v99 = phi <8 x float> [ splat (float 0x0000000000000000), %v92.before ], [ %v181, %v92.next ]
  %v100 = phi <8 x float> [ splat (float 0x0000000000000000), %v92.before ], [ %v186, %v92.next ]
  %v101 = phi <8 x float> [ splat (float 0x0000000000000000), %v92.before ], [ %v187, %v92.next ]
  %v102 = mul i64 %v93, 4
  %v103 = getelementptr i8, ptr %a1, i64 %v102
  %v104 = mul i64 %v93, 64
  %v105 = getelementptr i8, ptr %scratch, i64 %v104
  %v106 = load <8 x float>, ptr %v105, align 32
  %v107 = getelementptr i8, ptr %v105, i64 32
  %v108 = load <8 x float>, ptr %v107, align 32
  %v109 = load float, ptr %v103, align 4
  %v110 = insertelement <8 x float> poison, float %v109, i64 0
  %v111 = shufflevector <8 x float> %v110, <8 x float> poison, <8 x i32> zeroinitializer
  %v112 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v111, <8 x float> %v106, <8 x float> %v94)
  %v113 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v111, <8 x float> %v108, <8 x float> %v95)
  %v114 = getelementptr i8, ptr %v103, i64 48
  %v115 = load float, ptr %v114, align 4
  %v116 = insertelement <8 x float> poison, float %v115, i64 0
  %v117 = shufflevector <8 x float> %v116, <8 x float> poison, <8 x i32> zeroinitializer
  %v118 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v117, <8 x float> %v106, <8 x float> %v96)
  %v119 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v117, <8 x float> %v108, <8 x float> %v97)
  %v120 = getelementptr i8, ptr %v103, i64 96
  %v121 = load float, ptr %v120, align 4
  %v122 = insertelement <8 x float> poison, float %v121, i64 0
  %v123 = shufflevector <8 x float> %v122, <8 x float> poison, <8 x i32> zeroinitializer
  %v124 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v123, <8 x float> %v106, <8 x float> %v98)
  %v125 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v123, <8 x float> %v108, <8 x float> %v99)
  %v126 = getelementptr i8, ptr %v103, i64 144
  %v127 = load float, ptr %v126, align 4
  %v128 = insertelement <8 x float> poison, float %v127, i64 0
  %v129 = shufflevector <8 x float> %v128, <8 x float> poison, <8 x i32> zeroinitializer
  %v130 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v129, <8 x float> %v106, <8 x float> %v100)
  %v131 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v129, <8 x float> %v108, <8 x float> %v101)
  %v132 = getelementptr i8, ptr %v105, i64 64
  %v133 = load <8 x float>, ptr %v132, align 32
  %v134 = getelementptr i8, ptr %v105, i64 96
  %v135 = load <8 x float>, ptr %v134, align 32
  %v136 = getelementptr i8, ptr %v103, i64 4
  %v137 = load float, ptr %v136, align 4
  %v138 = insertelement <8 x float> poison, float %v137, i64 0
  %v139 = shufflevector <8 x float> %v138, <8 x float> poison, <8 x i32> zeroinitializer
  %v140 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v139, <8 x float> %v133, <8 x float> %v112)
  %v141 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v139, <8 x float> %v135, <8 x float> %v113)
  %v142 = getelementptr i8, ptr %v103, i64 52
  %v143 = load float, ptr %v142, align 4
  %v144 = insertelement <8 x float> poison, float %v143, i64 0
  %v145 = shufflevector <8 x float> %v144, <8 x float> poison, <8 x i32> zeroinitializer
  %v146 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v145, <8 x float> %v133, <8 x float> %v118)
  %v147 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v145, <8 x float> %v135, <8 x float> %v119)
  %v148 = getelementptr i8, ptr %v103, i64 100
  %v149 = load float, ptr %v148, align 4
  %v150 = insertelement <8 x float> poison, float %v149, i64 0
  %v151 = shufflevector <8 x float> %v150, <8 x float> poison, <8 x i32> zeroinitializer
  %v152 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v151, <8 x float> %v133, <8 x float> %v124)
  %v153 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v151, <8 x float> %v135, <8 x float> %v125)
  %v154 = getelementptr i8, ptr %v103, i64 148
  %v155 = load float, ptr %v154, align 4
  %v156 = insertelement <8 x float> poison, float %v155, i64 0
  %v157 = shufflevector <8 x float> %v156, <8 x float> poison, <8 x i32> zeroinitializer
  %v158 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v157, <8 x float> %v133, <8 x float> %v130)
  %v159 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v157, <8 x float> %v135, <8 x float> %v131)
  %v160 = getelementptr i8, ptr %v105, i64 128
  %v161 = load <8 x float>, ptr %v160, align 32
  %v162 = getelementptr i8, ptr %v105, i64 160
  %v163 = load <8 x float>, ptr %v162, align 32
  %v164 = getelementptr i8, ptr %v103, i64 8
  %v165 = load float, ptr %v164, align 4
  %v166 = insertelement <8 x float> poison, float %v165, i64 0
  %v167 = shufflevector <8 x float> %v166, <8 x float> poison, <8 x i32> zeroinitializer
  %v168 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v167, <8 x float> %v161, <8 x float> %v140)
  %v169 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v167, <8 x float> %v163, <8 x float> %v141)
  %v170 = getelementptr i8, ptr %v103, i64 56
  %v171 = load float, ptr %v170, align 4
  %v172 = insertelement <8 x float> poison, float %v171, i64 0
  %v173 = shufflevector <8 x float> %v172, <8 x float> poison, <8 x i32> zeroinitializer
  %v174 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v173, <8 x float> %v161, <8 x float> %v146)
  %v175 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v173, <8 x float> %v163, <8 x float> %v147)
  %v176 = getelementptr i8, ptr %v103, i64 104
  %v177 = load float, ptr %v176, align 4
  %v178 = insertelement <8 x float> poison, float %v177, i64 0
  %v179 = shufflevector <8 x float> %v178, <8 x float> poison, <8 x i32> zeroinitializer
  %v180 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v179, <8 x float> %v161, <8 x float> %v152)
  %v181 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v179, <8 x float> %v163, <8 x float> %v153)
  %v182 = getelementptr i8, ptr %v103, i64 152
  %v183 = load float, ptr %v182, align 4
  %v184 = insertelement <8 x float> poison, float %v183, i64 0
  %v185 = shufflevector <8 x float> %v184, <8 x float> poison, <8 x i32> zeroinitializer
  %v186 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v185, <8 x float> %v161, <8 x float> %v158)
  %v187 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v185, <8 x float> %v163, <8 x float> %v159)
  br label %v92.next
v92.next:
  %v188 = add i64 %v93, 3
  %v188.more = icmp slt i64 %v188, 12
  br i1 %v188.more, label %v92, label %v92.after
v92.after:
  store <8 x float> %v168, ptr %a0, align 4
  store <8 x float> %v169, ptr %v189, align 4
  store <8 x float> %v174, ptr %v190, align 4
  store <8 x float> %v175, ptr %v191, align 4
  store <8 x float> %v180, ptr %v192, align 4
  store <8 x float> %v181, ptr %v193, align 4
  store <8 x float> %v186, ptr %v194, align 4
  store <8 x float> %v187, ptr %v195, align 4
  br label %v1.next
v1.next:
  %v196 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

