; float16 tiles of 13 positions and 2 x 8 channels
declare <8 x half> @llvm.fmuladd.v8f16(<8 x half>, <8 x half>, <8 x half>)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @k6bd971cf8fb99325(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = udiv i64 %begin, 2
  %v7 = icmp eq i64 0, 0
  %v72 = getelementptr float, ptr %a3, i64 8
  %v193 = mul i64 1, 2048
  br label %v2.before
v2.before:
  br label %v2
v2:
  %v3 = phi i64 [ %begin, %v2.before ], [ %v668, %v2.next ]
  %v4 = phi i64 [ %begin, %v2.before ], [ %v666, %v2.next ]
  %v668.more = icmp slt i64 %v3, %end
  br i1 %v668.more, label %v2.turn, label %v2.after
v2.turn:
  %v5 = sub i64 %v3, %begin
  %v6 = icmp eq i64 %v5, 0
  %v8 = or i1 %v7, %v6
  %v9 = icmp eq i64 %v4, 0
  %v10 = or i1 %v6, %v9
  %v11 = xor i1 %v10, true
  %v13 = mul i64 %v4, 8
  %v14 = icmp ult i64 %v4, 1
  %v16 = call i64 @llvm.smax.i64(i64 %v13, i64 %v13)
  %v17 = select i1 %v11, i64 %v16, i64 %v13
  %v18 = call i64 @llvm.smax.i64(i64 %v17, i64 0)
  %v19 = add i64 %v13, 8
  %v20 = call i64 @llvm.smin.i64(i64 %v19, i64 15)
  %v39 = add i64 %v4, -1
  %v40 = mul i64 %v39, 7
  %v41 = add i64 %v40, 8
  %v42 = icmp ult i64 %v39, 1
  %v44 = call i64 @llvm.smax.i64(i64 %v41, i64 %v41)
  %v45 = select i1 %v11, i64 %v44, i64 %v41
  %v46 = call i64 @llvm.smax.i64(i64 %v45, i64 0)
  %v47 = add i64 %v41, 7
  %v48 = call i64 @llvm.smin.i64(i64 %v47, i64 15)
  br i1 %v8, label %v12.then, label %v12.after
v12.then:
  br i1 %v14, label %v15.then, label %v15.after
v15.then:
  br label %v21.before
v21.before:
  br label %v21
v21:
  %v22 = phi i64 [ %v18, %v21.before ], [ %v38, %v21.next ]
  %v38.more = icmp slt i64 %v22, %v20
  br i1 %v38.more, label %v21.turn, label %v21.after
v21.turn:
  %v23 = mul i64 %v22, 280
  %v24 = udiv i64 %v23, 2
  %v25 = getelementptr i8, ptr %a1, i64 %v23
  %v26 = getelementptr i8, ptr %scratch, i64 %v24
  br label %v27.before
v27.before:
  br label %v27
v27:
  %v28 = phi i64 [ 0, %v27.before ], [ %v37, %v27.next ]
  %v29 = call i64 @llvm.smin.i64(i64 %v28, i64 66)
  %v30 = mul i64 %v29, 4
  %v31 = getelementptr i8, ptr %v25, i64 %v30
  %v32 = mul i64 %v29, 2
  %v33 = getelementptr i8, ptr %v26, i64 %v32
  %v34 = load <4 x float>, ptr %v31, align 4
  %v35 = fptrunc <4 x float> %v34 to <4 x half>
  %v36 = bitcast <4 x half> %v35 to <4 x i16>
  store <4 x i16> %v36, ptr %v33, align 2
  br label %v27.next
v27.next:
  %v37 = add i64 %v28, 4
  %v37.more = icmp slt i64 %v37, 70
  br i1 %v37.more, label %v27, label %v27.after
v27.after:
  br label %v21.next
v21.next:
  %v38 = add i64 %v22, 1
  br label %v21
v21.after:
  br label %v15.after
v15.after:
  br i1 %v42, label %v43.then, label %v43.after
v43.then:
  br label %v49.before
v49.before:
  br label %v49
v49:
  %v50 = phi i64 [ %v46, %v49.before ], [ %v66, %v49.next ]
  %v66.more = icmp slt i64 %v50, %v48
  br i1 %v66.more, label %v49.turn, label %v49.after
v49.turn:
  %v51 = mul i64 %v50, 280
  %v52 = udiv i64 %v51, 2
  %v53 = getelementptr i8, ptr %a1, i64 %v51
  %v54 = getelementptr i8, ptr %scratch, i64 %v52
  br label %v55.before
v55.before:
  br label %v55
v55:
  %v56 = phi i64 [ 0, %v55.before ], [ %v65, %v55.next ]
  %v57 = call i64 @llvm.smin.i64(i64 %v56, i64 66)
  %v58 = mul i64 %v57, 4
  %v59 = getelementptr i8, ptr %v53, i64 %v58
  %v60 = mul i64 %v57, 2
  %v61 = getelementptr i8, ptr %v54, i64 %v60
  %v62 = load <4 x float>, ptr %v59, align 4
  %v63 = fptrunc <4 x float> %v62 to <4 x half>
  %v64 = bitcast <4 x half> %v63 to <4 x i16>
  store <4 x i16> %v64, ptr %v61, align 2
  br label %v55.next
v55.next:
  %v65 = add i64 %v56, 4
  %v65.more = icmp slt i64 %v65, 70
  br i1 %v65.more, label %v55, label %v55.after
v55.after:
  br label %v49.next
v49.next:
  %v66 = add i64 %v50, 1
  br label %v49
v49.after:
  br label %v43.after
v43.after:
  br label %v12.after
v12.after:
  %v68 = mul i64 %v13, 140
  %v315 = mul i64 %v13, 16
  %v316 = getelementptr float, ptr %a0, i64 %v315
  %v319 = add i64 %v315, 8
  %v320 = getelementptr float, ptr %a0, i64 %v319
  %v321 = add i64 %v13, 1
  %v324 = mul i64 %v321, 16
  %v325 = getelementptr float, ptr %a0, i64 %v324
  %v328 = add i64 %v324, 8
  %v329 = getelementptr float, ptr %a0, i64 %v328
  %v330 = add i64 %v13, 2
  %v333 = mul i64 %v330, 16
  %v334 = getelementptr float, ptr %a0, i64 %v333
  %v337 = add i64 %v333, 8
  %v338 = getelementptr float, ptr %a0, i64 %v337
  %v339 = add i64 %v13, 3
  %v342 = mul i64 %v339, 16
  %v343 = getelementptr float, ptr %a0, i64 %v342
  %v346 = add i64 %v342, 8
  %v347 = getelementptr float, ptr %a0, i64 %v346
  %v348 = add i64 %v13, 4
  %v351 = mul i64 %v348, 16
  %v352 = getelementptr float, ptr %a0, i64 %v351
  %v355 = add i64 %v351, 8
  %v356 = getelementptr float, ptr %a0, i64 %v355
  %v357 = add i64 %v13, 5
  %v360 = mul i64 %v357, 16
  %v361 = getelementptr float, ptr %a0, i64 %v360
  %v364 = add i64 %v360, 8
  %v365 = getelementptr float, ptr %a0, i64 %v364
  %v366 = add i64 %v13, 6
  %v369 = mul i64 %v366, 16
  %v370 = getelementptr float, ptr %a0, i64 %v369
  %v373 = add i64 %v369, 8
  %v374 = getelementptr float, ptr %a0, i64 %v373
  %v375 = add i64 %v13, 7
  %v378 = mul i64 %v375, 16
  %v379 = getelementptr float, ptr %a0, i64 %v378
  %v382 = add i64 %v378, 8
  %v383 = getelementptr float, ptr %a0, i64 %v382
  br i1 %v14, label %v67.then, label %v67.after
v67.then:
  %v69 = getelementptr i8, ptr %scratch, i64 %v68
  %v70 = getelementptr i8, ptr %a2, i64 2240
  %v71 = load <8 x float>, ptr %a3, align 4
  %v73 = load <8 x float>, ptr %v72, align 4
  br label %v74.before
v74.before:
  br label %v74
v74:
  %v75 = phi i64 [ 0, %v74.before ], [ %v159, %v74.next ]
  %v76 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v108, %v74.next ]
  %v77 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v109, %v74.next ]
  %v78 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v115, %v74.next ]
  %v79 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v116, %v74.next ]
  %v80 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v122, %v74.next ]
  %v81 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v123, %v74.next ]
  %v82 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v129, %v74.next ]
  %v83 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v130, %v74.next ]
  %v84 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v136, %v74.next ]
  %v85 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v137, %v74.next ]
  %v86 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v143, %v74.next ]
  %v87 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v144, %v74.next ]
  %v88 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v150, %v74.next ]
  %v89 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v151, %v74.next ]
  %v90 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v157, %v74.next ]
  %v91 = phi <8 x half> [ splat (half 0x0000000000000000), %v74.before ], [ %v158, %v74.next ]
  %v92 = mul i64 %v75, 2
  %v93 = getelementptr i8, ptr %v69, i64 %v92
  %v94 = mul i64 %v75, 32
  %v95 = getelementptr i8, ptr %a2, i64 %v94
  %v96 = load <8 x i16>, ptr %v95, align 16
  %v97 = bitcast <8 x i16> %v96 to <8 x half>
  %v98 = getelementptr i8, ptr %v95, i64 16
  %v99 = load <8 x i16>, ptr %v98, align 16
  %v100 = bitcast <8 x i16> %v99 to <8 x half>
  %v101 = mul i64 %v75, 14
  %v102 = add i64 %v101, 1120
  %v103 = getelementptr i8, ptr %v93, i64 %v102
  call void @llvm.prefetch.p0(ptr %v103, i32 0, i32 2, i32 1)
  %v104 = load i16, ptr %v93, align 2
  %v105 = bitcast i16 %v104 to half
  %v106 = insertelement <8 x half> poison, half %v105, i64 0
  %v107 = shufflevector <8 x half> %v106, <8 x half> poison, <8 x i32> zeroinitializer
  %v108 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v107, <8 x half> %v97, <8 x half> %v76)
  %v109 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v107, <8 x half> %v100, <8 x half> %v77)
  %v110 = getelementptr i8, ptr %v93, i64 140
  %v111 = load i16, ptr %v110, align 2
  %v112 = bitcast i16 %v111 to half
  %v113 = insertelement <8 x half> poison, half %v112, i64 0
  %v114 = shufflevector <8 x half> %v113, <8 x half> poison, <8 x i32> zeroinitializer
  %v115 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v114, <8 x half> %v97, <8 x half> %v78)
  %v116 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v114, <8 x half> %v100, <8 x half> %v79)
  %v117 = getelementptr i8, ptr %v93, i64 280
  %v118 = load i16, ptr %v117, align 2
  %v119 = bitcast i16 %v118 to half
  %v120 = insertelement <8 x half> poison, half %v119, i64 0
  %v121 = shufflevector <8 x half> %v120, <8 x half> poison, <8 x i32> zeroinitializer
  %v122 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v121, <8 x half> %v97, <8 x half> %v80)
  %v123 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v121, <8 x half> %v100, <8 x half> %v81)
  %v124 = getelementptr i8, ptr %v93, i64 420
  %v125 = load i16, ptr %v124, align 2
  %v126 = bitcast i16 %v125 to half
  %v127 = insertelement <8 x half> poison, half %v126, i64 0
  %v128 = shufflevector <8 x half> %v127, <8 x half> poison, <8 x i32> zeroinitializer
  %v129 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v128, <8 x half> %v97, <8 x half> %v82)
  %v130 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v128, <8 x half> %v100, <8 x half> %v83)
  %v131 = getelementptr i8, ptr %v93, i64 560
  %v132 = load i16, ptr %v131, align 2
  %v133 = bitcast i16 %v132 to half
  %v134 = insertelement <8 x half> poison, half %v133, i64 0
  %v135 = shufflevector <8 x half> %v134, <8 x half> poison, <8 x i32> zeroinitializer
  %v136 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v135, <8 x half> %v97, <8 x half> %v84)
  %v137 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v135, <8 x half> %v100, <8 x half> %v85)
  %v138 = getelementptr i8, ptr %v93, i64 700
  %v139 = load i16, ptr %v138, align 2
  %v140 = bitcast i16 %v139 to half
  %v141 = insertelement <8 x half> poison, half %v140, i64 0
  %v142 = shufflevector <8 x half> %v141, <8 x half> poison, <8 x i32> zeroinitializer
  %v143 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v142, <8 x half> %v97, <8 x half> %v86)
  %v144 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v142, <8 x half> %v100, <8 x half> %v87)
  %v145 = getelementptr i8, ptr %v93, i64 840
  %v146 = load i16, ptr %v145, align 2
  %v147 = bitcast i16 %v146 to half
  %v148 = insertelement <8 x half> poison, half %v147, i64 0
  %v149 = shufflevector <8 x half> %v148, <8 x half> poison, <8 x i32> zeroinitializer
  %v150 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v149, <8 x half> %v97, <8 x half> %v88)
  %v151 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v149, <8 x half> %v100, <8 x half> %v89)
  %v152 = getelementptr i8, ptr %v93, i64 980
  %v153 = load i16, ptr %v152, align 2
  %v154 = bitcast i16 %v153 to half
  %v155 = insertelement <8 x half> poison, half %v154, i64 0
  %v156 = shufflevector <8 x half> %v155, <8 x half> poison, <8 x i32> zeroinitializer
  %v157 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v156, <8 x half> %v97, <8 x half> %v90)
  %v158 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v156, <8 x half> %v100, <8 x half> %v91)
  br label %v74.next
