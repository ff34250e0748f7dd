declare <8 x float> @llvm.fabs.v8f32(<8 x float>)
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <8 x float> @llvm.maxnum.v8f32(<8 x float>, <8 x float>)
define void @sf025a65f997732f5(ptr %corner, ptr %zeros, ptr %weights, ptr %results, i64 %top, i64 %left, i64 %height, i64 %width, i64 %line, i64 %pixel, i64 %depth, i64 %row, i64 %point) nounwind {
  %v1 = icmp ult i64 %top, %height
  %v2 = icmp ult i64 %left, %width
  %v3 = and i1 %v1, %v2
  %v4 = select i1 %v3, ptr %corner, ptr %zeros
  %v5 = add i64 %left, 1
  %v6 = icmp ult i64 %v5, %width
  %v7 = and i1 %v1, %v6
  %v8 = getelementptr i8, ptr %corner, i64 %pixel
  %v9 = select i1 %v7, ptr %v8, ptr %zeros
  %v10 = add i64 %left, 2
  %v11 = icmp ult i64 %v10, %width
  %v12 = mul i64 %pixel, 2
  %v13 = and i1 %v1, %v11
  %v14 = getelementptr i8, ptr %corner, i64 %v12
  %v15 = select i1 %v13, ptr %v14, ptr %zeros
  %v16 = add i64 %left, 3
  %v17 = icmp ult i64 %v16, %width
  %v18 = mul i64 %pixel, 3
  %v19 = and i1 %v1, %v17
  %v20 = getelementptr i8, ptr %corner, i64 %v18
  %v21 = select i1 %v19, ptr %v20, ptr %zeros
  %v22 = add i64 %top, 1
  %v23 = icmp ult i64 %v22, %height
  %v24 = and i1 %v23, %v2
  %v25 = getelementptr i8, ptr %corner, i64 %line
  %v26 = select i1 %v24, ptr %v25, ptr %zeros
  %v27 = and i1 %v23, %v6
  %v28 = add i64 %line, %pixel
  %v29 = getelementptr i8, ptr %corner, i64 %v28
  %v30 = select i1 %v27, ptr %v29, ptr %zeros
  %v31 = and i1 %v23, %v11
  %v32 = add i64 %line, %v12
  %v33 = getelementptr i8, ptr %corner, i64 %v32
  %v34 = select i1 %v31, ptr %v33, ptr %zeros
  %v35 = and i1 %v23, %v17
  %v36 = add i64 %line, %v18
  %v37 = getelementptr i8, ptr %corner, i64 %v36
  %v38 = select i1 %v35, ptr %v37, ptr %zeros
  %v39 = add i64 %top, 2
  %v40 = icmp ult i64 %v39, %height
  %v41 = mul i64 %line, 2
  %v42 = and i1 %v40, %v2
  %v43 = getelementptr i8, ptr %corner, i64 %v41
  %v44 = select i1 %v42, ptr %v43, ptr %zeros
  %v45 = and i1 %v40, %v6
  %v46 = add i64 %v41, %pixel
  %v47 = getelementptr i8, ptr %corner, i64 %v46
  %v48 = select i1 %v45, ptr %v47, ptr %zeros
  %v49 = and i1 %v40, %v11
  %v50 = add i64 %v41, %v12
  %v51 = getelementptr i8, ptr %corner, i64 %v50
  %v52 = select i1 %v49, ptr %v51, ptr %zeros
  %v53 = and i1 %v40, %v17
  %v54 = add i64 %v41, %v18
  %v55 = getelementptr i8, ptr %corner, i64 %v54
  %v56 = select i1 %v53, ptr %v55, ptr %zeros
  %v57 = add i64 %top, 3
  %v58 = icmp ult i64 %v57, %height
  %v59 = mul i64 %line, 3
  %v60 = and i1 %v58, %v2
  %v61 = getelementptr i8, ptr %corner, i64 %v59
  %v62 = select i1 %v60, ptr %v61, ptr %zeros
  %v63 = and i1 %v58, %v6
  %v64 = add i64 %v59, %pixel
  %v65 = getelementptr i8, ptr %corner, i64 %v64
  %v66 = select i1 %v63, ptr %v65, ptr %zeros
  %v67 = and i1 %v58, %v11
  %v68 = add i64 %v59, %v12
  %v69 = getelementptr i8, ptr %corner, i64 %v68
  %v70 = select i1 %v67, ptr %v69, ptr %zeros
  %v71 = and i1 %v58, %v17
  %v72 = add i64 %v59, %v18
  %v73 = getelementptr i8, ptr %corner, i64 %v72
  %v74 = select i1 %v71, ptr %v73, ptr %zeros
  %v75 = mul i64 %point, 0
  %v76 = mul i64 %point, 1
  %v77 = mul i64 %point, 2
  %v78 = mul i64 %point, 3
  %v79 = mul i64 %point, 4
  %v80 = mul i64 %point, 5
  %v81 = mul i64 %point, 6
  %v82 = mul i64 %point, 7
  %v83 = mul i64 %point, 8
  %v84 = mul i64 %point, 9
  %v85 = mul i64 %point, 10
  %v86 = mul i64 %point, 11
  %v87 = mul i64 %point, 12
  %v88 = mul i64 %point, 13
  %v89 = mul i64 %point, 14
  %v90 = mul i64 %point, 15
  br label %v91.before
v91.before:
  br label %v91
v91:
  %v92 = phi i64 [ 0, %v91.before ], [ %v250, %v91.next ]
  %v93 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v222, %v91.next ]
  %v94 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v231, %v91.next ]
  %v95 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v240, %v91.next ]
  %v96 = phi <8 x float> [ splat (float 0x0000000000000000), %v91.before ], [ %v249, %v91.next ]
  %v97 = mul i64 %v92, %row
  %v98 = getelementptr i8, ptr %weights, i64 %v97
  %v99 = getelementptr i8, ptr %v98, i64 %v75
  %v100 = load <8 x float>, ptr %v99, align 4
  %v101 = getelementptr i8, ptr %v98, i64 %v76
  %v102 = load <8 x float>, ptr %v101, align 4
  %v103 = getelementptr i8, ptr %v98, i64 %v77
  %v104 = load <8 x float>, ptr %v103, align 4
  %v105 = getelementptr i8, ptr %v98, i64 %v78
  %v106 = load <8 x float>, ptr %v105, align 4
  %v107 = getelementptr i8, ptr %v98, i64 %v79
  %v108 = load <8 x float>, ptr %v107, align 4
  %v109 = getelementptr i8, ptr %v98, i64 %v80
  %v110 = load <8 x float>, ptr %v109, align 4
  %v111 = getelementptr i8, ptr %v98, i64 %v81
  %v112 = load <8 x float>, ptr %v111, align 4
  %v113 = getelementptr i8, ptr %v98, i64 %v82
  %v114 = load <8 x float>, ptr %v113, align 4
  %v115 = getelementptr i8, ptr %v98, i64 %v83
  %v116 = load <8 x float>, ptr %v115, align 4
  %v117 = getelementptr i8, ptr %v98, i64 %v84
  %v118 = load <8 x float>, ptr %v117, align 4
  %v119 = getelementptr i8, ptr %v98, i64 %v85
  %v120 = load <8 x float>, ptr %v119, align 4
  %v121 = getelementptr i8, ptr %v98, i64 %v86
  %v122 = load <8 x float>, ptr %v121, align 4
  %v123 = getelementptr i8, ptr %v98, i64 %v87
  %v124 = load <8 x float>, ptr %v123, align 4
  %v125 = getelementptr i8, ptr %v98, i64 %v88
  %v126 = load <8 x float>, ptr %v125, align 4
  %v127 = getelementptr i8, ptr %v98, i64 %v89
  %v128 = load <8 x float>, ptr %v127, align 4
  %v129 = getelementptr i8, ptr %v98, i64 %v90
  %v130 = load <8 x float>, ptr %v129, align 4
  %v131 = fsub <8 x float> %v108, %v116
  %v132 = fsub <8 x float> %v110, %v118
  %v133 = fsub <8 x float> %v112, %v120
  %v134 = fsub <8 x float> %v114, %v122
  %v135 = fsub <8 x float> %v102, %v104
  %v136 = fsub <8 x float> %v132, %v133
  %v137 = fsub <8 x float> %v126, %v128
  %v138 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %v110)
  %v139 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %v112)
  %v140 = call <8 x float> @llvm.maxnum.v8f32(<8 x float> %v138, <8 x float> %v139)
  %v141 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %v118)
  %v142 = call <8 x float> @llvm.maxnum.v8f32(<8 x float> %v140, <8 x float> %v141)
  %v143 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %v120)
  %v144 = call <8 x float> @llvm.maxnum.v8f32(<8 x float> %v142, <8 x float> %v143)
  %v145 = fmul <8 x float> %v144, splat (float 0x3EB0000000000000)
  %v146 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %v136)
  %v147 = fcmp ole <8 x float> %v146, %v145
  %v148 = select <8 x i1> %v147, <8 x float> splat (float 0x0000000000000000), <8 x float> %v136
  %v149 = mul i64 %v92, 4
  %v150 = getelementptr i8, ptr %v4, i64 %v149
  %v151 = load float, ptr %v150
  %v152 = insertelement <8 x float> poison, float %v151, i64 0
  %v153 = shufflevector <8 x float> %v152, <8 x float> poison, <8 x i32> zeroinitializer
  %v154 = getelementptr i8, ptr %v9, i64 %v149
  %v155 = load float, ptr %v154
  %v156 = insertelement <8 x float> poison, float %v155, i64 0
  %v157 = shufflevector <8 x float> %v156, <8 x float> poison, <8 x i32> zeroinitializer
  %v158 = getelementptr i8, ptr %v15, i64 %v149
  %v159 = load float, ptr %v158
  %v160 = insertelement <8 x float> poison, float %v159, i64 0
  %v161 = shufflevector <8 x float> %v160, <8 x float> poison, <8 x i32> zeroinitializer
  %v162 = getelementptr i8, ptr %v21, i64 %v149
  %v163 = load float, ptr %v162
  %v164 = insertelement <8 x float> poison, float %v163, i64 0
  %v165 = shufflevector <8 x float> %v164, <8 x float> poison, <8 x i32> zeroinitializer
  %v166 = getelementptr i8, ptr %v26, i64 %v149
  %v167 = load float, ptr %v166
  %v168 = insertelement <8 x float> poison, float %v167, i64 0
  %v169 = shufflevector <8 x float> %v168, <8 x float> poison, <8 x i32> zeroinitializer
  %v170 = getelementptr i8, ptr %v30, i64 %v149
  %v171 = load float, ptr %v170
  %v172 = insertelement <8 x float> poison, float %v171, i64 0
  %v173 = shufflevector <8 x float> %v172, <8 x float> poison, <8 x i32> zeroinitializer
  %v174 = getelementptr i8, ptr %v34, i64 %v149
  %v175 = load float, ptr %v174
  %v176 = insertelement <8 x float> poison, float %v175, i64 0
  %v177 = shufflevector <8 x float> %v176, <8 x float> poison, <8 x i32> zeroinitializer
  %v178 = getelementptr i8, ptr %v38, i64 %v149
  %v179 = load float, ptr %v178
  %v180 = insertelement <8 x float> poison, float %v179, i64 0
  %v181 = shufflevector <8 x float> %v180, <8 x float> poison, <8 x i32> zeroinitializer
  %v182 = getelementptr i8, ptr %v44, i64 %v149
  %v183 = load float, ptr %v182
  %v184 = insertelement <8 x float> poison, float %v183, i64 0
  %v185 = shufflevector <8 x float> %v184, <8 x float> poison, <8 x i32> zeroinitializer
  %v186 = getelementptr i8, ptr %v48, i64 %v149
  %v187 = load float, ptr %v186
  %v188 = insertelement <8 x float> poison, float %v187, i64 0
  %v189 = shufflevector <8 x float> %v188, <8 x float> poison, <8 x i32> zeroinitializer
  %v190 = getelementptr i8, ptr %v52, i64 %v149
  %v191 = load float, ptr %v190
  %v192 = insertelement <8 x float> poison, float %v191, i64 0
  %v193 = shufflevector <8 x float> %v192, <8 x float> poison, <8 x i32> zeroinitializer
  %v194 = getelementptr i8, ptr %v56, i64 %v149
  %v195 = load float, ptr %v194
  %v196 = insertelement <8 x float> poison, float %v195, i64 0
  %v197 = shufflevector <8 x float> %v196, <8 x float> poison, <8 x i32> zeroinitializer
  %v198 = getelementptr i8, ptr %v62, i64 %v149
  %v199 = load float, ptr %v198
  %v200 = insertelement <8 x float> poison, float %v199, i64 0
  %v201 = shufflevector <8 x float> %v200, <8 x float> poison, <8 x i32> zeroinitializer
  %v202 = getelementptr i8, ptr %v66, i64 %v149
  %v203 = load float, ptr %v202
  %v204 = insertelement <8 x float> poison, float %v203, i64 0
  %v205 = shufflevector <8 x float> %v204, <8 x float> poison, <8 x i32> zeroinitializer
  %v206 = getelementptr i8, ptr %v70, i64 %v149
  %v207 = load float, ptr %v206
  %v208 = insertelement <8 x float> poison, float %v207, i64 0
  %v209 = shufflevector <8 x float> %v208, <8 x float> poison, <8 x i32> zeroinitializer
  %v210 = getelementptr i8, ptr %v74, i64 %v149
  %v211 = load float, ptr %v210
  %v212 = insertelement <8 x float> poison, float %v211, i64 0
  %v213 = shufflevector <8 x float> %v212, <8 x float> poison, <8 x i32> zeroinitializer
  %v214 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v153, <8 x float> %v100, <8 x float> %v93)
  %v215 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v157, <8 x float> %v135, <8 x float> %v214)
  %v216 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v161, <8 x float> %v106, <8 x float> %v215)
  %v217 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v169, <8 x float> %v131, <8 x float> %v216)
  %v218 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v173, <8 x float> %v148, <8 x float> %v217)
  %v219 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v177, <8 x float> %v134, <8 x float> %v218)
  %v220 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v185, <8 x float> %v124, <8 x float> %v219)
  %v221 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v189, <8 x float> %v137, <8 x float> %v220)
  %v222 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v193, <8 x float> %v130, <8 x float> %v221)
  %v223 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v169, <8 x float> %v100, <8 x float> %v94)
  %v224 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v173, <8 x float> %v135, <8 x float> %v223)
  %v225 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v177, <8 x float> %v106, <8 x float> %v224)
  %v226 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v185, <8 x float> %v131, <8 x float> %v225)
  %v227 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v189, <8 x float> %v148, <8 x float> %v226)
  %v228 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v193, <8 x float> %v134, <8 x float> %v227)
  %v229 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v201, <8 x float> %v124, <8 x float> %v228)
  %v230 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v205, <8 x float> %v137, <8 x float> %v229)
  %v231 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v209, <8 x float> %v130, <8 x float> %v230)
  %v232 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v157, <8 x float> %v100, <8 x float> %v95)
  %v233 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v161, <8 x float> %v135, <8 x float> %v232)
  %v234 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v165, <8 x float> %v106, <8 x float> %v233)
  %v235 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v173, <8 x float> %v131, <8 x float> %v234)
  %v236 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v177, <8 x float> %v148, <8 x float> %v235)
  %v237 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v181, <8 x float> %v134, <8 x float> %v236)
  %v238 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v189, <8 x float> %v124, <8 x float> %v237)
  %v239 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v193, <8 x float> %v137, <8 x float> %v238)
  %v240 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v197, <8 x float> %v130, <8 x float> %v239)
  %v241 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v173, <8 x float> %v100, <8 x float> %v96)
  %v242 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v177, <8 x float> %v135, <8 x float> %v241)
  %v243 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v181, <8 x float> %v106, <8 x float> %v242)
  %v244 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v189, <8 x float> %v131, <8 x float> %v243)
  %v245 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v193, <8 x float> %v148, <8 x float> %v244)
  %v246 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v197, <8 x float> %v134, <8 x float> %v245)
  %v247 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v205, <8 x float> %v124, <8 x float> %v246)
  %v248 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v209, <8 x float> %v137, <8 x float> %v247)
  %v249 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v213, <8 x float> %v130, <8 x float> %v248)
  br label %v91.next
