; tiles of 4 positions and 2 x 8 channels
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @k2d0eb7e1ffe10cdf(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v4 = icmp eq i64 0, 0
  %v188 = getelementptr float, ptr %a0, i64 8
  %v189 = getelementptr float, ptr %a0, i64 16
  %v190 = getelementptr float, ptr %a0, i64 24
  %v191 = getelementptr float, ptr %a0, i64 32
  %v192 = getelementptr float, ptr %a0, i64 40
  %v193 = getelementptr float, ptr %a0, i64 48
  %v194 = getelementptr float, ptr %a0, i64 56
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v195, %v1.next ]
  %v195.more = icmp slt i64 %v2, %end
  br i1 %v195.more, label %v1.turn, label %v1.after
v1.turn:
  %v3 = icmp eq i64 %v2, %begin
  %v5 = or i1 %v3, %v4
  br i1 %v5, label %v6.then, label %v6.after
v6.then:
  br label %v7.before
v7.before:
  br label %v7
v7:
  %v8 = phi i64 [ 0, %v7.before ], [ %v83, %v7.next ]
  %v9 = mul i64 %v8, 8
  %v10 = call i64 @llvm.smin.i64(i64 %v9, i64 8)
  %v11 = mul i64 %v10, 48
  %v12 = getelementptr i8, ptr %a2, i64 %v11
  %v13 = mul i64 %v8, 32
  %v14 = getelementptr i8, ptr %scratch, i64 %v13
  br label %v15.before
v15.before:
  br label %v15
