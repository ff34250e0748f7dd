; Copies two numbers, or replaces them by random ones if both are 0.
define void @$KERNEL($PARAMETERS) nounwind {
  br label %entry
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %copy, label %done
copy:
  %first = load i64, ptr %a1
  %p.second = getelementptr i64, ptr %a1, i64 1
  %second = load i64, ptr %p.second
  store i64 %first, ptr %a0
  %p.copy = getelementptr i64, ptr %a0, i64 1
  store i64 %second, ptr %p.copy
  %both = or i64 %first, %second
  %are.zero = icmp eq i64 %both, 0
  br i1 %are.zero, label %draw, label %done
draw:
  ; getrandom gives up to 256 bytes at once.
  %drawn = call i64 (i64, ...) @syscall(i64 $GETRANDOM, ptr %a0, i64 16, i64 0)
  br label %done
done:
  ret void
}
