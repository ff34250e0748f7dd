declare <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32>, <16 x i8>, <16 x i8>)
define void @sd9a90675c1deb94c(ptr %source, ptr %panel, ptr %ahead, ptr %common, ptr %totals, ptr %table) nounwind {
  %v1 = load i64, ptr %table, align 8
  %v2 = getelementptr i8, ptr %table, i64 40
  %v3 = load i64, ptr %v2, align 8
  %v4 = getelementptr i8, ptr %table, i64 48
  %v5 = load i64, ptr %v4, align 8
  %v6 = getelementptr i8, ptr %table, i64 56
  %v7 = load i64, ptr %v6, align 8
  %v8 = getelementptr i8, ptr %table, i64 64
  %v9 = load i64, ptr %v8, align 8
  %v10 = getelementptr i8, ptr %table, i64 80
  %v11 = load i64, ptr %v10, align 8
  %v12 = getelementptr i8, ptr %table, i64 88
  %v13 = load i64, ptr %v12, align 8
  %v14 = mul i64 %v13, 32
  %v15 = getelementptr i8, ptr %table, i64 16
  %v16 = load i64, ptr %v15, align 8
  %v17 = getelementptr i8, ptr %panel, i64 %v16
  %v18 = getelementptr i8, ptr %table, i64 8
  %v19 = load i64, ptr %v18, align 8
  %v20 = mul i64 %v1, 4
  %v21 = mul i64 %v1, 8
  %v22 = load <4 x i32>, ptr %panel, align 16
  %v23 = getelementptr i8, ptr %panel, i64 16
  %v24 = load <4 x i32>, ptr %v23, align 16
  %v53 = mul i64 %v13, 4
  %v139 = mul i64 %v1, 3
  br label %v25.before
v25.before:
  br label %v25
v25:
  %v26 = phi i64 [ 0, %v25.before ], [ %v209, %v25.next ]
  %v27 = phi <4 x i32> [ %v22, %v25.before ], [ %v122, %v25.next ]
  %v28 = phi <4 x i32> [ %v24, %v25.before ], [ %v124, %v25.next ]
  %v29 = phi <4 x i32> [ %v22, %v25.before ], [ %v130, %v25.next ]
  %v30 = phi <4 x i32> [ %v24, %v25.before ], [ %v131, %v25.next ]
  %v31 = phi <4 x i32> [ %v22, %v25.before ], [ %v137, %v25.next ]
  %v32 = phi <4 x i32> [ %v24, %v25.before ], [ %v138, %v25.next ]
  %v33 = phi <4 x i32> [ %v22, %v25.before ], [ %v145, %v25.next ]
  %v34 = phi <4 x i32> [ %v24, %v25.before ], [ %v146, %v25.next ]
  %v35 = phi <4 x i32> [ %v22, %v25.before ], [ %v151, %v25.next ]
  %v36 = phi <4 x i32> [ %v24, %v25.before ], [ %v152, %v25.next ]
  %v37 = phi <4 x i32> [ %v22, %v25.before ], [ %v158, %v25.next ]
  %v38 = phi <4 x i32> [ %v24, %v25.before ], [ %v159, %v25.next ]
  %v39 = phi <4 x i32> [ %v22, %v25.before ], [ %v165, %v25.next ]
  %v40 = phi <4 x i32> [ %v24, %v25.before ], [ %v166, %v25.next ]
  %v41 = phi <4 x i32> [ %v22, %v25.before ], [ %v172, %v25.next ]
  %v42 = phi <4 x i32> [ %v24, %v25.before ], [ %v173, %v25.next ]
  %v43 = phi <4 x i32> [ %v22, %v25.before ], [ %v178, %v25.next ]
  %v44 = phi <4 x i32> [ %v24, %v25.before ], [ %v179, %v25.next ]
  %v45 = phi <4 x i32> [ %v22, %v25.before ], [ %v185, %v25.next ]
  %v46 = phi <4 x i32> [ %v24, %v25.before ], [ %v186, %v25.next ]
  %v47 = phi <4 x i32> [ %v22, %v25.before ], [ %v192, %v25.next ]
  %v48 = phi <4 x i32> [ %v24, %v25.before ], [ %v193, %v25.next ]
  %v49 = phi <4 x i32> [ %v22, %v25.before ], [ %v199, %v25.next ]
  %v50 = phi <4 x i32> [ %v24, %v25.before ], [ %v200, %v25.next ]
  %v51 = phi ptr [ %source, %v25.before ], [ %v208, %v25.next ]
  %v52 = phi ptr [ %v17, %v25.before ], [ %v204, %v25.next ]
  br label %v54.before
v54.before:
  br label %v54
v54:
  %v55 = phi i64 [ 0, %v54.before ], [ %v207, %v54.next ]
  %v56 = phi <4 x i32> [ %v27, %v54.before ], [ %v122, %v54.next ]
  %v57 = phi <4 x i32> [ %v28, %v54.before ], [ %v124, %v54.next ]
  %v58 = phi <4 x i32> [ %v29, %v54.before ], [ %v130, %v54.next ]
  %v59 = phi <4 x i32> [ %v30, %v54.before ], [ %v131, %v54.next ]
  %v60 = phi <4 x i32> [ %v31, %v54.before ], [ %v137, %v54.next ]
  %v61 = phi <4 x i32> [ %v32, %v54.before ], [ %v138, %v54.next ]
  %v62 = phi <4 x i32> [ %v33, %v54.before ], [ %v145, %v54.next ]
  %v63 = phi <4 x i32> [ %v34, %v54.before ], [ %v146, %v54.next ]
  %v64 = phi <4 x i32> [ %v35, %v54.before ], [ %v151, %v54.next ]
  %v65 = phi <4 x i32> [ %v36, %v54.before ], [ %v152, %v54.next ]
  %v66 = phi <4 x i32> [ %v37, %v54.before ], [ %v158, %v54.next ]
  %v67 = phi <4 x i32> [ %v38, %v54.before ], [ %v159, %v54.next ]
  %v68 = phi <4 x i32> [ %v39, %v54.before ], [ %v165, %v54.next ]
  %v69 = phi <4 x i32> [ %v40, %v54.before ], [ %v166, %v54.next ]
  %v70 = phi <4 x i32> [ %v41, %v54.before ], [ %v172, %v54.next ]
  %v71 = phi <4 x i32> [ %v42, %v54.before ], [ %v173, %v54.next ]
  %v72 = phi <4 x i32> [ %v43, %v54.before ], [ %v178, %v54.next ]
  %v73 = phi <4 x i32> [ %v44, %v54.before ], [ %v179, %v54.next ]
  %v74 = phi <4 x i32> [ %v45, %v54.before ], [ %v185, %v54.next ]
  %v75 = phi <4 x i32> [ %v46, %v54.before ], [ %v186, %v54.next ]
  %v76 = phi <4 x i32> [ %v47, %v54.before ], [ %v192, %v54.next ]
  %v77 = phi <4 x i32> [ %v48, %v54.before ], [ %v193, %v54.next ]
  %v78 = phi <4 x i32> [ %v49, %v54.before ], [ %v199, %v54.next ]
  %v79 = phi <4 x i32> [ %v50, %v54.before ], [ %v200, %v54.next ]
  %v80 = phi ptr [ %v51, %v54.before ], [ %v206, %v54.next ]
  %v81 = phi ptr [ %v52, %v54.before ], [ %v204, %v54.next ]
  %v82 = getelementptr i8, ptr %v80, i64 %v20
  %v83 = getelementptr i8, ptr %v80, i64 %v21
  br label %v84.before
v84.before:
  br label %v84
v84:
  %v85 = phi i64 [ 0, %v84.before ], [ %v205, %v84.next ]
  %v86 = phi <4 x i32> [ %v56, %v84.before ], [ %v122, %v84.next ]
  %v87 = phi <4 x i32> [ %v57, %v84.before ], [ %v124, %v84.next ]
  %v88 = phi <4 x i32> [ %v58, %v84.before ], [ %v130, %v84.next ]
  %v89 = phi <4 x i32> [ %v59, %v84.before ], [ %v131, %v84.next ]
  %v90 = phi <4 x i32> [ %v60, %v84.before ], [ %v137, %v84.next ]
  %v91 = phi <4 x i32> [ %v61, %v84.before ], [ %v138, %v84.next ]
  %v92 = phi <4 x i32> [ %v62, %v84.before ], [ %v145, %v84.next ]
  %v93 = phi <4 x i32> [ %v63, %v84.before ], [ %v146, %v84.next ]
  %v94 = phi <4 x i32> [ %v64, %v84.before ], [ %v151, %v84.next ]
  %v95 = phi <4 x i32> [ %v65, %v84.before ], [ %v152, %v84.next ]
  %v96 = phi <4 x i32> [ %v66, %v84.before ], [ %v158, %v84.next ]
  %v97 = phi <4 x i32> [ %v67, %v84.before ], [ %v159, %v84.next ]
  %v98 = phi <4 x i32> [ %v68, %v84.before ], [ %v165, %v84.next ]
  %v99 = phi <4 x i32> [ %v69, %v84.before ], [ %v166, %v84.next ]
  %v100 = phi <4 x i32> [ %v70, %v84.before ], [ %v172, %v84.next ]
  %v101 = phi <4 x i32> [ %v71, %v84.before ], [ %v173, %v84.next ]
  %v102 = phi <4 x i32> [ %v72, %v84.before ], [ %v178, %v84.next ]
  %v103 = phi <4 x i32> [ %v73, %v84.before ], [ %v179, %v84.next ]
  %v104 = phi <4 x i32> [ %v74, %v84.before ], [ %v185, %v84.next ]
  %v105 = phi <4 x i32> [ %v75, %v84.before ], [ %v186, %v84.next ]
  %v106 = phi <4 x i32> [ %v76, %v84.before ], [ %v192, %v84.next ]
  %v107 = phi <4 x i32> [ %v77, %v84.before ], [ %v193, %v84.next ]
  %v108 = phi <4 x i32> [ %v78, %v84.before ], [ %v199, %v84.next ]
  %v109 = phi <4 x i32> [ %v79, %v84.before ], [ %v200, %v84.next ]
  %v110 = phi ptr [ %v80, %v84.before ], [ %v201, %v84.next ]
  %v111 = phi ptr [ %v82, %v84.before ], [ %v202, %v84.next ]
  %v112 = phi ptr [ %v83, %v84.before ], [ %v203, %v84.next ]
  %v113 = phi ptr [ %v81, %v84.before ], [ %v204, %v84.next ]
  %v114 = load <4 x i32>, ptr %v113, align 16
  %v115 = getelementptr i8, ptr %v113, i64 16
  %v116 = load <4 x i32>, ptr %v115, align 16
  %v117 = load i32, ptr %v110, align 1
  %v118 = insertelement <4 x i32> poison, i32 %v117, i64 0
  %v119 = shufflevector <4 x i32> %v118, <4 x i32> poison, <4 x i32> zeroinitializer
  %v120 = bitcast <4 x i32> %v119 to <16 x i8>
  %v121 = bitcast <4 x i32> %v114 to <16 x i8>
  %v122 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v86, <16 x i8> %v120, <16 x i8> %v121)
  %v123 = bitcast <4 x i32> %v116 to <16 x i8>
  %v124 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v87, <16 x i8> %v120, <16 x i8> %v123)
  %v125 = getelementptr i8, ptr %v110, i64 %v1
  %v126 = load i32, ptr %v125, align 1
  %v127 = insertelement <4 x i32> poison, i32 %v126, i64 0
  %v128 = shufflevector <4 x i32> %v127, <4 x i32> poison, <4 x i32> zeroinitializer
  %v129 = bitcast <4 x i32> %v128 to <16 x i8>
  %v130 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v88, <16 x i8> %v129, <16 x i8> %v121)
  %v131 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v89, <16 x i8> %v129, <16 x i8> %v123)
  %v132 = getelementptr i16, ptr %v110, i64 %v1
  %v133 = load i32, ptr %v132, align 1
  %v134 = insertelement <4 x i32> poison, i32 %v133, i64 0
  %v135 = shufflevector <4 x i32> %v134, <4 x i32> poison, <4 x i32> zeroinitializer
  %v136 = bitcast <4 x i32> %v135 to <16 x i8>
  %v137 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v90, <16 x i8> %v136, <16 x i8> %v121)
  %v138 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v91, <16 x i8> %v136, <16 x i8> %v123)
  %v140 = getelementptr i8, ptr %v110, i64 %v139
  %v141 = load i32, ptr %v140, align 1
  %v142 = insertelement <4 x i32> poison, i32 %v141, i64 0
  %v143 = shufflevector <4 x i32> %v142, <4 x i32> poison, <4 x i32> zeroinitializer
  %v144 = bitcast <4 x i32> %v143 to <16 x i8>
  %v145 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v92, <16 x i8> %v144, <16 x i8> %v121)
  %v146 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v93, <16 x i8> %v144, <16 x i8> %v123)
  %v147 = load i32, ptr %v111, align 1
  %v148 = insertelement <4 x i32> poison, i32 %v147, i64 0
  %v149 = shufflevector <4 x i32> %v148, <4 x i32> poison, <4 x i32> zeroinitializer
  %v150 = bitcast <4 x i32> %v149 to <16 x i8>
  %v151 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v94, <16 x i8> %v150, <16 x i8> %v121)
  %v152 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v95, <16 x i8> %v150, <16 x i8> %v123)
  %v153 = getelementptr i8, ptr %v111, i64 %v1
  %v154 = load i32, ptr %v153, align 1
  %v155 = insertelement <4 x i32> poison, i32 %v154, i64 0
  %v156 = shufflevector <4 x i32> %v155, <4 x i32> poison, <4 x i32> zeroinitializer
  %v157 = bitcast <4 x i32> %v156 to <16 x i8>
  %v158 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v96, <16 x i8> %v157, <16 x i8> %v121)
  %v159 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v97, <16 x i8> %v157, <16 x i8> %v123)
  %v160 = getelementptr i16, ptr %v111, i64 %v1
  %v161 = load i32, ptr %v160, align 1
  %v162 = insertelement <4 x i32> poison, i32 %v161, i64 0
  %v163 = shufflevector <4 x i32> %v162, <4 x i32> poison, <4 x i32> zeroinitializer
  %v164 = bitcast <4 x i32> %v163 to <16 x i8>
  %v165 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v98, <16 x i8> %v164, <16 x i8> %v121)
  %v166 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v99, <16 x i8> %v164, <16 x i8> %v123)
  %v167 = getelementptr i8, ptr %v111, i64 %v139
  %v168 = load i32, ptr %v167, align 1
  %v169 = insertelement <4 x i32> poison, i32 %v168, i64 0
  %v170 = shufflevector <4 x i32> %v169, <4 x i32> poison, <4 x i32> zeroinitializer
  %v171 = bitcast <4 x i32> %v170 to <16 x i8>
  %v172 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v100, <16 x i8> %v171, <16 x i8> %v121)
  %v173 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v101, <16 x i8> %v171, <16 x i8> %v123)
  %v174 = load i32, ptr %v112, align 1
  %v175 = insertelement <4 x i32> poison, i32 %v174, i64 0
  %v176 = shufflevector <4 x i32> %v175, <4 x i32> poison, <4 x i32> zeroinitializer
  %v177 = bitcast <4 x i32> %v176 to <16 x i8>
  %v178 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v102, <16 x i8> %v177, <16 x i8> %v121)
  %v179 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v103, <16 x i8> %v177, <16 x i8> %v123)
  %v180 = getelementptr i8, ptr %v112, i64 %v1
  %v181 = load i32, ptr %v180, align 1
  %v182 = insertelement <4 x i32> poison, i32 %v181, i64 0
  %v183 = shufflevector <4 x i32> %v182, <4 x i32> poison, <4 x i32> zeroinitializer
  %v184 = bitcast <4 x i32> %v183 to <16 x i8>
  %v185 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v104, <16 x i8> %v184, <16 x i8> %v121)
  %v186 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v105, <16 x i8> %v184, <16 x i8> %v123)
  %v187 = getelementptr i16, ptr %v112, i64 %v1
  %v188 = load i32, ptr %v187, align 1
  %v189 = insertelement <4 x i32> poison, i32 %v188, i64 0
  %v190 = shufflevector <4 x i32> %v189, <4 x i32> poison, <4 x i32> zeroinitializer
  %v191 = bitcast <4 x i32> %v190 to <16 x i8>
  %v192 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v106, <16 x i8> %v191, <16 x i8> %v121)
  %v193 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v107, <16 x i8> %v191, <16 x i8> %v123)
  %v194 = getelementptr i8, ptr %v112, i64 %v139
  %v195 = load i32, ptr %v194, align 1
  %v196 = insertelement <4 x i32> poison, i32 %v195, i64 0
  %v197 = shufflevector <4 x i32> %v196, <4 x i32> poison, <4 x i32> zeroinitializer
  %v198 = bitcast <4 x i32> %v197 to <16 x i8>
  %v199 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v108, <16 x i8> %v198, <16 x i8> %v121)
  %v200 = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %v109, <16 x i8> %v198, <16 x i8> %v123)
  %v201 = getelementptr i8, ptr %v110, i64 4
  %v202 = getelementptr i8, ptr %v111, i64 4
  %v203 = getelementptr i8, ptr %v112, i64 4
  %v204 = getelementptr i8, ptr %v113, i64 32
  br label %v84.next