v91.next:
  %v250 = add i64 %v92, 1
  %v250.more = icmp slt i64 %v250, %depth
  br i1 %v250.more, label %v91, label %v91.after
v91.after:
  store <8 x float> %v222, ptr %results, align 4
  %v251 = getelementptr i8, ptr %results, i64 32
  store <8 x float> %v231, ptr %v251, align 4
  %v252 = getelementptr i8, ptr %results, i64 64
  store <8 x float> %v240, ptr %v252, align 4
  %v253 = getelementptr i8, ptr %results, i64 96
  store <8 x float> %v249, ptr %v253, align 4
  ret void
}


; Winograd, 50 tiles of 2 x 2 positions and 2 x 8 channels
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i1 @llvm.vector.reduce.or.v8i1(<8 x i1>)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare void @sf025a65f997732f5(ptr, ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64, i64)
define void @k6af57321b91916b9(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = getelementptr i8, ptr %scratch, i64 128
  %v2 = getelementptr i8, ptr %scratch, i64 153728
  %v3 = getelementptr i8, ptr %scratch, i64 204928
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ 0, %v4.before ], [ %v8, %v4.next ]
  %v6 = mul i64 %v5, 4
  %v7 = getelementptr i8, ptr %scratch, i64 %v6
  store <8 x float> splat (float 0x0000000000000000), ptr %v7, align 4
  br label %v4.next
