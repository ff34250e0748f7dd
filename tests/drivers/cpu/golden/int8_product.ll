define void @se4dbae46a62488d1(ptr %source, ptr %target, i64 %count) nounwind {
  %v1 = and i64 %count, -64
  br label %v2.before
v2.before:
  br label %v2
v2:
  %v3 = phi i64 [ 0, %v2.before ], [ %v27, %v2.next ]
  %v27.more = icmp slt i64 %v3, %v1
  br i1 %v27.more, label %v2.turn, label %v2.after
v2.turn:
  %v4 = getelementptr i8, ptr %source, i64 %v3
  %v5 = mul i64 %v3, 2
  %v6 = getelementptr i8, ptr %target, i64 %v5
  %v7 = call ptr asm "", "=r,0"(ptr %v4)
  %v8 = call ptr asm "", "=r,0"(ptr %v6)
  %v9 = load <16 x i8>, ptr %v7, align 1
  %v10 = sext <16 x i8> %v9 to <16 x i16>
  %v11 = sub <16 x i16> %v10, splat (i16 3)
  store <16 x i16> %v11, ptr %v8, align 2
  %v12 = getelementptr i8, ptr %v7, i64 16
  %v13 = load <16 x i8>, ptr %v12, align 1
  %v14 = sext <16 x i8> %v13 to <16 x i16>
  %v15 = sub <16 x i16> %v14, splat (i16 3)
  %v16 = getelementptr i8, ptr %v8, i64 32
  store <16 x i16> %v15, ptr %v16, align 2
  %v17 = getelementptr i8, ptr %v7, i64 32
  %v18 = load <16 x i8>, ptr %v17, align 1
  %v19 = sext <16 x i8> %v18 to <16 x i16>
  %v20 = sub <16 x i16> %v19, splat (i16 3)
  %v21 = getelementptr i8, ptr %v8, i64 64
  store <16 x i16> %v20, ptr %v21, align 2
  %v22 = getelementptr i8, ptr %v7, i64 48
  %v23 = load <16 x i8>, ptr %v22, align 1
  %v24 = sext <16 x i8> %v23 to <16 x i16>
  %v25 = sub <16 x i16> %v24, splat (i16 3)
  %v26 = getelementptr i8, ptr %v8, i64 96
  store <16 x i16> %v25, ptr %v26, align 2
  br label %v2.next
v2.next:
  %v27 = add i64 %v3, 64
  br label %v2
v2.after:
  %v28 = sub i64 %count, 16
  br label %v29.before
v29.before:
  br label %v29
v29:
  %v30 = phi i64 [ %v1, %v29.before ], [ %v37, %v29.next ]
  %v37.more = icmp slt i64 %v30, %v28
  br i1 %v37.more, label %v29.turn, label %v29.after
v29.turn:
  %v31 = getelementptr i8, ptr %source, i64 %v30
  %v32 = mul i64 %v30, 2
  %v33 = getelementptr i8, ptr %target, i64 %v32
  %v34 = load <16 x i8>, ptr %v31, align 1
  %v35 = sext <16 x i8> %v34 to <16 x i16>
  %v36 = sub <16 x i16> %v35, splat (i16 3)
  store <16 x i16> %v36, ptr %v33, align 2
  br label %v29.next
v29.next:
  %v37 = add i64 %v30, 16
  br label %v29
v29.after:
  %v38 = getelementptr i8, ptr %source, i64 %v28
  %v39 = mul i64 %v28, 2
  %v40 = getelementptr i8, ptr %target, i64 %v39
  %v41 = load <16 x i8>, ptr %v38, align 1
  %v42 = sext <16 x i8> %v41 to <16 x i16>
  %v43 = sub <16 x i16> %v42, splat (i16 3)
  store <16 x i16> %v43, ptr %v40, align 2
  ret void
}


