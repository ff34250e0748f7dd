define void @s18b5a871487f1281(ptr %source, ptr %target, ptr %value, i64 %first, i64 %last, i64 %height, i64 %row, i64 %packed, i64 %before, i64 %count, i64 %left, i64 %right, i64 %whole) nounwind {
  %v1 = load <32 x i8>, ptr %value, align 32
  %v18 = and i64 %count, -64
  %v45 = sub i64 %count, 16
  %v56 = mul i64 %v45, 2
  %v61 = mul i64 %count, 2
  br label %v2.before
v2.before:
  br label %v2
v2:
  %v3 = phi i64 [ %first, %v2.before ], [ %v68, %v2.next ]
  %v68.more = icmp slt i64 %v3, %last
  br i1 %v68.more, label %v2.turn, label %v2.after
v2.turn:
  %v4 = sub i64 %v3, %first
  %v5 = mul i64 %v4, %packed
  %v6 = getelementptr i8, ptr %target, i64 %v5
  %v7 = icmp ult i64 %v3, %height
  %v8 = select i1 %v7, i64 %left, i64 %whole
  br label %v9.before
v9.before:
  br label %v9
v9:
  %v10 = phi i64 [ 0, %v9.before ], [ %v13, %v9.next ]
  %v13.more = icmp slt i64 %v10, %v8
  br i1 %v13.more, label %v9.turn, label %v9.after
v9.turn:
  %v11 = mul i64 %v10, 32
  %v12 = getelementptr i8, ptr %v6, i64 %v11
  store <32 x i8> %v1, ptr %v12, align 1
  br label %v9.next
v9.next:
  %v13 = add i64 %v10, 1
  br label %v9
v9.after:
  %v15 = mul i64 %v3, %row
  br i1 %v7, label %v14.then, label %v14.after
v14.then:
  %v16 = getelementptr i8, ptr %source, i64 %v15
  %v17 = getelementptr i8, ptr %v6, i64 %before
  br label %v19.before
v19.before:
  br label %v19
v19:
  %v20 = phi i64 [ 0, %v19.before ], [ %v44, %v19.next ]
  %v44.more = icmp slt i64 %v20, %v18
  br i1 %v44.more, label %v19.turn, label %v19.after
v19.turn:
  %v21 = getelementptr i8, ptr %v16, i64 %v20
  %v22 = mul i64 %v20, 2
  %v23 = getelementptr i8, ptr %v17, i64 %v22
  %v24 = call ptr asm "", "=r,0"(ptr %v21)
  %v25 = call ptr asm "", "=r,0"(ptr %v23)
  %v26 = load <16 x i8>, ptr %v24, align 1
  %v27 = sext <16 x i8> %v26 to <16 x i16>
  %v28 = sub <16 x i16> %v27, splat (i16 3)
  store <16 x i16> %v28, ptr %v25, align 2
  %v29 = getelementptr i8, ptr %v24, i64 16
  %v30 = load <16 x i8>, ptr %v29, align 1
  %v31 = sext <16 x i8> %v30 to <16 x i16>
  %v32 = sub <16 x i16> %v31, splat (i16 3)
  %v33 = getelementptr i8, ptr %v25, i64 32
  store <16 x i16> %v32, ptr %v33, align 2
  %v34 = getelementptr i8, ptr %v24, i64 32
  %v35 = load <16 x i8>, ptr %v34, align 1
  %v36 = sext <16 x i8> %v35 to <16 x i16>
  %v37 = sub <16 x i16> %v36, splat (i16 3)
  %v38 = getelementptr i8, ptr %v25, i64 64
  store <16 x i16> %v37, ptr %v38, align 2
  %v39 = getelementptr i8, ptr %v24, i64 48
  %v40 = load <16 x i8>, ptr %v39, align 1
  %v41 = sext <16 x i8> %v40 to <16 x i16>
  %v42 = sub <16 x i16> %v41, splat (i16 3)
  %v43 = getelementptr i8, ptr %v25, i64 96
  store <16 x i16> %v42, ptr %v43, align 2
  br label %v19.next
v19.next:
  %v44 = add i64 %v20, 64
  br label %v19
v19.after:
  br label %v46.before
v46.before:
  br label %v46
v46:
  %v47 = phi i64 [ %v18, %v46.before ], [ %v54, %v46.next ]
  %v54.more = icmp slt i64 %v47, %v45
  br i1 %v54.more, label %v46.turn, label %v46.after
v46.turn:
  %v48 = getelementptr i8, ptr %v16, i64 %v47
  %v49 = mul i64 %v47, 2
  %v50 = getelementptr i8, ptr %v17, i64 %v49
  %v51 = load <16 x i8>, ptr %v48, align 1
  %v52 = sext <16 x i8> %v51 to <16 x i16>
  %v53 = sub <16 x i16> %v52, splat (i16 3)
  store <16 x i16> %v53, ptr %v50, align 2
  br label %v46.next
v46.next:
  %v54 = add i64 %v47, 16
  br label %v46
v46.after:
  %v55 = getelementptr i8, ptr %v16, i64 %v45
  %v57 = getelementptr i8, ptr %v17, i64 %v56
  %v58 = load <16 x i8>, ptr %v55, align 1
  %v59 = sext <16 x i8> %v58 to <16 x i16>
  %v60 = sub <16 x i16> %v59, splat (i16 3)
  store <16 x i16> %v60, ptr %v57, align 2
  %v62 = getelementptr i8, ptr %v17, i64 %v61
  br label %v63.before
v63.before:
  br label %v63
v63:
  %v64 = phi i64 [ 0, %v63.before ], [ %v67, %v63.next ]
  %v67.more = icmp slt i64 %v64, %right
  br i1 %v67.more, label %v63.turn, label %v63.after
v63.turn:
  %v65 = mul i64 %v64, 32
  %v66 = getelementptr i8, ptr %v62, i64 %v65
  store <32 x i8> %v1, ptr %v66, align 1
  br label %v63.next
v63.next:
  %v67 = add i64 %v64, 1
  br label %v63
v63.after:
  br label %v14.after
v14.after:
  br label %v2.next
v2.next:
  %v68 = add i64 %v3, 1
  br label %v2
v2.after:
  ret void
}


