; tiles of 1 positions and 8 x 16 channels, by digits
declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare <16 x i32> @llvm.umax.v16i32(<16 x i32>, <16 x i32>)
declare <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <64 x i8>, <64 x i8>)
declare i32 @llvm.umax.i32(i32, i32)
declare i32 @llvm.vector.reduce.umax.v16i32(<16 x i32>)
define void @kba93d57470482efb(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v416 = getelementptr float, ptr %a0, i64 16
  %v417 = getelementptr float, ptr %a0, i64 32
  %v418 = getelementptr float, ptr %a0, i64 48
  %v419 = getelementptr float, ptr %a0, i64 64
  %v420 = getelementptr float, ptr %a0, i64 80
  %v421 = getelementptr float, ptr %a0, i64 96
  %v422 = getelementptr float, ptr %a0, i64 112
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v423, %v1.next ]
  %v423.more = icmp slt i64 %v2, %end
  br i1 %v423.more, label %v1.turn, label %v1.after
v1.turn:
  %v3 = sub i64 %v2, %begin
  %v4 = icmp eq i64 %v3, 0
  br i1 %v4, label %v5.then, label %v5.after
v5.then:
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v14, %v6.next ]
  %v8 = phi <16 x i32> [ splat (i32 0), %v6.before ], [ %v13, %v6.next ]
  %v9 = mul i64 %v7, 4
  %v10 = getelementptr i8, ptr %a1, i64 %v9
  %v11 = load <16 x i32>, ptr %v10, align 4
  %v12 = and <16 x i32> %v11, splat (i32 2147483647)
  %v13 = call <16 x i32> @llvm.umax.v16i32(<16 x i32> %v8, <16 x i32> %v12)
  br label %v6.next
v6.next:
  %v14 = add i64 %v7, 16
  %v14.more = icmp slt i64 %v14, 128
  br i1 %v14.more, label %v6, label %v6.after
v6.after:
  %v15 = call i32 @llvm.vector.reduce.umax.v16i32(<16 x i32> %v13)
  %v16 = and i32 %v15, 2139095040
  %v17 = icmp eq i32 %v16, 2139095040
  %v18 = call i32 @llvm.umax.i32(i32 %v16, i32 251658240)
  %v19 = sub i32 -1920991232, %v18
  %v20 = bitcast i32 %v19 to float
  %v21 = insertelement <16 x float> poison, float %v20, i64 0
  %v22 = shufflevector <16 x float> %v21, <16 x float> poison, <16 x i32> zeroinitializer
  %v23 = sub i32 %v18, 243269632
  br label %v24.before
v24.before:
  br label %v24
v24:
  %v25 = phi i64 [ 0, %v24.before ], [ %v39, %v24.next ]
  %v26 = phi <16 x i32> [ splat (i32 0), %v24.before ], [ %v38, %v24.next ]
  %v27 = mul i64 %v25, 4
  %v28 = getelementptr i8, ptr %a1, i64 %v27
  %v29 = load <16 x float>, ptr %v28, align 4
  %v30 = fmul <16 x float> %v29, %v22
  %v31 = fptosi <16 x float> %v30 to <16 x i32>
  %v32 = add <16 x i32> %v31, splat (i32 8421504)
  %v33 = xor <16 x i32> %v32, splat (i32 8421504)
  %v34 = bitcast <16 x i32> %v33 to <64 x i8>
  %v35 = shufflevector <64 x i8> %v34, <64 x i8> poison, <64 x i32> <i32 0, i32 4, i32 8, i32 12, i32 1, i32 5, i32 9, i32 13, i32 2, i32 6, i32 10, i32 14, i32 3, i32 7, i32 11, i32 15, i32 16, i32 20, i32 24, i32 28, i32 17, i32 21, i32 25, i32 29, i32 18, i32 22, i32 26, i32 30, i32 19, i32 23, i32 27, i32 31, i32 32, i32 36, i32 40, i32 44, i32 33, i32 37, i32 41, i32 45, i32 34, i32 38, i32 42, i32 46, i32 35, i32 39, i32 43, i32 47, i32 48, i32 52, i32 56, i32 60, i32 49, i32 53, i32 57, i32 61, i32 50, i32 54, i32 58, i32 62, i32 51, i32 55, i32 59, i32 63>
  %v36 = add i64 %v27, 64
  %v37 = getelementptr i8, ptr %scratch, i64 %v36
  store <64 x i8> %v35, ptr %v37, align 4
  %v38 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v26, <64 x i8> splat (i8 1), <64 x i8> %v35)
  br label %v24.next
