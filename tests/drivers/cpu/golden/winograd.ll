; Winograd, 50 tiles of 2 x 2 positions and 2 x 8 channels
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @k5db72036dc9e7a23(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = getelementptr i8, ptr %scratch, i64 128
  %v2 = getelementptr i8, ptr %scratch, i64 153728
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
  %v9 = add i64 %end, 1
  %v10 = udiv i64 %v9, 2
  %v11 = mul i64 %v8, 2
  %v12 = sub i64 %begin, %v11
  %v466 = mul i64 8, 4
  %v468 = mul i64 16, 4
  %v470 = mul i64 24, 4
  %v472 = mul i64 32, 4
  %v474 = mul i64 40, 4
  %v476 = mul i64 48, 4
  %v478 = mul i64 56, 4
  %v480 = mul i64 64, 4
  %v482 = mul i64 72, 4
  br label %v13.before
v13.before:
  br label %v13
v13:
  %v14 = phi i64 [ %v8, %v13.before ], [ %v673, %v13.next ]
  %v673.more = icmp slt i64 %v14, %v10
  br i1 %v673.more, label %v13.turn, label %v13.after
v13.turn:
  %v15 = udiv i64 %v14, 2
  %v16 = urem i64 %v14, 2
  %v17 = mul i64 %v14, 2
  %v18 = sub i64 %begin, %v17
  %v19 = call i64 @llvm.smax.i64(i64 %v18, i64 0)
  %v20 = sub i64 %end, %v17
  %v21 = call i64 @llvm.smin.i64(i64 %v20, i64 2)
  %v22 = sub i64 %v14, %v8
  %v23 = icmp eq i64 %v22, 1
  %v24 = call i64 @llvm.smin.i64(i64 %v12, i64 %v21)
  %v25 = select i1 %v23, i64 %v24, i64 0
  %v26 = icmp eq i64 %v22, 0
  %v27 = icmp eq i64 %v16, 0
  %v28 = or i1 %v26, %v27
  %v29 = select i1 %v28, i64 %v21, i64 %v25
  %v30 = mul i64 %v15, 50
  %v31 = mul i64 %v19, 25
  %v32 = mul i64 %v29, 25
  br label %v33.before
v33.before:
  br label %v33
v33:
  %v34 = phi i64 [ %v31, %v33.before ], [ %v337, %v33.next ]
  %v337.more = icmp slt i64 %v34, %v32
  br i1 %v337.more, label %v33.turn, label %v33.after
v33.turn:
  %v35 = add i64 %v30, %v34
  %v36 = call i64 @llvm.smin.i64(i64 %v35, i64 195)
  %v37 = udiv i64 %v36, 14
  %v38 = urem i64 %v36, 14
  %v39 = udiv i64 %v37, 14
  %v40 = urem i64 %v37, 14
  %v41 = mul i64 %v34, 192
  %v42 = getelementptr i8, ptr %v1, i64 %v41
  %v43 = mul i64 %v39, 100352
  %v44 = mul i64 %v40, 2
  %v45 = add i64 %v44, -1
  %v46 = mul i64 %v45, 3584
  %v47 = icmp ult i64 %v45, 28
  %v48 = add i64 %v45, 1
  %v49 = icmp ult i64 %v48, 28
  %v50 = add i64 %v45, 2
  %v51 = icmp ult i64 %v50, 28
  %v52 = add i64 %v45, 3
  %v53 = icmp ult i64 %v52, 28
  %v54 = mul i64 %v38, 2
  %v55 = add i64 %v54, -1
  %v56 = mul i64 %v55, 128
  %v57 = icmp ult i64 %v55, 28
  %v58 = add i64 %v55, 1
  %v59 = icmp ult i64 %v58, 28
  %v60 = add i64 %v55, 2
  %v61 = icmp ult i64 %v60, 28
  %v62 = add i64 %v55, 3
  %v63 = icmp ult i64 %v62, 28
  %v64 = add i64 %v43, %v46
  %v65 = add i64 %v64, %v56
  %v66 = getelementptr i8, ptr %a1, i64 %v65
  %v67 = and i1 %v47, %v49
  %v68 = and i1 %v67, %v51
  %v69 = and i1 %v68, %v53
  %v70 = and i1 %v69, %v57
  %v71 = and i1 %v70, %v59
  %v72 = and i1 %v71, %v61
  %v73 = and i1 %v72, %v63
  br i1 %v73, label %v74.then, label %v74.after
v74.then:
  %v75 = getelementptr i8, ptr %v66, i64 128
  %v76 = getelementptr i8, ptr %v66, i64 256
  %v77 = getelementptr i8, ptr %v66, i64 384
  %v78 = getelementptr i8, ptr %v66, i64 3584
  %v79 = getelementptr i8, ptr %v66, i64 3712
  %v80 = getelementptr i8, ptr %v66, i64 3840
  %v81 = getelementptr i8, ptr %v66, i64 3968
  %v82 = getelementptr i8, ptr %v66, i64 7168
  %v83 = getelementptr i8, ptr %v66, i64 7296
  %v84 = getelementptr i8, ptr %v66, i64 7424
  %v85 = getelementptr i8, ptr %v66, i64 7552
  %v86 = getelementptr i8, ptr %v66, i64 10752
  %v87 = getelementptr i8, ptr %v66, i64 10880
  %v88 = getelementptr i8, ptr %v66, i64 11008
  %v89 = getelementptr i8, ptr %v66, i64 11136
  br label %v90.before
v90.before:
  br label %v90
v90:
  %v91 = phi i64 [ 0, %v90.before ], [ %v188, %v90.next ]
  %v92 = mul i64 %v91, 4
  %v93 = getelementptr i8, ptr %v66, i64 %v92
  %v94 = load <8 x float>, ptr %v93, align 4
  %v95 = getelementptr i8, ptr %v75, i64 %v92
  %v96 = load <8 x float>, ptr %v95, align 4
  %v97 = getelementptr i8, ptr %v76, i64 %v92
  %v98 = load <8 x float>, ptr %v97, align 4
  %v99 = getelementptr i8, ptr %v77, i64 %v92
  %v100 = load <8 x float>, ptr %v99, align 4
  %v101 = getelementptr i8, ptr %v78, i64 %v92
  %v102 = load <8 x float>, ptr %v101, align 4
  %v103 = getelementptr i8, ptr %v79, i64 %v92
  %v104 = load <8 x float>, ptr %v103, align 4
  %v105 = getelementptr i8, ptr %v80, i64 %v92
  %v106 = load <8 x float>, ptr %v105, align 4
  %v107 = getelementptr i8, ptr %v81, i64 %v92
  %v108 = load <8 x float>, ptr %v107, align 4
  %v109 = getelementptr i8, ptr %v82, i64 %v92
  %v110 = load <8 x float>, ptr %v109, align 4
  %v111 = getelementptr i8, ptr %v83, i64 %v92
  %v112 = load <8 x float>, ptr %v111, align 4
  %v113 = getelementptr i8, ptr %v84, i64 %v92
  %v114 = load <8 x float>, ptr %v113, align 4
  %v115 = getelementptr i8, ptr %v85, i64 %v92
  %v116 = load <8 x float>, ptr %v115, align 4
  %v117 = getelementptr i8, ptr %v86, i64 %v92
  %v118 = load <8 x float>, ptr %v117, align 4
  %v119 = getelementptr i8, ptr %v87, i64 %v92
  %v120 = load <8 x float>, ptr %v119, align 4
  %v121 = getelementptr i8, ptr %v88, i64 %v92
  %v122 = load <8 x float>, ptr %v121, align 4
  %v123 = getelementptr i8, ptr %v89, i64 %v92
  %v124 = load <8 x float>, ptr %v123, align 4
  %v125 = fsub <8 x float> %v94, %v110
  %v126 = fsub <8 x float> %v96, %v112
  %v127 = fsub <8 x float> %v98, %v114
  %v128 = fsub <8 x float> %v100, %v116
  %v129 = fadd <8 x float> %v102, %v110
  %v130 = fadd <8 x float> %v104, %v112
  %v131 = fadd <8 x float> %v106, %v114
  %v132 = fadd <8 x float> %v108, %v116
  %v133 = fsub <8 x float> %v110, %v102
  %v134 = fsub <8 x float> %v112, %v104
  %v135 = fsub <8 x float> %v114, %v106
  %v136 = fsub <8 x float> %v116, %v108
  %v137 = fsub <8 x float> %v102, %v118
  %v138 = fsub <8 x float> %v104, %v120
  %v139 = fsub <8 x float> %v106, %v122
  %v140 = fsub <8 x float> %v108, %v124
  %v141 = fsub <8 x float> %v125, %v127
  %v142 = fsub <8 x float> %v129, %v131
  %v143 = fsub <8 x float> %v133, %v135
  %v144 = fsub <8 x float> %v137, %v139
  %v145 = fadd <8 x float> %v126, %v127
  %v146 = fadd <8 x float> %v130, %v131
  %v147 = fadd <8 x float> %v134, %v135
  %v148 = fadd <8 x float> %v138, %v139
  %v149 = fsub <8 x float> %v127, %v126
  %v150 = fsub <8 x float> %v131, %v130
  %v151 = fsub <8 x float> %v135, %v134
  %v152 = fsub <8 x float> %v139, %v138
  %v153 = fsub <8 x float> %v126, %v128
  %v154 = fsub <8 x float> %v130, %v132
  %v155 = fsub <8 x float> %v134, %v136
  %v156 = fsub <8 x float> %v138, %v140
  %v157 = getelementptr i8, ptr %v42, i64 %v92
  store <8 x float> %v141, ptr %v157, align 4
  %v158 = getelementptr i8, ptr %v42, i64 38400
  %v159 = getelementptr i8, ptr %v158, i64 %v92
  store <8 x float> %v142, ptr %v159, align 4
  %v160 = getelementptr i8, ptr %v42, i64 76800
  %v161 = getelementptr i8, ptr %v160, i64 %v92
  store <8 x float> %v143, ptr %v161, align 4
  %v162 = getelementptr i8, ptr %v42, i64 115200
  %v163 = getelementptr i8, ptr %v162, i64 %v92
  store <8 x float> %v144, ptr %v163, align 4
  %v164 = getelementptr i8, ptr %v42, i64 9600
  %v165 = getelementptr i8, ptr %v164, i64 %v92
  store <8 x float> %v145, ptr %v165, align 4
  %v166 = getelementptr i8, ptr %v42, i64 48000
  %v167 = getelementptr i8, ptr %v166, i64 %v92
  store <8 x float> %v146, ptr %v167, align 4
  %v168 = getelementptr i8, ptr %v42, i64 86400
  %v169 = getelementptr i8, ptr %v168, i64 %v92
  store <8 x float> %v147, ptr %v169, align 4
  %v170 = getelementptr i8, ptr %v42, i64 124800
  %v171 = getelementptr i8, ptr %v170, i64 %v92
  store <8 x float> %v148, ptr %v171, align 4
  %v172 = getelementptr i8, ptr %v42, i64 19200
  %v173 = getelementptr i8, ptr %v172, i64 %v92
  store <8 x float> %v149, ptr %v173, align 4
  %v174 = getelementptr i8, ptr %v42, i64 57600
  %v175 = getelementptr i8, ptr %v174, i64 %v92
  store <8 x float> %v150, ptr %v175, align 4
  %v176 = getelementptr i8, ptr %v42, i64 96000
  %v177 = getelementptr i8, ptr %v176, i64 %v92
  store <8 x float> %v151, ptr %v177, align 4
  %v178 = getelementptr i8, ptr %v42, i64 134400
  %v179 = getelementptr i8, ptr %v178, i64 %v92
  store <8 x float> %v152, ptr %v179, align 4
  %v180 = getelementptr i8, ptr %v42, i64 28800
  %v181 = getelementptr i8, ptr %v180, i64 %v92
  store <8 x float> %v153, ptr %v181, align 4
  %v182 = getelementptr i8, ptr %v42, i64 67200
  %v183 = getelementptr i8, ptr %v182, i64 %v92
  store <8 x float> %v154, ptr %v183, align 4
  %v184 = getelementptr i8, ptr %v42, i64 105600
  %v185 = getelementptr i8, ptr %v184, i64 %v92
  store <8 x float> %v155, ptr %v185, align 4
  %v186 = getelementptr i8, ptr %v42, i64 144000
  %v187 = getelementptr i8, ptr %v186, i64 %v92
  store <8 x float> %v156, ptr %v187, align 4
  br label %v90.next
v90.next:
  %v188 = add i64 %v91, 8
  %v188.more = icmp slt i64 %v188, 32
  br i1 %v188.more, label %v90, label %v90.after
v90.after:
  br label %v74.after
v74.after:
  %v189 = xor i1 %v73, true
  %v191 = and i1 %v47, %v57
  %v192 = and i1 %v47, %v59
  %v193 = and i1 %v47, %v61
  %v194 = and i1 %v47, %v63
  %v195 = and i1 %v49, %v57
  %v196 = and i1 %v49, %v59
  %v197 = and i1 %v49, %v61
  %v198 = and i1 %v49, %v63
  %v199 = and i1 %v51, %v57
  %v200 = and i1 %v51, %v59
  %v201 = and i1 %v51, %v61
  %v202 = and i1 %v51, %v63
  %v203 = and i1 %v53, %v57
  %v204 = and i1 %v53, %v59
  %v205 = and i1 %v53, %v61
  %v206 = and i1 %v53, %v63
  %v207 = select i1 %v191, ptr %v66, ptr %scratch
  br i1 %v189, label %v190.then, label %v190.after
v190.then:
  %v208 = getelementptr i8, ptr %v66, i64 128
  %v209 = select i1 %v192, ptr %v208, ptr %scratch
  %v210 = getelementptr i8, ptr %v66, i64 256
  %v211 = select i1 %v193, ptr %v210, ptr %scratch
  %v212 = getelementptr i8, ptr %v66, i64 384
  %v213 = select i1 %v194, ptr %v212, ptr %scratch
  %v214 = getelementptr i8, ptr %v66, i64 3584
  %v215 = select i1 %v195, ptr %v214, ptr %scratch
  %v216 = getelementptr i8, ptr %v66, i64 3712
  %v217 = select i1 %v196, ptr %v216, ptr %scratch
  %v218 = getelementptr i8, ptr %v66, i64 3840
  %v219 = select i1 %v197, ptr %v218, ptr %scratch
  %v220 = getelementptr i8, ptr %v66, i64 3968
  %v221 = select i1 %v198, ptr %v220, ptr %scratch
  %v222 = getelementptr i8, ptr %v66, i64 7168
  %v223 = select i1 %v199, ptr %v222, ptr %scratch
  %v224 = getelementptr i8, ptr %v66, i64 7296
  %v225 = select i1 %v200, ptr %v224, ptr %scratch
  %v226 = getelementptr i8, ptr %v66, i64 7424
  %v227 = select i1 %v201, ptr %v226, ptr %scratch
  %v228 = getelementptr i8, ptr %v66, i64 7552
  %v229 = select i1 %v202, ptr %v228, ptr %scratch
  %v230 = getelementptr i8, ptr %v66, i64 10752
  %v231 = select i1 %v203, ptr %v230, ptr %scratch
  %v232 = getelementptr i8, ptr %v66, i64 10880
  %v233 = select i1 %v204, ptr %v232, ptr %scratch
  %v234 = getelementptr i8, ptr %v66, i64 11008
  %v235 = select i1 %v205, ptr %v234, ptr %scratch
  %v236 = getelementptr i8, ptr %v66, i64 11136
  %v237 = select i1 %v206, ptr %v236, ptr %scratch
  br label %v238.before
v238.before:
  br label %v238
v238:
  %v239 = phi i64 [ 0, %v238.before ], [ %v336, %v238.next ]
  %v240 = mul i64 %v239, 4
  %v241 = getelementptr i8, ptr %v207, i64 %v240
  %v242 = load <8 x float>, ptr %v241, align 4
  %v243 = getelementptr i8, ptr %v209, i64 %v240
  %v244 = load <8 x float>, ptr %v243, align 4
  %v245 = getelementptr i8, ptr %v211, i64 %v240
  %v246 = load <8 x float>, ptr %v245, align 4
  %v247 = getelementptr i8, ptr %v213, i64 %v240
  %v248 = load <8 x float>, ptr %v247, align 4
  %v249 = getelementptr i8, ptr %v215, i64 %v240
  %v250 = load <8 x float>, ptr %v249, align 4
  %v251 = getelementptr i8, ptr %v217, i64 %v240
  %v252 = load <8 x float>, ptr %v251, align 4
  %v253 = getelementptr i8, ptr %v219, i64 %v240
  %v254 = load <8 x float>, ptr %v253, align 4
  %v255 = getelementptr i8, ptr %v221, i64 %v240
  %v256 = load <8 x float>, ptr %v255, align 4
  %v257 = getelementptr i8, ptr %v223, i64 %v240
  %v258 = load <8 x float>, ptr %v257, align 4
  %v259 = getelementptr i8, ptr %v225, i64 %v240
  %v260 = load <8 x float>, ptr %v259, align 4
  %v261 = getelementptr i8, ptr %v227, i64 %v240
  %v262 = load <8 x float>, ptr %v261, align 4
  %v263 = getelementptr i8, ptr %v229, i64 %v240
  %v264 = load <8 x float>, ptr %v263, align 4
  %v265 = getelementptr i8, ptr %v231, i64 %v240
  %v266 = load <8 x float>, ptr %v265, align 4
  %v267 = getelementptr i8, ptr %v233, i64 %v240
  %v268 = load <8 x float>, ptr %v267, align 4
  %v269 = getelementptr i8, ptr %v235, i64 %v240
  %v270 = load <8 x float>, ptr %v269, align 4
  %v271 = getelementptr i8, ptr %v237, i64 %v240
  %v272 = load <8 x float>, ptr %v271, align 4
  %v273 = fsub <8 x float> %v242, %v258
  %v274 = fsub <8 x float> %v244, %v260
  %v275 = fsub <8 x float> %v246, %v262
  %v276 = fsub <8 x float> %v248, %v264
  %v277 = fadd <8 x float> %v250, %v258
  %v278 = fadd <8 x float> %v252, %v260
  %v279 = fadd <8 x float> %v254, %v262
  %v280 = fadd <8 x float> %v256, %v264
  %v281 = fsub <8 x float> %v258, %v250
  %v282 = fsub <8 x float> %v260, %v252
  %v283 = fsub <8 x float> %v262, %v254
  %v284 = fsub <8 x float> %v264, %v256
  %v285 = fsub <8 x float> %v250, %v266
  %v286 = fsub <8 x float> %v252, %v268
  %v287 = fsub <8 x float> %v254, %v270
  %v288 = fsub <8 x float> %v256, %v272
  %v289 = fsub <8 x float> %v273, %v275
  %v290 = fsub <8 x float> %v277, %v279
  %v291 = fsub <8 x float> %v281, %v283
  %v292 = fsub <8 x float> %v285, %v287
  %v293 = fadd <8 x float> %v274, %v275
  %v294 = fadd <8 x float> %v278, %v279
  %v295 = fadd <8 x float> %v282, %v283
  %v296 = fadd <8 x float> %v286, %v287
  %v297 = fsub <8 x float> %v275, %v274
  %v298 = fsub <8 x float> %v279, %v278
  %v299 = fsub <8 x float> %v283, %v282
  %v300 = fsub <8 x float> %v287, %v286
  %v301 = fsub <8 x float> %v274, %v276
  %v302 = fsub <8 x float> %v278, %v280
  %v303 = fsub <8 x float> %v282, %v284
  %v304 = fsub <8 x float> %v286, %v288
  %v305 = getelementptr i8, ptr %v42, i64 %v240
  store <8 x float> %v289, ptr %v305, align 4
  %v306 = getelementptr i8, ptr %v42, i64 38400
  %v307 = getelementptr i8, ptr %v306, i64 %v240
  store <8 x float> %v290, ptr %v307, align 4
  %v308 = getelementptr i8, ptr %v42, i64 76800
  %v309 = getelementptr i8, ptr %v308, i64 %v240
  store <8 x float> %v291, ptr %v309, align 4
  %v310 = getelementptr i8, ptr %v42, i64 115200
  %v311 = getelementptr i8, ptr %v310, i64 %v240
  store <8 x float> %v292, ptr %v311, align 4
  %v312 = getelementptr i8, ptr %v42, i64 9600
  %v313 = getelementptr i8, ptr %v312, i64 %v240
  store <8 x float> %v293, ptr %v313, align 4
  %v314 = getelementptr i8, ptr %v42, i64 48000
  %v315 = getelementptr i8, ptr %v314, i64 %v240
  store <8 x float> %v294, ptr %v315, align 4
  %v316 = getelementptr i8, ptr %v42, i64 86400
  %v317 = getelementptr i8, ptr %v316, i64 %v240
  store <8 x float> %v295, ptr %v317, align 4
  %v318 = getelementptr i8, ptr %v42, i64 124800
  %v319 = getelementptr i8, ptr %v318, i64 %v240
  store <8 x float> %v296, ptr %v319, align 4
  %v320 = getelementptr i8, ptr %v42, i64 19200
  %v321 = getelementptr i8, ptr %v320, i64 %v240
  store <8 x float> %v297, ptr %v321, align 4
  %v322 = getelementptr i8, ptr %v42, i64 57600
  %v323 = getelementptr i8, ptr %v322, i64 %v240
  store <8 x float> %v298, ptr %v323, align 4
  %v324 = getelementptr i8, ptr %v42, i64 96000
  %v325 = getelementptr i8, ptr %v324, i64 %v240
  store <8 x float> %v299, ptr %v325, align 4
  %v326 = getelementptr i8, ptr %v42, i64 134400
  %v327 = getelementptr i8, ptr %v326, i64 %v240
  store <8 x float> %v300, ptr %v327, align 4
  %v328 = getelementptr i8, ptr %v42, i64 28800
  %v329 = getelementptr i8, ptr %v328, i64 %v240
  store <8 x float> %v301, ptr %v329, align 4
  %v330 = getelementptr i8, ptr %v42, i64 67200
  %v331 = getelementptr i8, ptr %v330, i64 %v240
  store <8 x float> %v302, ptr %v331, align 4
  %v332 = getelementptr i8, ptr %v42, i64 105600
  %v333 = getelementptr i8, ptr %v332, i64 %v240
  store <8 x float> %v303, ptr %v333, align 4
  %v334 = getelementptr i8, ptr %v42, i64 144000
  %v335 = getelementptr i8, ptr %v334, i64 %v240
  store <8 x float> %v304, ptr %v335, align 4
  br label %v238.next
v238.next:
  %v336 = add i64 %v239, 8
  %v336.more = icmp slt i64 %v336, 32
  br i1 %v336.more, label %v238, label %v238.after
v238.after:
  br label %v190.after
v190.after:
  br label %v33.next
v33.next:
  %v337 = add i64 %v34, 1
  br label %v33
v33.after:
  %v340 = mul i64 %v16, 16
  br label %v338.before
v338.before:
  br label %v338
v338:
  %v339 = phi i64 [ 0, %v338.before ], [ %v486, %v338.next ]
  %v341 = add i64 %v340, %v339
  %v342 = mul i64 %v341, 2048
  %v343 = getelementptr i8, ptr %a2, i64 %v342
  %v344 = mul i64 %v339, 9600
  %v345 = getelementptr i8, ptr %v1, i64 %v344
  %v346 = mul i64 %v339, 3200
  %v347 = getelementptr i8, ptr %v2, i64 %v346
  br label %v348.before
v348.before:
  br label %v348
v348:
  %v349 = phi i64 [ %v19, %v348.before ], [ %v485, %v348.next ]
  %v485.more = icmp slt i64 %v349, %v21
  br i1 %v485.more, label %v348.turn, label %v348.after
v348.turn:
  %v350 = mul i64 %v349, 25
  br label %v351.before
v351.before:
  br label %v351
v351:
  %v352 = phi i64 [ 0, %v351.before ], [ %v484, %v351.next ]
  %v353 = mul i64 %v352, 5
  %v354 = add i64 %v350, %v353
  %v355 = mul i64 %v352, 416
  %v356 = add i64 %v355, 2048
  %v357 = getelementptr i8, ptr %v343, i64 %v356
  %v358 = mul i64 %v354, 192
  %v359 = getelementptr i8, ptr %v345, i64 %v358
  %v360 = mul i64 %v354, 64
  %v361 = getelementptr i8, ptr %v347, i64 %v360
  br label %v362.before
v362.before:
  br label %v362
v362:
  %v363 = phi i64 [ 0, %v362.before ], [ %v465, %v362.next ]
  %v364 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v438, %v362.next ]
  %v365 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v439, %v362.next ]
  %v366 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v444, %v362.next ]
  %v367 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v445, %v362.next ]
  %v368 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v450, %v362.next ]
  %v369 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v451, %v362.next ]
  %v370 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v456, %v362.next ]
  %v371 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v457, %v362.next ]
  %v372 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v462, %v362.next ]
  %v373 = phi <8 x float> [ splat (float 0x0000000000000000), %v362.before ], [ %v463, %v362.next ]
  %v374 = mul i64 %v363, 4
  %v375 = mul i64 %v374, 4
  %v376 = getelementptr i8, ptr %v359, i64 %v375
  %v377 = mul i64 %v363, 256
  %v378 = getelementptr i8, ptr %v343, i64 %v377
  %v379 = mul i64 %v363, 52
  %v380 = getelementptr i8, ptr %v357, i64 %v379
  call void @llvm.prefetch.p0(ptr %v380, i32 0, i32 2, i32 1)
  br label %v381.before