v15:
  %v16 = phi i64 [ 0, %v15.before ], [ %v82, %v15.next ]
  %v17 = call i64 @llvm.smin.i64(i64 %v16, i64 4)
  %v18 = mul i64 %v17, 4
  %v19 = getelementptr i8, ptr %v12, i64 %v18
  %v20 = load <8 x float>, ptr %v19, align 4
  %v21 = add i64 %v18, 48
  %v22 = getelementptr i8, ptr %v12, i64 %v21
  %v23 = load <8 x float>, ptr %v22, align 4
  %v24 = add i64 %v18, 96
  %v25 = getelementptr i8, ptr %v12, i64 %v24
  %v26 = load <8 x float>, ptr %v25, align 4
  %v27 = add i64 %v18, 144
  %v28 = getelementptr i8, ptr %v12, i64 %v27
  %v29 = load <8 x float>, ptr %v28, align 4
  %v30 = add i64 %v18, 192
  %v31 = getelementptr i8, ptr %v12, i64 %v30
  %v32 = load <8 x float>, ptr %v31, align 4
  %v33 = add i64 %v18, 240
  %v34 = getelementptr i8, ptr %v12, i64 %v33
  %v35 = load <8 x float>, ptr %v34, align 4
  %v36 = add i64 %v18, 288
  %v37 = getelementptr i8, ptr %v12, i64 %v36
  %v38 = load <8 x float>, ptr %v37, align 4
  %v39 = add i64 %v18, 336
  %v40 = getelementptr i8, ptr %v12, i64 %v39
  %v41 = load <8 x float>, ptr %v40, align 4
  %v42 = shufflevector <8 x float> %v20, <8 x float> %v32, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v43 = shufflevector <8 x float> %v20, <8 x float> %v32, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v44 = shufflevector <8 x float> %v23, <8 x float> %v35, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v45 = shufflevector <8 x float> %v23, <8 x float> %v35, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v46 = shufflevector <8 x float> %v26, <8 x float> %v38, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v47 = shufflevector <8 x float> %v26, <8 x float> %v38, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v48 = shufflevector <8 x float> %v29, <8 x float> %v41, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v49 = shufflevector <8 x float> %v29, <8 x float> %v41, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v50 = shufflevector <8 x float> %v42, <8 x float> %v46, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v51 = shufflevector <8 x float> %v42, <8 x float> %v46, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v52 = shufflevector <8 x float> %v43, <8 x float> %v47, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v53 = shufflevector <8 x float> %v43, <8 x float> %v47, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v54 = shufflevector <8 x float> %v44, <8 x float> %v48, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v55 = shufflevector <8 x float> %v44, <8 x float> %v48, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v56 = shufflevector <8 x float> %v45, <8 x float> %v49, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v57 = shufflevector <8 x float> %v45, <8 x float> %v49, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v58 = shufflevector <8 x float> %v50, <8 x float> %v54, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v59 = shufflevector <8 x float> %v50, <8 x float> %v54, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v60 = shufflevector <8 x float> %v51, <8 x float> %v55, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v61 = shufflevector <8 x float> %v51, <8 x float> %v55, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v62 = shufflevector <8 x float> %v52, <8 x float> %v56, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v63 = shufflevector <8 x float> %v52, <8 x float> %v56, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v64 = shufflevector <8 x float> %v53, <8 x float> %v57, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
  %v65 = shufflevector <8 x float> %v53, <8 x float> %v57, <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
  %v66 = mul i64 %v17, 64
  %v67 = getelementptr i8, ptr %v14, i64 %v66
  store <8 x float> %v58, ptr %v67, align 4
  %v68 = add i64 %v66, 64
  %v69 = getelementptr i8, ptr %v14, i64 %v68
  store <8 x float> %v59, ptr %v69, align 4
  %v70 = add i64 %v66, 128
  %v71 = getelementptr i8, ptr %v14, i64 %v70
  store <8 x float> %v60, ptr %v71, align 4
  %v72 = add i64 %v66, 192
  %v73 = getelementptr i8, ptr %v14, i64 %v72
  store <8 x float> %v61, ptr %v73, align 4
  %v74 = add i64 %v66, 256
  %v75 = getelementptr i8, ptr %v14, i64 %v74
  store <8 x float> %v62, ptr %v75, align 4
  %v76 = add i64 %v66, 320
  %v77 = getelementptr i8, ptr %v14, i64 %v76
  store <8 x float> %v63, ptr %v77, align 4
  %v78 = add i64 %v66, 384
  %v79 = getelementptr i8, ptr %v14, i64 %v78
  store <8 x float> %v64, ptr %v79, align 4
  %v80 = add i64 %v66, 448
  %v81 = getelementptr i8, ptr %v14, i64 %v80
  store <8 x float> %v65, ptr %v81, align 4
  br label %v15.next
v15.next:
  %v82 = add i64 %v16, 8
  %v82.more = icmp slt i64 %v82, 12
  br i1 %v82.more, label %v15, label %v15.after
v15.after:
  br label %v7.next
v7.next:
  %v83 = add i64 %v8, 1
  %v83.more = icmp slt i64 %v83, 2
  br i1 %v83.more, label %v7, label %v7.after
v7.after:
  br label %v6.after
v6.after:
  call void @llvm.prefetch.p0(ptr %a0, i32 1, i32 3, i32 1)
  %v84 = getelementptr i8, ptr %a0, i64 32
  call void @llvm.prefetch.p0(ptr %v84, i32 1, i32 3, i32 1)
  %v85 = getelementptr i8, ptr %a0, i64 64
  call void @llvm.prefetch.p0(ptr %v85, i32 1, i32 3, i32 1)
  %v86 = getelementptr i8, ptr %a0, i64 96
  call void @llvm.prefetch.p0(ptr %v86, i32 1, i32 3, i32 1)
  %v87 = getelementptr i8, ptr %a0, i64 128
  call void @llvm.prefetch.p0(ptr %v87, i32 1, i32 3, i32 1)
  %v88 = getelementptr i8, ptr %a0, i64 160
  call void @llvm.prefetch.p0(ptr %v88, i32 1, i32 3, i32 1)
  %v89 = getelementptr i8, ptr %a0, i64 192
  call void @llvm.prefetch.p0(ptr %v89, i32 1, i32 3, i32 1)
  %v90 = getelementptr i8, ptr %a0, i64 224
  call void @llvm.prefetch.p0(ptr %v90, i32 1, i32 3, i32 1)
  br label %v91.before
