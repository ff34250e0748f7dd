; the largest 3 of 40
declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.vector.reduce.add.v8i32(<8 x i32>)
declare i64 @llvm.vector.reduce.add.v4i64(<4 x i64>)

; Puts a mark into a heap of %count, of which the place %hole is free: down to where nothing below
; it is less.
define internal void @k2240942481183b69_sift(ptr %heap, i64 %hole, i64 %count, i64 %mark) nounwind {
entry:
  br label %test
test:
  %at = phi i64 [ %hole, %entry ], [ %child, %move ]
  %p.at = getelementptr i64, ptr %heap, i64 %at
  %twice = shl i64 %at, 1
  %left = or i64 %twice, 1
  %is.inner = icmp slt i64 %left, %count
  br i1 %is.inner, label %look, label %end
look:
  %next = add i64 %left, 1
  %has.next = icmp slt i64 %next, %count
  %right = select i1 %has.next, i64 %next, i64 %left
  %p.left = getelementptr i64, ptr %heap, i64 %left
  %p.right = getelementptr i64, ptr %heap, i64 %right
  %left.mark = load i64, ptr %p.left
  %right.mark = load i64, ptr %p.right
  %is.right = icmp slt i64 %right.mark, %left.mark
  %child = select i1 %is.right, i64 %right, i64 %left
  %least = select i1 %is.right, i64 %right.mark, i64 %left.mark
  %sinks = icmp slt i64 %least, %mark
  br i1 %sinks, label %move, label %end
move:
  store i64 %least, ptr %p.at
  br label %test
end:
  store i64 %mark, ptr %p.at
  ret void
}

define void @k2240942481183b69(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v27 = sub i64 0, 0
  %v66 = mul i64 3, 4
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v162, %v1.next ]
  %v3 = phi i64 [ %begin, %v1.before ], [ %v160, %v1.next ]
  %v162.more = icmp slt i64 %v2, %end
  br i1 %v162.more, label %v1.turn, label %v1.after
v1.turn:
  %v4 = sub i64 %v2, %begin
  %v5 = mul i64 %v3, 160
  %v6 = getelementptr i8, ptr %a1, i64 %v5
  br label %v7.before
v7.before:
  br label %v7
v7:
  %v8 = phi i64 [ 0, %v7.before ], [ %v26, %v7.next ]
  %v9 = mul i64 %v8, 4
  %v10 = getelementptr i8, ptr %v6, i64 %v9
  %v11 = load float, ptr %v10, align 4
  %v12 = fadd float %v11, 0x0000000000000000
  %v13 = bitcast float %v12 to i32
  %v14 = ashr i32 %v13, 31
  %v15 = and i32 %v14, 2147483647
  %v16 = xor i32 %v13, %v15
  %v17 = fcmp uno float %v11, %v11
  %v18 = select i1 %v17, i32 2147483647, i32 %v16
  %v19 = sext i32 %v18 to i64
  %v20 = shl i64 %v19, 32
  %v21 = trunc i64 %v8 to i32
  %v22 = xor i32 %v21, -1
  %v23 = zext i32 %v22 to i64
  %v24 = or i64 %v20, %v23
  %v25 = getelementptr i64, ptr %scratch, i64 %v8
  store i64 %v24, ptr %v25
  br label %v7.next
v7.next:
  %v26 = add i64 %v8, 1
  %v26.more = icmp slt i64 %v26, 3
  br i1 %v26.more, label %v7, label %v7.after
v7.after:
  %v28 = getelementptr i64, ptr %scratch, i64 %v27
  %v29 = load i64, ptr %v28
  call void @k2240942481183b69_sift(ptr %scratch, i64 %v27, i64 3, i64 %v29)
  %v30 = getelementptr i8, ptr %scratch, i64 32
  br label %v31.before
v31.before:
  br label %v31
v31:
  %v32 = phi i64 [ 0, %v31.before ], [ %v46, %v31.next ]
  %v33 = phi <8 x i32> [ splat (i32 -2147483648), %v31.before ], [ %v45, %v31.next ]
  %v34 = mul i64 %v32, 8
  %v35 = mul i64 %v34, 4
  %v36 = getelementptr i8, ptr %v6, i64 %v35
  %v37 = load <8 x float>, ptr %v36, align 4
  %v38 = fadd <8 x float> %v37, splat (float 0x0000000000000000)
  %v39 = bitcast <8 x float> %v38 to <8 x i32>
  %v40 = ashr <8 x i32> %v39, splat (i32 31)
  %v41 = and <8 x i32> %v40, splat (i32 2147483647)
  %v42 = xor <8 x i32> %v39, %v41
  %v43 = fcmp uno <8 x float> %v37, %v37
  %v44 = select <8 x i1> %v43, <8 x i32> splat (i32 2147483647), <8 x i32> %v42
  %v45 = call <8 x i32> @llvm.smax.v8i32(<8 x i32> %v33, <8 x i32> %v44)
  br label %v31.next