v74.next:
  %v159 = add i64 %v75, 1
  %v159.more = icmp slt i64 %v159, 64
  br i1 %v159.more, label %v74, label %v74.after
v74.after:
  %v160 = fpext <8 x half> %v108 to <8 x float>
  %v161 = fadd <8 x float> %v71, %v160
  %v162 = fpext <8 x half> %v109 to <8 x float>
  %v163 = fadd <8 x float> %v73, %v162
  %v164 = fpext <8 x half> %v115 to <8 x float>
  %v165 = fadd <8 x float> %v71, %v164
  %v166 = fpext <8 x half> %v116 to <8 x float>
  %v167 = fadd <8 x float> %v73, %v166
  %v168 = fpext <8 x half> %v122 to <8 x float>
  %v169 = fadd <8 x float> %v71, %v168
  %v170 = fpext <8 x half> %v123 to <8 x float>
  %v171 = fadd <8 x float> %v73, %v170
  %v172 = fpext <8 x half> %v129 to <8 x float>
  %v173 = fadd <8 x float> %v71, %v172
  %v174 = fpext <8 x half> %v130 to <8 x float>
  %v175 = fadd <8 x float> %v73, %v174
  %v176 = fpext <8 x half> %v136 to <8 x float>
  %v177 = fadd <8 x float> %v71, %v176
  %v178 = fpext <8 x half> %v137 to <8 x float>
  %v179 = fadd <8 x float> %v73, %v178
  %v180 = fpext <8 x half> %v143 to <8 x float>
  %v181 = fadd <8 x float> %v71, %v180
  %v182 = fpext <8 x half> %v144 to <8 x float>
  %v183 = fadd <8 x float> %v73, %v182
  %v184 = fpext <8 x half> %v150 to <8 x float>
  %v185 = fadd <8 x float> %v71, %v184
  %v186 = fpext <8 x half> %v151 to <8 x float>
  %v187 = fadd <8 x float> %v73, %v186
  %v188 = fpext <8 x half> %v157 to <8 x float>
  %v189 = fadd <8 x float> %v71, %v188
  %v190 = fpext <8 x half> %v158 to <8 x float>
  %v191 = fadd <8 x float> %v73, %v190
  %v192 = getelementptr i8, ptr %v69, i64 128
  %v194 = getelementptr i8, ptr %a2, i64 %v193
  br label %v195.before