v24.next:
  %v39 = add i64 %v25, 16
  %v39.more = icmp slt i64 %v39, 128
  br i1 %v39.more, label %v24, label %v24.after
v24.after:
  %v40 = shufflevector <16 x i32> %v38, <16 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v41 = shufflevector <16 x i32> %v38, <16 x i32> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v42 = shufflevector <16 x i32> %v38, <16 x i32> poison, <4 x i32> <i32 8, i32 9, i32 10, i32 11>
  %v43 = shufflevector <16 x i32> %v38, <16 x i32> poison, <4 x i32> <i32 12, i32 13, i32 14, i32 15>
  %v44 = add <4 x i32> %v40, %v41
  %v45 = add <4 x i32> %v44, %v42
  %v46 = add <4 x i32> %v45, %v43
  %v47 = mul <4 x i32> %v46, splat (i32 -128)
  store <4 x i32> %v47, ptr %scratch, align 4
  %v48 = getelementptr i8, ptr %scratch, i64 16
  store i32 %v23, ptr %v48, align 4
  %v49 = getelementptr i8, ptr %scratch, i64 24
  %v50 = select i1 %v17, i64 128, i64 0
  store i64 %v50, ptr %v49, align 8
  br label %v5.after
v5.after:
  %v51 = load i32, ptr %scratch, align 4
  %v52 = insertelement <16 x i32> poison, i32 %v51, i64 0
  %v53 = shufflevector <16 x i32> %v52, <16 x i32> poison, <16 x i32> zeroinitializer
  %v54 = getelementptr i8, ptr %scratch, i64 4
  %v55 = load i32, ptr %v54, align 4
  %v56 = insertelement <16 x i32> poison, i32 %v55, i64 0
  %v57 = shufflevector <16 x i32> %v56, <16 x i32> poison, <16 x i32> zeroinitializer
  %v58 = getelementptr i8, ptr %scratch, i64 8
  %v59 = load i32, ptr %v58, align 4
  %v60 = insertelement <16 x i32> poison, i32 %v59, i64 0
  %v61 = shufflevector <16 x i32> %v60, <16 x i32> poison, <16 x i32> zeroinitializer
  %v62 = getelementptr i8, ptr %scratch, i64 12
  %v63 = load i32, ptr %v62, align 4
  %v64 = insertelement <16 x i32> poison, i32 %v63, i64 0
  %v65 = shufflevector <16 x i32> %v64, <16 x i32> poison, <16 x i32> zeroinitializer
  br label %v66.before
v66.before:
  br label %v66
