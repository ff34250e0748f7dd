; 8 elements at once
declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <8 x float> @llvm.sqrt.v8f32(<8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
define void @k83a420688758eaae(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  %v1 = mul i64 %begin, 1
  %v2 = mul i64 %end, 1
  %v3 = call i64 @llvm.smin.i64(i64 %v2, i64 1)
  br label %v4.before
v4.before:
  br label %v4
v4:
  %v5 = phi i64 [ %v1, %v4.before ], [ %v22, %v4.next ]
  %v22.more = icmp slt i64 %v5, %v3
  br i1 %v22.more, label %v4.turn, label %v4.after
v4.turn:
  br label %v6.before
v6.before:
  br label %v6
v6:
  %v7 = phi i64 [ 0, %v6.before ], [ %v21, %v6.next ]
  %v8 = mul i64 %v7, 8
  %v9 = call i64 @llvm.smin.i64(i64 %v8, i64 4)
  br label %v10.before
v10.before:
  br label %v10
v10:
  %v11 = phi i64 [ 0, %v10.before ], [ %v18, %v10.next ]
  %v12 = phi <8 x float> [ splat (float 0x0000000000000000), %v10.before ], [ %v17, %v10.next ]
  %v13 = mul i64 %v11, 12
  %v14 = add i64 %v13, %v9
  %v15 = getelementptr float, ptr %a1, i64 %v14
  %v16 = load <8 x float>, ptr %v15, align 4
  %v17 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %v16, <8 x float> %v16, <8 x float> %v12)
  br label %v10.next
v10.next:
  %v18 = add i64 %v11, 1
  %v18.more = icmp slt i64 %v18, 30
  br i1 %v18.more, label %v10, label %v10.after
v10.after:
  %v19 = call <8 x float> @llvm.sqrt.v8f32(<8 x float> %v17)
  %v20 = getelementptr float, ptr %a0, i64 %v9
  store <8 x float> %v19, ptr %v20, align 4
  br label %v6.next
v6.next:
  %v21 = add i64 %v7, 1
  %v21.more = icmp slt i64 %v21, 2
  br i1 %v21.more, label %v6, label %v6.after
v6.after:
  br label %v4.next
v4.next:
  %v22 = add i64 %v5, 1
  br label %v4
v4.after:
  ret void
}

