; 8 elements at once
declare i64 @llvm.smin.i64(i64, i64)
define void @k2c639956ccd420f6(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = mul i64 %begin, 1
  %v2 = mul i64 %end, 1
  %v3 = call i64 @llvm.smin.i64(i64 %v2, i64 1)
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %v1, %v4.before ], [ %v38, %v4.next ]
  %v38.more = icmp slt i64 %v5, %v3
  br i1 %v38.more, label %v4.turn, label %v4.after
v4.turn:
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v37, %v6.next ]
  %v12 = getelementptr i32, ptr %a1, i64 %v7
  %v13 = load i32, ptr %v12, align 4
  %v14 = icmp slt i32 %v13, 6
  %v15 = xor i1 %v14, true
  %v17 = icmp slt i32 %v13, 0
  %v18 = select i1 %v17, i32 0, i32 %v13
  %v19 = sext i32 %v18 to i64
  %v20 = sdiv i64 %v19, 6
  %v21 = mul i64 %v20, 6
  %v22 = sub i64 %v19, %v21
  %v23 = xor i64 %v22, 6
  %v24 = icmp slt i64 %v23, 0
  %v25 = icmp ne i64 %v22, 0
  %v26 = and i1 %v24, %v25
  %v27 = select i1 %v26, i64 6, i64 0
  %v28 = add i64 %v22, %v27
  %v29 = mul i64 %v28, 20
  %v33 = mul i64 %v7, 20
  br label %v8.before
v8.before:
  br label %v8
v8:
  %v9 = phi i64 [ 0, %v8.before ], [ %v36, %v8.next ]
  %v10 = mul i64 %v9, 8
  %v11 = call i64 @llvm.smin.i64(i64 %v10, i64 12)
  br i1 %v15, label %v16.then, label %v16.after
v16.then:
  store i32 1, ptr %status, align 4
  br label %v16.after
v16.after:
  %v30 = add i64 %v29, %v11
  %v31 = getelementptr float, ptr %a2, i64 %v30
  %v32 = load <8 x float>, ptr %v31, align 4
  %v34 = add i64 %v33, %v11
  %v35 = getelementptr float, ptr %a0, i64 %v34
  store <8 x float> %v32, ptr %v35, align 4
  br label %v8.next
v8.next:
  %v36 = add i64 %v9, 1
  %v36.more = icmp slt i64 %v36, 3
  br i1 %v36.more, label %v8, label %v8.after
v8.after:
  br label %v6.next
v6.next:
  %v37 = add i64 %v7, 1
  %v37.more = icmp slt i64 %v37, 5
  br i1 %v37.more, label %v6, label %v6.after
v6.after:
  br label %v4.next
v4.next:
  %v38 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