v31.next:
  %v46 = add i64 %v32, 1
  %v46.more = icmp slt i64 %v46, 4
  br i1 %v46.more, label %v31, label %v31.after
v31.after:
  store <8 x i32> %v45, ptr %v30, align 32
  br label %v47.before
v47.before:
  br label %v47
v47:
  %v48 = phi i64 [ 0, %v47.before ], [ %v64, %v47.next ]
  %v49 = phi i32 [ 0, %v47.before ], [ %v63, %v47.next ]
  %v50 = sub i64 31, %v48
  %v51 = trunc i64 %v50 to i32
  %v52 = shl i32 1, %v51
  %v53 = or i32 %v49, %v52
  %v54 = xor i32 %v53, -2147483648
  %v55 = insertelement <8 x i32> poison, i32 %v54, i64 0
  %v56 = shufflevector <8 x i32> %v55, <8 x i32> poison, <8 x i32> zeroinitializer
  %v57 = load <8 x i32>, ptr %v30, align 32
  %v58 = icmp sge <8 x i32> %v57, %v56
  %v59 = sext <8 x i1> %v58 to <8 x i32>
  %v60 = sub <8 x i32> splat (i32 0), %v59
  %v61 = call i32 @llvm.vector.reduce.add.v8i32(<8 x i32> %v60)
  %v62 = icmp sge i32 %v61, 3
  %v63 = select i1 %v62, i32 %v53, i32 %v49
  br label %v47.next
v47.next:
  %v64 = add i64 %v48, 1
  %v64.more = icmp slt i64 %v64, 32
  br i1 %v64.more, label %v47, label %v47.after
v47.after:
  %v65 = xor i32 %v63, -2147483648
  %v67 = getelementptr i8, ptr %v6, i64 %v66
  %v68 = load <32 x float>, ptr %v67, align 4
  %v69 = fadd <32 x float> %v68, splat (float 0x0000000000000000)
  %v70 = bitcast <32 x float> %v69 to <32 x i32>
  %v71 = ashr <32 x i32> %v70, splat (i32 31)
  %v72 = and <32 x i32> %v71, splat (i32 2147483647)
  %v73 = xor <32 x i32> %v70, %v72
  %v74 = fcmp uno <32 x float> %v68, %v68
  %v75 = select <32 x i1> %v74, <32 x i32> splat (i32 2147483647), <32 x i32> %v73
  %v76 = load i64, ptr %scratch
  %v77 = lshr i64 %v76, 32
  %v78 = trunc i64 %v77 to i32
  %v79 = icmp eq i32 %v65, -2147483648
  %v80 = sub i32 %v65, 1
  %v81 = select i1 %v79, i32 %v65, i32 %v80
  %v82 = call i32 @llvm.smax.i32(i32 %v78, i32 %v81)
  %v83 = insertelement <32 x i32> poison, i32 %v82, i64 0
  %v84 = shufflevector <32 x i32> %v83, <32 x i32> poison, <32 x i32> zeroinitializer
  %v85 = icmp sgt <32 x i32> %v75, %v84
  %v86 = bitcast <32 x i1> %v85 to i32
  %v87 = call i32 @llvm.ctpop.i32(i32 %v86)
  %v88 = zext i32 %v87 to i64
  br label %v89.before
v89.before:
  br label %v89
v89:
  %v90 = phi i64 [ 0, %v89.before ], [ %v116, %v89.next ]
  %v91 = phi i32 [ %v86, %v89.before ], [ %v115, %v89.next ]
  %v116.more = icmp slt i64 %v90, %v88
  br i1 %v116.more, label %v89.turn, label %v89.after