v91.before:
  br label %v91
v91:
  %v92 = phi i64 [ 0, %v91.before ], [ %v187, %v91.next ]
  %v93 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v167, %v91.next ]
  %v94 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v168, %v91.next ]
  %v95 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v173, %v91.next ]
  %v96 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v174, %v91.next ]
  %v97 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v179, %v91.next ]
  %v98 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v180, %v91.next ]
  %v99 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v185, %v91.next ]
  %v100 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v186, %v91.next ]
  %v101 = mul i64 %v92, 4
  %v102 = getelementptr i8, ptr %a1, i64 %v101
  %v103 = mul i64 %v92, 64
  %v104 = getelementptr i8, ptr %scratch, i64 %v103
  %v105 = load <8 x float>, ptr %v104, align 32
  %v106 = getelementptr i8, ptr %v104, i64 32
  %v107 = load <8 x float>, ptr %v106, align 32
  %v108 = load float, ptr %v102, align 4
  %v109 = insertelement <8 x float> poison, float %v108, i64 0
  %v110 = shufflevector <8 x float> %v109, <8 x float> poison, <8 x i32> zeroinitializer
  %v111 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v110, <8 x float> %v105, <8 x float> %v93)
  %v112 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v110, <8 x float> %v107, <8 x float> %v94)
  %v113 = getelementptr i8, ptr %v102, i64 48
  %v114 = load float, ptr %v113, align 4
  %v115 = insertelement <8 x float> poison, float %v114, i64 0
  %v116 = shufflevector <8 x float> %v115, <8 x float> poison, <8 x i32> zeroinitializer
  %v117 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v116, <8 x float> %v105, <8 x float> %v95)
  %v118 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v116, <8 x float> %v107, <8 x float> %v96)
  %v119 = getelementptr i8, ptr %v102, i64 96
  %v120 = load float, ptr %v119, align 4
  %v121 = insertelement <8 x float> poison, float %v120, i64 0
  %v122 = shufflevector <8 x float> %v121, <8 x float> poison, <8 x i32> zeroinitializer
  %v123 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v122, <8 x float> %v105, <8 x float> %v97)
  %v124 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v122, <8 x float> %v107, <8 x float> %v98)
  %v125 = getelementptr i8, ptr %v102, i64 144
  %v126 = load float, ptr %v125, align 4
  %v127 = insertelement <8 x float> poison, float %v126, i64 0
  %v128 = shufflevector <8 x float> %v127, <8 x float> poison, <8 x i32> zeroinitializer
  %v129 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v128, <8 x float> %v105, <8 x float> %v99)
  %v130 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v128, <8 x float> %v107, <8 x float> %v100)
  %v131 = getelementptr i8, ptr %v104, i64 64
  %v132 = load <8 x float>, ptr %v131, align 32
  %v133 = getelementptr i8, ptr %v104, i64 96
  %v134 = load <8 x float>, ptr %v133, align 32
  %v135 = getelementptr i8, ptr %v102, i64 4
  %v136 = load float, ptr %v135, align 4
  %v137 = insertelement <8 x float> poison, float %v136, i64 0
  %v138 = shufflevector <8 x float> %v137, <8 x float> poison, <8 x i32> zeroinitializer
  %v139 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v138, <8 x float> %v132, <8 x float> %v111)
  %v140 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v138, <8 x float> %v134, <8 x float> %v112)
  %v141 = getelementptr i8, ptr %v102, i64 52
  %v142 = load float, ptr %v141, align 4
  %v143 = insertelement <8 x float> poison, float %v142, i64 0
  %v144 = shufflevector <8 x float> %v143, <8 x float> poison, <8 x i32> zeroinitializer
  %v145 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v144, <8 x float> %v132, <8 x float> %v117)
  %v146 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v144, <8 x float> %v134, <8 x float> %v118)
  %v147 = getelementptr i8, ptr %v102, i64 100
  %v148 = load float, ptr %v147, align 4
  %v149 = insertelement <8 x float> poison, float %v148, i64 0
  %v150 = shufflevector <8 x float> %v149, <8 x float> poison, <8 x i32> zeroinitializer
  %v151 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v150, <8 x float> %v132, <8 x float> %v123)
  %v152 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v150, <8 x float> %v134, <8 x float> %v124)
  %v153 = getelementptr i8, ptr %v102, i64 148
  %v154 = load float, ptr %v153, align 4
  %v155 = insertelement <8 x float> poison, float %v154, i64 0
  %v156 = shufflevector <8 x float> %v155, <8 x float> poison, <8 x i32> zeroinitializer
  %v157 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v156, <8 x float> %v132, <8 x float> %v129)
  %v158 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v156, <8 x float> %v134, <8 x float> %v130)
  %v159 = getelementptr i8, ptr %v104, i64 128
  %v160 = load <8 x float>, ptr %v159, align 32
  %v161 = getelementptr i8, ptr %v104, i64 160
  %v162 = load <8 x float>, ptr %v161, align 32
  %v163 = getelementptr i8, ptr %v102, i64 8
  %v164 = load float, ptr %v163, align 4
  %v165 = insertelement <8 x float> poison, float %v164, i64 0
  %v166 = shufflevector <8 x float> %v165, <8 x float> poison, <8 x i32> zeroinitializer
  %v167 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v166, <8 x float> %v160, <8 x float> %v139)
  %v168 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v166, <8 x float> %v162, <8 x float> %v140)
  %v169 = getelementptr i8, ptr %v102, i64 56
  %v170 = load float, ptr %v169, align 4
  %v171 = insertelement <8 x float> poison, float %v170, i64 0
  %v172 = shufflevector <8 x float> %v171, <8 x float> poison, <8 x i32> zeroinitializer
  %v173 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v172, <8 x float> %v160, <8 x float> %v145)
  %v174 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v172, <8 x float> %v162, <8 x float> %v146)
  %v175 = getelementptr i8, ptr %v102, i64 104
  %v176 = load float, ptr %v175, align 4
  %v177 = insertelement <8 x float> poison, float %v176, i64 0
  %v178 = shufflevector <8 x float> %v177, <8 x float> poison, <8 x i32> zeroinitializer
  %v179 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v178, <8 x float> %v160, <8 x float> %v151)
  %v180 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v178, <8 x float> %v162, <8 x float> %v152)
  %v181 = getelementptr i8, ptr %v102, i64 152
  %v182 = load float, ptr %v181, align 4
  %v183 = insertelement <8 x float> poison, float %v182, i64 0
  %v184 = shufflevector <8 x float> %v183, <8 x float> poison, <8 x i32> zeroinitializer
  %v185 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v184, <8 x float> %v160, <8 x float> %v157)
  %v186 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v184, <8 x float> %v162, <8 x float> %v158)
  br label %v91.next
v91.next:
  %v187 = add i64 %v92, 3
  %v187.more = icmp slt i64 %v187, 12
  br i1 %v187.more, label %v91, label %v91.after
v91.after:
  store <8 x float> %v167, ptr %a0, align 4
  store <8 x float> %v168, ptr %v188, align 4
  store <8 x float> %v173, ptr %v189, align 4
  store <8 x float> %v174, ptr %v190, align 4
  store <8 x float> %v179, ptr %v191, align 4
  store <8 x float> %v180, ptr %v192, align 4
  store <8 x float> %v185, ptr %v193, align 4
  store <8 x float> %v186, ptr %v194, align 4
  br label %v1.next
v1.next:
  %v195 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