v66:
  %v67 = phi i64 [ 0, %v66.before ], [ %v135, %v66.next ]
  %v68 = phi <16 x i32> [ %v53, %v66.before ], [ %v110, %v66.next ]
  %v69 = phi <16 x i32> [ %v57, %v66.before ], [ %v111, %v66.next ]
  %v70 = phi <16 x i32> [ %v61, %v66.before ], [ %v112, %v66.next ]
  %v71 = phi <16 x i32> [ %v65, %v66.before ], [ %v113, %v66.next ]
  %v72 = phi <16 x i32> [ %v53, %v66.before ], [ %v117, %v66.next ]
  %v73 = phi <16 x i32> [ %v57, %v66.before ], [ %v118, %v66.next ]
  %v74 = phi <16 x i32> [ %v61, %v66.before ], [ %v119, %v66.next ]
  %v75 = phi <16 x i32> [ %v65, %v66.before ], [ %v120, %v66.next ]
  %v76 = phi <16 x i32> [ %v53, %v66.before ], [ %v124, %v66.next ]
  %v77 = phi <16 x i32> [ %v57, %v66.before ], [ %v125, %v66.next ]
  %v78 = phi <16 x i32> [ %v61, %v66.before ], [ %v126, %v66.next ]
  %v79 = phi <16 x i32> [ %v65, %v66.before ], [ %v127, %v66.next ]
  %v80 = phi <16 x i32> [ %v53, %v66.before ], [ %v131, %v66.next ]
  %v81 = phi <16 x i32> [ %v57, %v66.before ], [ %v132, %v66.next ]
  %v82 = phi <16 x i32> [ %v61, %v66.before ], [ %v133, %v66.next ]
  %v83 = phi <16 x i32> [ %v65, %v66.before ], [ %v134, %v66.next ]
  %v84 = mul i64 %v67, 16
  %v85 = add i64 %v84, 64
  %v86 = getelementptr i8, ptr %scratch, i64 %v85
  %v87 = load i32, ptr %v86, align 4
  %v88 = insertelement <16 x i32> poison, i32 %v87, i64 0
  %v89 = shufflevector <16 x i32> %v88, <16 x i32> poison, <16 x i32> zeroinitializer
  %v90 = getelementptr i8, ptr %v86, i64 4
  %v91 = load i32, ptr %v90, align 4
  %v92 = insertelement <16 x i32> poison, i32 %v91, i64 0
  %v93 = shufflevector <16 x i32> %v92, <16 x i32> poison, <16 x i32> zeroinitializer
  %v94 = getelementptr i8, ptr %v86, i64 8
  %v95 = load i32, ptr %v94, align 4
  %v96 = insertelement <16 x i32> poison, i32 %v95, i64 0
  %v97 = shufflevector <16 x i32> %v96, <16 x i32> poison, <16 x i32> zeroinitializer
  %v98 = getelementptr i8, ptr %v86, i64 12
  %v99 = load i32, ptr %v98, align 4
  %v100 = insertelement <16 x i32> poison, i32 %v99, i64 0
  %v101 = shufflevector <16 x i32> %v100, <16 x i32> poison, <16 x i32> zeroinitializer
  %v102 = bitcast <16 x i32> %v89 to <64 x i8>
  %v103 = bitcast <16 x i32> %v93 to <64 x i8>
  %v104 = bitcast <16 x i32> %v97 to <64 x i8>
  %v105 = bitcast <16 x i32> %v101 to <64 x i8>
  %v106 = mul i64 %v67, 512
  %v107 = add i64 %v106, 512
  %v108 = getelementptr i8, ptr %a2, i64 %v107
  %v109 = load <64 x i8>, ptr %v108, align 16
  %v110 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v68, <64 x i8> %v109, <64 x i8> %v102)
  %v111 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v69, <64 x i8> %v109, <64 x i8> %v103)
  %v112 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v70, <64 x i8> %v109, <64 x i8> %v104)
  %v113 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v71, <64 x i8> %v109, <64 x i8> %v105)
  %v114 = add i64 %v106, 576
  %v115 = getelementptr i8, ptr %a2, i64 %v114
  %v116 = load <64 x i8>, ptr %v115, align 16
  %v117 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v72, <64 x i8> %v116, <64 x i8> %v102)
  %v118 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v73, <64 x i8> %v116, <64 x i8> %v103)
  %v119 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v74, <64 x i8> %v116, <64 x i8> %v104)
  %v120 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v75, <64 x i8> %v116, <64 x i8> %v105)
  %v121 = add i64 %v106, 640
  %v122 = getelementptr i8, ptr %a2, i64 %v121
  %v123 = load <64 x i8>, ptr %v122, align 16
  %v124 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v76, <64 x i8> %v123, <64 x i8> %v102)
  %v125 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v77, <64 x i8> %v123, <64 x i8> %v103)
  %v126 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v78, <64 x i8> %v123, <64 x i8> %v104)
  %v127 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v79, <64 x i8> %v123, <64 x i8> %v105)
  %v128 = add i64 %v106, 704
  %v129 = getelementptr i8, ptr %a2, i64 %v128
  %v130 = load <64 x i8>, ptr %v129, align 16
  %v131 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v80, <64 x i8> %v130, <64 x i8> %v102)
  %v132 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v81, <64 x i8> %v130, <64 x i8> %v103)
  %v133 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v82, <64 x i8> %v130, <64 x i8> %v104)
  %v134 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v83, <64 x i8> %v130, <64 x i8> %v105)
  br label %v66.next
v66.next:
  %v135 = add i64 %v67, 1
  %v135.more = icmp slt i64 %v135, 32
  br i1 %v135.more, label %v66, label %v66.after