v89.turn:
  %v92 = call i32 @llvm.cttz.i32(i32 %v91, i1 true)
  %v93 = zext i32 %v92 to i64
  %v94 = add i64 %v93, 3
  %v95 = mul i64 %v94, 4
  %v96 = getelementptr i8, ptr %v6, i64 %v95
  %v97 = load float, ptr %v96, align 4
  %v98 = fadd float %v97, 0x0000000000000000
  %v99 = bitcast float %v98 to i32
  %v100 = ashr i32 %v99, 31
  %v101 = and i32 %v100, 2147483647
  %v102 = xor i32 %v99, %v101
  %v103 = fcmp uno float %v97, %v97
  %v104 = select i1 %v103, i32 2147483647, i32 %v102
  %v105 = sext i32 %v104 to i64
  %v106 = shl i64 %v105, 32
  %v107 = trunc i64 %v94 to i32
  %v108 = xor i32 %v107, -1
  %v109 = zext i32 %v108 to i64
  %v110 = or i64 %v106, %v109
  %v111 = load i64, ptr %scratch
  %v112 = icmp sgt i64 %v110, %v111
  br i1 %v112, label %v113.then, label %v113.after
v113.then:
  call void @k2240942481183b69_sift(ptr %scratch, i64 0, i64 3, i64 %v110)
  br label %v113.after
v113.after:
  %v114 = sub i32 %v91, 1
  %v115 = and i32 %v91, %v114
  br label %v89.next
v89.next:
  %v116 = add i64 %v90, 1
  br label %v89
v89.after:
  br label %v117.before
v117.before:
  br label %v117
v117:
  %v118 = phi i64 [ 35, %v117.before ], [ %v138, %v117.next ]
  %v138.more = icmp slt i64 %v118, 40
  br i1 %v138.more, label %v117.turn, label %v117.after
v117.turn:
  %v119 = mul i64 %v118, 4
  %v120 = getelementptr i8, ptr %v6, i64 %v119
  %v121 = load float, ptr %v120, align 4
  %v122 = fadd float %v121, 0x0000000000000000
  %v123 = bitcast float %v122 to i32
  %v124 = ashr i32 %v123, 31
  %v125 = and i32 %v124, 2147483647
  %v126 = xor i32 %v123, %v125
  %v127 = fcmp uno float %v121, %v121
  %v128 = select i1 %v127, i32 2147483647, i32 %v126
  %v129 = sext i32 %v128 to i64
  %v130 = shl i64 %v129, 32
  %v131 = trunc i64 %v118 to i32
  %v132 = xor i32 %v131, -1
  %v133 = zext i32 %v132 to i64
  %v134 = or i64 %v130, %v133
  %v135 = load i64, ptr %scratch
  %v136 = icmp sgt i64 %v134, %v135
  br i1 %v136, label %v137.then, label %v137.after
v137.then:
  call void @k2240942481183b69_sift(ptr %scratch, i64 0, i64 3, i64 %v134)
  br label %v137.after
v137.after:
  br label %v117.next
v117.next:
  %v138 = add i64 %v118, 1
  br label %v117
v117.after:
  %v139 = getelementptr i64, ptr %scratch, i64 3
  store i64 -9223372036854775808, ptr %v139
  %v154 = mul i64 %v3, 3
  br label %v140.before
v140.before:
  br label %v140
v140:
  %v141 = phi i64 [ 0, %v140.before ], [ %v157, %v140.next ]
  %v142 = getelementptr i64, ptr %scratch, i64 %v141
  %v143 = load i64, ptr %v142
  %v144 = insertelement <4 x i64> poison, i64 %v143, i64 0
  %v145 = shufflevector <4 x i64> %v144, <4 x i64> poison, <4 x i32> zeroinitializer
  %v146 = getelementptr i64, ptr %scratch, i64 0
  %v147 = load <4 x i64>, ptr %v146, align 8
  %v148 = icmp sgt <4 x i64> %v147, %v145
  %v149 = sext <4 x i1> %v148 to <4 x i64>
  %v150 = sub <4 x i64> splat (i64 0), %v149
  %v151 = call i64 @llvm.vector.reduce.add.v4i64(<4 x i64> %v150)
  %v152 = trunc i64 %v143 to i32
  %v153 = xor i32 %v152, -1
  %v155 = add i64 %v154, %v151
  %v156 = getelementptr i32, ptr %a0, i64 %v155
  store i32 %v153, ptr %v156, align 4
  br label %v140.next
v140.next:
  %v157 = add i64 %v141, 1
  %v157.more = icmp slt i64 %v157, 3
  br i1 %v157.more, label %v140, label %v140.after
v140.after:
  %v158 = add i64 %v3, 1
  %v159 = icmp eq i64 %v158, 2
  %v160 = select i1 %v159, i64 0, i64 %v158
  %v161 = zext i1 %v159 to i64
  br label %v1.next
v1.next:
  %v162 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