v195.before:
  br label %v195
v195:
  %v196 = phi i64 [ 0, %v195.before ], [ %v280, %v195.next ]
  %v197 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v229, %v195.next ]
  %v198 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v230, %v195.next ]
  %v199 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v236, %v195.next ]
  %v200 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v237, %v195.next ]
  %v201 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v243, %v195.next ]
  %v202 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v244, %v195.next ]
  %v203 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v250, %v195.next ]
  %v204 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v251, %v195.next ]
  %v205 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v257, %v195.next ]
  %v206 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v258, %v195.next ]
  %v207 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v264, %v195.next ]
  %v208 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v265, %v195.next ]
  %v209 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v271, %v195.next ]
  %v210 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v272, %v195.next ]
  %v211 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v278, %v195.next ]
  %v212 = phi <8 x half> [ splat (half 0x0000000000000000), %v195.before ], [ %v279, %v195.next ]
  %v213 = mul i64 %v196, 2
  %v214 = getelementptr i8, ptr %v192, i64 %v213
  %v215 = mul i64 %v196, 32
  %v216 = getelementptr i8, ptr %v194, i64 %v215
  %v217 = load <8 x i16>, ptr %v216, align 16
  %v218 = bitcast <8 x i16> %v217 to <8 x half>
  %v219 = getelementptr i8, ptr %v216, i64 16
  %v220 = load <8 x i16>, ptr %v219, align 16
  %v221 = bitcast <8 x i16> %v220 to <8 x half>
  %v222 = mul i64 %v196, 14
  %v223 = add i64 %v222, 1120
  %v224 = getelementptr i8, ptr %v214, i64 %v223
  call void @llvm.prefetch.p0(ptr %v224, i32 0, i32 2, i32 1)
  %v225 = load i16, ptr %v214, align 2
  %v226 = bitcast i16 %v225 to half
  %v227 = insertelement <8 x half> poison, half %v226, i64 0
  %v228 = shufflevector <8 x half> %v227, <8 x half> poison, <8 x i32> zeroinitializer
  %v229 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v228, <8 x half> %v218, <8 x half> %v197)
  %v230 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v228, <8 x half> %v221, <8 x half> %v198)
  %v231 = getelementptr i8, ptr %v214, i64 140
  %v232 = load i16, ptr %v231, align 2
  %v233 = bitcast i16 %v232 to half
  %v234 = insertelement <8 x half> poison, half %v233, i64 0
  %v235 = shufflevector <8 x half> %v234, <8 x half> poison, <8 x i32> zeroinitializer
  %v236 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v235, <8 x half> %v218, <8 x half> %v199)
  %v237 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v235, <8 x half> %v221, <8 x half> %v200)
  %v238 = getelementptr i8, ptr %v214, i64 280
  %v239 = load i16, ptr %v238, align 2
  %v240 = bitcast i16 %v239 to half
  %v241 = insertelement <8 x half> poison, half %v240, i64 0
  %v242 = shufflevector <8 x half> %v241, <8 x half> poison, <8 x i32> zeroinitializer
  %v243 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v242, <8 x half> %v218, <8 x half> %v201)
  %v244 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v242, <8 x half> %v221, <8 x half> %v202)
  %v245 = getelementptr i8, ptr %v214, i64 420
  %v246 = load i16, ptr %v245, align 2
  %v247 = bitcast i16 %v246 to half
  %v248 = insertelement <8 x half> poison, half %v247, i64 0
  %v249 = shufflevector <8 x half> %v248, <8 x half> poison, <8 x i32> zeroinitializer
  %v250 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v249, <8 x half> %v218, <8 x half> %v203)
  %v251 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v249, <8 x half> %v221, <8 x half> %v204)
  %v252 = getelementptr i8, ptr %v214, i64 560
  %v253 = load i16, ptr %v252, align 2
  %v254 = bitcast i16 %v253 to half
  %v255 = insertelement <8 x half> poison, half %v254, i64 0
  %v256 = shufflevector <8 x half> %v255, <8 x half> poison, <8 x i32> zeroinitializer
  %v257 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v256, <8 x half> %v218, <8 x half> %v205)
  %v258 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v256, <8 x half> %v221, <8 x half> %v206)
  %v259 = getelementptr i8, ptr %v214, i64 700
  %v260 = load i16, ptr %v259, align 2
  %v261 = bitcast i16 %v260 to half
  %v262 = insertelement <8 x half> poison, half %v261, i64 0
  %v263 = shufflevector <8 x half> %v262, <8 x half> poison, <8 x i32> zeroinitializer
  %v264 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v263, <8 x half> %v218, <8 x half> %v207)
  %v265 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v263, <8 x half> %v221, <8 x half> %v208)
  %v266 = getelementptr i8, ptr %v214, i64 840
  %v267 = load i16, ptr %v266, align 2
  %v268 = bitcast i16 %v267 to half
  %v269 = insertelement <8 x half> poison, half %v268, i64 0
  %v270 = shufflevector <8 x half> %v269, <8 x half> poison, <8 x i32> zeroinitializer
  %v271 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v270, <8 x half> %v218, <8 x half> %v209)
  %v272 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v270, <8 x half> %v221, <8 x half> %v210)
  %v273 = getelementptr i8, ptr %v214, i64 980
  %v274 = load i16, ptr %v273, align 2
  %v275 = bitcast i16 %v274 to half
  %v276 = insertelement <8 x half> poison, half %v275, i64 0
  %v277 = shufflevector <8 x half> %v276, <8 x half> poison, <8 x i32> zeroinitializer
  %v278 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v277, <8 x half> %v218, <8 x half> %v211)
  %v279 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v277, <8 x half> %v221, <8 x half> %v212)
  br label %v195.next