v4.next:
  %v8 = add i64 %v5, 8
  %v8.more = icmp slt i64 %v8, 32
  br i1 %v8.more, label %v4, label %v4.after
v4.after:
  %v9 = udiv i64 %begin, 2
  %v10 = add i64 %end, 1
  %v11 = udiv i64 %v10, 2
  %v12 = mul i64 %v9, 2
  %v13 = sub i64 %begin, %v12
  %v467 = mul i64 8, 4
  %v469 = mul i64 16, 4
  %v471 = mul i64 24, 4
  %v473 = mul i64 32, 4
  %v475 = mul i64 40, 4
  %v477 = mul i64 48, 4
  %v479 = mul i64 56, 4
  %v481 = mul i64 64, 4
  %v483 = mul i64 72, 4
  br label %v14.before
v14.before:
  br label %v14
v14:
  %v15 = phi i64 [ %v9, %v14.before ], [ %v749, %v14.next ]
  %v749.more = icmp slt i64 %v15, %v11
  br i1 %v749.more, label %v14.turn, label %v14.after
v14.turn:
  %v16 = udiv i64 %v15, 2
  %v17 = urem i64 %v15, 2
  %v18 = mul i64 %v15, 2
  %v19 = sub i64 %begin, %v18
  %v20 = call i64 @llvm.smax.i64(i64 %v19, i64 0)
  %v21 = sub i64 %end, %v18
  %v22 = call i64 @llvm.smin.i64(i64 %v21, i64 2)
  %v23 = sub i64 %v15, %v9
  %v24 = icmp eq i64 %v23, 1
  %v25 = call i64 @llvm.smin.i64(i64 %v13, i64 %v22)
  %v26 = select i1 %v24, i64 %v25, i64 0
  %v27 = icmp eq i64 %v23, 0
  %v28 = icmp eq i64 %v17, 0
  %v29 = or i1 %v27, %v28
  %v30 = select i1 %v29, i64 %v22, i64 %v26
  %v31 = mul i64 %v16, 50
  %v32 = mul i64 %v20, 25
  %v33 = mul i64 %v30, 25
  br label %v34.before
v34.before:
  br label %v34
v34:
  %v35 = phi i64 [ %v32, %v34.before ], [ %v338, %v34.next ]
  %v338.more = icmp slt i64 %v35, %v33
  br i1 %v338.more, label %v34.turn, label %v34.after
v34.turn:
  %v36 = add i64 %v31, %v35
  %v37 = call i64 @llvm.smin.i64(i64 %v36, i64 195)
  %v38 = udiv i64 %v37, 14
  %v39 = urem i64 %v37, 14
  %v40 = udiv i64 %v38, 14
  %v41 = urem i64 %v38, 14
  %v42 = mul i64 %v35, 192
  %v43 = getelementptr i8, ptr %v1, i64 %v42
  %v44 = mul i64 %v40, 100352
  %v45 = mul i64 %v41, 2
  %v46 = add i64 %v45, -1
  %v47 = mul i64 %v46, 3584
  %v48 = mul i64 %v39, 2
  %v49 = add i64 %v48, -1
  %v50 = mul i64 %v49, 128
  %v51 = add i64 %v44, %v47
  %v52 = add i64 %v51, %v50
  %v53 = getelementptr i8, ptr %a1, i64 %v52
  %v54 = icmp ult i64 %v46, 28
  %v55 = add i64 %v46, 1
  %v56 = icmp ult i64 %v55, 28
  %v57 = add i64 %v46, 2
  %v58 = icmp ult i64 %v57, 28
  %v59 = add i64 %v46, 3
  %v60 = icmp ult i64 %v59, 28
  %v61 = icmp ult i64 %v49, 28
  %v62 = add i64 %v49, 1
  %v63 = icmp ult i64 %v62, 28
  %v64 = add i64 %v49, 2
  %v65 = icmp ult i64 %v64, 28
  %v66 = add i64 %v49, 3
  %v67 = icmp ult i64 %v66, 28
  %v68 = and i1 %v54, %v56
  %v69 = and i1 %v68, %v58
  %v70 = and i1 %v69, %v60
  %v71 = and i1 %v70, %v61
  %v72 = and i1 %v71, %v63
  %v73 = and i1 %v72, %v65
  %v74 = and i1 %v73, %v67
  br i1 %v74, label %v75.then, label %v75.after
v75.then:
  %v76 = getelementptr i8, ptr %v53, i64 128
  %v77 = getelementptr i8, ptr %v53, i64 256
  %v78 = getelementptr i8, ptr %v53, i64 384
  %v79 = getelementptr i8, ptr %v53, i64 3584
  %v80 = getelementptr i8, ptr %v53, i64 3712
  %v81 = getelementptr i8, ptr %v53, i64 3840
  %v82 = getelementptr i8, ptr %v53, i64 3968
  %v83 = getelementptr i8, ptr %v53, i64 7168
  %v84 = getelementptr i8, ptr %v53, i64 7296
  %v85 = getelementptr i8, ptr %v53, i64 7424
  %v86 = getelementptr i8, ptr %v53, i64 7552
  %v87 = getelementptr i8, ptr %v53, i64 10752
  %v88 = getelementptr i8, ptr %v53, i64 10880
  %v89 = getelementptr i8, ptr %v53, i64 11008
  %v90 = getelementptr i8, ptr %v53, i64 11136
  br label %v91.before
v91.before:
  br label %v91
