; 32 elements at once
declare <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8>, <32 x i8>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k211179e0f1207062(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = mul i64 %begin, 1
  %v2 = mul i64 %end, 1
  %v3 = call i64 @llvm.smin.i64(i64 %v2, i64 1)
  %v27 = getelementptr i8, ptr %a2, i64 16
  %v32 = getelementptr i8, ptr %a2, i64 32
  %v36 = getelementptr i8, ptr %a2, i64 48
  %v42 = getelementptr i8, ptr %a2, i64 64
  %v46 = getelementptr i8, ptr %a2, i64 80
  %v51 = getelementptr i8, ptr %a2, i64 96
  %v55 = getelementptr i8, ptr %a2, i64 112
  %v62 = getelementptr i8, ptr %a2, i64 128
  %v66 = getelementptr i8, ptr %a2, i64 144
  %v71 = getelementptr i8, ptr %a2, i64 160
  %v75 = getelementptr i8, ptr %a2, i64 176
  %v81 = getelementptr i8, ptr %a2, i64 192
  %v85 = getelementptr i8, ptr %a2, i64 208
  %v90 = getelementptr i8, ptr %a2, i64 224
  %v94 = getelementptr i8, ptr %a2, i64 240
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %v1, %v4.before ], [ %v104, %v4.next ]
  %v104.more = icmp slt i64 %v5, %v3
  br i1 %v104.more, label %v4.turn, label %v4.after
v4.turn:
  %v24 = load <16 x i8>, ptr %a2, align 1
  %v25 = shufflevector <16 x i8> %v24, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v28 = load <16 x i8>, ptr %v27, align 1
  %v29 = shufflevector <16 x i8> %v28, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v33 = load <16 x i8>, ptr %v32, align 1
  %v34 = shufflevector <16 x i8> %v33, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v37 = load <16 x i8>, ptr %v36, align 1
  %v38 = shufflevector <16 x i8> %v37, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v43 = load <16 x i8>, ptr %v42, align 1
  %v44 = shufflevector <16 x i8> %v43, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v47 = load <16 x i8>, ptr %v46, align 1
  %v48 = shufflevector <16 x i8> %v47, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v52 = load <16 x i8>, ptr %v51, align 1
  %v53 = shufflevector <16 x i8> %v52, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v56 = load <16 x i8>, ptr %v55, align 1
  %v57 = shufflevector <16 x i8> %v56, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v63 = load <16 x i8>, ptr %v62, align 1
  %v64 = shufflevector <16 x i8> %v63, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v67 = load <16 x i8>, ptr %v66, align 1
  %v68 = shufflevector <16 x i8> %v67, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v72 = load <16 x i8>, ptr %v71, align 1
  %v73 = shufflevector <16 x i8> %v72, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v76 = load <16 x i8>, ptr %v75, align 1
  %v77 = shufflevector <16 x i8> %v76, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v82 = load <16 x i8>, ptr %v81, align 1
  %v83 = shufflevector <16 x i8> %v82, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v86 = load <16 x i8>, ptr %v85, align 1
  %v87 = shufflevector <16 x i8> %v86, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v91 = load <16 x i8>, ptr %v90, align 1
  %v92 = shufflevector <16 x i8> %v91, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v95 = load <16 x i8>, ptr %v94, align 1
  %v96 = shufflevector <16 x i8> %v95, <16 x i8> poison, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v103, %v6.next ]
  %v8 = mul i64 %v7, 32
  %v9 = call i64 @llvm.smin.i64(i64 %v8, i64 268)
  %v10 = getelementptr i8, ptr %a1, i64 %v9
  %v11 = load <32 x i8>, ptr %v10, align 1
  %v12 = xor <32 x i8> %v11, splat (i8 128)
  %v13 = zext <32 x i8> %v12 to <32 x i16>
  %v14 = trunc <32 x i16> %v13 to <32 x i8>
  %v15 = and <32 x i8> %v14, splat (i8 15)
  %v16 = shl <32 x i8> %v14, splat (i8 3)
  %v17 = icmp slt <32 x i8> %v16, splat (i8 0)
  %v18 = shl <32 x i8> %v14, splat (i8 2)
  %v19 = icmp slt <32 x i8> %v18, splat (i8 0)
  %v20 = shl <32 x i8> %v14, splat (i8 1)
  %v21 = icmp slt <32 x i8> %v20, splat (i8 0)
  %v22 = shl <32 x i8> %v14, splat (i8 0)
  %v23 = icmp slt <32 x i8> %v22, splat (i8 0)
  %v26 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v25, <32 x i8> %v15)
  %v30 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v29, <32 x i8> %v15)
  %v31 = select <32 x i1> %v17, <32 x i8> %v30, <32 x i8> %v26
  %v35 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v34, <32 x i8> %v15)
  %v39 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v38, <32 x i8> %v15)
  %v40 = select <32 x i1> %v17, <32 x i8> %v39, <32 x i8> %v35
  %v41 = select <32 x i1> %v19, <32 x i8> %v40, <32 x i8> %v31
  %v45 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v44, <32 x i8> %v15)
  %v49 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v48, <32 x i8> %v15)
  %v50 = select <32 x i1> %v17, <32 x i8> %v49, <32 x i8> %v45
  %v54 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v53, <32 x i8> %v15)
  %v58 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v57, <32 x i8> %v15)
  %v59 = select <32 x i1> %v17, <32 x i8> %v58, <32 x i8> %v54
  %v60 = select <32 x i1> %v19, <32 x i8> %v59, <32 x i8> %v50
  %v61 = select <32 x i1> %v21, <32 x i8> %v60, <32 x i8> %v41
  %v65 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v64, <32 x i8> %v15)
  %v69 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v68, <32 x i8> %v15)
  %v70 = select <32 x i1> %v17, <32 x i8> %v69, <32 x i8> %v65
  %v74 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v73, <32 x i8> %v15)
  %v78 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v77, <32 x i8> %v15)
  %v79 = select <32 x i1> %v17, <32 x i8> %v78, <32 x i8> %v74
  %v80 = select <32 x i1> %v19, <32 x i8> %v79, <32 x i8> %v70
  %v84 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v83, <32 x i8> %v15)
  %v88 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v87, <32 x i8> %v15)
  %v89 = select <32 x i1> %v17, <32 x i8> %v88, <32 x i8> %v84
  %v93 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v92, <32 x i8> %v15)
  %v97 = call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> %v96, <32 x i8> %v15)
  %v98 = select <32 x i1> %v17, <32 x i8> %v97, <32 x i8> %v93
  %v99 = select <32 x i1> %v19, <32 x i8> %v98, <32 x i8> %v89
  %v100 = select <32 x i1> %v21, <32 x i8> %v99, <32 x i8> %v80
  %v101 = select <32 x i1> %v23, <32 x i8> %v100, <32 x i8> %v61
  %v102 = getelementptr i8, ptr %a0, i64 %v9
  store <32 x i8> %v101, ptr %v102, align 1
  br label %v6.next
v6.next:
  %v103 = add i64 %v7, 1
  %v103.more = icmp slt i64 %v103, 10
  br i1 %v103.more, label %v6, label %v6.after
v6.after:
  br label %v4.next
v4.next:
  %v104 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