v66.after:
  %v136 = getelementptr i8, ptr %scratch, i64 16
  %v137 = load float, ptr %v136, align 4
  %v138 = insertelement <16 x float> poison, float %v137, i64 0
  %v139 = shufflevector <16 x float> %v138, <16 x float> poison, <16 x i32> zeroinitializer
  %v140 = sitofp <16 x i32> %v110 to <16 x float>
  %v141 = sitofp <16 x i32> %v111 to <16 x float>
  %v142 = sitofp <16 x i32> %v112 to <16 x float>
  %v143 = sitofp <16 x i32> %v113 to <16 x float>
  %v144 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v143, <16 x float> splat (float 0x4070000000000000), <16 x float> %v142)
  %v145 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v144, <16 x float> splat (float 0x4070000000000000), <16 x float> %v141)
  %v146 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v145, <16 x float> splat (float 0x4070000000000000), <16 x float> %v140)
  %v147 = fmul <16 x float> %v146, %v139
  %v148 = sitofp <16 x i32> %v117 to <16 x float>
  %v149 = sitofp <16 x i32> %v118 to <16 x float>
  %v150 = sitofp <16 x i32> %v119 to <16 x float>
  %v151 = sitofp <16 x i32> %v120 to <16 x float>
  %v152 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v151, <16 x float> splat (float 0x4070000000000000), <16 x float> %v150)
  %v153 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v152, <16 x float> splat (float 0x4070000000000000), <16 x float> %v149)
  %v154 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v153, <16 x float> splat (float 0x4070000000000000), <16 x float> %v148)
  %v155 = fmul <16 x float> %v154, %v139
  %v156 = sitofp <16 x i32> %v124 to <16 x float>
  %v157 = sitofp <16 x i32> %v125 to <16 x float>
  %v158 = sitofp <16 x i32> %v126 to <16 x float>
  %v159 = sitofp <16 x i32> %v127 to <16 x float>
  %v160 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v159, <16 x float> splat (float 0x4070000000000000), <16 x float> %v158)
  %v161 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v160, <16 x float> splat (float 0x4070000000000000), <16 x float> %v157)
  %v162 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v161, <16 x float> splat (float 0x4070000000000000), <16 x float> %v156)
  %v163 = fmul <16 x float> %v162, %v139
  %v164 = sitofp <16 x i32> %v131 to <16 x float>
  %v165 = sitofp <16 x i32> %v132 to <16 x float>
  %v166 = sitofp <16 x i32> %v133 to <16 x float>
  %v167 = sitofp <16 x i32> %v134 to <16 x float>
  %v168 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v167, <16 x float> splat (float 0x4070000000000000), <16 x float> %v166)
  %v169 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v168, <16 x float> splat (float 0x4070000000000000), <16 x float> %v165)
  %v170 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v169, <16 x float> splat (float 0x4070000000000000), <16 x float> %v164)
  %v171 = fmul <16 x float> %v170, %v139
  %v172 = load i32, ptr %scratch, align 4
  %v173 = insertelement <16 x i32> poison, i32 %v172, i64 0
  %v174 = shufflevector <16 x i32> %v173, <16 x i32> poison, <16 x i32> zeroinitializer
  %v175 = getelementptr i8, ptr %scratch, i64 4
  %v176 = load i32, ptr %v175, align 4
  %v177 = insertelement <16 x i32> poison, i32 %v176, i64 0
  %v178 = shufflevector <16 x i32> %v177, <16 x i32> poison, <16 x i32> zeroinitializer
  %v179 = getelementptr i8, ptr %scratch, i64 8
  %v180 = load i32, ptr %v179, align 4
  %v181 = insertelement <16 x i32> poison, i32 %v180, i64 0
  %v182 = shufflevector <16 x i32> %v181, <16 x i32> poison, <16 x i32> zeroinitializer
  %v183 = getelementptr i8, ptr %scratch, i64 12
  %v184 = load i32, ptr %v183, align 4
  %v185 = insertelement <16 x i32> poison, i32 %v184, i64 0
  %v186 = shufflevector <16 x i32> %v185, <16 x i32> poison, <16 x i32> zeroinitializer
  br label %v187.before
v187.before:
  br label %v187