v91:
  %v92 = phi i64 [ 0, %v91.before ], [ %v189, %v91.next ]
  %v93 = mul i64 %v92, 4
  %v94 = getelementptr i8, ptr %v53, i64 %v93
  %v95 = load <8 x float>, ptr %v94, align 4
  %v96 = getelementptr i8, ptr %v76, i64 %v93
  %v97 = load <8 x float>, ptr %v96, align 4
  %v98 = getelementptr i8, ptr %v77, i64 %v93
  %v99 = load <8 x float>, ptr %v98, align 4
  %v100 = getelementptr i8, ptr %v78, i64 %v93
  %v101 = load <8 x float>, ptr %v100, align 4
  %v102 = getelementptr i8, ptr %v79, i64 %v93
  %v103 = load <8 x float>, ptr %v102, align 4
  %v104 = getelementptr i8, ptr %v80, i64 %v93
  %v105 = load <8 x float>, ptr %v104, align 4
  %v106 = getelementptr i8, ptr %v81, i64 %v93
  %v107 = load <8 x float>, ptr %v106, align 4
  %v108 = getelementptr i8, ptr %v82, i64 %v93
  %v109 = load <8 x float>, ptr %v108, align 4
  %v110 = getelementptr i8, ptr %v83, i64 %v93
  %v111 = load <8 x float>, ptr %v110, align 4
  %v112 = getelementptr i8, ptr %v84, i64 %v93
  %v113 = load <8 x float>, ptr %v112, align 4
  %v114 = getelementptr i8, ptr %v85, i64 %v93
  %v115 = load <8 x float>, ptr %v114, align 4
  %v116 = getelementptr i8, ptr %v86, i64 %v93
  %v117 = load <8 x float>, ptr %v116, align 4
  %v118 = getelementptr i8, ptr %v87, i64 %v93
  %v119 = load <8 x float>, ptr %v118, align 4
  %v120 = getelementptr i8, ptr %v88, i64 %v93
  %v121 = load <8 x float>, ptr %v120, align 4
  %v122 = getelementptr i8, ptr %v89, i64 %v93
  %v123 = load <8 x float>, ptr %v122, align 4
  %v124 = getelementptr i8, ptr %v90, i64 %v93
  %v125 = load <8 x float>, ptr %v124, align 4
  %v126 = fsub <8 x float> %v95, %v111
  %v127 = fsub <8 x float> %v97, %v113
  %v128 = fsub <8 x float> %v99, %v115
  %v129 = fsub <8 x float> %v101, %v117
  %v130 = fadd <8 x float> %v103, %v111
  %v131 = fadd <8 x float> %v105, %v113
  %v132 = fadd <8 x float> %v107, %v115
  %v133 = fadd <8 x float> %v109, %v117
  %v134 = fsub <8 x float> %v111, %v103
  %v135 = fsub <8 x float> %v113, %v105
  %v136 = fsub <8 x float> %v115, %v107
  %v137 = fsub <8 x float> %v117, %v109
  %v138 = fsub <8 x float> %v103, %v119
  %v139 = fsub <8 x float> %v105, %v121
  %v140 = fsub <8 x float> %v107, %v123
  %v141 = fsub <8 x float> %v109, %v125
  %v142 = fsub <8 x float> %v126, %v128
  %v143 = fsub <8 x float> %v130, %v132
  %v144 = fsub <8 x float> %v134, %v136
  %v145 = fsub <8 x float> %v138, %v140
  %v146 = fadd <8 x float> %v127, %v128
  %v147 = fadd <8 x float> %v131, %v132
  %v148 = fadd <8 x float> %v135, %v136
  %v149 = fadd <8 x float> %v139, %v140
  %v150 = fsub <8 x float> %v128, %v127
  %v151 = fsub <8 x float> %v132, %v131
  %v152 = fsub <8 x float> %v136, %v135
  %v153 = fsub <8 x float> %v140, %v139
  %v154 = fsub <8 x float> %v127, %v129
  %v155 = fsub <8 x float> %v131, %v133
  %v156 = fsub <8 x float> %v135, %v137
  %v157 = fsub <8 x float> %v139, %v141
  %v158 = getelementptr i8, ptr %v43, i64 %v93
  store <8 x float> %v142, ptr %v158, align 4
  %v159 = getelementptr i8, ptr %v43, i64 38400
  %v160 = getelementptr i8, ptr %v159, i64 %v93
  store <8 x float> %v143, ptr %v160, align 4
  %v161 = getelementptr i8, ptr %v43, i64 76800
  %v162 = getelementptr i8, ptr %v161, i64 %v93
  store <8 x float> %v144, ptr %v162, align 4
  %v163 = getelementptr i8, ptr %v43, i64 115200
  %v164 = getelementptr i8, ptr %v163, i64 %v93
  store <8 x float> %v145, ptr %v164, align 4
  %v165 = getelementptr i8, ptr %v43, i64 9600
  %v166 = getelementptr i8, ptr %v165, i64 %v93
  store <8 x float> %v146, ptr %v166, align 4
  %v167 = getelementptr i8, ptr %v43, i64 48000
  %v168 = getelementptr i8, ptr %v167, i64 %v93
  store <8 x float> %v147, ptr %v168, align 4
  %v169 = getelementptr i8, ptr %v43, i64 86400
  %v170 = getelementptr i8, ptr %v169, i64 %v93
  store <8 x float> %v148, ptr %v170, align 4
  %v171 = getelementptr i8, ptr %v43, i64 124800
  %v172 = getelementptr i8, ptr %v171, i64 %v93
  store <8 x float> %v149, ptr %v172, align 4
  %v173 = getelementptr i8, ptr %v43, i64 19200
  %v174 = getelementptr i8, ptr %v173, i64 %v93
  store <8 x float> %v150, ptr %v174, align 4
  %v175 = getelementptr i8, ptr %v43, i64 57600
  %v176 = getelementptr i8, ptr %v175, i64 %v93
  store <8 x float> %v151, ptr %v176, align 4
  %v177 = getelementptr i8, ptr %v43, i64 96000
  %v178 = getelementptr i8, ptr %v177, i64 %v93
  store <8 x float> %v152, ptr %v178, align 4
  %v179 = getelementptr i8, ptr %v43, i64 134400
  %v180 = getelementptr i8, ptr %v179, i64 %v93
  store <8 x float> %v153, ptr %v180, align 4
  %v181 = getelementptr i8, ptr %v43, i64 28800
  %v182 = getelementptr i8, ptr %v181, i64 %v93
  store <8 x float> %v154, ptr %v182, align 4
  %v183 = getelementptr i8, ptr %v43, i64 67200
  %v184 = getelementptr i8, ptr %v183, i64 %v93
  store <8 x float> %v155, ptr %v184, align 4
  %v185 = getelementptr i8, ptr %v43, i64 105600
  %v186 = getelementptr i8, ptr %v185, i64 %v93
  store <8 x float> %v156, ptr %v186, align 4
  %v187 = getelementptr i8, ptr %v43, i64 144000
  %v188 = getelementptr i8, ptr %v187, i64 %v93
  store <8 x float> %v157, ptr %v188, align 4
  br label %v91.next
v91.next:
  %v189 = add i64 %v92, 8
  %v189.more = icmp slt i64 %v189, 32
  br i1 %v189.more, label %v91, label %v91.after
v91.after:
  br label %v75.after
v75.after:
  %v190 = xor i1 %v74, true
  %v192 = and i1 %v54, %v61
  %v193 = and i1 %v54, %v63
  %v194 = and i1 %v54, %v65
  %v195 = and i1 %v54, %v67
  %v196 = and i1 %v56, %v61
  %v197 = and i1 %v56, %v63
  %v198 = and i1 %v56, %v65
  %v199 = and i1 %v56, %v67
  %v200 = and i1 %v58, %v61
  %v201 = and i1 %v58, %v63
  %v202 = and i1 %v58, %v65
  %v203 = and i1 %v58, %v67
  %v204 = and i1 %v60, %v61
  %v205 = and i1 %v60, %v63
  %v206 = and i1 %v60, %v65
  %v207 = and i1 %v60, %v67
  %v208 = select i1 %v192, ptr %v53, ptr %scratch
  br i1 %v190, label %v191.then, label %v191.after
v191.then:
  %v209 = getelementptr i8, ptr %v53, i64 128
  %v210 = select i1 %v193, ptr %v209, ptr %scratch
  %v211 = getelementptr i8, ptr %v53, i64 256
  %v212 = select i1 %v194, ptr %v211, ptr %scratch
  %v213 = getelementptr i8, ptr %v53, i64 384
  %v214 = select i1 %v195, ptr %v213, ptr %scratch
  %v215 = getelementptr i8, ptr %v53, i64 3584
  %v216 = select i1 %v196, ptr %v215, ptr %scratch
  %v217 = getelementptr i8, ptr %v53, i64 3712
  %v218 = select i1 %v197, ptr %v217, ptr %scratch
  %v219 = getelementptr i8, ptr %v53, i64 3840
  %v220 = select i1 %v198, ptr %v219, ptr %scratch
  %v221 = getelementptr i8, ptr %v53, i64 3968
  %v222 = select i1 %v199, ptr %v221, ptr %scratch
  %v223 = getelementptr i8, ptr %v53, i64 7168
  %v224 = select i1 %v200, ptr %v223, ptr %scratch
  %v225 = getelementptr i8, ptr %v53, i64 7296
  %v226 = select i1 %v201, ptr %v225, ptr %scratch
  %v227 = getelementptr i8, ptr %v53, i64 7424
  %v228 = select i1 %v202, ptr %v227, ptr %scratch
  %v229 = getelementptr i8, ptr %v53, i64 7552
  %v230 = select i1 %v203, ptr %v229, ptr %scratch
  %v231 = getelementptr i8, ptr %v53, i64 10752
  %v232 = select i1 %v204, ptr %v231, ptr %scratch
  %v233 = getelementptr i8, ptr %v53, i64 10880
  %v234 = select i1 %v205, ptr %v233, ptr %scratch
  %v235 = getelementptr i8, ptr %v53, i64 11008
  %v236 = select i1 %v206, ptr %v235, ptr %scratch
  %v237 = getelementptr i8, ptr %v53, i64 11136
  %v238 = select i1 %v207, ptr %v237, ptr %scratch
  br label %v239.before
v239.before:
  br label %v239