; int16, 12 positions by 1 vectors of 8
declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare <8 x i32> @llvm.smin.v8i32(<8 x i32>, <8 x i32>)
declare <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>, <16 x i16>)
declare i64 @llvm.smin.i64(i64, i64)
declare void @se4dbae46a62488d1(ptr, ptr, i64)
define internal void @kd1bc07bd5eae48b5.sums12(ptr %source, ptr %panel, ptr %ahead, ptr %common, ptr %totals) noinline nounwind {
  %v1 = load <8 x i32>, ptr %panel, align 32
  %v2 = getelementptr i8, ptr %panel, i64 160
  br label %v3.before
v3.before:
  br label %v3
v3:
  %v4 = phi i64 [ 0, %v3.before ], [ %v193, %v3.next ]
  %v5 = phi <8 x i32> [ %v1, %v3.before ], [ %v115, %v3.next ]
  %v6 = phi <8 x i32> [ %v1, %v3.before ], [ %v122, %v3.next ]
  %v7 = phi <8 x i32> [ %v1, %v3.before ], [ %v129, %v3.next ]
  %v8 = phi <8 x i32> [ %v1, %v3.before ], [ %v136, %v3.next ]
  %v9 = phi <8 x i32> [ %v1, %v3.before ], [ %v143, %v3.next ]
  %v10 = phi <8 x i32> [ %v1, %v3.before ], [ %v150, %v3.next ]
  %v11 = phi <8 x i32> [ %v1, %v3.before ], [ %v157, %v3.next ]
  %v12 = phi <8 x i32> [ %v1, %v3.before ], [ %v164, %v3.next ]
  %v13 = phi <8 x i32> [ %v1, %v3.before ], [ %v171, %v3.next ]
  %v14 = phi <8 x i32> [ %v1, %v3.before ], [ %v178, %v3.next ]
  %v15 = phi <8 x i32> [ %v1, %v3.before ], [ %v185, %v3.next ]
  %v16 = phi <8 x i32> [ %v1, %v3.before ], [ %v192, %v3.next ]
  %v17 = mul i64 %v4, 4
  %v18 = getelementptr i8, ptr %source, i64 %v17
  %v19 = mul i64 %v4, 32
  %v20 = getelementptr i8, ptr %v2, i64 %v19
  %v21 = load <8 x i32>, ptr %v20, align 32
  %v22 = load i32, ptr %v18, align 1
  %v23 = insertelement <8 x i32> poison, i32 %v22, i64 0
  %v24 = shufflevector <8 x i32> %v23, <8 x i32> poison, <8 x i32> zeroinitializer
  %v25 = bitcast <8 x i32> %v24 to <16 x i16>
  %v26 = bitcast <8 x i32> %v21 to <16 x i16>
  %v27 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v25, <16 x i16> %v26)
  %v28 = add <8 x i32> %v5, %v27
  %v29 = getelementptr i8, ptr %v18, i64 16
  %v30 = load i32, ptr %v29, align 1
  %v31 = insertelement <8 x i32> poison, i32 %v30, i64 0
  %v32 = shufflevector <8 x i32> %v31, <8 x i32> poison, <8 x i32> zeroinitializer
  %v33 = bitcast <8 x i32> %v32 to <16 x i16>
  %v34 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v33, <16 x i16> %v26)
  %v35 = add <8 x i32> %v6, %v34
  %v36 = getelementptr i8, ptr %v18, i64 32
  %v37 = load i32, ptr %v36, align 1
  %v38 = insertelement <8 x i32> poison, i32 %v37, i64 0
  %v39 = shufflevector <8 x i32> %v38, <8 x i32> poison, <8 x i32> zeroinitializer
  %v40 = bitcast <8 x i32> %v39 to <16 x i16>
  %v41 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v40, <16 x i16> %v26)
  %v42 = add <8 x i32> %v7, %v41
  %v43 = getelementptr i8, ptr %v18, i64 48
  %v44 = load i32, ptr %v43, align 1
  %v45 = insertelement <8 x i32> poison, i32 %v44, i64 0
  %v46 = shufflevector <8 x i32> %v45, <8 x i32> poison, <8 x i32> zeroinitializer
  %v47 = bitcast <8 x i32> %v46 to <16 x i16>
  %v48 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v47, <16 x i16> %v26)
  %v49 = add <8 x i32> %v8, %v48
  %v50 = getelementptr i8, ptr %v18, i64 64
  %v51 = load i32, ptr %v50, align 1
  %v52 = insertelement <8 x i32> poison, i32 %v51, i64 0
  %v53 = shufflevector <8 x i32> %v52, <8 x i32> poison, <8 x i32> zeroinitializer
  %v54 = bitcast <8 x i32> %v53 to <16 x i16>
  %v55 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v54, <16 x i16> %v26)
  %v56 = add <8 x i32> %v9, %v55
  %v57 = getelementptr i8, ptr %v18, i64 80
  %v58 = load i32, ptr %v57, align 1
  %v59 = insertelement <8 x i32> poison, i32 %v58, i64 0
  %v60 = shufflevector <8 x i32> %v59, <8 x i32> poison, <8 x i32> zeroinitializer
  %v61 = bitcast <8 x i32> %v60 to <16 x i16>
  %v62 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v61, <16 x i16> %v26)
  %v63 = add <8 x i32> %v10, %v62
  %v64 = getelementptr i8, ptr %v18, i64 96
  %v65 = load i32, ptr %v64, align 1
  %v66 = insertelement <8 x i32> poison, i32 %v65, i64 0
  %v67 = shufflevector <8 x i32> %v66, <8 x i32> poison, <8 x i32> zeroinitializer
  %v68 = bitcast <8 x i32> %v67 to <16 x i16>
  %v69 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v68, <16 x i16> %v26)
  %v70 = add <8 x i32> %v11, %v69
  %v71 = getelementptr i8, ptr %v18, i64 112
  %v72 = load i32, ptr %v71, align 1
  %v73 = insertelement <8 x i32> poison, i32 %v72, i64 0
  %v74 = shufflevector <8 x i32> %v73, <8 x i32> poison, <8 x i32> zeroinitializer
  %v75 = bitcast <8 x i32> %v74 to <16 x i16>
  %v76 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v75, <16 x i16> %v26)
  %v77 = add <8 x i32> %v12, %v76
  %v78 = getelementptr i8, ptr %v18, i64 128
  %v79 = load i32, ptr %v78, align 1
  %v80 = insertelement <8 x i32> poison, i32 %v79, i64 0
  %v81 = shufflevector <8 x i32> %v80, <8 x i32> poison, <8 x i32> zeroinitializer
  %v82 = bitcast <8 x i32> %v81 to <16 x i16>
  %v83 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v82, <16 x i16> %v26)
  %v84 = add <8 x i32> %v13, %v83
  %v85 = getelementptr i8, ptr %v18, i64 144
  %v86 = load i32, ptr %v85, align 1
  %v87 = insertelement <8 x i32> poison, i32 %v86, i64 0
  %v88 = shufflevector <8 x i32> %v87, <8 x i32> poison, <8 x i32> zeroinitializer
  %v89 = bitcast <8 x i32> %v88 to <16 x i16>
  %v90 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v89, <16 x i16> %v26)
  %v91 = add <8 x i32> %v14, %v90
  %v92 = getelementptr i8, ptr %v18, i64 160
  %v93 = load i32, ptr %v92, align 1
  %v94 = insertelement <8 x i32> poison, i32 %v93, i64 0
  %v95 = shufflevector <8 x i32> %v94, <8 x i32> poison, <8 x i32> zeroinitializer
  %v96 = bitcast <8 x i32> %v95 to <16 x i16>
  %v97 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v96, <16 x i16> %v26)
  %v98 = add <8 x i32> %v15, %v97
  %v99 = getelementptr i8, ptr %v18, i64 176
  %v100 = load i32, ptr %v99, align 1
  %v101 = insertelement <8 x i32> poison, i32 %v100, i64 0
  %v102 = shufflevector <8 x i32> %v101, <8 x i32> poison, <8 x i32> zeroinitializer
  %v103 = bitcast <8 x i32> %v102 to <16 x i16>
  %v104 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v103, <16 x i16> %v26)
  %v105 = add <8 x i32> %v16, %v104
  %v106 = getelementptr i8, ptr %v20, i64 32
  %v107 = load <8 x i32>, ptr %v106, align 32
  %v108 = getelementptr i8, ptr %v18, i64 4
  %v109 = load i32, ptr %v108, align 1
  %v110 = insertelement <8 x i32> poison, i32 %v109, i64 0
  %v111 = shufflevector <8 x i32> %v110, <8 x i32> poison, <8 x i32> zeroinitializer
  %v112 = bitcast <8 x i32> %v111 to <16 x i16>
  %v113 = bitcast <8 x i32> %v107 to <16 x i16>
  %v114 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v112, <16 x i16> %v113)
  %v115 = add <8 x i32> %v28, %v114
  %v116 = getelementptr i8, ptr %v18, i64 20
  %v117 = load i32, ptr %v116, align 1
  %v118 = insertelement <8 x i32> poison, i32 %v117, i64 0
  %v119 = shufflevector <8 x i32> %v118, <8 x i32> poison, <8 x i32> zeroinitializer
  %v120 = bitcast <8 x i32> %v119 to <16 x i16>
  %v121 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v120, <16 x i16> %v113)
  %v122 = add <8 x i32> %v35, %v121
  %v123 = getelementptr i8, ptr %v18, i64 36
  %v124 = load i32, ptr %v123, align 1
  %v125 = insertelement <8 x i32> poison, i32 %v124, i64 0
  %v126 = shufflevector <8 x i32> %v125, <8 x i32> poison, <8 x i32> zeroinitializer
  %v127 = bitcast <8 x i32> %v126 to <16 x i16>
  %v128 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v127, <16 x i16> %v113)
  %v129 = add <8 x i32> %v42, %v128
  %v130 = getelementptr i8, ptr %v18, i64 52
  %v131 = load i32, ptr %v130, align 1
  %v132 = insertelement <8 x i32> poison, i32 %v131, i64 0
  %v133 = shufflevector <8 x i32> %v132, <8 x i32> poison, <8 x i32> zeroinitializer
  %v134 = bitcast <8 x i32> %v133 to <16 x i16>
  %v135 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v134, <16 x i16> %v113)
  %v136 = add <8 x i32> %v49, %v135
  %v137 = getelementptr i8, ptr %v18, i64 68
  %v138 = load i32, ptr %v137, align 1
  %v139 = insertelement <8 x i32> poison, i32 %v138, i64 0
  %v140 = shufflevector <8 x i32> %v139, <8 x i32> poison, <8 x i32> zeroinitializer
  %v141 = bitcast <8 x i32> %v140 to <16 x i16>
  %v142 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v141, <16 x i16> %v113)
  %v143 = add <8 x i32> %v56, %v142
  %v144 = getelementptr i8, ptr %v18, i64 84
  %v145 = load i32, ptr %v144, align 1
  %v146 = insertelement <8 x i32> poison, i32 %v145, i64 0
  %v147 = shufflevector <8 x i32> %v146, <8 x i32> poison, <8 x i32> zeroinitializer
  %v148 = bitcast <8 x i32> %v147 to <16 x i16>
  %v149 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v148, <16 x i16> %v113)
  %v150 = add <8 x i32> %v63, %v149
  %v151 = getelementptr i8, ptr %v18, i64 100
  %v152 = load i32, ptr %v151, align 1
  %v153 = insertelement <8 x i32> poison, i32 %v152, i64 0
  %v154 = shufflevector <8 x i32> %v153, <8 x i32> poison, <8 x i32> zeroinitializer
  %v155 = bitcast <8 x i32> %v154 to <16 x i16>
  %v156 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v155, <16 x i16> %v113)
  %v157 = add <8 x i32> %v70, %v156
  %v158 = getelementptr i8, ptr %v18, i64 116
  %v159 = load i32, ptr %v158, align 1
  %v160 = insertelement <8 x i32> poison, i32 %v159, i64 0
  %v161 = shufflevector <8 x i32> %v160, <8 x i32> poison, <8 x i32> zeroinitializer
  %v162 = bitcast <8 x i32> %v161 to <16 x i16>
  %v163 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v162, <16 x i16> %v113)
  %v164 = add <8 x i32> %v77, %v163
  %v165 = getelementptr i8, ptr %v18, i64 132
  %v166 = load i32, ptr %v165, align 1
  %v167 = insertelement <8 x i32> poison, i32 %v166, i64 0
  %v168 = shufflevector <8 x i32> %v167, <8 x i32> poison, <8 x i32> zeroinitializer
  %v169 = bitcast <8 x i32> %v168 to <16 x i16>
  %v170 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v169, <16 x i16> %v113)
  %v171 = add <8 x i32> %v84, %v170
  %v172 = getelementptr i8, ptr %v18, i64 148
  %v173 = load i32, ptr %v172, align 1
  %v174 = insertelement <8 x i32> poison, i32 %v173, i64 0
  %v175 = shufflevector <8 x i32> %v174, <8 x i32> poison, <8 x i32> zeroinitializer
  %v176 = bitcast <8 x i32> %v175 to <16 x i16>
  %v177 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v176, <16 x i16> %v113)
  %v178 = add <8 x i32> %v91, %v177
  %v179 = getelementptr i8, ptr %v18, i64 164
  %v180 = load i32, ptr %v179, align 1
  %v181 = insertelement <8 x i32> poison, i32 %v180, i64 0
  %v182 = shufflevector <8 x i32> %v181, <8 x i32> poison, <8 x i32> zeroinitializer
  %v183 = bitcast <8 x i32> %v182 to <16 x i16>
  %v184 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v183, <16 x i16> %v113)
  %v185 = add <8 x i32> %v98, %v184
  %v186 = getelementptr i8, ptr %v18, i64 180
  %v187 = load i32, ptr %v186, align 1
  %v188 = insertelement <8 x i32> poison, i32 %v187, i64 0
  %v189 = shufflevector <8 x i32> %v188, <8 x i32> poison, <8 x i32> zeroinitializer
  %v190 = bitcast <8 x i32> %v189 to <16 x i16>
  %v191 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v190, <16 x i16> %v113)
  %v192 = add <8 x i32> %v105, %v191
  br label %v3.next