v381.before:
  br label %v381
v381:
  %v382 = phi i64 [ 0, %v381.before ], [ %v464, %v381.next ]
  %v383 = phi <8 x float> [ %v364, %v381.before ], [ %v438, %v381.next ]
  %v384 = phi <8 x float> [ %v365, %v381.before ], [ %v439, %v381.next ]
  %v385 = phi <8 x float> [ %v366, %v381.before ], [ %v444, %v381.next ]
  %v386 = phi <8 x float> [ %v367, %v381.before ], [ %v445, %v381.next ]
  %v387 = phi <8 x float> [ %v368, %v381.before ], [ %v450, %v381.next ]
  %v388 = phi <8 x float> [ %v369, %v381.before ], [ %v451, %v381.next ]
  %v389 = phi <8 x float> [ %v370, %v381.before ], [ %v456, %v381.next ]
  %v390 = phi <8 x float> [ %v371, %v381.before ], [ %v457, %v381.next ]
  %v391 = phi <8 x float> [ %v372, %v381.before ], [ %v462, %v381.next ]
  %v392 = phi <8 x float> [ %v373, %v381.before ], [ %v463, %v381.next ]
  %v393 = mul i64 %v382, 4
  %v394 = getelementptr i8, ptr %v376, i64 %v393
  %v395 = mul i64 %v382, 64
  %v396 = getelementptr i8, ptr %v378, i64 %v395
  %v397 = add i64 %v374, %v382
  %v398 = load <8 x float>, ptr %v396, align 32
  %v399 = getelementptr i8, ptr %v396, i64 32
  %v400 = load <8 x float>, ptr %v399, align 32
  %v401 = load float, ptr %v394, align 4
  %v402 = insertelement <8 x float> poison, float %v401, i64 0
  %v403 = shufflevector <8 x float> %v402, <8 x float> poison, <8 x i32> zeroinitializer
  %v404 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v403, <8 x float> %v398, <8 x float> %v383)
  %v405 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v403, <8 x float> %v400, <8 x float> %v384)
  %v406 = getelementptr i8, ptr %v394, i64 192
  %v407 = load float, ptr %v406, align 4
  %v408 = insertelement <8 x float> poison, float %v407, i64 0
  %v409 = shufflevector <8 x float> %v408, <8 x float> poison, <8 x i32> zeroinitializer
  %v410 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v409, <8 x float> %v398, <8 x float> %v385)
  %v411 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v409, <8 x float> %v400, <8 x float> %v386)
  %v412 = getelementptr i8, ptr %v394, i64 384
  %v413 = load float, ptr %v412, align 4
  %v414 = insertelement <8 x float> poison, float %v413, i64 0
  %v415 = shufflevector <8 x float> %v414, <8 x float> poison, <8 x i32> zeroinitializer
  %v416 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v415, <8 x float> %v398, <8 x float> %v387)
  %v417 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v415, <8 x float> %v400, <8 x float> %v388)
  %v418 = getelementptr i8, ptr %v394, i64 576
  %v419 = load float, ptr %v418, align 4
  %v420 = insertelement <8 x float> poison, float %v419, i64 0
  %v421 = shufflevector <8 x float> %v420, <8 x float> poison, <8 x i32> zeroinitializer
  %v422 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v421, <8 x float> %v398, <8 x float> %v389)
  %v423 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v421, <8 x float> %v400, <8 x float> %v390)
  %v424 = getelementptr i8, ptr %v394, i64 768
  %v425 = load float, ptr %v424, align 4
  %v426 = insertelement <8 x float> poison, float %v425, i64 0
  %v427 = shufflevector <8 x float> %v426, <8 x float> poison, <8 x i32> zeroinitializer
  %v428 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v427, <8 x float> %v398, <8 x float> %v391)
  %v429 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v427, <8 x float> %v400, <8 x float> %v392)
  %v430 = getelementptr i8, ptr %v396, i64 64
  %v431 = load <8 x float>, ptr %v430, align 32
  %v432 = getelementptr i8, ptr %v396, i64 96
  %v433 = load <8 x float>, ptr %v432, align 32
  %v434 = getelementptr i8, ptr %v394, i64 4
  %v435 = load float, ptr %v434, align 4
  %v436 = insertelement <8 x float> poison, float %v435, i64 0
  %v437 = shufflevector <8 x float> %v436, <8 x float> poison, <8 x i32> zeroinitializer
  %v438 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v437, <8 x float> %v431, <8 x float> %v404)
  %v439 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v437, <8 x float> %v433, <8 x float> %v405)
  %v440 = getelementptr i8, ptr %v394, i64 196
  %v441 = load float, ptr %v440, align 4
  %v442 = insertelement <8 x float> poison, float %v441, i64 0
  %v443 = shufflevector <8 x float> %v442, <8 x float> poison, <8 x i32> zeroinitializer
  %v444 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v443, <8 x float> %v431, <8 x float> %v410)
  %v445 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v443, <8 x float> %v433, <8 x float> %v411)
  %v446 = getelementptr i8, ptr %v394, i64 388
  %v447 = load float, ptr %v446, align 4
  %v448 = insertelement <8 x float> poison, float %v447, i64 0
  %v449 = shufflevector <8 x float> %v448, <8 x float> poison, <8 x i32> zeroinitializer
  %v450 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v449, <8 x float> %v431, <8 x float> %v416)
  %v451 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v449, <8 x float> %v433, <8 x float> %v417)
  %v452 = getelementptr i8, ptr %v394, i64 580
  %v453 = load float, ptr %v452, align 4
  %v454 = insertelement <8 x float> poison, float %v453, i64 0
  %v455 = shufflevector <8 x float> %v454, <8 x float> poison, <8 x i32> zeroinitializer
  %v456 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v455, <8 x float> %v431, <8 x float> %v422)
  %v457 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v455, <8 x float> %v433, <8 x float> %v423)
  %v458 = getelementptr i8, ptr %v394, i64 772
  %v459 = load float, ptr %v458, align 4
  %v460 = insertelement <8 x float> poison, float %v459, i64 0
  %v461 = shufflevector <8 x float> %v460, <8 x float> poison, <8 x i32> zeroinitializer
  %v462 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v461, <8 x float> %v431, <8 x float> %v428)
  %v463 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v461, <8 x float> %v433, <8 x float> %v429)
  br label %v381.next
