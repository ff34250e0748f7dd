; int8, 12 positions by 1 vectors of 16
declare <16 x float> @llvm.x86.avx512.vfmadd.ps.512(<16 x float>, <16 x float>, <16 x float>, i32)
declare <16 x i32> @llvm.smax.v16i32(<16 x i32>, <16 x i32>)
declare <16 x i32> @llvm.smin.v16i32(<16 x i32>, <16 x i32>)
declare <16 x i32> @llvm.x86.avx512.mask.cvtps2dq.512(<16 x float>, <16 x i32>, i16, i32)
declare <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <64 x i8>, <64 x i8>)
declare i64 @llvm.smin.i64(i64, i64)
define internal void @k1f9c4835546b81d7.sums12(ptr %source, ptr %panel, ptr %ahead, ptr %common, ptr %totals) noinline nounwind {
  %v1 = load <16 x i32>, ptr %panel, align 64
  %v2 = getelementptr i8, ptr %panel, i64 256
  %v3 = load <16 x i32>, ptr %v2, align 64
  %v4 = load i32, ptr %source, align 1
  %v5 = insertelement <16 x i32> poison, i32 %v4, i64 0
  %v6 = shufflevector <16 x i32> %v5, <16 x i32> poison, <16 x i32> zeroinitializer
  %v7 = bitcast <16 x i32> %v6 to <64 x i8>
  %v8 = bitcast <16 x i32> %v3 to <64 x i8>
  %v9 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v7, <64 x i8> %v8)
  %v10 = getelementptr i8, ptr %source, i64 8
  %v11 = load i32, ptr %v10, align 1
  %v12 = insertelement <16 x i32> poison, i32 %v11, i64 0
  %v13 = shufflevector <16 x i32> %v12, <16 x i32> poison, <16 x i32> zeroinitializer
  %v14 = bitcast <16 x i32> %v13 to <64 x i8>
  %v15 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v14, <64 x i8> %v8)
  %v16 = getelementptr i8, ptr %source, i64 16
  %v17 = load i32, ptr %v16, align 1
  %v18 = insertelement <16 x i32> poison, i32 %v17, i64 0
  %v19 = shufflevector <16 x i32> %v18, <16 x i32> poison, <16 x i32> zeroinitializer
  %v20 = bitcast <16 x i32> %v19 to <64 x i8>
  %v21 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v20, <64 x i8> %v8)
  %v22 = getelementptr i8, ptr %source, i64 24
  %v23 = load i32, ptr %v22, align 1
  %v24 = insertelement <16 x i32> poison, i32 %v23, i64 0
  %v25 = shufflevector <16 x i32> %v24, <16 x i32> poison, <16 x i32> zeroinitializer
  %v26 = bitcast <16 x i32> %v25 to <64 x i8>
  %v27 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v26, <64 x i8> %v8)
  %v28 = getelementptr i8, ptr %source, i64 32
  %v29 = load i32, ptr %v28, align 1
  %v30 = insertelement <16 x i32> poison, i32 %v29, i64 0
  %v31 = shufflevector <16 x i32> %v30, <16 x i32> poison, <16 x i32> zeroinitializer
  %v32 = bitcast <16 x i32> %v31 to <64 x i8>
  %v33 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v32, <64 x i8> %v8)
  %v34 = getelementptr i8, ptr %source, i64 40
  %v35 = load i32, ptr %v34, align 1
  %v36 = insertelement <16 x i32> poison, i32 %v35, i64 0
  %v37 = shufflevector <16 x i32> %v36, <16 x i32> poison, <16 x i32> zeroinitializer
  %v38 = bitcast <16 x i32> %v37 to <64 x i8>
  %v39 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v38, <64 x i8> %v8)
  %v40 = getelementptr i8, ptr %source, i64 48
  %v41 = load i32, ptr %v40, align 1
  %v42 = insertelement <16 x i32> poison, i32 %v41, i64 0
  %v43 = shufflevector <16 x i32> %v42, <16 x i32> poison, <16 x i32> zeroinitializer
  %v44 = bitcast <16 x i32> %v43 to <64 x i8>
  %v45 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v44, <64 x i8> %v8)
  %v46 = getelementptr i8, ptr %source, i64 56
  %v47 = load i32, ptr %v46, align 1
  %v48 = insertelement <16 x i32> poison, i32 %v47, i64 0
  %v49 = shufflevector <16 x i32> %v48, <16 x i32> poison, <16 x i32> zeroinitializer
  %v50 = bitcast <16 x i32> %v49 to <64 x i8>
  %v51 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v50, <64 x i8> %v8)
  %v52 = getelementptr i8, ptr %source, i64 64
  %v53 = load i32, ptr %v52, align 1
  %v54 = insertelement <16 x i32> poison, i32 %v53, i64 0
  %v55 = shufflevector <16 x i32> %v54, <16 x i32> poison, <16 x i32> zeroinitializer
  %v56 = bitcast <16 x i32> %v55 to <64 x i8>
  %v57 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v56, <64 x i8> %v8)
  %v58 = getelementptr i8, ptr %source, i64 72
  %v59 = load i32, ptr %v58, align 1
  %v60 = insertelement <16 x i32> poison, i32 %v59, i64 0
  %v61 = shufflevector <16 x i32> %v60, <16 x i32> poison, <16 x i32> zeroinitializer
  %v62 = bitcast <16 x i32> %v61 to <64 x i8>
  %v63 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v62, <64 x i8> %v8)
  %v64 = getelementptr i8, ptr %source, i64 80
  %v65 = load i32, ptr %v64, align 1
  %v66 = insertelement <16 x i32> poison, i32 %v65, i64 0
  %v67 = shufflevector <16 x i32> %v66, <16 x i32> poison, <16 x i32> zeroinitializer
  %v68 = bitcast <16 x i32> %v67 to <64 x i8>
  %v69 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v68, <64 x i8> %v8)
  %v70 = getelementptr i8, ptr %source, i64 88
  %v71 = load i32, ptr %v70, align 1
  %v72 = insertelement <16 x i32> poison, i32 %v71, i64 0
  %v73 = shufflevector <16 x i32> %v72, <16 x i32> poison, <16 x i32> zeroinitializer
  %v74 = bitcast <16 x i32> %v73 to <64 x i8>
  %v75 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v1, <64 x i8> %v74, <64 x i8> %v8)
  %v76 = getelementptr i8, ptr %v2, i64 64
  %v77 = load <16 x i32>, ptr %v76, align 64
  %v78 = getelementptr i8, ptr %source, i64 4
  %v79 = load i32, ptr %v78, align 1
  %v80 = insertelement <16 x i32> poison, i32 %v79, i64 0
  %v81 = shufflevector <16 x i32> %v80, <16 x i32> poison, <16 x i32> zeroinitializer
  %v82 = bitcast <16 x i32> %v81 to <64 x i8>
  %v83 = bitcast <16 x i32> %v77 to <64 x i8>
  %v84 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v9, <64 x i8> %v82, <64 x i8> %v83)
  %v85 = getelementptr i8, ptr %source, i64 12
  %v86 = load i32, ptr %v85, align 1
  %v87 = insertelement <16 x i32> poison, i32 %v86, i64 0
  %v88 = shufflevector <16 x i32> %v87, <16 x i32> poison, <16 x i32> zeroinitializer
  %v89 = bitcast <16 x i32> %v88 to <64 x i8>
  %v90 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v15, <64 x i8> %v89, <64 x i8> %v83)
  %v91 = getelementptr i8, ptr %source, i64 20
  %v92 = load i32, ptr %v91, align 1
  %v93 = insertelement <16 x i32> poison, i32 %v92, i64 0
  %v94 = shufflevector <16 x i32> %v93, <16 x i32> poison, <16 x i32> zeroinitializer
  %v95 = bitcast <16 x i32> %v94 to <64 x i8>
  %v96 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v21, <64 x i8> %v95, <64 x i8> %v83)
  %v97 = getelementptr i8, ptr %source, i64 28
  %v98 = load i32, ptr %v97, align 1
  %v99 = insertelement <16 x i32> poison, i32 %v98, i64 0
  %v100 = shufflevector <16 x i32> %v99, <16 x i32> poison, <16 x i32> zeroinitializer
  %v101 = bitcast <16 x i32> %v100 to <64 x i8>
  %v102 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v27, <64 x i8> %v101, <64 x i8> %v83)
  %v103 = getelementptr i8, ptr %source, i64 36
  %v104 = load i32, ptr %v103, align 1
  %v105 = insertelement <16 x i32> poison, i32 %v104, i64 0
  %v106 = shufflevector <16 x i32> %v105, <16 x i32> poison, <16 x i32> zeroinitializer
  %v107 = bitcast <16 x i32> %v106 to <64 x i8>
  %v108 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v33, <64 x i8> %v107, <64 x i8> %v83)
  %v109 = getelementptr i8, ptr %source, i64 44
  %v110 = load i32, ptr %v109, align 1
  %v111 = insertelement <16 x i32> poison, i32 %v110, i64 0
  %v112 = shufflevector <16 x i32> %v111, <16 x i32> poison, <16 x i32> zeroinitializer
  %v113 = bitcast <16 x i32> %v112 to <64 x i8>
  %v114 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v39, <64 x i8> %v113, <64 x i8> %v83)
  %v115 = getelementptr i8, ptr %source, i64 52
  %v116 = load i32, ptr %v115, align 1
  %v117 = insertelement <16 x i32> poison, i32 %v116, i64 0
  %v118 = shufflevector <16 x i32> %v117, <16 x i32> poison, <16 x i32> zeroinitializer
  %v119 = bitcast <16 x i32> %v118 to <64 x i8>
  %v120 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v45, <64 x i8> %v119, <64 x i8> %v83)
  %v121 = getelementptr i8, ptr %source, i64 60
  %v122 = load i32, ptr %v121, align 1
  %v123 = insertelement <16 x i32> poison, i32 %v122, i64 0
  %v124 = shufflevector <16 x i32> %v123, <16 x i32> poison, <16 x i32> zeroinitializer
  %v125 = bitcast <16 x i32> %v124 to <64 x i8>
  %v126 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v51, <64 x i8> %v125, <64 x i8> %v83)
  %v127 = getelementptr i8, ptr %source, i64 68
  %v128 = load i32, ptr %v127, align 1
  %v129 = insertelement <16 x i32> poison, i32 %v128, i64 0
  %v130 = shufflevector <16 x i32> %v129, <16 x i32> poison, <16 x i32> zeroinitializer
  %v131 = bitcast <16 x i32> %v130 to <64 x i8>
  %v132 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v57, <64 x i8> %v131, <64 x i8> %v83)
  %v133 = getelementptr i8, ptr %source, i64 76
  %v134 = load i32, ptr %v133, align 1
  %v135 = insertelement <16 x i32> poison, i32 %v134, i64 0
  %v136 = shufflevector <16 x i32> %v135, <16 x i32> poison, <16 x i32> zeroinitializer
  %v137 = bitcast <16 x i32> %v136 to <64 x i8>
  %v138 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v63, <64 x i8> %v137, <64 x i8> %v83)
  %v139 = getelementptr i8, ptr %source, i64 84
  %v140 = load i32, ptr %v139, align 1
  %v141 = insertelement <16 x i32> poison, i32 %v140, i64 0
  %v142 = shufflevector <16 x i32> %v141, <16 x i32> poison, <16 x i32> zeroinitializer
  %v143 = bitcast <16 x i32> %v142 to <64 x i8>
  %v144 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v69, <64 x i8> %v143, <64 x i8> %v83)
  %v145 = getelementptr i8, ptr %source, i64 92
  %v146 = load i32, ptr %v145, align 1
  %v147 = insertelement <16 x i32> poison, i32 %v146, i64 0
  %v148 = shufflevector <16 x i32> %v147, <16 x i32> poison, <16 x i32> zeroinitializer
  %v149 = bitcast <16 x i32> %v148 to <64 x i8>
  %v150 = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %v75, <64 x i8> %v149, <64 x i8> %v83)
  store <16 x i32> %v84, ptr %totals, align 64
  %v151 = getelementptr i8, ptr %totals, i64 64
  store <16 x i32> %v90, ptr %v151, align 64
  %v152 = getelementptr i8, ptr %totals, i64 128
  store <16 x i32> %v96, ptr %v152, align 64
  %v153 = getelementptr i8, ptr %totals, i64 192
  store <16 x i32> %v102, ptr %v153, align 64
  %v154 = getelementptr i8, ptr %totals, i64 256
  store <16 x i32> %v108, ptr %v154, align 64
  %v155 = getelementptr i8, ptr %totals, i64 320
  store <16 x i32> %v114, ptr %v155, align 64
  %v156 = getelementptr i8, ptr %totals, i64 384
  store <16 x i32> %v120, ptr %v156, align 64
  %v157 = getelementptr i8, ptr %totals, i64 448
  store <16 x i32> %v126, ptr %v157, align 64
  %v158 = getelementptr i8, ptr %totals, i64 512
  store <16 x i32> %v132, ptr %v158, align 64
  %v159 = getelementptr i8, ptr %totals, i64 576
  store <16 x i32> %v138, ptr %v159, align 64
  %v160 = getelementptr i8, ptr %totals, i64 640
  store <16 x i32> %v144, ptr %v160, align 64
  %v161 = getelementptr i8, ptr %totals, i64 704
  store <16 x i32> %v150, ptr %v161, align 64
  ret void
}
define void @k1f9c4835546b81d7(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v34 = call i64 @llvm.smin.i64(i64 0, i64 0)
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v76, %v1.next ]
  %v76.more = icmp slt i64 %v2, %end
  br i1 %v76.more, label %v1.turn, label %v1.after
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
  %v13 = phi i64 [ 0, %v12.before ], [ %v24, %v12.next ]
  %v24.more = icmp slt i64 %v13, %v11
  br i1 %v24.more, label %v12.turn, label %v12.after