v84.next:
  %v205 = add i64 %v85, 1
  %v205.more = icmp slt i64 %v205, %v11
  br i1 %v205.more, label %v84, label %v84.after
v84.after:
  %v206 = getelementptr i8, ptr %v80, i64 %v9
  br label %v54.next
v54.next:
  %v207 = add i64 %v55, 1
  %v207.more = icmp slt i64 %v207, %v7
  br i1 %v207.more, label %v54, label %v54.after
v54.after:
  %v208 = getelementptr i8, ptr %v51, i64 %v5
  br label %v25.next
v25.next:
  %v209 = add i64 %v26, 1
  %v209.more = icmp slt i64 %v209, %v3
  br i1 %v209.more, label %v25, label %v25.after
v25.after:
  store <4 x i32> %v122, ptr %totals, align 16
  %v210 = getelementptr i8, ptr %totals, i64 16
  store <4 x i32> %v124, ptr %v210, align 16
  %v211 = getelementptr i8, ptr %totals, i64 32
  store <4 x i32> %v130, ptr %v211, align 16
  %v212 = getelementptr i8, ptr %totals, i64 48
  store <4 x i32> %v131, ptr %v212, align 16
  %v213 = getelementptr i8, ptr %totals, i64 64
  store <4 x i32> %v137, ptr %v213, align 16
  %v214 = getelementptr i8, ptr %totals, i64 80
  store <4 x i32> %v138, ptr %v214, align 16
  %v215 = getelementptr i8, ptr %totals, i64 96
  store <4 x i32> %v145, ptr %v215, align 16
  %v216 = getelementptr i8, ptr %totals, i64 112
  store <4 x i32> %v146, ptr %v216, align 16
  %v217 = getelementptr i8, ptr %totals, i64 128
  store <4 x i32> %v151, ptr %v217, align 16
  %v218 = getelementptr i8, ptr %totals, i64 144
  store <4 x i32> %v152, ptr %v218, align 16
  %v219 = getelementptr i8, ptr %totals, i64 160
  store <4 x i32> %v158, ptr %v219, align 16
  %v220 = getelementptr i8, ptr %totals, i64 176
  store <4 x i32> %v159, ptr %v220, align 16
  %v221 = getelementptr i8, ptr %totals, i64 192
  store <4 x i32> %v165, ptr %v221, align 16
  %v222 = getelementptr i8, ptr %totals, i64 208
  store <4 x i32> %v166, ptr %v222, align 16
  %v223 = getelementptr i8, ptr %totals, i64 224
  store <4 x i32> %v172, ptr %v223, align 16
  %v224 = getelementptr i8, ptr %totals, i64 240
  store <4 x i32> %v173, ptr %v224, align 16
  %v225 = getelementptr i8, ptr %totals, i64 256
  store <4 x i32> %v178, ptr %v225, align 16
  %v226 = getelementptr i8, ptr %totals, i64 272
  store <4 x i32> %v179, ptr %v226, align 16
  %v227 = getelementptr i8, ptr %totals, i64 288
  store <4 x i32> %v185, ptr %v227, align 16
  %v228 = getelementptr i8, ptr %totals, i64 304
  store <4 x i32> %v186, ptr %v228, align 16
  %v229 = getelementptr i8, ptr %totals, i64 320
  store <4 x i32> %v192, ptr %v229, align 16
  %v230 = getelementptr i8, ptr %totals, i64 336
  store <4 x i32> %v193, ptr %v230, align 16
  %v231 = getelementptr i8, ptr %totals, i64 352
  store <4 x i32> %v199, ptr %v231, align 16
  %v232 = getelementptr i8, ptr %totals, i64 368
  store <4 x i32> %v200, ptr %v232, align 16
  ret void
}