v3.next:
  %v193 = add i64 %v4, 2
  %v193.more = icmp slt i64 %v193, 4
  br i1 %v193.more, label %v3, label %v3.after
v3.after:
  store <8 x i32> %v115, ptr %totals, align 32
  %v194 = getelementptr i8, ptr %totals, i64 32
  store <8 x i32> %v122, ptr %v194, align 32
  %v195 = getelementptr i8, ptr %totals, i64 64
  store <8 x i32> %v129, ptr %v195, align 32
  %v196 = getelementptr i8, ptr %totals, i64 96
  store <8 x i32> %v136, ptr %v196, align 32
  %v197 = getelementptr i8, ptr %totals, i64 128
  store <8 x i32> %v143, ptr %v197, align 32
  %v198 = getelementptr i8, ptr %totals, i64 160
  store <8 x i32> %v150, ptr %v198, align 32
  %v199 = getelementptr i8, ptr %totals, i64 192
  store <8 x i32> %v157, ptr %v199, align 32
  %v200 = getelementptr i8, ptr %totals, i64 224
  store <8 x i32> %v164, ptr %v200, align 32
  %v201 = getelementptr i8, ptr %totals, i64 256
  store <8 x i32> %v171, ptr %v201, align 32
  %v202 = getelementptr i8, ptr %totals, i64 288
  store <8 x i32> %v178, ptr %v202, align 32
  %v203 = getelementptr i8, ptr %totals, i64 320
  store <8 x i32> %v185, ptr %v203, align 32
  %v204 = getelementptr i8, ptr %totals, i64 352
  store <8 x i32> %v192, ptr %v204, align 32
  ret void
}
define void @kd1bc07bd5eae48b5(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v84, %v1.next ]
  %v84.more = icmp slt i64 %v2, %end
  br i1 %v84.more, label %v1.turn, label %v1.after