v12.turn:
  %v14 = mul i64 %v13, 8
  %v15 = add i64 %v9, %v14
  %v16 = getelementptr i8, ptr %a1, i64 %v15
  %v17 = getelementptr i8, ptr %scratch, i64 %v14
  %v18 = load <64 x i8>, ptr %v16, align 1
  %v19 = xor <64 x i8> %v18, splat (i8 -128)
  store <64 x i8> %v19, ptr %v17, align 1
  %v20 = getelementptr i8, ptr %v16, i64 64
  %v21 = load <32 x i8>, ptr %v20, align 1
  %v22 = xor <32 x i8> %v21, splat (i8 -128)
  %v23 = getelementptr i8, ptr %v17, i64 64
  store <32 x i8> %v22, ptr %v23, align 1
  br label %v12.next
v12.next:
  %v24 = add i64 %v13, 12
  br label %v12
v12.after:
  br label %v25.before
v25.before:
  br label %v25
v25:
  %v26 = phi i64 [ %v11, %v25.before ], [ %v33, %v25.next ]
  %v33.more = icmp slt i64 %v26, %v8
  br i1 %v33.more, label %v25.turn, label %v25.after
v25.turn:
  %v27 = mul i64 %v26, 8
  %v28 = add i64 %v9, %v27
  %v29 = getelementptr i8, ptr %a1, i64 %v28
  %v30 = getelementptr i8, ptr %scratch, i64 %v27
  %v31 = load <8 x i8>, ptr %v29, align 1
  %v32 = xor <8 x i8> %v31, splat (i8 -128)
  store <8 x i8> %v32, ptr %v30, align 1
  br label %v25.next