v239:
  %v240 = phi i64 [ 0, %v239.before ], [ %v337, %v239.next ]
  %v241 = mul i64 %v240, 4
  %v242 = getelementptr i8, ptr %v208, i64 %v241
  %v243 = load <8 x float>, ptr %v242, align 4
  %v244 = getelementptr i8, ptr %v210, i64 %v241
  %v245 = load <8 x float>, ptr %v244, align 4
  %v246 = getelementptr i8, ptr %v212, i64 %v241
  %v247 = load <8 x float>, ptr %v246, align 4
  %v248 = getelementptr i8, ptr %v214, i64 %v241
  %v249 = load <8 x float>, ptr %v248, align 4
  %v250 = getelementptr i8, ptr %v216, i64 %v241
  %v251 = load <8 x float>, ptr %v250, align 4
  %v252 = getelementptr i8, ptr %v218, i64 %v241
  %v253 = load <8 x float>, ptr %v252, align 4
  %v254 = getelementptr i8, ptr %v220, i64 %v241
  %v255 = load <8 x float>, ptr %v254, align 4
  %v256 = getelementptr i8, ptr %v222, i64 %v241
  %v257 = load <8 x float>, ptr %v256, align 4
  %v258 = getelementptr i8, ptr %v224, i64 %v241
  %v259 = load <8 x float>, ptr %v258, align 4
  %v260 = getelementptr i8, ptr %v226, i64 %v241
  %v261 = load <8 x float>, ptr %v260, align 4
  %v262 = getelementptr i8, ptr %v228, i64 %v241
  %v263 = load <8 x float>, ptr %v262, align 4
  %v264 = getelementptr i8, ptr %v230, i64 %v241
  %v265 = load <8 x float>, ptr %v264, align 4
  %v266 = getelementptr i8, ptr %v232, i64 %v241
  %v267 = load <8 x float>, ptr %v266, align 4
  %v268 = getelementptr i8, ptr %v234, i64 %v241
  %v269 = load <8 x float>, ptr %v268, align 4
  %v270 = getelementptr i8, ptr %v236, i64 %v241
  %v271 = load <8 x float>, ptr %v270, align 4
  %v272 = getelementptr i8, ptr %v238, i64 %v241
  %v273 = load <8 x float>, ptr %v272, align 4
  %v274 = fsub <8 x float> %v243, %v259
  %v275 = fsub <8 x float> %v245, %v261
  %v276 = fsub <8 x float> %v247, %v263
  %v277 = fsub <8 x float> %v249, %v265
  %v278 = fadd <8 x float> %v251, %v259
  %v279 = fadd <8 x float> %v253, %v261
  %v280 = fadd <8 x float> %v255, %v263
  %v281 = fadd <8 x float> %v257, %v265
  %v282 = fsub <8 x float> %v259, %v251
  %v283 = fsub <8 x float> %v261, %v253
  %v284 = fsub <8 x float> %v263, %v255
  %v285 = fsub <8 x float> %v265, %v257
  %v286 = fsub <8 x float> %v251, %v267
  %v287 = fsub <8 x float> %v253, %v269
  %v288 = fsub <8 x float> %v255, %v271
  %v289 = fsub <8 x float> %v257, %v273
  %v290 = fsub <8 x float> %v274, %v276
  %v291 = fsub <8 x float> %v278, %v280
  %v292 = fsub <8 x float> %v282, %v284
  %v293 = fsub <8 x float> %v286, %v288
  %v294 = fadd <8 x float> %v275, %v276
  %v295 = fadd <8 x float> %v279, %v280
  %v296 = fadd <8 x float> %v283, %v284
  %v297 = fadd <8 x float> %v287, %v288
  %v298 = fsub <8 x float> %v276, %v275
  %v299 = fsub <8 x float> %v280, %v279
  %v300 = fsub <8 x float> %v284, %v283
  %v301 = fsub <8 x float> %v288, %v287
  %v302 = fsub <8 x float> %v275, %v277
  %v303 = fsub <8 x float> %v279, %v281
  %v304 = fsub <8 x float> %v283, %v285
  %v305 = fsub <8 x float> %v287, %v289
  %v306 = getelementptr i8, ptr %v43, i64 %v241
  store <8 x float> %v290, ptr %v306, align 4
  %v307 = getelementptr i8, ptr %v43, i64 38400
  %v308 = getelementptr i8, ptr %v307, i64 %v241
  store <8 x float> %v291, ptr %v308, align 4
  %v309 = getelementptr i8, ptr %v43, i64 76800
  %v310 = getelementptr i8, ptr %v309, i64 %v241
  store <8 x float> %v292, ptr %v310, align 4
  %v311 = getelementptr i8, ptr %v43, i64 115200
  %v312 = getelementptr i8, ptr %v311, i64 %v241
  store <8 x float> %v293, ptr %v312, align 4
  %v313 = getelementptr i8, ptr %v43, i64 9600
  %v314 = getelementptr i8, ptr %v313, i64 %v241
  store <8 x float> %v294, ptr %v314, align 4
  %v315 = getelementptr i8, ptr %v43, i64 48000
  %v316 = getelementptr i8, ptr %v315, i64 %v241
  store <8 x float> %v295, ptr %v316, align 4
  %v317 = getelementptr i8, ptr %v43, i64 86400
  %v318 = getelementptr i8, ptr %v317, i64 %v241
  store <8 x float> %v296, ptr %v318, align 4
  %v319 = getelementptr i8, ptr %v43, i64 124800
  %v320 = getelementptr i8, ptr %v319, i64 %v241
  store <8 x float> %v297, ptr %v320, align 4
  %v321 = getelementptr i8, ptr %v43, i64 19200
  %v322 = getelementptr i8, ptr %v321, i64 %v241
  store <8 x float> %v298, ptr %v322, align 4
  %v323 = getelementptr i8, ptr %v43, i64 57600
  %v324 = getelementptr i8, ptr %v323, i64 %v241
  store <8 x float> %v299, ptr %v324, align 4
  %v325 = getelementptr i8, ptr %v43, i64 96000
  %v326 = getelementptr i8, ptr %v325, i64 %v241
  store <8 x float> %v300, ptr %v326, align 4
  %v327 = getelementptr i8, ptr %v43, i64 134400
  %v328 = getelementptr i8, ptr %v327, i64 %v241
  store <8 x float> %v301, ptr %v328, align 4
  %v329 = getelementptr i8, ptr %v43, i64 28800
  %v330 = getelementptr i8, ptr %v329, i64 %v241
  store <8 x float> %v302, ptr %v330, align 4
  %v331 = getelementptr i8, ptr %v43, i64 67200
  %v332 = getelementptr i8, ptr %v331, i64 %v241
  store <8 x float> %v303, ptr %v332, align 4
  %v333 = getelementptr i8, ptr %v43, i64 105600
  %v334 = getelementptr i8, ptr %v333, i64 %v241
  store <8 x float> %v304, ptr %v334, align 4
  %v335 = getelementptr i8, ptr %v43, i64 144000
  %v336 = getelementptr i8, ptr %v335, i64 %v241
  store <8 x float> %v305, ptr %v336, align 4
  br label %v239.next
v239.next:
  %v337 = add i64 %v240, 8
  %v337.more = icmp slt i64 %v337, 32
  br i1 %v337.more, label %v239, label %v239.after
v239.after:
  br label %v191.after
v191.after:
  br label %v34.next
v34.next:
  %v338 = add i64 %v35, 1
  br label %v34
v34.after:
  %v341 = mul i64 %v17, 16
  br label %v339.before
v339.before:
  br label %v339
v339:
  %v340 = phi i64 [ 0, %v339.before ], [ %v487, %v339.next ]
  %v342 = add i64 %v341, %v340
  %v343 = mul i64 %v342, 2048
  %v344 = getelementptr i8, ptr %a2, i64 %v343
  %v345 = mul i64 %v340, 9600
  %v346 = getelementptr i8, ptr %v1, i64 %v345
  %v347 = mul i64 %v340, 3200
  %v348 = getelementptr i8, ptr %v2, i64 %v347
  br label %v349.before
v349.before:
  br label %v349
v349:
  %v350 = phi i64 [ %v20, %v349.before ], [ %v486, %v349.next ]
  %v486.more = icmp slt i64 %v350, %v22
  br i1 %v486.more, label %v349.turn, label %v349.after
v349.turn:
  %v351 = mul i64 %v350, 25
  br label %v352.before
v352.before:
  br label %v352
v352:
  %v353 = phi i64 [ 0, %v352.before ], [ %v485, %v352.next ]
  %v354 = mul i64 %v353, 5
  %v355 = add i64 %v351, %v354
  %v356 = mul i64 %v353, 416
  %v357 = add i64 %v356, 2048
  %v358 = getelementptr i8, ptr %v344, i64 %v357
  %v359 = mul i64 %v355, 192
  %v360 = getelementptr i8, ptr %v346, i64 %v359
  %v361 = mul i64 %v355, 64
  %v362 = getelementptr i8, ptr %v348, i64 %v361
  br label %v363.before
v363.before:
  br label %v363
v363:
  %v364 = phi i64 [ 0, %v363.before ], [ %v466, %v363.next ]
  %v365 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v439, %v363.next ]
  %v366 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v440, %v363.next ]
  %v367 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v445, %v363.next ]
  %v368 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v446, %v363.next ]
  %v369 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v451, %v363.next ]
  %v370 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v452, %v363.next ]
  %v371 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v457, %v363.next ]
  %v372 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v458, %v363.next ]
  %v373 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v463, %v363.next ]
  %v374 = phi <8 x float> [ splat (float 0x0000000000000000), %v363.before ], [ %v464, %v363.next ]
  %v375 = mul i64 %v364, 4
  %v376 = mul i64 %v375, 4
  %v377 = getelementptr i8, ptr %v360, i64 %v376
  %v378 = mul i64 %v364, 256
  %v379 = getelementptr i8, ptr %v344, i64 %v378
  %v380 = mul i64 %v364, 52
  %v381 = getelementptr i8, ptr %v358, i64 %v380
  call void @llvm.prefetch.p0(ptr %v381, i32 0, i32 2, i32 1)
  br label %v382.before
