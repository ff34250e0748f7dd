; Winograd, 49 tiles of 2 x 2 positions and 2 x 8 channels
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @k7f0101b8db87aeac(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = getelementptr i8, ptr %scratch, i64 128
  %v2 = getelementptr i8, ptr %scratch, i64 150656
  br label %v3.before
v3.before:
  br label %v3
v3:
  %v4 = phi i64 [ 0, %v3.before ], [ %v7, %v3.next ]
  %v5 = mul i64 %v4, 4
  %v6 = getelementptr i8, ptr %scratch, i64 %v5
  store <8 x float> splat (float 0x0000000000000000), ptr %v6, align 4
  br label %v3.next
v3.next:
  %v7 = add i64 %v4, 8
  %v7.more = icmp slt i64 %v7, 32
  br i1 %v7.more, label %v3, label %v3.after
v3.after:
  %v8 = udiv i64 %begin, 2
  %v9 = urem i64 %begin, 2
  %v463 = mul i64 8, 4
  %v465 = mul i64 16, 4
  %v467 = mul i64 24, 4
  %v469 = mul i64 32, 4
  %v471 = mul i64 40, 4
  %v473 = mul i64 48, 4
  %v475 = mul i64 56, 4
  %v477 = mul i64 64, 4
  %v479 = mul i64 72, 4
  %v481 = mul i64 80, 4
  %v483 = mul i64 88, 4
  br label %v10.before
v10.before:
  br label %v10
v10:
  %v11 = phi i64 [ %begin, %v10.before ], [ %v805, %v10.next ]
  %v12 = phi i64 [ %v8, %v10.before ], [ %v803, %v10.next ]
  %v13 = phi i64 [ %v9, %v10.before ], [ %v799, %v10.next ]
  %v805.more = icmp slt i64 %v11, %end
  br i1 %v805.more, label %v10.turn, label %v10.after
v10.turn:
  %v14 = icmp eq i64 %v11, %begin
  %v15 = icmp eq i64 %v13, 0
  %v16 = mul i64 %v12, 49
  %v17 = or i1 %v14, %v15
  br i1 %v17, label %v18.then, label %v18.after
v18.then:
  br label %v19.before
v19.before:
  br label %v19
v19:
  %v20 = phi i64 [ 0, %v19.before ], [ %v322, %v19.next ]
  %v21 = add i64 %v16, %v20
  %v22 = udiv i64 %v21, 14
  %v23 = urem i64 %v21, 14
  %v24 = udiv i64 %v22, 14
  %v25 = urem i64 %v22, 14
  %v26 = mul i64 %v20, 192
  %v27 = getelementptr i8, ptr %v1, i64 %v26
  %v28 = mul i64 %v24, 100352
  %v29 = mul i64 %v25, 2
  %v30 = add i64 %v29, -1
  %v31 = mul i64 %v30, 3584
  %v32 = icmp ult i64 %v30, 28
  %v33 = add i64 %v30, 1
  %v34 = icmp ult i64 %v33, 28
  %v35 = add i64 %v30, 2
  %v36 = icmp ult i64 %v35, 28
  %v37 = add i64 %v30, 3
  %v38 = icmp ult i64 %v37, 28
  %v39 = mul i64 %v23, 2
  %v40 = add i64 %v39, -1
  %v41 = mul i64 %v40, 128
  %v42 = icmp ult i64 %v40, 28
  %v43 = add i64 %v40, 1
  %v44 = icmp ult i64 %v43, 28
  %v45 = add i64 %v40, 2
  %v46 = icmp ult i64 %v45, 28
  %v47 = add i64 %v40, 3
  %v48 = icmp ult i64 %v47, 28
  %v49 = add i64 %v28, %v31
  %v50 = add i64 %v49, %v41
  %v51 = getelementptr i8, ptr %a1, i64 %v50
  %v52 = and i1 %v32, %v34
  %v53 = and i1 %v52, %v36
  %v54 = and i1 %v53, %v38
  %v55 = and i1 %v54, %v42
  %v56 = and i1 %v55, %v44
  %v57 = and i1 %v56, %v46
  %v58 = and i1 %v57, %v48
  br i1 %v58, label %v59.then, label %v59.after
v59.then:
  %v60 = getelementptr i8, ptr %v51, i64 128
  %v61 = getelementptr i8, ptr %v51, i64 256
  %v62 = getelementptr i8, ptr %v51, i64 384
  %v63 = getelementptr i8, ptr %v51, i64 3584
  %v64 = getelementptr i8, ptr %v51, i64 3712
  %v65 = getelementptr i8, ptr %v51, i64 3840
  %v66 = getelementptr i8, ptr %v51, i64 3968
  %v67 = getelementptr i8, ptr %v51, i64 7168
  %v68 = getelementptr i8, ptr %v51, i64 7296
  %v69 = getelementptr i8, ptr %v51, i64 7424
  %v70 = getelementptr i8, ptr %v51, i64 7552
  %v71 = getelementptr i8, ptr %v51, i64 10752
  %v72 = getelementptr i8, ptr %v51, i64 10880
  %v73 = getelementptr i8, ptr %v51, i64 11008
  %v74 = getelementptr i8, ptr %v51, i64 11136
  br label %v75.before
v75.before:
  br label %v75
v75:
  %v76 = phi i64 [ 0, %v75.before ], [ %v173, %v75.next ]
  %v77 = mul i64 %v76, 4
  %v78 = getelementptr i8, ptr %v51, i64 %v77
  %v79 = load <8 x float>, ptr %v78, align 4
  %v80 = getelementptr i8, ptr %v60, i64 %v77
  %v81 = load <8 x float>, ptr %v80, align 4
  %v82 = getelementptr i8, ptr %v61, i64 %v77
  %v83 = load <8 x float>, ptr %v82, align 4
  %v84 = getelementptr i8, ptr %v62, i64 %v77
  %v85 = load <8 x float>, ptr %v84, align 4
  %v86 = getelementptr i8, ptr %v63, i64 %v77
  %v87 = load <8 x float>, ptr %v86, align 4
  %v88 = getelementptr i8, ptr %v64, i64 %v77
  %v89 = load <8 x float>, ptr %v88, align 4
  %v90 = getelementptr i8, ptr %v65, i64 %v77
  %v91 = load <8 x float>, ptr %v90, align 4
  %v92 = getelementptr i8, ptr %v66, i64 %v77
  %v93 = load <8 x float>, ptr %v92, align 4
  %v94 = getelementptr i8, ptr %v67, i64 %v77
  %v95 = load <8 x float>, ptr %v94, align 4
  %v96 = getelementptr i8, ptr %v68, i64 %v77
  %v97 = load <8 x float>, ptr %v96, align 4
  %v98 = getelementptr i8, ptr %v69, i64 %v77
  %v99 = load <8 x float>, ptr %v98, align 4
  %v100 = getelementptr i8, ptr %v70, i64 %v77
  %v101 = load <8 x float>, ptr %v100, align 4
  %v102 = getelementptr i8, ptr %v71, i64 %v77
  %v103 = load <8 x float>, ptr %v102, align 4
  %v104 = getelementptr i8, ptr %v72, i64 %v77
  %v105 = load <8 x float>, ptr %v104, align 4
  %v106 = getelementptr i8, ptr %v73, i64 %v77
  %v107 = load <8 x float>, ptr %v106, align 4
  %v108 = getelementptr i8, ptr %v74, i64 %v77
  %v109 = load <8 x float>, ptr %v108, align 4
  %v110 = fsub <8 x float> %v79, %v95
  %v111 = fsub <8 x float> %v81, %v97
  %v112 = fsub <8 x float> %v83, %v99
  %v113 = fsub <8 x float> %v85, %v101
  %v114 = fadd <8 x float> %v87, %v95
  %v115 = fadd <8 x float> %v89, %v97
  %v116 = fadd <8 x float> %v91, %v99
  %v117 = fadd <8 x float> %v93, %v101
  %v118 = fsub <8 x float> %v95, %v87
  %v119 = fsub <8 x float> %v97, %v89
  %v120 = fsub <8 x float> %v99, %v91
  %v121 = fsub <8 x float> %v101, %v93
  %v122 = fsub <8 x float> %v87, %v103
  %v123 = fsub <8 x float> %v89, %v105
  %v124 = fsub <8 x float> %v91, %v107
  %v125 = fsub <8 x float> %v93, %v109
  %v126 = fsub <8 x float> %v110, %v112
  %v127 = fsub <8 x float> %v114, %v116
  %v128 = fsub <8 x float> %v118, %v120
  %v129 = fsub <8 x float> %v122, %v124
  %v130 = fadd <8 x float> %v111, %v112
  %v131 = fadd <8 x float> %v115, %v116
  %v132 = fadd <8 x float> %v119, %v120
  %v133 = fadd <8 x float> %v123, %v124
  %v134 = fsub <8 x float> %v112, %v111
  %v135 = fsub <8 x float> %v116, %v115
  %v136 = fsub <8 x float> %v120, %v119
  %v137 = fsub <8 x float> %v124, %v123
  %v138 = fsub <8 x float> %v111, %v113
  %v139 = fsub <8 x float> %v115, %v117
  %v140 = fsub <8 x float> %v119, %v121
  %v141 = fsub <8 x float> %v123, %v125
  %v142 = getelementptr i8, ptr %v27, i64 %v77
  store <8 x float> %v126, ptr %v142, align 4
  %v143 = getelementptr i8, ptr %v27, i64 37632
  %v144 = getelementptr i8, ptr %v143, i64 %v77
  store <8 x float> %v127, ptr %v144, align 4
  %v145 = getelementptr i8, ptr %v27, i64 75264
  %v146 = getelementptr i8, ptr %v145, i64 %v77
  store <8 x float> %v128, ptr %v146, align 4
  %v147 = getelementptr i8, ptr %v27, i64 112896
  %v148 = getelementptr i8, ptr %v147, i64 %v77
  store <8 x float> %v129, ptr %v148, align 4
  %v149 = getelementptr i8, ptr %v27, i64 9408
  %v150 = getelementptr i8, ptr %v149, i64 %v77
  store <8 x float> %v130, ptr %v150, align 4
  %v151 = getelementptr i8, ptr %v27, i64 47040
  %v152 = getelementptr i8, ptr %v151, i64 %v77
  store <8 x float> %v131, ptr %v152, align 4
  %v153 = getelementptr i8, ptr %v27, i64 84672
  %v154 = getelementptr i8, ptr %v153, i64 %v77
  store <8 x float> %v132, ptr %v154, align 4
  %v155 = getelementptr i8, ptr %v27, i64 122304
  %v156 = getelementptr i8, ptr %v155, i64 %v77
  store <8 x float> %v133, ptr %v156, align 4
  %v157 = getelementptr i8, ptr %v27, i64 18816
  %v158 = getelementptr i8, ptr %v157, i64 %v77
  store <8 x float> %v134, ptr %v158, align 4
  %v159 = getelementptr i8, ptr %v27, i64 56448
  %v160 = getelementptr i8, ptr %v159, i64 %v77
  store <8 x float> %v135, ptr %v160, align 4
  %v161 = getelementptr i8, ptr %v27, i64 94080
  %v162 = getelementptr i8, ptr %v161, i64 %v77
  store <8 x float> %v136, ptr %v162, align 4
  %v163 = getelementptr i8, ptr %v27, i64 131712
  %v164 = getelementptr i8, ptr %v163, i64 %v77
  store <8 x float> %v137, ptr %v164, align 4
  %v165 = getelementptr i8, ptr %v27, i64 28224
  %v166 = getelementptr i8, ptr %v165, i64 %v77
  store <8 x float> %v138, ptr %v166, align 4
  %v167 = getelementptr i8, ptr %v27, i64 65856
  %v168 = getelementptr i8, ptr %v167, i64 %v77
  store <8 x float> %v139, ptr %v168, align 4
  %v169 = getelementptr i8, ptr %v27, i64 103488
  %v170 = getelementptr i8, ptr %v169, i64 %v77
  store <8 x float> %v140, ptr %v170, align 4
  %v171 = getelementptr i8, ptr %v27, i64 141120
  %v172 = getelementptr i8, ptr %v171, i64 %v77
  store <8 x float> %v141, ptr %v172, align 4
  br label %v75.next
v75.next:
  %v173 = add i64 %v76, 8
  %v173.more = icmp slt i64 %v173, 32
  br i1 %v173.more, label %v75, label %v75.after
v75.after:
  br label %v59.after
v59.after:
  %v174 = xor i1 %v58, true
  %v176 = and i1 %v32, %v42
  %v177 = and i1 %v32, %v44
  %v178 = and i1 %v32, %v46
  %v179 = and i1 %v32, %v48
  %v180 = and i1 %v34, %v42
  %v181 = and i1 %v34, %v44
  %v182 = and i1 %v34, %v46
  %v183 = and i1 %v34, %v48
  %v184 = and i1 %v36, %v42
  %v185 = and i1 %v36, %v44
  %v186 = and i1 %v36, %v46
  %v187 = and i1 %v36, %v48
  %v188 = and i1 %v38, %v42
  %v189 = and i1 %v38, %v44
  %v190 = and i1 %v38, %v46
  %v191 = and i1 %v38, %v48
  %v192 = select i1 %v176, ptr %v51, ptr %scratch
  br i1 %v174, label %v175.then, label %v175.after
v175.then:
  %v193 = getelementptr i8, ptr %v51, i64 128
  %v194 = select i1 %v177, ptr %v193, ptr %scratch
  %v195 = getelementptr i8, ptr %v51, i64 256
  %v196 = select i1 %v178, ptr %v195, ptr %scratch
  %v197 = getelementptr i8, ptr %v51, i64 384
  %v198 = select i1 %v179, ptr %v197, ptr %scratch
  %v199 = getelementptr i8, ptr %v51, i64 3584
  %v200 = select i1 %v180, ptr %v199, ptr %scratch
  %v201 = getelementptr i8, ptr %v51, i64 3712
  %v202 = select i1 %v181, ptr %v201, ptr %scratch
  %v203 = getelementptr i8, ptr %v51, i64 3840
  %v204 = select i1 %v182, ptr %v203, ptr %scratch
  %v205 = getelementptr i8, ptr %v51, i64 3968
  %v206 = select i1 %v183, ptr %v205, ptr %scratch
  %v207 = getelementptr i8, ptr %v51, i64 7168
  %v208 = select i1 %v184, ptr %v207, ptr %scratch
  %v209 = getelementptr i8, ptr %v51, i64 7296
  %v210 = select i1 %v185, ptr %v209, ptr %scratch
  %v211 = getelementptr i8, ptr %v51, i64 7424
  %v212 = select i1 %v186, ptr %v211, ptr %scratch
  %v213 = getelementptr i8, ptr %v51, i64 7552
  %v214 = select i1 %v187, ptr %v213, ptr %scratch
  %v215 = getelementptr i8, ptr %v51, i64 10752
  %v216 = select i1 %v188, ptr %v215, ptr %scratch
  %v217 = getelementptr i8, ptr %v51, i64 10880
  %v218 = select i1 %v189, ptr %v217, ptr %scratch
  %v219 = getelementptr i8, ptr %v51, i64 11008
  %v220 = select i1 %v190, ptr %v219, ptr %scratch
  %v221 = getelementptr i8, ptr %v51, i64 11136
  %v222 = select i1 %v191, ptr %v221, ptr %scratch
  br label %v223.before
v223.before:
  br label %v223
v223:
  %v224 = phi i64 [ 0, %v223.before ], [ %v321, %v223.next ]
  %v225 = mul i64 %v224, 4
  %v226 = getelementptr i8, ptr %v192, i64 %v225
  %v227 = load <8 x float>, ptr %v226, align 4
  %v228 = getelementptr i8, ptr %v194, i64 %v225
  %v229 = load <8 x float>, ptr %v228, align 4
  %v230 = getelementptr i8, ptr %v196, i64 %v225
  %v231 = load <8 x float>, ptr %v230, align 4
  %v232 = getelementptr i8, ptr %v198, i64 %v225
  %v233 = load <8 x float>, ptr %v232, align 4
  %v234 = getelementptr i8, ptr %v200, i64 %v225
  %v235 = load <8 x float>, ptr %v234, align 4
  %v236 = getelementptr i8, ptr %v202, i64 %v225
  %v237 = load <8 x float>, ptr %v236, align 4
  %v238 = getelementptr i8, ptr %v204, i64 %v225
  %v239 = load <8 x float>, ptr %v238, align 4
  %v240 = getelementptr i8, ptr %v206, i64 %v225
  %v241 = load <8 x float>, ptr %v240, align 4
  %v242 = getelementptr i8, ptr %v208, i64 %v225
  %v243 = load <8 x float>, ptr %v242, align 4
  %v244 = getelementptr i8, ptr %v210, i64 %v225
  %v245 = load <8 x float>, ptr %v244, align 4
  %v246 = getelementptr i8, ptr %v212, i64 %v225
  %v247 = load <8 x float>, ptr %v246, align 4
  %v248 = getelementptr i8, ptr %v214, i64 %v225
  %v249 = load <8 x float>, ptr %v248, align 4
  %v250 = getelementptr i8, ptr %v216, i64 %v225
  %v251 = load <8 x float>, ptr %v250, align 4
  %v252 = getelementptr i8, ptr %v218, i64 %v225
  %v253 = load <8 x float>, ptr %v252, align 4
  %v254 = getelementptr i8, ptr %v220, i64 %v225
  %v255 = load <8 x float>, ptr %v254, align 4
  %v256 = getelementptr i8, ptr %v222, i64 %v225
  %v257 = load <8 x float>, ptr %v256, align 4
  %v258 = fsub <8 x float> %v227, %v243
  %v259 = fsub <8 x float> %v229, %v245
  %v260 = fsub <8 x float> %v231, %v247
  %v261 = fsub <8 x float> %v233, %v249
  %v262 = fadd <8 x float> %v235, %v243
  %v263 = fadd <8 x float> %v237, %v245
  %v264 = fadd <8 x float> %v239, %v247
  %v265 = fadd <8 x float> %v241, %v249
  %v266 = fsub <8 x float> %v243, %v235
  %v267 = fsub <8 x float> %v245, %v237
  %v268 = fsub <8 x float> %v247, %v239
  %v269 = fsub <8 x float> %v249, %v241
  %v270 = fsub <8 x float> %v235, %v251
  %v271 = fsub <8 x float> %v237, %v253
  %v272 = fsub <8 x float> %v239, %v255
  %v273 = fsub <8 x float> %v241, %v257
  %v274 = fsub <8 x float> %v258, %v260
  %v275 = fsub <8 x float> %v262, %v264
  %v276 = fsub <8 x float> %v266, %v268
  %v277 = fsub <8 x float> %v270, %v272
  %v278 = fadd <8 x float> %v259, %v260
  %v279 = fadd <8 x float> %v263, %v264
  %v280 = fadd <8 x float> %v267, %v268
  %v281 = fadd <8 x float> %v271, %v272
  %v282 = fsub <8 x float> %v260, %v259
  %v283 = fsub <8 x float> %v264, %v263
  %v284 = fsub <8 x float> %v268, %v267
  %v285 = fsub <8 x float> %v272, %v271
  %v286 = fsub <8 x float> %v259, %v261
  %v287 = fsub <8 x float> %v263, %v265
  %v288 = fsub <8 x float> %v267, %v269
  %v289 = fsub <8 x float> %v271, %v273
  %v290 = getelementptr i8, ptr %v27, i64 %v225
  store <8 x float> %v274, ptr %v290, align 4
  %v291 = getelementptr i8, ptr %v27, i64 37632
  %v292 = getelementptr i8, ptr %v291, i64 %v225
  store <8 x float> %v275, ptr %v292, align 4
  %v293 = getelementptr i8, ptr %v27, i64 75264
  %v294 = getelementptr i8, ptr %v293, i64 %v225
  store <8 x float> %v276, ptr %v294, align 4
  %v295 = getelementptr i8, ptr %v27, i64 112896
  %v296 = getelementptr i8, ptr %v295, i64 %v225
  store <8 x float> %v277, ptr %v296, align 4
  %v297 = getelementptr i8, ptr %v27, i64 9408
  %v298 = getelementptr i8, ptr %v297, i64 %v225
  store <8 x float> %v278, ptr %v298, align 4
  %v299 = getelementptr i8, ptr %v27, i64 47040
  %v300 = getelementptr i8, ptr %v299, i64 %v225
  store <8 x float> %v279, ptr %v300, align 4
  %v301 = getelementptr i8, ptr %v27, i64 84672
  %v302 = getelementptr i8, ptr %v301, i64 %v225
  store <8 x float> %v280, ptr %v302, align 4
  %v303 = getelementptr i8, ptr %v27, i64 122304
  %v304 = getelementptr i8, ptr %v303, i64 %v225
  store <8 x float> %v281, ptr %v304, align 4
  %v305 = getelementptr i8, ptr %v27, i64 18816
  %v306 = getelementptr i8, ptr %v305, i64 %v225
  store <8 x float> %v282, ptr %v306, align 4
  %v307 = getelementptr i8, ptr %v27, i64 56448
  %v308 = getelementptr i8, ptr %v307, i64 %v225
  store <8 x float> %v283, ptr %v308, align 4
  %v309 = getelementptr i8, ptr %v27, i64 94080
  %v310 = getelementptr i8, ptr %v309, i64 %v225
  store <8 x float> %v284, ptr %v310, align 4
  %v311 = getelementptr i8, ptr %v27, i64 131712
  %v312 = getelementptr i8, ptr %v311, i64 %v225
  store <8 x float> %v285, ptr %v312, align 4
  %v313 = getelementptr i8, ptr %v27, i64 28224
  %v314 = getelementptr i8, ptr %v313, i64 %v225
  store <8 x float> %v286, ptr %v314, align 4
  %v315 = getelementptr i8, ptr %v27, i64 65856
  %v316 = getelementptr i8, ptr %v315, i64 %v225
  store <8 x float> %v287, ptr %v316, align 4
  %v317 = getelementptr i8, ptr %v27, i64 103488
  %v318 = getelementptr i8, ptr %v317, i64 %v225
  store <8 x float> %v288, ptr %v318, align 4
  %v319 = getelementptr i8, ptr %v27, i64 141120
  %v320 = getelementptr i8, ptr %v319, i64 %v225
  store <8 x float> %v289, ptr %v320, align 4
  br label %v223.next
v223.next:
  %v321 = add i64 %v224, 8
  %v321.more = icmp slt i64 %v321, 32
  br i1 %v321.more, label %v223, label %v223.after
v223.after:
  br label %v175.after
v175.after:
  br label %v19.next
v19.next:
  %v322 = add i64 %v20, 1
  %v322.more = icmp slt i64 %v322, 49
  br i1 %v322.more, label %v19, label %v19.after
v19.after:
  br label %v18.after
v18.after:
  %v325 = mul i64 %v13, 16
  br label %v323.before
v323.before:
  br label %v323
v323:
  %v324 = phi i64 [ 0, %v323.before ], [ %v612, %v323.next ]
  %v326 = add i64 %v325, %v324
  %v327 = mul i64 %v326, 2048
  %v328 = getelementptr i8, ptr %a2, i64 %v327
  %v329 = mul i64 %v324, 9408
  %v330 = getelementptr i8, ptr %v1, i64 %v329
  %v331 = mul i64 %v324, 3136
  %v332 = getelementptr i8, ptr %v2, i64 %v331
  br label %v333.before
v333.before:
  br label %v333
v333:
  %v334 = phi i64 [ 0, %v333.before ], [ %v485, %v333.next ]
  %v335 = mul i64 %v334, 6
  %v336 = mul i64 %v334, 228
  %v337 = add i64 %v336, 2048
  %v338 = getelementptr i8, ptr %v328, i64 %v337
  %v339 = mul i64 %v335, 192
  %v340 = getelementptr i8, ptr %v330, i64 %v339
  %v341 = mul i64 %v335, 64
  %v342 = getelementptr i8, ptr %v332, i64 %v341
  br label %v343.before
v343.before:
  br label %v343
v343:
  %v344 = phi i64 [ 0, %v343.before ], [ %v462, %v343.next ]
  %v345 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v429, %v343.next ]
  %v346 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v430, %v343.next ]
  %v347 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v435, %v343.next ]
  %v348 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v436, %v343.next ]
  %v349 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v441, %v343.next ]
  %v350 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v442, %v343.next ]
  %v351 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v447, %v343.next ]
  %v352 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v448, %v343.next ]
  %v353 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v453, %v343.next ]
  %v354 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v454, %v343.next ]
  %v355 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v459, %v343.next ]
  %v356 = phi <8 x float> [ splat (float 0x0000000000000000), %v343.before ], [ %v460, %v343.next ]
  %v357 = mul i64 %v344, 8
  %v358 = mul i64 %v357, 4
  %v359 = getelementptr i8, ptr %v340, i64 %v358
  %v360 = mul i64 %v344, 512
  %v361 = getelementptr i8, ptr %v328, i64 %v360
  %v362 = mul i64 %v344, 57
  %v363 = getelementptr i8, ptr %v338, i64 %v362
  call void @llvm.prefetch.p0(ptr %v363, i32 0, i32 2, i32 1)
  br label %v364.before
