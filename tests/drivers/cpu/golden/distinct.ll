; distinct of 30
; Numbers the distinct elements of %a1 in order of their first occurrence.
;
; %scratch begins with a hash table of the number plus one of the element at each place, 0 where the
; place is free. It has more than twice as many places as there are elements. The factor of the hash
; differs between processes, so that prepared elements cannot all collide. After the table follows
; the position of the first occurrence of each number.
;
; %a0 has the number of each element, the position of the first occurrence of each number, zeros
; after these, and how many numbers there are.

; Returns the bits by which elements are compared: those of 0.0 for -0.0.
define internal i64 @k614095f0dc5be5f5_bits(i32 %element) nounwind {
  %is.negative.zero = icmp eq i32 %element, 2147483648
  %canonical = select i1 %is.negative.zero, i32 0, i32 %element
  %bits = zext i32 %canonical to i64
  ret i64 %bits
}

define void @k614095f0dc5be5f5(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %entry
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %start, label %done
start:
  %firsts = getelementptr i8, ptr %scratch, i64 256
  %found = getelementptr i32, ptr %a0, i64 30
  %where = ptrtoint ptr %scratch to i64
  %mixed = mul i64 %where, -7046029254386353131
  %factor = or i64 %mixed, 1
  br label %clear
clear:
  %cleared = phi i64 [ 0, %start ], [ %cleared.after, %clear ]
  %p.clear = getelementptr i8, ptr %scratch, i64 %cleared
  store <8 x i64> zeroinitializer, ptr %p.clear, align 64
  %cleared.after = add i64 %cleared, 64
  %is.clear = icmp uge i64 %cleared.after, 256
  br i1 %is.clear, label %test, label %clear
test:
  %index = phi i64 [ 0, %clear ], [ %next, %numbered ]
  %count = phi i64 [ 0, %clear ], [ %count.after, %numbered ]
  %more = icmp ult i64 %index, 30
  br i1 %more, label %look, label %fill
look:
  %p.element = getelementptr i32, ptr %a1, i64 %index
  %element = load i32, ptr %p.element
  %magnitude = and i32 %element, 2147483647
  %is.number = icmp ule i32 %magnitude, 2139095040
  %bits = call i64 @k614095f0dc5be5f5_bits(i32 %element)
  %spread = mul i64 %bits, -7046029254386353131
  %high = lshr i64 %spread, 32
  %folded = xor i64 %spread, %high
  %scaled = mul i64 %folded, %factor
  %upper = lshr i64 %scaled, 32
  %stretched = mul i64 %upper, 64
  %place.first = lshr i64 %stretched, 32
  br i1 %is.number, label %probe, label %add
probe:
  %place = phi i64 [ %place.first, %look ], [ %place.next, %collision ]
  %p.place = getelementptr i32, ptr %scratch, i64 %place
  %stored = load i32, ptr %p.place
  %is.free = icmp eq i32 %stored, 0
  br i1 %is.free, label %claim, label %compare
compare:
  %stored.wide = zext i32 %stored to i64
  %known = sub i64 %stored.wide, 1
  %p.first = getelementptr i32, ptr %firsts, i64 %known
  %first = load i32, ptr %p.first
  %first.wide = zext i32 %first to i64
  %p.other = getelementptr i32, ptr %a1, i64 %first.wide
  %other = load i32, ptr %p.other
  %other.bits = call i64 @k614095f0dc5be5f5_bits(i32 %other)
  %is.equal = icmp eq i64 %bits, %other.bits
  br i1 %is.equal, label %numbered, label %collision
collision:
  %place.following = add i64 %place, 1
  %is.last = icmp eq i64 %place.following, 64
  %place.next = select i1 %is.last, i64 0, i64 %place.following
  br label %probe
claim:
  %count.short = trunc i64 %count to i32
  %claimed = add i32 %count.short, 1
  store i32 %claimed, ptr %p.place
  br label %add
add:
  %p.new = getelementptr i32, ptr %firsts, i64 %count
  %p.found = getelementptr i32, ptr %found, i64 %count
  %position = trunc i64 %index to i32
  store i32 %position, ptr %p.new
  store i32 %position, ptr %p.found
  %grown = add i64 %count, 1
  br label %numbered
numbered:
  %number = phi i64 [ %known, %compare ], [ %count, %add ]
  %count.after = phi i64 [ %count, %compare ], [ %grown, %add ]
  %p.number = getelementptr i32, ptr %a0, i64 %index
  %number.short = trunc i64 %number to i32
  store i32 %number.short, ptr %p.number
  %next = add i64 %index, 1
  br label %test
fill:
  %rest = phi i64 [ %count, %test ], [ %following, %zero ]
  %unfilled = icmp ult i64 %rest, 30
  br i1 %unfilled, label %zero, label %finish
zero:
  %p.rest = getelementptr i32, ptr %found, i64 %rest
  store i32 0, ptr %p.rest
  %following = add i64 %rest, 1
  br label %fill
finish:
  %p.last = getelementptr i32, ptr %found, i64 30
  %total = trunc i64 %count to i32
  store i32 %total, ptr %p.last
  br label %done
done:
  ret void
}

