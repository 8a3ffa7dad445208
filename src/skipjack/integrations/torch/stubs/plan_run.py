"""Running the kernels of a plan on PyTorch's threads, and the memory that they borrow."""

from __future__ import annotations

# Scratch memory for the kernels of a plan: the arena, or a tensor while the arena is in use.
#
# On GPUs it is always a tensor. The choice does not affect results, so a call computes the same
# whatever other threads do.

ARENA_TEXT = """
; Writes the address of the memory to %lent, followed by the handle of its tensor, if any.
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


# Running the kernels of a plan on PyTorch's threads.

PLAN_RUN_TEXT = """
define internal void @part(i64 %begin, i64 %end, ptr %context) nounwind uwtable {
entry:
  %task = load ptr, ptr %context, align 8
  %at_slots = getelementptr ptr, ptr %context, i64 1
  %slots = load ptr, ptr %at_slots, align 8
  %at_count = getelementptr i64, ptr %context, i64 2
  %count = load i64, ptr %at_count, align 8
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  call void %task(ptr %slots, i64 %i, i64 %count)
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

define void @parallel(ptr %task, ptr %slots, i64 %count) nounwind uwtable {
entry:
  %context = alloca [3 x i64], align 8
  store ptr %task, ptr %context, align 8
  %at_slots = getelementptr ptr, ptr %context, i64 1
  store ptr %slots, ptr %at_slots, align 8
  %at_count = getelementptr i64, ptr %context, i64 2
  store i64 %count, ptr %at_count, align 8
  %e = call i32 {torch_parallel_for}(i64 0, i64 %count, i64 1, ptr @part, ptr %context)
  %good = icmp eq i32 %e, 0
  br i1 %good, label %done, label %alone
alone:
  call void @part(i64 0, i64 %count, ptr %context)
  br label %done
done:
  ret void
}

define internal i1 @make_output(ptr %record, ptr %results) nounwind uwtable {
entry:
  %result = load i64, ptr %record, align 8
  %at_rank = getelementptr i64, ptr %record, i64 1
  %rank = load i64, ptr %at_rank, align 8
  %at_sizes = getelementptr ptr, ptr %record, i64 2
  %sizes = load ptr, ptr %at_sizes, align 8
  %at_strides = getelementptr ptr, ptr %record, i64 3
  %strides = load ptr, ptr %at_strides, align 8
  %at_dtype = getelementptr i64, ptr %record, i64 4
  %dtype64 = load i64, ptr %at_dtype, align 8
  %dtype = trunc i64 %dtype64 to i32
  %at_type = getelementptr i64, ptr %record, i64 5
  %type64 = load i64, ptr %at_type, align 8
  %type = trunc i64 %type64 to i32
  %at_index = getelementptr i64, ptr %record, i64 6
  %index64 = load i64, ptr %at_index, align 8
  %index = trunc i64 %index64 to i32
  %to = getelementptr ptr, ptr %results, i64 %result
  %undefined = icmp eq i32 %dtype, -1
  br i1 %undefined, label %nothing, label %tensor
nothing:
  %e_nothing = call i32 {aoti_torch_new_uninitialized_tensor}(ptr %to)
  %good_nothing = icmp eq i32 %e_nothing, 0
  ret i1 %good_nothing
tensor:
  %e = call i32 {aoti_torch_empty_strided}(i64 %rank, ptr %sizes, ptr %strides,
                                           i32 %dtype, i32 %type, i32 %index, ptr %to)
  %good = icmp eq i32 %e, 0
  ret i1 %good
}

define internal ptr @locate(ptr %record, ptr %stack, ptr %results, ptr %lent) nounwind uwtable {
entry:
  %pointer = alloca ptr, align 8
  %kind = load i64, ptr %record, align 8
  %at_index = getelementptr i64, ptr %record, i64 1
  %index = load i64, ptr %at_index, align 8
  %at_offset = getelementptr i64, ptr %record, i64 2
  %offset = load i64, ptr %at_offset, align 8
  switch i64 %kind, label %arena [ i64 0, label %argument
                                   i64 1, label %optional
                                   i64 2, label %result
                                   i64 4, label %mutable ]
argument:
  %at_value = getelementptr ptr, ptr %stack, i64 %index
  %handle = load ptr, ptr %at_value, align 8
  %e0 = call i32 {torch_get_const_data_ptr}(ptr %handle, ptr %pointer)
  br label %give
optional:
  %at_where = getelementptr ptr, ptr %stack, i64 %index
  %where = load ptr, ptr %at_where, align 8
  %inner = load ptr, ptr %where, align 8
  %e1 = call i32 {torch_get_const_data_ptr}(ptr %inner, ptr %pointer)
  br label %give
mutable:
  %at_both = getelementptr ptr, ptr %stack, i64 %index
  %both = load ptr, ptr %at_both, align 8
  %changed = load ptr, ptr %both, align 8
  %e3 = call i32 {torch_get_mutable_data_ptr}(ptr %changed, ptr %pointer)
  br label %give
result:
  %at_result = getelementptr ptr, ptr %results, i64 %index
  %made = load ptr, ptr %at_result, align 8
  %e2 = call i32 {torch_get_mutable_data_ptr}(ptr %made, ptr %pointer)
  br label %give
arena:
  %own = load ptr, ptr %lent, align 8
  store ptr %own, ptr %pointer, align 8
  br label %give
give:
  %base = load ptr, ptr %pointer, align 8
  %found = getelementptr i8, ptr %base, i64 %offset
  ret ptr %found
}

; Returns the first slot, which a launch on a GPU sets to the driver's error code.
define internal i64 @run_step(ptr %record, ptr %places) nounwind uwtable {
entry:
  %slots = alloca [MOST_SLOTS x i64], align 64
  %kernel = load ptr, ptr %record, align 8
  %at_count = getelementptr i64, ptr %record, i64 1
  %count = load i64, ptr %at_count, align 8
  %at_values = getelementptr ptr, ptr %record, i64 2
  %values = load ptr, ptr %at_values, align 8
  %at_bound = getelementptr i64, ptr %record, i64 3
  %bound = load i64, ptr %at_bound, align 8
  %at_binds = getelementptr ptr, ptr %record, i64 4
  %binds = load ptr, ptr %at_binds, align 8
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %slots, ptr %values, i64 %bytes, i1 false)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %bound
  br i1 %more, label %body, label %go
body:
  %twice = shl i64 %i, 1
  %at_slot = getelementptr i64, ptr %binds, i64 %twice
  %slot = load i64, ptr %at_slot, align 8
  %at_place = getelementptr i64, ptr %at_slot, i64 1
  %place = load i64, ptr %at_place, align 8
  %from = getelementptr ptr, ptr %places, i64 %place
  %address = load ptr, ptr %from, align 8
  %to = getelementptr ptr, ptr %slots, i64 %slot
  store ptr %address, ptr %to, align 8
  %next = add i64 %i, 1
  br label %loop
go:
  call void %kernel(ptr %slots)
  %first = load i64, ptr %slots, align 8
  ret i64 %first
}