v364.before:
  br label %v364
v364:
  %v365 = phi i64 [ 0, %v364.before ], [ %v461, %v364.next ]
  %v366 = phi <8 x float> [ %v345, %v364.before ], [ %v429, %v364.next ]
  %v367 = phi <8 x float> [ %v346, %v364.before ], [ %v430, %v364.next ]
  %v368 = phi <8 x float> [ %v347, %v364.before ], [ %v435, %v364.next ]
  %v369 = phi <8 x float> [ %v348, %v364.before ], [ %v436, %v364.next ]
  %v370 = phi <8 x float> [ %v349, %v364.before ], [ %v441, %v364.next ]
  %v371 = phi <8 x float> [ %v350, %v364.before ], [ %v442, %v364.next ]
  %v372 = phi <8 x float> [ %v351, %v364.before ], [ %v447, %v364.next ]
  %v373 = phi <8 x float> [ %v352, %v364.before ], [ %v448, %v364.next ]
  %v374 = phi <8 x float> [ %v353, %v364.before ], [ %v453, %v364.next ]
  %v375 = phi <8 x float> [ %v354, %v364.before ], [ %v454, %v364.next ]
  %v376 = phi <8 x float> [ %v355, %v364.before ], [ %v459, %v364.next ]
  %v377 = phi <8 x float> [ %v356, %v364.before ], [ %v460, %v364.next ]
  %v378 = mul i64 %v365, 4
  %v379 = getelementptr i8, ptr %v359, i64 %v378
  %v380 = mul i64 %v365, 64
  %v381 = getelementptr i8, ptr %v361, i64 %v380
  %v382 = add i64 %v357, %v365
  %v383 = load <8 x float>, ptr %v381, align 32
  %v384 = getelementptr i8, ptr %v381, i64 32
  %v385 = load <8 x float>, ptr %v384, align 32
  %v386 = load float, ptr %v379, align 4
  %v387 = insertelement <8 x float> poison, float %v386, i64 0
  %v388 = shufflevector <8 x float> %v387, <8 x float> poison, <8 x i32> zeroinitializer
  %v389 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v388, <8 x float> %v383, <8 x float> %v366)
  %v390 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v388, <8 x float> %v385, <8 x float> %v367)
  %v391 = getelementptr i8, ptr %v379, i64 192
  %v392 = load float, ptr %v391, align 4
  %v393 = insertelement <8 x float> poison, float %v392, i64 0
  %v394 = shufflevector <8 x float> %v393, <8 x float> poison, <8 x i32> zeroinitializer
  %v395 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v394, <8 x float> %v383, <8 x float> %v368)
  %v396 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v394, <8 x float> %v385, <8 x float> %v369)
  %v397 = getelementptr i8, ptr %v379, i64 384
  %v398 = load float, ptr %v397, align 4
  %v399 = insertelement <8 x float> poison, float %v398, i64 0
  %v400 = shufflevector <8 x float> %v399, <8 x float> poison, <8 x i32> zeroinitializer
  %v401 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v400, <8 x float> %v383, <8 x float> %v370)
  %v402 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v400, <8 x float> %v385, <8 x float> %v371)
  %v403 = getelementptr i8, ptr %v379, i64 576
  %v404 = load float, ptr %v403, align 4
  %v405 = insertelement <8 x float> poison, float %v404, i64 0
  %v406 = shufflevector <8 x float> %v405, <8 x float> poison, <8 x i32> zeroinitializer
  %v407 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v406, <8 x float> %v383, <8 x float> %v372)
  %v408 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v406, <8 x float> %v385, <8 x float> %v373)
  %v409 = getelementptr i8, ptr %v379, i64 768
  %v410 = load float, ptr %v409, align 4
  %v411 = insertelement <8 x float> poison, float %v410, i64 0
  %v412 = shufflevector <8 x float> %v411, <8 x float> poison, <8 x i32> zeroinitializer
  %v413 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v412, <8 x float> %v383, <8 x float> %v374)
  %v414 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v412, <8 x float> %v385, <8 x float> %v375)
  %v415 = getelementptr i8, ptr %v379, i64 960
  %v416 = load float, ptr %v415, align 4
  %v417 = insertelement <8 x float> poison, float %v416, i64 0
  %v418 = shufflevector <8 x float> %v417, <8 x float> poison, <8 x i32> zeroinitializer
  %v419 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v418, <8 x float> %v383, <8 x float> %v376)
  %v420 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v418, <8 x float> %v385, <8 x float> %v377)
  %v421 = getelementptr i8, ptr %v381, i64 64
  %v422 = load <8 x float>, ptr %v421, align 32
  %v423 = getelementptr i8, ptr %v381, i64 96
  %v424 = load <8 x float>, ptr %v423, align 32
  %v425 = getelementptr i8, ptr %v379, i64 4
  %v426 = load float, ptr %v425, align 4
  %v427 = insertelement <8 x float> poison, float %v426, i64 0
  %v428 = shufflevector <8 x float> %v427, <8 x float> poison, <8 x i32> zeroinitializer
  %v429 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v428, <8 x float> %v422, <8 x float> %v389)
  %v430 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v428, <8 x float> %v424, <8 x float> %v390)
  %v431 = getelementptr i8, ptr %v379, i64 196
  %v432 = load float, ptr %v431, align 4
  %v433 = insertelement <8 x float> poison, float %v432, i64 0
  %v434 = shufflevector <8 x float> %v433, <8 x float> poison, <8 x i32> zeroinitializer
  %v435 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v434, <8 x float> %v422, <8 x float> %v395)
  %v436 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v434, <8 x float> %v424, <8 x float> %v396)
  %v437 = getelementptr i8, ptr %v379, i64 388
  %v438 = load float, ptr %v437, align 4
  %v439 = insertelement <8 x float> poison, float %v438, i64 0
  %v440 = shufflevector <8 x float> %v439, <8 x float> poison, <8 x i32> zeroinitializer
  %v441 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v440, <8 x float> %v422, <8 x float> %v401)
  %v442 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v440, <8 x float> %v424, <8 x float> %v402)
  %v443 = getelementptr i8, ptr %v379, i64 580
  %v444 = load float, ptr %v443, align 4
  %v445 = insertelement <8 x float> poison, float %v444, i64 0
  %v446 = shufflevector <8 x float> %v445, <8 x float> poison, <8 x i32> zeroinitializer
  %v447 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v446, <8 x float> %v422, <8 x float> %v407)
  %v448 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v446, <8 x float> %v424, <8 x float> %v408)
  %v449 = getelementptr i8, ptr %v379, i64 772
  %v450 = load float, ptr %v449, align 4
  %v451 = insertelement <8 x float> poison, float %v450, i64 0
  %v452 = shufflevector <8 x float> %v451, <8 x float> poison, <8 x i32> zeroinitializer
  %v453 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v452, <8 x float> %v422, <8 x float> %v413)
  %v454 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v452, <8 x float> %v424, <8 x float> %v414)
  %v455 = getelementptr i8, ptr %v379, i64 964
  %v456 = load float, ptr %v455, align 4
  %v457 = insertelement <8 x float> poison, float %v456, i64 0
  %v458 = shufflevector <8 x float> %v457, <8 x float> poison, <8 x i32> zeroinitializer
  %v459 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v458, <8 x float> %v422, <8 x float> %v419)
  %v460 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v458, <8 x float> %v424, <8 x float> %v420)
  br label %v364.next