v195.next:
  %v280 = add i64 %v196, 1
  %v280.more = icmp slt i64 %v280, 6
  br i1 %v280.more, label %v195, label %v195.after
v195.after:
  %v281 = fpext <8 x half> %v229 to <8 x float>
  %v282 = fadd <8 x float> %v161, %v281
  %v283 = fpext <8 x half> %v230 to <8 x float>
  %v284 = fadd <8 x float> %v163, %v283
  %v285 = fpext <8 x half> %v236 to <8 x float>
  %v286 = fadd <8 x float> %v165, %v285
  %v287 = fpext <8 x half> %v237 to <8 x float>
  %v288 = fadd <8 x float> %v167, %v287
  %v289 = fpext <8 x half> %v243 to <8 x float>
  %v290 = fadd <8 x float> %v169, %v289
  %v291 = fpext <8 x half> %v244 to <8 x float>
  %v292 = fadd <8 x float> %v171, %v291
  %v293 = fpext <8 x half> %v250 to <8 x float>
  %v294 = fadd <8 x float> %v173, %v293
  %v295 = fpext <8 x half> %v251 to <8 x float>
  %v296 = fadd <8 x float> %v175, %v295
  %v297 = fpext <8 x half> %v257 to <8 x float>
  %v298 = fadd <8 x float> %v177, %v297
  %v299 = fpext <8 x half> %v258 to <8 x float>
  %v300 = fadd <8 x float> %v179, %v299
  %v301 = fpext <8 x half> %v264 to <8 x float>
  %v302 = fadd <8 x float> %v181, %v301
  %v303 = fpext <8 x half> %v265 to <8 x float>
  %v304 = fadd <8 x float> %v183, %v303
  %v305 = fpext <8 x half> %v271 to <8 x float>
  %v306 = fadd <8 x float> %v185, %v305
  %v307 = fpext <8 x half> %v272 to <8 x float>
  %v308 = fadd <8 x float> %v187, %v307
  %v309 = fpext <8 x half> %v278 to <8 x float>
  %v310 = fadd <8 x float> %v189, %v309
  %v311 = fpext <8 x half> %v279 to <8 x float>
  %v312 = fadd <8 x float> %v191, %v311
  %v313 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v282
  %v314 = select <8 x i1> %v313, <8 x float> splat (float 0x0000000000000000), <8 x float> %v282
  store <8 x float> %v314, ptr %v316, align 4
  %v317 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v284
  %v318 = select <8 x i1> %v317, <8 x float> splat (float 0x0000000000000000), <8 x float> %v284
  store <8 x float> %v318, ptr %v320, align 4
  %v322 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v286
  %v323 = select <8 x i1> %v322, <8 x float> splat (float 0x0000000000000000), <8 x float> %v286
  store <8 x float> %v323, ptr %v325, align 4
  %v326 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v288
  %v327 = select <8 x i1> %v326, <8 x float> splat (float 0x0000000000000000), <8 x float> %v288
  store <8 x float> %v327, ptr %v329, align 4
  %v331 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v290
  %v332 = select <8 x i1> %v331, <8 x float> splat (float 0x0000000000000000), <8 x float> %v290
  store <8 x float> %v332, ptr %v334, align 4
  %v335 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v292
  %v336 = select <8 x i1> %v335, <8 x float> splat (float 0x0000000000000000), <8 x float> %v292
  store <8 x float> %v336, ptr %v338, align 4
  %v340 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v294
  %v341 = select <8 x i1> %v340, <8 x float> splat (float 0x0000000000000000), <8 x float> %v294
  store <8 x float> %v341, ptr %v343, align 4
  %v344 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v296
  %v345 = select <8 x i1> %v344, <8 x float> splat (float 0x0000000000000000), <8 x float> %v296
  store <8 x float> %v345, ptr %v347, align 4
  %v349 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v298
  %v350 = select <8 x i1> %v349, <8 x float> splat (float 0x0000000000000000), <8 x float> %v298
  store <8 x float> %v350, ptr %v352, align 4
  %v353 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v300
  %v354 = select <8 x i1> %v353, <8 x float> splat (float 0x0000000000000000), <8 x float> %v300
  store <8 x float> %v354, ptr %v356, align 4
  %v358 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v302
  %v359 = select <8 x i1> %v358, <8 x float> splat (float 0x0000000000000000), <8 x float> %v302
  store <8 x float> %v359, ptr %v361, align 4
  %v362 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v304
  %v363 = select <8 x i1> %v362, <8 x float> splat (float 0x0000000000000000), <8 x float> %v304
  store <8 x float> %v363, ptr %v365, align 4
  %v367 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v306
  %v368 = select <8 x i1> %v367, <8 x float> splat (float 0x0000000000000000), <8 x float> %v306
  store <8 x float> %v368, ptr %v370, align 4
  %v371 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v308
  %v372 = select <8 x i1> %v371, <8 x float> splat (float 0x0000000000000000), <8 x float> %v308
  store <8 x float> %v372, ptr %v374, align 4
  %v376 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v310
  %v377 = select <8 x i1> %v376, <8 x float> splat (float 0x0000000000000000), <8 x float> %v310
  store <8 x float> %v377, ptr %v379, align 4
  %v380 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v312
  %v381 = select <8 x i1> %v380, <8 x float> splat (float 0x0000000000000000), <8 x float> %v312
  store <8 x float> %v381, ptr %v383, align 4
  br label %v67.after
