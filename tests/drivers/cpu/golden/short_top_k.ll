; the largest 3 of 40, one after the other
declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare i32 @llvm.vector.reduce.smax.v8i32(<8 x i32>)
declare i64 @llvm.cttz.i64(i64, i1)
define void @k70bf13313e24c6b0(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v15 = mul i64 8, 4
  %v25 = mul i64 16, 4
  %v35 = mul i64 24, 4
  %v45 = mul i64 32, 4
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v121, %v1.next ]
  %v3 = phi i64 [ %begin, %v1.before ], [ %v119, %v1.next ]
  %v121.more = icmp slt i64 %v2, %end
  br i1 %v121.more, label %v1.turn, label %v1.after
v1.turn:
  %v4 = sub i64 %v2, %begin
  %v5 = mul i64 %v3, 160
  %v6 = getelementptr i8, ptr %a1, i64 %v5
  %v7 = load <8 x float>, ptr %v6, align 4
  %v8 = fadd <8 x float> %v7, splat (float 0x0000000000000000)
  %v9 = bitcast <8 x float> %v8 to <8 x i32>
  %v10 = ashr <8 x i32> %v9, splat (i32 31)
  %v11 = and <8 x i32> %v10, splat (i32 2147483647)
  %v12 = xor <8 x i32> %v9, %v11
  %v13 = fcmp uno <8 x float> %v7, %v7
  %v14 = select <8 x i1> %v13, <8 x i32> splat (i32 2147483647), <8 x i32> %v12
  %v16 = getelementptr i8, ptr %v6, i64 %v15
  %v17 = load <8 x float>, ptr %v16, align 4
  %v18 = fadd <8 x float> %v17, splat (float 0x0000000000000000)
  %v19 = bitcast <8 x float> %v18 to <8 x i32>
  %v20 = ashr <8 x i32> %v19, splat (i32 31)
  %v21 = and <8 x i32> %v20, splat (i32 2147483647)
  %v22 = xor <8 x i32> %v19, %v21
  %v23 = fcmp uno <8 x float> %v17, %v17
  %v24 = select <8 x i1> %v23, <8 x i32> splat (i32 2147483647), <8 x i32> %v22
  %v26 = getelementptr i8, ptr %v6, i64 %v25
  %v27 = load <8 x float>, ptr %v26, align 4
  %v28 = fadd <8 x float> %v27, splat (float 0x0000000000000000)
  %v29 = bitcast <8 x float> %v28 to <8 x i32>
  %v30 = ashr <8 x i32> %v29, splat (i32 31)
  %v31 = and <8 x i32> %v30, splat (i32 2147483647)
  %v32 = xor <8 x i32> %v29, %v31
  %v33 = fcmp uno <8 x float> %v27, %v27
  %v34 = select <8 x i1> %v33, <8 x i32> splat (i32 2147483647), <8 x i32> %v32
  %v36 = getelementptr i8, ptr %v6, i64 %v35
  %v37 = load <8 x float>, ptr %v36, align 4
  %v38 = fadd <8 x float> %v37, splat (float 0x0000000000000000)
  %v39 = bitcast <8 x float> %v38 to <8 x i32>
  %v40 = ashr <8 x i32> %v39, splat (i32 31)
  %v41 = and <8 x i32> %v40, splat (i32 2147483647)
  %v42 = xor <8 x i32> %v39, %v41
  %v43 = fcmp uno <8 x float> %v37, %v37
  %v44 = select <8 x i1> %v43, <8 x i32> splat (i32 2147483647), <8 x i32> %v42
  %v46 = getelementptr i8, ptr %v6, i64 %v45
  %v47 = load <8 x float>, ptr %v46, align 4
  %v48 = fadd <8 x float> %v47, splat (float 0x0000000000000000)
  %v49 = bitcast <8 x float> %v48 to <8 x i32>
  %v50 = ashr <8 x i32> %v49, splat (i32 31)
  %v51 = and <8 x i32> %v50, splat (i32 2147483647)
  %v52 = xor <8 x i32> %v49, %v51
  %v53 = fcmp uno <8 x float> %v47, %v47
  %v54 = select <8 x i1> %v53, <8 x i32> splat (i32 2147483647), <8 x i32> %v52
  %v98 = mul i64 %v3, 3
  br label %v55.before
v55.before:
  br label %v55