v364.next:
  %v461 = add i64 %v365, 2
  %v461.more = icmp slt i64 %v461, 8
  br i1 %v461.more, label %v364, label %v364.after
v364.after:
  br label %v343.next
v343.next:
  %v462 = add i64 %v344, 1
  %v462.more = icmp slt i64 %v462, 4
  br i1 %v462.more, label %v343, label %v343.after
v343.after:
  store <8 x float> %v429, ptr %v342, align 4
  %v464 = getelementptr i8, ptr %v342, i64 %v463
  store <8 x float> %v430, ptr %v464, align 4
  %v466 = getelementptr i8, ptr %v342, i64 %v465
  store <8 x float> %v435, ptr %v466, align 4
  %v468 = getelementptr i8, ptr %v342, i64 %v467
  store <8 x float> %v436, ptr %v468, align 4
  %v470 = getelementptr i8, ptr %v342, i64 %v469
  store <8 x float> %v441, ptr %v470, align 4
  %v472 = getelementptr i8, ptr %v342, i64 %v471
  store <8 x float> %v442, ptr %v472, align 4
  %v474 = getelementptr i8, ptr %v342, i64 %v473
  store <8 x float> %v447, ptr %v474, align 4
  %v476 = getelementptr i8, ptr %v342, i64 %v475
  store <8 x float> %v448, ptr %v476, align 4
  %v478 = getelementptr i8, ptr %v342, i64 %v477
  store <8 x float> %v453, ptr %v478, align 4
  %v480 = getelementptr i8, ptr %v342, i64 %v479
  store <8 x float> %v454, ptr %v480, align 4
  %v482 = getelementptr i8, ptr %v342, i64 %v481
  store <8 x float> %v459, ptr %v482, align 4
  %v484 = getelementptr i8, ptr %v342, i64 %v483
  store <8 x float> %v460, ptr %v484, align 4
  br label %v333.next
