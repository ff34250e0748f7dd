; 2 elements at once
declare i64 @llvm.smin.i64(i64, i64)
define void @k8e3de57bf36f52ab(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = mul i64 %begin, 1
  %v2 = mul i64 %end, 1
  %v3 = call i64 @llvm.smin.i64(i64 %v2, i64 1)
  %v6 = mul i64 0, 2
  %v7 = getelementptr float, ptr %a1, i64 %v6
  %v12 = getelementptr float, ptr %a0, i64 %v6
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %v1, %v4.before ], [ %v13, %v4.next ]
  %v13.more = icmp slt i64 %v5, %v3
  br i1 %v13.more, label %v4.turn, label %v4.after
v4.turn:
  %v8 = load <2 x float>, ptr %v7, align 4
  %v9 = fmul <2 x float> %v8, splat (float 0x4000000000000000)
  %v10 = fmul <2 x float> %v9, splat (float 0x4000000000000000)
  %v11 = fmul <2 x float> %v10, splat (float 0x4000000000000000)
  store <2 x float> %v11, ptr %v12, align 4
  br label %v4.next
v4.next:
  %v13 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