v67.after:
  %v385 = mul i64 %v41, 140
  %v604 = mul i64 %v41, 16
  %v605 = getelementptr float, ptr %a0, i64 %v604
  %v608 = add i64 %v604, 8
  %v609 = getelementptr float, ptr %a0, i64 %v608
  %v610 = add i64 %v41, 1
  %v613 = mul i64 %v610, 16
  %v614 = getelementptr float, ptr %a0, i64 %v613
  %v617 = add i64 %v613, 8
  %v618 = getelementptr float, ptr %a0, i64 %v617
  %v619 = add i64 %v41, 2
  %v622 = mul i64 %v619, 16
  %v623 = getelementptr float, ptr %a0, i64 %v622
  %v626 = add i64 %v622, 8
  %v627 = getelementptr float, ptr %a0, i64 %v626
  %v628 = add i64 %v41, 3
  %v631 = mul i64 %v628, 16
  %v632 = getelementptr float, ptr %a0, i64 %v631
  %v635 = add i64 %v631, 8
  %v636 = getelementptr float, ptr %a0, i64 %v635
  %v637 = add i64 %v41, 4
  %v640 = mul i64 %v637, 16
  %v641 = getelementptr float, ptr %a0, i64 %v640
  %v644 = add i64 %v640, 8
  %v645 = getelementptr float, ptr %a0, i64 %v644
  %v646 = add i64 %v41, 5
  %v649 = mul i64 %v646, 16
  %v650 = getelementptr float, ptr %a0, i64 %v649
  %v653 = add i64 %v649, 8
  %v654 = getelementptr float, ptr %a0, i64 %v653
  %v655 = add i64 %v41, 6
  %v658 = mul i64 %v655, 16
  %v659 = getelementptr float, ptr %a0, i64 %v658
  %v662 = add i64 %v658, 8
  %v663 = getelementptr float, ptr %a0, i64 %v662
  br i1 %v42, label %v384.then, label %v384.after
v384.then:
  %v386 = getelementptr i8, ptr %scratch, i64 %v385
  %v387 = getelementptr i8, ptr %a2, i64 2240
  %v388 = load <8 x float>, ptr %a3, align 4
  %v389 = load <8 x float>, ptr %v72, align 4
  br label %v390.before