; int16, depthwise, 2 rows at once
declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare <8 x i32> @llvm.smin.v8i32(<8 x i32>, <8 x i32>)
declare <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>, <16 x i16>)
declare i64 @llvm.smin.i64(i64, i64)
declare void @s18b5a871487f1281(ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64)
define void @k63865e61d5da3135(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v342, %v1.next ]
  %v342.more = icmp slt i64 %v2, %end
  br i1 %v342.more, label %v1.turn, label %v1.after
v1.turn:
  %v3 = add i64 %v2, 2
  %v4 = call i64 @llvm.smin.i64(i64 %v3, i64 %end)
  %v5 = mul i64 %v2, 2
  %v6 = call i64 @llvm.smin.i64(i64 %v5, i64 1)
  %v7 = mul i64 %v4, 2
  %v8 = call i64 @llvm.smin.i64(i64 %v7, i64 3)
  %v9 = sub i64 %v8, 1
  %v10 = add i64 %v9, 3
  call void @s18b5a871487f1281(ptr %a1, ptr %scratch, ptr %a2, i64 %v6, i64 %v10, i64 5, i64 80, i64 160, i64 0, i64 80, i64 0, i64 0, i64 5)
  %v11 = getelementptr i8, ptr %a2, i64 128
  %v12 = call ptr asm "", "=r,0"(ptr %v11)
  br label %v13.before
v13.before:
  br label %v13
v13:
  %v14 = phi i64 [ %v2, %v13.before ], [ %v341, %v13.next ]
  %v341.more = icmp slt i64 %v14, %v4
  br i1 %v341.more, label %v13.turn, label %v13.after
v13.turn:
  %v15 = mul i64 %v14, 2
  %v16 = call i64 @llvm.smin.i64(i64 %v15, i64 1)
  %v17 = sub i64 %v16, %v6
  %v18 = mul i64 %v17, 160
  %v19 = getelementptr i8, ptr %scratch, i64 %v18
  %v20 = call ptr asm "", "=r,0"(ptr %v19)
  %v21 = mul i64 %v16, 3
  br label %v22.before
v22.before:
  br label %v22