v25.next:
  %v33 = add i64 %v26, 1
  br label %v25
v25.after:
  %v35 = getelementptr i8, ptr %a2, i64 128
  br label %v36.before
v36.before:
  br label %v36
v36:
  %v37 = phi i64 [ %v2, %v36.before ], [ %v75, %v36.next ]
  %v75.more = icmp slt i64 %v37, %v4
  br i1 %v75.more, label %v36.turn, label %v36.after
v36.turn:
  %v38 = mul i64 %v37, 12
  %v39 = sub i64 %v38, %v5
  %v40 = mul i64 %v39, 8
  %v41 = getelementptr i8, ptr %scratch, i64 %v40
  %v42 = sub i64 %v37, %v2
  %v43 = getelementptr i8, ptr %v35, i64 384
  %v44 = getelementptr i8, ptr %scratch, i64 256
  call void @k1f9c4835546b81d7.sums12(ptr %v41, ptr %v35, ptr %v43, ptr null, ptr %v44)
  %v45 = getelementptr i8, ptr %scratch, i64 256
  %v46 = getelementptr i8, ptr %v35, i64 64
  %v47 = load <16 x i32>, ptr %v46, align 64
  %v48 = getelementptr i8, ptr %v35, i64 128
  %v49 = load <16 x i32>, ptr %v48, align 64
  %v50 = getelementptr i8, ptr %v35, i64 192
  %v51 = load <16 x i32>, ptr %v50, align 64
  %v61 = bitcast <16 x i32> %v49 to <16 x float>
  %v65 = ashr <16 x i32> %v47, splat (i32 16)
  br label %v52.before