v333.next:
  %v485 = add i64 %v334, 1
  %v485.more = icmp slt i64 %v485, 4
  br i1 %v485.more, label %v333, label %v333.after
v333.after:
  br label %v486.before
v486.before:
  br label %v486
v486:
  %v487 = phi i64 [ 0, %v486.before ], [ %v611, %v486.next ]
  %v488 = mul i64 %v487, 5
  %v489 = add i64 %v488, 24
  %v490 = add i64 %v487, 4
  %v491 = mul i64 %v490, 228
  %v492 = add i64 %v491, 2048
  %v493 = getelementptr i8, ptr %v328, i64 %v492
  %v494 = mul i64 %v489, 192
  %v495 = getelementptr i8, ptr %v330, i64 %v494
  %v496 = mul i64 %v489, 64
  %v497 = getelementptr i8, ptr %v332, i64 %v496
  br label %v498.before
v498.before:
  br label %v498
v498:
  %v499 = phi i64 [ 0, %v498.before ], [ %v601, %v498.next ]
  %v500 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v574, %v498.next ]
  %v501 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v575, %v498.next ]
  %v502 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v580, %v498.next ]
  %v503 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v581, %v498.next ]
  %v504 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v586, %v498.next ]
  %v505 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v587, %v498.next ]
  %v506 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v592, %v498.next ]
  %v507 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v593, %v498.next ]
  %v508 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v598, %v498.next ]
  %v509 = phi <8 x float> [ splat (float 0x0000000000000000), %v498.before ], [ %v599, %v498.next ]
  %v510 = mul i64 %v499, 8
  %v511 = mul i64 %v510, 4
  %v512 = getelementptr i8, ptr %v495, i64 %v511
  %v513 = mul i64 %v499, 512
  %v514 = getelementptr i8, ptr %v328, i64 %v513
  %v515 = mul i64 %v499, 57
  %v516 = getelementptr i8, ptr %v493, i64 %v515
  call void @llvm.prefetch.p0(ptr %v516, i32 0, i32 2, i32 1)
  br label %v517.before