v22:
  %v23 = phi i64 [ 0, %v22.before ], [ %v340, %v22.next ]
  %v24 = mul i64 %v23, 32
  %v25 = getelementptr i8, ptr %v20, i64 %v24
  %v26 = add i64 %v21, %v23
  %v27 = call ptr asm "", "=r,0"(ptr %v25)
  %v28 = load <8 x i32>, ptr %v12, align 32
  %v29 = getelementptr i8, ptr %v12, i64 32
  %v30 = load <8 x i32>, ptr %v29, align 32
  %v31 = load <16 x i16>, ptr %v27, align 2
  %v32 = getelementptr i8, ptr %v27, i64 160
  %v33 = load <16 x i16>, ptr %v32, align 2
  %v34 = bitcast <16 x i16> %v31 to <16 x i16>
  %v35 = bitcast <16 x i16> %v33 to <16 x i16>
  %v36 = shufflevector <16 x i16> %v34, <16 x i16> %v35, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27>
  %v37 = bitcast <16 x i16> %v36 to <32 x i8>
  %v38 = shufflevector <16 x i16> %v34, <16 x i16> %v35, <16 x i32> <i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v39 = bitcast <16 x i16> %v38 to <32 x i8>
  %v40 = bitcast <32 x i8> %v37 to <8 x i32>
  %v41 = bitcast <32 x i8> %v39 to <8 x i32>
  %v42 = getelementptr i8, ptr %v12, i64 320
  %v43 = load <8 x i32>, ptr %v42, align 32
  %v44 = bitcast <8 x i32> %v40 to <16 x i16>
  %v45 = bitcast <8 x i32> %v43 to <16 x i16>
  %v46 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v44, <16 x i16> %v45)
  %v47 = add <8 x i32> %v28, %v46
  %v48 = getelementptr i8, ptr %v12, i64 352
  %v49 = load <8 x i32>, ptr %v48, align 32
  %v50 = bitcast <8 x i32> %v41 to <16 x i16>
  %v51 = bitcast <8 x i32> %v49 to <16 x i16>
  %v52 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v50, <16 x i16> %v51)
  %v53 = add <8 x i32> %v30, %v52
  %v54 = getelementptr i8, ptr %v12, i64 704
  %v55 = load <8 x i32>, ptr %v54, align 32
  %v56 = bitcast <8 x i32> %v55 to <16 x i16>
  %v57 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v44, <16 x i16> %v56)
  %v58 = add <8 x i32> %v28, %v57
  %v59 = getelementptr i8, ptr %v12, i64 736
  %v60 = load <8 x i32>, ptr %v59, align 32
  %v61 = bitcast <8 x i32> %v60 to <16 x i16>
  %v62 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v50, <16 x i16> %v61)
  %v63 = add <8 x i32> %v30, %v62
  %v64 = getelementptr i8, ptr %v27, i64 32
  %v65 = load <16 x i16>, ptr %v64, align 2
  %v66 = getelementptr i8, ptr %v27, i64 192
  %v67 = load <16 x i16>, ptr %v66, align 2
  %v68 = bitcast <16 x i16> %v65 to <16 x i16>
  %v69 = bitcast <16 x i16> %v67 to <16 x i16>
  %v70 = shufflevector <16 x i16> %v68, <16 x i16> %v69, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27>
  %v71 = bitcast <16 x i16> %v70 to <32 x i8>
  %v72 = shufflevector <16 x i16> %v68, <16 x i16> %v69, <16 x i32> <i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v73 = bitcast <16 x i16> %v72 to <32 x i8>
  %v74 = bitcast <32 x i8> %v71 to <8 x i32>
  %v75 = bitcast <32 x i8> %v73 to <8 x i32>
  %v76 = getelementptr i8, ptr %v12, i64 384
  %v77 = load <8 x i32>, ptr %v76, align 32
  %v78 = bitcast <8 x i32> %v74 to <16 x i16>
  %v79 = bitcast <8 x i32> %v77 to <16 x i16>
  %v80 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v78, <16 x i16> %v79)
  %v81 = add <8 x i32> %v47, %v80
  %v82 = getelementptr i8, ptr %v12, i64 416
  %v83 = load <8 x i32>, ptr %v82, align 32
  %v84 = bitcast <8 x i32> %v75 to <16 x i16>
  %v85 = bitcast <8 x i32> %v83 to <16 x i16>
  %v86 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v84, <16 x i16> %v85)
  %v87 = add <8 x i32> %v53, %v86
  %v88 = getelementptr i8, ptr %v12, i64 768
  %v89 = load <8 x i32>, ptr %v88, align 32
  %v90 = bitcast <8 x i32> %v89 to <16 x i16>
  %v91 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v78, <16 x i16> %v90)
  %v92 = add <8 x i32> %v58, %v91
  %v93 = getelementptr i8, ptr %v12, i64 800
  %v94 = load <8 x i32>, ptr %v93, align 32
  %v95 = bitcast <8 x i32> %v94 to <16 x i16>
  %v96 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v84, <16 x i16> %v95)
  %v97 = add <8 x i32> %v63, %v96
  %v98 = getelementptr i8, ptr %v27, i64 64
  %v99 = load <16 x i16>, ptr %v98, align 2
  %v100 = getelementptr i8, ptr %v27, i64 224
  %v101 = load <16 x i16>, ptr %v100, align 2
  %v102 = bitcast <16 x i16> %v99 to <16 x i16>
  %v103 = bitcast <16 x i16> %v101 to <16 x i16>
  %v104 = shufflevector <16 x i16> %v102, <16 x i16> %v103, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27>
  %v105 = bitcast <16 x i16> %v104 to <32 x i8>
  %v106 = shufflevector <16 x i16> %v102, <16 x i16> %v103, <16 x i32> <i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v107 = bitcast <16 x i16> %v106 to <32 x i8>
  %v108 = bitcast <32 x i8> %v105 to <8 x i32>
  %v109 = bitcast <32 x i8> %v107 to <8 x i32>
  %v110 = getelementptr i8, ptr %v12, i64 448
  %v111 = load <8 x i32>, ptr %v110, align 32
  %v112 = bitcast <8 x i32> %v108 to <16 x i16>
  %v113 = bitcast <8 x i32> %v111 to <16 x i16>
  %v114 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v112, <16 x i16> %v113)
  %v115 = add <8 x i32> %v81, %v114
  %v116 = getelementptr i8, ptr %v12, i64 480
  %v117 = load <8 x i32>, ptr %v116, align 32
  %v118 = bitcast <8 x i32> %v109 to <16 x i16>
  %v119 = bitcast <8 x i32> %v117 to <16 x i16>
  %v120 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v118, <16 x i16> %v119)
  %v121 = add <8 x i32> %v87, %v120
  %v122 = getelementptr i8, ptr %v12, i64 832
  %v123 = load <8 x i32>, ptr %v122, align 32
  %v124 = bitcast <8 x i32> %v123 to <16 x i16>
  %v125 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v112, <16 x i16> %v124)
  %v126 = add <8 x i32> %v92, %v125
  %v127 = getelementptr i8, ptr %v12, i64 864
  %v128 = load <8 x i32>, ptr %v127, align 32
  %v129 = bitcast <8 x i32> %v128 to <16 x i16>
  %v130 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v118, <16 x i16> %v129)
  %v131 = add <8 x i32> %v97, %v130
  %v132 = getelementptr i8, ptr %v27, i64 320
  %v133 = load <16 x i16>, ptr %v132, align 2
  %v134 = getelementptr i8, ptr %v27, i64 480
  %v135 = load <16 x i16>, ptr %v134, align 2
  %v136 = bitcast <16 x i16> %v133 to <16 x i16>
  %v137 = bitcast <16 x i16> %v135 to <16 x i16>
  %v138 = shufflevector <16 x i16> %v136, <16 x i16> %v137, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27>
  %v139 = bitcast <16 x i16> %v138 to <32 x i8>
  %v140 = shufflevector <16 x i16> %v136, <16 x i16> %v137, <16 x i32> <i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v141 = bitcast <16 x i16> %v140 to <32 x i8>
  %v142 = bitcast <32 x i8> %v139 to <8 x i32>
  %v143 = bitcast <32 x i8> %v141 to <8 x i32>
  %v144 = getelementptr i8, ptr %v12, i64 512
  %v145 = load <8 x i32>, ptr %v144, align 32
  %v146 = bitcast <8 x i32> %v142 to <16 x i16>
  %v147 = bitcast <8 x i32> %v145 to <16 x i16>
  %v148 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v146, <16 x i16> %v147)
  %v149 = add <8 x i32> %v115, %v148
  %v150 = getelementptr i8, ptr %v12, i64 544
  %v151 = load <8 x i32>, ptr %v150, align 32
  %v152 = bitcast <8 x i32> %v143 to <16 x i16>
  %v153 = bitcast <8 x i32> %v151 to <16 x i16>
  %v154 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v152, <16 x i16> %v153)
  %v155 = add <8 x i32> %v121, %v154
  %v156 = getelementptr i8, ptr %v12, i64 896
  %v157 = load <8 x i32>, ptr %v156, align 32
  %v158 = bitcast <8 x i32> %v157 to <16 x i16>
  %v159 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v146, <16 x i16> %v158)
  %v160 = add <8 x i32> %v126, %v159
  %v161 = getelementptr i8, ptr %v12, i64 928
  %v162 = load <8 x i32>, ptr %v161, align 32
  %v163 = bitcast <8 x i32> %v162 to <16 x i16>
  %v164 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v152, <16 x i16> %v163)
  %v165 = add <8 x i32> %v131, %v164
  %v166 = getelementptr i8, ptr %v27, i64 352
  %v167 = load <16 x i16>, ptr %v166, align 2
  %v168 = getelementptr i8, ptr %v27, i64 512
  %v169 = load <16 x i16>, ptr %v168, align 2
  %v170 = bitcast <16 x i16> %v167 to <16 x i16>
  %v171 = bitcast <16 x i16> %v169 to <16 x i16>
  %v172 = shufflevector <16 x i16> %v170, <16 x i16> %v171, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27>
  %v173 = bitcast <16 x i16> %v172 to <32 x i8>
  %v174 = shufflevector <16 x i16> %v170, <16 x i16> %v171, <16 x i32> <i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v175 = bitcast <16 x i16> %v174 to <32 x i8>
  %v176 = bitcast <32 x i8> %v173 to <8 x i32>
  %v177 = bitcast <32 x i8> %v175 to <8 x i32>
  %v178 = getelementptr i8, ptr %v12, i64 576
  %v179 = load <8 x i32>, ptr %v178, align 32
  %v180 = bitcast <8 x i32> %v176 to <16 x i16>
  %v181 = bitcast <8 x i32> %v179 to <16 x i16>
  %v182 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v180, <16 x i16> %v181)
  %v183 = add <8 x i32> %v149, %v182
  %v184 = getelementptr i8, ptr %v12, i64 608
  %v185 = load <8 x i32>, ptr %v184, align 32
  %v186 = bitcast <8 x i32> %v177 to <16 x i16>
  %v187 = bitcast <8 x i32> %v185 to <16 x i16>
  %v188 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v186, <16 x i16> %v187)
  %v189 = add <8 x i32> %v155, %v188
  %v190 = getelementptr i8, ptr %v12, i64 960
  %v191 = load <8 x i32>, ptr %v190, align 32
  %v192 = bitcast <8 x i32> %v191 to <16 x i16>
  %v193 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v180, <16 x i16> %v192)
  %v194 = add <8 x i32> %v160, %v193
  %v195 = getelementptr i8, ptr %v12, i64 992
  %v196 = load <8 x i32>, ptr %v195, align 32
  %v197 = bitcast <8 x i32> %v196 to <16 x i16>
  %v198 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v186, <16 x i16> %v197)
  %v199 = add <8 x i32> %v165, %v198
  %v200 = getelementptr i8, ptr %v27, i64 384
  %v201 = load <16 x i16>, ptr %v200, align 2
  %v202 = getelementptr i8, ptr %v27, i64 544
  %v203 = load <16 x i16>, ptr %v202, align 2
  %v204 = bitcast <16 x i16> %v201 to <16 x i16>
  %v205 = bitcast <16 x i16> %v203 to <16 x i16>
  %v206 = shufflevector <16 x i16> %v204, <16 x i16> %v205, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27>
  %v207 = bitcast <16 x i16> %v206 to <32 x i8>
  %v208 = shufflevector <16 x i16> %v204, <16 x i16> %v205, <16 x i32> <i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v209 = bitcast <16 x i16> %v208 to <32 x i8>
  %v210 = bitcast <32 x i8> %v207 to <8 x i32>
  %v211 = bitcast <32 x i8> %v209 to <8 x i32>
  %v212 = getelementptr i8, ptr %v12, i64 640
  %v213 = load <8 x i32>, ptr %v212, align 32
  %v214 = bitcast <8 x i32> %v210 to <16 x i16>
  %v215 = bitcast <8 x i32> %v213 to <16 x i16>
  %v216 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v214, <16 x i16> %v215)
  %v217 = add <8 x i32> %v183, %v216
  %v218 = getelementptr i8, ptr %v12, i64 672
  %v219 = load <8 x i32>, ptr %v218, align 32
  %v220 = bitcast <8 x i32> %v211 to <16 x i16>
  %v221 = bitcast <8 x i32> %v219 to <16 x i16>
  %v222 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v220, <16 x i16> %v221)
  %v223 = add <8 x i32> %v189, %v222
  %v224 = getelementptr i8, ptr %v12, i64 1024
  %v225 = load <8 x i32>, ptr %v224, align 32
  %v226 = bitcast <8 x i32> %v225 to <16 x i16>
  %v227 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v214, <16 x i16> %v226)
  %v228 = add <8 x i32> %v194, %v227
  %v229 = getelementptr i8, ptr %v12, i64 1056
  %v230 = load <8 x i32>, ptr %v229, align 32
  %v231 = bitcast <8 x i32> %v230 to <16 x i16>
  %v232 = call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %v220, <16 x i16> %v231)
  %v233 = add <8 x i32> %v199, %v232
  %v234 = getelementptr i8, ptr %v12, i64 64
  %v235 = load <8 x i32>, ptr %v234, align 32
  %v236 = getelementptr i8, ptr %v12, i64 96
  %v237 = load <8 x i32>, ptr %v236, align 32
  %v238 = getelementptr i8, ptr %v12, i64 128
  %v239 = load <8 x i32>, ptr %v238, align 32
  %v240 = getelementptr i8, ptr %v12, i64 160
  %v241 = load <8 x i32>, ptr %v240, align 32
  %v242 = getelementptr i8, ptr %v12, i64 192
  %v243 = load <8 x i32>, ptr %v242, align 32
  %v244 = getelementptr i8, ptr %v12, i64 224
  %v245 = load <8 x i32>, ptr %v244, align 32
  %v246 = getelementptr i8, ptr %v12, i64 256
  %v247 = load <8 x i32>, ptr %v246, align 32
  %v248 = getelementptr i8, ptr %v12, i64 288
  %v249 = load <8 x i32>, ptr %v248, align 32
  %v250 = bitcast <8 x i32> %v217 to <4 x i64>
  %v251 = bitcast <8 x i32> %v235 to <4 x i64>
  %v252 = bitcast <8 x i32> %v239 to <4 x i64>
  %v253 = and <4 x i64> %v250, splat (i64 4294967295)
  %v254 = and <4 x i64> %v251, splat (i64 4294967295)
  %v255 = lshr <4 x i64> %v250, splat (i64 32)
  %v256 = lshr <4 x i64> %v251, splat (i64 32)
  %v257 = shl <4 x i64> %v252, splat (i64 32)
  %v258 = and <4 x i64> %v252, splat (i64 -4294967296)
  %v259 = mul <4 x i64> %v253, %v254
  %v260 = or <4 x i64> %v257, splat (i64 2147483648)
  %v261 = add <4 x i64> %v259, %v260
  %v262 = bitcast <4 x i64> %v261 to <8 x i32>
  %v263 = mul <4 x i64> %v255, %v256
  %v264 = or <4 x i64> %v258, splat (i64 2147483648)
  %v265 = add <4 x i64> %v263, %v264
  %v266 = bitcast <4 x i64> %v265 to <8 x i32>
  %v267 = shufflevector <8 x i32> %v262, <8 x i32> %v266, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v268 = lshr <8 x i32> %v217, splat (i32 31)
  %v269 = add <8 x i32> %v267, %v268
  %v270 = ashr <8 x i32> %v269, %v247
  %v271 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v270, <8 x i32> splat (i32 -128))
  %v272 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %v271, <8 x i32> splat (i32 127))
  %v273 = trunc <8 x i32> %v272 to <8 x i8>
  %v274 = bitcast <8 x i32> %v228 to <4 x i64>
  %v275 = and <4 x i64> %v274, splat (i64 4294967295)
  %v276 = lshr <4 x i64> %v274, splat (i64 32)
  %v277 = mul <4 x i64> %v275, %v254
  %v278 = add <4 x i64> %v277, %v260
  %v279 = bitcast <4 x i64> %v278 to <8 x i32>
  %v280 = mul <4 x i64> %v276, %v256
  %v281 = add <4 x i64> %v280, %v264
  %v282 = bitcast <4 x i64> %v281 to <8 x i32>
  %v283 = shufflevector <8 x i32> %v279, <8 x i32> %v282, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v284 = lshr <8 x i32> %v228, splat (i32 31)
  %v285 = add <8 x i32> %v283, %v284
  %v286 = ashr <8 x i32> %v285, %v247
  %v287 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v286, <8 x i32> splat (i32 -128))
  %v288 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %v287, <8 x i32> splat (i32 127))
  %v289 = trunc <8 x i32> %v288 to <8 x i8>
  %v290 = bitcast <8 x i32> %v223 to <4 x i64>
  %v291 = bitcast <8 x i32> %v237 to <4 x i64>
  %v292 = bitcast <8 x i32> %v241 to <4 x i64>
  %v293 = and <4 x i64> %v290, splat (i64 4294967295)
  %v294 = and <4 x i64> %v291, splat (i64 4294967295)
  %v295 = lshr <4 x i64> %v290, splat (i64 32)
  %v296 = lshr <4 x i64> %v291, splat (i64 32)
  %v297 = shl <4 x i64> %v292, splat (i64 32)
  %v298 = and <4 x i64> %v292, splat (i64 -4294967296)
  %v299 = mul <4 x i64> %v293, %v294
  %v300 = or <4 x i64> %v297, splat (i64 2147483648)
  %v301 = add <4 x i64> %v299, %v300
  %v302 = bitcast <4 x i64> %v301 to <8 x i32>
  %v303 = mul <4 x i64> %v295, %v296
  %v304 = or <4 x i64> %v298, splat (i64 2147483648)
  %v305 = add <4 x i64> %v303, %v304
  %v306 = bitcast <4 x i64> %v305 to <8 x i32>
  %v307 = shufflevector <8 x i32> %v302, <8 x i32> %v306, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v308 = lshr <8 x i32> %v223, splat (i32 31)
  %v309 = add <8 x i32> %v307, %v308
  %v310 = ashr <8 x i32> %v309, %v249
  %v311 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v310, <8 x i32> splat (i32 -128))
  %v312 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %v311, <8 x i32> splat (i32 127))
  %v313 = trunc <8 x i32> %v312 to <8 x i8>
  %v314 = bitcast <8 x i32> %v233 to <4 x i64>
  %v315 = and <4 x i64> %v314, splat (i64 4294967295)
  %v316 = lshr <4 x i64> %v314, splat (i64 32)
  %v317 = mul <4 x i64> %v315, %v294
  %v318 = add <4 x i64> %v317, %v300
  %v319 = bitcast <4 x i64> %v318 to <8 x i32>
  %v320 = mul <4 x i64> %v316, %v296
  %v321 = add <4 x i64> %v320, %v304
  %v322 = bitcast <4 x i64> %v321 to <8 x i32>
  %v323 = shufflevector <8 x i32> %v319, <8 x i32> %v322, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v324 = lshr <8 x i32> %v233, splat (i32 31)
  %v325 = add <8 x i32> %v323, %v324
  %v326 = ashr <8 x i32> %v325, %v249
  %v327 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v326, <8 x i32> splat (i32 -128))
  %v328 = call <8 x i32> @llvm.smin.v8i32(<8 x i32> %v327, <8 x i32> splat (i32 127))
  %v329 = trunc <8 x i32> %v328 to <8 x i8>
  %v330 = shufflevector <8 x i8> %v273, <8 x i8> %v313, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v331 = shufflevector <16 x i8> %v330, <16 x i8> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11, i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v332 = shufflevector <8 x i8> %v289, <8 x i8> %v329, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v333 = shufflevector <16 x i8> %v332, <16 x i8> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11, i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v334 = mul i64 %v26, 16
  %v335 = getelementptr i8, ptr %a0, i64 %v334
  %v336 = call ptr asm "", "=r,0"(ptr %v335)
  store <16 x i8> %v331, ptr %v336, align 1
  %v337 = add i64 %v26, 3
  %v338 = call ptr asm "", "=r,0"(ptr %v335)
  %v339 = getelementptr i8, ptr %v338, i64 48
  store <16 x i8> %v333, ptr %v339, align 1
  br label %v22.next
v22.next:
  %v340 = add i64 %v23, 1
  %v340.more = icmp slt i64 %v340, 3
  br i1 %v340.more, label %v22, label %v22.after
v22.after:
  br label %v13.next
v13.next:
  %v341 = add i64 %v14, 1
  br label %v13
v13.after:
  br label %v1.next
v1.next:
  %v342 = add i64 %v2, 2
  br label %v1
v1.after:
  ret void
}

