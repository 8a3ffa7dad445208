"""Finding and adding the entries of calls in the table, and counting calls."""

from __future__ import annotations

ENTRY_SEARCH_TEXT = """
define internal i64 @hash(ptr %words, i64 %count) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %h = phi i64 [ 7046029254386353131, %entry ], [ %mixed, %body ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %at, align 8
  %joined = xor i64 %h, %word
  %spread = mul i64 %joined, -49064778989728563
  %high = lshr i64 %spread, 32
  %mixed = xor i64 %spread, %high
  %next = add i64 %i, 1
  br label %loop
done:
  ret i64 %h
}

define internal i1 @same(ptr %entry_, ptr %words, i64 %count, i64 %h) nounwind {
entry:
  %own = load i64, ptr %entry_, align 8
  %hit = icmp eq i64 %own, %h
  %at_count = getelementptr i64, ptr %entry_, i64 6
  %own_count = load i64, ptr %at_count, align 8
  %long = icmp eq i64 %own_count, %count
  %maybe = and i1 %hit, %long
  %own_words = getelementptr i64, ptr %entry_, i64 ENTRY_HEAD
  br i1 %maybe, label %loop, label %no
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %yes
body:
  %at = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %at, align 8
  %own_at = getelementptr i64, ptr %own_words, i64 %i
  %own_word = load i64, ptr %own_at, align 8
  %equal = icmp eq i64 %word, %own_word
  %next = add i64 %i, 1
  br i1 %equal, label %loop, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define internal ptr @find(ptr %words, i64 %count) nounwind uwtable {
entry:
  %h = call i64 @hash(ptr %words, i64 %count)
  %table = load ptr, ptr {state}, align 8
  %at_mask = getelementptr i64, ptr {state}, i64 1
  %mask = load i64, ptr %at_mask, align 8
  br label %probe
probe:
  %step = phi i64 [ %h, %entry ], [ %further, %other ]
  %place = and i64 %step, %mask
  %at = getelementptr ptr, ptr %table, i64 %place
  %found = load atomic ptr, ptr %at acquire, align 8
  %empty = icmp eq ptr %found, null
  br i1 %empty, label %unknown, label %compare
compare:
  %is = call i1 @same(ptr %found, ptr %words, i64 %count, i64 %h)
  br i1 %is, label %known, label %other
other:
  %further = add i64 %step, 1
  br label %probe
known:
  %at_kind = getelementptr i64, ptr %found, i64 1
  %kind = load atomic i64, ptr %at_kind monotonic, align 8
  %asks = icmp eq i64 %kind, 3
  br i1 %asks, label %unknown, label %decided
decided:
  ret ptr %found
unknown:
  %at_closed = getelementptr i64, ptr {state}, i64 2
  %closed = load atomic i64, ptr %at_closed monotonic, align 8
  %open = icmp eq i64 %closed, 0
  br i1 %open, label %first, label %nobody
first:
  %made = call ptr @ask(ptr %words, i64 %count)
  ret ptr %made
nobody:
  ret ptr %found
}

; The entry that Python returns, or null. Exceptions are caught here, not in Python: a signal's
; handler may raise before the first line of the called function, and after its last.
define internal ptr @ask(ptr %words, i64 %count) nounwind uwtable {
entry:
  %type_ = alloca ptr, align 8
  %error_ = alloca ptr, align 8
  %trace_ = alloca ptr, align 8
  %at_callback = getelementptr ptr, ptr {state}, i64 7
  %callback = load ptr, ptr %at_callback, align 8
  %lock = call i32 {PyGILState_Ensure}()
  %answer = call ptr (ptr, ptr, ...) {PyObject_CallFunction}(ptr %callback, ptr @two_numbers,
                                                             ptr %words, i64 %count)
  %raised = icmp eq ptr %answer, null
  br i1 %raised, label %later, label %answered
later:
  call void {PyErr_Fetch}(ptr %type_, ptr %error_, ptr %trace_)
  call void {PyErr_NormalizeException}(ptr %type_, ptr %error_, ptr %trace_)
  %type = load ptr, ptr %type_, align 8
  call void {Py_DecRef}(ptr %type)
  %trace = load ptr, ptr %trace_, align 8
  call void {Py_DecRef}(ptr %trace)
  %error = load ptr, ptr %error_, align 8
  %e = call i32 {Py_AddPendingCall}(ptr @raise_again, ptr %error)
  br label %done
answered:
  %number = call ptr {PyLong_AsVoidPtr}(ptr %answer)
  call void {Py_DecRef}(ptr %answer)
  br label %done
done:
  %made = phi ptr [ null, %later ], [ %number, %answered ]
  call void {PyGILState_Release}(i32 %lock)
  ret ptr %made
}

@two_numbers = private constant [3 x i8] c"KL\\00"

; Python calls it in the main thread, as soon as the program continues there.
define internal i32 @raise_again(ptr %error) nounwind uwtable {
entry:
  %type = call ptr {PyObject_Type}(ptr %error)
  call void {PyErr_SetObject}(ptr %type, ptr %error)
  call void {Py_DecRef}(ptr %type)
  call void {Py_DecRef}(ptr %error)
  ret i32 -1
}

define void @insert(ptr %entry_) nounwind {
entry:
  %at_count = getelementptr i64, ptr %entry_, i64 6
  %count = load i64, ptr %at_count, align 8
  %words = getelementptr i64, ptr %entry_, i64 ENTRY_HEAD
  %h = call i64 @hash(ptr %words, i64 %count)
  store i64 %h, ptr %entry_, align 8
  %table = load ptr, ptr {state}, align 8
  %at_mask = getelementptr i64, ptr {state}, i64 1
  %mask = load i64, ptr %at_mask, align 8
  br label %probe
probe:
  %step = phi i64 [ %h, %entry ], [ %further, %other ]
  %place = and i64 %step, %mask
  %at = getelementptr ptr, ptr %table, i64 %place
  %found = load ptr, ptr %at, align 8
  %empty = icmp eq ptr %found, null
  br i1 %empty, label %put, label %other
other:
  %further = add i64 %step, 1
  br label %probe
put:
  store atomic ptr %entry_, ptr %at release, align 8
  ret void
}

define internal ptr @plan_of(ptr %entry_) uwtable {
entry:
  %none = icmp eq ptr %entry_, null
  br i1 %none, label %nobody, label %look
nobody:
  %at_unseen = getelementptr i64, ptr {state}, i64 6
  %n = atomicrmw add ptr %at_unseen, i64 1 monotonic
  ret ptr null
look:
  %at_kind = getelementptr i64, ptr %entry_, i64 1
  %kind = load atomic i64, ptr %at_kind acquire, align 8
  %raises = icmp eq i64 %kind, 2
  br i1 %raises, label %bad, label %good
bad:
  ret ptr null
good:
  %ours = icmp eq i64 %kind, 1
  br i1 %ours, label %take, label %leave
take:
  %at_plan = getelementptr ptr, ptr %entry_, i64 4
  %plan = load ptr, ptr %at_plan, align 8
  ret ptr %plan
leave:
  call void @count(ptr %entry_, i64 3)
  ret ptr null
}

define internal void @count(ptr %entry_, i64 %place) nounwind {
entry:
  %none = icmp eq ptr %entry_, null
  br i1 %none, label %done, label %add
add:
  %at = getelementptr i64, ptr %entry_, i64 %place
  %n = atomicrmw add ptr %at, i64 1 monotonic
  br label %done
done:
  ret void
}

define internal ptr @message_of(ptr %entry_) nounwind {
entry:
  %none = icmp eq ptr %entry_, null
  br i1 %none, label %fine, label %look
look:
  %at_kind = getelementptr i64, ptr %entry_, i64 1
  %kind = load atomic i64, ptr %at_kind acquire, align 8
  %raises = icmp eq i64 %kind, 2
  br i1 %raises, label %bad, label %fine
bad:
  %at_message = getelementptr ptr, ptr %entry_, i64 5
  %message = load ptr, ptr %at_message, align 8
  ret ptr %message
fine:
  ret ptr null
}
"""
