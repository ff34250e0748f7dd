; Copies memory of files that others may truncate meanwhile; guarded_copy.py describes the layouts.

; The memory that guarded_copy.py gives: see there.
@neurald_guard = external global i8

declare i32 @sigaction(i32, ptr, ptr)
declare i32 @raise(i32)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare ptr @memcpy(ptr, ptr, i64)

; Handles SIGBUS. Touching a page that a file does not have any more is answered by memory in the
; place of the file, in all of the range from that page on.
define void @neurald_on_bus_error(i32 %signal, ptr %info, ptr %context) {
entry:
  %code_at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code_at
  %is_page = icmp eq i32 %code, 2 ; BUS_ADRERR
  br i1 %is_page, label %find, label %others

find:
  %address_at = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %address_at
  %count_at = getelementptr i8, ptr @neurald_guard, i64 160
  %count = load i64, ptr %count_at
  %slots = getelementptr i8, ptr @neurald_guard, i64 168
  br label %next

next:
  %number = phi i64 [ 0, %find ], [ %following, %miss ]
  %is_left = icmp ult i64 %number, %count
  br i1 %is_left, label %compare, label %others

compare:
  %offset = mul i64 %number, 24
  %slot = getelementptr i8, ptr %slots, i64 %offset
  ; A slot without a range has a start behind all addresses, and 0 as its end. So there is no range
  ; until both are seen.
  %end_at = getelementptr i8, ptr %slot, i64 8
  %end = load atomic i64, ptr %end_at acquire, align 8
  %start = load atomic i64, ptr %slot acquire, align 8
  %is_after = icmp uge i64 %address, %start
  %is_before = icmp ult i64 %address, %end
  %is_inside = and i1 %is_after, %is_before
  br i1 %is_inside, label %replace, label %miss

miss:
  %following = add i64 %number, 1
  br label %next

replace:
  %page_bytes_at = getelementptr i8, ptr @neurald_guard, i64 152
  %page_bytes = load i64, ptr %page_bytes_at
  %mask = sub i64 0, %page_bytes
  %page = and i64 %address, %mask
  %size = sub i64 %end, %page
  %place = inttoptr i64 %page to ptr
  ; PROT_READ | PROT_WRITE, and MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
  %mapped = call ptr @mmap(ptr %place, i64 %size, i32 3, i32 50, i32 -1, i64 0)
  %is_mapped = icmp eq ptr %mapped, %place
  br i1 %is_mapped, label %note, label %others

note:
  %cut_at = getelementptr i8, ptr %slot, i64 16
  store atomic i64 1, ptr %cut_at seq_cst, align 8
  ret void

others:
  %previous = load ptr, ptr @neurald_guard
  %previous_word = ptrtoint ptr %previous to i64
  %is_function = icmp ugt i64 %previous_word, 1 ; neither SIG_DFL nor SIG_IGN
  %flags_at = getelementptr i8, ptr @neurald_guard, i64 136
  %flags = load i32, ptr %flags_at
  %is_for_many = icmp sge i32 %flags, 0 ; not SA_RESETHAND
  %is_passed = and i1 %is_function, %is_for_many
  br i1 %is_passed, label %pass, label %restore

pass:
  call void %previous(i32 %signal, ptr %info, ptr %context)
  ret void

restore:
  ; The access is made again, with the action that was there before, which ends the process or is for
  ; one signal. A signal that was sent is sent again.
  %restored = call i32 @sigaction(i32 %signal, ptr @neurald_guard, ptr null)
  %was_sent = icmp sle i32 %code, 0
  br i1 %was_sent, label %send, label %done

send:
  %sent = call i32 @raise(i32 %signal)
  ret void

done:
  ret void
}

; Copies bytes from or to the range of a slot. Returns 0 if they have been copied, 1 if the file was
; truncated, and 2 if nothing was done since another handler of SIGBUS has been installed.
define i32 @neurald_guarded_copy(ptr %target, ptr %source, i64 %size, ptr %slot) {
entry:
  %action = alloca [152 x i8], align 8
  %failed = call i32 @sigaction(i32 7, ptr null, ptr %action) ; SIGBUS
  %handler = load ptr, ptr %action
  %is_failed = icmp ne i32 %failed, 0
  %is_other = icmp ne ptr %handler, @neurald_on_bus_error
  %is_unguarded = or i1 %is_failed, %is_other
  br i1 %is_unguarded, label %unguarded, label %copy

copy:
  %copied = call ptr @memcpy(ptr %target, ptr %source, i64 %size)
  %cut_at = getelementptr i8, ptr %slot, i64 16
  %cut = load atomic i64, ptr %cut_at seq_cst, align 8
  %is_cut = icmp ne i64 %cut, 0
  %result = zext i1 %is_cut to i32
  ret i32 %result

unguarded:
  ret i32 2
}
