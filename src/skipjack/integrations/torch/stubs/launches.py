"""Launching kernels on a GPU, on PyTorch's current stream, with the driver's functions.

Slots of ``launch``: the driver's error code (0 before the launch), the launch's configuration
(``CUlaunchConfig``, whose stream is filled in here), the function, the GPU's number, its context,
the number of arguments, and for each argument three words: the record of its descriptor, or 0; a
mask of bits that must be 0 in its address; its value. Slots of ``fill``: the error code, the
address, the byte, the count, the GPU's number, its context.

A descriptor's record: element type, rank, sizes, steps, box, element strides, swizzle.
"""

from __future__ import annotations

_SEVERAL = "Expected all tensors to be on the same device, but found at least two devices"
MOST_ARGUMENTS = 96
MOST_DESCRIPTORS = 16
LAUNCH, FILL = "launch", "fill"
LAUNCHES_TEXT = """
; The device of a tensor: its type times 256 plus its number.
define internal i64 @device_of(ptr %handle) nounwind uwtable {
entry:
  %type_ = alloca i32, align 4
  %index_ = alloca i32, align 4
  store i32 0, ptr %type_, align 4
  store i32 0, ptr %index_, align 4
  %e0 = call i32 {aoti_torch_get_device_type}(ptr %handle, ptr %type_)
  %e1 = call i32 {aoti_torch_get_device_index}(ptr %handle, ptr %index_)
  %type = load i32, ptr %type_, align 4
  %index = load i32, ptr %index_, align 4
  %shifted = shl i32 %type, 8
  %low = and i32 %index, 255
  %both = or i32 %shifted, %low
  %device = zext i32 %both to i64
  ret i64 %device
}

; Whether all arguments of a plan are on its GPU, and nondeterministic sums are allowed.
define internal i1 @may_launch(ptr %plan, ptr %stack, i64 %device) nounwind uwtable {
entry:
  %at_count = getelementptr i64, ptr %plan, i64 2
  %count = load i64, ptr %at_count, align 8
  %at_records = getelementptr ptr, ptr %plan, i64 3
  %records = load ptr, ptr %at_records, align 8
  %is_fixed = call i1 @is_deterministic()
  br i1 %is_fixed, label %no, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %further ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %yes
body:
  %word = mul i64 %i, 3
  %record = getelementptr i64, ptr %records, i64 %word
  %kind = load i64, ptr %record, align 8
  %at_index = getelementptr i64, ptr %record, i64 1
  %index = load i64, ptr %at_index, align 8
  %at_value = getelementptr ptr, ptr %stack, i64 %index
  switch i64 %kind, label %further [ i64 0, label %argument
                                     i64 1, label %optional ]
argument:
  %handle = load ptr, ptr %at_value, align 8
  br label %compare
optional:
  %where = load ptr, ptr %at_value, align 8
  %inner = load ptr, ptr %where, align 8
  br label %compare
compare:
  %tensor = phi ptr [ %handle, %argument ], [ %inner, %optional ]
  %found = call i64 @device_of(ptr %tensor)
  %is_there = icmp eq i64 %found, %device
  br i1 %is_there, label %further, label %no
further:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; PyTorch's message if two tensors are on different devices, else null.
define internal ptr @apart(ptr %one, ptr %other) nounwind uwtable {
entry:
  %first = call i64 @device_of(ptr %one)
  %second = call i64 @device_of(ptr %other)
  %same = icmp eq i64 %first, %second
  %why = select i1 %same, ptr null, ptr @several_devices
  ret ptr %why
}

@several_devices = private constant [SEVERAL_SIZE x i8] c"SEVERAL_TEXT\\00"

; Push a context if it is not current; returns it, or null if it is current already.
define internal ptr @enter(ptr %context) nounwind uwtable {
entry:
  %current_ = alloca ptr, align 8
  store ptr null, ptr %current_, align 8
  %e0 = call i32 {cuCtxGetCurrent}(ptr %current_)
  %current = load ptr, ptr %current_, align 8
  %is_so = icmp eq ptr %current, %context
  br i1 %is_so, label %done, label %push
push:
  %e1 = call i32 {cuCtxPushCurrent_v2}(ptr %context)
  ret ptr %context
done:
  ret ptr null
}

define internal void @leave(ptr %entered) nounwind uwtable {
entry:
  %popped = alloca ptr, align 8
  %none = icmp eq ptr %entered, null
  br i1 %none, label %done, label %pop
pop:
  %e = call i32 {cuCtxPopCurrent_v2}(ptr %popped)
  br label %done
done:
  ret void
}

define internal ptr @stream_of(i64 %index64) nounwind uwtable {
entry:
  %stream_ = alloca ptr, align 8
  store ptr null, ptr %stream_, align 8
  %index = trunc i64 %index64 to i32
  %e = call i32 {aoti_torch_get_current_cuda_stream}(i32 %index, ptr %stream_)
  %stream = load ptr, ptr %stream_, align 8
  ret ptr %stream
}

define internal i32 @encode(ptr %record, ptr %address, ptr %map) nounwind uwtable {
  %element64 = load i64, ptr %record, align 8
  %element = trunc i64 %element64 to i32
  %at_rank = getelementptr i64, ptr %record, i64 1
  %rank64 = load i64, ptr %at_rank, align 8
  %rank = trunc i64 %rank64 to i32
  %at_sizes = getelementptr ptr, ptr %record, i64 2
  %sizes = load ptr, ptr %at_sizes, align 8
  %at_steps = getelementptr ptr, ptr %record, i64 3
  %steps = load ptr, ptr %at_steps, align 8
  %at_box = getelementptr ptr, ptr %record, i64 4
  %box = load ptr, ptr %at_box, align 8
  %at_ones = getelementptr ptr, ptr %record, i64 5
  %ones = load ptr, ptr %at_ones, align 8
  %at_swizzle = getelementptr i64, ptr %record, i64 6
  %swizzle64 = load i64, ptr %at_swizzle, align 8
  %swizzle = trunc i64 %swizzle64 to i32
  %code = call i32 {cuTensorMapEncodeTiled}(ptr %map, i32 %element, i32 %rank, ptr %address,
                                            ptr %sizes, ptr %steps, ptr %box, ptr %ones,
                                            i32 0, i32 %swizzle, i32 2, i32 0)
  ret i32 %code
}

define void @launch(ptr %slots) nounwind uwtable {
entry:
  %config = alloca [7 x i64], align 16
  %passed = alloca [MOST_ARGUMENTS x ptr], align 8
  %maps = alloca [MOST_DESCRIPTORS x [128 x i8]], align 128
  %at_config = getelementptr ptr, ptr %slots, i64 1
  %shape = load ptr, ptr %at_config, align 8
  %at_function = getelementptr ptr, ptr %slots, i64 2
  %function = load ptr, ptr %at_function, align 8
  %at_index = getelementptr i64, ptr %slots, i64 3
  %index = load i64, ptr %at_index, align 8
  %at_context = getelementptr ptr, ptr %slots, i64 4
  %context = load ptr, ptr %at_context, align 8
  %at_count = getelementptr i64, ptr %slots, i64 5
  %count = load i64, ptr %at_count, align 8
  %arguments = getelementptr i64, ptr %slots, i64 6
  call void @llvm.memcpy.p0.p0.i64(ptr %config, ptr %shape, i64 56, i1 false)
  %stream = call ptr @stream_of(i64 %index)
  %at_stream = getelementptr ptr, ptr %config, i64 4
  store ptr %stream, ptr %at_stream, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %given ]
  %maps_made = phi i64 [ 0, %entry ], [ %maps_next, %given ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %ready
body:
  %word = mul i64 %i, 3
  %record_at = getelementptr i64, ptr %arguments, i64 %word
  %record = load ptr, ptr %record_at, align 8
  %mask_at = getelementptr i64, ptr %record_at, i64 1
  %mask = load i64, ptr %mask_at, align 8
  %value_at = getelementptr i64, ptr %record_at, i64 2
  %value = load i64, ptr %value_at, align 8
  %beyond = and i64 %value, %mask
  %aligned = icmp eq i64 %beyond, 0
  br i1 %aligned, label %kinds, label %unfit
unfit:
  store i64 -1, ptr %slots, align 8
  ret void
kinds:
  %to = getelementptr ptr, ptr %passed, i64 %i
  %next = add i64 %i, 1
  %is_plain = icmp eq ptr %record, null
  br i1 %is_plain, label %plain, label %described
plain:
  store ptr %value_at, ptr %to, align 8
  br label %given
described:
  %map = getelementptr [128 x i8], ptr %maps, i64 %maps_made
  store ptr %map, ptr %to, align 8
  %address = inttoptr i64 %value to ptr
  %encoded = call i32 @encode(ptr %record, ptr %address, ptr %map)
  %good = icmp eq i32 %encoded, 0
  br i1 %good, label %more_maps, label %unfit
more_maps:
  %maps_more = add i64 %maps_made, 1
  br label %given
given:
  %maps_next = phi i64 [ %maps_made, %plain ], [ %maps_more, %more_maps ]
  br label %loop
ready:
  %entered = call ptr @enter(ptr %context)
  %code = call i32 {cuLaunchKernelEx}(ptr %config, ptr %function, ptr %passed, ptr null)
  call void @leave(ptr %entered)
  %code64 = zext i32 %code to i64
  store i64 %code64, ptr %slots, align 8
  ret void
}

define void @fill(ptr %slots) nounwind uwtable {
entry:
  %at_address = getelementptr i64, ptr %slots, i64 1
  %address = load i64, ptr %at_address, align 8
  %at_byte = getelementptr i64, ptr %slots, i64 2
  %byte64 = load i64, ptr %at_byte, align 8
  %byte = trunc i64 %byte64 to i8
  %at_size = getelementptr i64, ptr %slots, i64 3
  %size = load i64, ptr %at_size, align 8
  %at_index = getelementptr i64, ptr %slots, i64 4
  %index = load i64, ptr %at_index, align 8
  %at_context = getelementptr ptr, ptr %slots, i64 5
  %context = load ptr, ptr %at_context, align 8
  %stream = call ptr @stream_of(i64 %index)
  %entered = call ptr @enter(ptr %context)
  %code = call i32 {cuMemsetD8Async}(i64 %address, i8 zeroext %byte, i64 %size, ptr %stream)
  call void @leave(ptr %entered)
  %code64 = zext i32 %code to i64
  store i64 %code64, ptr %slots, align 8
  ret void
}
""".replace("SEVERAL_SIZE", str(len(_SEVERAL) + 1)).replace("SEVERAL_TEXT", _SEVERAL)