v187:
  %v188 = phi i64 [ 0, %v187.before ], [ %v256, %v187.next ]
  %v189 = phi <16 x i32> [ %v174, %v187.before ], [ %v231, %v187.next ]
  %v190 = phi <16 x i32> [ %v178, %v187.before ], [ %v232, %v187.next ]
  %v191 = phi <16 x i32> [ %v182, %v187.before ], [ %v233, %v187.next ]
  %v192 = phi <16 x i32> [ %v186, %v187.before ], [ %v234, %v187.next ]
  %v193 = phi <16 x i32> [ %v174, %v187.before ], [ %v238, %v187.next ]
  %v194 = phi <16 x i32> [ %v178, %v187.before ], [ %v239, %v187.next ]
  %v195 = phi <16 x i32> [ %v182, %v187.before ], [ %v240, %v187.next ]
  %v196 = phi <16 x i32> [ %v186, %v187.before ], [ %v241, %v187.next ]
  %v197 = phi <16 x i32> [ %v174, %v187.before ], [ %v245, %v187.next ]
  %v198 = phi <16 x i32> [ %v178, %v187.before ], [ %v246, %v187.next ]
  %v199 = phi <16 x i32> [ %v182, %v187.before ], [ %v247, %v187.next ]
  %v200 = phi <16 x i32> [ %v186, %v187.before ], [ %v248, %v187.next ]
  %v201 = phi <16 x i32> [ %v174, %v187.before ], [ %v252, %v187.next ]
  %v202 = phi <16 x i32> [ %v178, %v187.before ], [ %v253, %v187.next ]
  %v203 = phi <16 x i32> [ %v182, %v187.before ], [ %v254, %v187.next ]
  %v204 = phi <16 x i32> [ %v186, %v187.before ], [ %v255, %v187.next ]
  %v205 = mul i64 %v188, 16
  %v206 = add i64 %v205, 64
  %v207 = getelementptr i8, ptr %scratch, i64 %v206
  %v208 = load i32, ptr %v207, align 4
  %v209 = insertelement <16 x i32> poison, i32 %v208, i64 0
  %v210 = shufflevector <16 x i32> %v209, <16 x i32> poison, <16 x i32> zeroinitializer
  %v211 = getelementptr i8, ptr %v207, i64 4
  %v212 = load i32, ptr %v211, align 4
  %v213 = insertelement <16 x i32> poison, i32 %v212, i64 0
  %v214 = shufflevector <16 x i32> %v213, <16 x i32> poison, <16 x i32> zeroinitializer
  %v215 = getelementptr i8, ptr %v207, i64 8
  %v216 = load i32, ptr %v215, align 4
  %v217 = insertelement <16 x i32> poison, i32 %v216, i64 0
  %v218 = shufflevector <16 x i32> %v217, <16 x i32> poison, <16 x i32> zeroinitializer
  %v219 = getelementptr i8, ptr %v207, i64 12
  %v220 = load i32, ptr %v219, align 4
  %v221 = insertelement <16 x i32> poison, i32 %v220, i64 0
  %v222 = shufflevector <16 x i32> %v221, <16 x i32> poison, <16 x i32> zeroinitializer
  %v223 = bitcast <16 x i32> %v210 to <64 x i8>
  %v224 = bitcast <16 x i32> %v214 to <64 x i8>
  %v225 = bitcast <16 x i32> %v218 to <64 x i8>
  %v226 = bitcast <16 x i32> %v222 to <64 x i8>
  %v227 = mul i64 %v188, 512
  %v228 = add i64 %v227, 768
  %v229 = getelementptr i8, ptr %a2, i64 %v228
  %v230 = load <64 x i8>, ptr %v229, align 16
  %v231 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v189, <64 x i8> %v230, <64 x i8> %v223)
  %v232 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v190, <64 x i8> %v230, <64 x i8> %v224)
  %v233 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v191, <64 x i8> %v230, <64 x i8> %v225)
  %v234 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v192, <64 x i8> %v230, <64 x i8> %v226)
  %v235 = add i64 %v227, 832
  %v236 = getelementptr i8, ptr %a2, i64 %v235
  %v237 = load <64 x i8>, ptr %v236, align 16
  %v238 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v193, <64 x i8> %v237, <64 x i8> %v223)
  %v239 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v194, <64 x i8> %v237, <64 x i8> %v224)
  %v240 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v195, <64 x i8> %v237, <64 x i8> %v225)
  %v241 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v196, <64 x i8> %v237, <64 x i8> %v226)
  %v242 = add i64 %v227, 896
  %v243 = getelementptr i8, ptr %a2, i64 %v242
  %v244 = load <64 x i8>, ptr %v243, align 16
  %v245 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v197, <64 x i8> %v244, <64 x i8> %v223)
  %v246 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v198, <64 x i8> %v244, <64 x i8> %v224)
  %v247 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v199, <64 x i8> %v244, <64 x i8> %v225)
  %v248 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v200, <64 x i8> %v244, <64 x i8> %v226)
  %v249 = add i64 %v227, 960
  %v250 = getelementptr i8, ptr %a2, i64 %v249
  %v251 = load <64 x i8>, ptr %v250, align 16
  %v252 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v201, <64 x i8> %v251, <64 x i8> %v223)
  %v253 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v202, <64 x i8> %v251, <64 x i8> %v224)
  %v254 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v203, <64 x i8> %v251, <64 x i8> %v225)
  %v255 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v204, <64 x i8> %v251, <64 x i8> %v226)
  br label %v187.next