v1.turn:
  %v3 = add i64 %v2, 1
  %v4 = call i64 @llvm.smin.i64(i64 %v3, i64 %end)
  %v5 = mul i64 %v2, 12
  %v6 = mul i64 %v4, 12
  %v7 = call i64 @llvm.smin.i64(i64 %v6, i64 12)
  %v8 = sub i64 %v7, %v5
  %v9 = mul i64 %v5, 8
  %v10 = urem i64 %v8, 12
  %v11 = sub i64 %v8, %v10
  br label %v12.before
v12.before:
  br label %v12
v12:
  %v13 = phi i64 [ 0, %v12.before ], [ %v19, %v12.next ]
  %v19.more = icmp slt i64 %v13, %v11
  br i1 %v19.more, label %v12.turn, label %v12.after
v12.turn:
  %v14 = mul i64 %v13, 8
  %v15 = add i64 %v9, %v14
  %v16 = getelementptr i8, ptr %a1, i64 %v15
  %v17 = mul i64 %v14, 2
  %v18 = getelementptr i8, ptr %scratch, i64 %v17
  call void @se4dbae46a62488d1(ptr %v16, ptr %v18, i64 96)
  br label %v12.next
v12.next:
  %v19 = add i64 %v13, 12
  br label %v12
v12.after:
  br label %v20.before