define internal i1 @run(ptr %plan, ptr %stack, ptr %results) nounwind uwtable {
entry:
  %places = alloca [MOST_PLACES x ptr], align 8
  %lent = alloca [2 x ptr], align 8
  %at_needs = getelementptr i64, ptr %plan, i64 6
  %needs = load i64, ptr %at_needs, align 8
  %is_traced = call i1 @is_traced()
  br i1 %is_traced, label %refused, label %wanted
wanted:
  %at_device = getelementptr i64, ptr %plan, i64 8
  %device = load i64, ptr %at_device, align 8
  %is_cpu = icmp eq i64 %device, 0
  br i1 %is_cpu, label %borrowing, label %on_gpu
on_gpu:
  %may = call i1 @may_launch(ptr %plan, ptr %stack, i64 %device)
  br i1 %may, label %borrowing, label %refused
borrowing:
  %got = call i1 @borrow(i64 %needs, i64 %device, ptr %lent)
  br i1 %got, label %outputs, label %refused
refused:
  ret i1 false
outputs:
  %outputs_count = load i64, ptr %plan, align 8
  %at_outputs = getelementptr ptr, ptr %plan, i64 1
  %outputs_ = load ptr, ptr %at_outputs, align 8
  br label %output
output:
  %o = phi i64 [ 0, %outputs ], [ %o_next, %output_made ]
  %o_more = icmp ult i64 %o, %outputs_count
  br i1 %o_more, label %output_body, label %located
output_body:
  %o_word = mul i64 %o, 7
  %o_record = getelementptr i64, ptr %outputs_, i64 %o_word
  %made = call i1 @make_output(ptr %o_record, ptr %results)
  %o_next = add i64 %o, 1
  br i1 %made, label %output_made, label %failed
output_made:
  br label %output
failed:
  call void @drop_outputs(ptr %outputs_, i64 %o, ptr %results)
  call void @give_back(i64 %needs, ptr %lent)
  ret i1 false
located:
  %at_places_count = getelementptr i64, ptr %plan, i64 2
  %places_count = load i64, ptr %at_places_count, align 8
  %at_records = getelementptr ptr, ptr %plan, i64 3
  %records = load ptr, ptr %at_records, align 8
  br label %place
place:
  %p = phi i64 [ 0, %located ], [ %p_next, %place_body ]
  %p_more = icmp ult i64 %p, %places_count
  br i1 %p_more, label %place_body, label %stepping
place_body:
  %p_word = mul i64 %p, 3
  %p_record = getelementptr i64, ptr %records, i64 %p_word
  %address = call ptr @locate(ptr %p_record, ptr %stack, ptr %results, ptr %lent)
  %p_to = getelementptr ptr, ptr %places, i64 %p
  store ptr %address, ptr %p_to, align 8
  %p_next = add i64 %p, 1
  br label %place
stepping:
  %at_steps_count = getelementptr i64, ptr %plan, i64 4
  %steps_count = load i64, ptr %at_steps_count, align 8
  %at_steps = getelementptr ptr, ptr %plan, i64 5
  %steps = load ptr, ptr %at_steps, align 8
  br label %step
step:
  %s = phi i64 [ 0, %stepping ], [ %s_next, %step_body ]
  %s_more = icmp ult i64 %s, %steps_count
  br i1 %s_more, label %step_body, label %done
step_body:
  %s_word = mul i64 %s, 5
  %s_record = getelementptr i64, ptr %steps, i64 %s_word
  %first = call i64 @run_step(ptr %s_record, ptr %places)
  %s_next = add i64 %s, 1
  %no_code = icmp eq i64 %first, 0
  %launched = or i1 %is_cpu, %no_code
  br i1 %launched, label %step, label %not_launched
not_launched:
  call void @drop_outputs(ptr %outputs_, i64 %outputs_count, ptr %results)
  call void @give_back(i64 %needs, ptr %lent)
  ret i1 false
done:
  call void @give_back(i64 %needs, ptr %lent)
  ret i1 true
}