v390.before:
  br label %v390
v390:
  %v391 = phi i64 [ 0, %v390.before ], [ %v466, %v390.next ]
  %v392 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v422, %v390.next ]
  %v393 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v423, %v390.next ]
  %v394 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v429, %v390.next ]
  %v395 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v430, %v390.next ]
  %v396 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v436, %v390.next ]
  %v397 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v437, %v390.next ]
  %v398 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v443, %v390.next ]
  %v399 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v444, %v390.next ]
  %v400 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v450, %v390.next ]
  %v401 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v451, %v390.next ]
  %v402 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v457, %v390.next ]
  %v403 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v458, %v390.next ]
  %v404 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v464, %v390.next ]
  %v405 = phi <8 x half> [ splat (half 0x0000000000000000), %v390.before ], [ %v465, %v390.next ]
  %v406 = mul i64 %v391, 2
  %v407 = getelementptr i8, ptr %v386, i64 %v406
  %v408 = mul i64 %v391, 32
  %v409 = getelementptr i8, ptr %a2, i64 %v408
  %v410 = load <8 x i16>, ptr %v409, align 16
  %v411 = bitcast <8 x i16> %v410 to <8 x half>
  %v412 = getelementptr i8, ptr %v409, i64 16
  %v413 = load <8 x i16>, ptr %v412, align 16
  %v414 = bitcast <8 x i16> %v413 to <8 x half>
  %v415 = mul i64 %v391, 12
  %v416 = add i64 %v415, 980
  %v417 = getelementptr i8, ptr %v407, i64 %v416
  call void @llvm.prefetch.p0(ptr %v417, i32 0, i32 2, i32 1)
  %v418 = load i16, ptr %v407, align 2
  %v419 = bitcast i16 %v418 to half
  %v420 = insertelement <8 x half> poison, half %v419, i64 0
  %v421 = shufflevector <8 x half> %v420, <8 x half> poison, <8 x i32> zeroinitializer
  %v422 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v421, <8 x half> %v411, <8 x half> %v392)
  %v423 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v421, <8 x half> %v414, <8 x half> %v393)
  %v424 = getelementptr i8, ptr %v407, i64 140
  %v425 = load i16, ptr %v424, align 2
  %v426 = bitcast i16 %v425 to half
  %v427 = insertelement <8 x half> poison, half %v426, i64 0
  %v428 = shufflevector <8 x half> %v427, <8 x half> poison, <8 x i32> zeroinitializer
  %v429 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v428, <8 x half> %v411, <8 x half> %v394)
  %v430 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v428, <8 x half> %v414, <8 x half> %v395)
  %v431 = getelementptr i8, ptr %v407, i64 280
  %v432 = load i16, ptr %v431, align 2
  %v433 = bitcast i16 %v432 to half
  %v434 = insertelement <8 x half> poison, half %v433, i64 0
  %v435 = shufflevector <8 x half> %v434, <8 x half> poison, <8 x i32> zeroinitializer
  %v436 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v435, <8 x half> %v411, <8 x half> %v396)
  %v437 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v435, <8 x half> %v414, <8 x half> %v397)
  %v438 = getelementptr i8, ptr %v407, i64 420
  %v439 = load i16, ptr %v438, align 2
  %v440 = bitcast i16 %v439 to half
  %v441 = insertelement <8 x half> poison, half %v440, i64 0
  %v442 = shufflevector <8 x half> %v441, <8 x half> poison, <8 x i32> zeroinitializer
  %v443 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v442, <8 x half> %v411, <8 x half> %v398)
  %v444 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v442, <8 x half> %v414, <8 x half> %v399)
  %v445 = getelementptr i8, ptr %v407, i64 560
  %v446 = load i16, ptr %v445, align 2
  %v447 = bitcast i16 %v446 to half
  %v448 = insertelement <8 x half> poison, half %v447, i64 0
  %v449 = shufflevector <8 x half> %v448, <8 x half> poison, <8 x i32> zeroinitializer
  %v450 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v449, <8 x half> %v411, <8 x half> %v400)
  %v451 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v449, <8 x half> %v414, <8 x half> %v401)
  %v452 = getelementptr i8, ptr %v407, i64 700
  %v453 = load i16, ptr %v452, align 2
  %v454 = bitcast i16 %v453 to half
  %v455 = insertelement <8 x half> poison, half %v454, i64 0
  %v456 = shufflevector <8 x half> %v455, <8 x half> poison, <8 x i32> zeroinitializer
  %v457 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v456, <8 x half> %v411, <8 x half> %v402)
  %v458 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v456, <8 x half> %v414, <8 x half> %v403)
  %v459 = getelementptr i8, ptr %v407, i64 840
  %v460 = load i16, ptr %v459, align 2
  %v461 = bitcast i16 %v460 to half
  %v462 = insertelement <8 x half> poison, half %v461, i64 0
  %v463 = shufflevector <8 x half> %v462, <8 x half> poison, <8 x i32> zeroinitializer
  %v464 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v463, <8 x half> %v411, <8 x half> %v404)
  %v465 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v463, <8 x half> %v414, <8 x half> %v405)
  br label %v390.next
v390.next:
  %v466 = add i64 %v391, 1
  %v466.more = icmp slt i64 %v466, 64
  br i1 %v466.more, label %v390, label %v390.after