v20.before:
  br label %v20
v20:
  %v21 = phi i64 [ %v11, %v20.before ], [ %v30, %v20.next ]
  %v30.more = icmp slt i64 %v21, %v8
  br i1 %v30.more, label %v20.turn, label %v20.after
v20.turn:
  %v22 = mul i64 %v21, 8
  %v23 = add i64 %v9, %v22
  %v24 = getelementptr i8, ptr %a1, i64 %v23
  %v25 = mul i64 %v22, 2
  %v26 = getelementptr i8, ptr %scratch, i64 %v25
  %v27 = load <8 x i8>, ptr %v24, align 1
  %v28 = sext <8 x i8> %v27 to <8 x i16>
  %v29 = sub <8 x i16> %v28, splat (i16 3)
  store <8 x i16> %v29, ptr %v26, align 2
  br label %v20.next
v20.next:
  %v30 = add i64 %v21, 1
  br label %v20
v20.after:
  %v31 = getelementptr i8, ptr %a2, i64 128
  br label %v32.before
v32.before:
  br label %v32
v32:
  %v33 = phi i64 [ %v2, %v32.before ], [ %v83, %v32.next ]
  %v83.more = icmp slt i64 %v33, %v4
  br i1 %v83.more, label %v32.turn, label %v32.after