v187.next:
  %v256 = add i64 %v188, 1
  %v256.more = icmp slt i64 %v256, 32
  br i1 %v256.more, label %v187, label %v187.after
v187.after:
  %v257 = getelementptr i8, ptr %scratch, i64 16
  %v258 = load float, ptr %v257, align 4
  %v259 = insertelement <16 x float> poison, float %v258, i64 0
  %v260 = shufflevector <16 x float> %v259, <16 x float> poison, <16 x i32> zeroinitializer
  %v261 = sitofp <16 x i32> %v231 to <16 x float>
  %v262 = sitofp <16 x i32> %v232 to <16 x float>
  %v263 = sitofp <16 x i32> %v233 to <16 x float>
  %v264 = sitofp <16 x i32> %v234 to <16 x float>
  %v265 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v264, <16 x float> splat (float 0x4070000000000000), <16 x float> %v263)
  %v266 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v265, <16 x float> splat (float 0x4070000000000000), <16 x float> %v262)
  %v267 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v266, <16 x float> splat (float 0x4070000000000000), <16 x float> %v261)
  %v268 = fmul <16 x float> %v267, %v260
  %v269 = sitofp <16 x i32> %v238 to <16 x float>
  %v270 = sitofp <16 x i32> %v239 to <16 x float>
  %v271 = sitofp <16 x i32> %v240 to <16 x float>
  %v272 = sitofp <16 x i32> %v241 to <16 x float>
  %v273 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v272, <16 x float> splat (float 0x4070000000000000), <16 x float> %v271)
  %v274 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v273, <16 x float> splat (float 0x4070000000000000), <16 x float> %v270)
  %v275 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v274, <16 x float> splat (float 0x4070000000000000), <16 x float> %v269)
  %v276 = fmul <16 x float> %v275, %v260
  %v277 = sitofp <16 x i32> %v245 to <16 x float>
  %v278 = sitofp <16 x i32> %v246 to <16 x float>
  %v279 = sitofp <16 x i32> %v247 to <16 x float>
  %v280 = sitofp <16 x i32> %v248 to <16 x float>
  %v281 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v280, <16 x float> splat (float 0x4070000000000000), <16 x float> %v279)
  %v282 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v281, <16 x float> splat (float 0x4070000000000000), <16 x float> %v278)
  %v283 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v282, <16 x float> splat (float 0x4070000000000000), <16 x float> %v277)
  %v284 = fmul <16 x float> %v283, %v260
  %v285 = sitofp <16 x i32> %v252 to <16 x float>
  %v286 = sitofp <16 x i32> %v253 to <16 x float>
  %v287 = sitofp <16 x i32> %v254 to <16 x float>
  %v288 = sitofp <16 x i32> %v255 to <16 x float>
  %v289 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v288, <16 x float> splat (float 0x4070000000000000), <16 x float> %v287)
  %v290 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v289, <16 x float> splat (float 0x4070000000000000), <16 x float> %v286)
  %v291 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v290, <16 x float> splat (float 0x4070000000000000), <16 x float> %v285)
  %v292 = fmul <16 x float> %v291, %v260
  %v293 = getelementptr i8, ptr %scratch, i64 24
  %v294 = load i64, ptr %v293, align 8
  %v295 = icmp eq i64 %v294, 0
  %v296 = insertelement <16 x i1> poison, i1 %v295, i64 0
  %v297 = shufflevector <16 x i1> %v296, <16 x i1> poison, <16 x i32> zeroinitializer
  %v298 = select <16 x i1> %v297, <16 x float> %v147, <16 x float> splat (float 0x0000000000000000)
  %v299 = select <16 x i1> %v297, <16 x float> %v155, <16 x float> splat (float 0x0000000000000000)
  %v300 = select <16 x i1> %v297, <16 x float> %v163, <16 x float> splat (float 0x0000000000000000)
  %v301 = select <16 x i1> %v297, <16 x float> %v171, <16 x float> splat (float 0x0000000000000000)
  %v302 = select <16 x i1> %v297, <16 x float> %v268, <16 x float> splat (float 0x0000000000000000)
  %v303 = select <16 x i1> %v297, <16 x float> %v276, <16 x float> splat (float 0x0000000000000000)
  %v304 = select <16 x i1> %v297, <16 x float> %v284, <16 x float> splat (float 0x0000000000000000)
  %v305 = select <16 x i1> %v297, <16 x float> %v292, <16 x float> splat (float 0x0000000000000000)
  br label %v306.before