v390.after:
  %v467 = fpext <8 x half> %v422 to <8 x float>
  %v468 = fadd <8 x float> %v388, %v467
  %v469 = fpext <8 x half> %v423 to <8 x float>
  %v470 = fadd <8 x float> %v389, %v469
  %v471 = fpext <8 x half> %v429 to <8 x float>
  %v472 = fadd <8 x float> %v388, %v471
  %v473 = fpext <8 x half> %v430 to <8 x float>
  %v474 = fadd <8 x float> %v389, %v473
  %v475 = fpext <8 x half> %v436 to <8 x float>
  %v476 = fadd <8 x float> %v388, %v475
  %v477 = fpext <8 x half> %v437 to <8 x float>
  %v478 = fadd <8 x float> %v389, %v477
  %v479 = fpext <8 x half> %v443 to <8 x float>
  %v480 = fadd <8 x float> %v388, %v479
  %v481 = fpext <8 x half> %v444 to <8 x float>
  %v482 = fadd <8 x float> %v389, %v481
  %v483 = fpext <8 x half> %v450 to <8 x float>
  %v484 = fadd <8 x float> %v388, %v483
  %v485 = fpext <8 x half> %v451 to <8 x float>
  %v486 = fadd <8 x float> %v389, %v485
  %v487 = fpext <8 x half> %v457 to <8 x float>
  %v488 = fadd <8 x float> %v388, %v487
  %v489 = fpext <8 x half> %v458 to <8 x float>
  %v490 = fadd <8 x float> %v389, %v489
  %v491 = fpext <8 x half> %v464 to <8 x float>
  %v492 = fadd <8 x float> %v388, %v491
  %v493 = fpext <8 x half> %v465 to <8 x float>
  %v494 = fadd <8 x float> %v389, %v493
  %v495 = getelementptr i8, ptr %v386, i64 128
  %v496 = getelementptr i8, ptr %a2, i64 %v193
  br label %v497.before
v497.before:
  br label %v497
v497:
  %v498 = phi i64 [ 0, %v497.before ], [ %v573, %v497.next ]
  %v499 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v529, %v497.next ]
  %v500 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v530, %v497.next ]
  %v501 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v536, %v497.next ]
  %v502 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v537, %v497.next ]
  %v503 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v543, %v497.next ]
  %v504 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v544, %v497.next ]
  %v505 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v550, %v497.next ]
  %v506 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v551, %v497.next ]
  %v507 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v557, %v497.next ]
  %v508 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v558, %v497.next ]
  %v509 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v564, %v497.next ]
  %v510 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v565, %v497.next ]
  %v511 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v571, %v497.next ]
  %v512 = phi <8 x half> [ splat (half 0x0000000000000000), %v497.before ], [ %v572, %v497.next ]
  %v513 = mul i64 %v498, 2
  %v514 = getelementptr i8, ptr %v495, i64 %v513
  %v515 = mul i64 %v498, 32
  %v516 = getelementptr i8, ptr %v496, i64 %v515
  %v517 = load <8 x i16>, ptr %v516, align 16
  %v518 = bitcast <8 x i16> %v517 to <8 x half>
  %v519 = getelementptr i8, ptr %v516, i64 16
  %v520 = load <8 x i16>, ptr %v519, align 16
  %v521 = bitcast <8 x i16> %v520 to <8 x half>
  %v522 = mul i64 %v498, 12
  %v523 = add i64 %v522, 980
  %v524 = getelementptr i8, ptr %v514, i64 %v523
  call void @llvm.prefetch.p0(ptr %v524, i32 0, i32 2, i32 1)
  %v525 = load i16, ptr %v514, align 2
  %v526 = bitcast i16 %v525 to half
  %v527 = insertelement <8 x half> poison, half %v526, i64 0
  %v528 = shufflevector <8 x half> %v527, <8 x half> poison, <8 x i32> zeroinitializer
  %v529 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v528, <8 x half> %v518, <8 x half> %v499)
  %v530 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v528, <8 x half> %v521, <8 x half> %v500)
  %v531 = getelementptr i8, ptr %v514, i64 140
  %v532 = load i16, ptr %v531, align 2
  %v533 = bitcast i16 %v532 to half
  %v534 = insertelement <8 x half> poison, half %v533, i64 0
  %v535 = shufflevector <8 x half> %v534, <8 x half> poison, <8 x i32> zeroinitializer
  %v536 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v535, <8 x half> %v518, <8 x half> %v501)
  %v537 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v535, <8 x half> %v521, <8 x half> %v502)
  %v538 = getelementptr i8, ptr %v514, i64 280
  %v539 = load i16, ptr %v538, align 2
  %v540 = bitcast i16 %v539 to half
  %v541 = insertelement <8 x half> poison, half %v540, i64 0
  %v542 = shufflevector <8 x half> %v541, <8 x half> poison, <8 x i32> zeroinitializer
  %v543 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v542, <8 x half> %v518, <8 x half> %v503)
  %v544 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v542, <8 x half> %v521, <8 x half> %v504)
  %v545 = getelementptr i8, ptr %v514, i64 420
  %v546 = load i16, ptr %v545, align 2
  %v547 = bitcast i16 %v546 to half
  %v548 = insertelement <8 x half> poison, half %v547, i64 0
  %v549 = shufflevector <8 x half> %v548, <8 x half> poison, <8 x i32> zeroinitializer
  %v550 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v549, <8 x half> %v518, <8 x half> %v505)
  %v551 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v549, <8 x half> %v521, <8 x half> %v506)
  %v552 = getelementptr i8, ptr %v514, i64 560
  %v553 = load i16, ptr %v552, align 2
  %v554 = bitcast i16 %v553 to half
  %v555 = insertelement <8 x half> poison, half %v554, i64 0
  %v556 = shufflevector <8 x half> %v555, <8 x half> poison, <8 x i32> zeroinitializer
  %v557 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v556, <8 x half> %v518, <8 x half> %v507)
  %v558 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v556, <8 x half> %v521, <8 x half> %v508)
  %v559 = getelementptr i8, ptr %v514, i64 700
  %v560 = load i16, ptr %v559, align 2
  %v561 = bitcast i16 %v560 to half
  %v562 = insertelement <8 x half> poison, half %v561, i64 0
  %v563 = shufflevector <8 x half> %v562, <8 x half> poison, <8 x i32> zeroinitializer
  %v564 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v563, <8 x half> %v518, <8 x half> %v509)
  %v565 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v563, <8 x half> %v521, <8 x half> %v510)
  %v566 = getelementptr i8, ptr %v514, i64 840
  %v567 = load i16, ptr %v566, align 2
  %v568 = bitcast i16 %v567 to half
  %v569 = insertelement <8 x half> poison, half %v568, i64 0
  %v570 = shufflevector <8 x half> %v569, <8 x half> poison, <8 x i32> zeroinitializer
  %v571 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v570, <8 x half> %v518, <8 x half> %v511)
  %v572 = call <8 x half> @llvm.fmuladd.v8f16(<8 x half> %v570, <8 x half> %v521, <8 x half> %v512)
  br label %v497.next
