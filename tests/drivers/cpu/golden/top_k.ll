; the largest 3 of 300
declare <8 x i32> @llvm.smax.v8i32(<8 x i32>, <8 x i32>)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.vector.reduce.add.v8i32(<8 x i32>)
declare i64 @llvm.vector.reduce.add.v4i64(<4 x i64>)

; Puts a mark into a heap of %count, of which the place %hole is free: down to where nothing below
; it is less.
define internal void @k2a0d70430ce3135d_sift(ptr %heap, i64 %hole, i64 %count, i64 %mark) nounwind {
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

define void @k2a0d70430ce3135d(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v27 = sub i64 0, 0
  br label %v1.before
v1.before:
  br label %v1
v1:
  %v2 = phi i64 [ %begin, %v1.before ], [ %v165, %v1.next ]
  %v3 = phi i64 [ %begin, %v1.before ], [ %v163, %v1.next ]
  %v165.more = icmp slt i64 %v2, %end
  br i1 %v165.more, label %v1.turn, label %v1.after
v1.turn:
  %v4 = sub i64 %v2, %begin
  %v5 = mul i64 %v3, 1200
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
  call void @k2a0d70430ce3135d_sift(ptr %scratch, i64 %v27, i64 3, i64 %v29)
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
  %v46.more = icmp slt i64 %v46, 33
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
  %v81 = icmp eq i32 %v65, -2147483648
  %v82 = sub i32 %v65, 1
  %v83 = select i1 %v81, i32 %v65, i32 %v82
  br label %v66.before
v66.before:
  br label %v66
v66:
  %v67 = phi i64 [ 3, %v66.before ], [ %v119, %v66.next ]
  %v68 = mul i64 %v67, 4
  %v69 = getelementptr i8, ptr %v6, i64 %v68
  %v70 = load <32 x float>, ptr %v69, align 4
  %v71 = fadd <32 x float> %v70, splat (float 0x0000000000000000)
  %v72 = bitcast <32 x float> %v71 to <32 x i32>
  %v73 = ashr <32 x i32> %v72, splat (i32 31)
  %v74 = and <32 x i32> %v73, splat (i32 2147483647)
  %v75 = xor <32 x i32> %v72, %v74
  %v76 = fcmp uno <32 x float> %v70, %v70
  %v77 = select <32 x i1> %v76, <32 x i32> splat (i32 2147483647), <32 x i32> %v75
  %v78 = load i64, ptr %scratch
  %v79 = lshr i64 %v78, 32
  %v80 = trunc i64 %v79 to i32
  %v84 = call i32 @llvm.smax.i32(i32 %v80, i32 %v83)
  %v85 = insertelement <32 x i32> poison, i32 %v84, i64 0
  %v86 = shufflevector <32 x i32> %v85, <32 x i32> poison, <32 x i32> zeroinitializer
  %v87 = icmp sgt <32 x i32> %v77, %v86
  %v88 = bitcast <32 x i1> %v87 to i32
  %v89 = call i32 @llvm.ctpop.i32(i32 %v88)
  %v90 = zext i32 %v89 to i64
  br label %v91.before
v91.before:
  br label %v91
v91:
  %v92 = phi i64 [ 0, %v91.before ], [ %v118, %v91.next ]
  %v93 = phi i32 [ %v88, %v91.before ], [ %v117, %v91.next ]
  %v118.more = icmp slt i64 %v92, %v90
  br i1 %v118.more, label %v91.turn, label %v91.after
v91.turn:
  %v94 = call i32 @llvm.cttz.i32(i32 %v93, i1 true)
  %v95 = zext i32 %v94 to i64
  %v96 = add i64 %v67, %v95
  %v97 = mul i64 %v96, 4
  %v98 = getelementptr i8, ptr %v6, i64 %v97
  %v99 = load float, ptr %v98, align 4
  %v100 = fadd float %v99, 0x0000000000000000
  %v101 = bitcast float %v100 to i32
  %v102 = ashr i32 %v101, 31
  %v103 = and i32 %v102, 2147483647
  %v104 = xor i32 %v101, %v103
  %v105 = fcmp uno float %v99, %v99
  %v106 = select i1 %v105, i32 2147483647, i32 %v104
  %v107 = sext i32 %v106 to i64
  %v108 = shl i64 %v107, 32
  %v109 = trunc i64 %v96 to i32
  %v110 = xor i32 %v109, -1
  %v111 = zext i32 %v110 to i64
  %v112 = or i64 %v108, %v111
  %v113 = load i64, ptr %scratch
  %v114 = icmp sgt i64 %v112, %v113
  br i1 %v114, label %v115.then, label %v115.after
v115.then:
  call void @k2a0d70430ce3135d_sift(ptr %scratch, i64 0, i64 3, i64 %v112)
  br label %v115.after
v115.after:
  %v116 = sub i32 %v93, 1
  %v117 = and i32 %v93, %v116
  br label %v91.next
v91.next:
  %v118 = add i64 %v92, 1
  br label %v91
v91.after:
  br label %v66.next
v66.next:
  %v119 = add i64 %v67, 32
  %v119.more = icmp slt i64 %v119, 291
  br i1 %v119.more, label %v66, label %v66.after
v66.after:
  br label %v120.before
v120.before:
  br label %v120
v120:
  %v121 = phi i64 [ 291, %v120.before ], [ %v141, %v120.next ]
  %v141.more = icmp slt i64 %v121, 300
  br i1 %v141.more, label %v120.turn, label %v120.after
v120.turn:
  %v122 = mul i64 %v121, 4
  %v123 = getelementptr i8, ptr %v6, i64 %v122
  %v124 = load float, ptr %v123, align 4
  %v125 = fadd float %v124, 0x0000000000000000
  %v126 = bitcast float %v125 to i32
  %v127 = ashr i32 %v126, 31
  %v128 = and i32 %v127, 2147483647
  %v129 = xor i32 %v126, %v128
  %v130 = fcmp uno float %v124, %v124
  %v131 = select i1 %v130, i32 2147483647, i32 %v129
  %v132 = sext i32 %v131 to i64
  %v133 = shl i64 %v132, 32
  %v134 = trunc i64 %v121 to i32
  %v135 = xor i32 %v134, -1
  %v136 = zext i32 %v135 to i64
  %v137 = or i64 %v133, %v136
  %v138 = load i64, ptr %scratch
  %v139 = icmp sgt i64 %v137, %v138
  br i1 %v139, label %v140.then, label %v140.after
v140.then:
  call void @k2a0d70430ce3135d_sift(ptr %scratch, i64 0, i64 3, i64 %v137)
  br label %v140.after
v140.after:
  br label %v120.next
v120.next:
  %v141 = add i64 %v121, 1
  br label %v120
v120.after:
  %v142 = getelementptr i64, ptr %scratch, i64 3
  store i64 -9223372036854775808, ptr %v142
  %v157 = mul i64 %v3, 3
  br label %v143.before
v143.before:
  br label %v143
v143:
  %v144 = phi i64 [ 0, %v143.before ], [ %v160, %v143.next ]
  %v145 = getelementptr i64, ptr %scratch, i64 %v144
  %v146 = load i64, ptr %v145
  %v147 = insertelement <4 x i64> poison, i64 %v146, i64 0
  %v148 = shufflevector <4 x i64> %v147, <4 x i64> poison, <4 x i32> zeroinitializer
  %v149 = getelementptr i64, ptr %scratch, i64 0
  %v150 = load <4 x i64>, ptr %v149, align 8
  %v151 = icmp sgt <4 x i64> %v150, %v148
  %v152 = sext <4 x i1> %v151 to <4 x i64>
  %v153 = sub <4 x i64> splat (i64 0), %v152
  %v154 = call i64 @llvm.vector.reduce.add.v4i64(<4 x i64> %v153)
  %v155 = trunc i64 %v146 to i32
  %v156 = xor i32 %v155, -1
  %v158 = add i64 %v157, %v154
  %v159 = getelementptr i32, ptr %a0, i64 %v158
  store i32 %v156, ptr %v159, align 4
  br label %v143.next
v143.next:
  %v160 = add i64 %v144, 1
  %v160.more = icmp slt i64 %v160, 3
  br i1 %v160.more, label %v143, label %v143.after
v143.after:
  %v161 = add i64 %v3, 1
  %v162 = icmp eq i64 %v161, 2
  %v163 = select i1 %v162, i64 0, i64 %v161
  %v164 = zext i1 %v162 to i64
  br label %v1.next
v1.next:
  %v165 = add i64 %v2, 1
  br label %v1
v1.after:
  ret void
}