v306.before:
  br label %v306
v306:
  %v307 = phi i64 [ 0, %v306.before ], [ %v392, %v306.next ]
  %v308 = phi <16 x float> [ %v298, %v306.before ], [ %v335, %v306.next ]
  %v309 = phi <16 x float> [ %v299, %v306.before ], [ %v343, %v306.next ]
  %v310 = phi <16 x float> [ %v300, %v306.before ], [ %v351, %v306.next ]
  %v311 = phi <16 x float> [ %v301, %v306.before ], [ %v359, %v306.next ]
  %v312 = phi <16 x float> [ %v302, %v306.before ], [ %v367, %v306.next ]
  %v313 = phi <16 x float> [ %v303, %v306.before ], [ %v375, %v306.next ]
  %v314 = phi <16 x float> [ %v304, %v306.before ], [ %v383, %v306.next ]
  %v315 = phi <16 x float> [ %v305, %v306.before ], [ %v391, %v306.next ]
  %v392.more = icmp slt i64 %v307, %v294
  br i1 %v392.more, label %v306.turn, label %v306.after
v306.turn:
  %v316 = mul i64 %v307, 4
  %v317 = getelementptr i8, ptr %a1, i64 %v316
  %v318 = load float, ptr %v317, align 4
  %v319 = insertelement <16 x float> poison, float %v318, i64 0
  %v320 = shufflevector <16 x float> %v319, <16 x float> poison, <16 x i32> zeroinitializer
  %v321 = lshr i64 %v307, 2
  %v322 = and i64 %v307, 3
  %v323 = mul i64 %v322, 8
  %v324 = trunc i64 %v323 to i32
  %v325 = mul i64 %v321, 512
  %v326 = add i64 %v325, 512
  %v327 = getelementptr i8, ptr %a2, i64 %v326
  %v328 = load <16 x i32>, ptr %v327, align 16
  %v329 = insertelement <16 x i32> poison, i32 %v324, i64 0
  %v330 = shufflevector <16 x i32> %v329, <16 x i32> poison, <16 x i32> zeroinitializer
  %v331 = lshr <16 x i32> %v328, %v330
  %v332 = and <16 x i32> %v331, splat (i32 255)
  %v333 = sub <16 x i32> %v332, splat (i32 128)
  %v334 = sitofp <16 x i32> %v333 to <16 x float>
  %v335 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v320, <16 x float> %v334, <16 x float> %v308)
  %v336 = add i64 %v325, 576
  %v337 = getelementptr i8, ptr %a2, i64 %v336
  %v338 = load <16 x i32>, ptr %v337, align 16
  %v339 = lshr <16 x i32> %v338, %v330
  %v340 = and <16 x i32> %v339, splat (i32 255)
  %v341 = sub <16 x i32> %v340, splat (i32 128)
  %v342 = sitofp <16 x i32> %v341 to <16 x float>
  %v343 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v320, <16 x float> %v342, <16 x float> %v309)
  %v344 = add i64 %v325, 640
  %v345 = getelementptr i8, ptr %a2, i64 %v344
  %v346 = load <16 x i32>, ptr %v345, align 16
  %v347 = lshr <16 x i32> %v346, %v330
  %v348 = and <16 x i32> %v347, splat (i32 255)
  %v349 = sub <16 x i32> %v348, splat (i32 128)
  %v350 = sitofp <16 x i32> %v349 to <16 x float>
  %v351 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v320, <16 x float> %v350, <16 x float> %v310)
  %v352 = add i64 %v325, 704
  %v353 = getelementptr i8, ptr %a2, i64 %v352
  %v354 = load <16 x i32>, ptr %v353, align 16
  %v355 = lshr <16 x i32> %v354, %v330
  %v356 = and <16 x i32> %v355, splat (i32 255)
  %v357 = sub <16 x i32> %v356, splat (i32 128)
  %v358 = sitofp <16 x i32> %v357 to <16 x float>
  %v359 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v320, <16 x float> %v358, <16 x float> %v311)
  %v360 = add i64 %v325, 768
  %v361 = getelementptr i8, ptr %a2, i64 %v360
  %v362 = load <16 x i32>, ptr %v361, align 16
  %v363 = lshr <16 x i32> %v362, %v330
  %v364 = and <16 x i32> %v363, splat (i32 255)
  %v365 = sub <16 x i32> %v364, splat (i32 128)
  %v366 = sitofp <16 x i32> %v365 to <16 x float>
  %v367 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v320, <16 x float> %v366, <16 x float> %v312)
  %v368 = add i64 %v325, 832
  %v369 = getelementptr i8, ptr %a2, i64 %v368
  %v370 = load <16 x i32>, ptr %v369, align 16
  %v371 = lshr <16 x i32> %v370, %v330
  %v372 = and <16 x i32> %v371, splat (i32 255)
  %v373 = sub <16 x i32> %v372, splat (i32 128)
  %v374 = sitofp <16 x i32> %v373 to <16 x float>
  %v375 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v320, <16 x float> %v374, <16 x float> %v313)
  %v376 = add i64 %v325, 896
  %v377 = getelementptr i8, ptr %a2, i64 %v376
  %v378 = load <16 x i32>, ptr %v377, align 16
  %v379 = lshr <16 x i32> %v378, %v330
  %v380 = and <16 x i32> %v379, splat (i32 255)
  %v381 = sub <16 x i32> %v380, splat (i32 128)
  %v382 = sitofp <16 x i32> %v381 to <16 x float>
  %v383 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v320, <16 x float> %v382, <16 x float> %v314)
  %v384 = add i64 %v325, 960
  %v385 = getelementptr i8, ptr %a2, i64 %v384
  %v386 = load <16 x i32>, ptr %v385, align 16
  %v387 = lshr <16 x i32> %v386, %v330
  %v388 = and <16 x i32> %v387, splat (i32 255)
  %v389 = sub <16 x i32> %v388, splat (i32 128)
  %v390 = sitofp <16 x i32> %v389 to <16 x float>
  %v391 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v320, <16 x float> %v390, <16 x float> %v315)
  br label %v306.next