define internal void @drop_outputs_of(ptr %plan, ptr %results) nounwind uwtable {
entry:
  %count = load i64, ptr %plan, align 8
  %at_outputs = getelementptr ptr, ptr %plan, i64 1
  %outputs = load ptr, ptr %at_outputs, align 8
  call void @drop_outputs(ptr %outputs, i64 %count, ptr %results)
  ret void
}

define internal void @drop_outputs(ptr %outputs, i64 %count, ptr %results) nounwind uwtable {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %word = mul i64 %i, 7
  %record = getelementptr i64, ptr %outputs, i64 %word
  %result = load i64, ptr %record, align 8
  %at = getelementptr i64, ptr %results, i64 %result
  %handle = load i64, ptr %at, align 8
  call void @drop_tensor(i64 %handle)
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

define internal void @fail(ptr %message) uwtable {
  call void {aoti_torch_check}(i1 false, ptr @where, ptr @where, i32 1, ptr %message)
  ret void
}

; PyTorch's error message; before 2.13 it is only printed.
define internal ptr @reason_of_failure() nounwind uwtable {
entry:
  %known = icmp ne ptr {torch_exception_get_what_without_backtrace}, null
  br i1 %known, label %ask, label %plain
ask:
  %text = call ptr {torch_exception_get_what_without_backtrace}()
  ret ptr %text
plain:
  ret ptr @failed
}

@where = private constant [9 x i8] c"skipjack\\00"
@failed = private constant [57 x i8] c"PyTorch's kernel failed; what it printed above says why.\\00"
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
