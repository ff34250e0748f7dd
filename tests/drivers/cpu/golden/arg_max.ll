; the largest of 40, 8 at once
declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare i32 @llvm.vector.reduce.smax.v8i32(<8 x i32>)
declare i64 @llvm.cttz.i64(i64, i1)
define void @k9ba634dd838f6021(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v15 = mul i64 8, 4
  %v25 = mul i64 16, 4
  %v35 = mul i64 24, 4
  %v45 = mul i64 32, 4
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v94, %v1.next ]
  %v3 = phi i64 [ %begin, %v1.before ], [ %v92, %v1.next ]
  %v94.more = icmp slt i64 %v2, %end
  br i1 %v94.more, label %v1.turn, label %v1.after
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
  %v55 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v14, <8 x i32> %v24)
  %v56 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v34, <8 x i32> %v44)
  %v57 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v55, <8 x i32> %v56)
  %v58 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v57, <8 x i32> %v54)
  %v59 = call i32 @llvm.vector.reduce.smax.v8i32(<8 x i32> %v58)
  %v60 = insertelement <8 x i32> poison, i32 %v59, i64 0
  %v61 = shufflevector <8 x i32> %v60, <8 x i32> poison, <8 x i32> zeroinitializer
  %v62 = icmp eq <8 x i32> %v14, %v61
  %v63 = bitcast <8 x i1> %v62 to i8
  %v64 = zext i8 %v63 to i64
  %v65 = shl i64 %v64, 0
  %v66 = or i64 0, %v65
  %v67 = icmp eq <8 x i32> %v24, %v61
  %v68 = bitcast <8 x i1> %v67 to i8
  %v69 = zext i8 %v68 to i64
  %v70 = shl i64 %v69, 8
  %v71 = or i64 %v66, %v70
  %v72 = icmp eq <8 x i32> %v34, %v61
  %v73 = bitcast <8 x i1> %v72 to i8
  %v74 = zext i8 %v73 to i64
  %v75 = shl i64 %v74, 16
  %v76 = or i64 %v71, %v75
  %v77 = icmp eq <8 x i32> %v44, %v61
  %v78 = bitcast <8 x i1> %v77 to i8
  %v79 = zext i8 %v78 to i64
  %v80 = shl i64 %v79, 24
  %v81 = or i64 %v76, %v80
  %v82 = icmp eq <8 x i32> %v54, %v61
  %v83 = bitcast <8 x i1> %v82 to i8
  %v84 = zext i8 %v83 to i64
  %v85 = shl i64 %v84, 32
  %v86 = or i64 %v81, %v85
  %v87 = call i64 @llvm.cttz.i64(i64 %v86, i1 true)
  %v88 = trunc i64 %v87 to i32
  %v89 = getelementptr i32, ptr %a0, i64 %v3
  store i32 %v88, ptr %v89, align 4
  %v90 = add i64 %v3, 1
  %v91 = icmp eq i64 %v90, 2
  %v92 = select i1 %v91, i64 0, i64 %v90
  %v93 = zext i1 %v91 to i64
  br label %v1.next
v1.next:
  %v94 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