v306.next:
  %v392 = add i64 %v307, 1
  br label %v306
v306.after:
  %v393 = load <16 x float>, ptr %a2, align 16
  %v394 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v308, <16 x float> %v393, <16 x float> splat (float 0x0000000000000000))
  %v395 = getelementptr i8, ptr %a2, i64 64
  %v396 = load <16 x float>, ptr %v395, align 16
  %v397 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v309, <16 x float> %v396, <16 x float> splat (float 0x0000000000000000))
  %v398 = getelementptr i8, ptr %a2, i64 128
  %v399 = load <16 x float>, ptr %v398, align 16
  %v400 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v310, <16 x float> %v399, <16 x float> splat (float 0x0000000000000000))
  %v401 = getelementptr i8, ptr %a2, i64 192
  %v402 = load <16 x float>, ptr %v401, align 16
  %v403 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v311, <16 x float> %v402, <16 x float> splat (float 0x0000000000000000))
  %v404 = getelementptr i8, ptr %a2, i64 256
  %v405 = load <16 x float>, ptr %v404, align 16
  %v406 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v312, <16 x float> %v405, <16 x float> splat (float 0x0000000000000000))
  %v407 = getelementptr i8, ptr %a2, i64 320
  %v408 = load <16 x float>, ptr %v407, align 16
  %v409 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v313, <16 x float> %v408, <16 x float> splat (float 0x0000000000000000))
  %v410 = getelementptr i8, ptr %a2, i64 384
  %v411 = load <16 x float>, ptr %v410, align 16
  %v412 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v314, <16 x float> %v411, <16 x float> splat (float 0x0000000000000000))
  %v413 = getelementptr i8, ptr %a2, i64 448
  %v414 = load <16 x float>, ptr %v413, align 16
  %v415 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %v315, <16 x float> %v414, <16 x float> splat (float 0x0000000000000000))
  store <16 x float> %v394, ptr %a0, align 4
  store <16 x float> %v397, ptr %v416, align 4
  store <16 x float> %v400, ptr %v417, align 4
  store <16 x float> %v403, ptr %v418, align 4
  store <16 x float> %v406, ptr %v419, align 4
  store <16 x float> %v409, ptr %v420, align 4
  store <16 x float> %v412, ptr %v421, align 4
  store <16 x float> %v415, ptr %v422, align 4
  br label %v1.next
v1.next:
  %v423 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