v52.before:
  br label %v52
v52:
  %v53 = phi i64 [ 0, %v52.before ], [ %v74, %v52.next ]
  %v54 = mul i64 %v53, 64
  %v55 = getelementptr i8, ptr %v45, i64 %v54
  %v56 = load <16 x i32>, ptr %v55, align 64
  %v57 = add i64 %v38, %v53
  %v58 = and <16 x i32> %v56, splat (i32 -2147483648)
  %v59 = or <16 x i32> %v58, %v51
  %v60 = sitofp <16 x i32> %v56 to <16 x float>
  %v62 = bitcast <16 x i32> %v59 to <16 x float>
  %v63 = call <16 x float> @llvm.x86.avx512.vfmadd.ps.512(<16 x float> %v60, <16 x float> %v61, <16 x float> %v62, i32 11)
  %v64 = call <16 x i32> @llvm.x86.avx512.mask.cvtps2dq.512(<16 x float> %v63, <16 x i32> zeroinitializer, i16 -1, i32 11)
  %v66 = add <16 x i32> %v64, %v65
  %v67 = call <16 x i32> @llvm.smax.v16i32(<16 x i32> %v66, <16 x i32> splat (i32 -128))
  %v68 = call <16 x i32> @llvm.smin.v16i32(<16 x i32> %v67, <16 x i32> splat (i32 127))
  %v69 = trunc <16 x i32> %v68 to <16 x i8>
  %v70 = mul i64 %v57, 8
  %v71 = add i64 %v70, %v34
  %v72 = getelementptr i8, ptr %a0, i64 %v71
  %v73 = shufflevector <16 x i8> %v69, <16 x i8> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  store <8 x i8> %v73, ptr %v72, align 1
  br label %v52.next
v52.next:
  %v74 = add i64 %v53, 1
  %v74.more = icmp slt i64 %v74, 12
  br i1 %v74.more, label %v52, label %v52.after
v52.after:
  br label %v36.next
v36.next:
  %v75 = add i64 %v37, 1
  br label %v36
v36.after:
  br label %v1.next
v1.next:
  %v76 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