v381.next:
  %v464 = add i64 %v382, 2
  %v464.more = icmp slt i64 %v464, 4
  br i1 %v464.more, label %v381, label %v381.after
v381.after:
  br label %v362.next
v362.next:
  %v465 = add i64 %v363, 1
  %v465.more = icmp slt i64 %v465, 8
  br i1 %v465.more, label %v362, label %v362.after
v362.after:
  store <8 x float> %v438, ptr %v361, align 4
  %v467 = getelementptr i8, ptr %v361, i64 %v466
  store <8 x float> %v439, ptr %v467, align 4
  %v469 = getelementptr i8, ptr %v361, i64 %v468
  store <8 x float> %v444, ptr %v469, align 4
  %v471 = getelementptr i8, ptr %v361, i64 %v470
  store <8 x float> %v445, ptr %v471, align 4
  %v473 = getelementptr i8, ptr %v361, i64 %v472
  store <8 x float> %v450, ptr %v473, align 4
  %v475 = getelementptr i8, ptr %v361, i64 %v474
  store <8 x float> %v451, ptr %v475, align 4
  %v477 = getelementptr i8, ptr %v361, i64 %v476
  store <8 x float> %v456, ptr %v477, align 4
  %v479 = getelementptr i8, ptr %v361, i64 %v478
  store <8 x float> %v457, ptr %v479, align 4
  %v481 = getelementptr i8, ptr %v361, i64 %v480
  store <8 x float> %v462, ptr %v481, align 4
  %v483 = getelementptr i8, ptr %v361, i64 %v482
  store <8 x float> %v463, ptr %v483, align 4
  br label %v351.next