v382.before:
  br label %v382
v382:
  %v383 = phi i64 [ 0, %v382.before ], [ %v465, %v382.next ]
  %v384 = phi <8 x float> [ %v365, %v382.before ], [ %v439, %v382.next ]
  %v385 = phi <8 x float> [ %v366, %v382.before ], [ %v440, %v382.next ]
  %v386 = phi <8 x float> [ %v367, %v382.before ], [ %v445, %v382.next ]
  %v387 = phi <8 x float> [ %v368, %v382.before ], [ %v446, %v382.next ]
  %v388 = phi <8 x float> [ %v369, %v382.before ], [ %v451, %v382.next ]
  %v389 = phi <8 x float> [ %v370, %v382.before ], [ %v452, %v382.next ]
  %v390 = phi <8 x float> [ %v371, %v382.before ], [ %v457, %v382.next ]
  %v391 = phi <8 x float> [ %v372, %v382.before ], [ %v458, %v382.next ]
  %v392 = phi <8 x float> [ %v373, %v382.before ], [ %v463, %v382.next ]
  %v393 = phi <8 x float> [ %v374, %v382.before ], [ %v464, %v382.next ]
  %v394 = mul i64 %v383, 4
  %v395 = getelementptr i8, ptr %v377, i64 %v394
  %v396 = mul i64 %v383, 64
  %v397 = getelementptr i8, ptr %v379, i64 %v396
  %v398 = add i64 %v375, %v383
  %v399 = load <8 x float>, ptr %v397, align 32
  %v400 = getelementptr i8, ptr %v397, i64 32
  %v401 = load <8 x float>, ptr %v400, align 32
  %v402 = load float, ptr %v395, align 4
  %v403 = insertelement <8 x float> poison, float %v402, i64 0
  %v404 = shufflevector <8 x float> %v403, <8 x float> poison, <8 x i32> zeroinitializer
  %v405 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v404, <8 x float> %v399, <8 x float> %v384)
  %v406 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v404, <8 x float> %v401, <8 x float> %v385)
  %v407 = getelementptr i8, ptr %v395, i64 192
  %v408 = load float, ptr %v407, align 4
  %v409 = insertelement <8 x float> poison, float %v408, i64 0
  %v410 = shufflevector <8 x float> %v409, <8 x float> poison, <8 x i32> zeroinitializer
  %v411 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v410, <8 x float> %v399, <8 x float> %v386)
  %v412 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v410, <8 x float> %v401, <8 x float> %v387)
  %v413 = getelementptr i8, ptr %v395, i64 384
  %v414 = load float, ptr %v413, align 4
  %v415 = insertelement <8 x float> poison, float %v414, i64 0
  %v416 = shufflevector <8 x float> %v415, <8 x float> poison, <8 x i32> zeroinitializer
  %v417 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v416, <8 x float> %v399, <8 x float> %v388)
  %v418 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v416, <8 x float> %v401, <8 x float> %v389)
  %v419 = getelementptr i8, ptr %v395, i64 576
  %v420 = load float, ptr %v419, align 4
  %v421 = insertelement <8 x float> poison, float %v420, i64 0
  %v422 = shufflevector <8 x float> %v421, <8 x float> poison, <8 x i32> zeroinitializer
  %v423 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v422, <8 x float> %v399, <8 x float> %v390)
  %v424 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v422, <8 x float> %v401, <8 x float> %v391)
  %v425 = getelementptr i8, ptr %v395, i64 768
  %v426 = load float, ptr %v425, align 4
  %v427 = insertelement <8 x float> poison, float %v426, i64 0
  %v428 = shufflevector <8 x float> %v427, <8 x float> poison, <8 x i32> zeroinitializer
  %v429 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v428, <8 x float> %v399, <8 x float> %v392)
  %v430 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v428, <8 x float> %v401, <8 x float> %v393)
  %v431 = getelementptr i8, ptr %v397, i64 64
  %v432 = load <8 x float>, ptr %v431, align 32
  %v433 = getelementptr i8, ptr %v397, i64 96
  %v434 = load <8 x float>, ptr %v433, align 32
  %v435 = getelementptr i8, ptr %v395, i64 4
  %v436 = load float, ptr %v435, align 4
  %v437 = insertelement <8 x float> poison, float %v436, i64 0
  %v438 = shufflevector <8 x float> %v437, <8 x float> poison, <8 x i32> zeroinitializer
  %v439 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v438, <8 x float> %v432, <8 x float> %v405)
  %v440 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v438, <8 x float> %v434, <8 x float> %v406)
  %v441 = getelementptr i8, ptr %v395, i64 196
  %v442 = load float, ptr %v441, align 4
  %v443 = insertelement <8 x float> poison, float %v442, i64 0
  %v444 = shufflevector <8 x float> %v443, <8 x float> poison, <8 x i32> zeroinitializer
  %v445 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v444, <8 x float> %v432, <8 x float> %v411)
  %v446 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v444, <8 x float> %v434, <8 x float> %v412)
  %v447 = getelementptr i8, ptr %v395, i64 388
  %v448 = load float, ptr %v447, align 4
  %v449 = insertelement <8 x float> poison, float %v448, i64 0
  %v450 = shufflevector <8 x float> %v449, <8 x float> poison, <8 x i32> zeroinitializer
  %v451 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v450, <8 x float> %v432, <8 x float> %v417)
  %v452 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v450, <8 x float> %v434, <8 x float> %v418)
  %v453 = getelementptr i8, ptr %v395, i64 580
  %v454 = load float, ptr %v453, align 4
  %v455 = insertelement <8 x float> poison, float %v454, i64 0
  %v456 = shufflevector <8 x float> %v455, <8 x float> poison, <8 x i32> zeroinitializer
  %v457 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v456, <8 x float> %v432, <8 x float> %v423)
  %v458 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v456, <8 x float> %v434, <8 x float> %v424)
  %v459 = getelementptr i8, ptr %v395, i64 772
  %v460 = load float, ptr %v459, align 4
  %v461 = insertelement <8 x float> poison, float %v460, i64 0
  %v462 = shufflevector <8 x float> %v461, <8 x float> poison, <8 x i32> zeroinitializer
  %v463 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v462, <8 x float> %v432, <8 x float> %v429)
  %v464 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v462, <8 x float> %v434, <8 x float> %v430)
  br label %v382.next
v382.next:
  %v465 = add i64 %v383, 2
  %v465.more = icmp slt i64 %v465, 4
  br i1 %v465.more, label %v382, label %v382.after
v382.after:
  br label %v363.next
v363.next:
  %v466 = add i64 %v364, 1
  %v466.more = icmp slt i64 %v466, 8
  br i1 %v466.more, label %v363, label %v363.after
v363.after:
  store <8 x float> %v439, ptr %v362, align 4
  %v468 = getelementptr i8, ptr %v362, i64 %v467
  store <8 x float> %v440, ptr %v468, align 4
  %v470 = getelementptr i8, ptr %v362, i64 %v469
  store <8 x float> %v445, ptr %v470, align 4
  %v472 = getelementptr i8, ptr %v362, i64 %v471
  store <8 x float> %v446, ptr %v472, align 4
  %v474 = getelementptr i8, ptr %v362, i64 %v473
  store <8 x float> %v451, ptr %v474, align 4
  %v476 = getelementptr i8, ptr %v362, i64 %v475
  store <8 x float> %v452, ptr %v476, align 4
  %v478 = getelementptr i8, ptr %v362, i64 %v477
  store <8 x float> %v457, ptr %v478, align 4
  %v480 = getelementptr i8, ptr %v362, i64 %v479
  store <8 x float> %v458, ptr %v480, align 4
  %v482 = getelementptr i8, ptr %v362, i64 %v481
  store <8 x float> %v463, ptr %v482, align 4
  %v484 = getelementptr i8, ptr %v362, i64 %v483
  store <8 x float> %v464, ptr %v484, align 4
  br label %v352.next
v352.next:
  %v485 = add i64 %v353, 1
  %v485.more = icmp slt i64 %v485, 5
  br i1 %v485.more, label %v352, label %v352.after
v352.after:
  br label %v349.next
v349.next:
  %v486 = add i64 %v350, 1
  br label %v349
v349.after:
  br label %v339.next