v497.next:
  %v573 = add i64 %v498, 1
  %v573.more = icmp slt i64 %v573, 6
  br i1 %v573.more, label %v497, label %v497.after
v497.after:
  %v574 = fpext <8 x half> %v529 to <8 x float>
  %v575 = fadd <8 x float> %v468, %v574
  %v576 = fpext <8 x half> %v530 to <8 x float>
  %v577 = fadd <8 x float> %v470, %v576
  %v578 = fpext <8 x half> %v536 to <8 x float>
  %v579 = fadd <8 x float> %v472, %v578
  %v580 = fpext <8 x half> %v537 to <8 x float>
  %v581 = fadd <8 x float> %v474, %v580
  %v582 = fpext <8 x half> %v543 to <8 x float>
  %v583 = fadd <8 x float> %v476, %v582
  %v584 = fpext <8 x half> %v544 to <8 x float>
  %v585 = fadd <8 x float> %v478, %v584
  %v586 = fpext <8 x half> %v550 to <8 x float>
  %v587 = fadd <8 x float> %v480, %v586
  %v588 = fpext <8 x half> %v551 to <8 x float>
  %v589 = fadd <8 x float> %v482, %v588
  %v590 = fpext <8 x half> %v557 to <8 x float>
  %v591 = fadd <8 x float> %v484, %v590
  %v592 = fpext <8 x half> %v558 to <8 x float>
  %v593 = fadd <8 x float> %v486, %v592
  %v594 = fpext <8 x half> %v564 to <8 x float>
  %v595 = fadd <8 x float> %v488, %v594
  %v596 = fpext <8 x half> %v565 to <8 x float>
  %v597 = fadd <8 x float> %v490, %v596
  %v598 = fpext <8 x half> %v571 to <8 x float>
  %v599 = fadd <8 x float> %v492, %v598
  %v600 = fpext <8 x half> %v572 to <8 x float>
  %v601 = fadd <8 x float> %v494, %v600
  %v602 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v575
  %v603 = select <8 x i1> %v602, <8 x float> splat (float 0x0000000000000000), <8 x float> %v575
  store <8 x float> %v603, ptr %v605, align 4
  %v606 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v577
  %v607 = select <8 x i1> %v606, <8 x float> splat (float 0x0000000000000000), <8 x float> %v577
  store <8 x float> %v607, ptr %v609, align 4
  %v611 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v579
  %v612 = select <8 x i1> %v611, <8 x float> splat (float 0x0000000000000000), <8 x float> %v579
  store <8 x float> %v612, ptr %v614, align 4
  %v615 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v581
  %v616 = select <8 x i1> %v615, <8 x float> splat (float 0x0000000000000000), <8 x float> %v581
  store <8 x float> %v616, ptr %v618, align 4
  %v620 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v583
  %v621 = select <8 x i1> %v620, <8 x float> splat (float 0x0000000000000000), <8 x float> %v583
  store <8 x float> %v621, ptr %v623, align 4
  %v624 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v585
  %v625 = select <8 x i1> %v624, <8 x float> splat (float 0x0000000000000000), <8 x float> %v585
  store <8 x float> %v625, ptr %v627, align 4
  %v629 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v587
  %v630 = select <8 x i1> %v629, <8 x float> splat (float 0x0000000000000000), <8 x float> %v587
  store <8 x float> %v630, ptr %v632, align 4
  %v633 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v589
  %v634 = select <8 x i1> %v633, <8 x float> splat (float 0x0000000000000000), <8 x float> %v589
  store <8 x float> %v634, ptr %v636, align 4
  %v638 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v591
  %v639 = select <8 x i1> %v638, <8 x float> splat (float 0x0000000000000000), <8 x float> %v591
  store <8 x float> %v639, ptr %v641, align 4
  %v642 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v593
  %v643 = select <8 x i1> %v642, <8 x float> splat (float 0x0000000000000000), <8 x float> %v593
  store <8 x float> %v643, ptr %v645, align 4
  %v647 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v595
  %v648 = select <8 x i1> %v647, <8 x float> splat (float 0x0000000000000000), <8 x float> %v595
  store <8 x float> %v648, ptr %v650, align 4
  %v651 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v597
  %v652 = select <8 x i1> %v651, <8 x float> splat (float 0x0000000000000000), <8 x float> %v597
  store <8 x float> %v652, ptr %v654, align 4
  %v656 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v599
  %v657 = select <8 x i1> %v656, <8 x float> splat (float 0x0000000000000000), <8 x float> %v599
  store <8 x float> %v657, ptr %v659, align 4
  %v660 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v601
  %v661 = select <8 x i1> %v660, <8 x float> splat (float 0x0000000000000000), <8 x float> %v601
  store <8 x float> %v661, ptr %v663, align 4
  br label %v384.after
v384.after:
  %v664 = add i64 %v4, 1
  %v665 = icmp eq i64 %v664, 2
  %v666 = select i1 %v665, i64 0, i64 %v664
  %v667 = zext i1 %v665 to i64
  br label %v2.next
v2.next:
  %v668 = add i64 %v3, 1
  br label %v2
v2.after:
  ret void
}