v351.next:
  %v484 = add i64 %v352, 1
  %v484.more = icmp slt i64 %v484, 5
  br i1 %v484.more, label %v351, label %v351.after
v351.after:
  br label %v348.next
v348.next:
  %v485 = add i64 %v349, 1
  br label %v348
v348.after:
  br label %v338.next
v338.next:
  %v486 = add i64 %v339, 1
  %v486.more = icmp slt i64 %v486, 16
  br i1 %v486.more, label %v338, label %v338.after
v338.after:
  %v487 = call i64 @llvm.smin.i64(i64 %v340, i64 16)
  %v488 = mul i64 %v21, 25
  %v560 = getelementptr float, ptr %a3, i64 %v487
  %v649 = add i64 %v487, 8
  %v650 = getelementptr float, ptr %a3, i64 %v649
  br label %v489.before
v489.before:
  br label %v489
v489:
  %v490 = phi i64 [ %v31, %v489.before ], [ %v672, %v489.next ]
  %v672.more = icmp slt i64 %v490, %v488
  br i1 %v672.more, label %v489.turn, label %v489.after
v489.turn:
  %v491 = add i64 %v30, %v490
  %v492 = call i64 @llvm.smin.i64(i64 %v491, i64 195)
  %v493 = udiv i64 %v492, 14
  %v494 = urem i64 %v492, 14
  %v495 = udiv i64 %v493, 14
  %v496 = urem i64 %v493, 14
  %v497 = mul i64 %v490, 64
  %v498 = getelementptr i8, ptr %v2, i64 %v497
  %v499 = load <8 x float>, ptr %v498, align 4
  %v500 = getelementptr i8, ptr %v498, i64 3200
  %v501 = load <8 x float>, ptr %v500, align 4
  %v502 = getelementptr i8, ptr %v498, i64 6400
  %v503 = load <8 x float>, ptr %v502, align 4
  %v504 = getelementptr i8, ptr %v498, i64 9600
  %v505 = load <8 x float>, ptr %v504, align 4
  %v506 = getelementptr i8, ptr %v498, i64 12800
  %v507 = load <8 x float>, ptr %v506, align 4
  %v508 = getelementptr i8, ptr %v498, i64 16000
  %v509 = load <8 x float>, ptr %v508, align 4
  %v510 = getelementptr i8, ptr %v498, i64 19200
  %v511 = load <8 x float>, ptr %v510, align 4
  %v512 = getelementptr i8, ptr %v498, i64 22400
  %v513 = load <8 x float>, ptr %v512, align 4
  %v514 = getelementptr i8, ptr %v498, i64 25600
  %v515 = load <8 x float>, ptr %v514, align 4
  %v516 = getelementptr i8, ptr %v498, i64 28800
  %v517 = load <8 x float>, ptr %v516, align 4
  %v518 = getelementptr i8, ptr %v498, i64 32000
  %v519 = load <8 x float>, ptr %v518, align 4
  %v520 = getelementptr i8, ptr %v498, i64 35200
  %v521 = load <8 x float>, ptr %v520, align 4
  %v522 = getelementptr i8, ptr %v498, i64 38400
  %v523 = load <8 x float>, ptr %v522, align 4
  %v524 = getelementptr i8, ptr %v498, i64 41600
  %v525 = load <8 x float>, ptr %v524, align 4
  %v526 = getelementptr i8, ptr %v498, i64 44800
  %v527 = load <8 x float>, ptr %v526, align 4
  %v528 = getelementptr i8, ptr %v498, i64 48000
  %v529 = load <8 x float>, ptr %v528, align 4
  %v530 = fadd <8 x float> %v499, %v507
  %v531 = fadd <8 x float> %v530, %v515
  %v532 = fsub <8 x float> %v507, %v515
  %v533 = fsub <8 x float> %v532, %v523
  %v534 = fadd <8 x float> %v501, %v509
  %v535 = fadd <8 x float> %v534, %v517
  %v536 = fsub <8 x float> %v509, %v517
  %v537 = fsub <8 x float> %v536, %v525
  %v538 = fadd <8 x float> %v503, %v511
  %v539 = fadd <8 x float> %v538, %v519
  %v540 = fsub <8 x float> %v511, %v519
  %v541 = fsub <8 x float> %v540, %v527
  %v542 = fadd <8 x float> %v505, %v513
  %v543 = fadd <8 x float> %v542, %v521
  %v544 = fsub <8 x float> %v513, %v521
  %v545 = fsub <8 x float> %v544, %v529
  %v546 = fadd <8 x float> %v531, %v535
  %v547 = fadd <8 x float> %v546, %v539
  %v548 = fsub <8 x float> %v535, %v539
  %v549 = fsub <8 x float> %v548, %v543
  %v550 = fadd <8 x float> %v533, %v537
  %v551 = fadd <8 x float> %v550, %v541
  %v552 = fsub <8 x float> %v537, %v541
  %v553 = fsub <8 x float> %v552, %v545
  %v554 = mul i64 %v496, 2
  %v555 = mul i64 %v494, 2
  %v556 = mul i64 %v495, 28
  %v557 = add i64 %v556, %v554
  %v558 = mul i64 %v557, 28
  %v559 = add i64 %v558, %v555
  %v561 = load <8 x float>, ptr %v560, align 4
  %v562 = fadd <8 x float> %v547, %v561
  %v563 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v562
  %v564 = select <8 x i1> %v563, <8 x float> splat (float 0x0000000000000000), <8 x float> %v562
  %v565 = mul i64 %v559, 32
  %v566 = add i64 %v565, %v487
  %v567 = getelementptr float, ptr %a0, i64 %v566
  store <8 x float> %v564, ptr %v567, align 4
  %v568 = add i64 %v554, 1
  %v569 = add i64 %v556, %v568
  %v570 = mul i64 %v569, 28
  %v571 = add i64 %v570, %v555
  %v572 = fadd <8 x float> %v551, %v561
  %v573 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v572
  %v574 = select <8 x i1> %v573, <8 x float> splat (float 0x0000000000000000), <8 x float> %v572
  %v575 = mul i64 %v571, 32
  %v576 = add i64 %v575, %v487
  %v577 = getelementptr float, ptr %a0, i64 %v576
  store <8 x float> %v574, ptr %v577, align 4
  %v578 = add i64 %v555, 1
  %v579 = add i64 %v558, %v578
  %v580 = fadd <8 x float> %v549, %v561
  %v581 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v580
  %v582 = select <8 x i1> %v581, <8 x float> splat (float 0x0000000000000000), <8 x float> %v580
  %v583 = mul i64 %v579, 32
  %v584 = add i64 %v583, %v487
  %v585 = getelementptr float, ptr %a0, i64 %v584
  store <8 x float> %v582, ptr %v585, align 4
  %v586 = add i64 %v570, %v578
  %v587 = fadd <8 x float> %v553, %v561
  %v588 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v587
  %v589 = select <8 x i1> %v588, <8 x float> splat (float 0x0000000000000000), <8 x float> %v587
  %v590 = mul i64 %v586, 32
  %v591 = add i64 %v590, %v487
  %v592 = getelementptr float, ptr %a0, i64 %v591
  store <8 x float> %v589, ptr %v592, align 4
  %v593 = getelementptr i8, ptr %v498, i64 32
  %v594 = load <8 x float>, ptr %v593, align 4
  %v595 = getelementptr i8, ptr %v498, i64 3232
  %v596 = load <8 x float>, ptr %v595, align 4
  %v597 = getelementptr i8, ptr %v498, i64 6432
  %v598 = load <8 x float>, ptr %v597, align 4
  %v599 = getelementptr i8, ptr %v498, i64 9632
  %v600 = load <8 x float>, ptr %v599, align 4
  %v601 = getelementptr i8, ptr %v498, i64 12832
  %v602 = load <8 x float>, ptr %v601, align 4
  %v603 = getelementptr i8, ptr %v498, i64 16032
  %v604 = load <8 x float>, ptr %v603, align 4
  %v605 = getelementptr i8, ptr %v498, i64 19232
  %v606 = load <8 x float>, ptr %v605, align 4
  %v607 = getelementptr i8, ptr %v498, i64 22432
  %v608 = load <8 x float>, ptr %v607, align 4
  %v609 = getelementptr i8, ptr %v498, i64 25632
  %v610 = load <8 x float>, ptr %v609, align 4
  %v611 = getelementptr i8, ptr %v498, i64 28832
  %v612 = load <8 x float>, ptr %v611, align 4
  %v613 = getelementptr i8, ptr %v498, i64 32032
  %v614 = load <8 x float>, ptr %v613, align 4
  %v615 = getelementptr i8, ptr %v498, i64 35232
  %v616 = load <8 x float>, ptr %v615, align 4
  %v617 = getelementptr i8, ptr %v498, i64 38432
  %v618 = load <8 x float>, ptr %v617, align 4
  %v619 = getelementptr i8, ptr %v498, i64 41632
  %v620 = load <8 x float>, ptr %v619, align 4
  %v621 = getelementptr i8, ptr %v498, i64 44832
  %v622 = load <8 x float>, ptr %v621, align 4
  %v623 = getelementptr i8, ptr %v498, i64 48032
  %v624 = load <8 x float>, ptr %v623, align 4
  %v625 = fadd <8 x float> %v594, %v602
  %v626 = fadd <8 x float> %v625, %v610
  %v627 = fsub <8 x float> %v602, %v610
  %v628 = fsub <8 x float> %v627, %v618
  %v629 = fadd <8 x float> %v596, %v604
  %v630 = fadd <8 x float> %v629, %v612
  %v631 = fsub <8 x float> %v604, %v612
  %v632 = fsub <8 x float> %v631, %v620
  %v633 = fadd <8 x float> %v598, %v606
  %v634 = fadd <8 x float> %v633, %v614
  %v635 = fsub <8 x float> %v606, %v614
  %v636 = fsub <8 x float> %v635, %v622
  %v637 = fadd <8 x float> %v600, %v608
  %v638 = fadd <8 x float> %v637, %v616
  %v639 = fsub <8 x float> %v608, %v616
  %v640 = fsub <8 x float> %v639, %v624
  %v641 = fadd <8 x float> %v626, %v630
  %v642 = fadd <8 x float> %v641, %v634
  %v643 = fsub <8 x float> %v630, %v634
  %v644 = fsub <8 x float> %v643, %v638
  %v645 = fadd <8 x float> %v628, %v632
  %v646 = fadd <8 x float> %v645, %v636
  %v647 = fsub <8 x float> %v632, %v636
  %v648 = fsub <8 x float> %v647, %v640
  %v651 = load <8 x float>, ptr %v650, align 4
  %v652 = fadd <8 x float> %v642, %v651
  %v653 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v652
  %v654 = select <8 x i1> %v653, <8 x float> splat (float 0x0000000000000000), <8 x float> %v652
  %v655 = add i64 %v565, %v649
  %v656 = getelementptr float, ptr %a0, i64 %v655
  store <8 x float> %v654, ptr %v656, align 4
  %v657 = fadd <8 x float> %v646, %v651
  %v658 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v657
  %v659 = select <8 x i1> %v658, <8 x float> splat (float 0x0000000000000000), <8 x float> %v657
  %v660 = add i64 %v575, %v649
  %v661 = getelementptr float, ptr %a0, i64 %v660
  store <8 x float> %v659, ptr %v661, align 4
  %v662 = fadd <8 x float> %v644, %v651
  %v663 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v662
  %v664 = select <8 x i1> %v663, <8 x float> splat (float 0x0000000000000000), <8 x float> %v662
  %v665 = add i64 %v583, %v649
  %v666 = getelementptr float, ptr %a0, i64 %v665
  store <8 x float> %v664, ptr %v666, align 4
  %v667 = fadd <8 x float> %v648, %v651
  %v668 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v667
  %v669 = select <8 x i1> %v668, <8 x float> splat (float 0x0000000000000000), <8 x float> %v667
  %v670 = add i64 %v590, %v649
  %v671 = getelementptr float, ptr %a0, i64 %v670
  store <8 x float> %v669, ptr %v671, align 4
  br label %v489.next
v489.next:
  %v672 = add i64 %v490, 1
  br label %v489
v489.after:
  br label %v13.next
v13.next:
  %v673 = add i64 %v14, 1
  br label %v13
v13.after:
  ret void
}

