"""Memory that the kernels of a plan borrow: the arena, or a tensor while that is in use.

On GPUs it is always a tensor. Which of the two it is makes no difference to results, so that a
call computes the same whatever other threads do.
"""

from __future__ import annotations

BORROWING_TEXT = """
; Writes where the memory is to %lent, and a tensor's handle after it if it is one's.
define internal i1 @borrow(i64 %needs, i64 %device, ptr %lent) nounwind uwtable {
entry:
  %at_room = getelementptr ptr, ptr %lent, i64 1
  store ptr null, ptr %lent, align 8
  store ptr null, ptr %at_room, align 8
  %none = icmp eq i64 %needs, 0
  br i1 %none, label %done, label %where
where:
  %is_cpu = icmp eq i64 %device, 0
  br i1 %is_cpu, label %try, label %rent
try:
  %at_busy = getelementptr i64, ptr {state}, i64 5
  %pair = cmpxchg ptr %at_busy, i64 0, i64 1 acquire monotonic
  %got = extractvalue { i64, i1 } %pair, 1
  br i1 %got, label %arena, label %rent
arena:
  %at_arena = getelementptr ptr, ptr {state}, i64 3
  %own = load ptr, ptr %at_arena, align 8
  store ptr %own, ptr %lent, align 8
  br label %done
rent:
  %size = alloca i64, align 8
  %stride = alloca i64, align 8
  %room_bytes = add i64 %needs, 4095
  store i64 %room_bytes, ptr %size, align 8
  store i64 1, ptr %stride, align 8
  %type64 = lshr i64 %device, 8
  %type = trunc i64 %type64 to i32
  %index64 = and i64 %device, 255
  %index = trunc i64 %index64 to i32
  %e0 = call i32 {aoti_torch_empty_strided}(i64 1, ptr %size, ptr %stride, i32 0, i32 %type,
                                            i32 %index, ptr %at_room)
  %made = icmp eq i32 %e0, 0
  br i1 %made, label %align, label %failed
align:
  %room = load ptr, ptr %at_room, align 8
  %e1 = call i32 {torch_get_mutable_data_ptr}(ptr %room, ptr %lent)
  %base = load i64, ptr %lent, align 8
  %beyond = add i64 %base, 4095
  %page = and i64 %beyond, -4096
  store i64 %page, ptr %lent, align 8
  br label %done
failed:
  store ptr null, ptr %at_room, align 8
  ret i1 false
done:
  ret i1 true
}

define internal void @give_back(i64 %needs, ptr %lent) nounwind uwtable {
entry:
  %none = icmp eq i64 %needs, 0
  br i1 %none, label %done, label %look
look:
  %at_room = getelementptr ptr, ptr %lent, i64 1
  %room = load ptr, ptr %at_room, align 8
  %is_arena = icmp eq ptr %room, null
  br i1 %is_arena, label %release, label %free
release:
  %at_busy = getelementptr i64, ptr {state}, i64 5
  store atomic i64 0, ptr %at_busy release, align 8
  br label %done
free:
  %e = call i32 {aoti_torch_delete_tensor_object}(ptr %room)
  br label %done
done:
  ret void
}
"""