v339.next:
  %v487 = add i64 %v340, 1
  %v487.more = icmp slt i64 %v487, 16
  br i1 %v487.more, label %v339, label %v339.after
v339.after:
  %v488 = call i64 @llvm.smin.i64(i64 %v341, i64 16)
  %v489 = mul i64 %v22, 25
  %v598 = getelementptr float, ptr %a3, i64 %v488
  %v725 = add i64 %v488, 8
  %v726 = getelementptr float, ptr %a3, i64 %v725
  br label %v490.before
v490.before:
  br label %v490
v490:
  %v491 = phi i64 [ %v32, %v490.before ], [ %v748, %v490.next ]
  %v748.more = icmp slt i64 %v491, %v489
  br i1 %v748.more, label %v490.turn, label %v490.after
v490.turn:
  %v492 = add i64 %v31, %v491
  %v493 = call i64 @llvm.smin.i64(i64 %v492, i64 195)
  %v494 = udiv i64 %v493, 14
  %v495 = urem i64 %v493, 14
  %v496 = udiv i64 %v494, 14
  %v497 = urem i64 %v494, 14
  %v498 = mul i64 %v491, 64
  %v499 = getelementptr i8, ptr %v2, i64 %v498
  %v500 = load <8 x float>, ptr %v499, align 4
  %v501 = getelementptr i8, ptr %v499, i64 3200
  %v502 = load <8 x float>, ptr %v501, align 4
  %v503 = getelementptr i8, ptr %v499, i64 6400
  %v504 = load <8 x float>, ptr %v503, align 4
  %v505 = getelementptr i8, ptr %v499, i64 9600
  %v506 = load <8 x float>, ptr %v505, align 4
  %v507 = getelementptr i8, ptr %v499, i64 12800
  %v508 = load <8 x float>, ptr %v507, align 4
  %v509 = getelementptr i8, ptr %v499, i64 16000
  %v510 = load <8 x float>, ptr %v509, align 4
  %v511 = getelementptr i8, ptr %v499, i64 19200
  %v512 = load <8 x float>, ptr %v511, align 4
  %v513 = getelementptr i8, ptr %v499, i64 22400
  %v514 = load <8 x float>, ptr %v513, align 4
  %v515 = getelementptr i8, ptr %v499, i64 25600
  %v516 = load <8 x float>, ptr %v515, align 4
  %v517 = getelementptr i8, ptr %v499, i64 28800
  %v518 = load <8 x float>, ptr %v517, align 4
  %v519 = getelementptr i8, ptr %v499, i64 32000
  %v520 = load <8 x float>, ptr %v519, align 4
  %v521 = getelementptr i8, ptr %v499, i64 35200
  %v522 = load <8 x float>, ptr %v521, align 4
  %v523 = getelementptr i8, ptr %v499, i64 38400
  %v524 = load <8 x float>, ptr %v523, align 4
  %v525 = getelementptr i8, ptr %v499, i64 41600
  %v526 = load <8 x float>, ptr %v525, align 4
  %v527 = getelementptr i8, ptr %v499, i64 44800
  %v528 = load <8 x float>, ptr %v527, align 4
  %v529 = getelementptr i8, ptr %v499, i64 48000
  %v530 = load <8 x float>, ptr %v529, align 4
  %v531 = fadd <8 x float> %v500, %v508
  %v532 = fadd <8 x float> %v531, %v516
  %v533 = fsub <8 x float> %v508, %v516
  %v534 = fsub <8 x float> %v533, %v524
  %v535 = fadd <8 x float> %v502, %v510
  %v536 = fadd <8 x float> %v535, %v518
  %v537 = fsub <8 x float> %v510, %v518
  %v538 = fsub <8 x float> %v537, %v526
  %v539 = fadd <8 x float> %v504, %v512
  %v540 = fadd <8 x float> %v539, %v520
  %v541 = fsub <8 x float> %v512, %v520
  %v542 = fsub <8 x float> %v541, %v528
  %v543 = fadd <8 x float> %v506, %v514
  %v544 = fadd <8 x float> %v543, %v522
  %v545 = fsub <8 x float> %v514, %v522
  %v546 = fsub <8 x float> %v545, %v530
  %v547 = fadd <8 x float> %v532, %v536
  %v548 = fadd <8 x float> %v547, %v540
  %v549 = fsub <8 x float> %v536, %v540
  %v550 = fsub <8 x float> %v549, %v544
  %v551 = fadd <8 x float> %v534, %v538
  %v552 = fadd <8 x float> %v551, %v542
  %v553 = fsub <8 x float> %v538, %v542
  %v554 = fsub <8 x float> %v553, %v546
  %v555 = fadd <8 x float> %v548, %v552
  %v556 = fadd <8 x float> %v555, %v550
  %v557 = fadd <8 x float> %v556, %v554
  %v558 = fmul <8 x float> %v557, splat (float 0x0000000000000000)
  %v559 = fcmp uno <8 x float> %v558, %v558
  %v560 = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %v559)
  %v561 = zext i1 %v560 to i64
  br label %v562.before
v562.before:
  br label %v562
v562:
  %v563 = phi i64 [ 0, %v562.before ], [ %v591, %v562.next ]
  %v564 = phi <8 x float> [ %v548, %v562.before ], [ %v584, %v562.next ]
  %v565 = phi <8 x float> [ %v552, %v562.before ], [ %v586, %v562.next ]
  %v566 = phi <8 x float> [ %v550, %v562.before ], [ %v588, %v562.next ]
  %v567 = phi <8 x float> [ %v554, %v562.before ], [ %v590, %v562.next ]
  %v591.more = icmp slt i64 %v563, %v561
  br i1 %v591.more, label %v562.turn, label %v562.after
v562.turn:
  %v568 = add i64 %v496, %v563
  %v569 = add i64 %v497, %v563
  %v570 = add i64 %v495, %v563
  %v571 = add i64 %v17, %v563
  %v572 = mul i64 %v568, 100352
  %v573 = mul i64 %v569, 2
  %v574 = add i64 %v573, -1
  %v575 = mul i64 %v574, 3584
  %v576 = mul i64 %v570, 2
  %v577 = add i64 %v576, -1
  %v578 = mul i64 %v577, 128
  %v579 = add i64 %v572, %v575
  %v580 = add i64 %v579, %v578
  %v581 = getelementptr i8, ptr %a1, i64 %v580
  %v582 = mul i64 %v571, 32768
  %v583 = getelementptr i8, ptr %a2, i64 %v582
  call void @sf025a65f997732f5(ptr %v581, ptr %scratch, ptr %v583, ptr %v3, i64 %v574, i64 %v577, i64 28, i64 28, i64 3584, i64 128, i64 32, i64 64, i64 2048)
  %v584 = load <8 x float>, ptr %v3, align 4
  %v585 = getelementptr i8, ptr %v3, i64 32
  %v586 = load <8 x float>, ptr %v585, align 4
  %v587 = getelementptr i8, ptr %v3, i64 64
  %v588 = load <8 x float>, ptr %v587, align 4
  %v589 = getelementptr i8, ptr %v3, i64 96
  %v590 = load <8 x float>, ptr %v589, align 4
  br label %v562.next
v562.next:
  %v591 = add i64 %v563, 1
  br label %v562