v32.turn:
  %v34 = mul i64 %v33, 12
  %v35 = sub i64 %v34, %v5
  %v36 = mul i64 %v35, 16
  %v37 = getelementptr i8, ptr %scratch, i64 %v36
  %v38 = sub i64 %v33, %v2
  %v39 = getelementptr i8, ptr %v31, i64 288
  %v40 = getelementptr i8, ptr %scratch, i64 256
  call void @kd1bc07bd5eae48b5.sums12(ptr %v37, ptr %v31, ptr %v39, ptr null, ptr %v40)
  %v41 = getelementptr i8, ptr %scratch, i64 256
  %v42 = getelementptr i8, ptr %v31, i64 32
  %v43 = load <8 x i32>, ptr %v42, align 32
  %v44 = getelementptr i8, ptr %v31, i64 64
  %v45 = load <8 x i32>, ptr %v44, align 32
  %v46 = getelementptr i8, ptr %v31, i64 96
  %v47 = load <8 x i32>, ptr %v46, align 32
  %v48 = getelementptr i8, ptr %v31, i64 128
  %v49 = load <8 x i32>, ptr %v48, align 32
  %v57 = bitcast <8 x i32> %v43 to <4 x i64>
  %v58 = bitcast <8 x i32> %v45 to <4 x i64>
  %v60 = and <4 x i64> %v57, splat (i64 4294967295)
  %v62 = lshr <4 x i64> %v57, splat (i64 32)
  %v63 = shl <4 x i64> %v58, splat (i64 32)
  %v64 = and <4 x i64> %v58, splat (i64 -4294967296)
  %v66 = or <4 x i64> %v63, splat (i64 2147483648)
  %v70 = or <4 x i64> %v64, splat (i64 2147483648)
  br label %v50.before
v50.before:
  br label %v50
v50:
  %v51 = phi i64 [ 0, %v50.before ], [ %v82, %v50.next ]
  %v52 = mul i64 %v51, 32
  %v53 = getelementptr i8, ptr %v41, i64 %v52
  %v54 = load <8 x i32>, ptr %v53, align 32
  %v55 = add i64 %v34, %v51
  %v56 = bitcast <8 x i32> %v54 to <4 x i64>
  %v59 = and <4 x i64> %v56, splat (i64 4294967295)
  %v61 = lshr <4 x i64> %v56, splat (i64 32)
  %v65 = mul <4 x i64> %v59, %v60
  %v67 = add <4 x i64> %v65, %v66
  %v68 = bitcast <4 x i64> %v67 to <8 x i32>
  %v69 = mul <4 x i64> %v61, %v62
  %v71 = add <4 x i64> %v69, %v70
  %v72 = bitcast <4 x i64> %v71 to <8 x i32>
  %v73 = shufflevector <8 x i32> %v68, <8 x i32> %v72, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v74 = lshr <8 x i32> %v54, splat (i32 31)
  %v75 = add <8 x i32> %v73, %v74
  %v76 = ashr <8 x i32> %v75, %v49
  %v77 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v76, <8 x i32> splat (i32 -128))
  %v78 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %v77, <8 x i32> splat (i32 127))
  %v79 = trunc <8 x i32> %v78 to <8 x i8>
  %v80 = mul i64 %v55, 8
  %v81 = getelementptr i8, ptr %a0, i64 %v80
  store <8 x i8> %v79, ptr %v81, align 1
  br label %v50.next
v50.next:
  %v82 = add i64 %v51, 1
  %v82.more = icmp slt i64 %v82, 12
  br i1 %v82.more, label %v50, label %v50.after
v50.after:
  br label %v32.next
v32.next:
  %v83 = add i64 %v33, 1
  br label %v32
v32.after:
  br label %v1.next
v1.next:
  %v84 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