v517.before:
  br label %v517
v517:
  %v518 = phi i64 [ 0, %v517.before ], [ %v600, %v517.next ]
  %v519 = phi <8 x float> [ %v500, %v517.before ], [ %v574, %v517.next ]
  %v520 = phi <8 x float> [ %v501, %v517.before ], [ %v575, %v517.next ]
  %v521 = phi <8 x float> [ %v502, %v517.before ], [ %v580, %v517.next ]
  %v522 = phi <8 x float> [ %v503, %v517.before ], [ %v581, %v517.next ]
  %v523 = phi <8 x float> [ %v504, %v517.before ], [ %v586, %v517.next ]
  %v524 = phi <8 x float> [ %v505, %v517.before ], [ %v587, %v517.next ]
  %v525 = phi <8 x float> [ %v506, %v517.before ], [ %v592, %v517.next ]
  %v526 = phi <8 x float> [ %v507, %v517.before ], [ %v593, %v517.next ]
  %v527 = phi <8 x float> [ %v508, %v517.before ], [ %v598, %v517.next ]
  %v528 = phi <8 x float> [ %v509, %v517.before ], [ %v599, %v517.next ]
  %v529 = mul i64 %v518, 4
  %v530 = getelementptr i8, ptr %v512, i64 %v529
  %v531 = mul i64 %v518, 64
  %v532 = getelementptr i8, ptr %v514, i64 %v531
  %v533 = add i64 %v510, %v518
  %v534 = load <8 x float>, ptr %v532, align 32
  %v535 = getelementptr i8, ptr %v532, i64 32
  %v536 = load <8 x float>, ptr %v535, align 32
  %v537 = load float, ptr %v530, align 4
  %v538 = insertelement <8 x float> poison, float %v537, i64 0
  %v539 = shufflevector <8 x float> %v538, <8 x float> poison, <8 x i32> zeroinitializer
  %v540 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v539, <8 x float> %v534, <8 x float> %v519)
  %v541 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v539, <8 x float> %v536, <8 x float> %v520)
  %v542 = getelementptr i8, ptr %v530, i64 192
  %v543 = load float, ptr %v542, align 4
  %v544 = insertelement <8 x float> poison, float %v543, i64 0
  %v545 = shufflevector <8 x float> %v544, <8 x float> poison, <8 x i32> zeroinitializer
  %v546 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v545, <8 x float> %v534, <8 x float> %v521)
  %v547 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v545, <8 x float> %v536, <8 x float> %v522)
  %v548 = getelementptr i8, ptr %v530, i64 384
  %v549 = load float, ptr %v548, align 4
  %v550 = insertelement <8 x float> poison, float %v549, i64 0
  %v551 = shufflevector <8 x float> %v550, <8 x float> poison, <8 x i32> zeroinitializer
  %v552 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v551, <8 x float> %v534, <8 x float> %v523)
  %v553 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v551, <8 x float> %v536, <8 x float> %v524)
  %v554 = getelementptr i8, ptr %v530, i64 576
  %v555 = load float, ptr %v554, align 4
  %v556 = insertelement <8 x float> poison, float %v555, i64 0
  %v557 = shufflevector <8 x float> %v556, <8 x float> poison, <8 x i32> zeroinitializer
  %v558 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v557, <8 x float> %v534, <8 x float> %v525)
  %v559 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v557, <8 x float> %v536, <8 x float> %v526)
  %v560 = getelementptr i8, ptr %v530, i64 768
  %v561 = load float, ptr %v560, align 4
  %v562 = insertelement <8 x float> poison, float %v561, i64 0
  %v563 = shufflevector <8 x float> %v562, <8 x float> poison, <8 x i32> zeroinitializer
  %v564 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v563, <8 x float> %v534, <8 x float> %v527)
  %v565 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v563, <8 x float> %v536, <8 x float> %v528)
  %v566 = getelementptr i8, ptr %v532, i64 64
  %v567 = load <8 x float>, ptr %v566, align 32
  %v568 = getelementptr i8, ptr %v532, i64 96
  %v569 = load <8 x float>, ptr %v568, align 32
  %v570 = getelementptr i8, ptr %v530, i64 4
  %v571 = load float, ptr %v570, align 4
  %v572 = insertelement <8 x float> poison, float %v571, i64 0
  %v573 = shufflevector <8 x float> %v572, <8 x float> poison, <8 x i32> zeroinitializer
  %v574 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v573, <8 x float> %v567, <8 x float> %v540)
  %v575 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v573, <8 x float> %v569, <8 x float> %v541)
  %v576 = getelementptr i8, ptr %v530, i64 196
  %v577 = load float, ptr %v576, align 4
  %v578 = insertelement <8 x float> poison, float %v577, i64 0
  %v579 = shufflevector <8 x float> %v578, <8 x float> poison, <8 x i32> zeroinitializer
  %v580 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v579, <8 x float> %v567, <8 x float> %v546)
  %v581 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v579, <8 x float> %v569, <8 x float> %v547)
  %v582 = getelementptr i8, ptr %v530, i64 388
  %v583 = load float, ptr %v582, align 4
  %v584 = insertelement <8 x float> poison, float %v583, i64 0
  %v585 = shufflevector <8 x float> %v584, <8 x float> poison, <8 x i32> zeroinitializer
  %v586 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v585, <8 x float> %v567, <8 x float> %v552)
  %v587 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v585, <8 x float> %v569, <8 x float> %v553)
  %v588 = getelementptr i8, ptr %v530, i64 580
  %v589 = load float, ptr %v588, align 4
  %v590 = insertelement <8 x float> poison, float %v589, i64 0
  %v591 = shufflevector <8 x float> %v590, <8 x float> poison, <8 x i32> zeroinitializer
  %v592 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v591, <8 x float> %v567, <8 x float> %v558)
  %v593 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v591, <8 x float> %v569, <8 x float> %v559)
  %v594 = getelementptr i8, ptr %v530, i64 772
  %v595 = load float, ptr %v594, align 4
  %v596 = insertelement <8 x float> poison, float %v595, i64 0
  %v597 = shufflevector <8 x float> %v596, <8 x float> poison, <8 x i32> zeroinitializer
  %v598 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v597, <8 x float> %v567, <8 x float> %v564)
  %v599 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v597, <8 x float> %v569, <8 x float> %v565)
  br label %v517.next