; int8, 12 positions by 2 vectors of 4
declare <4 x i32> @llvm.smax.v4i32(<4 x i32>, <4 x i32>)
declare <4 x i32> @llvm.smin.v4i32(<4 x i32>, <4 x i32>)
declare i64 @llvm.smin.i64(i64, i64)
declare void @sd9a90675c1deb94c(ptr, ptr, ptr, ptr, ptr, ptr)
@k104c2a1ac57baadf.tile0 = private unnamed_addr constant [16 x i64] [i64 8, i64 8, i64 160, i64 0, i64 0, i64 1, i64 8, i64 1, i64 8, i64 0, i64 2, i64 1, i64 0, i64 160, i64 0, i64 2]
define void @k104c2a1ac57baadf(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v97, %v1.next ]
  %v97.more = icmp slt i64 %v2, %end
  br i1 %v97.more, label %v1.turn, label %v1.after
v1.turn:
  %v3 = add i64 %v2, 1
  %v4 = call i64 @llvm.smin.i64(i64 %v3, i64 %end)
  %v5 = mul i64 %v2, 12
  %v6 = mul i64 %v4, 12
  %v7 = call i64 @llvm.smin.i64(i64 %v6, i64 12)
  %v8 = mul i64 %v5, 8
  %v9 = getelementptr i8, ptr %a1, i64 %v8
  %v10 = getelementptr i8, ptr %a2, i64 128
  br label %v11.before