v55:
  %v56 = phi i64 [ 0, %v55.before ], [ %v116, %v55.next ]
  %v57 = phi <8 x i32> [ %v14, %v55.before ], [ %v106, %v55.next ]
  %v58 = phi <8 x i32> [ %v24, %v55.before ], [ %v108, %v55.next ]
  %v59 = phi <8 x i32> [ %v34, %v55.before ], [ %v110, %v55.next ]
  %v60 = phi <8 x i32> [ %v44, %v55.before ], [ %v112, %v55.next ]
  %v61 = phi <8 x i32> [ %v54, %v55.before ], [ %v114, %v55.next ]
  %v62 = phi i64 [ -1, %v55.before ], [ %v115, %v55.next ]
  %v63 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v57, <8 x i32> %v58)
  %v64 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v59, <8 x i32> %v60)
  %v65 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v63, <8 x i32> %v64)
  %v66 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v65, <8 x i32> %v61)
  %v67 = call i32 @llvm.vector.reduce.smax.v8i32(<8 x i32> %v66)
  %v68 = insertelement <8 x i32> poison, i32 %v67, i64 0
  %v69 = shufflevector <8 x i32> %v68, <8 x i32> poison, <8 x i32> zeroinitializer
  %v70 = icmp eq <8 x i32> %v57, %v69
  %v71 = bitcast <8 x i1> %v70 to i8
  %v72 = zext i8 %v71 to i64
  %v73 = shl i64 %v72, 0
  %v74 = or i64 0, %v73
  %v75 = icmp eq <8 x i32> %v58, %v69
  %v76 = bitcast <8 x i1> %v75 to i8
  %v77 = zext i8 %v76 to i64
  %v78 = shl i64 %v77, 8
  %v79 = or i64 %v74, %v78
  %v80 = icmp eq <8 x i32> %v59, %v69
  %v81 = bitcast <8 x i1> %v80 to i8
  %v82 = zext i8 %v81 to i64
  %v83 = shl i64 %v82, 16
  %v84 = or i64 %v79, %v83
  %v85 = icmp eq <8 x i32> %v60, %v69
  %v86 = bitcast <8 x i1> %v85 to i8
  %v87 = zext i8 %v86 to i64
  %v88 = shl i64 %v87, 24
  %v89 = or i64 %v84, %v88
  %v90 = icmp eq <8 x i32> %v61, %v69
  %v91 = bitcast <8 x i1> %v90 to i8
  %v92 = zext i8 %v91 to i64
  %v93 = shl i64 %v92, 32
  %v94 = or i64 %v89, %v93
  %v95 = and i64 %v62, %v94
  %v96 = call i64 @llvm.cttz.i64(i64 %v95, i1 true)
  %v97 = trunc i64 %v96 to i32
  %v99 = add i64 %v98, %v56
  %v100 = getelementptr i32, ptr %a0, i64 %v99
  store i32 %v97, ptr %v100, align 4
  %v101 = shl i64 1, %v96
  %v102 = xor i64 %v101, -1
  %v103 = insertelement <8 x i32> poison, i32 %v97, i64 0
  %v104 = shufflevector <8 x i32> %v103, <8 x i32> poison, <8 x i32> zeroinitializer
  %v105 = icmp eq <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v104
  %v106 = select <8 x i1> %v105, <8 x i32> splat (i32 -2147483648), <8 x i32> %v57
  %v107 = icmp eq <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>, %v104
  %v108 = select <8 x i1> %v107, <8 x i32> splat (i32 -2147483648), <8 x i32> %v58
  %v109 = icmp eq <8 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>, %v104
  %v110 = select <8 x i1> %v109, <8 x i32> splat (i32 -2147483648), <8 x i32> %v59
  %v111 = icmp eq <8 x i32> <i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>, %v104
  %v112 = select <8 x i1> %v111, <8 x i32> splat (i32 -2147483648), <8 x i32> %v60
  %v113 = icmp eq <8 x i32> <i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39>, %v104
  %v114 = select <8 x i1> %v113, <8 x i32> splat (i32 -2147483648), <8 x i32> %v61
  %v115 = and i64 %v62, %v102
  br label %v55.next
v55.next:
  %v116 = add i64 %v56, 1
  %v116.more = icmp slt i64 %v116, 3
  br i1 %v116.more, label %v55, label %v55.after
v55.after:
  %v117 = add i64 %v3, 1
  %v118 = icmp eq i64 %v117, 2
  %v119 = select i1 %v118, i64 0, i64 %v117
  %v120 = zext i1 %v118 to i64
  br label %v1.next
v1.next:
  %v121 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