v517.next:
  %v600 = add i64 %v518, 2
  %v600.more = icmp slt i64 %v600, 8
  br i1 %v600.more, label %v517, label %v517.after
v517.after:
  br label %v498.next
v498.next:
  %v601 = add i64 %v499, 1
  %v601.more = icmp slt i64 %v601, 4
  br i1 %v601.more, label %v498, label %v498.after
v498.after:
  store <8 x float> %v574, ptr %v497, align 4
  %v602 = getelementptr i8, ptr %v497, i64 %v463
  store <8 x float> %v575, ptr %v602, align 4
  %v603 = getelementptr i8, ptr %v497, i64 %v465
  store <8 x float> %v580, ptr %v603, align 4
  %v604 = getelementptr i8, ptr %v497, i64 %v467
  store <8 x float> %v581, ptr %v604, align 4
  %v605 = getelementptr i8, ptr %v497, i64 %v469
  store <8 x float> %v586, ptr %v605, align 4
  %v606 = getelementptr i8, ptr %v497, i64 %v471
  store <8 x float> %v587, ptr %v606, align 4
  %v607 = getelementptr i8, ptr %v497, i64 %v473
  store <8 x float> %v592, ptr %v607, align 4
  %v608 = getelementptr i8, ptr %v497, i64 %v475
  store <8 x float> %v593, ptr %v608, align 4
  %v609 = getelementptr i8, ptr %v497, i64 %v477
  store <8 x float> %v598, ptr %v609, align 4
  %v610 = getelementptr i8, ptr %v497, i64 %v479
  store <8 x float> %v599, ptr %v610, align 4
  br label %v486.next
