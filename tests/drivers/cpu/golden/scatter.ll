; 9 rows scattered
define void @kf1d5d4f017297b71(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = icmp slt i64 %begin, %end
  %v3 = mul i64 6, 20
  %v4 = sub i64 %v3, 0
  %v5 = and i64 %v4, -8
  %v20 = sub i64 6, 0
  br i1 %v1, label %v2.then, label %v2.after
v2.then:
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v12, %v6.next ]
  %v12.more = icmp slt i64 %v7, %v5
  br i1 %v12.more, label %v6.turn, label %v6.after
v6.turn:
  %v8 = mul i64 %v7, 4
  %v9 = getelementptr i8, ptr %a3, i64 %v8
  %v10 = load <8 x float>, ptr %v9, align 4
  %v11 = getelementptr i8, ptr %a0, i64 %v8
  store <8 x float> %v10, ptr %v11, align 4
  br label %v6.next
v6.next:
  %v12 = add i64 %v7, 8
  br label %v6
v6.after:
  br label %v13.before
v13.before:
  br label %v13
v13:
  %v14 = phi i64 [ %v5, %v13.before ], [ %v19, %v13.next ]
  %v19.more = icmp slt i64 %v14, %v3
  br i1 %v19.more, label %v13.turn, label %v13.after
v13.turn:
  %v15 = mul i64 %v14, 4
  %v16 = getelementptr i8, ptr %a3, i64 %v15
  %v17 = load float, ptr %v16, align 4
  %v18 = getelementptr i8, ptr %a0, i64 %v15
  store float %v17, ptr %v18, align 4
  br label %v13.next
v13.next:
  %v19 = add i64 %v14, 1
  br label %v13
v13.after:
  br label %v21.before
v21.before:
  br label %v21
v21:
  %v22 = phi i64 [ 0, %v21.before ], [ %v59, %v21.next ]
  %v23 = getelementptr i32, ptr %a1, i64 %v22
  %v24 = load i32, ptr %v23
  %v25 = sext i32 %v24 to i64
  %v26 = sub i64 %v25, 0
  %v27 = icmp ult i64 %v26, %v20
  %v29 = mul i64 %v22, 20
  %v30 = mul i64 %v25, 20
  %v31 = mul i64 %v29, 4
  %v34 = mul i64 %v30, 4
  %v39 = add i64 %v30, 8
  %v40 = add i64 %v29, 8
  %v41 = mul i64 %v40, 4
  %v44 = mul i64 %v39, 4
  %v49 = add i64 %v30, 16
  %v50 = add i64 %v29, 16
  %v51 = mul i64 %v50, 4
  %v54 = mul i64 %v49, 4
  br i1 %v27, label %v28.then, label %v28.after
v28.then:
  %v32 = getelementptr i8, ptr %a2, i64 %v31
  %v33 = load <8 x float>, ptr %v32, align 4
  %v35 = getelementptr i8, ptr %a0, i64 %v34
  %v36 = load <8 x float>, ptr %v35, align 4
  %v37 = fadd <8 x float> %v36, %v33
  %v38 = getelementptr i8, ptr %a0, i64 %v34
  store <8 x float> %v37, ptr %v38, align 4
  %v42 = getelementptr i8, ptr %a2, i64 %v41
  %v43 = load <8 x float>, ptr %v42, align 4
  %v45 = getelementptr i8, ptr %a0, i64 %v44
  %v46 = load <8 x float>, ptr %v45, align 4
  %v47 = fadd <8 x float> %v46, %v43
  %v48 = getelementptr i8, ptr %a0, i64 %v44
  store <8 x float> %v47, ptr %v48, align 4
  %v52 = getelementptr i8, ptr %a2, i64 %v51
  %v53 = load <4 x float>, ptr %v52, align 4
  %v55 = getelementptr i8, ptr %a0, i64 %v54
  %v56 = load <4 x float>, ptr %v55, align 4
  %v57 = fadd <4 x float> %v56, %v53
  %v58 = getelementptr i8, ptr %a0, i64 %v54
  store <4 x float> %v57, ptr %v58, align 4
  br label %v28.after
v28.after:
  br label %v21.next
v21.next:
  %v59 = add i64 %v22, 1
  %v59.more = icmp slt i64 %v59, 9
  br i1 %v59.more, label %v21, label %v21.after
v21.after:
  br label %v2.after
v2.after:
  ret void
}