v562.after:
  %v592 = mul i64 %v497, 2
  %v593 = mul i64 %v495, 2
  %v594 = mul i64 %v496, 28
  %v595 = add i64 %v594, %v592
  %v596 = mul i64 %v595, 28
  %v597 = add i64 %v596, %v593
  %v599 = load <8 x float>, ptr %v598, align 4
  %v600 = fadd <8 x float> %v564, %v599
  %v601 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v600
  %v602 = select <8 x i1> %v601, <8 x float> splat (float 0x0000000000000000), <8 x float> %v600
  %v603 = mul i64 %v597, 32
  %v604 = add i64 %v603, %v488
  %v605 = getelementptr float, ptr %a0, i64 %v604
  store <8 x float> %v602, ptr %v605, align 4
  %v606 = add i64 %v592, 1
  %v607 = add i64 %v594, %v606
  %v608 = mul i64 %v607, 28
  %v609 = add i64 %v608, %v593
  %v610 = fadd <8 x float> %v565, %v599
  %v611 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v610
  %v612 = select <8 x i1> %v611, <8 x float> splat (float 0x0000000000000000), <8 x float> %v610
  %v613 = mul i64 %v609, 32
  %v614 = add i64 %v613, %v488
  %v615 = getelementptr float, ptr %a0, i64 %v614
  store <8 x float> %v612, ptr %v615, align 4
  %v616 = add i64 %v593, 1
  %v617 = add i64 %v596, %v616
  %v618 = fadd <8 x float> %v566, %v599
  %v619 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v618
  %v620 = select <8 x i1> %v619, <8 x float> splat (float 0x0000000000000000), <8 x float> %v618
  %v621 = mul i64 %v617, 32
  %v622 = add i64 %v621, %v488
  %v623 = getelementptr float, ptr %a0, i64 %v622
  store <8 x float> %v620, ptr %v623, align 4
  %v624 = add i64 %v608, %v616
  %v625 = fadd <8 x float> %v567, %v599
  %v626 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v625
  %v627 = select <8 x i1> %v626, <8 x float> splat (float 0x0000000000000000), <8 x float> %v625
  %v628 = mul i64 %v624, 32
  %v629 = add i64 %v628, %v488
  %v630 = getelementptr float, ptr %a0, i64 %v629
  store <8 x float> %v627, ptr %v630, align 4
  %v631 = getelementptr i8, ptr %v499, i64 32
  %v632 = load <8 x float>, ptr %v631, align 4
  %v633 = getelementptr i8, ptr %v499, i64 3232
  %v634 = load <8 x float>, ptr %v633, align 4
  %v635 = getelementptr i8, ptr %v499, i64 6432
  %v636 = load <8 x float>, ptr %v635, align 4
  %v637 = getelementptr i8, ptr %v499, i64 9632
  %v638 = load <8 x float>, ptr %v637, align 4
  %v639 = getelementptr i8, ptr %v499, i64 12832
  %v640 = load <8 x float>, ptr %v639, align 4
  %v641 = getelementptr i8, ptr %v499, i64 16032
  %v642 = load <8 x float>, ptr %v641, align 4
  %v643 = getelementptr i8, ptr %v499, i64 19232
  %v644 = load <8 x float>, ptr %v643, align 4
  %v645 = getelementptr i8, ptr %v499, i64 22432
  %v646 = load <8 x float>, ptr %v645, align 4
  %v647 = getelementptr i8, ptr %v499, i64 25632
  %v648 = load <8 x float>, ptr %v647, align 4
  %v649 = getelementptr i8, ptr %v499, i64 28832
  %v650 = load <8 x float>, ptr %v649, align 4
  %v651 = getelementptr i8, ptr %v499, i64 32032
  %v652 = load <8 x float>, ptr %v651, align 4
  %v653 = getelementptr i8, ptr %v499, i64 35232
  %v654 = load <8 x float>, ptr %v653, align 4
  %v655 = getelementptr i8, ptr %v499, i64 38432
  %v656 = load <8 x float>, ptr %v655, align 4
  %v657 = getelementptr i8, ptr %v499, i64 41632
  %v658 = load <8 x float>, ptr %v657, align 4
  %v659 = getelementptr i8, ptr %v499, i64 44832
  %v660 = load <8 x float>, ptr %v659, align 4
  %v661 = getelementptr i8, ptr %v499, i64 48032
  %v662 = load <8 x float>, ptr %v661, align 4
  %v663 = fadd <8 x float> %v632, %v640
  %v664 = fadd <8 x float> %v663, %v648
  %v665 = fsub <8 x float> %v640, %v648
  %v666 = fsub <8 x float> %v665, %v656
  %v667 = fadd <8 x float> %v634, %v642
  %v668 = fadd <8 x float> %v667, %v650
  %v669 = fsub <8 x float> %v642, %v650
  %v670 = fsub <8 x float> %v669, %v658
  %v671 = fadd <8 x float> %v636, %v644
  %v672 = fadd <8 x float> %v671, %v652
  %v673 = fsub <8 x float> %v644, %v652
  %v674 = fsub <8 x float> %v673, %v660
  %v675 = fadd <8 x float> %v638, %v646
  %v676 = fadd <8 x float> %v675, %v654
  %v677 = fsub <8 x float> %v646, %v654
  %v678 = fsub <8 x float> %v677, %v662
  %v679 = fadd <8 x float> %v664, %v668
  %v680 = fadd <8 x float> %v679, %v672
  %v681 = fsub <8 x float> %v668, %v672
  %v682 = fsub <8 x float> %v681, %v676
  %v683 = fadd <8 x float> %v666, %v670
  %v684 = fadd <8 x float> %v683, %v674
  %v685 = fsub <8 x float> %v670, %v674
  %v686 = fsub <8 x float> %v685, %v678
  %v687 = fadd <8 x float> %v680, %v684
  %v688 = fadd <8 x float> %v687, %v682
  %v689 = fadd <8 x float> %v688, %v686
  %v690 = fmul <8 x float> %v689, splat (float 0x0000000000000000)
  %v691 = fcmp uno <8 x float> %v690, %v690
  %v692 = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %v691)
  %v693 = zext i1 %v692 to i64
  br label %v694.before
v694.before:
  br label %v694
v694:
  %v695 = phi i64 [ 0, %v694.before ], [ %v724, %v694.next ]
  %v696 = phi <8 x float> [ %v680, %v694.before ], [ %v717, %v694.next ]
  %v697 = phi <8 x float> [ %v684, %v694.before ], [ %v719, %v694.next ]
  %v698 = phi <8 x float> [ %v682, %v694.before ], [ %v721, %v694.next ]
  %v699 = phi <8 x float> [ %v686, %v694.before ], [ %v723, %v694.next ]
  %v724.more = icmp slt i64 %v695, %v693
  br i1 %v724.more, label %v694.turn, label %v694.after
v694.turn:
  %v700 = add i64 %v496, %v695
  %v701 = add i64 %v497, %v695
  %v702 = add i64 %v495, %v695
  %v703 = add i64 %v17, %v695
  %v704 = mul i64 %v700, 100352
  %v705 = mul i64 %v701, 2
  %v706 = add i64 %v705, -1
  %v707 = mul i64 %v706, 3584
  %v708 = mul i64 %v702, 2
  %v709 = add i64 %v708, -1
  %v710 = mul i64 %v709, 128
  %v711 = add i64 %v704, %v707
  %v712 = add i64 %v711, %v710
  %v713 = getelementptr i8, ptr %a1, i64 %v712
  %v714 = mul i64 %v703, 32768
  %v715 = add i64 %v714, 32
  %v716 = getelementptr i8, ptr %a2, i64 %v715
  call void @sf025a65f997732f5(ptr %v713, ptr %scratch, ptr %v716, ptr %v3, i64 %v706, i64 %v709, i64 28, i64 28, i64 3584, i64 128, i64 32, i64 64, i64 2048)
  %v717 = load <8 x float>, ptr %v3, align 4
  %v718 = getelementptr i8, ptr %v3, i64 32
  %v719 = load <8 x float>, ptr %v718, align 4
  %v720 = getelementptr i8, ptr %v3, i64 64
  %v721 = load <8 x float>, ptr %v720, align 4
  %v722 = getelementptr i8, ptr %v3, i64 96
  %v723 = load <8 x float>, ptr %v722, align 4
  br label %v694.next
v694.next:
  %v724 = add i64 %v695, 1
  br label %v694
v694.after:
  %v727 = load <8 x float>, ptr %v726, align 4
  %v728 = fadd <8 x float> %v696, %v727
  %v729 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v728
  %v730 = select <8 x i1> %v729, <8 x float> splat (float 0x0000000000000000), <8 x float> %v728
  %v731 = add i64 %v603, %v725
  %v732 = getelementptr float, ptr %a0, i64 %v731
  store <8 x float> %v730, ptr %v732, align 4
  %v733 = fadd <8 x float> %v697, %v727
  %v734 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v733
  %v735 = select <8 x i1> %v734, <8 x float> splat (float 0x0000000000000000), <8 x float> %v733
  %v736 = add i64 %v613, %v725
  %v737 = getelementptr float, ptr %a0, i64 %v736
  store <8 x float> %v735, ptr %v737, align 4
  %v738 = fadd <8 x float> %v698, %v727
  %v739 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v738
  %v740 = select <8 x i1> %v739, <8 x float> splat (float 0x0000000000000000), <8 x float> %v738
  %v741 = add i64 %v621, %v725
  %v742 = getelementptr float, ptr %a0, i64 %v741
  store <8 x float> %v740, ptr %v742, align 4
  %v743 = fadd <8 x float> %v699, %v727
  %v744 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v743
  %v745 = select <8 x i1> %v744, <8 x float> splat (float 0x0000000000000000), <8 x float> %v743
  %v746 = add i64 %v628, %v725
  %v747 = getelementptr float, ptr %a0, i64 %v746
  store <8 x float> %v745, ptr %v747, align 4
  br label %v490.next
v490.next:
  %v748 = add i64 %v491, 1
  br label %v490
v490.after:
  br label %v14.next
v14.next:
  %v749 = add i64 %v15, 1
  br label %v14
v14.after:
  ret void
}