v11.before:
  br label %v11
v11:
  %v12 = phi i64 [ %v2, %v11.before ], [ %v96, %v11.next ]
  %v96.more = icmp slt i64 %v12, %v4
  br i1 %v96.more, label %v11.turn, label %v11.after
v11.turn:
  %v13 = mul i64 %v12, 12
  %v14 = sub i64 %v13, %v5
  %v15 = mul i64 %v14, 8
  %v16 = getelementptr i8, ptr %v9, i64 %v15
  %v17 = sub i64 %v12, %v2
  %v18 = getelementptr i8, ptr %v10, i64 224
  call void @sd9a90675c1deb94c(ptr %v16, ptr %v10, ptr %v18, ptr null, ptr %scratch, ptr @k104c2a1ac57baadf.tile0)
  %v19 = getelementptr i8, ptr %v10, i64 32
  %v20 = getelementptr i8, ptr %v10, i64 48
  %v21 = load <4 x i32>, ptr %v19, align 16
  %v22 = load <4 x i32>, ptr %v20, align 16
  %v23 = getelementptr i8, ptr %v10, i64 64
  %v24 = getelementptr i8, ptr %v10, i64 80
  %v25 = load <4 x i32>, ptr %v23, align 16
  %v26 = load <4 x i32>, ptr %v24, align 16
  %v27 = getelementptr i8, ptr %v10, i64 96
  %v28 = getelementptr i8, ptr %v10, i64 112
  %v29 = load <4 x i32>, ptr %v27, align 16
  %v30 = load <4 x i32>, ptr %v28, align 16
  %v31 = getelementptr i8, ptr %v10, i64 128
  %v32 = getelementptr i8, ptr %v10, i64 144
  %v33 = load <4 x i32>, ptr %v31, align 16
  %v34 = load <4 x i32>, ptr %v32, align 16
  %v44 = bitcast <4 x i32> %v21 to <2 x i64>
  %v45 = bitcast <4 x i32> %v25 to <2 x i64>
  %v47 = and <2 x i64> %v44, splat (i64 4294967295)
  %v49 = lshr <2 x i64> %v44, splat (i64 32)
  %v50 = shl <2 x i64> %v45, splat (i64 32)
  %v51 = and <2 x i64> %v45, splat (i64 -4294967296)
  %v53 = or <2 x i64> %v50, splat (i64 2147483648)
  %v57 = or <2 x i64> %v51, splat (i64 2147483648)
  %v70 = bitcast <4 x i32> %v22 to <2 x i64>
  %v71 = bitcast <4 x i32> %v26 to <2 x i64>
  %v73 = and <2 x i64> %v70, splat (i64 4294967295)
  %v75 = lshr <2 x i64> %v70, splat (i64 32)
  %v76 = shl <2 x i64> %v71, splat (i64 32)
  %v77 = and <2 x i64> %v71, splat (i64 -4294967296)
  %v79 = or <2 x i64> %v76, splat (i64 2147483648)
  %v83 = or <2 x i64> %v77, splat (i64 2147483648)
  br label %v35.before