v486.next:
  %v611 = add i64 %v487, 1
  %v611.more = icmp slt i64 %v611, 5
  br i1 %v611.more, label %v486, label %v486.after
v486.after:
  br label %v323.next
v323.next:
  %v612 = add i64 %v324, 1
  %v612.more = icmp slt i64 %v612, 16
  br i1 %v612.more, label %v323, label %v323.after
v323.after:
  %v613 = call i64 @llvm.smin.i64(i64 %v325, i64 16)
  %v684 = getelementptr float, ptr %a3, i64 %v613
  %v685 = load <8 x float>, ptr %v684, align 4
  %v773 = add i64 %v613, 8
  %v774 = getelementptr float, ptr %a3, i64 %v773
  %v775 = load <8 x float>, ptr %v774, align 4
  br label %v614.before
v614.before:
  br label %v614
v614:
  %v615 = phi i64 [ 0, %v614.before ], [ %v796, %v614.next ]
  %v616 = add i64 %v16, %v615
  %v617 = udiv i64 %v616, 14
  %v618 = urem i64 %v616, 14
  %v619 = udiv i64 %v617, 14
  %v620 = urem i64 %v617, 14
  %v621 = mul i64 %v615, 64
  %v622 = getelementptr i8, ptr %v2, i64 %v621
  %v623 = load <8 x float>, ptr %v622, align 4
  %v624 = getelementptr i8, ptr %v622, i64 3136
  %v625 = load <8 x float>, ptr %v624, align 4
  %v626 = getelementptr i8, ptr %v622, i64 6272
  %v627 = load <8 x float>, ptr %v626, align 4
  %v628 = getelementptr i8, ptr %v622, i64 9408
  %v629 = load <8 x float>, ptr %v628, align 4
  %v630 = getelementptr i8, ptr %v622, i64 12544
  %v631 = load <8 x float>, ptr %v630, align 4
  %v632 = getelementptr i8, ptr %v622, i64 15680
  %v633 = load <8 x float>, ptr %v632, align 4
  %v634 = getelementptr i8, ptr %v622, i64 18816
  %v635 = load <8 x float>, ptr %v634, align 4
  %v636 = getelementptr i8, ptr %v622, i64 21952
  %v637 = load <8 x float>, ptr %v636, align 4
  %v638 = getelementptr i8, ptr %v622, i64 25088
  %v639 = load <8 x float>, ptr %v638, align 4
  %v640 = getelementptr i8, ptr %v622, i64 28224
  %v641 = load <8 x float>, ptr %v640, align 4
  %v642 = getelementptr i8, ptr %v622, i64 31360
  %v643 = load <8 x float>, ptr %v642, align 4
  %v644 = getelementptr i8, ptr %v622, i64 34496
  %v645 = load <8 x float>, ptr %v644, align 4
  %v646 = getelementptr i8, ptr %v622, i64 37632
  %v647 = load <8 x float>, ptr %v646, align 4
  %v648 = getelementptr i8, ptr %v622, i64 40768
  %v649 = load <8 x float>, ptr %v648, align 4
  %v650 = getelementptr i8, ptr %v622, i64 43904
  %v651 = load <8 x float>, ptr %v650, align 4
  %v652 = getelementptr i8, ptr %v622, i64 47040
  %v653 = load <8 x float>, ptr %v652, align 4
  %v654 = fadd <8 x float> %v623, %v631
  %v655 = fadd <8 x float> %v654, %v639
  %v656 = fsub <8 x float> %v631, %v639
  %v657 = fsub <8 x float> %v656, %v647
  %v658 = fadd <8 x float> %v625, %v633
  %v659 = fadd <8 x float> %v658, %v641
  %v660 = fsub <8 x float> %v633, %v641
  %v661 = fsub <8 x float> %v660, %v649
  %v662 = fadd <8 x float> %v627, %v635
  %v663 = fadd <8 x float> %v662, %v643
  %v664 = fsub <8 x float> %v635, %v643
  %v665 = fsub <8 x float> %v664, %v651
  %v666 = fadd <8 x float> %v629, %v637
  %v667 = fadd <8 x float> %v666, %v645
  %v668 = fsub <8 x float> %v637, %v645
  %v669 = fsub <8 x float> %v668, %v653
  %v670 = fadd <8 x float> %v655, %v659
  %v671 = fadd <8 x float> %v670, %v663
  %v672 = fsub <8 x float> %v659, %v663
  %v673 = fsub <8 x float> %v672, %v667
  %v674 = fadd <8 x float> %v657, %v661
  %v675 = fadd <8 x float> %v674, %v665
  %v676 = fsub <8 x float> %v661, %v665
  %v677 = fsub <8 x float> %v676, %v669
  %v678 = mul i64 %v620, 2
  %v679 = mul i64 %v618, 2
  %v680 = mul i64 %v619, 28
  %v681 = add i64 %v680, %v678
  %v682 = mul i64 %v681, 28
  %v683 = add i64 %v682, %v679
  %v686 = fadd <8 x float> %v671, %v685
  %v687 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v686
  %v688 = select <8 x i1> %v687, <8 x float> splat (float 0x0000000000000000), <8 x float> %v686
  %v689 = mul i64 %v683, 32
  %v690 = add i64 %v689, %v613
  %v691 = getelementptr float, ptr %a0, i64 %v690
  store <8 x float> %v688, ptr %v691, align 4
  %v692 = add i64 %v678, 1
  %v693 = add i64 %v680, %v692
  %v694 = mul i64 %v693, 28
  %v695 = add i64 %v694, %v679
  %v696 = fadd <8 x float> %v675, %v685
  %v697 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v696
  %v698 = select <8 x i1> %v697, <8 x float> splat (float 0x0000000000000000), <8 x float> %v696
  %v699 = mul i64 %v695, 32
  %v700 = add i64 %v699, %v613
  %v701 = getelementptr float, ptr %a0, i64 %v700
  store <8 x float> %v698, ptr %v701, align 4
  %v702 = add i64 %v679, 1
  %v703 = add i64 %v682, %v702
  %v704 = fadd <8 x float> %v673, %v685
  %v705 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v704
  %v706 = select <8 x i1> %v705, <8 x float> splat (float 0x0000000000000000), <8 x float> %v704
  %v707 = mul i64 %v703, 32
  %v708 = add i64 %v707, %v613
  %v709 = getelementptr float, ptr %a0, i64 %v708
  store <8 x float> %v706, ptr %v709, align 4
  %v710 = add i64 %v694, %v702
  %v711 = fadd <8 x float> %v677, %v685
  %v712 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v711
  %v713 = select <8 x i1> %v712, <8 x float> splat (float 0x0000000000000000), <8 x float> %v711
  %v714 = mul i64 %v710, 32
  %v715 = add i64 %v714, %v613
  %v716 = getelementptr float, ptr %a0, i64 %v715
  store <8 x float> %v713, ptr %v716, align 4
  %v717 = getelementptr i8, ptr %v622, i64 32
  %v718 = load <8 x float>, ptr %v717, align 4
  %v719 = getelementptr i8, ptr %v622, i64 3168
  %v720 = load <8 x float>, ptr %v719, align 4
  %v721 = getelementptr i8, ptr %v622, i64 6304
  %v722 = load <8 x float>, ptr %v721, align 4
  %v723 = getelementptr i8, ptr %v622, i64 9440
  %v724 = load <8 x float>, ptr %v723, align 4
  %v725 = getelementptr i8, ptr %v622, i64 12576
  %v726 = load <8 x float>, ptr %v725, align 4
  %v727 = getelementptr i8, ptr %v622, i64 15712
  %v728 = load <8 x float>, ptr %v727, align 4
  %v729 = getelementptr i8, ptr %v622, i64 18848
  %v730 = load <8 x float>, ptr %v729, align 4
  %v731 = getelementptr i8, ptr %v622, i64 21984
  %v732 = load <8 x float>, ptr %v731, align 4
  %v733 = getelementptr i8, ptr %v622, i64 25120
  %v734 = load <8 x float>, ptr %v733, align 4
  %v735 = getelementptr i8, ptr %v622, i64 28256
  %v736 = load <8 x float>, ptr %v735, align 4
  %v737 = getelementptr i8, ptr %v622, i64 31392
  %v738 = load <8 x float>, ptr %v737, align 4
  %v739 = getelementptr i8, ptr %v622, i64 34528
  %v740 = load <8 x float>, ptr %v739, align 4
  %v741 = getelementptr i8, ptr %v622, i64 37664
  %v742 = load <8 x float>, ptr %v741, align 4
  %v743 = getelementptr i8, ptr %v622, i64 40800
  %v744 = load <8 x float>, ptr %v743, align 4
  %v745 = getelementptr i8, ptr %v622, i64 43936
  %v746 = load <8 x float>, ptr %v745, align 4
  %v747 = getelementptr i8, ptr %v622, i64 47072
  %v748 = load <8 x float>, ptr %v747, align 4
  %v749 = fadd <8 x float> %v718, %v726
  %v750 = fadd <8 x float> %v749, %v734
  %v751 = fsub <8 x float> %v726, %v734
  %v752 = fsub <8 x float> %v751, %v742
  %v753 = fadd <8 x float> %v720, %v728
  %v754 = fadd <8 x float> %v753, %v736
  %v755 = fsub <8 x float> %v728, %v736
  %v756 = fsub <8 x float> %v755, %v744
  %v757 = fadd <8 x float> %v722, %v730
  %v758 = fadd <8 x float> %v757, %v738
  %v759 = fsub <8 x float> %v730, %v738
  %v760 = fsub <8 x float> %v759, %v746
  %v761 = fadd <8 x float> %v724, %v732
  %v762 = fadd <8 x float> %v761, %v740
  %v763 = fsub <8 x float> %v732, %v740
  %v764 = fsub <8 x float> %v763, %v748
  %v765 = fadd <8 x float> %v750, %v754
  %v766 = fadd <8 x float> %v765, %v758
  %v767 = fsub <8 x float> %v754, %v758
  %v768 = fsub <8 x float> %v767, %v762
  %v769 = fadd <8 x float> %v752, %v756
  %v770 = fadd <8 x float> %v769, %v760
  %v771 = fsub <8 x float> %v756, %v760
  %v772 = fsub <8 x float> %v771, %v764
  %v776 = fadd <8 x float> %v766, %v775
  %v777 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v776
  %v778 = select <8 x i1> %v777, <8 x float> splat (float 0x0000000000000000), <8 x float> %v776
  %v779 = add i64 %v689, %v773
  %v780 = getelementptr float, ptr %a0, i64 %v779
  store <8 x float> %v778, ptr %v780, align 4
  %v781 = fadd <8 x float> %v770, %v775
  %v782 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v781
  %v783 = select <8 x i1> %v782, <8 x float> splat (float 0x0000000000000000), <8 x float> %v781
  %v784 = add i64 %v699, %v773
  %v785 = getelementptr float, ptr %a0, i64 %v784
  store <8 x float> %v783, ptr %v785, align 4
  %v786 = fadd <8 x float> %v768, %v775
  %v787 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v786
  %v788 = select <8 x i1> %v787, <8 x float> splat (float 0x0000000000000000), <8 x float> %v786
  %v789 = add i64 %v707, %v773
  %v790 = getelementptr float, ptr %a0, i64 %v789
  store <8 x float> %v788, ptr %v790, align 4
  %v791 = fadd <8 x float> %v772, %v775
  %v792 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v791
  %v793 = select <8 x i1> %v792, <8 x float> splat (float 0x0000000000000000), <8 x float> %v791
  %v794 = add i64 %v714, %v773
  %v795 = getelementptr float, ptr %a0, i64 %v794
  store <8 x float> %v793, ptr %v795, align 4
  br label %v614.next
v614.next:
  %v796 = add i64 %v615, 1
  %v796.more = icmp slt i64 %v796, 49
  br i1 %v796.more, label %v614, label %v614.after
v614.after:
  %v797 = add i64 %v13, 1
  %v798 = icmp eq i64 %v797, 2
  %v799 = select i1 %v798, i64 0, i64 %v797
  %v800 = zext i1 %v798 to i64
  %v801 = add i64 %v12, %v800
  %v802 = icmp eq i64 %v801, 4
  %v803 = select i1 %v802, i64 0, i64 %v801
  %v804 = zext i1 %v802 to i64
  br label %v10.next
v10.next:
  %v805 = add i64 %v11, 1
  br label %v10
v10.after:
  ret void
}