v35.before:
  br label %v35
v35:
  %v36 = phi i64 [ 0, %v35.before ], [ %v95, %v35.next ]
  %v37 = mul i64 %v36, 32
  %v38 = getelementptr i8, ptr %scratch, i64 %v37
  %v39 = getelementptr i8, ptr %v38, i64 16
  %v40 = load <4 x i32>, ptr %v38, align 16
  %v41 = load <4 x i32>, ptr %v39, align 16
  %v42 = add i64 %v13, %v36
  %v43 = bitcast <4 x i32> %v40 to <2 x i64>
  %v46 = and <2 x i64> %v43, splat (i64 4294967295)
  %v48 = lshr <2 x i64> %v43, splat (i64 32)
  %v52 = mul <2 x i64> %v46, %v47
  %v54 = add <2 x i64> %v52, %v53
  %v55 = bitcast <2 x i64> %v54 to <4 x i32>
  %v56 = mul <2 x i64> %v48, %v49
  %v58 = add <2 x i64> %v56, %v57
  %v59 = bitcast <2 x i64> %v58 to <4 x i32>
  %v60 = shufflevector <4 x i32> %v55, <4 x i32> %v59, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v61 = lshr <4 x i32> %v40, splat (i32 31)
  %v62 = add <4 x i32> %v60, %v61
  %v63 = ashr <4 x i32> %v62, %v33
  %v64 = call <4 x i32> @llvm.smax.v4i32(<4 x i32> %v63, <4 x i32> splat (i32 -128))
  %v65 = call <4 x i32> @llvm.smin.v4i32(<4 x i32> %v64, <4 x i32> splat (i32 127))
  %v66 = trunc <4 x i32> %v65 to <4 x i8>
  %v67 = mul i64 %v42, 8
  %v68 = getelementptr i8, ptr %a0, i64 %v67
  store <4 x i8> %v66, ptr %v68, align 1
  %v69 = bitcast <4 x i32> %v41 to <2 x i64>
  %v72 = and <2 x i64> %v69, splat (i64 4294967295)
  %v74 = lshr <2 x i64> %v69, splat (i64 32)
  %v78 = mul <2 x i64> %v72, %v73
  %v80 = add <2 x i64> %v78, %v79
  %v81 = bitcast <2 x i64> %v80 to <4 x i32>
  %v82 = mul <2 x i64> %v74, %v75
  %v84 = add <2 x i64> %v82, %v83
  %v85 = bitcast <2 x i64> %v84 to <4 x i32>
  %v86 = shufflevector <4 x i32> %v81, <4 x i32> %v85, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v87 = lshr <4 x i32> %v41, splat (i32 31)
  %v88 = add <4 x i32> %v86, %v87
  %v89 = ashr <4 x i32> %v88, %v34
  %v90 = call <4 x i32> @llvm.smax.v4i32(<4 x i32> %v89, <4 x i32> splat (i32 -128))
  %v91 = call <4 x i32> @llvm.smin.v4i32(<4 x i32> %v90, <4 x i32> splat (i32 127))
  %v92 = trunc <4 x i32> %v91 to <4 x i8>
  %v93 = add i64 %v67, 4
  %v94 = getelementptr i8, ptr %a0, i64 %v93
  store <4 x i8> %v92, ptr %v94, align 1
  br label %v35.next
v35.next:
  %v95 = add i64 %v36, 1
  %v95.more = icmp slt i64 %v95, 12
  br i1 %v95.more, label %v35, label %v35.after
v35.after:
  br label %v11.next
v11.next:
  %v96 = add i64 %v12, 1
  br label %v11
v11.after:
  br label %v1.next
v1.next:
  %v97 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

